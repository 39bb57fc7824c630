"""The exact delta(epsilon) of a product of two-point laws: against enumeration, and between its own
bounds.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ldp_core import quantizer
from ldp_core.accountant import exact
from ldp_core.randomness import Purpose, generator
from tests.reference import enumeration

EPSILONS = (0.0, 1e-3, 0.1, 0.7, 3.0, 20.0)


def random_inputs(case: int, coordinates: int):
    """Inputs of every kind: close, far, on the grid, in neighbouring cells, equal."""
    rng = generator(7, Purpose.SYNTHETIC, case)
    step = rng.uniform(0.1, 3.0, coordinates)
    y = rng.normal(size=coordinates) * step
    other = (
        y
        + rng.choice([0.0, 1e-6, 0.01, 0.2, 0.8], coordinates) * rng.normal(size=coordinates) * step
    )
    on_grid = rng.random(coordinates) < 0.2
    return np.where(on_grid, np.round(y / step) * step, y), other, step


class TestAgainstEnumeration:
    @pytest.mark.parametrize("case", range(60))
    def test_up_to_sixteen_coordinates_are_exact(self, case):
        y, other, step = random_inputs(case, 1 + case % 7)
        p, q = enumeration.transcripts(y, other, step)
        for epsilon in EPSILONS:
            lower, upper = exact.delta(exact.pair(y, other, step), epsilon)
            truth = enumeration.delta(p, q, epsilon)
            assert lower == upper
            assert abs(lower - truth) <= 1e-12 * max(
                1.0, math.exp(epsilon) * 1e-3
            )  # e^epsilon multiplies the oracle's rounding

    @pytest.mark.parametrize("case", range(40))
    def test_the_fourier_bounds_hold_and_are_close(self, case):
        """The series is forced on few coordinates, where the losses are lumpy and enumeration knows
        the truth.
        """
        rng = generator(8, Purpose.SYNTHETIC, case)
        n, scale = int(rng.integers(2, 13)), 10.0 ** rng.uniform(-7, -0.3)
        a = rng.uniform(0.01, 0.99, n)
        b = np.clip(a + rng.normal(size=n) * scale * np.minimum(a, 1 - a), 1e-3, 1 - 1e-3)
        log_p, log_q = -rng.random(2) * scale
        probability, loss = exact.enumerated(a, b)
        for cut in (log_q - log_p, log_q - log_p + scale, log_q - log_p - scale / 2):
            truth = -math.expm1(log_p) + math.exp(log_p) * math.fsum(
                probability * -np.expm1(np.minimum(cut - loss, 0))
            )
            lower, upper = exact._bounds(a, b, log_p, cut, 1 / 64)
            assert lower <= truth + 1e-15 * max(1, scale) and truth <= upper + 1e-15
            assert upper - lower <= 0.02 * np.abs(loss).max()
            finer_lower, finer_upper = exact._bounds(a, b, log_p, cut, 1 / 512)
            assert finer_lower <= truth + 1e-15 and truth <= finer_upper + 1e-15

    @pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.5])
    def test_hundreds_of_coordinates_of_three_kinds(self, epsilon):
        a, b, times = (0.3, 0.9, 0.02), (0.31, 0.88, 0.025), (300, 60, 30)
        laws = exact.Pair(0.0, 0.0, np.repeat(a, times), np.repeat(b, times))
        truth = enumeration.repeated(a, b, times, epsilon)
        lower, upper = exact.delta(laws, epsilon)
        assert lower <= truth * (1 + 1e-11) and truth <= upper * (1 + 1e-11)
        assert upper - lower < 2e-4

    def test_beyond_the_coordinates_that_are_multiplied_out(self):
        """40 000 coordinates: the power series of small ones carries most of the product."""
        a, b, times = (0.3, 0.6), (0.3008, 0.5995), (30_000, 10_000)
        laws = exact.Pair(-0.01, -0.02, np.repeat(a, times), np.repeat(b, times))
        n = np.arange(30_001)[:, None], np.arange(10_001)[None, :]
        from scipy.stats import binom

        p, q = (math.exp(log) for log in (-0.01, -0.02))
        keep = [
            np.flatnonzero(binom.pmf(k.ravel(), m, x) + binom.pmf(k.ravel(), m, y) > 1e-17)
            for k, m, x, y in zip(n, times, a, b, strict=True)
        ]
        first = np.multiply.outer(
            binom.pmf(keep[0], times[0], a[0]), binom.pmf(keep[1], times[1], a[1])
        )
        second = np.multiply.outer(
            binom.pmf(keep[0], times[0], b[0]), binom.pmf(keep[1], times[1], b[1])
        )
        truth = (1 - p) + float(np.maximum(p * first - q * second, 0).sum())
        lower, upper = exact.delta(laws)
        assert (
            lower <= truth + 1e-9 and truth <= upper + 1e-9
        )  # 1e-9: what scipy's binomials and the cut at 1e-17 may lose
        assert upper - lower < 1e-4


class TestOneCoordinate:
    def test_equals_the_quantizers_total_variation(self):
        for case in range(300):
            y, other, step = random_inputs(case, 1)
            lower, upper = exact.delta(exact.pair(y, other, step))
            assert (
                lower
                == upper
                == pytest.approx(quantizer.total_variation(y, other, step)[0], abs=1e-15)
            )


class TestOrder:
    """|y - y'| / d summed >= sum of variations >= 1 - product >= exact, in 10 x 1000 cases."""

    numbers = st.floats(-4, 4) | st.integers(-3, 3).map(float)

    @given(
        y=arrays(float, (10, 5), elements=numbers),
        move=arrays(float, (10, 5), elements=st.floats(-2, 2)),
        step=st.floats(0.3, 3),
    )
    @settings(max_examples=1000, deadline=None, derandomize=True)
    def test_sum_product_exact(self, y, move, step):
        other = y + move
        variation = quantizer.total_variation(y, other, step)
        paper = (np.abs(y - other) / step).sum(axis=1)
        product = 1.0 - np.prod(1.0 - variation, axis=1)
        _, whole = zip(
            *(exact.delta(laws) for laws in exact.pairs(10, y, other, step)), strict=True
        )
        rounding = 1e-12
        assert (variation.sum(axis=1) <= paper + rounding).all()
        assert (product <= variation.sum(axis=1) + rounding).all()
        assert (np.array(whole) <= product + rounding).all()
        assert (
            np.array(whole) >= variation.max(axis=1) - rounding
        ).all()  # one coordinate alone is a test too

    @given(
        y=arrays(float, 40, elements=st.floats(-4, 4)),
        move=arrays(float, 40, elements=st.floats(-0.05, 0.05)),
    )
    @settings(max_examples=20, deadline=None, derandomize=True)
    def test_many_coordinates_more_coordinates_and_larger_epsilon(self, y, move):
        laws, part = exact.pair(y, y + move, 1.0), exact.pair(y[:30], y[:30] + move[:30], 1.0)
        lower, upper = exact.delta(laws)
        assert 0 <= lower <= upper <= 1
        assert exact.delta(part)[0] <= upper + 1e-12  # seeing less gives away less
        curve = [exact.delta(laws, epsilon) for epsilon in (0.0, 0.2, 1.0, 4.0)]
        assert all(after[0] <= before[1] + 1e-12 for before, after in itertools.pairwise(curve))
        assert upper <= (1.0 - np.prod(1.0 - quantizer.total_variation(y, y + move, 1.0))) + 1e-9


