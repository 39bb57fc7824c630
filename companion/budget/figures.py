"""Figures of notebook 2: one coordinate, Fig. 3, arrival times, the sandwich, the bounds, the tail, the frontier, bits."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion import house
from companion.budget.promise_figures import ladder, promise  # noqa: F401
from companion.house import COLOURS, explore, save, style  # noqa: F401 (a notebook's figures and their dress)
from ldp_core import quantizer
from ldp_core.accountant import meaning

STEP_COLOURS = ("#FD8D3C", "#D94701", "#7F2704", "#3B0F00")  # larger d_0, darker
ROW_COLOURS = {"none": "#CC79A7", "l2": "#009E73", "l1": "#56B4E9"}  # feature rows: as they are, L2 norm one, L1 norm one
ROW_NAMES = {"none": "rows as they are", "l2": "rows of L2 norm 1", "l1": "rows of L1 norm 1"}
MEASURE_STYLES = {
    "paper": ("paper's sum  Σ|y − y′|/d", "v", "#7F2704"),
    "sum": ("sum of total variations", "s", "#D94701"),
    "product": ("1 − ∏(1 − total variation)", "D", "#E69F00"),
    "exact": ("exact total variation", "o", "#0072B2"),
    "audit": ("proven by an attacker (audit)", "^", "#009E73"),
}
BOUND_NAMES = {
    "theorem 2.2": "Theorem 2.2 as printed, for all time",
    "theorem 2.1": "Theorem 2.1 as printed, T = {T}",
    "certificate, all time": "our certificate (sum), for all time",
    "certificate": "our certificate (sum), T = {T}",
    "worst": "worst modification found (paper's sum)",
    "random": "random first data point (paper's sum)",
    "worst exact": "worst modification found (exact)",
    "random exact": "random first data point (exact)",
}
VACUOUS = "#BBBBBB"


def one_message(y: float, other: float, step: float, deltas: tuple[float, ...] = (0.1, 0.5, 0.9)) -> Figure:
    """Return what one coordinate sends under two inputs, its total variation, and what a delta allows an attacker."""
    figure = Figure(figsize=(10, 3.6))
    left, right = figure.subplots(1, 2)
    levels = np.arange(np.floor(min(y, other) / step), np.floor(max(y, other) / step) + 2)
    variation = float(quantizer.total_variation(y, other, step))
    for value, shift, colour, label in ((y, -0.12, COLOURS["unquantised"], "y"), (other, 0.12, COLOURS["quantised"], "y′")):
        chance = quantizer.probability(levels, value, step)
        left.bar(levels + shift, chance, width=0.22, color=colour, label=f"input {label} = {value / step:g} d")
        left.plot([value / step] * 2, [-0.1, -0.03], color=colour, lw=2.5, clip_on=False)
    left.set(xlabel="level sent (in steps d)", ylabel="probability", xticks=levels, ylim=(-0.1, 1.05))
    left.set_title(f"Two inputs, one message: total variation {variation:.2f}")
    left.legend(fontsize="small", loc="upper right")
    alpha = np.linspace(0, 1, 201)
    for delta, colour in zip(deltas, STEP_COLOURS, strict=False):
        name = f"δ = {delta:g}: right in {float(meaning.accuracy(delta)):.0%} of cases"
        right.plot(alpha, meaning.trade_off(alpha, delta), color=colour, label=name)
    right.plot(alpha, 1 - alpha, color="grey", ls=":", lw=1, label="δ = 0: guessing")
    right.set(xlabel="false alarms", ylabel="misses", title="What the best attacker can do at most")
    right.legend(fontsize="small", loc="upper right")
    return figure


def fig3(summary: pd.DataFrame, caption: str) -> Figure:
    """Return Fig. 3: max_i delta^i over iterations for each d_0, for data points of the whole run and for the first one.

    `summary` has d_0, arrival, t, mean, median, low, high, count.
    """
    figure = Figure(figsize=(10.5, 4.8))
    top = summary["high"].max()
    titles = {"uniform": "a data point of the whole run, at random", "first": "the first data point (k = 0)"}
    shown = [arrival for arrival in titles if (summary["arrival"] == arrival).any()]
    panels = np.atleast_1d(figure.subplots(1, len(shown), sharey=True))
    for axes, arrival in zip(panels, shown, strict=True):
        of_arrival = summary[(summary["arrival"] == arrival) & (summary["t"] > 0)]
        for (d_0, curve), colour in zip(of_arrival.groupby("d_0"), STEP_COLOURS, strict=False):
            axes.plot(curve["t"], curve["median"], color=colour, lw=2.2, label=f"d₀ = {d_0:g}")
            axes.fill_between(curve["t"], curve["low"], curve["high"], color=colour, alpha=0.18, lw=0)
            axes.plot(curve["t"], curve["mean"], color=colour, ls="--", lw=1)
        axes.set(yscale="log", xlabel="iteration t", title=titles[arrival])
        _vacuous(axes, top, "right")
    panels[0].set_ylim(min(0.03, 0.5 * summary[summary["t"] == summary["t"].max()]["low"].min()), max(2.0, 1.5 * top))
    panels[0].set_ylabel("max over agents of δⁱ (the paper's sum)")
    panels[-1].plot([], [], color="grey", label="solid: median, band: 5 % to 95 %")
    panels[-1].plot([], [], color="grey", ls="--", lw=1, label="dashed: mean")
    panels[-1].legend(fontsize="small", loc="lower right")
    house.caption(figure, caption)
    return figure


def arrivals(table: pd.DataFrame, caption: str) -> Figure:
    """Return the final budget by when the data point arrives: the paper's sum on the left, the exact one on the right.

    `table` has normalise, d_0, asked_k, paper, exact, one row a run.
    """
    figure = Figure(figsize=(10.5, 4.6))
    left, right = figure.subplots(1, 2)
    styles = dict(zip(sorted(table["d_0"].unique()), ("-", "--", ":", "-."), strict=False))
    for (normalise, d_0), rows in table.groupby(["normalise", "d_0"], sort=False):
        for axes, measure in ((left, "paper"), (right, "exact")):
            median = rows.groupby("asked_k")[measure].median()
            axes.plot(median.index + 1, median, marker="o", ms=4, ls=styles[d_0], color=ROW_COLOURS[normalise])
            axes.scatter(rows["asked_k"] + 1, rows[measure], s=6, alpha=0.35, color=ROW_COLOURS[normalise], lw=0)
    for axes in (left, right):
        axes.set(xscale="log", xlabel="the modified data point is number k + 1 to arrive")
        axes.xaxis.set_major_formatter(mpl.ticker.FormatStrFormatter("%d"))
    left.set(yscale="log", ylabel="max over agents of δⁱ", title="the paper's sum")
    _vacuous(left, table["paper"].max())
    right.set(ylim=(-0.02, 1.02), ylabel="max over agents", title="exact total variation: what an attacker can do")
    handles = [mpl.lines.Line2D([], [], color=colour, label=ROW_NAMES[name]) for name, colour in ROW_COLOURS.items()]
    handles += [mpl.lines.Line2D([], [], color="grey", ls=dashes, label=f"d₀ = {d_0:g}") for d_0, dashes in styles.items()]
    right.legend(handles=handles, fontsize="small", loc="upper right")
    house.caption(figure, caption)
    return figure


def worst(table: pd.DataFrame, caption: str) -> Figure:
    """Return the worst modification found beside a random one, by when it arrives; columns as in `arrivals`, and kind."""
    figure = Figure(figsize=(10.5, 4.2))
    left, right = figure.subplots(1, 2)
    for normalise, colour in ROW_COLOURS.items():
        rows = table[table["normalise"] == normalise]
        for axes, measure in ((left, "paper"), (right, "exact")):
            ends = rows.groupby(["asked_k", "kind"])[measure].median().unstack("kind")
            shift = 0.22 * (list(ROW_COLOURS).index(normalise) - 1)
            places = np.arange(len(ends)) + shift
            axes.vlines(places, ends["random"], ends["worst"], color=colour, lw=2, alpha=0.5)
            axes.plot(places, ends["random"], "o", color=colour, mfc="white", label=f"{ROW_NAMES[normalise]}: random")
            axes.plot(places, ends["worst"], "o", color=colour, label=f"{ROW_NAMES[normalise]}: worst found")
            axes.set_xticks(np.arange(len(ends)), [f"k = {int(k)}" for k in ends.index])
            axes.set_xlabel("arrival of the modified data point")
    left.set(yscale="log", ylabel="max over agents of δⁱ", title="the paper's sum")
    _vacuous(left, table["paper"].max())
    left.set_ylim(min(0.4, 0.6 * table["paper"].min()), None)
    right.set(ylim=(-0.02, 1.05), ylabel="max over agents", title="exact total variation")
    right.legend(fontsize="x-small", loc="lower left")
    house.caption(figure, caption)
    return figure


def sandwich(table: pd.DataFrame, caption: str) -> Figure:
    """Return every measure of several cases, from the paper's sum down to the audit; `table` has one row a case."""
    figure = Figure(figsize=(10.5, 4.8))
    axes = figure.subplots()
    table = table.sort_values("exact", ascending=False)
    places = np.arange(len(table))
    for shift, (measure, (label, marker, colour)) in zip(np.linspace(-0.2, 0.2, 5), MEASURE_STYLES.items(), strict=True):
        seen = table[measure].where(table[measure] > 0)
        axes.scatter(places + shift, seen, marker=marker, color=colour, s=50, label=label, zorder=3)
    names = [f"{ROW_NAMES[row.normalise].removeprefix('rows ')}\nk = {int(row.asked_k)}" for row in table.itertuples()]
    axes.set_xticks(places, names, fontsize="small")
    axes.set(yscale="log", ylabel="δ, for the agent that gives away most", title="Five answers to one question")
    axes.set_ylim(None, 4 * table["paper"].max())
    _vacuous(axes, 4 * table["paper"].max())
    axes.legend(fontsize="small", loc="upper right", ncols=2)
    house.caption(figure, caption)
    return figure


