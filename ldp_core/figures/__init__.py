"""One function a figure, made from results alone; nothing is computed here. Each notebook's figures have their own file."""

from ldp_core.figures.convergence import fig1, fig2, limits, quantiser, rates
from ldp_core.figures.house import explore, save, style

__all__ = ["explore", "fig1", "fig2", "limits", "quantiser", "rates", "save", "style"]
