"""Notebook 4: which rows of its tables a question is about, and what luck would do there."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import binom

from companion.claims import BROKEN, fill
from companion.intervals import exact_ends

STARTS = {
    "quantised": "psi_0 = 0",
    "random start": "psi_0 is random",
    "dithered": "a public dither is used",
}
AFTER = {"low_after": "after_low", "high_after": "after_high"}


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


def told(table: pd.DataFrame) -> pd.DataFrame:
    """Return attackers with exact ends told_low and told_high, corrected for their number."""
    pairs = zip(table["hits"], table["trials"], strict=True)
    ends = [exact_ends(hits, trials, len(table)) for hits, trials in pairs]
    return table.assign(told_low=[low for low, _ in ends], told_high=[high for _, high in ends])


def least_noticed(table: pd.DataFrame, chance: float) -> float:
    """Return the smallest rate that would have been called above chance, as `told` corrects."""
    trials = int(table["trials"].min())
    hits = np.arange(trials + 1)
    noticed = hits[binom.sf(hits - 1, trials, chance) * len(table) < 0.05]
    return float(noticed.min() / trials) if len(noticed) else 1.0


def learned(difference: dict) -> dict:
    """Return a difference of accuracies over people and its words; of one there is no interval."""
    if difference["folds"] < 2:
        words = fill("{mean:+.1p} points (one person, so no interval)", difference)
        return {"difference_low": None, "difference_high": None, "points": words}
    words = fill("{mean:+.1p} points [{low:+.1p}, {high:+.1p}]", difference)
    words += fill(", p = {p:.2g}", difference) if "p" in difference else ""
    low, high = difference["low"], difference["high"]
    return {"difference_low": low, "difference_high": high, "points": words}


def broken(ablation: pd.DataFrame | None) -> list[str]:
    """Return the settings of an ablation in which quantisation costs more than BROKEN."""
    if ablation is None or ablation.empty:
        return []
    wide = ablation.pivot_table(index="setting", columns="variant", values="accuracy", sort=False)
    lost = wide["quantised"] - wide["unquantised"] < -BROKEN
    return [setting for setting in wide.index[lost] if setting != "as chosen"]


def strongest(summary: pd.DataFrame, seen: pd.DataFrame) -> pd.DataFrame:
    """Return the best attack on each start of psi, those by number of models among them."""
    attacks = [pick(summary, defence=name) for name in STARTS]
    attacks.append(pick(seen, defence="quantised", attacker="many models"))
    found = pd.concat(attacks, ignore_index=True)
    found["start"] = found["defence"].map(STARTS)
    return found.loc[found.groupby("start", sort=False)["correlation"].idxmax()]


def before_and_after(rates: pd.DataFrame) -> pd.DataFrame:
    """Return by classifier and attacker the rates in the clear, and _after under Algorithm 1."""
    clear, ours = (pick(rates, defence=name) for name in ("D-PSGD", "quantised"))
    both = clear.merge(ours, on=["classifier", "attacker"], suffixes=("", "_after"))
    before = {f"before_{end}": both[end] for end in ("low", "high")}
    return both.assign(**before).rename(columns=lambda name: AFTER.get(name, name))


def by_defence(rates: pd.DataFrame, straight: pd.DataFrame, chance: float) -> pd.DataFrame:
    """Return each defence's best attacker, with ends corrected for all that were tried on it."""
    found = []
    for name in STARTS:
        every = pd.concat([pick(table, defence=name) for table in (rates, straight)], ignore_index=True)
        ends, least = told(every)[["told_low", "told_high"]].max(), least_noticed(every, chance)
        found.append({**best(every), **ends, "looks": len(every), "least": least})
    return pd.DataFrame(found)


def kinds(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return a table whose `kind` says, row by row, whether it is `name`; it may be empty."""
    return table.assign(kind=[name if yes else "plain" for yes in table.get(name, [])])
