"""Notebook 2: what the neighbours' runs say, and the verdicts on the paper's words about them."""

from __future__ import annotations

import json
from typing import NamedTuple

import numpy as np
import pandas as pd

from companion.budget.neighbours import bench_of, run, search
from companion.budget.params import Params
from companion.budget.tables import ends
from companion.claims import Claim, Table, judge
from companion.data import mushrooms
from companion.neighbours import mechanisms
from companion.neighbours.bench import MEASURES, MECHANISMS, REFERENCES, Choice, chosen, deltas

LONG = 100_000  # iterations after which "tends to infinity" is looked at
STAYING = "two data sets keep an agent's states apart for ever"
FADING = "one sample is replaced, at delta ="


class Bench(NamedTuple):
    """All that the notebook shows: `params`, every candidate `tried`, and two tables."""

    params: Params
    tried: Table
    found: Table  # `frontier`
    references: Table

    def numbers(self) -> dict:
        """Return what is kept beside the figure; numbers that are not known are None."""
        tables = {"frontier": self.found, "references": self.references, "tried": self.tried}
        return {name: json.loads(table.to_json(orient="records")) for name, table in tables.items()}


def bench(params: Params, data: mushrooms.Mushrooms) -> Bench | None:
    """Return all mechanisms, searched, chosen and judged; None without targets."""
    if not params.neighbour_targets:
        return None
    tried = search(params, data)
    best = chosen(tried)
    accuracies = run(params, data, best)
    found = frontier(params, data, best, accuracies)
    return Bench(params, tried, found, references(params, accuracies))


def frontier(params: Params, table: mushrooms.Mushrooms, best: Table, accuracies: Table) -> Table:
    """Return one row a measure, mechanism and target: accuracy with a 95 % interval, delta, bits.

    `lost` is accuracy against the reference in the clear, paired over runs; intervals are
    Student's. `bits` are those of all that stands for one coordinate in one iteration. For
    `certified`, `for_ever`, `pure` and `attained` see `deltas`.
    """
    last = accuracies[accuracies["t"] == params.neighbour_iterations]
    keys = ["measure", "mechanism", "target"]
    wide = last.pivot(index="run", columns=keys, values="accuracy")
    bits, found = last.groupby(keys)["bits"].mean(), []
    for one in best[~best["mechanism"].isin(REFERENCES)].itertuples():
        key = (one.measure, one.mechanism, one.target)
        clear = wide[one.measure, "clear", 0.0]
        record = {"name": MECHANISMS[one.mechanism], **dict(zip(keys, key, strict=True))}
        record |= ends("accuracy", wide[key]) | ends("lost", clear - wide[key])
        record |= {"bits": bits[key], "lam_0": one.lam_0, "nu": one.nu, "third": one.third}
        choice, known = Choice(one.lam_0, one.nu, one.third), bench_of(params, table.sizes)
        record |= deltas(known, one.mechanism, choice, one.d_0, params.neighbour_iterations)
        found.append(record | {"runs": len(wide)})
    return pd.DataFrame(found)


def references(params: Params, accuracies: Table) -> Table:
    """Return accuracy of what hides nothing and of what sends nothing, with 95 % intervals."""
    last = accuracies[(accuracies["t"] == params.neighbour_iterations)]
    parts = last[last["mechanism"].isin(REFERENCES)].groupby(["measure", "mechanism"])["accuracy"]
    rows = [{"measure": m, "mechanism": k, **ends("accuracy", own)} for (m, k), own in parts]
    found = pd.DataFrame(rows).assign(name=lambda part: part["mechanism"].map(REFERENCES))
    return found[(found["mechanism"] != "alone") | (found["measure"] == "own")]


def verdicts(params: Params, found: Table) -> list[Claim]:
    """Return the rows on the paper's words about its neighbours; words and rules: claims.yaml."""
    own = found[found["measure"] == MEASURES[0]].set_index(["mechanism", "target"], drop=False)
    return [_degenerates(params, own), _stronger(own), _tradeoff(own), _overhead(own)]


def apart_for_ever(step: float, iterations: int = LONG) -> float:
    """Return the exact delta of ternary messages whose states differ alike in every iteration.

    In one world the state is zero: the other's level is seen to differ with probability `step`.
    """
    return float(mechanisms.coupled(np.full((iterations, 1), step))[0])


def _degenerates(params: Params, own: Table) -> Claim:
    ternary, T = own.loc["ternary"], params.neighbour_iterations
    step = float(ternary["target"].min())
    apart = apart_for_ever(step)
    faded = ternary.assign(delta_low=ternary["attained"], delta_high=ternary["for_ever"])
    faded["case"] = [f"{FADING} {target:g} over {T} iterations" for target in faded["target"]]
    cases = [{"case": STAYING, "delta_low": apart, "delta_high": 1.0}, *faded.to_dict("records")]
    numbers = {"step": step, "long": LONG, "apart": apart, "iterations": T}
    return judge("ternary-degenerates", cases, faded=faded, **numbers)


def _stronger(own: Table) -> Claim:
    step = float(own["target"].min())
    row, apart = own.loc["paper", step], apart_for_ever(step)
    case = {"implied": row["one_iteration"] / row["for_ever"], "composed": apart / step}
    return judge("stronger-than-per-iteration", case, row=row, step=step, apart=apart, long=LONG)


def _tradeoff(own: Table) -> Claim:
    papers, smallest = own["mechanism"] == "paper", own["target"].min()
    others = own[~papers & (own["target"] == smallest)]
    return judge("no-tradeoff", own[papers], others=others, smallest=smallest)


def _overhead(own: Table) -> Claim:
    noises = ("gaussian", "tracking", "laplace")
    cases = [_against(own, ours, other) for ours in ("paper", "spline") for other in noises]
    bits = own.groupby("name", sort=False)["bits"].mean().reset_index()
    return judge("less-overhead", cases, each=bits)


def _against(own: Table, ours: str, other: str) -> dict:
    """Return the largest ratio of bits, and of being behind in accuracy, over all targets.

    The ends of a difference are those of two intervals of 95 %: wider than need be.
    """
    one, two = own.loc[ours], own.loc[other]
    behind = two["accuracy_low"] - one["accuracy_high"], two["accuracy_high"] - one["accuracy_low"]
    named = {"name": MECHANISMS[ours], "other": MECHANISMS[other]}
    ends = {"behind_low": behind[0].max(), "behind_high": behind[1].max()}
    return named | ends | {"ratio": (one["bits"] / two["bits"]).max()}
