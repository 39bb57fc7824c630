"""Figures of notebook 4's learning: Fig. 6, what EEGNet looks at, and what was left open."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion import house
from companion.eeg.attack_figures import factors, fig7, heads, reidentified, states_seen, straight  # noqa: F401
from companion.house import COLOURS, explore, save, style  # noqa: F401 (a notebook's figures and their dress)

GREY = "#777777"


def fig6(
    summary: pd.DataFrame,
    per_subject: pd.DataFrame,
    difference: dict,
    diverged: pd.DataFrame,
    classes: int,
    caption: str,
) -> Figure:
    """Return Fig. 6: accuracy on the person left out, over time (mean over folds, seeds and agents) and person by person.

    `summary` as `experiments.eeg.summary` makes it, `per_subject` with rows of subjects and "mean" and columns quantised,
    unquantised and perhaps centralised, `difference` with mean, low, high, p, folds, `diverged` with variant and iteration.
    """
    figure = Figure(figsize=(11, 5.2))
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    _over_time(left, summary, diverged, classes)
    _by_subject(right, per_subject, difference, classes)
    handles = {label: handle for axes in (left, right) for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", fontsize="small", ncols=3)
    house.caption(figure, caption)
    return figure


def ablation(table: pd.DataFrame, classes: int, caption: str) -> Figure:
    """Return final accuracies of all settings, with and without quantisation; `table` has setting, variant, accuracy,
    standard_error, diverged."""
    figure = Figure(figsize=(9, 0.42 * table["setting"].nunique() + 2.2))
    axes = figure.subplots()
    places = {setting: -place for place, setting in enumerate(dict.fromkeys(table["setting"]))}
    for shift, (variant, part) in zip((0.12, -0.12), table.groupby("variant", sort=True), strict=True):
        y = part["setting"].map(places) + shift
        axes.errorbar(
            part["accuracy"], y, xerr=part["standard_error"].fillna(0), fmt="o", ms=5, capsize=2, color=COLOURS[variant],
            label=f"{variant} (bar: standard error over folds)",
        )  # fmt: skip
        lost = part[part["diverged"] > 0]
        axes.plot(lost["accuracy"], y[lost.index], "x", ms=10, mew=2, color="black")
    if (table["diverged"] > 0).any():
        axes.plot([], [], "x", ms=8, mew=2, color="black", label="some runs diverged (counted as chance)")
    _chance(axes.axvline, classes)
    axes.set(yticks=list(places.values()), yticklabels=list(places), xlabel="final accuracy on the person left out")
    axes.set_title("What the paper leaves open, at its own ratio d₀ / λ₀", fontsize="medium")
    axes.xaxis.set_major_formatter(mpl.ticker.PercentFormatter(1.0, decimals=0))
    figure.legend(loc="outside upper center", fontsize="small", ncols=2)
    house.caption(figure, caption)
    return figure


def _over_time(axes, summary: pd.DataFrame, diverged: pd.DataFrame, classes: int) -> None:
    for variant, curve in summary.groupby("variant", sort=True):
        colour, last = COLOURS[variant], curve.iloc[-1]
        runs = f"{last['subjects']:.0f} folds × {last['seeds']:.0f} seed{'s' if last['seeds'] > 1 else ''} × 5 agents"
        axes.plot(curve["t"], curve["mean"], color=colour, label=f"{variant}: mean of {runs}")
        axes.fill_between(
            curve["t"],
            curve["low"],
            curve["high"],
            color=colour,
            alpha=0.13,
            lw=0,
            label=f"{variant}: 5 % to 95 % of folds and seeds",
        )
        error = curve["over_subjects"] / np.sqrt(curve["subjects"])
        axes.errorbar(curve["t"], curve["mean"], yerr=error, fmt="none", ecolor=colour, elinewidth=0.9, capsize=2)
        lost = diverged[diverged["variant"] == variant]
        if len(lost):
            at = np.interp(lost["iteration"], curve["t"], curve["mean"])
            axes.plot(lost["iteration"], at, "x", color=colour, ms=10, mew=2.5, label=f"{variant}: {len(lost)} diverged here")
    axes.plot([], [], color=GREY, marker="_", ls="none", label="error bars: standard error over folds")
    _chance(axes.axhline, classes)
    axes.set(xlabel="iteration t", ylabel="accuracy on the person left out", title="EEGNet trained by Algorithm 1")
    axes.yaxis.set_major_locator(mpl.ticker.MultipleLocator(0.05))
    axes.yaxis.set_major_formatter(mpl.ticker.PercentFormatter(1.0, decimals=0))


def _by_subject(axes, per_subject: pd.DataFrame, difference: dict, classes: int) -> None:
    places = np.arange(len(per_subject))
    shown = {"unquantised": "o", "quantised": "o"} | ({"centralised": "_"} if "centralised" in per_subject else {})
    axes.vlines(places, per_subject["unquantised"], per_subject["quantised"], color=GREY, lw=1)
    for name, marker in shown.items():
        label = {"centralised": "centralised, Adam"}.get(name, f"{name}, final")
        axes.plot(places, per_subject[name], marker, ms=6 if marker == "o" else 13, mew=1.8, ls="none",
                  color=COLOURS.get(name, "black"), label=label)  # fmt: skip
    _chance(axes.axhline, classes)
    axes.axvline(len(places) - 1.5, color=GREY, lw=0.6)
    axes.set(
        xticks=places,
        xticklabels=["all" if name == "mean" else str(name) for name in per_subject.index],
        xlabel="person left out",
    )
    interval = "" if np.isnan(difference["low"]) else f" [{100 * difference['low']:+.1f}, {100 * difference['high']:+.1f}]"
    axes.set_title(f"Quantised − unquantised: {100 * difference['mean']:+.1f} points{interval}", fontsize="small")
    axes.yaxis.set_major_locator(mpl.ticker.MultipleLocator(0.05))
    axes.yaxis.set_major_formatter(mpl.ticker.PercentFormatter(1.0, decimals=0))


def _chance(line, classes: int) -> None:
    line(1 / classes, color=GREY, ls=":", lw=1.2, label="chance")
