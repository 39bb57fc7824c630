"""Scores that should be larger under D than under D': what an audit tells two data sets apart by.

>>> ours, theirs = np.array([[0], [1], [1], [1]]), np.array([[0], [0], [0], [1]])
>>> naive_bayes(ours, theirs)(np.array([[1], [0]])).round(3).tolist()
[0.847, -0.847]
"""

import math
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from ldp_core import quantizer

Score = Callable[[np.ndarray], np.ndarray]
"""transcripts [samples, features] -> one number each, which should be larger under D than D'."""
Fit = Callable[[np.ndarray, np.ndarray], Score]
"""(transcripts under D, transcripts under D') -> Score."""

MOST_CUTS = 31  # a column with more than 32 values is cut into 32 bins of equal mass
RIDGE = 1e-6  # of a column's variance: two columns that always agree make no system singular
IMPOSSIBLE = 700.0  # minus the logarithm of what stands for a probability of zero


def naive_bayes(ours: np.ndarray, theirs: np.ndarray, *, z: float = 0.0) -> Score:
    """Return the log-likelihood ratio of independent columns, frequencies smoothed by half a count.

    For a product distribution, which Algorithm 1's transcript is, no score is better. Only columns
    whose frequencies differ by more than z standard errors somewhere take part.
    """
    cuts = _cuts(ours, theirs)
    ours, theirs = (
        np.stack([(bins == b).sum(axis=0) for b in range(len(cuts) + 1)]).astype(np.float64)
        for bins in (_bins(ours, cuts), _bins(theirs, cuts))
    )
    ratio = np.log((ours + 0.5) / (theirs + 0.5))  # [bins, columns]; as many rows in both batches
    ratio[:, (np.abs(ours - theirs) <= z * np.sqrt(ours + theirs)).all(axis=0)] = 0.0
    columns = np.arange(ratio.shape[1])
    return lambda rows: ratio[_bins(rows, cuts), columns].sum(axis=1)


def linear(ours: np.ndarray, theirs: np.ndarray, *, columns: int = 256) -> Score:
    """Return Fisher's discriminant on the columns whose means differ most; it sees correlations."""
    keep = np.argsort(-_separation(ours, theirs), kind="stable")[:columns]
    return _fisher(ours, theirs, lambda rows: rows[:, keep].astype(np.float64))


def quadratic(ours: np.ndarray, theirs: np.ndarray, *, columns: int = 20) -> Score:
    """Return Fisher's discriminant on the most different columns and their pairwise products."""
    keep = np.argsort(-_separation(ours, theirs), kind="stable")[:columns]
    centre = (ours[:, keep].mean(axis=0) + theirs[:, keep].mean(axis=0)) / 2
    first, second = np.triu_indices(len(keep), 1)

    def expand(rows: np.ndarray) -> np.ndarray:
        rows = rows[:, keep] - centre
        return np.hstack([rows, rows[:, first] * rows[:, second]])

    return _fisher(ours, theirs, expand)


def support(ours: np.ndarray, theirs: np.ndarray) -> Score:
    """Return in how many columns a transcript leaves the range seen under D', minus that of D."""
    ranges = [(rows.min(axis=0), rows.max(axis=0)) for rows in (ours, theirs)]

    def outside(rows: np.ndarray, limits) -> np.ndarray:
        return ((rows < limits[0]) | (rows > limits[1])).sum(axis=1)

    return lambda rows: (outside(rows, ranges[1]) - outside(rows, ranges[0])).astype(np.float64)


def whole(ours: np.ndarray, theirs: np.ndarray) -> Score:
    """Return the log-ratio of how often the very same transcript was seen: strong if few are."""
    seen: dict[bytes, list[int]] = {}
    for which, rows in enumerate((ours, theirs)):
        for row in np.ascontiguousarray(rows):
            seen.setdefault(row.tobytes(), [0, 0])[which] += 1
    ratio = {row: math.log((a + 0.5) / (b + 0.5)) for row, (a, b) in seen.items()}

    def score(rows: np.ndarray) -> np.ndarray:
        rows = np.ascontiguousarray(rows, dtype=ours.dtype)
        return np.array([ratio.get(row.tobytes(), 0.0) for row in rows])

    return score


