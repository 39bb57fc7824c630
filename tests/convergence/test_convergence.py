"""Notebook 1's experiments: pure shards, right summaries, honest verdicts, one sentence for nonsense."""

import numpy as np
import pandas as pd
import pytest

from companion import mushrooms as convergence
from companion.convergence import claims as convergence_verdicts
from companion.convergence import rates, sweeps
from companion.convergence import tables as convergence_tables
from companion.data import mushrooms
from companion.params import AgentParams, ParameterError
from companion.problems.onehot import OneHot


@pytest.fixture(scope="module")
def data():
    return mushrooms.load(quiet=True)


SMALL = {"iterations": 20, "evaluate_every": 10, "test": 50}


def test_a_shard_does_not_depend_on_its_neighbours(data):
    params = convergence.Params(runs=3, **SMALL)
    (whole, _) = convergence.shards(params, data)
    together = convergence.compute(**whole)
    for run in (2, 0):
        alone = convergence.compute(**{**whole, "first_run": run, "count": 1})
        assert np.array_equal(alone["accuracy"][:, 0], together["accuracy"][:, run])
    assert together["t"].tolist() == [0, 10, 20] and together["accuracy"].shape == (3, 3, 5)


def test_runs_are_cut_into_blocks_that_cover_them_once(data):
    params = convergence.Params(runs=120, **SMALL)
    covered = [(s["variant"], s["first_run"] + i) for s in convergence.shards(params, data) for i in range(s["count"])]
    assert len(covered) == len(set(covered)) == 240


def test_summary_and_paired_difference_by_hand():
    table = pd.DataFrame(
        [("quantised", 0, r, a, 0.5 + 0.1 * r) for r in (0, 1) for a in (0, 1)]
        + [("unquantised", 0, r, a, 0.4) for r in (0, 1) for a in (0, 1)],
        columns=["variant", "t", "run", "agent", "accuracy"],
    )
    shown = convergence.summary(table).set_index("variant")
    assert shown.loc["quantised", "mean"] == pytest.approx(0.55) and shown.loc["quantised", "runs"] == 2
    difference = convergence.paired_difference(table)
    assert difference["mean"] == pytest.approx(0.15)
    assert difference["high"] - difference["mean"] == pytest.approx(1.96 * np.std([0.1, 0.2], ddof=1) / np.sqrt(2))


def test_both_variants_learn_on_the_same_data(data):
    params = convergence.Params(runs=4, iterations=80)
    for shard in convergence.shards(params, data):
        assert convergence.compute(**shard)["accuracy"][-1].mean() > 0.8


def test_other_mushrooms_than_meant_are_refused(data):
    shard = convergence.shards(convergence.Params(runs=1, **SMALL), data)[0]
    with pytest.raises(ValueError, match="the mushrooms here have SHA-256"):
        convergence.compute(**{**shard, "data": "0" * 64})