def bounds(table: pd.DataFrame, iterations: int, target: float, caption: str) -> Figure:
    """Return promised against spent delta on a logarithmic axis, and the d_0 that each bound would need for a target delta.

    `table` has normalise, bound (a key of BOUND_NAMES), log10_delta and log10_d_0 (NaN where there is none).
    """
    figure = Figure(figsize=(12, 5.2))
    left, right = figure.subplots(1, 2, width_ratios=(3, 2), sharey=False)
    order = [bound for bound in BOUND_NAMES if (table["bound"] == bound).any()]
    for axes, column, names in ((left, "log10_delta", order), (right, "log10_d_0", order[:4])):
        for normalise, colour in ROW_COLOURS.items():
            rows = table[table["normalise"] == normalise].set_index("bound").loc[names]
            places = np.arange(len(names)) + 0.24 * (list(ROW_COLOURS).index(normalise) - 1)
            axes.plot(10 ** rows[column], places, "o", color=colour, ms=8, label=ROW_NAMES[normalise])
        axes.set_yticks(np.arange(len(names)), [BOUND_NAMES[name].format(T=iterations) for name in names])
        axes.set(xscale="log", ylim=(len(names) - 0.5, -0.5))
        axes.grid(axis="x", color="#EEEEEE")
        for place in np.arange(len(names) - 1) + 0.5:
            axes.axhline(place, color="#EEEEEE", lw=0.8)
    left.axvspan(1, 10 ** (table["log10_delta"].max() + 0.5), color=VACUOUS, alpha=0.25, lw=0, zorder=0)
    left.set_xlim(10 ** (table["log10_delta"].min() - 0.5), 10 ** (table["log10_delta"].max() + 0.5))
    left.text(0.98, 0.02, "grey: promises nothing (δ ≥ 1)", fontsize="small", color="#666666", ha="right",
              transform=left.transAxes)  # fmt: skip
    left.set(xlabel="max over agents of δⁱ", title="promised, and spent")
    left.legend(fontsize="small", loc="center right")
    short = [BOUND_NAMES[name].format(T=iterations).replace(" (sum)", "").replace(", ", "\n") for name in order[:4]]
    right.set_yticks(np.arange(4), short, fontsize="small")
    right.set(xlabel="d₀", title=f"d₀ needed for δ = {target:g}")
    house.caption(figure, caption)
    return figure


