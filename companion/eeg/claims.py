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
    texts: Numbers = {"mean": mean, "data": data, "central": central, "weight": weight}
    texts |= {"above": above, "people": len(people), "chance": 100 / learnt.classes}
    close, lost = tables.learned(learnt.difference), tables.broken(settings)
    return [
        judge("figure-6", close, exceptions=lost, **texts),
        judge("figure-6-generalises", {"low": low, "high": high}, **texts),
    ]


def attacks(
    summary: Table, seen: Table, rates: Table, straight: Table, chance: float, classes: int
) -> list[Claim]:
    """Return the rows on Fig. 7 and on re-identification.

    `summary` and `seen` are `tables.attacked` of all attacks and of those by number of states;
    `chance` is one in the number of people.
    """
    clear, own = (pick(summary, defence=name) for name in ("D-PSGD", "quantised"))
    found = {"best_low": best(clear)["correlation_low"], "best_high": math.inf}
    starts, people = tables.strongest(summary, seen), tables.by_defence(rates, straight, chance)
    before, texts = tables.before_and_after(rates), _named(summary, rates)
    return [
        judge("fig7-clear", found, attackers=clear),
        judge("fig7-quantised", starts, _calibrated(summary), attackers=own),
        _labels(summary, 1 / classes),
        judge("reidentification-rates", before if texts["known"] else [], **texts, chance=chance),
        judge("identity-protected", people, **_luck(chance), least=people["least"].max()),
        _margin(summary),
    ]


def _luck(chance: float) -> Numbers:
    return {"chance": chance, "twice": 2 * chance}


def _calibrated(summary: Table) -> bool:
    """Return whether the attack works undefended: only then does its failure mean something."""
    return bool(pick(summary, defence="D-PSGD")["correlation"].max() >= RESTORED)


def _labels(summary: Table, chance: float) -> Claim:
    found = pd.concat([pick(summary, defence=name) for name in tables.STARTS])
    found = told(found.assign(hits=(found["label"] * found["trials"]).round()))
    return judge("eeg-labels", found, **_luck(chance), looks=len(found))


def _named(summary: Table, rates: Table) -> Numbers:
    """Return who is named best in the clear and under Algorithm 1, and whether it says much."""
    clear, ours = (best(pick(rates, defence=name)) for name in ("D-PSGD", "quantised"))
    calibrated = _calibrated(summary)
    known = calibrated and bool(clear["trials"] >= FEWEST)
    return {"clear": clear, "ours": ours, "known": known, "missing": FEW if calibrated else WEAK}


def _margin(summary: Table) -> Claim:
    rows = pick(summary, defence="quantised", attacker="many models", factor=None)
    rows = rows.sort_values("factor")
    tenth = (rows[rows["factor"] < 1.0] if (rows["factor"] < 1.0).any() else rows).iloc[-1]
    one = pick(summary, defence="D-PSGD", attacker="one round")["correlation"].iloc[0]
    return judge("ours-eeg-margin", tenth, _calibrated(summary), steps=rows, one=one)


def remembered(
    spent: Table, members: Table, rates: Table, sessions: Table, chance: float
) -> list[Claim]:
    """Return the rows on the accountant's count, on what the model remembers, and on alignment."""
    largest = spent.loc[spent.groupby("k")["exact"].idxmax()]
    count, iterations = excess(spent["lower"].max()), spent["iterations"].iloc[0]
    raw = tables.kinds(rates[rates["defence"] == "raw"], "aligned")
    whole = tables.kinds(sessions, "recentred").assign(classifier="whole sessions, covariances")
    aligned, trials = told(raw[raw["aligned"]]), pd.concat([raw, whole])
    luck = _luck(chance)
    return [
        judge("eeg-delta", count, counted=largest, iterations=iterations),
        judge("ours-eeg-members", told(members), **luck),
        judge("ours-eeg-alignment", aligned, looks=len(aligned), trials=trials, **luck),
    ]


def elsewhere(difference: dict, summary: Table, rates: Table, data: str) -> list[Claim]:
    """Return the row on a second data set: whether all goes there as in the first."""
    clear, zero, *hidden = (pick(summary, defence=name) for name in ("D-PSGD", *tables.STARTS))
    most = {"D-PSGD": clear["correlation"].max(), "quantised": zero["correlation"].max()}
    texts, off_grid = _named(summary, rates), best(pd.concat(hidden, ignore_index=True))
    named = {**texts["clear"].add_prefix("clear_"), **texts["ours"].add_prefix("ours_")}
    found = {**off_grid, **tables.learned(difference), **named}
    return [judge("ours-eeg-elsewhere", found, **texts, most=most, data=data)]


def crowd(found: tuple[Table, Table] | None, params: Params) -> Claim:
    """Return the row on the identity of many people, from `rates` and `straight` of them."""
    chance, nine = 1 / params.crowd, len(params.subjects)
    people = [] if found is None else tables.by_defence(*found, chance)
    chances = {"few": params.chance, "many": chance}
    told = {
        name: tables.trials_to_tell(tables.PAPER_RATES[1], own) for name, own in chances.items()
    }
    numbers = {**told, "people": params.crowd, "nine": nine}
    return judge("identity-of-many", people, found is not None, **_luck(chance), **numbers)


def rests_on(claim: Claim, many: Claim) -> Claim:
    """Return the row on identity, decided by many people where few cannot decide it."""
    undecided = claim.verdict == "cannot be checked" != many.verdict
    if claim.key != "identity-protected" or claim.data or not undecided:
        return claim
    why = f"{claim.reason} So few people cannot tell; more can, and the verdict is theirs."
    return dataclasses.replace(claim, verdict=many.verdict, condition=many.condition, reason=why)


def promised(means: Table | None) -> list[Claim]:
    """Return the row on what a promise costs with the fewest trials, at its middle delta."""
    if means is None:
        return []
    fewest = means[means["trials"] == means["trials"].min()].reset_index(drop=True)
    found = fewest.iloc[len(fewest) // 2]
    return [judge("ours-eeg-promise", found, needed=needed(means, found["delta"]))]
