"""The exact delta(epsilon) by sampling the privacy loss: no coordinate is kept.

    >>> sampled = MonteCarlo(batch=1, samples=2000, seed=0)
    >>> sampled.add(np.full((1, 100), 0.3), np.full((1, 100), 0.33), 1.0)
    >>> low, estimate, high, confidence = sampled.delta()
    >>> bool(low < 0.256 < high), confidence  # the total variation is 0.256
    (True, 0.99)

With the notation of `exact`, the integral that is wanted is the mean under f, and the total
variation one under the mixture M = (f + g) / 2, of a bounded variable (docs/proofs/exact.md,
section 3). So the empirical Bernstein inequality gives an interval for any number of samples.
Samples are drawn from M: those that came from f serve delta(epsilon) in one direction, those from g
in the other, all of them the total variation.
"""

from __future__ import annotations

import math

import numpy as np

from ldp_core.accountant.exact import Interval, Pair, certain_bounds, log_overlap, pairs
from ldp_core.accountant.fourier import log_affinity
from ldp_core.checks import real, whole
from ldp_core.randomness import Purpose, generator

PARTS = 8  # random streams of a row, and the most threads that can work on it
BLOCK = 2**15  # interior coordinates sent to the kernel at once


class MonteCarlo:
    """delta(epsilon) of a batch of pairs of transcripts, fed piece by piece.

    `add` takes any number of coordinates and forgets them; what stays is one running loss per
    sample. `delta` may be asked at any time, for the coordinates so far. Each interval holds with
    its confidence; with k of them, confidence 1 - alpha / k each gives 1 - alpha for all.

    Row r of a batch draws from (seed, MONTE_CARLO, run r) alone. The result depends on how
    coordinates are cut into `add` calls with `delta` between them, because coins are drawn eight at
    a time; any cut is a correct one.
    """

    def __init__(self, batch: int, samples: int, seed: int, confidence: float = 0.99):
        if whole("samples", samples) < 2:
            raise ValueError(f"samples = {samples} must be at least 2, for a variance")
        if not 0 < real("confidence", confidence) < 1:
            raise ValueError(f"confidence = {confidence} must lie in (0, 1)")
        self.samples, self.confidence = samples, confidence
        streams = (
            generator(seed, Purpose.MONTE_CARLO, row) for row in range(whole("batch", batch))
        )
        self._rows = [_Row(samples, stream) for stream in streams]

    def add(self, y, other, step) -> None:
        """Append coordinates: y and other `[batch, coordinates]`, or one row for all."""
        for row, laws in zip(self._rows, pairs(len(self._rows), y, other, step), strict=True):
            row.add(laws)

    def delta(self, epsilon: float = 0.0) -> Interval:
        """Return delta(epsilon) `[batch]` of everything added so far, cut to what is certain."""
        if not real("epsilon", epsilon) >= 0:
            raise ValueError(f"epsilon = {epsilon} must not be negative")
        rows = [row.delta(epsilon, 1.0 - self.confidence) for row in self._rows]
        lower, estimate, upper = np.array(rows, dtype=np.float64).reshape(-1, 3).T
        return Interval(lower, estimate, upper, self.confidence)


