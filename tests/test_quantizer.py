"""Eq. (3): exact pmf, unbiased, variance at most d^2 / 4, over the whole range of float64; and the
exact total variation.
"""

import hashlib
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
    assert quantizer.value(quantizer.quantise(y, step, coin), step) == algorithm1.quantise(
        y, step, coin
    )


@settings(max_examples=300, deadline=None)
@given(st.integers(-(2**40), 2**40), st.integers(-30, 30), coins)
def test_grid_points_are_sent_unchanged(level, exponent, coin):
    step = 2.0**exponent
    assert quantizer.quantise(level * step, step, coin) == level


def test_pmf_by_enumerating_every_coin_of_ten_bits():
    """Over all 2^10 coins k / 2^10, the share of upward moves is exactly the fractional part, for
    fractions of ten bits.
    """
    all_coins = np.arange(1024) / 1024
    for numerator in range(-2048, 2049, 7):
        y = numerator / 1024
        levels = quantizer.quantise(np.full(1024, y), 1.0, all_coins)
        for level in (math.floor(y) - 1, math.floor(y), math.floor(y) + 1, math.floor(y) + 2):
            assert (levels == level).mean() == quantizer.probability(level, y, 1.0)


def test_probabilities_sum_to_one():
    y = np.linspace(-3, 3, 601)
    assert np.array_equal(
        sum(quantizer.probability(level, y, 0.37) for level in range(-12, 12)), np.ones(601)
    )


