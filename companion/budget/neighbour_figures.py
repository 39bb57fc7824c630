"""Notebook 2: accuracy against delta for Algorithm 1 and its neighbours, shown as error."""

from __future__ import annotations

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

from companion import house
from companion.budget.neighbour_claims import Bench
from companion.budget.neighbours import MECHANISMS, REFERENCES, candidates

TITLES = {"own": "Agents' own models", "listener": "A listener's model"}
STYLES = {  # colour and marker: Okabe and Ito's palette
    "spline": ("#CC79A7", "o"),
    "paper": ("#D55E00", "D"),
    "gaussian": ("#0072B2", "s"),
    "tracking": ("#009E73", "^"),
    "laplace": ("#E69F00", "v"),
    "ternary": ("#56B4E9", "P"),
}
TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
DASHES = {"clear": "--", "alone": ":"}


def frontier(bench: Bench | None, origin: str) -> Figure | None:
    """Return one panel a measure: error with its 95 % interval against the certified delta."""
    if bench is None:
        return None
    figure = Figure(figsize=(12.5, 4.8))
    panels = figure.subplots(1, len(TITLES), sharey=True)
    for axes, (measure, title) in zip(panels, TITLES.items(), strict=True):
        _panel(axes, bench.found[bench.found["measure"] == measure])
        _lines(axes, bench.references[bench.references["measure"] == measure])
        axes.set(title=title, xscale="log", xlabel="certified δ of all iterations")
        axes.set_xticks(targets := sorted(bench.found["target"].unique()), minor=False)
        axes.set_xlim(0.8 * targets[0], 1.25 * targets[-1])
        axes.xaxis.set_major_formatter(mpl.ticker.FormatStrFormatter("%g"))
        axes.minorticks_off()
    panels[0].set(ylabel="error on test mushrooms", yscale="log", yticks=TICKS)
    panels[0].yaxis.set_major_formatter(mpl.ticker.PercentFormatter(1.0, decimals=0))
    handles = panels[0].get_legend_handles_labels()
    panels[1].legend(*handles, fontsize="x-small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
    number = len(candidates(bench.params, "spline"))
    effort = f"{number} candidates each, tuned on held-out training rows"
    runs = f"{bench.params.neighbour_runs} runs of {bench.params.neighbour_iterations} iterations"
    house.caption(figure, f"{origin} {runs}; {effort}; bars: 95 % of the mean.")
    return figure


def _panel(axes, found: pd.DataFrame) -> None:
    for name in MECHANISMS:
        own = found[found["mechanism"] == name].sort_values("target")
        colour, marker = STYLES[name]
        around = [own["accuracy_high"] - own["accuracy"], own["accuracy"] - own["accuracy_low"]]
        label = f"{MECHANISMS[name]} ({own['bits'].mean():.0f} bits)"
        options = {"color": colour, "marker": marker, "capsize": 3, "label": label}
        axes.errorbar(own["certified"], 1.0 - own["accuracy"], yerr=around, **options)


def _lines(axes, references: pd.DataFrame) -> None:
    for one in references.itertuples():
        label = REFERENCES[one.mechanism]
        line = {"color": "#555555", "ls": DASHES[one.mechanism], "lw": 1, "label": label}
        axes.axhline(1.0 - one.accuracy, **line)
