"""Notebook 2: Algorithm 1 and its neighbours on one bench, as table and figure."""

from __future__ import annotations

from functools import cache

import numpy as np
from matplotlib.figure import Figure

from companion import house
from companion.budget.neighbours import bench_of, run, search, searched
from companion.budget.params import Params
from companion.data.mushrooms import Mushrooms
from companion.neighbours import figures, mechanisms, tables
from companion.neighbours.bench import Choice, chosen, deltas
from companion.neighbours.tables import Compared

LONG = 100_000  # iterations after which "tends to infinity" is looked at


def compared(params: Params, data: Mushrooms) -> Compared | None:
    """Return all mechanisms, searched, chosen and judged; None without targets."""
    if not params.neighbour_targets:
        return None
    tried = search(params, data)
    best, T = chosen(tried), params.neighbour_iterations
    last = run(params, data, best)
    effort = f"{params.neighbour_runs} runs of {T} iterations; {len(searched(params, 'spline'))}"
    effort += " candidates each, tuned on held-out training rows"
    bench = bench_of(params, data.sizes)

    @cache  # both measures mostly choose the same
    def judged(mechanism: str, choice: Choice, d_0: tuple) -> dict[str, float]:
        return deltas(bench, mechanism, choice, d_0, T)

    def known(one) -> dict[str, float]:
        return judged(one.mechanism, Choice(one.lam_0, one.nu, one.third), tuple(one.d_0))

    return Compared(effort, tried, tables.frontier(best, last, known), tables.references(last))


def frontier(bench: Compared | None, origin: str) -> Figure | None:
    """Return one panel a measure: error with its 95 % interval against the certified delta."""
    if bench is None:
        return None
    figure = figures.frontier(bench, "certified", "test mushrooms")
    return house.caption(figure, f"{origin} {bench.effort}; bars: 95 % of the mean. {figures.OPEN}")


def apart_for_ever(step: float, iterations: int = LONG) -> float:
    """Return the exact delta of ternary messages whose states differ alike in every iteration.

    In one world the state is zero: the other's level is seen to differ with probability `step`.
    """
    return float(mechanisms.coupled(np.full((iterations, 1), step))[0])
