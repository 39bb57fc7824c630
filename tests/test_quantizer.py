"""Eq. (3): exact pmf, unbiased, variance at most d^2 / 4, over the whole range of float64; and the exact total variation."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ldp_core import quantizer
from ldp_core.randomness import Purpose, Uniforms, generator
from tests.reference import algorithm1

finite = st.floats(allow_nan=False, allow_infinity=False)
steps = st.floats(min_value=5e-324, allow_nan=False, allow_infinity=False)
coins = st.floats(0, 1, exclude_max=True)


def fits(y, step):
    return abs(Fraction(y) / Fraction(step)) <= 2**51


@settings(max_examples=2000, deadline=None)
@given(finite, steps, coins)
def test_levels_are_the_two_neighbours_over_the_whole_float_range(y, step, coin):
    assume(fits(y, step))
    level = int(quantizer.quantise(y, step, coin))
    ratio = Fraction(y) / Fraction(step)
    assert abs(level - ratio) < 1 + Fraction(1, 2**20)  # y / step itself is rounded once
    lower, up = quantizer.pmf(y, step)
    assert 0 <= up <= 1  # a tiny negative input has a fraction that rounds to one
    assert level == lower + (coin < up)


@settings(max_examples=2000, deadline=None)
@given(finite, steps)
def test_the_mean_is_the_input(y, step):
    assume(fits(y, step))
    lower, up = quantizer.pmf(y, step)
    mean = Fraction(int(lower)) + Fraction(float(up))
    assert abs(mean - Fraction(y) / Fraction(step)) <= Fraction(2) ** -52 * max(1, abs(mean))


@settings(max_examples=1000, deadline=None)
@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e3), coins)
def test_equals_the_papers_wording(y, step, coin):
    """The paper writes the fraction in (0, 1]; the message is the same, coin by coin."""
    assert quantizer.value(quantizer.quantise(y, step, coin), step) == algorithm1.quantise(y, step, coin)


@settings(max_examples=300, deadline=None)
@given(st.integers(-(2**40), 2**40), st.integers(-30, 30), coins)
def test_grid_points_are_sent_unchanged(level, exponent, coin):
    step = 2.0**exponent
    assert quantizer.quantise(level * step, step, coin) == level


def test_pmf_by_enumerating_every_coin_of_ten_bits():
    """Over all 2^10 coins k / 2^10, the share of upward moves is exactly the fractional part, for fractions of ten bits."""
    all_coins = np.arange(1024) / 1024
    for numerator in range(-2048, 2049, 7):
        y = numerator / 1024
        levels = quantizer.quantise(np.full(1024, y), 1.0, all_coins)
        for level in (math.floor(y) - 1, math.floor(y), math.floor(y) + 1, math.floor(y) + 2):
            assert (levels == level).mean() == quantizer.probability(level, y, 1.0)


def test_probabilities_sum_to_one():
    y = np.linspace(-3, 3, 601)
    assert np.array_equal(sum(quantizer.probability(level, y, 0.37) for level in range(-12, 12)), np.ones(601))


def test_unbiased_and_variance_bounded_over_ten_million_draws():
    """At confidence 1 - 1e-6 for each of the two statements (Hoeffding; errors are bounded by one step)."""
    draws, step = 10_000_000, 0.7
    y = np.array([0.0, 0.05, 0.175, 0.35, -0.35, 0.6, -5.123, 1e6 + 0.1, 0.7, -1.4])
    error = np.empty((100, draws // 1000, len(y)))
    uniforms = Uniforms(20261116, Purpose.COINS)
    for block in range(100):
        error[block] = quantizer.value(quantizer.quantise(y, step, uniforms([0], block, error.shape[1:])[0]), step) - y
    per_input = draws // len(y)
    error = error.reshape(per_input, len(y)) / step
    slack = math.sqrt(math.log(2 * len(y) / 1e-6) / (2 * per_input))  # each error / step lies in an interval of length one
    assert np.abs(error.mean(axis=0)).max() < slack + 1e-9
    assert (np.mean(error**2, axis=0) < 0.25 + slack).all()


def test_variance_is_exact():
    up = quantizer.pmf(np.linspace(-1, 1, 2001), 0.3).upper_probability
    assert (up * (1 - up)).max() == pytest.approx(0.25, abs=1e-5) and (up * (1 - up) <= 0.25).all()


def test_steps_of_agents_broadcast():
    y = generator(1, Purpose.INITIAL).normal(size=(3, 4, 6))
    step, uniform = np.array([0.1, 0.2, 0.5, 1.0]), generator(2, Purpose.COINS).random((3, 4, 6))
    levels = quantizer.quantise(y, step[:, None], uniform)
    assert levels.dtype == np.int64
    for run, agent in itertools.product(range(3), range(4)):
        assert np.array_equal(levels[run, agent], quantizer.quantise(y[run, agent], step[agent], uniform[run, agent]))
    assert np.abs(quantizer.value(levels, step[:, None]) - y).max() < 1.0


REFUSED = {
    "zero step": (1.0, 0.0, "step = 0.0 must be positive and finite"),
    "negative step": (1.0, -1.0, "step = -1.0 must be positive and finite"),
    "infinite step": (1.0, math.inf, "step = inf must be positive and finite"),
    "NaN step": (1.0, math.nan, "step = nan must be positive and finite"),
    "one bad step of many": (np.ones((2, 3)), np.array([1.0, 0.0, 1.0]), "step = 0.0 must be positive"),
    "NaN input": (math.nan, 1.0, "y = nan must be finite"),
    "infinite input": (np.array([0.0, -math.inf]), 1.0, "y = -inf must be finite"),
    "huge ratio": (1e300, 1e-300, r"\|y\| / step = 1e\+300 / 1e-300 must not exceed 2\*\*52"),
    "ratio beyond integers": (2.0**60, 1.0, r"must not exceed 2\*\*52"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_one_sentence(name):
    y, step, sentence = REFUSED[name]
    with pytest.raises(ValueError, match=sentence):
        quantizer.quantise(y, step, 0.5)


def test_the_largest_ratio_is_still_sent():
    assert quantizer.quantise(2.0**52, 1.0, 0.5) == 2**52


def enumerated_total_variation(y, other, step):
    levels = {int(level) + up for value in (y, other) for level in [quantizer.pmf(value, step).lower] for up in (0, 1)}
    return 0.5 * sum(abs(float(quantizer.probability(n, y, step) - quantizer.probability(n, other, step))) for n in levels)


@settings(max_examples=2000, deadline=None)
@given(st.floats(-1e6, 1e6), st.floats(-3, 3), st.floats(1e-3, 1e3))
def test_total_variation_equals_the_sum_over_levels(y, shift, step):
    other = y + shift * step
    exact = float(quantizer.total_variation(y, other, step))
    assert exact == pytest.approx(enumerated_total_variation(y, other, step), abs=1e-12)
    assert exact == quantizer.total_variation(other, y, step)
    assert 0 <= exact <= min(1.0, abs(y / step - other / step) + 1e-12)  # Lemma 6, and its missing case


def test_total_variation_case_by_case():
    cases = [
        (0.2, 0.5, 0.3),
        (0.2, 1.5, 0.8),
        (0.9, 1.3, 0.3),
        (0.2, 2.1, 1.0),
        (0.5, 0.5, 0.0),
        (0.0, 1.0, 1.0),
        (-0.25, 0.25, 0.25),
    ]
    for y, other, expected in cases:
        assert quantizer.total_variation(y, other, 1.0) == pytest.approx(expected, abs=1e-15)


def test_bits_of_a_message():
    assert quantizer.bits_fixed_length(np.array([[3, 3, 3], [0, 1, 1], [-1, 0, 2], [0, 4, 8]])).tolist() == [0, 1, 2, 4]
    assert quantizer.bits_entropy(np.zeros(10)) == 0.0
    assert quantizer.bits_entropy([0, 1, 2, 3]) == pytest.approx(2.0)
    assert quantizer.bits_entropy([0, 0, 0, 1]) == pytest.approx(0.8112781244591328)
