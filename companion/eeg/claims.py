"""Notebook 4: the numbers behind its verdicts; words and rules: claims.yaml."""

from __future__ import annotations

import dataclasses
import math

import pandas as pd

from companion.claims import Claim, Numbers, Table, judge, threshold
from companion.eeg import tables
from companion.eeg.params import Params
from companion.eeg.promise_tables import needed
from companion.eeg.tables import Learnt, best, pick, told
from companion.intervals import exact_ends, excess

RESTORED = threshold("fig7-clear", "best")  # a mean correlation above this is called restored
FEWEST = 27  # trials behind a rate of re-identification, below which nothing is said
WEAK = "Without defence this attack does not restore trials, so its failure says nothing."
FEW = "Too few trials at these sizes to say."


def learning(learnt: Learnt, settings: Table | None, weight: float, data: str) -> list[Claim]:
    """Return the rows of Fig. 6; `data` names the recordings, `weight` is the network's."""
    mean, people = 100 * learnt.per_subject.loc["mean"], learnt.per_subject.drop(index="mean")
    above = int((people["quantised"] > 1 / learnt.classes).sum())
    low, high = exact_ends(above, len(people))
    central = f", {mean['centralised']:.1f} % centralised" if "centralised" in people else ""
    numbers: Numbers = {"above": above, "people": len(people), "chance": 100 / learnt.classes}
    numbers |= {"central": central, "mean": mean, "data": data}
    close = tables.learned(learnt.difference)
    close |= {"weight": weight, "folds": learnt.difference["folds"]}
    lost = tables.broken(settings)
    return [
        judge("figure-6", close, exceptions=lost, mean=mean, data=data),
        judge("figure-6-generalises", {"low": low, "high": high}, **numbers),
    ]


def attacks(
    summary: Table, seen: Table, rates: Table, straight: Table, chance: float, classes: int
) -> list[Claim]:
    """Return the rows on Fig. 7 and on re-identification.

    `summary` and `seen` are `tables.attacked` of all attacks and of those by number of states;
    `chance` is one in the number of people.
    """
    clear = pick(summary, defence="D-PSGD")
    found = {"best_low": best(clear)["correlation_low"], "best_high": math.inf}
    people = tables.by_defence(rates, straight, chance)
    luck: Numbers = {"chance": chance, "twice": 2 * chance, "least": people["least"].max()}
    starts, own = tables.strongest(summary, seen), pick(summary, defence="quantised")
    return [
        judge("fig7-clear", found, attackers=clear, missing=WEAK),
        judge("fig7-quantised", starts, _calibrated(summary), attackers=own, missing=WEAK),
        _labels(summary, 1 / classes),
        _rates(summary, rates, chance),
        judge("identity-protected", people, **luck),
        _margin(summary),
    ]


def remembered(
    spent: Table, members: Table, rates: Table, sessions: Table, chance: float
) -> list[Claim]:
    """Return the rows on the accountant's count, on what the model remembers, and on alignment."""
    largest = spent.loc[spent.groupby("k")["exact"].idxmax()]
    count, iterations = excess(spent["lower"].max()), spent["iterations"].iloc[0]
    raw = tables.kinds(rates[rates["defence"] == "raw"], "aligned")
    whole = tables.kinds(sessions, "recentred").assign(classifier="whole sessions, covariances")
    luck = {"chance": chance, "twice": 2 * chance, "trials": pd.concat([raw, whole])}
    aligned = told(raw[raw["aligned"]])
    return [
        judge("eeg-delta", count, counted=largest, iterations=iterations),
        judge("ours-eeg-members", told(members), chance=chance, twice=2 * chance),
        judge("ours-eeg-alignment", aligned, looks=len(aligned), **luck),
    ]


