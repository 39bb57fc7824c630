"""Slow and plain: what two transcripts give away, by listing every transcript; and two convolutions
for longer ones.

Written from eq. (3) and Definition 3 alone, in the paper's own convention (fraction in (0, 1], a
grid point is the upper end of its cell). Shares no code with `ldp_core`.
"""

from __future__ import annotations

import itertools
import math

import numpy as np


def two_point(y: float, step: float) -> dict[int, float]:
    """Return {level: probability} of eq. (3)."""
    n = math.ceil(y / step) - 1  # the largest n with y / step - n in (0, 1]
    up = y / step - n
    return {
        level: probability for level, probability in ((n, 1.0 - up), (n + 1, up)) if probability > 0
    }


def transcripts(y, other, step) -> tuple[np.ndarray, np.ndarray]:
    """Return the probabilities of every possible transcript under y and under `other`, coordinate
    by coordinate independent.
    """
    coordinates = []
    for first, second, d in zip(y, other, np.broadcast_to(step, len(y)), strict=True):
        p, q = two_point(float(first), float(d)), two_point(float(second), float(d))
        coordinates.append(
            [(p.get(level, 0.0), q.get(level, 0.0)) for level in sorted(p.keys() | q.keys())]
        )
    pairs = [
        (math.prod(p for p, _ in outcome), math.prod(q for _, q in outcome))
        for outcome in itertools.product(*coordinates)
    ]
    return tuple(np.array(pairs).T)


def delta(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    """Return max over both orders of the sum of (p - e^epsilon q)_+: Definition 3, and its
    (epsilon, delta) form.
    """
    factor = math.exp(epsilon)
    return max(
        math.fsum(np.maximum(p - factor * q, 0.0)), math.fsum(np.maximum(q - factor * p, 0.0))
    )


def repeated(a, b, times, epsilon: float) -> float:
    """Return delta(epsilon) of `times[j]` copies of each pair of coins (a[j], b[j]): how many came
    up is all that matters.
    """
    p, q = np.ones(1), np.ones(1)
    for up, other_up, n in zip(a, b, times, strict=True):
        count = np.arange(n + 1)
        ways = np.array([math.comb(n, k) for k in range(n + 1)], dtype=object)
        p = np.multiply.outer(
            p,
            np.array(
                ways * np.float64(up) ** count * np.float64(1 - up) ** (n - count), dtype=float
            ),
        ).ravel()
        q = np.multiply.outer(
            q,
            np.array(
                ways * np.float64(other_up) ** count * np.float64(1 - other_up) ** (n - count),
                dtype=float,
            ),
        ).ravel()
    return delta(p, q, epsilon)


def convolved(a, b, interval: float) -> tuple[float, float]:
    """Return (lower, upper) bounds on the total variation of a product of coins: privacy losses on
    a grid, convolved.

    The total variation is E_P (1 - e^-L)_+, which grows with L; so rounding every coordinate's loss
    down gives a lower bound and rounding it up an upper one.
    """
    return tuple(_on_grid(a, b, interval, rounding) for rounding in (np.floor, np.ceil))


def _on_grid(a, b, interval: float, rounding) -> float:
    mass, lowest = np.ones(1), 0
    for up, other_up in zip(a, b, strict=True):
        losses = math.log(up / other_up), math.log((1.0 - up) / (1.0 - other_up))
        at = [int(rounding(loss / interval)) for loss in losses]
        shift = min(at)
        longer = np.zeros(len(mass) + abs(at[0] - at[1]))
        for place, probability in zip(at, (up, 1.0 - up), strict=True):
            longer[place - shift : place - shift + len(mass)] += probability * mass
        mass, lowest = longer, lowest + shift
    loss = interval * (lowest + np.arange(len(mass)))
    return float(np.sum(mass * -np.expm1(-np.maximum(loss, 0.0))))