class TestEdges:
    many = np.linspace(0.1, 0.9, 40)

    def test_identical_data_give_zero_exactly(self):
        assert exact.delta(exact.pair(self.many, self.many, 1.0)) == (0.0, 0.0)
        assert exact.delta(exact.pair(np.empty(0), np.empty(0), 1.0), 2.0) == (0.0, 0.0)

    @pytest.mark.parametrize("distance", [2.0, 2.5, 1e6])
    def test_inputs_two_steps_apart_give_one(self, distance):
        assert exact.delta(exact.pair(self.many, self.many + distance, 1.0)) == (1.0, 1.0)
        assert exact.delta(exact.pair(self.many, self.many + distance, 1.0), 50.0) == (1.0, 1.0)

    def test_infinite_ratios_in_both_directions(self):
        """One coordinate can only come from P, another only from P', together with many interior
        ones.
        """
        y = np.concatenate([[0.4, 1.3], self.many])
        other = np.concatenate([[1.3, 0.4], self.many + 0.01])
        laws = exact.pair(y, other, 1.0)
        assert laws.log_p == pytest.approx(math.log(0.4 * 0.7)) == laws.log_q and len(laws.a) == 40
        lower, upper = exact.delta(laws)
        inner_lower, inner_upper = exact.delta(laws._replace(log_p=0.0, log_q=0.0))
        assert (
            lower <= 1 - 0.28 * (1 - inner_upper) + 1e-9
            and 1 - 0.28 * (1 - inner_lower) <= upper + 1e-9
        )

    @pytest.mark.parametrize("epsilon", [30.0, 700.0, 1e300, math.inf])
    @pytest.mark.parametrize("count", [5, 40])
    def test_a_huge_epsilon_leaves_only_what_is_certain(self, epsilon, count):
        y = np.concatenate([[0.4], np.linspace(0.1, 0.9, count)])
        other = np.concatenate([[1.3], np.linspace(0.1, 0.9, count) + 0.01])
        lower, upper = exact.delta(exact.pair(y, other, 1.0), epsilon)
        assert lower == pytest.approx(0.6, abs=1e-12) and upper == pytest.approx(0.6, abs=1e-12)

    def test_probabilities_near_zero_and_one(self):
        rng = generator(9, Purpose.SYNTHETIC)
        tiny = 10.0 ** rng.uniform(-300, -3, 60)
        a, b = (
            np.concatenate([tiny, 1 - 1e-12 * np.arange(1, 31)]),
            np.concatenate([tiny * 1.5, 1 - 2e-12 * np.arange(1, 31)]),
        )
        for epsilon in (0.0, 0.5, 5.0, 100.0):
            lower, upper = exact.delta(exact.Pair(0.0, 0.0, a, b), epsilon)
            assert 0 <= lower <= upper <= np.abs(a - b).sum() * (1 + 1e-9)

    def test_total_variation_near_one(self):
        a, b = np.full(3000, 0.3), np.full(3000, 0.6)
        lower, upper = exact.delta(exact.Pair(0.0, 0.0, a, b))
        assert 1 - 1e-8 <= lower <= upper <= 1

    @pytest.mark.parametrize("epsilon", [-0.1, math.nan])
    def test_a_negative_epsilon_is_refused(self, epsilon):
        with pytest.raises(ValueError, match=r"epsilon = .* must not be negative"):
            exact.delta(exact.pair(self.many, self.many, 1.0), epsilon)

    def test_a_wrong_resolution_is_refused(self):
        with pytest.raises(ValueError, match="resolution = 0"):
            exact.delta(exact.pair(self.many, self.many, 1.0), resolution=0)