def tail(table: pd.DataFrame, caption: str) -> Figure:
    """Return the share of the infinite-time budget that is used up after t iterations: normalise, agent, t, share."""
    figure = Figure(figsize=(8.4, 4.4))
    axes = figure.subplots()
    for normalise, colour in ROW_COLOURS.items():
        share = table[table["normalise"] == normalise].groupby("t")["share"].agg(["min", "max"])
        axes.fill_between(share.index, share["min"], share["max"], color=colour, alpha=0.3, lw=0, label=ROW_NAMES[normalise])
        axes.plot(share.index, share["min"], color=colour, lw=1)
        axes.plot(share.index, share["max"], color=colour, lw=1)
    axes.axvline(50, color="black", ls=":", lw=1)
    axes.text(65, 0.02, "the paper's “approximately 50 steps”", fontsize="small", va="bottom")
    axes.set(xscale="log", ylim=(0, 1), xlabel="iteration t", ylabel="used up by then",
             title="Our certificate's sum: how much of its limit is spent after t iterations")  # fmt: skip
    axes.yaxis.set_major_formatter(mpl.ticker.PercentFormatter(1.0, decimals=0))
    axes.legend(fontsize="small", loc=(0.72, 0.1), title="band: the five agents", title_fontsize="small")
    house.caption(figure, caption)
    return figure


