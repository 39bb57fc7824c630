"""Public gradient constants against every row of a table: they hold, and cannot be smaller."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from companion.data import mushrooms
from companion.problems import constants
from companion.problems.constants import GradientConstants
from companion.problems.logistic import Logistic
from companion.problems.onehot import NORMALISATIONS, OneHot


def table(normalise, rows=30, seed=0):
    rng = np.random.default_rng(seed)
    sizes = (2, 5, 3, 4, 2, 6, 3)
    return OneHot(
        np.stack([rng.integers(0, size, rows) for size in sizes], axis=1), sizes, normalise
    )


def sample_gradients(features, theta, label, l2=0.0):
    """Return the gradient of every row alone, `[rows, dim]`, by the oracle: one agent per row."""
    history = np.arange(features.rows).reshape(1, -1, 1, 1)
    oracle = Logistic(features, np.full(features.rows, label), history, l2=l2)
    return oracle(np.broadcast_to(theta, (1, features.rows, features.dim)), 0)[0]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(NORMALISATIONS),
    st.sampled_from([-1, 1]),
    st.floats(1e-6, 100),
)
def test_bounds_hold_for_random_parameters_and_all_rows(seed, normalise, label, size):
    rng, features = np.random.default_rng(seed), table(normalise)
    bounds = constants.logistic(features.codes.shape[1], normalise)
    theta = size * rng.normal(size=features.dim)
    change = (
        size * rng.normal(size=features.dim) * (rng.random(features.dim) < rng.choice([0.1, 1.0]))
    )
    gradients, others = (
        sample_gradients(features, theta, label),
        sample_gradients(features, theta + change, label),
    )
    rounding = 1 + 1e-12
    assert np.abs(gradients).sum(axis=1).max() <= bounds.l1 * rounding
    assert np.abs(gradients).max() <= bounds.linf * rounding
    difference, norms = np.abs(others - gradients), (np.abs(change).sum(), np.abs(change).max())
    slack = 1e-14 * bounds.l1
    assert difference.sum(axis=1).max() <= bounds.change_l1(*norms) * rounding + slack
    assert difference.max() <= bounds.change_linf(*norms) * rounding + slack
    assert difference.sum(axis=1).max() <= bounds.lipschitz * norms[0] * rounding + slack
    assert difference.max() <= bounds.lipschitz * norms[1] * rounding + slack


@pytest.mark.parametrize("normalise", NORMALISATIONS)
def test_bounds_are_attained(normalise):
    features = table(normalise)
    bounds, row = constants.logistic(features.codes.shape[1], normalise), features.dense([4])[0]
    wrong = sample_gradients(features, -50 * np.sign(row) / features.scale, 1)[
        4
    ]  # a confidently wrong logit
    assert np.abs(wrong).sum() == pytest.approx(bounds.l1, rel=1e-12)
    assert np.abs(wrong).max() == pytest.approx(bounds.linf, rel=1e-12)
    tiny = 1e-5
    for change in (
        tiny * (np.arange(features.dim) == row.argmax()),
        tiny * np.sign(row),
    ):  # l1's worst direction, linf's
        moved = (
            sample_gradients(features, change / 2, 1)[4]
            - sample_gradients(features, -change / 2, 1)[4]
        )
        norms = np.abs(change).sum(), np.abs(change).max()
        assert np.abs(moved).sum() == pytest.approx(float(bounds.change_l1(*norms)), rel=1e-6)
        assert np.abs(moved).max() == pytest.approx(float(bounds.change_linf(*norms)), rel=1e-6)
    spike = tiny * (np.arange(features.dim) == row.argmax())
    moved = (
        sample_gradients(features, spike / 2, 1)[4] - sample_gradients(features, -spike / 2, 1)[4]
    )
    assert np.abs(moved).sum() == pytest.approx(bounds.lipschitz * tiny, rel=1e-6)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(NORMALISATIONS),
    st.sampled_from([0.0, 0.3]),
    st.integers(1, 12),
)
def test_replacing_one_data_point_obeys_the_decomposition_with_the_penalty_outside(
    seed, normalise, l2, points
):
    """|g - g'| <= (n-1)/n change + 2 l1 / n + l2 |dtheta|, and <= 2 l1 + l2 |dtheta|, in both
    norms."""
    rng, features = np.random.default_rng(seed), table(normalise)
    bounds, labels = (
        constants.logistic(features.codes.shape[1], normalise, l2),
        rng.choice([-1, 1], features.rows),
    )
    history = rng.integers(0, features.rows, (1, 1, points, 2))
    adjacent = history.copy()
    adjacent[0, 0, rng.integers(points)] = rng.integers(0, features.rows, 2)
    theta, other = rng.normal(size=(2, 1, 1, features.dim)) * rng.choice([0.1, 10.0], (2, 1, 1, 1))
    g = Logistic(features, labels, history, l2=l2)(theta, points - 1)
    g_other = Logistic(features, labels, adjacent, l2=l2)(other, points - 1)
    norms = float(np.abs(theta - other).sum()), float(np.abs(theta - other).max())
    kept = (points - 1) / points
    for size, change, bound, moved in (
        (np.abs(g - g_other).sum(), bounds.change_l1(*norms), bounds.l1, norms[0]),
        (np.abs(g - g_other).max(), bounds.change_linf(*norms), bounds.linf, norms[1]),
    ):
        assert size <= (kept * change + 2 * bound / points + l2 * moved) * (1 + 1e-12)
        assert size <= (2 * bound + l2 * moved) * (1 + 1e-12)


def test_the_penalty_is_not_bounded_by_the_gradient_constants():
    """With a penalty the gradient at a large theta exceeds l1: it is right that l2 is kept
    apart."""
    features = table("l2")
    bounds, theta = (
        constants.logistic(features.codes.shape[1], "l2", 0.5),
        np.full(features.dim, 1e3),
    )
    assert np.abs(sample_gradients(features, theta, 1, l2=0.5)).sum(axis=1).min() > 2 * bounds.l1
    assert bounds.l2 == 0.5 and dataclasses.replace(bounds, l2=0.0) == constants.logistic(
        features.codes.shape[1], "l2"
    )


@pytest.mark.parametrize("normalise", NORMALISATIONS)
def test_mushrooms_rows_obey_their_schema(normalise):
    data = mushrooms.load()
    features = OneHot(data.codes, data.sizes, normalise)
    bounds, rows = constants.logistic(len(data.sizes), normalise), features.dense()
    assert np.abs(rows).sum(axis=1).max() <= bounds.l1 * (1 + 1e-12) and rows.max() == bounds.linf


def test_constants_by_hand():
    assert constants.logistic(16) == GradientConstants(16.0, 1.0, 0.25, 0.0)
    assert constants.logistic(16, "l1") == GradientConstants(1.0, 1 / 16, 0.25, 0.0)
    assert constants.logistic(16, "l2", 0.1) == GradientConstants(4.0, 0.25, 0.25, 0.1)
    assert [constants.logistic(16, normalise).lipschitz for normalise in NORMALISATIONS] == [
        4.0,
        1 / 64,
        0.25,
    ]


REFUSED = {
    "linf above l1": (lambda: GradientConstants(1.0, 2.0), "linf = 2.0 must not exceed l1 = 1.0"),
    "l1 zero": (lambda: GradientConstants(0.0, 0.0), "l1 = 0.0 must be positive and finite"),
    "l1 infinite": (lambda: GradientConstants(np.inf, 1.0), "l1 = inf must be positive and finite"),
    "linf NaN": (lambda: GradientConstants(1.0, np.nan), "linf = nan must be positive and finite"),
    "slope": (
        lambda: GradientConstants(1.0, 1.0, -1.0),
        "slope = -1.0 must be finite and not negative",
    ),
    "l2": (lambda: constants.logistic(5, None, -0.1), "l2 = -0.1 must be finite and not negative"),
    "attributes": (lambda: constants.logistic(0), "attributes = 0 must be at least 1"),
    "attributes not whole": (
        lambda: constants.logistic(2.5),
        "attributes = 2.5 must be a whole number",
    ),
    "normalise": (lambda: constants.logistic(5, "max"), "normalise = 'max' must be one of"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_one_sentence(name):
    act, sentence = REFUSED[name]
    with pytest.raises(ValueError, match=sentence):
        act()
