"""Public gradient constants against every row of a table: they hold, and cannot be smaller."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from companion.data import mushrooms
from companion.problems import constants
from companion.problems.logistic import Logistic
from companion.problems.onehot import NORMALISATIONS, OneHot


def table(normalise, rows=30, seed=0):
    rng = np.random.default_rng(seed)
    sizes = (2, 5, 3, 4, 2, 6, 3)
    return OneHot(
        np.stack([rng.integers(0, size, rows) for size in sizes], axis=1), sizes, normalise
    )


def sample_gradients(features, theta, label):
    """Return the gradient of every row alone, `[rows, dim]`, by the oracle: one agent per row."""
    history = np.arange(features.rows).reshape(1, -1, 1, 1)
    oracle = Logistic(features, np.full(features.rows, label), history)
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
    d_l, lipschitz = constants.logistic(features.codes.shape[1], normalise)
    theta = size * rng.normal(size=features.dim)
    change = (
        size * rng.normal(size=features.dim) * (rng.random(features.dim) < rng.choice([0.1, 1.0]))
    )
    gradients, others = (
        sample_gradients(features, theta, label),
        sample_gradients(features, theta + change, label),
    )
    rounding = 1 + 1e-12
    assert np.abs(gradients).sum(axis=1).max() <= d_l * rounding
    difference, norms = np.abs(others - gradients), (np.abs(change).sum(), np.abs(change).max())
    slack = 1e-14 * d_l
    assert difference.sum(axis=1).max() <= lipschitz * norms[0] * rounding + slack
    assert difference.max() <= lipschitz * norms[1] * rounding + slack


@pytest.mark.parametrize("normalise", NORMALISATIONS)
def test_bounds_are_attained(normalise):
    features = table(normalise)
    row = features.dense([4])[0]
    d_l, lipschitz = constants.logistic(features.codes.shape[1], normalise)
    wrong = sample_gradients(features, -50 * np.sign(row) / features.scale, 1)[4]
    assert np.abs(wrong).sum() == pytest.approx(d_l, rel=1e-12)  # a confidently wrong logit
    spike, every = 1e-5 * (np.arange(features.dim) == row.argmax()), 1e-5 * np.sign(row)
    for change, norm in ((spike, np.sum), (every, np.max)):  # l1's worst direction, linf's
        low, high = (sample_gradients(features, x / 2, 1)[4] for x in (-change, change))
        assert norm(np.abs(high - low)) == pytest.approx(lipschitz * 1e-5, rel=1e-6)


@pytest.mark.parametrize("normalise", NORMALISATIONS)
def test_mushrooms_rows_obey_their_schema(normalise):
    data = mushrooms.load()
    d_l, _ = constants.logistic(len(data.sizes), normalise)
    rows = OneHot(data.codes, data.sizes, normalise).dense()
    assert np.abs(rows).sum(axis=1).max() <= d_l * (1 + 1e-12)


def test_constants_by_hand():
    assert constants.logistic(16) == (16.0, 4.0)
    assert constants.logistic(16, "l1") == (1.0, 1 / 64)
    assert constants.logistic(16, "l2") == (4.0, 0.25)


def test_an_unknown_normalisation_is_refused():
    with pytest.raises(ValueError, match="normalise = 'max' must be one of"):
        constants.logistic(5, "max")