def likelihood_ratio(y, other, step, degree: int = 1) -> Fit:
    """Return the attacker who knows both states: the exact log-likelihood ratio of the levels.

    By Neyman and Pearson none does better. A level that only one data set can send counts for 700.
    """
    y, other, step = (a.reshape(-1) for a in np.broadcast_arrays(y, other, step))
    ours, theirs = (_log_probability(state, step, degree) for state in (y, other))
    return lambda _, __: lambda rows: (ours(rows) - theirs(rows)).sum(axis=1)


def _log_probability(y: np.ndarray, step: np.ndarray, degree: int) -> Callable:
    lowest, chances = quantizer.law(y, step, None, degree)
    logs = np.log(np.maximum(chances, math.exp(-IMPOSSIBLE)))
    logs = np.hstack([logs, np.full((len(logs), 1), -IMPOSSIBLE)]).ravel()
    first = np.arange(len(y)) * (degree + 2)

    def found(levels: np.ndarray) -> np.ndarray:
        place = levels - lowest
        return logs[first + np.where((place >= 0) & (place <= degree), place, degree + 1)]

    return found


DISTINGUISHERS: Mapping[str, Fit] = {
    "naive Bayes": naive_bayes,
    "naive Bayes, differing columns": partial(naive_bayes, z=3.0),
    "linear": linear,
    "quadratic": quadratic,
    "support": support,
    "whole transcript": whole,
}


def _cuts(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Return cuts `[cuts, columns]`: bin b of a column holds what exceeds b of them; inf: unused.

    A column with few values has one bin for each; one with many is cut into bins of equal mass.
    """
    rows = np.concatenate([ours, theirs])
    lowest, highest = (x.astype(np.float64) for x in (rows.min(axis=0), rows.max(axis=0)))
    most = (highest - lowest).max(initial=0.0)
    if rows.dtype.kind in "iu" and most <= MOST_CUTS:  # no need to sort
        cuts = lowest + np.arange(most)[:, None]
        return np.where(cuts < highest, cuts, np.inf)
    cuts = np.full((MOST_CUTS, rows.shape[1]), np.inf)
    for own, column in zip(cuts.T, rows.T, strict=True):
        its = np.unique(column)[:-1]
        if len(its) > MOST_CUTS:
            its = np.unique(np.quantile(column, np.linspace(0.0, 1.0, MOST_CUTS + 2)[1:-1]))
        own[: len(its)] = its
    return cuts[np.isfinite(cuts).any(axis=1)]


def _bins(rows: np.ndarray, cuts: np.ndarray) -> np.ndarray:
    bins = np.zeros(rows.shape, dtype=np.uint8)
    for cut in cuts:
        used = np.flatnonzero(np.isfinite(cut))
        if len(used) == len(cut):
            bins += rows > cut
        else:
            bins[:, used] += rows[:, used] > cut[used]
    return bins


def _separation(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Return how far each column's means are apart, in deviations; infinite if nothing varies."""
    gap = np.abs(ours.mean(axis=0) - theirs.mean(axis=0))
    spread = np.sqrt(ours.var(axis=0) + theirs.var(axis=0))
    return np.divide(gap, spread, out=np.where(gap > 0, np.inf, 0.0), where=spread > 0)


def _fisher(ours: np.ndarray, theirs: np.ndarray, expand: Score) -> Score:
    """Return x -> w . x, w = (S + ridge)^-1 (mean - mean'), S the covariance within batches."""
    ours, theirs = expand(ours), expand(theirs)
    means = ours.mean(axis=0), theirs.mean(axis=0)
    residual = np.vstack([ours - means[0], theirs - means[1]])
    gap, scale = means[0] - means[1], np.sqrt((residual**2).mean(axis=0))
    rounding = 1e-12 * np.maximum(np.abs(means[0]), np.abs(means[1]))  # no variation, but float64's
    scale = np.select([scale > rounding, np.abs(gap) > rounding], [scale, np.abs(gap)], 1.0)
    residual /= scale
    covariance = residual.T @ residual / len(residual)
    weights = np.linalg.solve(covariance + RIDGE * np.eye(len(gap)), gap / scale) / scale
    return lambda rows: expand(rows) @ weights
