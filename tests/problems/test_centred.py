"""Centred rows have norm one, and their oracle is the mean of samples' clipped gradients."""

import numpy as np
import pytest

from companion.problems import centred, logistic
from companion.problems.onehot import OneHot
from ldp_core import clipping
from ldp_core.randomness import Purpose, generator

SIZES = (2, 5, 3)
RNG = generator(5, Purpose.SYNTHETIC)
FEATURES = OneHot(np.stack([RNG.integers(0, size, 30) for size in SIZES], axis=1), SIZES)
LABELS = RNG.choice([-1, 1], 30)
DENSE = FEATURES.dense() @ centred.matrix(SIZES).T


def test_rows_are_centred_and_have_norm_one():
    every = np.stack(np.meshgrid(*map(np.arange, SIZES)), axis=-1).reshape(-1, len(SIZES))
    rows = OneHot(every, SIZES).dense() @ centred.matrix(SIZES).T
    np.testing.assert_allclose((rows**2).sum(axis=1), 1.0, rtol=1e-14)
    np.testing.assert_allclose(rows[:, :-1].mean(axis=0), 0.0, atol=1e-15)
    assert np.ptp(rows[:, -1]) == 0 and rows[0, -1] > 0


@pytest.mark.parametrize("points", [6, 40])  # fewer samples than rows, and more: both kernels
@pytest.mark.parametrize("clip", [0.1, 0.6, 2.0])
def test_the_oracle_is_the_mean_of_clipped_gradients(points, clip):
    history = RNG.integers(0, 30, (2, 3, points, 2))
    theta = RNG.normal(size=(2, 3, sum(SIZES) + 1))

    def per_sample(theta, t):
        rows = history[:, :, : 3 + t + 1].reshape(2, 3, -1)
        margins = LABELS[rows] * np.einsum("rand,rad->ran", DENSE[rows], theta)
        return (-LABELS[rows] / (1 + np.exp(margins)))[..., None] * DENSE[rows]

    literal = clipping.Clipped(per_sample, clip, warm_up=3, samples=2, cone=True)
    fast = centred.Centred(FEATURES, LABELS, history, clip, warm_up=3)
    for name in ("clip", "warm_up", "samples", "cone"):
        assert getattr(fast, name) == getattr(literal, name)
    for t in (0, points - 4):
        np.testing.assert_allclose(fast(theta, t), literal(theta, t), rtol=1e-11, atol=1e-14)


def test_accuracy_is_that_of_the_centred_rows():
    theta, rows = RNG.normal(size=(4, sum(SIZES) + 1)), np.arange(30)
    right = (np.sign(theta @ DENSE.T) == LABELS).mean(axis=-1)
    found = centred.accuracy(FEATURES, LABELS, theta, rows)
    np.testing.assert_allclose(found, right, rtol=1e-14)


def test_nonsense_is_refused():
    history = np.zeros((1, 1, 1, 1), dtype=int)
    with pytest.raises(ValueError, match=r"most = 0\.0 must be positive"):
        centred.Centred(FEATURES, LABELS, history, 0.0)
    normalised = OneHot(FEATURES.codes, SIZES, "l2")
    with pytest.raises(ValueError, match="normalise = 'l2' must be None"):
        centred.Centred(normalised, LABELS, history, 1.0)
    with pytest.raises(ValueError, match="most = -1 must be positive"):
        logistic.Logistic(FEATURES, LABELS, history, most=-1)
