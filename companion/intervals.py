"""Intervals of means, shares and medians, each in one place."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np
from scipy import stats

NORMAL = 1.96  # half of a 95 % interval in standard errors, where there are many values


def student(deviation, count):
    """Return half of the 95 % interval of a mean of `count` values with this standard deviation.

    Student's; both may be columns of a table. The deviation is that with count - 1 below it.
    """
    return stats.t.ppf(0.975, count - 1) * deviation / np.sqrt(count)


def ends(name: str, values) -> dict[str, float]:
    """Return the mean of some values and its 95 % interval (Student)."""
    mean, half = values.mean(), student(values.std(), len(values))
    return {name: mean, f"{name}_low": mean - half, f"{name}_high": mean + half}


def wilson(hits: int, trials: int) -> tuple[float, float]:
    """Return the 95 % Wilson interval of a share."""
    found = stats.binomtest(int(hits), int(trials)).proportion_ci(method="wilson")
    return float(found.low), float(found.high)


def exact_ends(hits: int, trials: int, looks: int = 1) -> tuple[float, float]:
    """Return the ends of a share's exact one-sided 95 % intervals, corrected for several looks.

    The lower end is above a number just when the exact binomial test against it is significant at
    the level 0.05 / looks (Clopper and Pearson; Bonferroni).
    """
    level = 1 - 2 * 0.05 / looks
    found = stats.binomtest(int(hits), int(trials)).proportion_ci(level, method="exact")
    return float(found.low), float(found.high)


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of a median, between two of the values; NaN for fewer than six."""
    low, high = _around_the_median(len(values))
    ordered = np.sort(values)
    return (float(ordered[low]), float(ordered[high])) if low >= 0 else (math.nan, math.nan)


@functools.cache
def _around_the_median(count: int) -> tuple[int, int]:
    """Return which of so many ordered values are the ends, as `stats.quantile_test` has them.

    The test itself takes a millisecond, and the tables have hundreds of such intervals.
    """
    coins = stats.binom(count, 0.5)
    return int(coins.ppf(0.025)) - 1, int(coins.isf(0.025))


def excess(lower: float, delta: float = 0.9) -> list[dict]:
    """Return by how much a measured total variation exceeds delta, and 1, which it never does.

    It is that of one pair of data sets: it can refute a delta, and not confirm one.
    """
    promised = "1" if lower > 0.9995 else f"{lower:.3f} or more"
    named = {"case": f"δ is {delta:g}", "excess_low": lower - delta, "excess_high": math.inf}
    empty = f"δ may be {promised}, which promises almost nothing"
    return [named, *[{"case": empty, "excess": 0.0}] * bool(lower >= delta)]
