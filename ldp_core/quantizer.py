"""The dynamic stochastic quantizer of eq. (3), and what one quantised coordinate gives away.

A message is a whole number, the *level*, sent together with the public step: value = level * step. An input y
lies between two neighbouring levels and goes up with probability equal to its fractional part:

    y / d = n + a,  0 <= a < 1:     level = n + 1 with probability a,  n with probability 1 - a.

The paper writes the fraction in (0, 1] (a grid point is the upper end of its cell), we write it in [0, 1) (a grid
point is the lower end). The two are the same mechanism: only a grid point has two names, and under both it is sent
unchanged, with probability one. So E[Q(y)] = y, and the variance a (1 - a) d**2 is at most d**2 / 4.

In float64 y / d is rounded once, and a by at most 2**-53 more (a tiny negative input has a = 1): as much as a coin of 53 bits.

With a *public dither* the grid is moved by U d, U uniform in [0, 1), fresh for every coordinate and message, known to everybody
and independent of the data (Gray and Stockham 1993; ours, not the paper's):

    y / d - U = n + a:     level = n + 1 with probability a, n otherwise;     value = (level + U) * step.

The level is still a whole number, E[value] = y, and given U the variance a (1 - a) d**2 is at most d**2 / 4 as before. But a
is now uniform whatever y is, so over U the variance is d**2 / 6 everywhere, and value - y has the triangular density
(1 - |x| / d) / d for every y: `triangular` says what that gives away. In float64 the message of y is within total variation
`DITHERED_ERROR` of the exact dithered message of the input step * fl(y / step), rounded once (proof at `pmf`).

`step` broadcasts against the input. Steps of shape `[agents]` belong to states `[runs, agents, dim]`: write
`step[:, None]`, or let `optimizer` do it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

LARGEST_LEVEL = 2.0**52  # beyond it a float64 has no fractional part left, and eq. (3) no meaning
DITHERED_ERROR = 2.0**-51  # total variation of one dithered coordinate that 53-bit coins, dithers and sums can cost (see `pmf`)


class Pmf(NamedTuple):
    """The two levels an input can be sent as: `lower` with probability 1 - `upper_probability`, else `lower + 1`."""

    lower: np.ndarray
    upper_probability: np.ndarray


class NotFinite(ArithmeticError, ValueError):
    """A number as only a diverging run produces it: infinite, NaN, or too large beside the step to be quantised."""


def pmf(y, step, dither=None) -> Pmf:
    """Return the two-point distribution of the level that y is sent as (eq. (3)); with a dither, on the grid moved by it.

    With a dither, y / d is split into its cell n and fraction f before U is subtracted, so that no digit of U is lost however
    large y / d is. Let R = fl(y / d), U a multiple of 2**-53, u = 2**-54. Then f = R - n is exact, or rounded by at most u
    when R is in (-1, 0); f - U lies in (-1, 1] and is rounded by at most u; its fractional part again by at most u; a 53-bit
    coin goes up with a probability within 2u of a. Compare with the exact mechanism on R whose dither U' is uniform on
    [U, U + 2u), of which the receiver sees U: it is the same function of an input that differs by at most 2u. Two inputs that
    differ by s steps have messages within total variation s (`total_variation`), so all in all the two mechanisms differ by
    at most (3 + 2 + 2) u < 8 u = 2**-51.

    Raises ValueError when a step is not positive and finite, an input is not finite, |y| / step exceeds 2**52, or a dither is
    not in [0, 1).
    """
    y, step = np.asarray(y, dtype=np.float64), np.asarray(step, dtype=np.float64)
    require_step(step)
    with np.errstate(over="ignore", invalid="ignore"):
        ratio = y / step
    _require_ratio(ratio, y, step)
    lower = np.floor(ratio)
    if dither is None:
        return Pmf(lower.astype(np.int64), ratio - lower)
    _require_dither(np.asarray(dither))
    moved = (ratio - lower) - dither
    below = np.floor(moved)
    return Pmf((lower + below).astype(np.int64), moved - below)


def quantise(y, step, coins, dither=None) -> np.ndarray:
    """Return integer levels for y, decided by `coins` uniform in [0, 1): up when coin < fractional part.

    The coins are arguments so that the caller owns the randomness (`ldp_core.randomness`, 53 bits each); so is the public
    dither.
    """
    lower, upper_probability = pmf(y, step, dither)
    return lower + (coins < upper_probability)


def value(levels, step, dither=None) -> np.ndarray:
    """Return what a receiver makes of a message: level * step, or (level + dither) * step."""
    levels = np.asarray(levels) if dither is None else levels + np.asarray(dither, dtype=np.float64)
    return levels * np.asarray(step, dtype=np.float64)


def probability(level, y, step, dither=None) -> np.ndarray:
    """Return P(Q(y) = level * step), or with a dither P(Q(y) = (level + dither) * step), given the dither."""
    lower, up = pmf(y, step, dither)
    return np.where(level == lower, 1.0 - up, np.where(level == lower + 1, up, 0.0))


def total_variation(y, other, step) -> np.ndarray:
    """Return the exact total variation between the messages of two inputs, coordinate by coordinate, without dither.

    With n + a and n' + a' for the two inputs divided by the step, n <= n':

        n' = n        |a - a'|                 the same two levels
        n' = n + 1    max(1 - a, a')           they share the level n + 1 only, with probabilities a and 1 - a'
        n' > n + 1    1                        no level in common

    In the second case the overlap is min(a, 1 - a'), and one minus it is the maximum above. Lemma 6 bounds this by
    |y - y'| / d when that is below one, with equality in the first case; the third case is the one it leaves out.
    """
    first, second = pmf(y, step), pmf(other, step)
    swap = first.lower > second.lower
    low = np.where(swap, second.upper_probability, first.upper_probability)
    high = np.where(swap, first.upper_probability, second.upper_probability)
    cells_apart = np.abs(first.lower - second.lower)
    return np.select([cells_apart == 0, cells_apart == 1], [np.abs(low - high), np.maximum(1.0 - low, high)], 1.0)


def bits_fixed_length(levels) -> np.ndarray:
    """Return bits per coordinate when every level of a message takes the same number of bits.

    The last axis is one message. Its smallest and largest level are known to both sides (a header of a few bytes for
    the whole message), so a coordinate needs ceil(log2(largest - smallest + 1)) bits.
    """
    levels = np.asarray(levels)
    return np.ceil(np.log2(np.ptp(levels, axis=-1) + 1.0))


def bits_entropy(levels) -> float:
    """Return the Shannon entropy, in bits per coordinate, of all the levels given taken as one source.

    This is what an ideal entropy coder that knows the frequencies would need.
    """
    _, counts = np.unique(np.asarray(levels), return_counts=True)
    frequency = counts / counts.sum()
    return float(np.sum(frequency * np.log2(1.0 / frequency)))


def require_step(step: np.ndarray) -> None:
    """Refuse a step that is not positive and finite."""
    wrong = ~(np.isfinite(step) & (step > 0))
    if wrong.any():
        raise ValueError(f"step = {step[wrong].flat[0]} must be positive and finite (eq. (3))")


def _require_dither(dither: np.ndarray) -> None:
    wrong = ~((dither >= 0) & (dither < 1))
    if wrong.any():
        raise ValueError(f"dither = {dither[wrong].flat[0]} must lie in [0, 1), a share of a step")


def _require_ratio(ratio: np.ndarray, y: np.ndarray, step: np.ndarray) -> None:
    if np.abs(ratio).max(initial=0.0) <= LARGEST_LEVEL:  # false for NaN too
        return
    y, step = np.broadcast_arrays(y, step)
    wrong = ~(np.abs(ratio) <= LARGEST_LEVEL)
    worst_y, worst_step = y[wrong].flat[0], step[wrong].flat[0]
    if not np.isfinite(worst_y):
        raise NotFinite(f"y = {worst_y} must be finite to be quantised (eq. (3))")
    raise NotFinite(f"|y| / step = {abs(worst_y)} / {worst_step} must not exceed 2**52: no fractional part is left (eq. (3))")
