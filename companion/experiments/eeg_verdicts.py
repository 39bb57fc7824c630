"""Notebook 4: the numbers behind the verdicts on Fig. 6; words and rules: claims.yaml."""

from __future__ import annotations

from companion.claims import BROKEN, Claim, Table, fill, judge
from companion.intervals import exact_ends


def verdicts(
    difference: dict,
    per_subject: Table,
    classes: int,
    ablation: Table | None,
    weight: float,
    data: str,
) -> list[Claim]:
    """Return the rows of Fig. 6; `data` names the recordings, `weight` is the network's."""
    mean, people = 100 * per_subject.loc["mean"], per_subject.drop(index="mean")
    above = int((people["quantised"] > 1 / classes).sum())
    low, high = exact_ends(above, len(people))
    central = f", {mean['centralised']:.1f} % centralised" if "centralised" in people else ""
    numbers = {"above": above, "people": len(people), "chance": 100 / classes, "central": central}
    close = {**learned(difference), "weight": weight, "folds": difference["folds"]}
    return [
        judge("figure-6", close, exceptions=broken(ablation), mean=mean, data=data),
        judge("figure-6-generalises", {"low": low, "high": high}, mean=mean, data=data, **numbers),
    ]


def learned(difference: dict) -> dict:
    """Return a difference of accuracies over people and its words; of one there is no interval."""
    if difference["folds"] < 2:
        words = fill("{mean:+.1p} points (one person, so no interval)", difference)
        return {"difference_low": None, "difference_high": None, "points": words}
    words = fill("{mean:+.1p} points [{low:+.1p}, {high:+.1p}]", difference)
    words += fill(", p = {p:.2g}", difference) if "p" in difference else ""
    low, high = difference["low"], difference["high"]
    return {"difference_low": low, "difference_high": high, "points": words}


def broken(ablation: Table | None) -> list[str]:
    """Return the settings of an ablation in which quantisation costs more than BROKEN."""
    if ablation is None or ablation.empty:
        return []
    wide = ablation.pivot_table(index="setting", columns="variant", values="accuracy", sort=False)
    lost = wide["quantised"] - wide["unquantised"] < -BROKEN
    return [setting for setting in wide.index[lost] if setting != "as chosen"]
