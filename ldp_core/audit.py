"""What an attacker proves about delta from transcripts alone: a lower bound at a stated confidence.

    >>> found = informed(np.array([0.2]), np.array([0.7]), 1.0, 10_000, seed=1)
    >>> round(found.lower, 2), found.refutes(0.4)  # the total variation is 0.5
    (0.49, True)

The accountant bounds delta from above by knowing the mechanism. The audit may only run the agent on
D and on D', as often as it likes, and look at what was sent. Any event A gives delta >= P(A) -
P'(A), so it

    1. fits several distinguishers (scores that should be larger under D) to a first batch,
    2. picks on a second batch the score, the threshold and the form of the bound,
    3. counts A = {score > threshold} on a third batch that nothing was chosen on.

So the bound is valid for every mechanism, distinguisher and number of samples. If `lower` exceeds a
claim, then the claim is refuted, or an event of probability at most 1 - confidence has happened.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldp_core import checks, quantizer
from ldp_core.distinguishers import DISTINGUISHERS, Fit, Score, likelihood_ratio
from ldp_core.randomness import Purpose, generator

Mechanism = Callable[[int, np.random.Generator, int], np.ndarray]
"""(which data set: 0 = D, 1 = D'; private randomness; samples) -> transcripts [samples, ...]."""
Bound = Callable[[Any, Any, int, float], np.ndarray]  # (hits, false hits, trials, alpha) -> bound

FIT, SELECT = 0.35, 0.15  # shares of the samples for the first two batches; the rest is counted
FEWEST_SAMPLES = 20
MOST_THRESHOLDS = 400
CHUNK_BYTES = 2**20
BELOW = 1e-12  # a Clopper-Pearson bound is about so much below the exact one, relatively
MOST_STEPS = 60  # of Newton's method; five to ten are usual


@dataclass(frozen=True)
class Audit:
    """delta >= `lower` with probability at least `confidence` over the audit's samples.

    `hits` of `trials` transcripts under D fell into the event, and `false_hits` of `trials` under
    D'; `estimate` is the difference of their shares, without a confidence.
    """

    lower: float
    estimate: float
    confidence: float
    distinguisher: str
    hits: int
    false_hits: int
    trials: int

    def refutes(self, claim: float) -> bool:
        """Return whether the claim that delta <= `claim` is refuted at this confidence."""
        return self.lower > claim


def audit(
    mechanism: Mechanism,
    samples: int,
    *,
    seed: int,
    confidence: float = 0.99,
    distinguishers: Mapping[str, Fit] = DISTINGUISHERS,
) -> Audit:
    """Return a lower bound on delta from `samples` transcripts under each data set.

    The mechanism is called with generators that depend on (seed, data set, batch) alone. The third
    batch is drawn and counted in pieces: memory holds the first two only.
    """
    _require_confidence(confidence)
    samples = checks.whole("samples", samples, FEWEST_SAMPLES)
    fit, select = int(FIT * samples), int(SELECT * samples)
    trials = samples - fit - select
    if not distinguishers:
        raise ValueError("distinguishers = {} must map at least one name to a function")

    def source(stage: int, which: int) -> Callable[[int], np.ndarray]:
        private = _private(seed, stage, which)
        return lambda count: _rows(mechanism(which, private, count), count)

    stages = enumerate((fit, select))
    batches = [[source(stage, which)(count) for which in (0, 1)] for stage, count in stages]
    scores = {name: learn(*batches[0]) for name, learn in distinguishers.items()}
    name, threshold, bound = _choose(scores, batches[1], trials, 1.0 - confidence)
    features = batches[0][0].shape[1]
    del batches
    ours, theirs = (
        _count(source(2, which), trials, features, scores[name], threshold) for which in (0, 1)
    )
    return _found(bound, ours, theirs, trials, confidence, name)


def informed(
    y, other, step, trials: int, *, seed: int, confidence: float = 0.99, degree: int = 1
) -> Audit:
    """Return what the best attacker there is proves: the one who knows both states of the agent.

    The event, a likelihood ratio above one, is known beforehand: every transcript counts. By
    Hoeffding's inequality 4 log(1 / alpha) / (delta - proven)^2 of them, alpha = 1 - confidence,
    prove `proven` where `delta` is true, but for a chance alpha.
    """
    _require_confidence(confidence)
    mechanism, score = sender(y, other, step, degree), likelihood_ratio(y, other, step, degree)
    features, trials = np.broadcast(y, other, step).size, checks.whole("trials", trials, 1)

    def above(which: int) -> int:
        private = _private(seed, 2, which)
        draw = lambda count: mechanism(which, private, count)  # noqa: E731
        return _count(draw, trials, features, score(*(np.empty(0),) * 2), 0.0)

    return _found(pooled_bound, above(0), above(1), trials, confidence, "both states")


def sender(y, other, step, degree: int = 1) -> Mechanism:
    """Return the mechanism that sends the states y under D, and `other` under D', as levels."""
    states = [a.reshape(-1) for a in np.broadcast_arrays(y, other, step)]

    def mechanism(which: int, private: np.random.Generator, samples: int) -> np.ndarray:
        coins = private.random((samples, states[2].size))
        return quantizer.quantise(states[which], states[2], coins, None, degree)

    return mechanism


def _found(bound: Bound, hits: int, false_hits: int, trials: int, confidence, name: str) -> Audit:
    lower = max(0.0, float(bound(hits, false_hits, trials, 1.0 - confidence)))
    estimate = hits / trials - false_hits / trials
    return Audit(lower, estimate, confidence, name, hits, false_hits, trials)


def _private(seed: int, stage: int, which: int) -> np.random.Generator:
    """Return the generator of one batch; the accountant's own samples start at t = 0."""
    return generator(seed, Purpose.MONTE_CARLO, run=which, t=1 + stage)


def _require_confidence(confidence: float) -> None:
    if not 0.75 <= checks.real("confidence", confidence) < 1:
        raise ValueError(f"confidence = {confidence} must lie in [0.75, 1)")


def _rows(transcripts, count: int) -> np.ndarray:
    wanted = f"it must be [{count} samples, features]"
    try:
        transcripts = np.asarray(transcripts)
    except ValueError:
        raise ValueError(f"the mechanism returned rows of different lengths: {wanted}") from None
    if transcripts.ndim < 2 or len(transcripts) != count:
        raise ValueError(f"the mechanism returned shape {transcripts.shape}: {wanted}")
    if transcripts.dtype == bool:
        transcripts = transcripts.astype(np.int8)
    if transcripts.dtype.kind not in "iuf" or not np.isfinite(transcripts).all():
        rule = "write silence as a number that no message can be"
        raise ValueError(f"a transcript must hold finite real numbers: {rule}")
    return transcripts.reshape(count, math.prod(transcripts.shape[1:]))


def _count(draw: Callable, trials: int, features: int, score: Score, threshold: float) -> int:
    """Return how many of `trials` fresh transcripts score above the threshold."""
    piece = max(1, CHUNK_BYTES // (8 * max(1, features)))
    pieces = (min(piece, trials - done) for done in range(0, trials, piece))
    return sum(int((score(draw(count)) > threshold).sum()) for count in pieces)


def clopper_pearson(hits, trials: int, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """Return (lower, upper) for the probability of a hit; each is wrong with chance <= alpha."""
    _require_counts(trials, alpha, hits=hits)
    hits = np.asarray(hits, dtype=np.float64)
    return _lower(hits, trials, alpha), 1.0 - _lower(trials - hits, trials, alpha)


def _require_counts(trials: int, alpha: float, **counts) -> None:
    checks.whole("trials", trials, 1)
    checks.every("alpha", alpha, lambda x: (x > 0) & (x < 1), "lie in (0, 1)")
    for name, count in counts.items():
        checks.every(name, count, lambda x: (x >= 0) & (x <= trials), f"lie in [0, {trials}]")


def _lower(hits: np.ndarray, trials: int, alpha: float) -> np.ndarray:
    """Return the p at which `hits` or more of `trials` have probability alpha, from below.

    Its logarithm is concave in log p, so Newton's steps from below stay below: every one is a valid
    bound. They begin at Hoeffding's, or at k/(e n) alpha^(1/k), as P is at most (e n p / k)^k.
    """
    k = np.maximum(hits, 1.0)
    hoeffding = k / trials - math.sqrt(-math.log(alpha) / (2.0 * trials))
    p = np.maximum(k / (math.e * trials) * alpha ** (1.0 / k), hoeffding)
    for _ in range(MOST_STEPS):
        log_tail, slope = _log_tail(k, trials, p)
        step = np.maximum(0.0, math.log(alpha) - log_tail) / slope
        p = p * np.exp(step)
        if step.max(initial=0.0) < BELOW:
            break
    return np.where(hits > 0, p * (1.0 - BELOW), 0.0)


def _log_tail(k: np.ndarray, n: int, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return log P(B >= k), B ~ Binomial(n, p), p <= k/n, and its derivative by log p.

    The incomplete beta function, by its continued fraction (Abramowitz and Stegun 26.5.8).
    """
    a, b = k, n - k + 1.0
    front = a * np.log(p) + b * np.log1p(-p) - np.log(a) + math.lgamma(n + 1.0)
    front = front - _log_gamma(a) - _log_gamma(b)
    c, d = np.ones_like(p), 1.0 / (1.0 - (a + b) * p / (a + 1.0))
    fraction, m = d, 0.0
    while True:
        m += 1.0
        for term in (
            m * (b - m) * p / ((a + 2.0 * m - 1.0) * (a + 2.0 * m)),
            -(a + m) * (a + b + m) * p / ((a + 2.0 * m) * (a + 2.0 * m + 1.0)),
        ):
            d, c = 1.0 / (1.0 + term * d), 1.0 + term / c
            fraction = fraction * d * c
        if np.abs(d * c - 1.0).max(initial=0.0) < 1e-13:
            return front + np.log(fraction), a / ((1.0 - p) * fraction)


def _log_gamma(x: np.ndarray) -> np.ndarray:
    return np.array([math.lgamma(one) for one in x.flat]).reshape(x.shape)


def separate_bound(hits, false_hits, trials: int, alpha: float) -> np.ndarray:
    """Return the bound of P(A) - P'(A) from two Clopper-Pearson bounds, alpha / 2 each.

    Strong when one of the two is near 0 or 1, as for levels that only one data set can send.
    """
    _require_counts(trials, alpha, hits=hits, false_hits=false_hits)
    lower, _ = clopper_pearson(hits, trials, alpha / 2)
    _, upper = clopper_pearson(false_hits, trials, alpha / 2)
    return lower - upper


def pooled_bound(hits, false_hits, trials: int, alpha: float) -> np.ndarray:
    """Return the bound 2 a - 1 of P(A) - P'(A), a that of the share of right guesses.

    Up to 1.41 times sharper than `separate_bound` when P(A) = 1 - P'(A). Clopper-Pearson holds for
    guesses of two different probabilities by Hoeffding (1956): docs/proofs/exact.md, section 4.
    """
    _require_counts(trials, alpha, hits=hits, false_hits=false_hits)
    return 2.0 * clopper_pearson(hits + trials - false_hits, 2 * trials, alpha)[0] - 1.0


def _choose(scores, batch, trials: int, alpha: float) -> tuple[str, float, Bound]:
    """Return the name, threshold and bound that is largest if all behave like this batch."""
    best: tuple = (-math.inf, "", 0.0, separate_bound)
    for name, score in scores.items():
        both = [np.sort(score(rows)) for rows in batch]
        thresholds = _thresholds(np.concatenate(both))
        above, other = (
            np.rint((1.0 - np.searchsorted(s, thresholds, side="right") / len(s)) * trials)
            for s in both
        )
        for bound in (separate_bound, pooled_bound):
            promise = bound(above, other, trials, alpha)
            k = int(np.argmax(promise))
            candidate = (float(promise[k]), name, float(thresholds[k]), bound)
            best = max(best, candidate, key=lambda one: one[0])
    return best[1:]


def _thresholds(scores: np.ndarray) -> np.ndarray:
    values = np.unique(scores)
    if len(values) > MOST_THRESHOLDS:
        values = values[np.linspace(0, len(values) - 1, MOST_THRESHOLDS).astype(int)]
    return values[:-1] if len(values) > 1 else values
