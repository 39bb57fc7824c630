"""Notebook 2: what the neighbours' runs say, and the verdicts on the paper's words about them."""

from __future__ import annotations

import numpy as np

from companion.budget.neighbours import bench_of, run, search, searched
from companion.budget.params import Params
from companion.claims import Claim, Table, judge
from companion.data import mushrooms
from companion.neighbours import mechanisms
from companion.neighbours.bench import MEASURES, MECHANISMS, Choice, chosen, deltas
from companion.neighbours.tables import Compared, frontier, references

LONG = 100_000  # iterations after which "tends to infinity" is looked at
STAYING = "two data sets keep an agent's states apart for ever"
FADING = "one sample is replaced, at delta ="


def bench(params: Params, data: mushrooms.Mushrooms) -> Compared | None:
    """Return all mechanisms, searched, chosen and judged; None without targets."""
    if not params.neighbour_targets:
        return None
    tried = search(params, data)
    best, T = chosen(tried), params.neighbour_iterations
    accuracies = run(params, data, best)
    last = accuracies[accuracies["t"] == T]
    effort = f"{params.neighbour_runs} runs of {T} iterations; {len(searched(params, 'spline'))}"
    effort += " candidates each, tuned on held-out training rows"
    found = frontier(best, last, lambda one: known(params, data.sizes, one))
    return Compared(effort, tried, found, references(last))


def known(params: Params, sizes: tuple[int, ...], one) -> dict[str, float]:
    """Return what is known of the delta of what was chosen."""
    choice, T = Choice(one.lam_0, one.nu, one.third), params.neighbour_iterations
    return deltas(bench_of(params, sizes), one.mechanism, choice, one.d_0, T)


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
