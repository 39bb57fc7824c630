"""The smoother coin: levels with B-spline weights, for every degree, with and without a public
dither.
"""

from __future__ import annotations

import doctest
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldp_core import quantizer
from ldp_core.randomness import Purpose, generator
from tests.reference import algorithm1

DEGREES = range(1, 7)
SMOOTH = range(2, 7)
fractions = st.fractions(-5, 5, max_denominator=64)
dithers = st.one_of(st.none(), st.integers(0, 63).map(lambda k: k / 64))


def truncated_powers(x: Fraction, degree: int) -> Fraction:
    """Return the B-spline by its other formula: 1/p! sum_j (-1)^j binom(p+1, j) (x - j)_+^p."""
    terms = (
        (-1) ** j * math.comb(degree + 1, j) * max(Fraction(0), x - j) ** degree
        for j in range(degree + 2)
    )
    return sum(terms, Fraction(0)) / math.factorial(degree)


def test_the_examples_of_the_module():
    assert doctest.testmod(quantizer).failed == 0


@settings(max_examples=400, deadline=None)
@given(fractions, dithers, st.sampled_from(DEGREES))
def test_the_law_is_the_spline_in_rational_arithmetic_unbiased_and_of_the_stated_variance(
    y, dither, degree
):
    found = quantizer.law(float(y), 1.0, dither, degree)
    x = Fraction(float(y)) - Fraction(dither or 0)
    levels = [int(found.lowest) + k for k in range(degree + 1)]
    exact = [truncated_powers(level - x + Fraction(degree + 1, 2), degree) for level in levels]
    assert np.allclose(found.probabilities, [float(p) for p in exact], rtol=0, atol=1e-14)
    assert sum(exact) == 1 and sum(p * level for p, level in zip(exact, levels, strict=True)) == x
    variance = sum(p * (level - x) ** 2 for p, level in zip(exact, levels, strict=True))
    assert variance == Fraction(degree + 1, 12) if degree > 1 else variance <= Fraction(1, 4)


@settings(max_examples=500, deadline=None)
@given(
    st.floats(-1e6, 1e6),
    st.floats(1e-3, 1e3),
    st.floats(0, 1, exclude_max=True),
    dithers,
    st.sampled_from(DEGREES),
)
def test_one_coin_decides_by_the_cumulated_weights(y, step, coin, dither, degree):
    found = quantizer.law(y, step, dither, degree)
    level = int(quantizer.quantise(y, step, coin, dither, degree))
    above = math.fsum(found.probabilities[max(0, level - int(found.lowest) + 1) :].tolist())
    assert (
        above <= coin + 1e-15
        and coin < above + quantizer.probability(level, y, step, dither, degree) + 1e-15
    )


@settings(max_examples=300, deadline=None)
@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e3), st.floats(0, 1, exclude_max=True), dithers)
def test_degree_one_is_the_paper_bit_for_bit(y, step, coin, dither):
    lower, up = quantizer.pmf(y, step, dither)
    assert quantizer.quantise(y, step, coin, dither, degree=1) == lower + (coin < up)
    found = quantizer.law(y, step, dither)
    assert found.lowest == lower and found.probabilities.tolist() == [1.0 - up, up]


@settings(max_examples=500, deadline=None)
@given(
    st.floats(-100, 100),
    st.floats(0.01, 100),
    st.floats(0, 1, exclude_max=True),
    dithers,
    st.sampled_from(DEGREES),
)
def test_equals_the_literal_transcription(y, step, coin, dither, degree):
    value = quantizer.value(quantizer.quantise(y, step, coin, dither, degree), step, dither)
    literal, margin = algorithm1.quantise_spline(y, step, coin, dither or 0.0, degree)
    if margin > 1e-12:  # otherwise rounding may decide
        assert value == pytest.approx(literal, rel=1e-12, abs=1e-12 * step)


def test_the_pmf_by_enumerating_every_coin_of_twelve_bits():
    """Over all coins k / 2^12 every level comes as often as its probability says, up to one coin a
    threshold.
    """
    coins = np.arange(4096) / 4096
    for degree in DEGREES:
        for y in (0.0, 0.3, -1.75, 2.5):
            levels = quantizer.quantise(np.full(4096, y), 1.0, coins, None, degree)
            for level in range(-8, 9):
                share = (levels == level).mean()
                assert abs(share - quantizer.probability(level, y, 1.0, None, degree)) <= 1 / 4096


@pytest.mark.parametrize("degree", DEGREES)
@pytest.mark.parametrize("dithered", [False, True])
def test_simulated_mean_and_variance(degree, dithered):
    """A million draws; errors lie in an interval of p + 1 steps, so both statements have false
    alarm 1e-7 (Hoeffding).
    """
    draws = 1_000_000
    coins = generator(11, Purpose.COINS, run=degree).random(draws)
    dither = generator(12, Purpose.DITHER, run=degree).random(draws) if dithered else None
    error = (
        quantizer.value(quantizer.quantise(-5.123, 0.7, coins, dither, degree), 0.7, dither) / 0.7
        + 5.123 / 0.7
    )
    slack = math.sqrt(math.log(2 / 1e-7) / (2 * draws)) * (degree + 1)
    assert np.abs(error).max() < (degree + 1) / 2
    assert abs(error.mean()) < slack
    if degree > 1 or dithered:
        assert abs(np.mean(error**2) - (degree + 1) / 12) < slack * (degree + 1) / 4


