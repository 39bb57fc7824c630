"""Notebook 4: what the measurements say about Fig. 6 of the paper, row by row."""

from __future__ import annotations

import pandas as pd
from scipy import stats

from companion.claims import Claim

NOTEBOOK = "04_eeg_reidentification"
CLOSE = 0.03  # accuracies closer than three points are called close


def verdicts(
    difference: dict, per_subject: pd.DataFrame, classes: int, ablation: pd.DataFrame | None, weight: float, data: str
) -> list[Claim]:
    """Return the rows of Fig. 6. `data` names the recordings, `weight` is the network's; `ablation` may be absent."""
    return [_close(difference, per_subject, ablation, weight, data), _generalises(per_subject, classes, data)]


def _close(difference: dict, per_subject: pd.DataFrame, ablation: pd.DataFrame | None, weight: float, data: str) -> Claim:
    mean = per_subject.loc["mean"]
    known = difference["folds"] > 1
    inside = known and difference["low"] >= -CLOSE and difference["high"] <= CLOSE
    below = known and difference["high"] < -CLOSE
    failing = broken(ablation)
    shown = (
        f"{100 * mean['quantised']:.1f} % against {100 * mean['unquantised']:.1f} %, difference {100 * difference['mean']:+.1f}"
    )
    if known:
        shown += f" points [{100 * difference['low']:+.1f}, {100 * difference['high']:+.1f}], p = {difference['p']:.2g}"
    condition = ""
    if inside and failing:
        verdict, reason = "holds if", "The interval of the difference lies within three points."
        lost = ", ".join(failing)
        condition = f"what the paper leaves open is chosen well (more than {100 * CLOSE:g} points are lost with {lost})"
    elif inside:
        verdict, reason = "holds", f"The interval of the difference lies within three points, at network weights {weight:g}."
    elif below:
        verdict, reason = "does not hold", "Quantisation costs more than three points."
    else:
        verdict = "cannot be checked"
        reason = "The interval of the difference reaches beyond three points: so few people cannot tell."
    return Claim(
        key="figure-6",
        where="Fig. 6",
        words="Algorithm 1 with quantization converges to an accuracy close to the non-privacy version",
        paper="close",
        ours=shown,
        verdict=verdict,
        condition=condition,
        reason=f"{reason} Paired over {difference['folds']} left-out people (Student's t, sign-flip test); data: {data}.",
        notebook=NOTEBOOK,
        figure="fig6",
    )


def _generalises(per_subject: pd.DataFrame, classes: int, data: str) -> Claim:
    mean, people = per_subject.loc["mean"], per_subject.drop(index="mean")
    above = int((people["quantised"] > 1 / classes).sum())
    clear = stats.binomtest(above, len(people), alternative="greater").pvalue < 0.05
    central = f", {100 * mean['centralised']:.1f} % centralised" if "centralised" in people else ""
    return Claim(
        key="figure-6-generalises",
        where="Fig. 6",
        words="which validates the resilience to quantization error and good generalization",
        paper="not printed",
        ours=f"{100 * mean['quantised']:.1f} % on people left out (chance {100 / classes:.0f} %{central}); "
        f"{above} of {len(people)} above chance",
        verdict="holds if" if clear else "cannot be checked",
        condition="good means better than chance" if clear else "",
        reason=("Better than chance on people it has never seen" if clear else "Too few people are above chance to say")
        + f", with large differences between them; data: {data}.",
        notebook=NOTEBOOK,
        figure="fig6",
    )


def broken(ablation: pd.DataFrame | None) -> list[str]:
    """Return the settings of an ablation in which quantisation costs more than CLOSE."""
    if ablation is None or ablation.empty:
        return []
    wide = ablation.pivot_table(index="setting", columns="variant", values="accuracy", sort=False)
    lost = wide["quantised"] - wide["unquantised"] < -CLOSE
    return [setting for setting in wide.index[lost] if setting != "as chosen"]
