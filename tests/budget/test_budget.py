"""Notebook 2: budgets obey their inequalities, do not depend on how work is cut, and refuse
nonsense in one sentence."""

import dataclasses
import json
import math
import re

import numpy as np
import pandas as pd
import pytest

from companion.budget import bounds, cases, claims, shards, tables, worst
from companion.budget.params import NORMALISATIONS, Params, Setting
from companion.claims import judge
from companion.data import mushrooms
from companion.params import ParameterError
from ldp_core import quantizer
from ldp_core.accountant import trajectory

DATA = mushrooms.load(quiet=True)
SHA = DATA.provenance.sha256
SETTING = Setting(iterations=30, normalise="l2")


@pytest.fixture(scope="module")
def scene():
    return shards.record(SETTING, SHA, range(2))


@pytest.fixture(scope="module")
def computed():
    return {
        arrival: shards.compute(SETTING.model_dump(), SHA, arrival, 4, 0, 2)
        for arrival in shards.ARRIVALS
    }


def test_spent_is_the_accountants_budget(scene):
    """The sum over time, started where a data point arrives, is that of `trajectory.budget` over
    the whole run."""
    k, point = shards.modifications(scene, 0, 1, 3, 30)  # more than ROWS: two batches
    assert len(k) > shards.ROWS
    start = np.zeros((1, scene.features.dim))
    history = scene.history[1, 3]
    whole = trajectory.budget(
        scene.algorithm,
        3,
        scene.received(1, 3),
        scene.problem(history[None, None]),
        scene.problem(worst.adjacent(history, k, point)),
        start,
        modifications=len(k),
    )
    np.testing.assert_allclose(shards.spent(scene, 1, 3, k, point), whole.paper, rtol=1e-12, atol=0)


def test_shapes_and_the_largest_agent(computed):
    for arrival, result in computed.items():
        assert result["t"].tolist() == shards.times(30).tolist() and result["t"][-1] == 30
        assert result["delta"].shape == (len(result["t"]), 2, 4) and result["last"].shape == (
            2,
            4,
            5,
        )
        np.testing.assert_array_equal(result["delta"][-1], result["last"].max(axis=-1))
        assert (np.diff(result["delta"], axis=0) >= 0).all() and (result["delta"][0] == 0).all()
        assert (result["k"] == 0).all() == (arrival == "first")


def test_nothing_is_spent_before_the_message_after_arrival(computed):
    """The data point of time k first moves the state that is sent at k + 1: nothing is spent in the
    first k + 1 iterations."""
    result = computed["uniform"]
    earliest = result["k"].min(axis=-1)
    for t, delta in zip(result["t"], result["delta"], strict=True):
        assert (delta[t <= earliest + 1] == 0).all()
        assert (delta[t >= earliest + 2] > 0).all()


def test_results_do_not_depend_on_how_runs_are_cut(computed):
    for run in range(2):
        alone = shards.compute(SETTING.model_dump(), SHA, "uniform", 4, run, 1)
        for name in ("delta", "last", "k"):
            axis = 1 if name == "delta" else 0
            np.testing.assert_array_equal(
                alone[name].take(0, axis), computed["uniform"][name].take(run, axis)
            )


def test_modifications_do_not_depend_on_their_number(scene):
    few, many = shards.modifications(scene, 0, 0, 2, 2), shards.modifications(scene, 0, 0, 2, 5)
    np.testing.assert_array_equal(few[0], many[0][:2])
    np.testing.assert_array_equal(few[1], many[1][:2])
    other = shards.modifications(scene, 1, 0, 2, 5)
    assert (many[1] != other[1]).any()


def test_wrong_data_are_refused():
    with pytest.raises(ValueError, match="those meant 0000"):
        shards.compute(SETTING.model_dump(), "0" * 64, "first", 1, 0, 1)


@pytest.mark.parametrize(("k", "rows"), [(0, 0), (5, 0), (5, 20)])
def test_the_sandwich(k, rows):
    """paper >= sum >= product >= exact >= audit.

    The audit fails with probability at most 0.001, at a fixed seed.
    """
    found = cases.compute(SETTING.model_dump(), SHA, k, 0, 1, rows, 2000, 300)
    for larger, smaller in (
        ("paper", "sum"),
        ("sum", "product"),
        ("product", "lower"),
        ("upper", "lower"),
    ):
        assert (found[larger] >= found[smaller] - 1e-9).all(), (larger, smaller)
    assert 0.0 < found["audit"][0] <= found["upper"][0, found["agent"][0]]
    assert (found["k"] == k).all()


def test_the_worst_found_is_worse_than_random():
    random = cases.compute(SETTING.model_dump(), SHA, 3, 0, 1)
    chosen = cases.compute(SETTING.model_dump(), SHA, 3, 0, 1, rows=200)
    assert (chosen["paper"] > random["paper"]).all()