class _Row:
    """One pair of transcripts: sums known by formula, and the running losses of the samples."""

    def __init__(self, samples: int, random: np.random.Generator):
        self.log_p = self.log_q = 0.0
        self.log_affinity = self.log_overlap = 0.0  # of the interior alone
        self.first = int(
            random.binomial(samples, 0.5)
        )  # an iid draw from M, its samples from P put first
        self.streams = random.integers(0, 2**64, size=(PARTS, 4), dtype=np.uint64)
        self.totals = np.zeros((PARTS, samples))
        self.pending: list[np.ndarray] = []
        self.waiting = self.interior = 0

    def add(self, laws: Pair) -> None:
        self.log_p += laws.log_p
        self.log_q += laws.log_q
        self.log_affinity += log_affinity(laws.a, laws.b)
        self.log_overlap += log_overlap(laws.a, laws.b)
        if len(laws.a):
            self.pending.append(np.stack([laws.a, laws.b]))
            self.waiting += len(laws.a)
            self.interior += len(laws.a)
        if self.waiting >= BLOCK:
            self.flush()

    def flush(self) -> None:
        from ldp_core.accountant import kernels

        if not self.waiting:
            return
        laws = np.concatenate(self.pending, axis=1)
        self.pending, self.waiting = [], 0
        for start in range(0, laws.shape[1], BLOCK):
            a, b = laws[:, start : start + BLOCK]
            fill = -len(a) % kernels.GROUP  # fair coins on both sides: they say nothing
            a, b = (np.append(x, np.full(fill, 0.5)).reshape(-1, kernels.GROUP) for x in (a, b))
            kernels.draw(a, b, self.streams, self.first, self.totals)

    def delta(self, epsilon: float, alpha: float) -> tuple[float, float, float]:
        if self.log_p == self.log_q == 0 and not self.interior:
            return 0.0, 0.0, 0.0
        self.flush()
        losses = self.totals.sum(axis=0)
        p_only, q_only = -math.expm1(self.log_p), -math.expm1(self.log_q)
        if not self.interior:  # every loss is zero: the formula needs no sampling
            forward = _excess(losses[:1], self.log_p, self.log_q, epsilon)
            backward = _excess(losses[:1], self.log_q, self.log_p, epsilon)
            return (max(p_only + float(forward[0]), q_only + float(backward[0])),) * 3
        floor, ceiling = certain_bounds(self.log_p, self.log_q, self.log_affinity, self.log_overlap)
        certain = max(p_only, q_only)
        if epsilon == 0:
            unbalanced = _imbalance(losses, self.log_p, self.log_q)
            both = empirical_bernstein(unbalanced, max(1.0 - p_only, 1.0 - q_only), alpha)
            found = [(p_only + q_only) / 2.0 + x for x in both]
            certain = max(certain, floor)
        else:
            forward = _excess(losses[: self.first], self.log_p, self.log_q, epsilon)
            backward = _excess(-losses[self.first :], self.log_q, self.log_p, epsilon)
            one = empirical_bernstein(forward, 1.0 - p_only, alpha / 2.0)
            two = empirical_bernstein(backward, 1.0 - q_only, alpha / 2.0)
            found = [max(p_only + x, q_only + y) for x, y in zip(one, two, strict=True)]
        low, middle, high = (min(max(x, certain), ceiling) for x in found)
        return low, middle, high


def _imbalance(losses: np.ndarray, log_p: float, log_q: float) -> np.ndarray:
    """Return | p / (1 + e^-L) - q / (1 + e^L) | of every sample."""
    ours = np.exp(log_p - np.logaddexp(0.0, -losses))
    return np.abs(ours - np.exp(log_q - np.logaddexp(0.0, losses)))


def _excess(losses: np.ndarray, log_p: float, log_q: float, epsilon: float) -> np.ndarray:
    """Return (p - e^epsilon q e^-L)_+, in a form that does not overflow."""
    if log_p == -math.inf:
        return np.zeros_like(losses)
    cut = -math.inf if log_q == -math.inf else epsilon + log_q - log_p
    return math.exp(log_p) * -np.expm1(np.minimum(cut - losses, 0.0))


def empirical_bernstein(
    values: np.ndarray, scale: float, alpha: float
) -> tuple[float, float, float]:
    """Return (lower, mean, upper) for the mean of iid values in [0, scale], wrong at most by alpha.

    Maurer and Pontil (2009), Theorem 4, on both sides. With V the sample variance and l = log(4 /
    alpha), the mean is off by at most sqrt(2 V l / n) + 7 scale l / (3 (n - 1)).
    """
    n, log_term = len(values), math.log(4.0 / alpha)
    if n < 2:
        return 0.0, scale / 2.0, scale
    mean = float(values.mean())
    width = math.sqrt(2.0 * float(values.var(ddof=1)) * log_term / n)
    width += 7.0 * scale * log_term / (3.0 * (n - 1))
    return max(0.0, mean - width), mean, min(scale, mean + width)
