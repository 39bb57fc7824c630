"""The exact total variation by sampling the privacy loss: no coordinate is kept.

    >>> sampled = MonteCarlo(batch=1, samples=2000, seed=0)
    >>> sampled.add(np.full((1, 100), 0.3), np.full((1, 100), 0.33), 1.0)
    >>> low, estimate, high, confidence = sampled.delta()
    >>> bool(low < 0.256 < high), confidence  # the total variation is 0.256
    (True, 0.99)

The total variation is the mean of a bounded variable under the mixture M = (f + g) / 2 of the two
laws (docs/proofs/exact.md, section 3), so the empirical Bernstein inequality gives an interval for
any number of samples.
"""

import math

import numpy as np

from ldp_core.accountant import exact
from ldp_core.accountant.exact import Interval, Pair, log_affinity, log_overlap, pairs
from ldp_core.checks import every, whole
from ldp_core.randomness import Purpose, generator

PARTS = 8  # random streams of a row
BLOCK = 2**15  # interior coordinates sent to the kernel at once


class MonteCarlo:
    """The total variation of a batch of pairs of transcripts, fed piece by piece.

    `add` forgets coordinates; what stays is a running loss per sample. `delta` may be asked at any
    time, and holds with `confidence` each. Row r draws from (seed, MONTE_CARLO, run r) alone.
    """

    def __init__(self, batch: int, samples: int, seed: int, confidence: float = 0.99):
        samples = whole("samples", samples, 2)  # for a variance
        every("confidence", confidence, lambda x: (x > 0) & (x < 1), "lie in (0, 1)")
        self.confidence = confidence
        rows = range(whole("batch", batch))
        self._rows = [_Row(samples, generator(seed, Purpose.MONTE_CARLO, row)) for row in rows]

    def add(self, y, other, step) -> None:
        """Append coordinates: y and other `[batch, coordinates]`, or one row for all."""
        for row, laws in zip(self._rows, pairs(len(self._rows), y, other, step), strict=True):
            row.add(laws)

    def delta(self) -> Interval:
        """Return the total variation `[batch]` of everything so far, cut to what is certain."""
        rows = [row.delta(1.0 - self.confidence) for row in self._rows]
        lower, estimate, upper = np.array(rows, dtype=np.float64).reshape(-1, 3).T
        return Interval(lower, estimate, upper, self.confidence)


class _Row:
    """One pair of transcripts: sums known by formula, and the running losses of the samples."""

    def __init__(self, samples: int, random: np.random.Generator):
        self.log_p = self.log_q = 0.0
        self.log_affinity = self.log_overlap = 0.0  # of the interior alone
        self.first = int(random.binomial(samples, 0.5))  # iid from M, those from P put first
        self.streams = random.integers(0, 2**64, size=(PARTS, 4), dtype=np.uint64)
        self.totals = np.zeros((PARTS, samples))
        self.pending: list[np.ndarray] = []  # interior coordinates that wait for the kernel
        self.interior = 0

    def add(self, laws: Pair) -> None:
        self.log_p += laws.log_p
        self.log_q += laws.log_q
        self.log_affinity += log_affinity(laws.a, laws.b)
        self.log_overlap += log_overlap(laws.a, laws.b)
        self.pending.append(np.stack([laws.a, laws.b]))
        self.interior += len(laws.a)
        if sum(part.shape[1] for part in self.pending) >= BLOCK:
            self.flush()

    def flush(self) -> None:
        from ldp_core.accountant import kernels

        laws = np.concatenate([np.empty((2, 0)), *self.pending], axis=1)
        self.pending = []
        for start in range(0, laws.shape[1], BLOCK):
            a, b = laws[:, start : start + BLOCK]
            fill = -len(a) % kernels.GROUP  # fair coins on both sides: they say nothing
            a, b = (np.append(x, np.full(fill, 0.5)).reshape(-1, kernels.GROUP) for x in (a, b))
            with np.errstate(over="ignore"):  # words of 64 bits wrap around
                kernels.draw(a, b, self.streams, self.first, self.totals)

    def delta(self, alpha: float) -> tuple[float, float, float]:
        if self.log_p == self.log_q == 0 and not self.interior:
            return 0.0, 0.0, 0.0
        if not self.interior:  # every loss is zero: the formula needs no sampling
            none = np.empty(0), np.empty(0)
            laws = Pair(self.log_p, self.log_q, *none), Pair(self.log_q, self.log_p, *none)
            return (max(exact.delta(law)[0] for law in laws),) * 3
        self.flush()
        p_only, q_only = -math.expm1(self.log_p), -math.expm1(self.log_q)
        unbalanced = _imbalance(self.totals.sum(axis=0), self.log_p, self.log_q)
        both = empirical_bernstein(unbalanced, max(1.0 - p_only, 1.0 - q_only), alpha)
        known = self.log_p, self.log_q, self.log_affinity, self.log_overlap
        floor, ceiling = exact.certain_bounds(*known)
        certain = max(p_only, q_only, floor)
        low, middle, high = (min(max((p_only + q_only) / 2.0 + x, certain), ceiling) for x in both)
        return low, middle, high


def _imbalance(losses: np.ndarray, log_p: float, log_q: float) -> np.ndarray:
    """Return | p / (1 + e^-L) - q / (1 + e^L) | of every sample."""
    ours = np.exp(log_p - np.logaddexp(0.0, -losses))
    return np.abs(ours - np.exp(log_q - np.logaddexp(0.0, losses)))


def empirical_bernstein(values: np.ndarray, scale: float, alpha: float) -> tuple:
    """Return (lower, mean, upper) for the mean of iid values in [0, scale], wrong at most by alpha.

    Maurer and Pontil (2009), Theorem 4, on both sides. With V the sample variance and l = log(4 /
    alpha), the mean is off by at most sqrt(2 V l / n) + 7 scale l / (3 (n - 1)).
    """
    every("alpha", alpha, lambda x: (x > 0) & (x < 1), "lie in (0, 1)")
    n, log_term = len(values), math.log(4.0 / alpha)
    mean = float(values.mean())
    width = math.sqrt(2.0 * float(values.var(ddof=1)) * log_term / n)
    width += 7.0 * scale * log_term / (3.0 * (n - 1))
    return max(0.0, mean - width), mean, min(scale, mean + width)
