"""Notebook 1's experiments: pure shards, right summaries, honest verdicts."""

import numpy as np
import pandas as pd
import pytest

from companion import mushrooms as learning
from companion.convergence import claims, shards, tables
from companion.convergence.params import TOPOLOGIES, Params
from companion.data import mushrooms
from companion.params import AgentParams, ParameterError
from companion.problems.onehot import OneHot
from ldp_core import quantizer

SMALL = {"iterations": 20, "evaluate_every": 10, "test": 50}
LONG = {"rate_runs": 2, "rate_iterations": 100, "rate_d_0": (0.0, 2.0, 8.0), "d_0": 7.0}


@pytest.fixture(scope="module")
def data():
    return mushrooms.load(quiet=True)


def test_a_shard_does_not_depend_on_its_neighbours(data):
    (whole, _) = learning.shards(learning.Params(runs=3, **SMALL), data)
    together = learning.compute(**whole)
    for run in (2, 0):
        alone = learning.compute(**{**whole, "first_run": run, "count": 1})
        assert np.array_equal(alone["accuracy"][:, 0], together["accuracy"][:, run])
    assert together["t"].tolist() == [0, 10, 20] and together["accuracy"].shape == (3, 3, 5)


def test_runs_are_cut_into_blocks_that_cover_them_once(data):
    pieces = learning.shards(learning.Params(runs=120, **SMALL), data)
    covered = [(s["variant"], s["first_run"] + i) for s in pieces for i in range(s["count"])]
    assert len(covered) == len(set(covered)) == 240


def test_without_a_quantizer_the_step_changes_neither_the_shard_nor_its_result(data):
    one, other = (learning.Params(runs=2, d_0=d_0, **SMALL) for d_0 in (2.0, 32.0))
    twins = [learning.shards(params, data, ["unquantised"])[0] for params in (one, other)]
    assert twins[0] == twins[1]
    stated = {**twins[0], "params": {**twins[0]["params"], "d_0": 32.0}}
    found = [learning.compute(**shard)["accuracy"] for shard in (twins[0], stated)]
    assert np.array_equal(*found)


def test_summary_and_paired_difference_by_hand():
    pairs = [("quantised", 0.5, 0.1), ("unquantised", 0.4, 0.0)]
    rows = [
        (v, t, r, a, y + k * r) for v, y, k in pairs for t in (0, 5) for r in (0, 1) for a in (0, 1)
    ]
    table = pd.DataFrame(rows, columns=["variant", "t", "run", "agent", "accuracy"])
    shown, paired = tables.compared(table)
    last = shown[shown["variant"] == "quantised"].iloc[-1]
    assert last["mean"] == pytest.approx(0.55) and last["runs"] == 2
    difference, half = tables.final(paired), 1.96 * np.std([0.1, 0.2], ddof=1) / np.sqrt(2)
    assert difference["mean"] == pytest.approx(0.15) and len(paired) == 2
    assert difference["high"] - difference["mean"] == pytest.approx(half)


@pytest.mark.parametrize("variant", ["quantised", "unquantised", "dithered", "at sent"])
def test_every_variant_learns(data, variant):
    (shard,) = learning.shards(learning.Params(runs=4, iterations=80), data, [variant])
    assert learning.compute(**shard)["accuracy"][-1].mean() > 0.8


def test_other_mushrooms_than_meant_are_refused(data):
    shard = learning.shards(learning.Params(runs=1, **SMALL), data)[0]
    with pytest.raises(
        ValueError, match="the data here have SHA-256 e65d08203050, those meant 0000"
    ):
        learning.compute(**{**shard, "data": "0" * 64})


