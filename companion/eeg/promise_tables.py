"""Notebook 4: what a promise for EEG costs, and what is promised, in one file."""

from __future__ import annotations

import numpy as np
import pandas as pd

from companion import promises
from companion.data.eeg import Recordings
from companion.eeg import promise
from companion.eeg.params import Params
from companion.intervals import student
from companion.params import AGENTS

CLOSE = 0.01  # of accuracy: within a point of the learner without one, a promise costs nothing


def promised(table: pd.DataFrame | None) -> pd.DataFrame | None:
    """Return means over people by trials and delta, and what a promise costs, with its interval.

    `difference` is that from the learner without a promise; intervals are Student's over people.
    """
    if table is None:
        return None
    table = table.assign(difference=table["promise"] - table["unprotected"])
    grouped = table.groupby(["trials", "delta"], sort=True)
    shown, people = grouped.mean().drop(columns="subject"), grouped["subject"].count()
    for name in ("promise", "difference"):
        half = student(grouped[name].std(ddof=1), people)
        shown[f"{name}_low"], shown[f"{name}_high"] = shown[name] - half, shown[name] + half
    return shown.assign(people=people).reset_index()


def needed(means: pd.DataFrame, delta: float) -> str:
    """Return how many trials bring a promise CLOSE to the learner without one, in words."""
    own = means[means["delta"] == delta]
    enough = own[own["difference"] >= -CLOSE]["trials"]
    return f"{enough.min():,}" if len(enough) else f"more than {own['trials'].max():,}"


def trials_of_an_agent(params: Params, data: Recordings) -> int:
    """Return how many trials an agent holds, on average over agents and left-out people."""
    everybody = sum(len(subject) for subject in data.subjects)
    return round(everybody * (1 - params.chance) / AGENTS)


def record(params: Params, data: Recordings, means: pd.DataFrame | None, output: str) -> None:
    """Keep each promised delta, with no more trials than an agent has, or the fewest tried.

    What more of them would buy is a question of the notebook, not a promise to anybody.
    """
    there = trials_of_an_agent(params, data)
    for _, own in [] if means is None else means.sort_values("trials").groupby("delta"):
        few = own[own["trials"] <= there]
        row = few.iloc[-1] if len(few) else own.iloc[0]
        promises.record(output, entry(params, data, row))


def entry(params: Params, data: Recordings, row: pd.Series) -> promises.Promise:
    """Return what is promised at one delta and number of trials."""
    trials, delta, iterations = int(row["trials"]), row["delta"], params.promise_iterations
    there = trials_of_an_agent(params, data)
    plan = promise.planned(delta, trials, iterations, promise.dim_of(data))
    chosen = {name: getattr(plan.schedules, name) for name in ("lam_0", "nu")}
    chosen |= {"d_0": list(plan.schedules.d_0), "varsigma": plan.schedules.varsigma[0]}
    chosen |= {"clip": promise.CLIP, "degree": plan.terms.degree}
    ends = np.clip(row[["promise", "promise_low", "promise_high"]].astype(float), 0, 1)
    return promises.Promise(
        name=f"EEG, {delta:g} for ever",
        data=data.provenance.name,
        model="softmax on log-covariances",
        parameters=chosen | {"trials": plan.terms.warm_up + 1},
        unit=f"one of {trials} arrivals of the {there} trials of one agent",
        delta=float(row["certified"]),
        horizon=promises.FOR_EVER,
        T=iterations,
        accuracy=tuple(ends.tolist()),
        runs=int(row["people"]),
        twin=float(row["twin"]),
        best_unprotected=float(row["unprotected"]),
        certified_by="ldp_core.accountant.promise",
        guessing=1 / len(data.classes),
    )