@pytest.mark.parametrize("k", [0, 5, None])
def test_what_is_largest_does_not_depend_on_cheap_bounds(monkeypatch, k):
    cheap = cases.compute(SETTING.model_dump(), SHA, k, 0, 1)
    monkeypatch.setattr(cases, "cheap_bounds", lambda *state: (0.0, 0.5, 1.0))
    every = cases.compute(SETTING.model_dump(), SHA, k, 0, 1)
    assert cheap["agent"] == every["agent"]
    for name in cases.MEASURES:
        assert cheap[name].max() == every[name].max()
    assert (cheap["lower"] <= every["upper"]).all() and (every["lower"] <= cheap["upper"]).all()


def test_small_and_large_budgets_agree(monkeypatch):
    """Where both ways to the exact number can be used, the sampled interval and the certain one
    overlap (99.9 %)."""
    monkeypatch.setattr(cases, "cheap_bounds", lambda *state: (0.0, 0.5, 1.0))  # spare nobody
    monkeypatch.setattr(cases, "LARGE", 0.0)
    certain = cases.compute(SETTING.model_dump(), SHA, 5, 0, 1)
    monkeypatch.setattr(cases, "LARGE", 2.0)
    sampled = cases.compute(SETTING.model_dump(), SHA, 5, 0, 1)
    assert (sampled["lower"] <= certain["upper"]).all() and (
        certain["lower"] <= sampled["upper"]
    ).all()
    assert (sampled["upper"] - sampled["lower"]).max() > (certain["upper"] - certain["lower"]).max()


def test_telling_is_one_minus_the_affinity():
    y, other = np.array([0.2, 0.2, 0.2, 0.2, 1.0]), np.array([0.2, 0.6, 1.3, 2.5, 1.0])
    levels = np.arange(-1, 5)[:, None]
    affinity = np.sqrt(
        quantizer.probability(levels, y, 1.0) * quantizer.probability(levels, other, 1.0)
    ).sum(axis=0)
    np.testing.assert_allclose(
        cases.telling(y, other, np.ones(5)), 1.0 - affinity, rtol=0, atol=1e-15
    )


def test_summary_and_falls():
    rows = [
        (d_0, "first", t, run, m, t * (1 + run + m) / d_0)
        for d_0 in (2.0, 4.0)
        for t in (0, 10)
        for run in (0, 1)
        for m in (0, 1)
    ]
    table = pd.DataFrame(rows, columns=["d_0", "arrival", "t", "run", "modification", "delta"])
    last = tables.summary(table).set_index(["d_0", "t"]).loc[(2.0, 10)]
    assert (
        last["mean"] == 10.0
        and last["median"] == 10.0
        and last["count"] == 4
        and last["vacuous"] == 1.0
    )
    assert last["standard_error"] == pytest.approx(np.std([7.5, 12.5], ddof=1) / math.sqrt(2))
    fall = tables.falls(table).iloc[0]
    assert (fall["d_0"], fall["next"], fall["fall"]) == (2.0, 4.0, 5.0)
    error = np.std([3.75, 6.25], ddof=1) / math.sqrt(2)
    assert fall["fall_high"] == pytest.approx(5.0 + 1.96 * error) == 10.0 - fall["fall_low"]


def test_bounds_come_in_order():
    """Theorem 2.1 is never below our certificate, finite time never above all time, and a
    calibrated step meets its target."""
    params = Params(iterations=30)
    promised = bounds.promised(params, DATA).set_index(["normalise", "bound"])
    for normalise in NORMALISATIONS:
        delta = promised.loc[normalise]["log10_delta"]
        assert (
            delta["theorem 2.1"] >= delta["certificate"]
            and delta["theorem 2.2"] >= delta["certificate, all time"]
        )
        assert delta["certificate"] <= delta["certificate, all time"]
        step = 10 ** promised.loc[(normalise, "certificate"), "log10_d_0"]
        at_step = Params(iterations=30, normalise=normalise, d_0=step * (1 + 1e-9), d_0_slope=0.0)
        product = bounds.promised(at_step, DATA).set_index(["normalise", "bound"])["product"]
        assert product[normalise, "certificate"] <= params.target * (1 + 1e-6)


def test_bounds_for_all_time_follow_as_far_as_they_are_told():
    near, far = (
        bounds.promised(Params(iterations=30, horizon=h), DATA).set_index("bound")
        for h in (1000, 20_000)
    )
    for column in ("log10_delta", "log10_d_0"):
        assert (
            near.loc["certificate, all time", column] > far.loc["certificate, all time", column]
        ).all()
        assert (near.loc["certificate", column] == far.loc["certificate", column]).all()


def test_the_tail_agrees_with_following_it_further():
    """Beyond the horizon the share is bounded analytically.

    Ten times farther, one by one, it is nearly the same.
    """
    found = (bounds.used_up(Params(horizon=horizon), DATA) for horizon in (2000, 20_000))
    near, far = (used[used["t"].isin([50, 10_000])] for used in found)
    assert set(near["t"]) == {50, 10_000}
    assert (
        near["share"] <= far["share"] * (1 + 1e-9)
    ).all()  # a longer horizon only sharpens the limit
    np.testing.assert_allclose(near["share"], far["share"], rtol=0.1)


