"""Figures of notebook 4's learning: the heads, Fig. 6, and what was left open."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.eeg.tables import Learnt
from companion.house import (  # noqa: F401
    COLOURS,
    PERCENT,
    bars,
    caption,
    explore,
    panels,
    save,
    style,
)
from companion.house import source as source_of  # noqa: F401

GREY = "#777777"
SHADES = ("#7A0177", "#C51B8A", "#F768A1", "#FBB4B9")  # of promises, the strictest darkest


def heads(
    power: np.ndarray, subjects: Sequence[int], ch_names: Sequence[str], source: str
) -> Figure:
    """Return maps of the head, one a person: where its power [subjects, channels] lies, log10."""
    import mne

    info = mne.create_info(list(ch_names), 100.0, "eeg")
    info.set_montage("colin27_1020", match_case=False)
    size = (1.15 * len(subjects) + 1.2, 2.4)
    figure, (every,) = panels(size, 1, len(subjects), squeeze=False)
    limit = float(np.abs(power).max())
    looks = {"vlim": (-limit, limit), "cmap": "RdBu_r", "show": False}
    for axes, person, values in zip(every, subjects, power, strict=True):
        image, _ = mne.viz.plot_topomap(values, info, axes=axes, **looks)
        axes.set_title(f"{person}", fontsize="small", loc="center")
    bar = figure.colorbar(image, ax=list(every), shrink=0.75)
    bar.set_label("log₁₀ power", fontsize="small")
    return caption(figure, source)


def fig6(learnt: Learnt, source: str, weight: float) -> Figure:
    """Return Fig. 6: accuracy on the person left out, over time, and person by person."""
    figure, (left, right) = panels((11, 5.2), 1, 2, width_ratios=(3, 2))
    _over_time(left, learnt)
    _by_subject(right, learnt)
    handles = {}
    for axes in (left, right):
        lines, labels = axes.get_legend_handles_labels()
        handles |= dict(zip(labels, lines, strict=True))
        axes.yaxis.set_major_locator(mpl.ticker.MultipleLocator(0.05))
        axes.yaxis.set_major_formatter(PERCENT)
    looks = {"loc": "outside upper center", "fontsize": "small", "ncols": 3}
    figure.legend(handles.values(), handles.keys(), **looks)
    return caption(figure, f"{source} Network weights {weight:g}, {learnt.classes} classes.")


def left_open(
    settings: pd.DataFrame | None, classes: int, source: str, iterations: int
) -> Figure | None:
    """Return final accuracies of all settings, with and without quantisation, if there are any."""
    if settings is None:
        return None
    figure, axes = panels((9, 0.42 * settings["setting"].nunique() + 2.2))
    places = {setting: -place for place, setting in enumerate(settings["setting"].unique())}
    grouped = settings.groupby("variant", sort=True)
    for shift, (variant, part) in zip((0.12, -0.12), grouped, strict=True):
        y, error = part["setting"].map(places) + shift, part["standard_error"].fillna(0)
        looks = {"fmt": "o", "ms": 5, "capsize": 2, "color": COLOURS[variant]}
        label = f"{variant} (bar: standard error over folds)"
        axes.errorbar(part["accuracy"], y, xerr=error, label=label, **looks)
        lost = part[part["diverged"] > 0]
        axes.plot(lost["accuracy"], y[lost.index], "x", ms=10, mew=2, color="black")
    if (settings["diverged"] > 0).any():
        label = "some runs diverged (counted as chance)"
        axes.plot([], [], "x", ms=8, mew=2, color="black", label=label)
    _chance(axes.axvline, classes)
    axes.set(yticks=list(places.values()), yticklabels=list(places))
    axes.set_xlabel("final accuracy on the person left out")
    axes.set_title("What the paper leaves open, at its own ratio d₀ / λ₀", fontsize="medium")
    axes.xaxis.set_major_formatter(PERCENT)
    figure.legend(loc="outside upper center", fontsize="small", ncols=2)
    return caption(figure, f"{source} {iterations} iterations.")


def _over_time(axes, learnt: Learnt) -> None:
    for variant, curve in learnt.summary.groupby("variant", sort=True):
        colour, last = COLOURS[variant], curve.iloc[-1]
        seeds = f"{last['seeds']:.0f} seed{'s' if last['seeds'] > 1 else ''}"
        label = f"{variant}: mean of {last['subjects']:.0f} folds × {seeds} × 5 agents"
        axes.plot(curve["t"], curve["mean"], color=colour, label=label)
        band = {"color": colour, "alpha": 0.13, "lw": 0}
        label = f"{variant}: 5 % to 95 % of folds and seeds"
        axes.fill_between(curve["t"], curve["low"], curve["high"], label=label, **band)
        error = curve["over_subjects"] / np.sqrt(curve["subjects"])
        looks = {"fmt": "none", "ecolor": colour, "elinewidth": 0.9, "capsize": 2}
        axes.errorbar(curve["t"], curve["mean"], yerr=error, **looks)
        lost = learnt.diverged[learnt.diverged["variant"] == variant]
        if len(lost):
            at = np.interp(lost["iteration"], curve["t"], curve["mean"])
            cross = {"color": colour, "ms": 10, "mew": 2.5}
            label = f"{variant}: {len(lost)} diverged here"
            axes.plot(lost["iteration"], at, "x", label=label, **cross)
    label = "error bars: standard error over folds"
    axes.plot([], [], color=GREY, marker="_", ls="none", label=label)
    _chance(axes.axhline, learnt.classes)
    axes.set(xlabel="iteration t", ylabel="accuracy on the person left out")
    axes.set_title("EEGNet trained by Algorithm 1")


def _by_subject(axes, learnt: Learnt) -> None:
    people, difference = learnt.per_subject, learnt.difference
    places = np.arange(len(people))
    axes.vlines(places, people["unquantised"], people["quantised"], color=GREY, lw=1)
    shown = {"unquantised": "unquantised, final", "quantised": "quantised, final"}
    for name, label in (shown | {"centralised": "centralised, Adam"}).items():
        if name in people:
            dot = ("o", 6) if name in shown else ("_", 13)
            looks = {"marker": dot[0], "ms": dot[1], "mew": 1.8, "ls": "none"}
            axes.plot(places, people[name], color=COLOURS.get(name, "black"), label=label, **looks)
    _chance(axes.axhline, learnt.classes)
    axes.axvline(len(places) - 1.5, color=GREY, lw=0.6)
    names = ["all" if name == "mean" else str(name) for name in people.index]
    axes.set(xticks=places, xticklabels=names, xlabel="person left out")
    low, mean, high = (100 * difference[name] for name in ("low", "mean", "high"))
    interval = "" if np.isnan(low) else f" [{low:+.1f}, {high:+.1f}]"
    axes.set_title(f"Quantised − unquantised: {mean:+.1f} points{interval}", fontsize="small")


def _chance(line, classes: int) -> None:
    line(1 / classes, color=GREY, ls=":", lw=1.2, label="chance")


def promised(means: pd.DataFrame | None, classes: int, there: int, source: str) -> Figure | None:
    """Return what a promise costs, by the number of trials an agent has; `there` it really has."""
    if means is None:
        return None
    figure, axes = panels((8.6, 4.8))
    for colour, (delta, curve) in zip(SHADES, means.groupby("delta"), strict=False):
        looks = {"marker": "o", "capsize": 3, "color": colour, "label": f"promised: δ ≤ {delta:g}"}
        axes.errorbar(curve["trials"], curve["promise"], yerr=bars(curve, "promise"), **looks)
        axes.plot(curve["trials"], curve["twin"], color=colour, ls="--", lw=1)
    axes.plot([], [], color=GREY, ls="--", lw=1, label="its unquantised twin")
    best = means["unprotected"].mean()
    label = "one computer, no promise, same features"
    axes.axhline(best, color=COLOURS["unquantised"], lw=1.4, label=label)
    axes.axvline(there, color=GREY, lw=0.8, label=f"trials that an agent has here: {there}")
    _chance(axes.axhline, classes)
    axes.set(xscale="log", xlabel="trials an agent has before its first message")
    axes.set(ylabel="accuracy on the person left out", title="What a promise for EEG would need")
    axes.yaxis.set_major_locator(mpl.ticker.MultipleLocator(0.05))
    axes.yaxis.set_major_formatter(PERCENT)
    axes.legend(fontsize="x-small", loc="center left", bbox_to_anchor=(1.01, 0.5))
    return caption(figure, f"{source} Bars: 95 % over people (Student).")
