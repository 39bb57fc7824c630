"""Accuracy against delta for Algorithm 1 and its neighbours, shown as error."""

from __future__ import annotations

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

from companion.neighbours.bench import MECHANISMS, REFERENCES
from companion.neighbours.tables import Compared

TITLES = {"own": "Agents' own models", "listener": "A listener's model"}
DELTAS = {"certified": "certified δ of all iterations", "for_ever": "certified δ for all time"}
STYLES = {  # colour and marker: Okabe and Ito's palette
    "spline": ("#CC79A7", "o"),
    "paper": ("#D55E00", "D"),
    "gaussian": ("#0072B2", "s"),
    "tracking": ("#009E73", "^"),
    "laplace": ("#E69F00", "v"),
    "ternary": ("#56B4E9", "P"),
}
REACHED = "δ that one pair of samples reaches"
OPEN = "Open points: no δ below them is true, as one pair of samples shows."
TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
DASHES = {"clear": "--", "alone": ":"}


def frontier(compared: Compared, delta: str, what: str) -> Figure:
    """Return one panel a measure: error on `what` with its 95 % interval against a column `delta`.

    To the left of each point an open one, at the delta that one pair of samples reaches: between
    the two lies the truth. References are drawn as lines.
    """
    _, _, found, references = compared
    figure = Figure(figsize=(12.5, 4.8))
    panels = figure.subplots(1, len(TITLES), sharey=True)
    for axes, (measure, title) in zip(panels, TITLES.items(), strict=True):
        _panel(axes, found[found["measure"] == measure], delta)
        for one in references[references["measure"] == measure].itertuples():
            line = {"ls": DASHES[one.mechanism], "label": REFERENCES[one.mechanism], "lw": 1}
            axes.axhline(1.0 - one.accuracy, color="#555555", **line)
        axes.set(title=title, xscale="log", xlabel=DELTAS[delta])
        least, targets = 0.8 * found["attained"].min(), sorted(found["target"].unique())
        axes.set_xticks([x for x in TICKS if least < x < targets[0]] + targets, minor=False)
        axes.set_xlim(least, 1.25 * targets[-1])
        axes.xaxis.set_major_formatter(mpl.ticker.FormatStrFormatter("%g"))
        axes.minorticks_off()
    panels[0].set(ylabel=f"error on {what}", yscale="log", yticks=TICKS)
    panels[0].yaxis.set_major_formatter(mpl.ticker.PercentFormatter(1.0, decimals=0))
    panels[0].yaxis.set_minor_formatter(mpl.ticker.NullFormatter())
    handles = panels[0].get_legend_handles_labels()
    panels[1].legend(*handles, fontsize="x-small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def _panel(axes, found: pd.DataFrame, delta: str) -> None:
    """Draw what is certified, and an open point at what one pair reaches, joined to it."""
    for name in MECHANISMS:
        own = found[found["mechanism"] == name].sort_values("target")
        colour, marker = STYLES[name]
        around = [own["accuracy_high"] - own["accuracy"], own["accuracy"] - own["accuracy_low"]]
        label = f"{MECHANISMS[name]} ({own['bits'].mean():.0f} bits)"
        options = {"color": colour, "marker": marker, "capsize": 3, "label": label}
        error, left = 1.0 - own["accuracy"], own["attained"]
        axes.errorbar(own[delta], error, yerr=around, **options)
        axes.hlines(error, left, own[delta], color=colour, lw=0.7)
        axes.plot(left, error, color=colour, marker=marker, ls="", mfc="white", ms=4, mew=0.8)
    axes.plot([], [], label=REACHED, marker="o", mfc="none", mec="#555555", color="#555555", lw=0.7)
