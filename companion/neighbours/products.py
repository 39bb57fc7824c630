"""How well products of laws on a few points can be told apart: a certain lower bound.

    >>> laws = np.array([[0.3, 0.7]]), np.array([[0.31, 0.69]])
    >>> round(told_apart(*laws, np.array([1000])), 4)  # between 0.2686 and 0.2688 (`exact`)
    0.2682

The total variation of P and P' is at least (E f - E' f) / 2, whatever function f of all that is
seen with |f| <= 1 an attacker takes; the best is the sign of the sum L of all log-likelihood
ratios. Here f is a square wave of L, wide enough that L hardly leaves its first period, which
Gaussian noise of deviation tau smooths: a series of sines,

    f(L) = 4 / pi sum_m exp(-(m w tau)^2 / 2) sin(m w L) / m,       m odd, w = pi / half a period.

The mean of each sine is a product over messages: nothing is put on a grid, and nothing estimated.
What smoothing, capped ratios and the period cost makes the bound smaller, never wrong.
"""

from __future__ import annotations

import math

import numpy as np

from ldp_core import quantizer

SMOOTH = 16.0  # tau is this part of L's deviation: costs about 1 / (2 * 16**2) of the bound
PERIOD = 6.0  # half a period is so many deviations, beside L's mean
LAST = 6.0  # m w tau of the last sine; those beyond are charged
CAP = 4.0  # larger log-likelihood ratios count as this: infinite ones do not add up
UNIT = 2.0**-53


def told_apart(ours: np.ndarray, theirs: np.ndarray, counts: np.ndarray) -> float:
    """Return a lower bound of the total variation of two products of laws, rounding charged.

    `ours` and `theirs` `[laws, points]` are probabilities of the same points, each law `counts`
    times; they may sum to less than one, what is missing is then ignored by the attacker.
    """
    loss = losses(ours, theirs)
    mean = counts @ ((ours - theirs) * loss).sum(axis=1) / 2.0
    deviation = math.sqrt(counts @ ((ours + theirs) * loss**2).sum(axis=1) / 2.0)
    if deviation == 0:
        return 0.0
    w, tau = math.pi / (mean + PERIOD * deviation), deviation / SMOOTH
    m = np.arange(1.0, LAST / (w * tau) + 2.0, 2.0)
    weight = 4.0 / math.pi * np.exp(-((m * w * tau) ** 2) / 2.0) / m
    apart = [_apart(w * k * loss, ours, theirs, counts) for k in m]
    beyond = weight[-1] / -math.expm1(-2.0 * m[-1] * (w * tau) ** 2)  # a geometric series
    wrong = 64.0 * UNIT * counts.sum() * (1.0 + w * m[-1] * np.abs(loss).max())
    found = weight @ apart / 2.0 / (1.0 + beyond) - weight.sum() * wrong
    return max(0.0, float(found))


def signs(moved: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return two laws `[..., 2]` of whether a value with Laplace noise is above the middle or not.

    Inputs are `moved` scales apart. The sign has all the Fisher information of such a value, so
    where many small shifts add up next to nothing is lost.
    """
    rare = np.exp(-moved / 2.0) / 2.0
    return np.stack([1.0 - rare, rare], axis=-1), np.stack([rare, 1.0 - rare], axis=-1)


def levels(moved: np.ndarray, degree: int) -> tuple[np.ndarray, np.ndarray]:
    """Return two laws `[..., points]` of the level of inputs that are `moved` steps apart.

    Their middle is where a level gives most information (`quantizer.dearest`). Beyond degree + 1
    steps they share no level, and are as far apart as they can be.
    """
    middle, half = quantizer.dearest(degree), np.minimum(moved, degree + 1.0) / 2.0
    inputs = (middle + half, middle - half)
    lowest = [quantizer.law(y, 1.0, None, degree).lowest for y in inputs]
    points = np.arange(np.min(lowest), np.max(lowest) + degree + 1)
    ours, theirs = (quantizer.probability(points, y[..., None], 1.0, None, degree) for y in inputs)
    return ours, theirs


def losses(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Return the log-likelihood ratios, zero where both are zero, none beyond `CAP`."""
    smallest = np.finfo(np.float64).tiny
    ratio = np.log(np.maximum(ours, smallest)) - np.log(np.maximum(theirs, smallest))
    return np.clip(ratio, -CAP, CAP)


def _apart(angle: np.ndarray, ours: np.ndarray, theirs: np.ndarray, counts: np.ndarray) -> float:
    """Return how far apart the means of the sine of a sum of angles are: exponentials multiply.

    Their logarithms are added, and `sum` adds by halves: rounding stays far below what is charged.
    """
    circle = np.cos(angle), np.sin(angle)

    def mean(law: np.ndarray) -> float:
        x, y = (np.einsum("lp,lp->l", law, part) for part in circle)
        size = np.log(np.maximum(np.hypot(x, y), np.finfo(np.float64).tiny))
        return math.exp((counts * size).sum()) * math.sin((counts * np.arctan2(y, x)).sum())

    return mean(ours) - mean(theirs)
