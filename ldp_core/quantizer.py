"""The dynamic stochastic quantizer of eq. (3), and what one quantised coordinate gives away.

A message is a whole number, the *level*, sent together with the public step: value = level * step. An input y
lies between two neighbouring levels and goes up with probability equal to its fractional part:

    y / d = n + a,  0 <= a < 1:     level = n + 1 with probability a,  n with probability 1 - a.

The paper writes the fraction in (0, 1] (a grid point is the upper end of its cell), we write it in [0, 1) (a grid
point is the lower end). The two are the same mechanism: only a grid point has two names, and under both it is sent
unchanged, with probability one. So E[Q(y)] = y, and the variance a (1 - a) d**2 is at most d**2 / 4.

In float64 y / d is rounded once, and a by at most 2**-53 more (a tiny negative input has a = 1): as much as a coin of 53 bits.

`step` broadcasts against the input. Steps of shape `[agents]` belong to states `[runs, agents, dim]`: write
`step[:, None]`, or let `optimizer` do it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

LARGEST_LEVEL = 2.0**52  # beyond it a float64 has no fractional part left, and eq. (3) no meaning


class Pmf(NamedTuple):
    """The two levels an input can be sent as: `lower` with probability 1 - `upper_probability`, else `lower + 1`."""

    lower: np.ndarray
    upper_probability: np.ndarray


def pmf(y, step) -> Pmf:
    """Return the two-point distribution of the level that y is sent as (eq. (3)).

    Raises ValueError when a step is not positive and finite, an input is not finite, or |y| / step exceeds 2**52.
    """
    y, step = np.asarray(y, dtype=np.float64), np.asarray(step, dtype=np.float64)
    _require_step(step)
    with np.errstate(over="ignore", invalid="ignore"):
        ratio = y / step
    _require_ratio(ratio, y, step)
    lower = np.floor(ratio)
    return Pmf(lower.astype(np.int64), ratio - lower)


def quantise(y, step, coins) -> np.ndarray:
    """Return integer levels for y, decided by `coins` uniform in [0, 1): up when coin < fractional part.

    The coins are arguments so that the caller owns the randomness (`ldp_core.randomness`, 53 bits each).
    """
    lower, upper_probability = pmf(y, step)
    return lower + (coins < upper_probability)


def value(levels, step) -> np.ndarray:
    """Return what a receiver makes of a message: level * step."""
    return np.asarray(levels) * np.asarray(step, dtype=np.float64)


def probability(level, y, step) -> np.ndarray:
    """Return P(Q(y) = level * step)."""
    lower, up = pmf(y, step)
    return np.where(level == lower, 1.0 - up, np.where(level == lower + 1, up, 0.0))


def total_variation(y, other, step) -> np.ndarray:
    """Return the exact total variation between the messages of two inputs, coordinate by coordinate.

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


def _require_step(step: np.ndarray) -> None:
    wrong = ~(np.isfinite(step) & (step > 0))
    if wrong.any():
        raise ValueError(f"step = {step[wrong].flat[0]} must be positive and finite (eq. (3))")


def _require_ratio(ratio: np.ndarray, y: np.ndarray, step: np.ndarray) -> None:
    if np.abs(ratio).max(initial=0.0) <= LARGEST_LEVEL:  # false for NaN too
        return
    y, step = np.broadcast_arrays(y, step)
    wrong = ~(np.abs(ratio) <= LARGEST_LEVEL)
    worst_y, worst_step = y[wrong].flat[0], step[wrong].flat[0]
    if not np.isfinite(worst_y):
        raise ValueError(f"y = {worst_y} must be finite to be quantised (eq. (3))")
    raise ValueError(f"|y| / step = {abs(worst_y)} / {worst_step} must not exceed 2**52: no fractional part is left (eq. (3))")
