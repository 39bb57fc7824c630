"""One function a figure, made from results alone; nothing is computed here. Each notebook's figures have their own file."""

from companion.figures.budget import arrivals, bits, bounds, fig3, frontier, one_message, sandwich, tail, trade, worst
from companion.figures.convergence import fig1, fig2, limits, quantiser, rates
from companion.figures.eeg import fig6
from companion.figures.eeg_attacks import factors, fig7, heads, reidentified, states_seen, straight
from companion.figures.house import explore, save, style
from companion.figures.mnist import ablation, fig4, gallery, network_budget
from companion.figures.mnist_attacks import fig5_curve, idlg_calibration, labels_read, reconstruction
from companion.figures.promise import ladder, promise

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