def elsewhere(difference: dict, summary: Table, rates: Table, data: str) -> list[Claim]:
    """Return the row on a second data set: whether all goes there as in the first."""
    clear, ours = (best(pick(rates, defence=name)) for name in ("D-PSGD", "quantised"))
    attacks = {name: pick(summary, defence=name) for name in ("D-PSGD", *tables.STARTS)}
    most = {name: table["correlation"].max() for name, table in attacks.items()}
    fall = {"fall_low": clear["low"] - ours["high"], "fall_high": clear["high"] - ours["low"]}
    hidden = [attacks["random start"], attacks["dithered"]]
    off_grid = best(pd.concat(hidden, ignore_index=True))
    found = {**off_grid, **tables.learned(difference), **fall}
    texts = {"most": most, "clear": clear, "ours": ours, "data": data}
    return [judge("ours-eeg-elsewhere", found, **texts, **_sized(summary, clear))]


def _calibrated(summary: Table) -> bool:
    """Return whether the attack works undefended: only then does its failure mean something."""
    return bool(pick(summary, defence="D-PSGD")["correlation"].max() >= RESTORED)


def _sized(summary: Table, rate: pd.Series) -> dict:
    calibrated = _calibrated(summary)
    known = calibrated and bool(rate["trials"] >= FEWEST)
    return {"known": known, "missing": FEW if calibrated else WEAK}


def _labels(summary: Table, chance: float) -> Claim:
    found = pd.concat([pick(summary, defence=name) for name in tables.STARTS])
    found = told(found.assign(hits=(found["label"] * found["trials"]).round()))
    numbers: Numbers = {"chance": chance, "twice": 2 * chance, "looks": len(found)}
    return judge("eeg-labels", found, **numbers, missing=FEW)


def _rates(summary: Table, rates: Table, chance: float) -> Claim:
    clear, ours = (best(pick(rates, defence=name)) for name in ("D-PSGD", "quantised"))
    texts = {"clear": clear, "ours": ours, "chance": chance, **_sized(summary, clear)}
    found = tables.before_and_after(rates) if texts["known"] else []
    return judge("reidentification-rates", found, **texts)


def _margin(summary: Table) -> Claim:
    rows = pick(summary, defence="quantised", attacker="many models", factor=None)
    rows = rows.sort_values("factor")
    tenth = (rows[rows["factor"] < 1.0] if (rows["factor"] < 1.0).any() else rows).iloc[-1]
    one = pick(summary, defence="D-PSGD", attacker="one round")["correlation"].iloc[0]
    return judge("ours-eeg-margin", tenth, _calibrated(summary), steps=rows, one=one)


def crowd(found: tuple[Table, Table] | None, params: Params) -> Claim:
    """Return the row on the identity of many people, from `rates` and `straight` of them."""
    chance, told_at = 1 / params.crowd, tables.PAPER_RATES[1]
    people = [] if found is None else tables.by_defence(*found, chance)
    numbers: Numbers = {"chance": chance, "twice": 2 * chance, "people": params.crowd}
    numbers["few"], numbers["many"] = (
        tables.trials_to_tell(told_at, each) for each in (params.chance, chance)
    )
    few = len(params.subjects)
    return judge("identity-of-many", people, found is not None, nine=few, **numbers)


def rests_on(claim: Claim, many: Claim) -> Claim:
    """Return the row on identity, decided by many people where few cannot decide it."""
    undecided = claim.verdict == "cannot be checked" != many.verdict
    if claim.key != "identity-protected" or claim.data or not undecided:
        return claim
    changes = {"verdict": many.verdict, "condition": many.condition}
    reason = f"{claim.reason} So few people cannot tell; more can, and the verdict is theirs."
    return dataclasses.replace(claim, **changes, reason=reason)


def promised(means: Table | None) -> list[Claim]:
    """Return the row on what a promise costs with the fewest trials, at its middle delta."""
    if means is None:
        return []
    fewest = means[means["trials"] == means["trials"].min()].reset_index(drop=True)
    found = fewest.iloc[len(fewest) // 2]
    return [judge("ours-eeg-promise", found, needed=needed(means, found["delta"]))]