def test_verdicts_follow_the_numbers():
    curve = [("first", 2.0, t, value) for t, value in ((0, 0.0), (48, 0.5), (300, 0.6))]
    curve += [("uniform", 2.0, t, t / 1000) for t in (0, 48, 300)]
    summary = pd.DataFrame(curve, columns=["arrival", "d_0", "t", "mean"])
    summary = summary.assign(median=summary["mean"], low=summary["mean"], high=summary["mean"])
    rows = [
        ("l1", 8.0, k, paper)
        for k, paper in ((0, 3.0), (10, 0.9), (10, 1.1), (30, 0.5), (100, 0.2))
    ]
    arrivals = pd.DataFrame(rows, columns=["normalise", "d_0", "asked_k", "paper"])

    def valid(summary, arrivals):
        every, own = tables.valid_range(summary, arrivals, "none")
        return judge("figure-3-valid-range", every, own=own)

    assert valid(summary, arrivals).sentence == "holds"
    beyond = summary.assign(low=2.0, high=3.0)
    late = "holds if L1-normalised rows, d_0 = 8, data points from number 30 on"
    assert valid(beyond, arrivals).sentence == late
    assert valid(beyond, arrivals.assign(paper=2.0)).verdict == "does not hold"
    assert valid(summary.assign(high=3.0), arrivals.assign(paper=2.0)).verdict == "does not hold"
    assert valid(summary.assign(high=3.0), arrivals[:0]).verdict == "cannot be checked"
    used = pd.DataFrame({"t": [50, 1000, 10**6], "share": [0.3, 0.4, 0.6]})
    assert claims._fifty_steps(summary, used).verdict == "holds if"
    steady = summary.assign(mean=summary["t"] / 100)
    assert claims._fifty_steps(steady, used).verdict == "does not hold"
    assert tables.lemma_6_ratio() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("accuracy", "delta", "certified_accuracy", "verdict"),
    [
        (0.9, 0.95, 0.3, "does not hold"),  # the step that learns gives away more than the target
        (0.9, 0.2, 0.3, "cannot be checked"),  # neither certified nor refuted
        (0.5, 0.2, 0.3, "does not hold"),  # nothing that hides learns
        (0.9, 0.95, 0.9, "holds if"),  # the certified step learns
    ],
)
def test_both_at_once_is_refuted_by_lower_bounds_only(accuracy, delta, certified_accuracy, verdict):
    step = {"normalise": ["none"], "weight": [0.2], "standard_error": [0.001]}
    tried = pd.DataFrame(
        {**step, "arrival": ["first"], "d_0": [2.0], "delta": [delta], "accuracy": [accuracy]}
    )
    ends = {"unquantised": [0.9], "zeros": [1.0], "target": [0.5], "iterations": [300]}
    kept = pd.DataFrame({**step, **ends, "d_0": [1e4], "accuracy": [certified_accuracy]})
    found = tables.both_at_once(tried, kept, error=0.03)
    assert claims._infinite_and_accurate(found).verdict == verdict


WRONG = {
    "negative d_0": (Params, {"d_0": -1.0}, "d_0 = -1.0 is wrong: it must be greater than 0"),
    "zero runs": (Params, {"runs": 0}, "runs = 0 is wrong"),
    "no steps": (Params, {"budget_d_0": ()}, "budget_d_0 = "),
    "varsigma above nu": (Params, {"varsigma": 0.7}, "max varsigma = 0.75 must be below nu = 0.71"),
    "a step of Fig. 3": (Params, {"budget_d_0": (2.0, 0.0)}, "budget_d_0[1] = 0.0 is wrong"),
    "test split": (
        Params,
        {"test": 8124},
        "test = 8124 must be below 8124, the number of mushrooms",
    ),
    "weights": (Params, {"weight": 0.6}, "must be positive (Assumption 4)"),
    "arrival after the end": (
        Params,
        {"iterations": 50},
        "arrivals holds 100, which must be below 49",
    ),
    "weight of the frontier": (
        Params,
        {"frontier_weights": (0.2, 0.7)},
        "must be positive (Assumption 4)",
    ),
    "target": (Params, {"target": 1.0}, "target = 1.0 is wrong: it must be less than 1"),
    "normalise": (Params, {"normalise": "l3"}, "normalise = 'l3' is wrong"),
}


@pytest.mark.parametrize("name", WRONG)
def test_nonsense_is_refused_in_one_sentence(name):
    kind, values, sentence = WRONG[name]
    with pytest.raises(ParameterError, match=re.escape(sentence)) as refused:
        kind(**values).check(len(DATA.labels))
    assert "\n" not in str(refused.value)


def test_claims_are_data():
    claim = judge("stringent", tables.stringency(0.5), delta=0.5, posterior=claims.HALF_MEANS)
    assert json.loads(json.dumps(dataclasses.asdict(claim)))["verdict"] == "holds if"