def frontier(table: pd.DataFrame, unquantised: dict[str, float], caption: str) -> Figure:
    """Return accuracy against delta: exact for a random modification, certified for all. One panel a normalisation.

    `table` has normalise, weight, d_0, arrival (uniform, first, certified), delta, accuracy; `unquantised` the accuracy of the
    unquantised twin on each kind of rows.
    """
    figure = Figure(figsize=(12, 4.6))
    panels = figure.subplots(1, len(ROW_NAMES), sharey=True, sharex=True)
    weights = sorted(table["weight"].unique())
    marks = {
        "uniform": ("o", "random data point, exact"),
        "first": ("s", "first data point, exact"),
        "certified": ("X", "certified, any data"),
    }
    colours = dict(zip(weights, (COLOURS["quantised"], COLOURS["unquantised"], COLOURS["D-PSGD"], "#CC79A7"), strict=False))
    for axes, (normalise, name) in zip(panels, ROW_NAMES.items(), strict=True):
        rows = table[table["normalise"] == normalise]
        for (weight, arrival), line in rows.groupby(["weight", "arrival"]):
            line = line.sort_values("d_0")
            axes.plot(line["delta"], line["accuracy"], marker=marks[arrival][0], color=colours[weight], lw=1, ms=6, alpha=0.85)
            if arrival == "uniform" and weight == weights[0]:  # the other lines go through the same steps in the same order
                for point in line.itertuples():
                    axes.annotate(f"d₀ = {point.d_0:g}", (point.delta, point.accuracy), xytext=(8, -9), ha="left",
                                  textcoords="offset points", fontsize=7, color=colours[weight])  # fmt: skip
        axes.axhline(unquantised[normalise], color="grey", ls=":", lw=1)
        axes.set(xlabel="δ", title=name, xlim=(-0.12, 1.06))
    panels[0].set_ylabel("accuracy on held-out mushrooms")
    panels[0].yaxis.set_major_formatter(mpl.ticker.PercentFormatter(1.0, decimals=0))
    handles = [mpl.lines.Line2D([], [], color="grey", marker=mark, lw=0, label=label) for mark, label in marks.values()]
    handles += [mpl.lines.Line2D([], [], color=colours[weight], label=f"edge weight {weight:g}") for weight in weights]
    handles.append(mpl.lines.Line2D([], [], color="grey", ls=":", label="without quantisation"))
    figure.legend(handles=handles, fontsize="small", loc="outside upper center", ncols=3)
    house.caption(figure, caption)
    return figure