NONSENSE = {
    "s above nu": (lambda: AgentParams(varsigma=0.7).algorithm(), "max varsigma = 0.75 must be below nu = 0.71"),
    "nu": (lambda: AgentParams(nu=1.2).algorithm(), r"nu = 1.2 must lie in \(1/2, 1\)"),
    "negative d_0": (lambda: AgentParams(d_0=-1.0), "d_0 = -1.0 is wrong: it must be greater than 0"),
    "NaN": (lambda: AgentParams(lam_0=float("nan")), "lam_0 = nan is wrong: it must be a finite number"),
    "weight": (lambda: AgentParams(weight=0.6).algorithm(), r"1 \+ R_ii = .* must be positive \(Assumption 4\)"),
    "topology": (lambda: AgentParams(topology="star"), "topology = 'star' is wrong: it must be 'paper', 'ring'"),
    "zero runs": (lambda: convergence.Params(runs=0), "runs = 0 is wrong: it must be greater than or equal to 1"),
    "runs as words": (lambda: convergence.Params(runs="ten"), "runs = 'ten' is wrong: it must be a valid integer"),
    "runs as a fraction": (lambda: convergence.Params(runs=1.5), "runs = 1.5 is wrong: it must be a valid integer"),
    "negative seed": (lambda: convergence.Params(seed=-1), "seed = -1 is wrong"),
    "unknown name": (lambda: convergence.Params(rnus=3), "rnus is not a parameter of this experiment"),
    "test split": (lambda: convergence.Params(test=8124).check(8124), "test = 8124 must be below 8124"),
    "evaluation": (
        lambda: convergence.Params(iterations=10).check(8124),
        "evaluate_every = 40 must not exceed iterations = 10",
    ),
    "normalise": (lambda: convergence.Params(normalise="max"), "normalise = 'max' is wrong: it must be 'none', 'l1' or 'l2'"),
    "rates without twin": (lambda: rates.Params(rate_d_0=(2.0,)).check(), r"rate_d_0 = \[2.0\] must hold 0"),
    "one rate run": (lambda: rates.Params(rate_runs=1), "rate_runs = 1 is wrong"),
    "sweep weight": (lambda: sweeps.Params(sweep_weights=(0.9,)).check(), r"must be positive \(Assumption 4\)"),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_is_one_sentence(name):
    act, sentence = NONSENSE[name]
    with pytest.raises(ParameterError, match=sentence) as caught:
        act()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("topology", sweeps.TOPOLOGIES)
def test_topologies_have_five_agents(topology):
    assert AgentParams(topology=topology).network().agents == 5


def test_the_optimum_is_one(data):
    features = OneHot(data.codes, data.sizes)
    best = rates.optimum(features, data.labels, 0.1)
    assert best.gap <= rates.OPTIMUM_GAP
    rng = np.random.default_rng(0)
    rows = features.dense()
    for _ in range(20):
        theta = best.theta + 0.1 * rng.normal(size=features.dim)
        assert np.logaddexp(0, -data.labels * (rows @ theta)).mean() + 0.05 * theta @ theta > best.value


def test_mushrooms_are_separable_and_a_contradiction_is_not(data):
    features = OneHot(data.codes, data.sizes)
    assert convergence_tables.largest_margin(features, data.labels) > 0.1
    same = OneHot(np.zeros((2, 1), dtype=int), (2,))
    assert convergence_tables.largest_margin(same, np.array([1.0, -1.0])) == pytest.approx(0.0)


def power_laws(exponents: dict[float, float]) -> pd.DataFrame:
    """Return a table in which every measure is t**exponent with noise that differs from run to run."""
    t = rates.times(10_000)
    rng = np.random.default_rng(1)
    rows = [
        pd.DataFrame(
            {
                "t": t,
                "run": run,
                "d_0": d_0,
                **{m: t**exponent * np.exp(0.02 * rng.normal(size=len(t))) for m in rates.MEASURES},
            }
        )
        for d_0, exponent in exponents.items()
        for run in range(6)
    ]
    return pd.concat(rows, ignore_index=True)


def test_slopes_of_power_laws():
    slopes = rates.slopes(power_laws({0.0: -1.0, 2.0: -0.4})).set_index(["d_0", "measure"])
    for d_0, exponent in ((0.0, -1.0), (2.0, -0.4)):
        fitted = slopes.loc[(d_0, "gap")]
        assert fitted["slope"] == pytest.approx(exponent, abs=0.02) and fitted["low"] < fitted["slope"] < fitted["high"]


def test_times_are_increasing_and_end_at_the_horizon():
    t = rates.times(777)
    assert t[0] == 1 and t[-1] == 777 and (np.diff(t) > 0).all()


def verdict_of(key, exponents, difference=(0.0, -0.001, 0.001), breaking=None, margin=0.5):
    slopes = rates.slopes(power_laws(exponents))
    rows = convergence_verdicts.verdicts(
        dict(zip(("mean", "low", "high"), difference, strict=True)), slopes, margin, 0.71, breaking or {0.2: None}
    )
    return next(row for row in rows if row.key == key)


def test_verdicts_follow_the_numbers():
    fast, slow = {0.0: -1.5, 2.0: -1.2, 8.0: -1.1}, {0.0: -1.5, 2.0: -0.5, 8.0: -0.2}
    mixed = {0.0: -1.5, 2.0: -1.3, 8.0: -0.5}
    assert verdict_of("remark-2-consensus", fast).verdict == "holds"
    assert verdict_of("remark-2-consensus", slow).verdict == "does not hold"
    assert verdict_of("remark-2-consensus", mixed).sentence == "holds if d_0 = 2 (of those tried)"
    assert verdict_of("remark-2-consensus", {0.0: -1.0, 2.0: -1.0}).verdict == "cannot be checked"
    assert verdict_of("remark-2-no-price", slow).verdict == "does not hold"
    assert verdict_of("remark-2-no-price", {0.0: -1.0, 2.0: -1.0}).verdict == "cannot be checked"
    assert verdict_of("remark-2-no-price", {0.0: -1.0, 2.0: -1.4}).verdict == "holds"
    assert verdict_of("theorem-1-a", {0.0: -1.0, 2.0: 0.0}).verdict == "cannot be checked"
    assert verdict_of("theorem-1-a", {0.0: -1.0, 2.0: 0.5}).verdict == "does not hold"
    assert verdict_of("theorem-1-b", {0.0: -1.0, 2.0: 0.5}).verdict == "does not hold"
    assert verdict_of("figure-2", fast).verdict == "holds"
    assert verdict_of("figure-2", fast, difference=(-0.03, -0.04, -0.02)).verdict == "does not hold"
    assert verdict_of("figure-2", fast, difference=(0.0, -0.04, 0.04)).verdict == "cannot be checked"
    assert "weight 0.3: from d_0 = 8" in verdict_of("figure-2", fast, breaking={0.3: 8.0}).condition
    assert verdict_of("assumption-1", fast, margin=0.0).verdict == "holds if"


@pytest.mark.parametrize(
    ("exponent", "interval", "verdict"),
    [
        (-0.5, (-0.001, 0.001), "holds"),
        (-0.5, (-0.04, 0.04), "cannot be checked"),
        (-0.5, (-0.04, -0.02), "does not hold"),
        (-0.1, (-0.001, 0.001), "does not hold"),
    ],
)
def test_the_row_on_the_dither_follows_the_numbers(exponent, interval, verdict):
    slopes = rates.slopes(power_laws({0.0: -1.0, 2.0: -0.5}))
    dithered = rates.slopes(power_laws({2.0: exponent}))
    (row,) = convergence_verdicts.ours(dict(zip(("mean", "low", "high"), (0.0, *interval), strict=True)), dithered, slopes)
    assert row.verdict == verdict and row.ours_to_prove


def test_the_dithered_long_runs_differ_from_the_plain_ones_and_use_the_nearest_step(data):
    params = rates.Params(rate_runs=2, rate_iterations=100, rate_d_0=(0.0, 2.0, 8.0), d_0=7.0)
    plain, dithered = rates.run(params, data), rates.run_dithered(params, data)
    assert set(dithered["d_0"]) == {8.0}
    same_step = plain[plain["d_0"] == 8.0].reset_index(drop=True)
    assert not np.allclose(same_step["consensus"], dithered["consensus"])


def test_breaking_step_and_paired_loss():
    rows = [("paper", 0.2, d_0, variant, run, 0.9 - (0.2 if d_0 == 8 and variant == "quantised" else 0.0))
            for d_0 in (2.0, 8.0) for variant in ("quantised", "unquantised") for run in range(3)]  # fmt: skip
    table = pd.DataFrame(rows, columns=["topology", "weight", "d_0", "variant", "run", "accuracy"])
    assert sweeps.breaking_step(table) == {0.2: 8.0}
    lost = sweeps.loss_of_accuracy(table).set_index("d_0")["mean"]
    assert lost[2.0] == pytest.approx(0.0) and lost[8.0] == pytest.approx(-0.2)


def test_growth_on_a_graph_that_assumption_4_allows():
    assert convergence_tables.growth_without_u() > 1.05
    assert convergence_tables.growth_without_u(back=0.3) == pytest.approx(1.0, abs=1e-9)
    assert verdict_of("remark-1", {0.0: -1.0, 2.0: -1.0}).condition.startswith("G_R is strongly connected")
