"""Notebook 4: the numbers behind the verdicts on Fig. 6; words and rules: claims.yaml."""

from __future__ import annotations

from companion.claims import Claim, Numbers, Table, judge
from companion.eeg.tables import broken, learned
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
    numbers: Numbers = {
        "above": above,
        "people": len(people),
        "chance": 100 / classes,
        "central": central,
    }
    close = {**learned(difference), "weight": weight, "folds": difference["folds"]}
    return [
        judge("figure-6", close, exceptions=broken(ablation), mean=mean, data=data),
        judge("figure-6-generalises", {"low": low, "high": high}, mean=mean, data=data, **numbers),
    ]
