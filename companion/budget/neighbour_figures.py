"""Notebook 2: accuracy against delta for Algorithm 1 and its neighbours, shown as error."""

from __future__ import annotations

from matplotlib.figure import Figure

from companion import house
from companion.neighbours import figures
from companion.neighbours.tables import Compared


def frontier(bench: Compared | None, origin: str) -> Figure | None:
    """Return one panel a measure: error with its 95 % interval against the certified delta."""
    if bench is None:
        return None
    figure = figures.frontier(bench, "certified", "test mushrooms")
    house.caption(figure, f"{origin} {bench.effort}; bars: 95 % of the mean. {figures.OPEN}")
    return figure
