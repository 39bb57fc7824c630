"""What an attacker proves about delta from transcripts alone: a lower bound that holds with a stated confidence.

The accountant bounds delta from above by knowing the mechanism. The audit knows nothing: it may only run the agent on D and
on D', as often as it likes, and look at what was sent. Any event A gives delta(epsilon) >= P(A) - e^epsilon P'(A), so it

    1. fits several distinguishers (scores that should be larger under D) to a first batch of transcripts,
    2. picks on a second batch the score, the threshold and the form of the bound that promise most,
    3. counts the event A = {score > threshold} on a third batch that nothing was chosen on, and bounds P(A) and P'(A) there.

Whatever happens in 1 and 2 is independent of 3, so the bound is valid for every mechanism, every distinguisher and every
number of samples; a bad distinguisher only makes it weak. If `lower` exceeds what an accountant claims, then the claim is
refuted, or an event of probability at most 1 - confidence has happened.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from ldp_core import checks, quantizer
from ldp_core.randomness import Purpose, generator

Mechanism = Callable[[int, np.random.Generator, int], np.ndarray]
"""(which data set: 0 = D or 1 = D', private randomness, samples) -> independent transcripts [samples, ...]."""
Score = Callable[[np.ndarray], np.ndarray]
"""transcripts [samples, features] -> one number each, which should be larger under D than under D'."""
Fit = Callable[[np.ndarray, np.ndarray], Score]
"""(transcripts under D, transcripts under D') -> Score."""

FIT, SELECT = 0.35, 0.15  # shares of the samples for the first and the second batch; the rest is for the third
FEWEST_SAMPLES = 20
MOST_CUTS = 31  # a column with more than 32 values is cut into 32 bins of equal mass
MOST_THRESHOLDS = 400
CHUNK_BYTES = 2**26
RIDGE = 1e-6  # of a column's variance: two columns that always agree do not make Fisher's system singular


@dataclass(frozen=True)
class Audit:
    """delta(epsilon) >= `lower` with probability at least `confidence` over the audit's own samples.

    `hits` of `trials` transcripts under one data set fell into the event, and `false_hits` of `trials` under the other one;
    `estimate` is hits / trials - e^epsilon false_hits / trials, without a confidence.
    """

    lower: float
    estimate: float
    confidence: float
    epsilon: float
    distinguisher: str
    hits: int
    false_hits: int
    trials: int

    def refutes(self, claim: float) -> bool:
        """Return whether the claim that delta(epsilon) <= `claim` is refuted at this confidence."""
        return self.lower > claim

    def __str__(self) -> str:
        return (
            f"delta({self.epsilon:g}) >= {self.lower:.4f} with confidence {self.confidence:.7g}: {self.distinguisher}, "
            f"{self.hits} hits and {self.false_hits} false hits in {self.trials} transcripts each"
        )


def audit(
    mechanism: Mechanism,
    samples: int,
    *,
    seed: int,
    epsilon: float = 0.0,
    confidence: float = 0.99,
    distinguishers: Mapping[str, Fit] | None = None,
) -> Audit:
    """Return a lower bound on delta(epsilon) from `samples` transcripts under each of the two data sets.

    The mechanism is called with generators that depend on (seed, data set, batch) alone, so the same seed gives the same
    audit. The third batch is drawn and counted in pieces: memory holds the first two only.
    """

    def source(stage: int, which: int) -> Callable[[int], np.ndarray]:
        private = generator(seed, Purpose.MONTE_CARLO, run=which, t=1 + stage)  # the accountant's samples start at t = 0
        return lambda count: _rows(mechanism(which, private, count), count)

    return _audit(source, samples, epsilon, confidence, distinguishers)


def compare(
    transcripts: np.ndarray,
    others: np.ndarray,
    *,
    epsilon: float = 0.0,
    confidence: float = 0.99,
    distinguishers: Mapping[str, Fit] | None = None,
) -> Audit:
    """Return the same bound from recorded transcripts `[samples, ...]` under D and under D'.

    All rows of both must be independent draws. The first ones are fitted to, the last ones are counted.
    """
    if len(transcripts) != len(others):
        raise ValueError(f"{len(transcripts)} transcripts and {len(others)} others: there must be as many of each")
    start = np.cumsum([0, *_batches(len(transcripts))])

    def source(stage: int, which: int) -> Callable[[int], np.ndarray]:
        rows, taken = (transcripts, others)[which], int(start[stage])

        def draw(count: int) -> np.ndarray:
            nonlocal taken
            taken += count
            return _rows(rows[taken - count : taken], count)

        return draw

    return _audit(source, len(transcripts), epsilon, confidence, distinguishers)


def _audit(source, samples: int, epsilon: float, confidence: float, distinguishers: Mapping[str, Fit] | None) -> Audit:
    if not (math.isfinite(checks.real("epsilon", epsilon)) and epsilon >= 0):
        raise ValueError(f"epsilon = {epsilon} must be finite and not negative")
    if not 0.75 <= checks.real("confidence", confidence) < 1:
        raise ValueError(f"confidence = {confidence} must lie in [0.75, 1)")
    fit, select, trials = _batches(samples)
    distinguishers = DISTINGUISHERS if distinguishers is None else distinguishers
    if not isinstance(distinguishers, Mapping) or not distinguishers:
        raise ValueError(f"distinguishers = {distinguishers!r} must map at least one name to a function")
    batches = [[source(stage, which)(count) for which in (0, 1)] for stage, count in ((0, fit), (1, select))]
    scores = {name: learn(*batches[0]) for name, learn in distinguishers.items()}
    name, threshold, form = _choose(scores, batches[1], trials, epsilon, 1.0 - confidence)
    features = batches[0][0].shape[1]
    del batches
    above, above_other = (_count(source(2, which), trials, features, scores[name], threshold) for which in (0, 1))
    hits, false_hits = form.event(above, above_other, trials)
    return Audit(
        lower=max(0.0, float(form.bound(hits, false_hits, trials, epsilon, 1.0 - confidence))),
        estimate=hits / trials - math.exp(epsilon) * false_hits / trials,
        confidence=confidence,
        epsilon=epsilon,
        distinguisher=name,
        hits=hits,
        false_hits=false_hits,
        trials=trials,
    )


def _batches(samples: int) -> tuple[int, int, int]:
    samples = checks.whole("samples", samples, FEWEST_SAMPLES)
    fit, select = int(FIT * samples), int(SELECT * samples)
    return fit, select, samples - fit - select


def _rows(transcripts, count: int) -> np.ndarray:
    try:
        transcripts = np.asarray(transcripts)
    except ValueError:
        raise ValueError(f"the mechanism returned rows of different lengths: it must be [{count} samples, features]") from None
    if transcripts.ndim < 2 or len(transcripts) != count:
        raise ValueError(f"the mechanism returned shape {transcripts.shape}: it must be [{count} samples, features]")
    if transcripts.dtype == bool:
        transcripts = transcripts.astype(np.int8)
    if transcripts.dtype.kind not in "iuf" or not np.isfinite(transcripts).all():
        raise ValueError("a transcript must hold finite real numbers: write silence as a number that no message can be")
    return transcripts.reshape(count, math.prod(transcripts.shape[1:]))


def _count(draw: Callable[[int], np.ndarray], trials: int, features: int, score: Score, threshold: float) -> int:
    """Return how many of `trials` fresh transcripts score above the threshold."""
    piece = max(1, CHUNK_BYTES // (8 * max(1, features)))
    return sum(int((score(draw(min(piece, trials - done))) > threshold).sum()) for done in range(0, trials, piece))


# ---------------------------------------------------------------------------------------------------------- the bound


def clopper_pearson(hits, trials: int, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """Return (lower, upper) for the probability of a hit; each of the two is wrong with probability at most alpha."""
    from scipy.stats import beta

    hits = np.asarray(hits)
    lower = np.where(hits > 0, beta.ppf(alpha, np.maximum(hits, 1), trials - hits + 1), 0.0)
    upper = np.where(hits < trials, beta.isf(alpha, hits + 1, np.maximum(trials - hits, 1)), 1.0)
    return lower, upper


def separate_bound(hits, false_hits, trials: int, epsilon: float, alpha: float) -> np.ndarray:
    """Return the lower bound on P(A) - e^epsilon P'(A) from two Clopper-Pearson bounds, at alpha / 2 each.

    Strong when one of the two is near 0 or 1, as it is for levels that only one data set can send.
    """
    lower, _ = clopper_pearson(hits, trials, alpha / 2)
    _, upper = clopper_pearson(false_hits, trials, alpha / 2)
    return lower - math.exp(epsilon) * upper


def pooled_bound(hits, false_hits, trials: int, epsilon: float, alpha: float) -> np.ndarray:
    """Return the lower bound 2 a - 1 on P(A) - P'(A), where a bounds the share of right guesses out of all 2 n (epsilon = 0).

    The guess "D if in A" is right S = hits + n - false_hits times, with mean 2 n a_0, a_0 = (1 + P(A) - P'(A)) / 2. Up to
    1.41 times sharper than `separate_bound` when P(A) = 1 - P'(A).

    Proof that Clopper-Pearson holds for S, though its 2 n trials have two different probabilities. The bound exceeds a_0 only
    if P(B >= S) < alpha for B ~ Binomial(2 n, a_0). Hoeffding (1956): P(S >= s) <= P(B >= s) for all s >= 2 n a_0 + 1.
    A smaller S does not matter: then P(B >= S) >= P(B >= 2 n a_0) >= 1/4 (Greenberg and Mohri 2014, for a_0 > 1 / (2 n)), and
    alpha is at most 1/4. If a_0 < 1/2, the bound is only used when it is positive, which is rarer than at a_0 = 1/2.
    """
    if epsilon != 0:
        raise ValueError(f"epsilon = {epsilon} must be 0 for the pooled bound")
    return 2.0 * clopper_pearson(hits + trials - false_hits, 2 * trials, alpha)[0] - 1.0


@dataclass(frozen=True)
class _Form:
    """Which bound to use, and whether the event is {score > threshold} under D or its complement under D'."""

    bound: Callable
    swapped: bool = False

    def event(self, above, above_other, trials: int):
        """Return (hits, false hits) of the event, from how many transcripts of D and of D' score above the threshold."""
        return (trials - above_other, trials - above) if self.swapped else (above, above_other)


def _forms(epsilon: float) -> list[_Form]:
    """At epsilon = 0 an event and its complement say the same; beyond, delta is the larger of two directions."""
    if epsilon == 0:
        return [_Form(separate_bound), _Form(pooled_bound)]
    return [_Form(separate_bound), _Form(separate_bound, swapped=True)]


def _choose(scores: Mapping[str, Score], batch, trials: int, epsilon: float, alpha: float) -> tuple[str, float, _Form]:
    """Return the name, threshold and form whose bound would be largest if `trials` transcripts behaved like this batch."""
    best = (-math.inf, "", 0.0, _Form(separate_bound))
    for name, score in scores.items():
        ours, theirs = (np.sort(score(rows)) for rows in batch)
        thresholds = _thresholds(np.concatenate([ours, theirs]))
        above, above_other = (
            np.rint((1.0 - np.searchsorted(s, thresholds, side="right") / len(s)) * trials) for s in (ours, theirs)
        )
        for form in _forms(epsilon):
            promise = form.bound(*form.event(above, above_other, trials), trials, epsilon, alpha)
            k = int(np.argmax(promise))
            best = max(best, (float(promise[k]), name, float(thresholds[k]), form), key=lambda candidate: candidate[0])
    return best[1:]


def _thresholds(scores: np.ndarray) -> np.ndarray:
    values = np.unique(scores)
    if len(values) > MOST_THRESHOLDS:
        values = values[np.linspace(0, len(values) - 1, MOST_THRESHOLDS).astype(int)]
    return values[:-1] if len(values) > 1 else values


# -------------------------------------------------------------------------------------------------- the distinguishers


def naive_bayes(ours: np.ndarray, theirs: np.ndarray, *, z: float = 0.0) -> Score:
    """Return the log-likelihood ratio of independent columns, with frequencies smoothed by half a count.

    For a product distribution, which Algorithm 1's transcript is, no score is better, up to the noise of the frequencies.
    With z > 0 only columns whose frequencies differ by more than z standard errors somewhere take part.
    """
    cuts = _cuts(ours, theirs)
    ours, theirs = _counts(_bins(ours, cuts), len(cuts)), _counts(_bins(theirs, cuts), len(cuts))
    ratio = np.log((ours + 0.5) / (theirs + 0.5))  # [bins, columns]; both batches have the same number of rows
    ratio[:, (np.abs(ours - theirs) <= z * np.sqrt(ours + theirs)).all(axis=0)] = 0.0
    columns = np.arange(ratio.shape[1])
    return lambda rows: ratio[_bins(rows, cuts), columns].sum(axis=1)


def linear(ours: np.ndarray, theirs: np.ndarray, *, columns: int = 256) -> Score:
    """Return Fisher's discriminant on the columns whose means differ most: it sees what correlated columns give away."""
    keep = np.argsort(-_separation(ours, theirs), kind="stable")[:columns]
    score = _fisher(ours[:, keep].astype(np.float64), theirs[:, keep].astype(np.float64))
    return lambda rows: score(rows[:, keep].astype(np.float64))


def quadratic(ours: np.ndarray, theirs: np.ndarray, *, columns: int = 20) -> Score:
    """Return Fisher's discriminant on the most different columns and their pairwise products."""
    keep = np.argsort(-_separation(ours, theirs), kind="stable")[:columns]
    centre = (ours[:, keep].mean(axis=0) + theirs[:, keep].mean(axis=0)) / 2
    first, second = np.triu_indices(len(keep), 1)

    def expand(rows: np.ndarray) -> np.ndarray:
        rows = rows[:, keep] - centre
        return np.hstack([rows, rows[:, first] * rows[:, second]])

    score = _fisher(expand(ours), expand(theirs))
    return lambda rows: score(expand(rows))


def support(ours: np.ndarray, theirs: np.ndarray) -> Score:
    """Return in how many columns a transcript leaves the range seen under D', minus the same for D."""
    ranges = [(rows.min(axis=0), rows.max(axis=0)) for rows in (ours, theirs)]

    def outside(rows: np.ndarray, limits) -> np.ndarray:
        return ((rows < limits[0]) | (rows > limits[1])).sum(axis=1)

    return lambda rows: (outside(rows, ranges[1]) - outside(rows, ranges[0])).astype(np.float64)


def whole(ours: np.ndarray, theirs: np.ndarray) -> Score:
    """Return the log-ratio of how often the very same transcript was seen before: the strongest score if there are few."""
    seen: dict[bytes, list[int]] = {}
    for which, rows in enumerate((ours, theirs)):
        for row in np.ascontiguousarray(rows):
            seen.setdefault(row.tobytes(), [0, 0])[which] += 1
    ratio = {row: math.log((a + 0.5) / (b + 0.5)) for row, (a, b) in seen.items()}
    dtype = ours.dtype
    return lambda rows: np.array([ratio.get(row.tobytes(), 0.0) for row in np.ascontiguousarray(rows, dtype=dtype)])


def likelihood_ratio(y: np.ndarray, other: np.ndarray, step: np.ndarray) -> Fit:
    """Return the attacker who knows both states and needs no training: the exact log-likelihood ratio of the levels.

    By Neyman and Pearson no attacker does better, so this audit approaches the exact total variation from below. A level that
    only one data set can send counts for 700, in place of infinity.
    """
    y, other, step = (a.reshape(-1) for a in np.broadcast_arrays(y, other, step))

    def log_probability(levels: np.ndarray, state: np.ndarray) -> np.ndarray:
        return np.log(np.maximum(quantizer.probability(levels, state, step), math.exp(-700.0)))

    return lambda ours, theirs: lambda rows: (log_probability(rows, y) - log_probability(rows, other)).sum(axis=1)


def sender(y: np.ndarray, other: np.ndarray, step: np.ndarray) -> Mechanism:
    """Return the mechanism that sends the states y under D, and `other` under D', as levels of eq. (3).

    With received messages held fixed this is all an agent of Algorithm 1 does: its states are not random.
    """
    states = [a.reshape(-1) for a in np.broadcast_arrays(y, other, step)]

    def mechanism(which: int, private: np.random.Generator, samples: int) -> np.ndarray:
        return quantizer.quantise(states[which], states[2], private.random((samples, states[2].size)))

    return mechanism


DISTINGUISHERS: Mapping[str, Fit] = {
    "naive Bayes": naive_bayes,
    "naive Bayes, differing columns": partial(naive_bayes, z=3.0),
    "linear": linear,
    "quadratic": quadratic,
    "support": support,
    "whole transcript": whole,
}


def _cuts(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Return cuts `[cuts, columns]`: bin b of a column holds what exceeds b of its cuts. Unused cuts are infinite.

    A column with few values has one bin for each; one with many is cut into bins of equal mass.
    """
    rows = np.concatenate([ours, theirs])
    lowest, highest = rows.min(axis=0).astype(np.float64), rows.max(axis=0).astype(np.float64)
    if rows.dtype.kind in "iu" and (highest - lowest).max(initial=0.0) <= MOST_CUTS:  # no need to sort
        cuts = lowest + np.arange((highest - lowest).max(initial=0.0))[:, None]
        return np.where(cuts < highest, cuts, np.inf)
    own = [_column_cuts(column) for column in rows.T]
    cuts = np.full((max(map(len, own), default=0), rows.shape[1]), np.inf)
    for column, its in enumerate(own):
        cuts[: len(its), column] = its
    return cuts


def _column_cuts(column: np.ndarray) -> np.ndarray:
    values = np.unique(column)
    if len(values) <= MOST_CUTS + 1:
        return values[:-1]
    return np.unique(np.quantile(column, np.linspace(0.0, 1.0, MOST_CUTS + 2)[1:-1]))


def _bins(rows: np.ndarray, cuts: np.ndarray) -> np.ndarray:
    bins = np.zeros(rows.shape, dtype=np.uint8)
    for cut in cuts:
        used = np.flatnonzero(np.isfinite(cut))
        if len(used) == len(cut):
            bins += rows > cut
        else:
            bins[:, used] += rows[:, used] > cut[used]
    return bins


def _counts(bins: np.ndarray, cuts: int) -> np.ndarray:
    return np.stack([(bins == b).sum(axis=0) for b in range(cuts + 1)]).astype(np.float64)


def _separation(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Return how far the means of each column are apart, in standard deviations; infinite where nothing varies but the mean."""
    gap = np.abs(ours.mean(axis=0) - theirs.mean(axis=0))
    spread = np.sqrt(ours.var(axis=0) + theirs.var(axis=0))
    return np.divide(gap, spread, out=np.where(gap > 0, np.inf, 0.0), where=spread > 0)


def _fisher(ours: np.ndarray, theirs: np.ndarray) -> Score:
    """Return x -> w . x with w = (S + ridge)^-1 (mean - mean'), S the covariance within the two batches."""
    means = ours.mean(axis=0), theirs.mean(axis=0)
    residual = np.vstack([ours - means[0], theirs - means[1]])
    gap, scale = means[0] - means[1], np.sqrt((residual**2).mean(axis=0))
    rounding = 1e-12 * np.maximum(np.abs(means[0]), np.abs(means[1]))  # smaller is no variation, but float64's
    scale = np.select([scale > rounding, np.abs(gap) > rounding], [scale, np.abs(gap)], 1.0)
    residual /= scale
    covariance = residual.T @ residual / len(residual)
    weights = np.linalg.solve(covariance + RIDGE * np.eye(len(gap)), gap / scale) / scale
    return lambda rows: rows @ weights
