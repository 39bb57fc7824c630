"""Notebook 4: which rows of its tables a question is about, and what luck would do there."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import binom

from companion.intervals import exact_ends


def pick(table: pd.DataFrame, factor: float | None = 1.0, **where) -> pd.DataFrame:
    """Return the rows of a setting; unaligned where there are both, because they tell more."""
    for name, value in where.items():
        table = table[table[name] == value]
    if factor is not None:
        table = table[table["factor"] == factor]
    return table[~table["aligned"]] if not table["aligned"].all() else table


def best(table: pd.DataFrame) -> pd.Series:
    """Return the row with the largest value of `rate`, or of `correlation`."""
    return table.loc[table["rate" if "rate" in table else "correlation"].idxmax()]


def largest_lower_end(table: pd.DataFrame, looks: int) -> float:
    """Return the largest of the attackers' lower ends, corrected for the number of looks."""
    return max(exact_ends(row.hits, row.trials, looks)[0] for row in table.itertuples())


def least_noticed(table: pd.DataFrame, chance: float, looks: int) -> float:
    """Return the smallest rate that would have been called above chance."""
    trials = int(table["trials"].min())
    hits = np.arange(trials + 1)
    noticed = hits[binom.sf(hits - 1, trials, chance) * looks < 0.05]
    return float(noticed.min() / trials) if len(noticed) else 1.0
