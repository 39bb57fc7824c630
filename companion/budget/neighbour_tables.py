"""Notebook 2: Algorithm 1 and its neighbours on one bench, as table and figure."""

from __future__ import annotations

from functools import cache, partial

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion import house
from companion.budget.neighbours import bench_of, run, search
from companion.budget.params import Params
from companion.data.mushrooms import Mushrooms
from companion.neighbours import figures, mechanisms, tables
from companion.neighbours.bench import REFERENCES, Choice, chosen, deltas
from companion.neighbours.tables import Compared

LONG = 100_000  # iterations after which "tends to infinity" is looked at


def compared(params: Params, data: Mushrooms) -> Compared | None:
    """Return all mechanisms, searched, chosen and judged; None without targets."""
    if not params.neighbour_targets:
        return None
    tried = search(params, data)
    best, T = chosen(tried), params.neighbour_iterations
    last = run(params, data, best)
    each = (tried["mechanism"] == "clear").sum()
    effort = f"{params.neighbour_runs} runs of {T} iterations; {each} candidates each"
    effort += ", tuned on held-out training rows"
    judged = cache(partial(deltas, bench_of(params, data.sizes), T=T))  # measures mostly agree
    best = best[~best["mechanism"].isin(REFERENCES)].reset_index(drop=True)
    known = [judged(one.mechanism, Choice.of(one), tuple(one.d_0)) for one in best.itertuples()]
    found = tables.frontier(best.join(pd.DataFrame(known)), last)
    return Compared(effort, tried, found, tables.references(last))


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
