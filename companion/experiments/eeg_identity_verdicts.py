"""Notebook 4: the numbers behind the verdicts on Fig. 7 and identity; words: claims.yaml."""

from __future__ import annotations

import math

import pandas as pd

from companion.claims import Claim, Table, judge, threshold, wilson
from companion.experiments.eeg_tables import best, largest_lower_end, least_noticed, pick
from companion.experiments.eeg_verdicts import learned
from companion.experiments.mnist_verdicts import excess
from companion.intervals import exact_ends

RESTORED = threshold("fig7-clear", "best")  # a mean correlation above this is called restored
FEWEST = 27  # trials behind a rate of re-identification, below which nothing is said
QUANTISED = ("quantised", "random start", "dithered")
WEAK = "Without defence this attack does not restore trials, so its failure says nothing."
FEW = "Too few trials at these sizes to say."
WHOLE = "; left- and right-hand trials of whole sessions of the paper's own subjects, covariances: "


def verdicts(
    summary: Table, seen: Table, rates: Table, straight: Table, chance: float, classes: int
) -> list[Claim]:
    """Return the rows on Fig. 7 and on re-identification.

    `summary` and `seen` are `eeg_attacks.summary` of all attacks and of those by number of states,
    `rates` and `straight` the tables of `eeg_identity`; `chance` is one in the number of people.
    """
    clear = pick(summary, defence="D-PSGD")
    found = {"best_low": clear["correlation"].max(), "best_high": math.inf}
    return [
        judge("fig7-clear", found, attackers=clear, missing=WEAK),
        _hidden(summary, seen),
        _labels(summary, 1 / classes),
        _rates(summary, rates, chance),
        _identity(rates, straight, chance),
        _margin(summary),
    ]


def extra(budget: Table, members: Table, rates: Table, sessions: Table) -> list[Claim]:
    """Return the rows on the accountant's count, on what the model remembers, and on alignment.

    Tables of `eeg_budget.run` and `.members`, `eeg_identity.run` and `.across_sessions`.
    """
    largest = budget.loc[budget.groupby("k")["exact"].idxmax()]
    spent, iterations = excess(budget["lower"].max(), 0.99), budget["iterations"].iloc[0]
    named = members.assign(named_low=members["low"], named_high=math.inf)
    raw = rates[rates["defence"] == "raw"].rename(columns={"low": "recognised"})
    raw["kind"] = raw["aligned"].map({True: "aligned", False: "plain"})
    whole = [
        {**row, "kind": "recentred" if row["recentred"] else "plain"} for row in _dicts(sessions)
    ]
    texts = {"trials": raw, "sessions": whole, "before": WHOLE if whole else ""}
    return [
        judge("eeg-delta", spent, counted=largest, iterations=iterations),
        judge("ours-eeg-members", named, chance=1 / members["trials"].iloc[0]),
        judge("ours-eeg-alignment", raw[raw["aligned"]], **texts),
    ]


def elsewhere(difference: dict, summary: Table, rates: Table, data: str) -> list[Claim]:
    """Return the row on a second data set: whether all goes there as in the first."""
    clear, ours = (best(pick(rates, defence=name)) for name in ("D-PSGD", "quantised"))
    attacks = {name: pick(summary, defence=name) for name in ("D-PSGD", *QUANTISED)}
    most = {name: table["correlation"].max() for name, table in attacks.items()}
    fall = {"fall_low": clear["low"] - ours["high"], "fall_high": clear["high"] - ours["low"]}
    off_grid = max(most["random start"], most["dithered"])
    found = {**learned(difference), **fall, "off_grid": off_grid}
    texts = {"most": most, "clear": clear, "ours": ours, "data": data}
    return [judge("ours-eeg-elsewhere", found, **texts, **_sized(summary, clear))]


def _dicts(table: Table) -> list[dict]:
    return table.to_dict("records")


