"""Euclidean alignment does what He and Wu say: identity mean covariance, no labels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import linalg

from companion.data import alignment
from tests.data import writers


@pytest.fixture
def trials() -> np.ndarray:
    random = np.random.default_rng(0)
    return (
        random.normal(size=(6, 6))
        @ random.normal(size=(40, 6, 200))
        * random.uniform(0.5, 2.0, (40, 1, 1))
    )


def test_the_mean_covariance_becomes_the_identity(trials):
    aligned = alignment.align(trials)
    np.testing.assert_allclose(alignment.covariances(aligned).mean(axis=0), np.eye(6), atol=1e-10)


def test_the_formula_is_he_and_wu_s(trials):
    """Against scipy's own matrix functions.

    Their R has no division by the samples, so they differ by sqrt(samples).
    """
    theirs = np.mean([x @ x.T for x in trials], axis=0)
    expected = linalg.inv(linalg.sqrtm(theirs)) @ trials * np.sqrt(200)
    np.testing.assert_allclose(alignment.align(trials), expected, rtol=1e-8, atol=1e-10)


def test_any_mixing_of_the_channels_is_undone_up_to_a_rotation(trials):
    mixed = np.random.default_rng(1).normal(size=(6, 6)) @ trials
    a, b = alignment.align(trials), alignment.align(mixed)
    rotation = b[0] @ np.linalg.pinv(a[0])
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(6), atol=1e-6)
    np.testing.assert_allclose(rotation @ a, b, atol=1e-6)


def test_labels_play_no_part():
    one = writers.epochs(trials=40, samples=200)
    other = writers.epochs(trials=40, samples=200, y=np.zeros(40, dtype=int))
    (a,), (b,) = alignment.align_subjects([one]), alignment.align_subjects([other])
    assert (a.X == b.X).all()


def test_subjects_do_not_touch_each_other():
    one, two = writers.epochs(1, trials=40, samples=200), writers.epochs(2, trials=40, samples=200)
    assert (alignment.align_subjects([one, two])[0].X == alignment.align_subjects([one])[0].X).all()


def test_dependent_channels_are_refused(trials):
    trials[:, 5] = trials[:, :5].sum(axis=1)
    with pytest.raises(ValueError, match="the mean covariance is singular"):
        alignment.align(trials)


def test_no_trials_are_refused():
    with pytest.raises(ValueError, match=r"shape \(0, 6, 200\), it must be"):
        alignment.align(np.empty((0, 6, 200)))