def bits(table: pd.DataFrame, float_bits: int, caption: str) -> Figure:
    """Return bits per coordinate of a message over time, against a float's: d_0, message, t, fixed, entropy."""
    figure = Figure(figsize=(10.5, 4.2))
    panels = figure.subplots(1, 2, sharey=True)
    names = {"theta": "θ, the model", "psi": "ψ, the tracker"}
    for axes, (message, name) in zip(panels, names.items(), strict=True):
        rows = table[table["message"] == message]
        for (d_0, curve), colour in zip(rows.groupby("d_0"), STEP_COLOURS, strict=False):
            axes.plot(curve["t"] + 1, curve["fixed"], color=colour, label=f"d₀ = {d_0:g}")
            axes.plot(curve["t"] + 1, curve["entropy"], color=colour, ls="--", lw=1.2)
        axes.axhline(float_bits, color=COLOURS["unquantised"], lw=1.5, label=f"unquantised: {float_bits}-bit float")
        axes.set(xscale="log", xlabel="iteration t + 1", title=name, ylim=(0, float_bits + 2))
    panels[0].set_ylabel("bits per coordinate")
    panels[0].plot([], [], color="grey", label="solid: fixed length, with header")
    panels[0].plot([], [], color="grey", ls="--", lw=1.2, label="dashed: entropy")
    panels[0].legend(fontsize="small", loc="center left", bbox_to_anchor=(0, 0.62))
    house.caption(figure, caption)
    return figure


def trade(budgets: pd.DataFrame, accuracy: pd.DataFrame, caption: str) -> Figure:
    """Return the delta curve and the accuracy of one choice side by side, for the sliders."""
    figure = Figure(figsize=(10, 3.8))
    left, right = figure.subplots(1, 2)
    curve = budgets[budgets["t"] > 0]
    left.plot(curve["t"], curve["median"], color=COLOURS["quantised"], label="median")
    left.fill_between(
        curve["t"], curve["low"], curve["high"], color=COLOURS["quantised"], alpha=0.18, lw=0, label="5 % to 95 %"
    )
    left.set(yscale="log", ylim=(1e-2, 1e3), xlabel="iteration t", title="max over agents of δⁱ (the paper's sum)")
    _vacuous(left, 1e3, "right")
    left.legend(fontsize="small", loc="lower right")
    for variant, line in accuracy.groupby("variant"):
        right.plot(line["t"], line["mean"], color=COLOURS[variant], label=variant)
        right.fill_between(line["t"], line["low"], line["high"], color=COLOURS[variant], alpha=0.18, lw=0)
    right.set(ylim=(0.4, 1), xlabel="iteration t", title="accuracy on held-out mushrooms")
    right.yaxis.set_major_formatter(mpl.ticker.PercentFormatter(1.0, decimals=0))
    right.legend(fontsize="small", loc="lower right")
    house.caption(figure, caption)
    return figure


def _vacuous(axes, top: float, side: str = "left") -> None:
    """Mark delta = 1 on a vertical axis, and what lies above it; the words stand at one side."""
    axes.axhline(1, color="black", lw=1)
    if top > 1:
        axes.axhspan(1, 1.5 * top, color=VACUOUS, alpha=0.25, lw=0, zorder=0)
        axes.set_ylim(None, 1.5 * top)
    place = 0.01 if side == "left" else 0.99
    axes.annotate("δ = 1: vacuous above", (place, 1), xycoords=("axes fraction", "data"), xytext=(0, -4), ha=side, va="top",
                  textcoords="offset points", fontsize="small", color="#444444")  # fmt: skip
