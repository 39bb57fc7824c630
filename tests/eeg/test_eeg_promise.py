"""Promises for EEG: clipped gradients as certified, features of one trial alone; many people."""

import dataclasses
import re

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from companion.claims import judge
from companion.eeg import claims, promise, promise_tables, shards, tables
from companion.eeg.params import Params
from ldp_core import clipping

CLASSES, FEATURES, FIRST, ITERATIONS = 3, 4, 30, 5


def oracle() -> promise.Drawn:
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(20, FEATURES)), draw.integers(CLASSES, size=20)
    rows = draw.integers(20, size=(5, FIRST + ITERATIONS))
    return promise.Drawn(x, y, CLASSES, rows, FIRST)


def test_the_gradient_is_the_mean_of_clipped_gradients_of_all_that_was_drawn():
    ours = oracle()

    def per_sample(theta, t):
        rows = ours.rows[:, : FIRST + t]
        powers = np.exp(np.einsum("arf,afk->ark", ours.x[rows], theta[0].reshape(5, FEATURES, -1)))
        error = powers / powers.sum(axis=-1, keepdims=True) - ours.wanted[rows]
        return (ours.x[rows][..., None] * error[..., None, :]).reshape(1, 5, FIRST + t, -1)

    plain = clipping.Clipped(per_sample, promise.CLIP, FIRST - 1, cone=True)
    theta = np.random.default_rng(1).normal(size=(1, 5, ours.dim))
    for t in (0, 3):
        np.testing.assert_allclose(ours(theta, t), plain(theta, t), atol=1e-14)
    lengths = np.linalg.norm(per_sample(theta, 0), axis=-1)
    assert (lengths > promise.CLIP).any(), "some are clipped"


def test_a_plan_keeps_its_delta_and_accepts_the_oracle_as_it_is_and_no_other():
    ours = oracle()
    plan = promise.planned(0.25, FIRST, ITERATIONS, ours.dim)
    assert plan.certificate.delta.max() <= 0.25 and plan.certificate.unit == "one sample"
    plan.require(plan.algorithm(), ours)
    ours.clip = 2 * promise.CLIP
    with pytest.raises(ValueError, match="clip"):
        plan.require(plan.algorithm(), ours)


def test_features_are_of_one_trial_alone_of_length_one_and_deaf_to_loudness():
    x = np.random.default_rng(0).normal(size=(6, 5, 80))
    found = promise.looks(x)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0)
    np.testing.assert_allclose(promise.looks(7 * x[2:3])[0], found[2], atol=1e-12)


def means(promised: float, twin: float = 0.4, best: float = 0.42) -> pd.DataFrame:
    rows = [
        {"trials": trials, "delta": 0.25, "subject": subject, "promise": share + 0.01 * subject}
        for trials, share in ((100, promised), (1000, twin))
        for subject in (-1, 0, 1)
    ]
    return promise_tables.promised(
        pd.DataFrame(rows).assign(twin=twin, unprotected=best, certified=0.25)
    )


def test_means_and_what_is_needed_by_hand():
    found = means(0.3).set_index("trials")
    assert found.loc[100, "promise"] == pytest.approx(0.3)
    half = 4.302653 * 0.01 / 3**0.5  # Student, two degrees of freedom
    assert found.loc[100, "difference_high"] == pytest.approx(-0.12 + half, rel=1e-6)
    needed = promise_tables.needed
    assert needed(means(0.3, twin=0.42), 0.25) == "1,000" and needed(means(0.42), 0.25) == "100"
    assert needed(means(0.3), 0.25) == "more than 1,000", "a twin that learns little is no mark"


@pytest.mark.parametrize(
    ("promised", "verdict"),
    [(0.5, "holds"), (0.3, "does not hold"), (0.42, "cannot be checked")],
)
def test_the_verdict_on_a_promise_follows_the_numbers(promised, verdict):
    (row,) = claims.promised(means(promised))
    assert row.verdict == verdict and row.ours_to_prove
    assert claims.promised(None) == []


def test_how_many_trials_tell_a_rate_from_chance():
    """Fewer do not suffice, and no larger number fails again."""
    found = tables.trials_to_tell(0.145, 1 / 30)

    def power(trials):
        hits = np.arange(trials + 1)
        called = hits[binom.sf(hits - 1, trials, 1 / 30) <= 0.05]
        return binom.sf(called.min() - 1, trials, 0.145)

    assert power(found - 1) < 0.8 <= min(power(found + more) for more in range(200))
    assert tables.trials_to_tell(0.145, 1 / 9) > 10 * found


def test_the_models_of_fig_6_say_who_is_missing():
    params = Params(subjects=(1, 2, 3, 4, 5, 6), folds=(2, 5))
    loss = {2: [1, 3, 1, 1, 1, 1], 5: [1, 1, 1, 1, 2, 1]}
    pieces = [
        {"test": test, "run": 0, "variant": variant}
        for test in (2, 5)
        for variant in shards.VARIANTS
    ]
    results = [{"loss": np.array(loss[piece["test"]], float)} for piece in pieces]
    found = shards.members(params, pieces, results)
    assert found["hits"].tolist() == [2, 2] and found["variant"].iloc[0] == "unquantised"


def people(share: float, trials: int = 600) -> pd.DataFrame:
    named = {"aligned": False, "factor": 1.0, "attacker": "one round", "classifier": "x"}
    rows = [
        named | {"defence": name, "hits": round(share * trials), "trials": trials}
        for name in tables.STARTS
    ]
    return pd.DataFrame(rows).assign(rate=share, low=share - 0.01, high=share + 0.01)


def test_identity_rests_on_many_people_where_few_cannot_decide():
    params = Params()
    told = claims.crowd((people(0.2), people(0.2)), params)
    hidden = claims.crowd((people(1 / 30), people(1 / 30)), params)
    assert (told.verdict, hidden.verdict) == ("does not hold", "holds")
    absent = claims.crowd(None, params)
    assert absent.verdict == "cannot be checked" and "are not here" in absent.reason
    numbers = {"chance": 1 / 9, "twice": 2 / 9, "least": 0.2}
    few = judge("identity-protected", tables.by_defence(*[people(0.15, 20)] * 2, 1 / 9), **numbers)
    assert few.verdict == "cannot be checked"
    assert claims.rests_on(few, told).verdict == "does not hold"
    assert claims.rests_on(few, absent) == few
    synthetic = dataclasses.replace(few, data="synthetic")
    assert claims.rests_on(synthetic, told) == synthetic


def test_a_promise_is_kept_in_its_file(tmp_path, monkeypatch):
    from companion import promises
    from companion.data.eeg import _synthetic

    data = _synthetic((1, 2, 3, 4, 5, 6), 0)
    monkeypatch.setattr(promise, "dim_of", lambda data: 12)
    promise_tables.record(Params(promise_iterations=ITERATIONS), data, means(0.3), tmp_path)
    (kept,) = promises.load(tmp_path)
    assert kept.parameters["trials"] == 100 and kept.best_unprotected == pytest.approx(0.42)
    assert re.match(r"one of 100 arrivals of the \d+ trials of one agent", kept.sentence)
