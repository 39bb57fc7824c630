"""The sampled total variation: coverage of its intervals, the law of its sampler, its memory."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from scipy.stats import binom, chi2

from ldp_core.accountant import exact, kernels
from ldp_core.accountant.monte_carlo import MonteCarlo, empirical_bernstein
from ldp_core.randomness import Purpose, generator
from tests.reference import enumeration

REPEATS, ALPHA = 1000, 0.05
MOST_FAILURES = binom.ppf(
    1 - 1e-6, REPEATS, ALPHA
)  # false alarm at most 1e-6 per check, if coverage were only 1 - ALPHA

CASES = {
    "interior": ([0.2, 0.7, 1.4], [0.25, 0.6, 1.5]),
    "one-sided both ways": ([0.2, 0.9, 1.1, 0.5], [0.25, 1.1, 0.9, 0.45]),
    "on the grid": ([1.0, 0.5, 0.3], [0.9, 0.52, 0.35]),
    "nearly equal": ([0.5, 0.5], [0.5001, 0.4999]),
    "nearly disjoint": ([0.02, 0.5], [0.98, 0.7]),
}


@pytest.mark.parametrize("name", CASES)
def test_coverage_over_a_thousand_repeats(name):
    y, other = (np.array(x) for x in CASES[name])
    monte_carlo = MonteCarlo(REPEATS, 200, seed=11, confidence=1 - ALPHA)
    monte_carlo.add(y[None], other[None], 1.0)
    truth = enumeration.delta(*enumeration.transcripts(y, other, 1.0), 0.0)
    found = monte_carlo.delta()
    failures = np.sum((found.lower > truth + 1e-12) | (found.upper < truth - 1e-12))
    assert failures <= MOST_FAILURES
    assert (found.lower <= found.estimate).all() and (found.estimate <= found.upper).all()
    # the mean of 1000 estimates: 6 standard errors, and 0.002 for those cut to the certain bounds
    error = 6 * found.estimate.std() / math.sqrt(REPEATS) + 0.002
    assert abs(found.estimate.mean() - truth) <= error


def test_the_interval_alone_covers_skewed_values():
    """Empirical Bernstein on rare ones: 1000 repeats of 300 values, false alarm at most 1e-6."""
    rng = generator(12, Purpose.MONTE_CARLO)
    for rate in (0.003, 0.05, 0.5):
        failures = 0
        for _ in range(REPEATS):
            lower, _, upper = empirical_bernstein(
                (rng.random(300) < rate).astype(float), 1.0, ALPHA
            )
            failures += not lower <= rate <= upper
        assert failures <= MOST_FAILURES


def test_the_sampler_follows_both_product_laws():
    """Chi-square over all 256 outcomes of a group, under P and under P'; false alarm 1e-6 each."""
    rng = generator(13, Purpose.SYNTHETIC)
    a, b = rng.uniform(0.1, 0.9, (2, 8))
    samples, first = 400_000, 150_000
    streams = rng.integers(0, 2**64, size=(1, 4), dtype=np.uint64)
    losses = np.zeros((1, samples))
    kernels.draw(a[None], b[None], streams, first, losses)
    losses = losses[0]
    probability, loss = exact.enumerated(a, b)
    order = np.argsort(loss)
    assert (
        np.diff(loss[order]).min() > 1e-9
    )  # every outcome has a loss of its own: it can be recognised
    for part, law in ((losses[:first], probability), (losses[first:], probability * np.exp(-loss))):
        middle = (loss[order][1:] + loss[order][:-1]) / 2
        counts = np.bincount(np.searchsorted(middle, part), minlength=256)
        expected = law[order] * len(part)
        assert expected.sum() == pytest.approx(len(part))
        rare = expected < 10
        statistic = np.sum((counts - expected)[~rare] ** 2 / expected[~rare])
        assert statistic <= chi2.ppf(1 - 1e-6, np.sum(~rare))


def test_estimates_agree_with_the_bracket_at_every_stage():
    """Fed in uneven pieces, asked in between; five intervals at confidence 1 - 1e-7, so a false
    alarm below 1e-6.
    """
    rng = generator(14, Purpose.SYNTHETIC)
    y = rng.normal(size=(1, 3000)) * 2
    other = y + rng.normal(size=(1, 3000)) * 0.004
    monte_carlo, bracket = MonteCarlo(1, 20_000, seed=15, confidence=1 - 1e-7), exact.Bracket(1)
    for piece in np.split(np.arange(3000), [1, 8, 517, 1300]):
        monte_carlo.add(y[:, piece], other[:, piece], 0.5)
        bracket.add(y[:, piece], other[:, piece], 0.5)
        sampled, certain = monte_carlo.delta(), bracket.delta()
        assert sampled.lower[0] <= certain.upper[0] and certain.lower[0] <= sampled.upper[0]
    assert 0.2 < certain.estimate[0] < 0.9 and sampled.upper[0] - sampled.lower[0] < 0.04


def test_the_result_does_not_depend_on_other_rows():
    y, other = np.linspace(0.1, 9, 900)[None], np.linspace(0.1001, 9.0002, 900)[None]

    def estimate(batch):
        monte_carlo = MonteCarlo(batch, 5000, seed=3)
        monte_carlo.add(y, other, 1.0)
        return monte_carlo.delta().estimate[0]

    assert estimate(1) == estimate(3)


def test_coordinates_are_not_kept():
    """400 000 coordinates, 6.4 MB if they were kept, pass through 2 MB."""
    rng = generator(16, Purpose.SYNTHETIC)
    y = rng.random((1, 5000))
    monte_carlo = MonteCarlo(1, 16, seed=1)
    monte_carlo.add(y, y + 1e-5, 1.0)  # compile first
    tracemalloc.start()
    for _ in range(80):
        monte_carlo.add(y, y + 1e-5, 1.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2e6


class TestEdges:
    def test_identical_data_give_zero_exactly(self):
        monte_carlo = MonteCarlo(2, 100, seed=0)
        assert monte_carlo.delta().upper.tolist() == [0, 0]
        monte_carlo.add(np.ones((2, 3)), np.ones((2, 3)), 0.7)
        assert monte_carlo.delta().upper.tolist() == [0, 0]

    def test_disjoint_supports_give_one_exactly(self):
        monte_carlo = MonteCarlo(1, 100, seed=0)
        monte_carlo.add(np.array([[0.0, 0.3]]), np.array([[2.0, 0.4]]), 1.0)
        found = monte_carlo.delta()
        assert found.lower[0] == found.estimate[0] == found.upper[0] == 1

    def test_without_interior_coordinates_the_formula_is_exact(self):
        y, other = np.array([0.4, 1.3]), np.array([1.3, 0.6])
        monte_carlo = MonteCarlo(1, 100, seed=0)
        monte_carlo.add(y[None], other[None], 1.0)
        truth = enumeration.delta(*enumeration.transcripts(y, other, 1.0), 0.0)
        found = monte_carlo.delta()
        assert found.lower[0] == found.upper[0] == pytest.approx(truth, abs=1e-12)

    def test_what_is_refused(self):
        with pytest.raises(ValueError, match="samples = 1 must be at least 2"):
            MonteCarlo(1, 1, seed=0)
        with pytest.raises(ValueError, match=r"confidence = 1\.0 must lie in \(0, 1\)"):
            MonteCarlo(1, 10, seed=0, confidence=1.0)
