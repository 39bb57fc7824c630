"""One function a figure, made from results alone; nothing is computed here. Each notebook's figures have their own file."""

from ldp_core.figures.budget import arrivals, bits, bounds, fig3, frontier, one_message, sandwich, tail, trade, worst
from ldp_core.figures.convergence import fig1, fig2, limits, quantiser, rates
from ldp_core.figures.eeg import fig6
from ldp_core.figures.eeg_attacks import factors, fig7, heads, reidentified, states_seen, straight
from ldp_core.figures.house import explore, save, style
from ldp_core.figures.mnist import ablation, fig4, gallery, network_budget
from ldp_core.figures.mnist_attacks import fig5_curve, idlg_calibration, labels_read, reconstruction
from ldp_core.figures.promise import ladder, promise

__all__ = [
    "ablation",
    "arrivals",
    "bits",
    "bounds",
    "explore",
    "factors",
    "fig1",
    "fig2",
    "fig3",
    "fig4",
    "fig5_curve",
    "fig6",
    "fig7",
    "frontier",
    "gallery",
    "heads",
    "idlg_calibration",
    "labels_read",
    "ladder",
    "limits",
    "network_budget",
    "one_message",
    "promise",
    "quantiser",
    "rates",
    "reconstruction",
    "reidentified",
    "sandwich",
    "save",
    "states_seen",
    "straight",
    "style",
    "tail",
    "trade",
    "worst",
]
