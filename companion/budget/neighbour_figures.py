"""Notebook 2: accuracy against delta for Algorithm 1 and its neighbours, shown as error."""

from __future__ import annotations

from matplotlib.figure import Figure

from companion import house
from companion.budget.neighbour_claims import Bench
from companion.budget.neighbours import searched
from companion.neighbours import figures


def frontier(bench: Bench | None, origin: str) -> Figure | None:
    """Return one panel a measure: error with its 95 % interval against the certified delta."""
    if bench is None:
        return None
    found = bench.found, bench.references
    figure = figures.frontier(*found, delta="certified", what="test mushrooms")
    number = len(searched(bench.params, "spline"))
    effort = f"{number} candidates each, tuned on held-out training rows"
    runs = f"{bench.params.neighbour_runs} runs of {bench.params.neighbour_iterations} iterations"
    house.caption(figure, f"{origin} {runs}; {effort}; bars: 95 % of the mean.")
    return figure
