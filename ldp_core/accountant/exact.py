"""The exact delta(epsilon), and total variation, of a product of two-point distributions.

    >>> laws = pair(y=np.full(1000, 0.3), other=np.full(1000, 0.31), step=1.0)
    >>> [round(bound, 4) for bound in delta(laws)]  # a certain lower and upper bound
    [0.2686, 0.2688]

P is the law of an agent's transcript under its data, P' under adjacent data; both are products over
coordinates of the two-point law of eq. (3). What the best attacker can gain is

    delta(epsilon) = max( sup_S P(S) - e^epsilon P'(S),  sup_S P'(S) - e^epsilon P(S) ).

Over all coordinates whose two laws share exactly one level let p and q be the probabilities that
all are there; *interior* coordinates have both laws on the same two levels, with upper
probabilities a and b in (0, 1), f and g together. Then

    sup_S P(S) - e^epsilon P'(S) = (1 - p) + integral (p f - e^epsilon q g)_+ .

The integral is computed in two independent ways: in `fourier`, between two bounds that are certain,
and in `monte_carlo`, by sampling, between two that hold with a stated confidence. Proofs:
docs/proofs/exact.md. Both describe the mechanism as it is implemented: upper probabilities are the
float64 numbers of `quantizer.pmf`. Coins of 53 bits add at most 2**-53 each.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ldp_core import quantizer
from ldp_core.accountant import fourier
from ldp_core.accountant.fourier import ROUNDING, log_affinity, losses
from ldp_core.checks import broadcast, real, whole

ENUMERATED = 16  # so many interior coordinates are enumerated: 65536 outcomes


class Interval(NamedTuple):
    """lower <= truth <= upper with probability at least `confidence` (1 where none is involved)."""

    lower: np.ndarray
    estimate: np.ndarray
    upper: np.ndarray
    confidence: float


class Pair(NamedTuple):
    """Two product laws: log p, log q, and the interior upper probabilities a and b (of P')."""

    log_p: float
    log_q: float
    a: np.ndarray
    b: np.ndarray

    def swapped(self) -> Pair:
        """Return the pair with P and P' exchanged."""
        return Pair(self.log_q, self.log_p, self.b, self.a)


def pair(y, other, step) -> Pair:
    """Return the reduced pair of laws of the messages of y and of `other`, one coin per entry.

    With n + a and n' + b for the inputs divided by the step: in the same cell both laws live on n
    and n + 1, and n alone is shared when a or b is 0. In neighbouring cells, n' = n + 1, they share
    n + 1 with probabilities a and 1 - b. Farther apart they share nothing: p = q = 0.
    """
    y, other, step = broadcast(y=y, other=other, step=step)
    differ = y != other
    first, second = (quantizer.pmf(x[differ], step[differ]) for x in (y, other))
    (n, a), (other_n, b) = _below_one(first), _below_one(second)
    apart = other_n - n
    same = (apart == 0) & (a != b)
    interior = same & (a > 0) & (b > 0)
    shared_p = np.select([same, apart == 1, apart == -1], [1.0 - a, a, 1.0 - a])
    shared_q = np.select([same, apart == 1, apart == -1], [1.0 - b, 1.0 - b, b])
    one_level = (same | (apart != 0)) & ~interior
    log_p, log_q = (_log_product(shared[one_level]) for shared in (shared_p, shared_q))
    return Pair(log_p, log_q, a[interior], b[interior])


def _below_one(law: quantizer.Pmf) -> tuple[np.ndarray, np.ndarray]:
    """Return (n, a) with a in [0, 1): a fraction that rounded up to 1 is the next grid point."""
    full = law.upper_probability == 1.0
    return law.lower + full, np.where(full, 0.0, law.upper_probability)


def joined(pairs: list[Pair]) -> Pair:
    """Return the pair of laws of several independent parts seen together."""
    if not pairs:
        return Pair(0.0, 0.0, np.empty(0), np.empty(0))
    log_p, log_q, a, b = zip(*pairs, strict=True)
    return Pair(math.fsum(log_p), math.fsum(log_q), np.concatenate(a), np.concatenate(b))


class Bracket:
    """delta(epsilon) of a batch of pairs of transcripts, fed piece by piece, in certain bounds.

    Keeps 16 bytes for every interior coordinate; `monte_carlo.MonteCarlo` keeps none.
    """

    def __init__(self, batch: int, resolution: float = 1 / 64):
        self.resolution = _resolution(resolution)
        self._parts: list[list[Pair]] = [[] for _ in range(whole("batch", batch))]

    def add(self, y, other, step) -> None:
        """Append coordinates: y and other `[batch, coordinates]`, or one row for all."""
        for parts, laws in zip(self._parts, pairs(len(self._parts), y, other, step), strict=True):
            parts.append(laws)

    def delta(self, epsilon: float = 0.0) -> Interval:
        """Return delta(epsilon) `[batch]` of everything added so far."""
        bounds = [delta(joined(parts), epsilon, self.resolution) for parts in self._parts]
        lower, upper = np.array(bounds, dtype=np.float64).reshape(-1, 2).T
        return Interval(lower, (lower + upper) / 2.0, upper, 1.0)


def pairs(batch: int, y, other, step) -> list[Pair]:
    """Return the pair of each row of y and other `[batch, coordinates]`; one row serves all."""
    y, other, step = broadcast(y=y, other=other, step=step)
    if y.ndim not in (1, 2) or (y.ndim == 2 and len(y) not in (1, batch)):
        rule = f"it must be [{batch} rows, coordinates]"
        raise ValueError(f"y, other and step have shape {y.shape} together: {rule}")
    rows = (np.broadcast_to(x, (batch, y.shape[-1])) for x in (y, other, step))
    return [pair(*row) for row in zip(*rows, strict=True)]


def _resolution(resolution: float) -> float:
    if not 0 < real("resolution", resolution) <= 1:
        raise ValueError(f"resolution = {resolution} must lie in (0, 1]")
    return resolution


def delta(laws: Pair, epsilon: float = 0.0, resolution: float = 1 / 64) -> tuple[float, float]:
    """Return (lower, upper) with lower <= delta(epsilon) <= upper: certain, rounding is charged.

    Up to 16 interior coordinates are enumerated, and the two bounds are equal. More go through
    `fourier.bounds`, where the distance between the bounds is about `resolution`**2 times the
    standard deviation of the privacy loss when there are many coordinates, and `resolution` times
    it when a few large ones dominate.
    """
    if not real("epsilon", epsilon) >= 0:
        raise ValueError(f"epsilon = {epsilon} must not be negative")
    resolution = _resolution(resolution)
    if -math.inf in (laws.log_p, laws.log_q):
        return 1.0, 1.0
    directions = [laws] if epsilon == 0 else [laws, laws.swapped()]
    bounds = [_one_direction(direction, epsilon, resolution) for direction in directions]
    lower, upper = (max(bound) for bound in zip(*bounds, strict=True))
    if len(laws.a) > ENUMERATED:
        affinity, overlap = log_affinity(laws.a, laws.b), log_overlap(laws.a, laws.b)
        floor, ceiling = certain_bounds(*laws[:2], affinity, overlap)
        lower, upper = max(lower, floor if epsilon == 0 else 0.0), min(upper, ceiling)
    return float(min(lower, upper)), float(upper)


def certain_bounds(log_p, log_q, log_affinity, log_overlap) -> tuple[float, float]:
    """Return cheap bounds on the total variation; the upper one holds for every epsilon.

    With BC the affinity of everything, 1 - BC <= TV <= sqrt(1 - BC**2) (Le Cam). And TV <= 1 -
    min(p, q) prod (1 - |a - b|): independent parts.
    """
    affinity = (log_p + log_q) / 2.0 + log_affinity
    hellinger = math.sqrt(-math.expm1(2.0 * affinity))
    product = -math.expm1(min(log_p, log_q) + log_overlap)
    upper = min(1.0, min(hellinger, product) * (1.0 + ROUNDING))
    return -math.expm1(affinity) * (1.0 - ROUNDING), upper


def log_overlap(a: np.ndarray, b: np.ndarray) -> float:
    """Return log of the product over interior coordinates of one minus |a - b|."""
    return float(np.log1p(-np.abs(a - b)).sum())


def _one_direction(laws: Pair, epsilon: float, resolution: float) -> tuple[float, float]:
    """Return bounds on (1 - p) + integral (p f - e^epsilon q g)_+ for p, q > 0."""
    cut = epsilon + laws.log_q - laws.log_p  # p f > e^epsilon q g exactly when L > cut
    if len(laws.a) <= ENUMERATED:
        probability, loss = enumerated(laws.a, laws.b)
        inside = float(np.sum(probability * -np.expm1(np.minimum(cut - loss, 0.0))))
        exact = -math.expm1(laws.log_p) + math.exp(laws.log_p) * inside
        return exact, exact
    return fourier.bounds(laws.a, laws.b, laws.log_p, cut, resolution)


def enumerated(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (probability under f, privacy loss) of all 2**n outcomes of n coordinates."""
    probability, loss = np.ones(1), np.zeros(1)
    for chance, up, down in zip(a, *losses(a, b), strict=True):
        probability = np.concatenate([probability * (1.0 - chance), probability * chance])
        loss = np.concatenate([loss + down, loss + up])
    return probability, loss


def _log_product(probabilities: np.ndarray) -> float:
    with np.errstate(divide="ignore"):
        return float(np.log(probabilities).sum())
