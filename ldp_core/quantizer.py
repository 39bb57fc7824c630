"""The dynamic stochastic quantizer of eq. (3), and what one quantised coordinate gives away.

    >>> quantise(y=2.3, step=1.0, coins=np.array([0.1, 0.5, 0.9])).tolist()
    [3, 2, 2]
    >>> law(0.25, 1.0, degree=3).probabilities.round(4).tolist()  # of the levels -1, 0, 1, 2
    [0.0703, 0.612, 0.3151, 0.0026]
    >>> [round(information(p) * (p + 1) / 12, 3) for p in (2, 3, 4)]  # times variance; Gaussian: 1
    [1.5, 1.046, 1.023]

A message is a whole number, the *level*, sent together with the public step: value = level * step.
An input y goes to one of its two neighbouring levels, up with probability its fractional part:

    y / d = n + a,  0 <= a < 1:     level = n + 1 with probability a,  n with probability 1 - a.

So E[Q(y)] = y, and the variance a (1 - a) d**2 is at most d**2 / 4.

With a *public dither* (Gray and Stockham 1993; ours, not the paper's) the grid is moved by U d, U
uniform in [0, 1), fresh for every coordinate and message, known to everybody and independent of the
data: value = (level + U) * step. With `degree` p (ours too) the level is one of the p + 1 grid
points nearest to y, with the values of the B-spline of degree p as weights. Still E[value] = y; for
p >= 2 a shift of eps steps costs eps**2, not eps. Proofs: docs/proofs/promise.md, section 1.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ldp_core import checks

LARGEST_LEVEL = 2.0**52  # beyond it a float64 has no fractional part left, and eq. (3) no meaning
GRID = np.linspace(0.0, 1.0, 2**13 + 1)  # of fractions, where the largest information is found
LARGEST_DEGREE = 8  # of the spline; its noise is then Gaussian to the eye


class Pmf(NamedTuple):
    """The two levels of an input: `lower`, or with `upper_probability` `lower + 1`."""

    lower: np.ndarray
    upper_probability: np.ndarray


class Law(NamedTuple):
    """The levels `lowest` ... `lowest + degree`, and `probabilities` `[..., degree + 1]`."""

    lowest: np.ndarray
    probabilities: np.ndarray


class NotFinite(ArithmeticError, ValueError):
    """A number as only a diverging run produces it: infinite, NaN, or too large for the step."""


def pmf(y, step, dither=None) -> Pmf:
    """Return the two-point distribution of the level (eq. (3)), on the grid moved by a dither.

    y / d is split into cell and fraction before U is subtracted, so that no digit of U is lost.
    Raises ValueError when a step is not positive and finite, a dither is not in [0, 1), an input is
    not finite, or |y| / step exceeds 2**52.
    """
    y = np.asarray(y, dtype=np.float64)
    step = checks.every("step", step, checks.positive, "be positive and finite (eq. (3))")
    with np.errstate(over="ignore", invalid="ignore"):
        ratio = y / step
    _require_ratio(ratio, y, step)
    lower = np.floor(ratio)
    ratio -= lower
    if dither is None:
        return Pmf(lower.astype(np.int64), ratio)
    moved = ratio - _unit("dither", dither, "a share of a step")
    below = np.floor(moved)
    return Pmf((lower + below).astype(np.int64), moved - below)


def quantise(y, step, coins, dither=None, degree: int = 1) -> np.ndarray:
    """Return integer levels for y, decided by `coins` uniform in [0, 1): up when coin < fraction.

    One coin decides among degree + 1 levels too, by their cumulated weights, the highest first.
    """
    coins = _unit("coins", coins, "a uniform number")
    if degree == 1:
        lower, upper_probability = pmf(y, step, dither)
        return lower + (coins < upper_probability)
    level, fraction = _cell(y, step, dither, degree)
    threshold = np.zeros(np.shape(fraction))
    for weight in _weights(fraction, degree)[:-1]:
        threshold = threshold + weight
        level = level + (coins < threshold)
    return level


def law(y, step, dither=None, degree: int = 1) -> Law:
    """Return the law of the level of y: B-spline weights of its p + 1 neighbours.

    With x = y / d - U, n = floor(x) (even p: floor(x + 1/2)), a the fraction that is left and b_p
    the density of the sum of p + 1 uniform numbers, level n - floor(p/2) + p - i has b_p(a + i).
    """
    lowest, fraction = _cell(y, step, dither, degree)
    return Law(lowest, np.stack(_weights(fraction, degree)[::-1], axis=-1))


def precision(degree: int) -> float:
    """Return the total variation per coordinate that coins and dithers of 53 bits can cost."""
    return 2.0**-51 if degree == 1 else 24 * degree**2 * 2.0**-54


def density(x, degree: int = 1) -> np.ndarray:
    """Return the density of (value - y) / d over a uniform dither: the centred B-spline."""
    x = checks.every("x", x, lambda x: ~np.isnan(x), "not be NaN")
    x = x + (require_degree(degree) + 1) / 2
    cell = np.clip(np.floor(x), 0, degree).astype(np.int64)
    weights = np.stack(_weights(np.clip(x - cell, 0.0, 1.0), degree))
    found = np.take_along_axis(weights, cell[None], axis=0)[0]
    return np.where((x >= 0) & (x <= degree + 1), found, 0.0)


def affinity(y, other, step, dither=None, degree: int = 1) -> np.ndarray:
    """Return the affinity sum_k sqrt(P(k) P'(k)) of the levels of two inputs, by coordinate."""
    ours, theirs = law(y, step, dither, degree), law(other, step, dither, degree)
    both = ((ours.probabilities[..., k], _at(theirs, ours.lowest + k)) for k in range(degree + 1))
    return np.sum([np.sqrt(one * two) for one, two in both], axis=0)


@lru_cache
def information(degree: int, dithered: bool = False) -> float:
    """Return a bound of the Fisher information about y / d: the largest over y; dithered, the mean.

    At fraction a it is sum_i b_p'(a + i)**2 / b_p(a + i), infinite for p = 1. The mean is a Gauss
    sum, the largest value is taken on a grid; the parts added cover what they miss.
    """
    if require_degree(degree) == 1:
        return math.inf
    if dithered:
        nodes, weights = np.polynomial.legendre.leggauss(64)
        return float(_information((nodes + 1.0) / 2.0, degree) @ weights) / 2.0 * (1.0 + 1e-9)
    return float(_information(GRID, degree).max()) * (1.0 + 1e-6)


def dearest(degree: int) -> float:
    """Return the place y / d, within a cell, at which a level gives most information about it."""
    fraction = GRID[_information(GRID, require_degree(degree)).argmax()]
    return float(fraction) - (0.0 if degree % 2 else 0.5)


def value(levels, step, dither=None) -> np.ndarray:
    """Return what a receiver makes of a message: level * step, or (level + dither) * step."""
    levels = np.asarray(levels) if dither is None else levels + np.asarray(dither, dtype=np.float64)
    return levels * np.asarray(step, dtype=np.float64)


def probability(level, y, step, dither=None, degree: int = 1) -> np.ndarray:
    """Return the probability of a level, given the dither."""
    return _at(law(y, step, dither, degree), level)


def total_variation(y, other, step) -> np.ndarray:
    """Return the exact total variation between the messages of two inputs (degree 1, no dither).

    With n + a and n' + a' for the two inputs divided by the step: |a - a'| when n' = n, max(1 - a,
    a') when n' = n + 1 (only n + 1 is shared), and 1 when they are farther apart.
    """
    first, second = pmf(y, step), pmf(other, step)
    swap = first.lower > second.lower
    low = np.where(swap, second.upper_probability, first.upper_probability)
    high = np.where(swap, first.upper_probability, second.upper_probability)
    apart = np.abs(first.lower - second.lower)
    near = [np.abs(low - high), np.maximum(1.0 - low, high)]
    return np.select([apart == 0, apart == 1], near, 1.0)


def bits_fixed_length(levels) -> np.ndarray:
    """Return bits per coordinate when every level of a message (the last axis) takes as many."""
    if not np.shape(levels)[-1:] > (0,):
        raise ValueError("levels must hold one level at least")
    return np.ceil(np.log2(np.ptp(np.asarray(levels), axis=-1) + 1.0))


def bits_entropy(levels) -> float:
    """Return the Shannon entropy of all the levels, in bits per coordinate: an ideal code."""
    _, counts = np.unique(np.asarray(levels), return_counts=True)
    frequency = counts / counts.sum()
    return float(np.sum(frequency * np.log2(1.0 / frequency)))


def require_degree(degree: int) -> int:
    """Return the degree, a whole number, or refuse it."""
    if checks.whole("degree", degree, 1) > LARGEST_DEGREE:
        raise ValueError(f"degree = {degree} must be at most {LARGEST_DEGREE}")
    return int(degree)


def _cell(y, step, dither, degree: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest level and the fraction a of `law`; even degrees move the grid by d / 2."""
    if require_degree(degree) % 2 == 1:
        lower, fraction = pmf(y, step, dither)
    else:  # U - 1/2 is exact, and pmf takes a share of a step in [0, 1)
        dither = np.asarray(0.0 if dither is None else dither)
        lower, fraction = pmf(y, step, np.where(dither < 0.5, dither + 0.5, dither - 0.5))
        lower = lower + (dither < 0.5)
    return lower - degree // 2, fraction


def _weights(a: np.ndarray, degree: int) -> list[np.ndarray]:
    """Return b_p(a), b_p(a + 1), ..., b_p(a + p), by the recursion of Cox and de Boor.

    b_k(x) = (x b_(k-1)(x) + (k + 1 - x) b_(k-1)(x - 1)) / k: positive terms, so no digits are lost.
    """
    weights = [np.ones_like(a)]
    for k in range(1, degree + 1):
        left = [(a + i) * weight for i, weight in enumerate(weights)]
        right = [(k - i - a) * weight for i, weight in enumerate(weights)]
        inner = [(one + two) / k for one, two in zip(left[1:], right[:-1], strict=True)]
        weights = [left[0] / k, *inner, right[-1] / k]
    return weights


def _information(a: np.ndarray, degree: int) -> np.ndarray:
    weights, below = _weights(a, degree), _weights(a, degree - 1)
    inner = [(below[i] - below[i - 1]) ** 2 / weights[i] for i in range(1, degree)]
    ends = degree / math.factorial(degree - 1) * (a ** (degree - 2) + (1.0 - a) ** (degree - 2))
    return ends + np.sum(inner, axis=0)


def _at(found: Law, level) -> np.ndarray:
    """Return the probability of a level."""
    chances, position = np.moveaxis(found.probabilities, -1, 0), np.asarray(level) - found.lowest
    return np.select([position == k for k in range(len(chances))], list(chances), 0.0)


def _unit(name: str, numbers, what: str) -> np.ndarray:
    return checks.every(name, numbers, lambda x: (x >= 0) & (x < 1), f"lie in [0, 1), {what}")


def _require_ratio(ratio: np.ndarray, y: np.ndarray, step: np.ndarray) -> None:
    if max(ratio.max(initial=0.0), -ratio.min(initial=0.0)) <= LARGEST_LEVEL:  # false for NaN too
        return
    y, step = np.broadcast_arrays(y, step)
    wrong = ~(np.abs(ratio) <= LARGEST_LEVEL)
    worst, its_step = y[wrong].flat[0], step[wrong].flat[0]
    if not np.isfinite(worst):
        raise NotFinite(f"y = {worst} must be finite to be quantised (eq. (3))")
    rule = "must not exceed 2**52: no fractional part is left (eq. (3))"
    raise NotFinite(f"|y| / step = {abs(worst)} / {its_step} {rule}")
