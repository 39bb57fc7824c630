"""The frontier of Algorithm 1 and its neighbours: shards, the search, and verdicts."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest

from companion import claims
from companion.budget import claims as verdicts
from companion.budget import neighbour_tables, neighbours
from companion.budget.params import Params
from companion.mushrooms import problem
from companion.neighbours import bench as shared
from companion.neighbours import tables
from companion.neighbours.bench import MEASURES, MECHANISMS, REFERENCES, Choice
from companion.neighbours.mechanisms import bounds
from ldp_core.accountant import exact
from ldp_core.accountant.promise import certify as promised

SMALL = Params(
    neighbour_runs=3,
    neighbour_iterations=20,
    promise_warm_up=30,
    neighbour_targets=(0.25,),
    neighbour_pushes=(10.0,),
    neighbour_nu=(0.9,),
    test=300,
)


@pytest.fixture(scope="module")
def data():
    return problem("none")[0]


@pytest.fixture(scope="module")
def results(data, tmp_path_factory):
    patch = pytest.MonkeyPatch()
    patch.setenv("LDP_CACHE", str(tmp_path_factory.mktemp("cache")))
    patch.setenv("WORKERS", "1")
    tried = neighbours.search(SMALL, data)
    best = shared.chosen(tried)
    yield tried, best, neighbours.run(SMALL, data, best)
    patch.undo()


@pytest.fixture(scope="module")
def table(data, results):
    return neighbour_tables.compared(SMALL, data).found


def test_every_mechanism_is_searched_over_a_grid_of_the_same_size(results):
    tried, best, _ = results
    sizes = tried.groupby(["mechanism", "target"]).size()
    assert sizes.nunique() == 1 and sizes.iloc[0] == 2
    assert set(tried["mechanism"]) == {*MECHANISMS, *REFERENCES}
    for measure in MEASURES:
        own = best[best["measure"] == measure].set_index(["mechanism", "target"])[measure]
        assert (own == tried.groupby(["mechanism", "target"])[measure].max()[own.index]).all()


def test_test_rows_are_never_learnt_from_nor_tuned_on(data):
    test, held_out, train = neighbours.rows(SMALL, len(data.labels))
    assert not set(test) & set(train) and set(held_out) < set(train)
    assert (
        len(test) == 300
        and len(held_out) == neighbours.HELD_OUT
        and len(train) == len(data.labels) - 300
    )


def test_noise_is_calibrated_to_the_target_and_no_more(data):
    bench = neighbours.bench_of(SMALL, data.sizes)
    for name in MECHANISMS:
        choice = shared.candidates(SMALL, name, SMALL.promise_clip)[0]
        (d_0,) = shared.calibrated(bench, name, choice, [0.1])
        for factor, fits in ((1.0, True), (0.999, False)):
            algorithm = shared.build(bench, name, choice, (d_0 * factor).tolist())
            shifts = bench.shifts(algorithm, 20)
            found = bounds(algorithm, shifts, d_0 * factor, bench.spread)["delta"]
            assert ((found <= 0.1) == fits).all(), name


def test_ours_is_certified_by_the_promise_itself(data):
    bench = neighbours.bench_of(SMALL, data.sizes)
    algorithm = shared.build(bench, "spline", Choice(100.0, 0.9, 0.51), (3.0,) * 5)
    found = bounds(algorithm, bench.shifts(algorithm, 20), np.full(5, 3.0))["delta"]
    assert found == pytest.approx(promised(bench.terms(algorithm), 20).delta, rel=1e-6)


def test_the_spread_is_the_l1_norm_of_every_centred_row(data):
    features, bench = problem("none")[1], neighbours.bench_of(SMALL, data.sizes)
    rows = features.dense(slice(0, 50)) @ neighbours.centred.matrix(features.sizes).T
    assert np.abs(rows).sum(axis=1) == pytest.approx(bench.spread, rel=1e-9)
    assert np.linalg.norm(bench.row) == pytest.approx(1.0)


def test_a_shard_is_pure_and_blocks_join(data, results):
    one = results[1].iloc[0]
    common = neighbours._common(SMALL, data) | {"mechanism": one["mechanism"], "d_0": one["d_0"]}
    common |= {"choice": [one["lam_0"], one["nu"], one["third"]]}
    whole = neighbours.compute(**common, first_run=0, count=3)
    part = neighbours.compute(**common, first_run=2, count=1)
    assert np.array_equal(whole["own"][2:], part["own"])
    assert np.array_equal(whole["listener"][2:], part["listener"])
    with pytest.raises(ValueError, match="those meant 0000"):
        neighbours.compute(**common | {"data": "0" * 64}, first_run=0, count=1)


def test_the_bench_is_the_search_and_the_runs_or_is_left_out(data, results, table):
    assert (
        neighbour_tables.compared(SMALL.model_copy(update={"neighbour_targets": ()}), data) is None
    )
    assert neighbour_tables.frontier(None, "") is None
    found = neighbour_tables.compared(SMALL, data)
    assert found.tried.equals(results[0]) and found.found.equals(table)
    numbers = json.loads(json.dumps(found.numbers(), allow_nan=False))
    assert len(numbers["frontier"]) == len(table) and numbers["frontier"][0]["bits"] > 0
    assert len(numbers["tried"]) == len(results[0])
    assert all(0 < row["attained"] <= row["certified"] for row in numbers["frontier"])


def test_what_is_attained_is_never_above_what_is_certified(table):
    assert (table["certified"] <= table["target"] * (1 + 1e-9)).all()
    assert set(table["mechanism"]) == set(MECHANISMS) and table["within"].eq(20).all()
    share = (table["attained"] / table["certified"]).groupby(table["mechanism"]).min()
    assert (share <= 1 + 1e-9).all() and (share > 0.6).all()
    exact = table[table["mechanism"] == "tracking"]
    assert exact["attained"].to_numpy() == pytest.approx(exact["certified"].to_numpy(), rel=1e-6)
    assert (table["one_iteration"] <= table["certified"] + 1e-12).all()
    assert (table["for_ever"] >= table["certified"] - 1e-12).all()


def test_the_papers_messages_are_told_apart_as_exactly_as_the_accountant_says(data):
    """One world on the grid, the other to either side of it: theta and psi move in opposite
    ways."""
    bench = neighbours.bench_of(SMALL, data.sizes)
    algorithm = shared.build(bench, "paper", Choice(100.0, 0.9, 0.51), (300.0,) * 5)
    apart = np.multiply.outer(shared._apart(bench, algorithm, 20), bench.row)
    assert apart[:, :, 0].min() < 0 < apart[:, :, 1].max()
    truth = [exact.delta(exact.pair(0.0, apart[:, i].ravel(), 1.0))[0] for i in range(5)]
    assert shared.reached(bench, algorithm, 20) == pytest.approx(max(truth), rel=1e-9)


def test_bits_count_all_that_is_sent(table):
    bits = table[table["measure"] == "own"].set_index("mechanism")["bits"]
    assert bits["gaussian"] == bits["tracking"] == 2 * bits["laplace"] == 64
    assert bits["ternary"] == 2 and 2 < bits["spline"] < 64


def test_the_figure_shows_every_mechanism_and_reference(table, results):
    lines = tables.references(results[2])
    assert list(lines.groupby("measure").size()) == [1, 2]
    bench = tables.Compared("effort", results[0], table, lines)
    figure = neighbour_tables.frontier(bench, "caption")
    shown = figure.axes[0].get_legend_handles_labels()[1]
    hollow = [line for line in figure.axes[0].lines if line.get_markerfacecolor() == "white"]
    reached = table[table["measure"] == "own"].set_index("mechanism").loc[list(MECHANISMS)]
    assert np.concatenate([line.get_xdata() for line in hollow]).tolist() == [*reached["attained"]]
    assert len(shown) == len(MECHANISMS) + len(REFERENCES) + 1


def frame(**changes) -> pd.DataFrame:
    """Return a made-up frontier of one target; changes are {mechanism: {column: value}}."""
    plain = {"target": 0.1, "accuracy": 0.9, "accuracy_low": 0.899, "accuracy_high": 0.901}
    plain |= {"lost": 0.0, "lost_low": -0.001, "lost_high": 0.001, "bits": 10.0, "for_ever": 0.2}
    plain |= {"attained": 0.09, "certified": 0.1, "one_iteration": 0.01}
    floats = {name: {"bits": 64.0} for name in ("gaussian", "tracking", "laplace")}
    records = [
        plain
        | {"measure": "own", "mechanism": name, "name": MECHANISMS[name]}
        | floats.get(name, {})
        | changes.get(name, {})
        for name in MECHANISMS
    ]
    return pd.DataFrame(records)


NEITHER = {"lost_low": 0.0, "lost_high": 0.02}
CASES = {
    ("ternary-degenerates", "holds"): frame(ternary={"attained": 0.995, "for_ever": 1.0}),
    ("ternary-degenerates", "holds if"): frame(),
    ("stronger-than-per-iteration", "holds if"): frame(),
    ("stronger-than-per-iteration", "does not hold"): frame(paper={"one_iteration": 0.3}),
    ("stronger-than-per-iteration", "cannot be checked"): frame(paper={"for_ever": math.nan}),
    ("no-tradeoff", "holds"): frame(),
    ("no-tradeoff", "does not hold"): frame(paper={"lost_low": 0.02, "lost_high": 0.03}),
    ("no-tradeoff", "cannot be checked"): frame(paper=NEITHER),
    ("no-tradeoff", "holds if"): pd.concat([frame(), frame(paper=NEITHER).assign(target=0.2)]),
    ("less-overhead", "holds"): frame(),
    ("less-overhead", "holds if"): frame(gaussian={"bits": 5.0}),
    ("less-overhead", "does not hold"): frame(paper={"bits": 99.0}, spline={"bits": 99.0}),
    ("less-overhead", "cannot be checked"): frame(
        paper={"accuracy_low": 0.88, "accuracy_high": 0.9},
        spline={"accuracy_low": 0.88, "accuracy_high": 0.9},
    ),
}


@pytest.mark.parametrize(("key", "verdict"), CASES, ids=str)
def test_every_rule_reaches_its_verdicts(key, verdict):
    found = {claim.key: claim for claim in verdicts.neighbours(CASES[key, verdict], 20)}
    assert found[key].verdict == verdict and found[key].reason and found[key].ours


def test_the_first_rule_reaches_the_other_verdicts():
    """Its first case does not depend on runs: without it the claim is refuted, or undecided."""
    refuted = {"case": "a", "delta_low": 0.1, "delta_high": 0.2}
    undecided = {"case": "a", "delta_low": 0.1, "delta_high": 1.0}
    numbers = {"step": 0.1, "long": 10, "apart": 0.5, "iterations": 20, "faded": []}
    for case, verdict in ((refuted, "does not hold"), (undecided, "cannot be checked")):
        assert claims.judge("ternary-degenerates", case, **numbers).verdict == verdict


def test_deltas_that_do_not_fade_add_up():
    assert neighbour_tables.apart_for_ever(0.1, 1) == pytest.approx(0.1)
    assert neighbour_tables.apart_for_ever(0.1, 2) == pytest.approx(0.19)
    assert neighbour_tables.apart_for_ever(1e-3) > 0.99