class TestThePartsOfTheProof:
    @pytest.mark.parametrize("sigma", [0.003, 0.05, 0.3, 1.0])
    def test_the_taper_lies_between_its_bounds(self, sigma):
        """e^(-sigma^2/8) m <= k <= m + B e^(-x^2/(2 sigma^2)), with m in closed form."""
        from scipy.special import erfcx

        x = np.concatenate([np.linspace(0, 5 * sigma, 2001), np.linspace(5 * sigma, 30, 500)])
        k = np.exp(-x / 2)

        def half(sign):  # E e^(-|x+N|/2) over x + N of one sign, by completing the square
            z = (sigma / 2 - sign * x / sigma) / math.sqrt(2)
            return 0.5 * np.exp(-(x**2) / (2 * sigma**2)) * erfcx(z)

        with np.errstate(over="ignore", invalid="ignore"):
            m = half(1) + half(-1)
        m = np.where(np.isfinite(m), m, k * math.exp(sigma**2 / 8))
        bump = (
            sigma
            * (1 / math.sqrt(2 * math.pi) + sigma / 2 * math.exp(sigma**2 / 8))
            * np.exp(-(x**2) / (2 * sigma**2))
        )
        assert (math.exp(-(sigma**2) / 8) * m <= k * (1 + 1e-12)).all()
        assert (k <= (m + bump) * (1 + 1e-12)).all()

    def test_the_transform_is_the_product_within_its_stated_error(self):
        rng = generator(10, Purpose.SYNTHETIC)
        a = rng.random(6000)
        b = np.clip(a + rng.normal(size=6000) * 1e-4, 1e-6, 1 - 1e-6)
        up, down = exact.losses(a, b)
        s = np.array([0.1, 1.0, 20.0, 300.0, 3000.0])
        psi, error = exact._transform(s, a, b, up - down)
        high, low = np.sqrt(a * b), np.sqrt((1 - a) * (1 - b))
        plain = np.prod(low + high * np.exp(1j * np.multiply.outer(s, up - down)), axis=1)
        assert (np.abs(psi - plain) <= error + exact.NEGLIGIBLE + 1e-12).all()
        assert np.abs(plain[:3]).min() > 0.01

    def test_coin_cumulants(self):
        """The generating function of a coin, summed from its cumulants."""
        for share in (0.03, 0.4, 0.77):
            v, u = share * (1 - share), 0.3
            total = share * u
            for k, (in_v, odd) in enumerate(exact._cumulants(), start=2):
                total += in_v(v) * ((1 - 2 * share) if odd else 1) * u**k / math.factorial(k)
            assert total == pytest.approx(math.log(1 - share + share * math.exp(u)), abs=1e-9)

    def test_the_tail_bound_is_one(self):
        a, b = np.full(40, 0.4), np.full(40, 0.6)
        up, down = exact.losses(a, b)
        reach = exact._reach(a, up, down)
        count = np.arange(41)
        from scipy.stats import binom

        assert binom.pmf(count, 40, 0.4)[
            count * up[0] + (40 - count) * down[0] > reach
        ].sum() <= math.exp(-exact.TAIL)


class TestBracket:
    def test_pieces_and_batches(self):
        y, other, step = random_inputs(3, 60)
        other = y + (other - y) * 0.02
        bracket = exact.Bracket(2)
        for piece in np.split(np.arange(60), 4):
            bracket.add(y[None, piece], np.stack([other[piece], y[piece]]), step[piece])
        found = bracket.delta()
        assert (found.lower[0], found.upper[0]) == pytest.approx(
            exact.delta(exact.pair(y, other, step)), abs=1e-12
        )
        assert found.upper[1] == 0 and found.confidence == 1.0
