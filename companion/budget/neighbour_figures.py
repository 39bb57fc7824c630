"""Notebook 2: accuracy against delta for Algorithm 1 and its neighbours."""

from __future__ import annotations

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

from companion import house
from companion.budget.neighbours import MECHANISMS, REFERENCES

TITLES = {"own": "Agents' own models", "listener": "A listener's model"}
STYLES = {  # colour and marker: Okabe and Ito's palette
    "spline": ("#CC79A7", "o"),
    "paper": ("#D55E00", "D"),
    "gaussian": ("#0072B2", "s"),
    "tracking": ("#009E73", "^"),
    "laplace": ("#E69F00", "v"),
    "ternary": ("#56B4E9", "P"),
}
DASHES = {"clear": "--", "alone": ":"}


def caption(bench, source: str) -> str:
    """Return the line below the figure: how many runs, how they were tuned, on which data."""
    params, runs = bench.params, int(bench.found["runs"].iloc[0])
    size = len(params.candidates("spline"))
    effort = f"{size} candidates each, tuned on held-out training rows"
    return f"{runs} runs of {params.neighbour_iterations} iterations; {effort}; {source}"


def frontier(found: pd.DataFrame, references: pd.DataFrame, caption: str) -> Figure:
    """Return one panel a measure: accuracy with its 95 % interval against the certified delta.

    `found` is the table of `neighbour_claims.frontier`, `references` that of its `references`.
    """
    figure = Figure(figsize=(11.0, 4.8))
    panels = figure.subplots(1, len(TITLES), sharey=True)
    for axes, (measure, title) in zip(panels, TITLES.items(), strict=True):
        _panel(axes, found[found["measure"] == measure])
        _lines(axes, references[references["measure"] == measure])
        axes.set(title=title, xscale="log", xlabel="certified δ of all iterations")
        axes.set_xticks(sorted(found["target"].unique()), minor=False)
        axes.xaxis.set_major_formatter(mpl.ticker.FormatStrFormatter("%g"))
        axes.minorticks_off()
    panels[0].set(ylabel="accuracy on test mushrooms")
    panels[0].yaxis.set_major_formatter(mpl.ticker.PercentFormatter(1.0, decimals=0))
    panels[0].legend(fontsize="x-small", loc="best")
    house.caption(figure, caption)
    return figure


def _panel(axes, found: pd.DataFrame) -> None:
    for name in MECHANISMS:
        own = found[found["mechanism"] == name].sort_values("target")
        colour, marker = STYLES[name]
        around = [own["accuracy"] - own["accuracy_low"], own["accuracy_high"] - own["accuracy"]]
        label = f"{MECHANISMS[name]} ({own['bits'].mean():.0f} bits)"
        options = {"color": colour, "marker": marker, "capsize": 3, "label": label}
        axes.errorbar(own["certified"], own["accuracy"], yerr=around, **options)


def _lines(axes, references: pd.DataFrame) -> None:
    for one in references.itertuples():
        label = REFERENCES[one.mechanism]
        axes.axhline(one.accuracy, color="#555555", ls=DASHES[one.mechanism], lw=1, label=label)


def bits(found: pd.DataFrame) -> pd.DataFrame:
    """Return bits that stand for a coordinate of the model in one iteration, by name and target."""
    own = found[found["measure"] == "own"]
    return own.pivot(index="name", columns="target", values="bits").loc[own["name"].unique()]