@pytest.mark.parametrize("degree", DEGREES)
def test_the_dithered_error_has_the_density_of_a_sum_of_uniforms(degree):
    """The cells of a histogram of a million errors, each with false alarm 1e-8 (Hoeffding)."""
    draws, cells = 1_000_000, 40
    coins = generator(13, Purpose.COINS, run=degree).random(draws)
    dither = generator(14, Purpose.DITHER, run=degree).random(draws)
    error = quantizer.quantise(0.3, 1.0, coins, dither, degree) + dither - 0.3
    edges = np.linspace(-(degree + 1) / 2, (degree + 1) / 2, cells + 1)
    found = np.histogram(error, edges)[0] / draws
    fine = np.linspace(edges[0], edges[-1], 200 * cells + 1)
    middle = quantizer.density((fine[1:] + fine[:-1]) / 2, degree).reshape(cells, 200).mean(axis=1)
    expected = middle * (edges[1] - edges[0])
    assert np.abs(found - expected).max() < math.sqrt(math.log(2 / 1e-8) / (2 * draws)) + 1e-6


def test_information_in_closed_form():
    assert quantizer.information(1) == math.inf
    assert quantizer.information(2) == pytest.approx(6.0, rel=2e-6)
    assert quantizer.information(2, True) == pytest.approx(
        2 * math.sqrt(3) * math.log(2 + math.sqrt(3)), rel=2e-9
    )
    assert quantizer.information(3, True) == pytest.approx(3.115725698, rel=2e-9)
    assert quantizer.information(4) == pytest.approx(140 / 57, rel=2e-6)


def _information(a: Fraction, degree: int) -> Fraction:
    """Return I(a) in rational arithmetic, from the other formula of the spline."""
    total = Fraction(0)
    for i in range(degree + 1):
        slope = truncated_powers(a + i, degree - 1) - truncated_powers(a + i - 1, degree - 1)
        total += slope**2 / truncated_powers(a + i, degree)
    return total


@pytest.mark.parametrize("degree", SMOOTH)
def test_information_is_never_below_the_truth(degree):
    """Grid values are exact; between two points of a grid of step h the truth exceeds them by at
    most h^2 / 8 max |I''|.
    """
    cells = 400
    values = [_information(Fraction(2 * k + 1, 2 * cells), degree) for k in range(cells)]
    bend = (
        max(abs(a - 2 * b + c) for a, b, c in zip(values, values[1:], values[2:], strict=False))
        * cells**2
    )
    missed = float(bend) * 2.0**-26 / 8  # by the grid that `information` takes
    assert missed < 0.5e-6 * quantizer.information(degree)
    assert float(max(values)) <= quantizer.information(degree) <= float(max(values)) * 1.01
    mean = float(sum(values) / cells)
    assert quantizer.information(degree, True) == pytest.approx(mean, rel=1e-4)


@settings(max_examples=500, deadline=None)
@given(st.floats(-3, 3), st.floats(0, 3), st.sampled_from(SMOOTH))
def test_a_shift_costs_at_most_its_share_of_the_information(y, eps, degree):
    """cos(sqrt(I) eps / 2) <= affinity: the path of square roots of the laws has that length
    (docs/proofs/promise.md).
    """
    angle = math.sqrt(quantizer.information(degree)) * eps / 2
    found = float(quantizer.affinity(y, y + eps, 1.0, None, degree))
    assert found <= 1 + 1e-12
    assert found >= (math.cos(angle) if angle < math.pi / 2 else 0.0) - 1e-12
    assert found >= 1 - quantizer.information(degree) * eps**2 / 8 - 1e-12


@pytest.mark.parametrize("degree", SMOOTH)
def test_with_a_dither_the_mean_information_counts(degree):
    """The affinity over a uniform dither, by quadrature; as eps falls it loses I eps^2 / 8, no more
    and no less.
    """
    dither = (np.arange(2000) + 0.5) / 2000
    for eps in (0.01, 0.1, 0.5):
        lost = 1 - quantizer.affinity(0.2, 0.2 + eps, 1.0, dither, degree).mean()
        bound = quantizer.information(degree, True) * eps**2 / 8
        assert lost <= bound * (1 + 1e-6)
        assert lost >= bound * (0.99 if eps < 0.05 and degree > 2 else 0.7)


def test_the_triangle_costs_at_most_its_one_line():
    """Degree 1 with a dither: 1 - affinity <= eps^2 / 8 (3 + log(16 / eps^2)) for every eps."""
    eps = np.geomspace(1e-3, 2.0, 400)
    c, e = 1 - eps / 2, eps / 2  # the integral of the root of two triangles, eps apart
    near = np.minimum(e / np.maximum(c, 1e-9), 1.0)
    closed = np.sqrt(np.maximum(1 - eps, 0)) + c**2 * np.arcsin(near) - e**2 * np.arccosh(1 / near)
    lost = 1 - np.where(eps <= 1, closed, np.pi / 2 * c**2)
    assert (lost <= eps**2 / 8 * (3 + np.log(16 / eps**2))).all()
    for k in (50, 200, 350):
        dither = (np.arange(4000) + 0.5) / 4000
        seen = 1 - quantizer.affinity(0.2, 0.2 + eps[k], 1.0, dither).mean()
        assert seen == pytest.approx(lost[k], rel=1e-2)


@pytest.mark.parametrize("degree", [0, 9, 1.5, True, "3", None])
def test_a_degree_that_is_none_is_refused(degree):
    with pytest.raises(
        ValueError, match=r"degree = .* must be (a whole number|at least 1|at most 8)"
    ):
        quantizer.law(0.3, 1.0, degree=degree)
