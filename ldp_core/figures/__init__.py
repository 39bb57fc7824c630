"""One function a figure, made from results alone; nothing is computed here. Each notebook's figures have their own file."""

from ldp_core.figures.budget import arrivals, bits, bounds, fig3, frontier, one_message, sandwich, tail, trade, worst
from ldp_core.figures.convergence import fig1, fig2, limits, quantiser, rates
from ldp_core.figures.house import explore, save, style
from ldp_core.figures.promise import ladder, promise

__all__ = [
    "arrivals",
    "bits",
    "bounds",
    "explore",
    "fig1",
    "fig2",
    "fig3",
    "frontier",
    "ladder",
    "limits",
    "one_message",
    "promise",
    "quantiser",
    "rates",
    "sandwich",
    "save",
    "style",
    "tail",
    "trade",
    "worst",
]