def test_unbiased_and_variance_bounded_over_ten_million_draws():
    """At confidence 1 - 1e-6 for each of the two statements (Hoeffding; errors are bounded by one
    step).
    """
    draws, step = 10_000_000, 0.7
    y = np.array([0.0, 0.05, 0.175, 0.35, -0.35, 0.6, -5.123, 1e6 + 0.1, 0.7, -1.4])
    error = np.empty((100, draws // 1000, len(y)))
    uniforms = Uniforms(20261116, Purpose.COINS)
    for block in range(100):
        error[block] = (
            quantizer.value(
                quantizer.quantise(y, step, uniforms([0], block, error.shape[1:])[0]), step
            )
            - y
        )
    per_input = draws // len(y)
    error = error.reshape(per_input, len(y)) / step
    slack = math.sqrt(
        math.log(2 * len(y) / 1e-6) / (2 * per_input)
    )  # each error / step lies in an interval of length one
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
        assert np.array_equal(
            levels[run, agent], quantizer.quantise(y[run, agent], step[agent], uniform[run, agent])
        )
    assert np.abs(quantizer.value(levels, step[:, None]) - y).max() < 1.0


REFUSED = {
    "zero step": (1.0, 0.0, "step = 0.0 must be positive and finite"),
    "negative step": (1.0, -1.0, "step = -1.0 must be positive and finite"),
    "infinite step": (1.0, math.inf, "step = inf must be positive and finite"),
    "NaN step": (1.0, math.nan, "step = nan must be positive and finite"),
    "one bad step of many": (
        np.ones((2, 3)),
        np.array([1.0, 0.0, 1.0]),
        "step = 0.0 must be positive",
    ),
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
    levels = {
        int(level) + up
        for value in (y, other)
        for level in [quantizer.pmf(value, step).lower]
        for up in (0, 1)
    }
    return 0.5 * sum(
        abs(float(quantizer.probability(n, y, step) - quantizer.probability(n, other, step)))
        for n in levels
    )


@settings(max_examples=2000, deadline=None)
@given(st.floats(-1e6, 1e6), st.floats(-3, 3), st.floats(1e-3, 1e3))
def test_total_variation_equals_the_sum_over_levels(y, shift, step):
    other = y + shift * step
    exact = float(quantizer.total_variation(y, other, step))
    assert exact == pytest.approx(enumerated_total_variation(y, other, step), abs=1e-12)
    assert exact == quantizer.total_variation(other, y, step)
    assert (
        0 <= exact <= min(1.0, abs(y / step - other / step) + 1e-12)
    )  # Lemma 6, and its missing case


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
    assert quantizer.bits_fixed_length(
        np.array([[3, 3, 3], [0, 1, 1], [-1, 0, 2], [0, 4, 8]])
    ).tolist() == [0, 1, 2, 4]
    assert quantizer.bits_entropy(np.zeros(10)) == 0.0
    assert quantizer.bits_entropy([0, 1, 2, 3]) == pytest.approx(2.0)
    assert quantizer.bits_entropy([0, 0, 0, 1]) == pytest.approx(0.8112781244591328)


def test_without_dither_the_bits_are_as_before():
    """Levels and values on fixed inputs, by their hashes: the dither must not touch the path
    without it.
    """
    draws, step = (7, 5, 1000), np.array([0.3, 0.01, 1.0, 2.5, 1e-9])[:, None]
    y, uniform = (
        Uniforms(1, Purpose.INITIAL)([0], 0, draws)[0],
        Uniforms(2, Purpose.COINS)([0], 0, draws)[0],
    )
    levels = quantizer.quantise(20 * y - 10, step, uniform)
    sent = quantizer.value(levels, step)
    hashes = [
        hashlib.sha256(array.tobytes()).hexdigest()
        for array in (levels.astype("<i8"), sent.astype("<f8"))
    ]
    assert hashes[0] == "4276603a6de173e33fc142338df8cd5c709c07dfbe0a674fbc18f8b664cbd18b"
    assert hashes[1] == "a2238f34f1073369a5ff186f299eb401f9cbc9a3cd5ec01097e9fe9beadc9201"
    unmoved = quantizer.quantise(20 * y - 10, step, uniform, np.zeros(draws))
    assert np.array_equal(unmoved, levels) and np.array_equal(
        quantizer.value(unmoved, step, np.zeros(draws)), sent
    )


@settings(max_examples=1000, deadline=None)
@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e3), coins, st.integers(0, 2**53 - 1))
def test_dithered_levels_are_the_two_neighbours_on_the_moved_grid(y, step, coin, share):
    dither = share * 2.0**-53
    lower, up = quantizer.pmf(y, step, dither)
    ratio = Fraction(y / step) - Fraction(dither)
    assert abs(Fraction(int(lower)) + Fraction(float(up)) - ratio) <= Fraction(
        3, 2**54
    )  # as `pmf` proves, however large y is
    level = quantizer.quantise(y, step, coin, dither)
    assert level.dtype == np.int64 and level == lower + (coin < up)
    literal = algorithm1.quantise_dithered(y, step, coin, dither)
    near = min(
        abs(float(coin) - float(up)), float(up), 1.0 - float(up)
    )  # where rounding may decide the coin or the cell
    assume(near > 1e-15 * (1 + abs(y / step)))
    assert quantizer.value(level, step, dither) == pytest.approx(
        literal, rel=1e-12, abs=1e-12 * step
    )


def test_the_dithered_error_is_the_same_for_every_input_by_enumeration():
    """All 64 dithers x 64 coins: errors -a and 1 - a come with weights 1 - a and a, the same counts
    whatever the input.
    """
    dither, coin = (grid.ravel() / 64 for grid in np.meshgrid(np.arange(64), np.arange(64)))
    cells = np.arange(-64, 65)
    expected = 64 - np.abs(cells)
    for numerator in (0, 1, 17, 63, 64, -1, -40, -64, 64 * 2**20 + 3, -(64 * 2**30) + 7):
        y = numerator / 64
        error = quantizer.value(quantizer.quantise(y, 1.0, coin, dither), 1.0, dither) - y
        assert np.array_equal(np.bincount((64 * error).astype(int) + 64, minlength=129), expected)


DITHERED_INPUTS = [0.0, 0.35, 0.7, -1.4, -5.123, 1e-300, 1e6 + 0.1, 0.7 * 2**45]


def dithered_errors(y, step, draws, run):
    """Return (value - y) / step; from level and dither, because a huge value has no digits left for
    it.
    """
    coin, dither = (
        Uniforms(seed, purpose)([run], 0, (draws,))[0]
        for seed, purpose in ((3, Purpose.COINS), (4, Purpose.DITHER))
    )
    cell = np.floor(y / step)
    return (quantizer.quantise(y, step, coin, dither) - int(cell)) + (dither - (y / step - cell))


@pytest.mark.parametrize("run", range(len(DITHERED_INPUTS)))
def test_the_dithered_error_is_triangular_and_unbiased_with_variance_a_sixth(run):
    """A million draws per input. Each of the three statements has false alarm 1e-7 (DKW, Hoeffding,
    Hoeffding).
    """
    draws = 1_000_000
    error = np.sort(dithered_errors(DITHERED_INPUTS[run], 0.7, draws, run))
    assert np.abs(error).max() < 1
    triangle = np.where(error < 0, (1 + error) ** 2 / 2, 1 - (1 - error) ** 2 / 2)
    distance = np.abs(triangle - (np.arange(draws) + 0.5) / draws).max() + 0.5 / draws
    slack = math.sqrt(math.log(2 / 1e-7) / (2 * draws))
    assert distance < slack
    assert abs(error.mean()) < 2 * slack  # in (-1, 1), an interval of length two
    assert abs(np.mean(error**2) - 1 / 6) < slack


def test_given_the_dither_the_variance_is_bounded_as_before():
    dither = generator(5, Purpose.DITHER).random(100_000)
    up = quantizer.pmf(0.123, 0.4, dither).upper_probability
    assert (up * (1 - up) <= 0.25).all()
    assert np.mean(up * (1 - up)) == pytest.approx(
        1 / 6, abs=0.25 * math.sqrt(math.log(2 / 1e-6) / 200_000)
    )  # false alarm 1e-6


def test_probabilities_of_a_dithered_message_sum_to_one():
    y, dither = np.linspace(-3, 3, 601), generator(6, Purpose.DITHER).random(601)
    total = sum(quantizer.probability(level, y, 0.37, dither) for level in range(-12, 12))
    assert np.array_equal(total, np.ones(601))


@pytest.mark.parametrize("dither", [1.0, -0.1, math.nan, math.inf, np.array([0.5, 2.0])])
def test_a_dither_outside_a_step_is_refused(dither):
    with pytest.raises(ValueError, match=r"dither = \S+ must lie in \[0, 1\), a share of a step"):
        quantizer.quantise(np.zeros(2), 1.0, 0.5, dither)


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_levels_may_be_floats_and_what_is_no_level_is_never_sent(degree):
    levels = np.arange(-4.0, 5.0)
    chances = quantizer.probability(levels, 0.3, 1.0, degree=degree)
    assert np.array_equal(
        chances, quantizer.probability(levels.astype(np.int64), 0.3, 1.0, degree=degree)
    )
    assert chances.sum() == pytest.approx(1.0)
    assert not quantizer.probability(levels + 0.5, 0.3, 1.0, degree=degree).any()