def _calibrated(summary: Table) -> bool:
    """Return whether the attack works undefended: only then does its failure mean something."""
    return bool(pick(summary, defence="D-PSGD")["correlation"].max() >= RESTORED)


def _sized(summary: Table, rate: pd.Series) -> dict:
    calibrated = _calibrated(summary)
    known = calibrated and bool(rate["trials"] >= FEWEST)
    return {"known": known, "missing": FEW if calibrated else WEAK}


def _hidden(summary: Table, seen: Table) -> Claim:
    own = {name: pick(summary, defence=name).set_index("attacker") for name in QUANTISED}
    worst = {name: part["correlation"].max() for name, part in own.items()}
    most = best(pick(seen, defence="quantised", attacker="many models"))
    grid = {"start": "on the grid", "most": max(worst["quantised"], most["correlation"])}
    off = {"most": max(worst["random start"], worst["dithered"])}
    off["start"] = "not on the grid (random psi_0, or a public dither)"
    one, many = (own["quantised"].loc[name] for name in ("one round", "many models"))
    texts = {"one": one, "many": many, "all": most, "worst": worst, "missing": WEAK}
    return judge("fig7-quantised", [grid, off], _calibrated(summary), **texts)


def _labels(summary: Table, chance: float) -> Claim:
    found = pd.concat([pick(summary, defence=name) for name in QUANTISED])
    hits = zip((found["label"] * found["trials"]).round(), found["trials"], strict=True)
    ends = [(exact_ends(*pair, len(found))[0], wilson(*pair)[1]) for pair in hits]
    found[["told_low", "told_high"]] = ends
    return judge("eeg-labels", found, chance=chance, twice=2 * chance, missing=FEW)


def _rates(summary: Table, rates: Table, chance: float) -> Claim:
    own = pick(rates, defence="quantised")
    clear, ours, looks = best(pick(rates, defence="D-PSGD")), best(own), len(own)
    above = "" if largest_lower_end(own, looks) > chance else "not "
    sized = _sized(summary, clear)
    found = [{"before": clear["high"], "after": ours["low"]}] * sized["known"]
    texts = {"clear": clear, "ours": ours, "above": above, "chance": chance, **sized}
    return judge("reidentification-rates", found, least=least_noticed(own, chance, looks), **texts)


def _identity(rates: Table, straight: Table, chance: float) -> Claim:
    tables = {name: [pick(t, defence=name) for t in (rates, straight)] for name in QUANTISED}
    every = [table for both in tables.values() for table in both]
    looks = sum(len(table) for table in every)
    least = max(least_noticed(table, chance, looks) for table in every)
    lowest = {name: max(largest_lower_end(t, looks) for t in b) for name, b in tables.items()}
    found = [{"defence": name, "told_low": low, "told_high": least} for name, low in lowest.items()]
    painted, direct = ([best(both[part]) for both in tables.values()] for part in (0, 1))
    told = ", ".join(name for name, low in lowest.items() if low > chance)
    numbers = {"chance": chance, "looks": looks, "least": least, "told": told}
    return judge("identity-protected", found, painted=painted, direct=direct, **numbers)


def _margin(summary: Table) -> Claim:
    rows = pick(summary, defence="quantised", attacker="many models", factor=None)
    rows = rows.sort_values("factor")
    smaller = rows[rows["factor"] < 1.0]
    tenth = smaller.iloc[-1] if len(smaller) else rows.iloc[-1]
    broken = rows[rows["correlation"] >= RESTORED]["factor"]
    none = "none of the steps tried"
    reached = f"{broken.max():g} of the paper's d_0" if len(broken) else none
    one = pick(summary, defence="D-PSGD", attacker="one round")["correlation"].iloc[0]
    found = {"left": tenth["correlation"], "factor": tenth["factor"]}
    texts = {"steps": rows, "reached": reached, "one": one}
    return judge("ours-eeg-margin", found, _calibrated(summary), **texts)