NONSENSE = {  # what a notebook can be given is tried on it in tests/faults/test_bad_parameters.py
    "unknown name": (lambda: Params(rnus=3), "rnus is not a parameter of this experiment"),
    "runs as words": (lambda: Params(runs="ten"), "runs = 'ten' is wrong: it must be a valid int"),
    "one run": (
        lambda: Params(sweep_runs=1),
        "sweep_runs = 1 is wrong: it must be greater than or",
    ),
    "less than no runs": (lambda: Params(rate_runs=-2), "equal to 2, or 0 to leave this part out"),
    "rates without twin": (lambda: Params(rate_d_0=(2.0,)).check(), r"= \[2.0\] must hold 0"),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_is_one_sentence(name):
    act, sentence = NONSENSE[name]
    with pytest.raises(ParameterError, match=sentence) as caught:
        act()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_topologies_have_five_agents(topology):
    assert AgentParams(topology=topology).network().agents == 5


def test_the_optimum_is_one(data):
    features = OneHot(data.codes, data.sizes)
    best = shards.optimum(features, data.labels, 0.1)
    assert best.gap <= shards.OPTIMUM_GAP
    rng, rows = np.random.default_rng(0), features.dense()
    for theta in best.theta + 0.1 * rng.normal(size=(20, features.dim)):
        loss = np.logaddexp(0, -data.labels * (rows @ theta)).mean() + 0.05 * theta @ theta
        assert loss > best.value


def test_mushrooms_are_separable_and_a_contradiction_is_not(data):
    assert tables.largest_margin(OneHot(data.codes, data.sizes), data.labels) > 0.1
    same = OneHot(np.zeros((2, 1), dtype=int), (2,))
    assert tables.largest_margin(same, np.array([1.0, -1.0])) == pytest.approx(0.0)


def power_laws(exponents: dict[tuple[str, float], float]) -> pd.DataFrame:
    """Return series in which every measure is t**exponent, with noise that differs between runs."""
    t, rng, tables = shards.times(10_000), np.random.default_rng(1), []
    for (variant, d_0), exponent in exponents.items():
        for run in range(6):
            noise = {name: np.exp(0.02 * rng.normal(size=len(t))) for name in shards.MEASURES}
            found = {name: t**exponent * factor for name, factor in noise.items()}
            tables.append(
                pd.DataFrame({"variant": variant, "d_0": d_0, "run": run, "t": t, **found})
            )
    return pd.concat(tables, ignore_index=True)


def paper_slopes(exponents: dict[float, float], **ours: float) -> pd.DataFrame:
    """Return fitted slopes by d_0, 0 for the twin; our variants at d_0 = 2 have the same as it."""
    names = {
        ("quantised" if d_0 else "unquantised", d_0): slope for d_0, slope in exponents.items()
    }
    own = {"dithered": exponents[2.0], "at sent": exponents[2.0], **ours}
    return tables.slopes(power_laws(names | {(name, 2.0): slope for name, slope in own.items()}))


def test_slopes_of_power_laws():
    slopes = paper_slopes({0.0: -1.0, 2.0: -0.4}).set_index(["variant", "d_0", "measure"])
    for kind, exponent in ((("unquantised", 0.0), -1.0), (("quantised", 2.0), -0.4)):
        fitted = slopes.loc[(*kind, "gap")]
        assert fitted["slope"] == pytest.approx(exponent, abs=0.02)
        assert fitted["low"] < fitted["slope"] < fitted["high"] and fitted["runs"] == 6


def test_times_are_increasing_and_end_at_the_horizon():
    t = shards.times(777)
    assert t[0] == 1 and t[-1] == 777 and (np.diff(t) > 0).all()


def paired(quantised=(0.0, -0.001, 0.001), dithered=(0.0, -0.001, 0.001)) -> pd.DataFrame:
    rows = [("quantised", 9, *quantised), ("dithered", 9, *dithered)]
    return pd.DataFrame(rows, columns=["variant", "t", "mean", "low", "high"])


NO_LOSS = tables.lost(pd.DataFrame())


def verdict_of(key, exponents, found=None, lost=NO_LOSS, margin=0.5, **ours):
    slopes = paper_slopes(exponents, **ours)
    rows = claims.verdicts(paired() if found is None else found, slopes, margin, 0.71, lost)
    return next(row for row in rows if row.key == key)


def test_verdicts_follow_the_numbers():
    fast, slow = {0.0: -1.5, 2.0: -1.2, 8.0: -1.1}, {0.0: -1.5, 2.0: -0.5, 8.0: -0.2}
    mixed, same = {0.0: -1.5, 2.0: -1.3, 8.0: -0.5}, {0.0: -1.0, 2.0: -1.0}
    assert verdict_of("remark-2-consensus", fast).verdict == "holds"
    assert verdict_of("remark-2-consensus", slow).verdict == "does not hold"
    assert verdict_of("remark-2-consensus", mixed).sentence == "holds if d_0 = 2 (of those tried)"
    assert verdict_of("remark-2-consensus", same).verdict == "cannot be checked"
    assert verdict_of("remark-2-no-price", slow).verdict == "does not hold"
    assert verdict_of("remark-2-no-price", same).verdict == "cannot be checked"
    assert verdict_of("remark-2-no-price", {0.0: -1.0, 2.0: -1.4}).verdict == "holds"
    assert verdict_of("theorem-1-a", {0.0: -1.0, 2.0: 0.0}).verdict == "cannot be checked"
    assert verdict_of("theorem-1-a", {0.0: -1.0, 2.0: 0.5}).verdict == "does not hold"
    assert verdict_of("theorem-1-b", {0.0: -1.0, 2.0: 0.5}).verdict == "does not hold"
    assert verdict_of("assumption-1", fast, margin=0.0).verdict == "holds if"


INTERVALS = {
    "holds": (-0.001, 0.001),
    "cannot be checked": (-0.04, 0.04),
    "does not hold": (-0.04, -0.02),
}


@pytest.mark.parametrize("verdict", INTERVALS)
def test_accuracies_within_a_point_are_comparable(verdict):
    exponents = {0.0: -1.0, 2.0: -0.5}
    quantised, dithered = (
        paired(quantised=(0.0, *INTERVALS[verdict])),
        paired(dithered=(0.0, *INTERVALS[verdict])),
    )
    assert verdict_of("figure-2", exponents, quantised).verdict == verdict
    assert verdict_of("ours-dither-converges", exponents, dithered).verdict == verdict


def test_a_slower_variant_of_ours_is_found_out():
    exponents, slower = {0.0: -1.0, 2.0: -0.5}, {"at sent": -0.1}
    assert verdict_of("ours-dither-converges", exponents, dithered=-0.1).verdict == "does not hold"
    assert verdict_of("ours-sent-converges", exponents, **slower).verdict == "does not hold"
    assert verdict_of("ours-sent-converges", exponents).verdict == "holds"


def test_without_long_runs_there_are_no_verdicts_on_rates():
    rows = claims.verdicts(paired(), tables.slopes(pd.DataFrame()), 0.5, 0.71, NO_LOSS)
    assert [row.key for row in rows] == ["assumption-1", "remark-1", "figure-2"]


def test_our_long_runs_differ_from_the_plain_ones_and_use_the_nearest_step(data):
    series = shards.long_runs(Params(**LONG), data)
    last = series[series["t"] == 100].groupby(["variant", "d_0"])["consensus"].mean()
    assert set(last.index) == {
        ("unquantised", 0.0), ("quantised", 2.0), *((v, 8.0) for v in ("quantised", *shards.OURS))
    }  # fmt: skip
    assert len(set(last.round(12))) == len(last)


def test_at_sent_values_means_smoother_coins_and_gradients_at_what_was_sent():
    algorithm = learning.varied(AgentParams().algorithm(), "at sent", seed=1).plain
    assert algorithm.at_sent and algorithm.degree == learning.SMOOTH and algorithm.dither
    rng = np.random.default_rng(2)
    coins, U = rng.random(200_000), rng.random(200_000)
    levels = quantizer.quantise(np.full(coins.shape, 0.3), 1.0, coins, U, learning.SMOOTH)
    error = quantizer.value(levels, 1.0, U) - 0.3
    assert error.mean() == pytest.approx(0.0, abs=6 * np.sqrt(1 / 3 / 200_000))  # false alarm: 2e-9
    assert error.var() == pytest.approx((learning.SMOOTH + 1) / 12, rel=0.02)


def test_breaking_step_and_paired_loss():
    cases = [
        (d_0, variant, run) for d_0 in (2.0, 8.0) for variant in learning.PAPER for run in range(3)
    ]
    rows = [("paper", 0.2, *case, 0.7 if case[:2] == (8.0, "quantised") else 0.9) for case in cases]
    names = ["topology", "weight", "d_0", "variant", "run", "accuracy"]
    lost = tables.lost(pd.DataFrame(rows, columns=names))
    assert tables.breaking_steps(lost, 0.05) == {0.2: 8.0}
    assert lost.set_index("d_0")["mean"].to_dict() == pytest.approx({2.0: 0.0, 8.0: -0.2})
    found = verdict_of("figure-2", {0.0: -1.0, 2.0: -1.0}, lost=lost)
    assert "weight 0.2: from d_0 = 8" in found.condition


def test_growth_on_a_graph_that_assumption_4_allows():
    assert tables.growth_without_u() > 1.05
    assert tables.growth_without_u(back=0.3) == pytest.approx(1.0, abs=1e-9)
    found = verdict_of("remark-1", {0.0: -1.0, 2.0: -1.0})
    assert found.condition.startswith("G_R is strongly connected")
