"""Independent oracles for composed cases: a convolution of our own, and Google's dp_accounting
where it is installed.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from ldp_core.accountant import exact
from ldp_core.accountant.monte_carlo import MonteCarlo
from ldp_core.randomness import Purpose, generator
from tests.reference import enumeration


def composed(case: int, coordinates: int) -> tuple[np.ndarray, np.ndarray]:
    """Return different pairs of coins; the total variation of the whole is in the middle."""
    rng = generator(31, Purpose.SYNTHETIC, case)
    a = rng.uniform(0.1, 0.9, coordinates)
    return a, np.clip(a + rng.normal(size=coordinates) * 0.3 / math.sqrt(coordinates), 0.05, 0.95)


class TestConvolution:
    def test_it_agrees_with_enumeration(self):
        """The oracle itself, on twelve coins."""
        a, b = composed(0, 12)
        lower, upper = enumeration.convolved(a, b, 1e-5)
        truth = enumeration.delta(*enumeration.transcripts(a, b, 1.0), 0.0)
        assert lower <= truth <= upper and upper - lower <= 12 * 1e-5

    @pytest.mark.parametrize("case", range(3))
    def test_the_bracket_meets_it(self, case):
        a, b = composed(case, 300)
        lower, upper = exact.delta(exact.Pair(0.0, 0.0, a, b))
        below, above = enumeration.convolved(a, b, 1e-4)
        assert below <= upper and lower <= above
        assert 0.05 < lower <= upper < 0.9 and upper - lower < 1e-4

    def test_sampling_meets_it(self):
        """One interval at confidence 1 - 1e-6: that is the false-alarm rate."""
        a, b = composed(5, 300)
        monte_carlo = MonteCarlo(1, 20_000, seed=32, confidence=1 - 1e-6)
        monte_carlo.add(a[None], b[None], 1.0)
        found = monte_carlo.delta()
        below, above = enumeration.convolved(a, b, 1e-4)
        assert found.lower[0] <= above and below <= found.upper[0]


class TestDpAccounting:
    """Privacy-loss distributions of dp_accounting: pessimistic, so never below the truth, and above
    it by its discretisation.

    Each of n mechanisms rounds its loss up by at most one interval, so the composed loss by at most
    n intervals, and delta(0), whose slope in the loss is at most 1, by at most n intervals too.
    """

    @pytest.fixture
    def privacy_loss(self):
        from dp_accounting.pld import privacy_loss_distribution

        return privacy_loss_distribution

    def composition(self, privacy_loss, a, b, interval, symmetric):
        whole = None
        for up, other in zip(a, b, strict=True):
            laws = [
                {0: math.log1p(-x), 1: math.log(x)} for x in (other, up)
            ]  # lower first: the denominator of the ratio
            one = privacy_loss.from_two_probability_mass_functions(
                *laws, value_discretization_interval=interval, symmetric=symmetric
            )
            whole = one if whole is None else whole.compose(one)
        return whole

    @pytest.mark.parametrize("interval", [1e-3, 1e-4])
    def test_total_variation(self, privacy_loss, interval):
        a, b = composed(7, 40)
        theirs = self.composition(
            privacy_loss, a, b, interval, symmetric=True
        ).get_delta_for_epsilon(0.0)
        lower, upper = exact.delta(exact.Pair(0.0, 0.0, a, b))
        assert lower <= theirs + 1e-9 and theirs <= upper + 40 * interval

    @pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0])
    def test_delta_of_epsilon_in_both_directions(self, privacy_loss, epsilon):
        a, b = composed(8, 40)
        interval = 1e-4
        theirs = max(
            self.composition(privacy_loss, *pair, interval, symmetric=False).get_delta_for_epsilon(
                epsilon
            )
            for pair in ((a, b), (b, a))
        )
        lower, upper = exact.delta(exact.Pair(0.0, 0.0, a, b), epsilon)
        assert lower <= theirs + 1e-9 and theirs <= upper + 40 * interval

    def test_infinite_losses(self, privacy_loss):
        """A level that only one side can send: both sides must count it in full."""
        y, other = np.array([0.4, 0.3, 0.8, 0.55]), np.array([1.3, 0.35, 0.7, 0.5])
        laws = exact.pair(y, other, 1.0)
        whole = self.composition(privacy_loss, laws.a, laws.b, 1e-4, symmetric=False)
        first = privacy_loss.from_two_probability_mass_functions(
            {1: math.log(0.7), 2: math.log(0.3)},
            {0: math.log(0.6), 1: math.log(0.4)},
            value_discretization_interval=1e-4,
            symmetric=False,
        )
        theirs = whole.compose(first).get_delta_for_epsilon(0.2)
        p, q = enumeration.transcripts(y, other, 1.0)
        truth = math.fsum(np.maximum(p - math.exp(0.2) * q, 0))
        assert truth <= theirs + 1e-9 and theirs <= truth + 4e-4
        assert exact.delta(laws, 0.2)[0] == pytest.approx(enumeration.delta(p, q, 0.2), abs=1e-12)
