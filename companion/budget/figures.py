"""Figures of notebook 2. `origin` begins each caption: the profile and the data."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion import house
from companion import mushrooms as learning
from companion.budget import tables
from companion.budget.cases import CONFIDENCE
from companion.budget.params import Params
from companion.budget.promise_figures import promise, vow  # noqa: F401 (the closing section's)
from companion.data.mushrooms import Mushrooms
from companion.explore import compared
from companion.house import COLOURS, explore, save, source, style  # noqa: F401 (for cells)
from companion.params import FLOAT_BITS
from ldp_core import quantizer
from ldp_core.accountant import meaning

Table = pd.DataFrame
STEP_COLOURS = ("#FD8D3C", "#D94701", "#7F2704", "#3B0F00")  # larger d_0, darker
WEIGHT_COLOURS = (*(COLOURS[name] for name in ("quantised", "unquantised", "D-PSGD")), "#CC79A7")
ROW_COLOURS = {"none": "#CC79A7", "l2": "#009E73", "l1": "#56B4E9"}  # of feature rows
ROW_NAMES = {"none": "rows as they are", "l2": "rows of L2 norm 1", "l1": "rows of L1 norm 1"}
ARRIVAL_TITLES = {
    "uniform": "a data point of the whole run, at random",
    "first": "the first data point (k = 0)",
}
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
FRONTIER_MARKS = {
    "uniform": ("o", "random data point, exact"),
    "first": ("s", "first data point, exact"),
    "certified": ("X", "certified, any data"),
}
VACUOUS, LIGHT = "#BBBBBB", "#EEEEEE"


def one_message(y: float, other: float, step: float) -> Figure:
    """Return what one coordinate sends under two inputs, and what a delta allows an attacker."""
    figure, (left, right) = house.panels((10, 3.6), 1, 2)
    found = compared(quantizer.law(y, step), quantizer.law(other, step), step, 0.0)
    levels = found["points"] / step
    ours = ("y", y, -0.12, COLOURS["unquantised"], found["ours"])
    theirs = ("y′", other, 0.12, COLOURS["quantised"], found["theirs"])
    for name, value, shift, colour, chance in (ours, theirs):
        label = f"input {name} = {value / step:g} d"
        left.bar(levels + shift, chance, width=0.22, color=colour, label=label)
        left.plot([value / step] * 2, [-0.1, -0.03], color=colour, lw=2.5, clip_on=False)
    left.set(xlabel="level sent (in steps d)", ylabel="probability")
    left.set(xticks=levels, ylim=(-0.1, 1.05))
    left.set_title(f"Two inputs, one message: total variation {found['delta']:.2f}")
    left.legend(fontsize="small", loc="upper right")
    alpha = np.linspace(0, 1, 201)
    for delta, colour in zip((0.1, 0.5, 0.9), STEP_COLOURS, strict=False):
        name = f"δ = {delta:g}: right in {float(meaning.accuracy(delta)):.0%} of cases"
        right.plot(alpha, meaning.trade_off(alpha, delta), color=colour, label=name)
    right.plot(alpha, 1 - alpha, color="grey", ls=":", lw=1, label="δ = 0: guessing")
    right.set(xlabel="false alarms", ylabel="misses", title="What the best attacker can do at most")
    right.legend(fontsize="small", loc="upper right")
    return figure


def fig3(summary: Table, params: Params, origin: str) -> Figure:
    """Return Fig. 3: max_i delta^i over iterations for each d_0, for both kinds of arrival."""
    figure, panels = house.panels((10.5, 4.8), 1, 2, sharey=True)
    for axes, (arrival, title) in zip(panels, ARRIVAL_TITLES.items(), strict=True):
        own = summary[(summary["arrival"] == arrival) & (summary["t"] > 0)]
        for (d_0, curve), colour in zip(own.groupby("d_0"), STEP_COLOURS, strict=False):
            curve = curve.set_index("t")
            house.band(axes, curve, colour, "median", lw=2.2, label=f"d₀ = {d_0:g}")
            axes.plot(curve["mean"], color=colour, ls="--", lw=1)
        axes.set(yscale="log", xlabel="iteration t", title=title)
        _vacuous(axes, summary["high"].max(), "right")
    lowest = summary[summary["t"] == summary["t"].max()]["low"].min()
    panels[0].set_ylim(min(0.03, 0.5 * lowest), max(2.0, 1.5 * summary["high"].max()))
    panels[0].set_ylabel("max over agents of δⁱ (the paper's sum)")
    panels[-1].plot([], [], color="grey", label="solid: median, band: 5 % to 95 %")
    panels[-1].plot([], [], color="grey", ls="--", lw=1, label="dashed: mean")
    panels[-1].legend(fontsize="small", loc="lower right")
    agents = f"Agent i has d₀ + {params.d_0_slope:g} i; network weights {params.weight:g}"
    counts = f"{params.runs} runs x {params.modifications} modifications"
    first = f"(first data point: {params.first_modifications}), largest of all agents"
    rows = f"feature rows: {params.normalise}"
    return house.caption(figure, f"{origin} {agents}; {rows}. Each curve: {counts} {first}.")


def arrivals(table: Table, params: Params, origin: str) -> Figure:
    """Return the last budget by when the data point arrives: the paper's sum, and the exact one."""
    figure, (left, right) = house.panels((10.5, 4.6), 1, 2)
    styles = dict(zip(sorted(table["d_0"].unique()), ("-", "--", ":", "-."), strict=False))
    for (normalise, d_0), rows in table.groupby(["normalise", "d_0"], sort=False):
        colour = ROW_COLOURS[normalise]
        for axes, measure in ((left, "paper"), (right, "exact")):
            median = rows.groupby("asked_k")[measure].median()
            axes.plot(median.index + 1, median, marker="o", ms=4, ls=styles[d_0], color=colour)
            axes.scatter(rows["asked_k"] + 1, rows[measure], s=6, alpha=0.35, color=colour, lw=0)
    for axes in (left, right):
        axes.set(xscale="log", xlabel="the modified data point is number k + 1 to arrive")
        axes.xaxis.set_major_formatter(mpl.ticker.FormatStrFormatter("%d"))
    left.set(yscale="log", ylabel="max over agents of δⁱ", title="the paper's sum")
    _vacuous(left, table["paper"].max())
    title = "exact total variation: what an attacker can do"
    right.set(ylim=(-0.02, 1.02), ylabel="max over agents", title=title)
    handles = [_line(ROW_NAMES[name], color=colour) for name, colour in ROW_COLOURS.items()]
    handles += [_line(f"d₀ = {d_0:g}", color="grey", ls=dashes) for d_0, dashes in styles.items()]
    right.legend(handles=handles, fontsize="small", loc="upper right")
    error = (table["upper"] - table["lower"]).max() / 2
    dots = f"random modifications: dots are {params.case_runs} runs, lines their medians"
    exact = f"largest of all agents. Exact: to within ±{error:.2f}"
    return house.caption(figure, f"{origin} {_setting(params)}, {dots}; {exact}.")


def worst(table: Table, params: Params, origin: str) -> Figure:
    """Return the worst modification found beside a random one, by when it arrives."""
    figure, (left, right) = house.panels((10.5, 4.2), 1, 2)
    for shift, (normalise, colour) in zip((-0.22, 0, 0.22), ROW_COLOURS.items(), strict=True):
        rows, name = table[table["normalise"] == normalise], ROW_NAMES[normalise]
        for axes, measure in ((left, "paper"), (right, "exact")):
            ends = rows.groupby(["asked_k", "kind"])[measure].median().unstack("kind")
            places = np.arange(len(ends)) + shift
            axes.vlines(places, ends["random"], ends["worst"], color=colour, lw=2, alpha=0.5)
            look = {"marker": "o", "ls": "", "color": colour}
            axes.plot(places, ends["random"], mfc="white", label=f"{name}: random", **look)
            axes.plot(places, ends["worst"], label=f"{name}: worst found", **look)
            axes.set_xticks(np.arange(len(ends)), [f"k = {int(k)}" for k in ends.index])
            axes.set_xlabel("arrival of the modified data point")
    left.set(yscale="log", ylabel="max over agents of δⁱ", title="the paper's sum")
    _vacuous(left, table["paper"].max())
    left.set_ylim(min(0.4, 0.6 * table["paper"].min()), None)
    right.set(ylim=(-0.02, 1.05), ylabel="max over agents", title="exact total variation")
    right.legend(fontsize="x-small", loc="lower left")
    runs = f"medians of {params.worst_runs} run(s), {params.worst_rows} candidates a mushroom"
    words = f"{_setting(params)}, d₀ = {params.d_0:g}; {runs}; largest of all agents"
    return house.caption(figure, f"{origin} {words}.")


def sandwich(table: Table, params: Params, origin: str) -> Figure:
    """Return every measure of several cases, from the paper's sum down to the audit."""
    figure, axes = house.panels((10.5, 4.8))
    table = table.sort_values("exact", ascending=False)
    places, shifts = np.arange(len(table)), np.linspace(-0.2, 0.2, len(MEASURE_STYLES))
    for shift, (measure, (label, mark, colour)) in zip(shifts, MEASURE_STYLES.items(), strict=True):
        seen = table[measure].where(table[measure] > 0)
        axes.scatter(places + shift, seen, marker=mark, color=colour, s=50, label=label, zorder=3)
    rows = table["normalise"].map(ROW_NAMES).str.removeprefix("rows ")
    names = [f"{name}\nk = {int(k)}" for name, k in zip(rows, table["asked_k"], strict=True)]
    axes.set_xticks(places, names, fontsize="small")
    axes.set(yscale="log", ylabel="δ, for the agent that gives away most")
    axes.set(title="Five answers to one question", ylim=(None, 4 * table["paper"].max()))
    _vacuous(axes, 4 * table["paper"].max())
    axes.legend(fontsize="small", loc="upper right", ncols=2)
    heard = f"{params.audit_samples} transcripts of each data set"
    audits = f"{heard}, {params.audit_coordinates} coordinates, {CONFIDENCE:.1%} confidence"
    words = f"d₀ = {params.d_0:g}; one random modification a case; audits from {audits}"
    return house.caption(figure, f"{origin} {_setting(params)}, {words}.")


def bounds(table: Table, params: Params, origin: str) -> Figure:
    """Return promised against spent delta, and the d_0 that each bound would need for a target."""
    figure, (left, right) = house.panels((12, 5.2), 1, 2, width_ratios=(3, 2))
    order = [bound for bound in BOUND_NAMES if (table["bound"] == bound).any()]
    labels = [BOUND_NAMES[name].format(T=params.iterations) for name in order]
    for axes, column, names in ((left, "log10_delta", order), (right, "log10_d_0", order[:4])):
        for shift, (normalise, colour) in zip((-0.24, 0, 0.24), ROW_COLOURS.items(), strict=True):
            rows = table[table["normalise"] == normalise].set_index("bound").loc[names]
            look = {"color": colour, "ms": 8, "label": ROW_NAMES[normalise]}
            axes.plot(10 ** rows[column], np.arange(len(names)) + shift, "o", **look)
        axes.set(xscale="log", ylim=(len(names) - 0.5, -0.5))
        axes.grid(axis="x", color=LIGHT)
        for place in np.arange(len(names) - 1) + 0.5:
            axes.axhline(place, color=LIGHT, lw=0.8)
    low, high = 10 ** (table["log10_delta"].min() - 0.5), 10 ** (table["log10_delta"].max() + 0.5)
    left.axvspan(1, high, color=VACUOUS, alpha=0.25, lw=0, zorder=0)
    words = {"fontsize": "small", "color": "#666666", "ha": "right", "transform": left.transAxes}
    left.text(0.98, 0.02, "grey: promises nothing (δ ≥ 1)", **words)
    left.set_yticks(np.arange(len(order)), labels)
    left.set(xlim=(low, high), xlabel="max over agents of δⁱ", title="promised, and spent")
    left.legend(fontsize="small", loc="center right")
    short = [label.replace(" (sum)", "").replace(", ", "\n") for label in labels[:4]]
    right.set_yticks(np.arange(4), short, fontsize="small")
    right.set(xlabel="d₀", title=f"d₀ needed for δ = {params.target:g}")
    spent = f"Spent: first data point, median of {params.worst_runs} run(s)"
    words = f"Weights {params.weight:g}, d₀ = {params.d_0:g}. {spent}"
    return house.caption(figure, f"{origin} {words}; bounds: all data, all agents.")


def tail(table: Table, params: Params, origin: str) -> Figure:
    """Return the share of the infinite-time budget that is used up after t iterations."""
    figure, axes = house.panels((8.4, 4.4))
    for normalise, colour in ROW_COLOURS.items():
        share = table[table["normalise"] == normalise].groupby("t")["share"].agg(["min", "max"])
        edges, name = (share["min"], share["max"]), ROW_NAMES[normalise]
        axes.fill_between(share.index, *edges, color=colour, alpha=0.3, lw=0, label=name)
        axes.plot(share.index, np.stack(edges, axis=1), color=colour, lw=1)
    axes.axvline(50, color="black", ls=":", lw=1)
    axes.text(65, 0.02, "the paper's “approximately 50 steps”", fontsize="small", va="bottom")
    title = "Our certificate's sum: how much of its limit is spent after t iterations"
    axes.set(xscale="log", ylim=(0, 1), xlabel="iteration t", ylabel="used up by then", title=title)
    axes.yaxis.set_major_formatter(house.PERCENT)
    heading = {"title": "band: the five agents", "title_fontsize": "small"}
    axes.legend(fontsize="small", loc=(0.72, 0.1), **heading)
    known = f"From public constants alone: weights {params.weight:g}, nu = {params.nu:g}"
    exponents = f"varsigma = {params.varsigma + 0.01:g} ... {params.varsigma + 0.05:g}"
    return house.caption(figure, f"{origin} {known}, {exponents}.")


def frontier(table: Table, kept: Table, params: Params, origin: str) -> Figure:
    """Return accuracy against delta: exact for two modifications, certified for all data."""
    figure, panels = house.panels((12, 4.6), 1, len(ROW_NAMES), sharey=True, sharex=True)
    weights, without = sorted(table["weight"].unique()), kept.set_index("normalise")["unquantised"]
    colours = dict(zip(weights, WEIGHT_COLOURS, strict=False))
    for axes, (normalise, name) in zip(panels, ROW_NAMES.items(), strict=True):
        own = table[table["normalise"] == normalise].sort_values("d_0")
        for (weight, arrival), line in own.groupby(["weight", "arrival"]):
            look = {"marker": FRONTIER_MARKS[arrival][0], "color": colours[weight], "alpha": 0.85}
            axes.plot(line["delta"], line["accuracy"], lw=1, ms=6, **look)
        first = own[(own["arrival"] == "uniform") & (own["weight"] == weights[0])]
        for point in first.itertuples():  # the other lines go through the same steps in order
            words = {"xytext": (8, -9), "textcoords": "offset points", "fontsize": 7}
            place = point.delta, point.accuracy
            axes.annotate(f"d₀ = {point.d_0:g}", place, color=colours[weights[0]], **words)
        axes.axhline(without[normalise], color="grey", ls=":", lw=1)
        axes.set(xlabel="δ", title=name, xlim=(-0.12, 1.06))
    panels[0].set_ylabel("accuracy on held-out mushrooms")
    panels[0].yaxis.set_major_formatter(house.PERCENT)
    marks = FRONTIER_MARKS.values()
    handles = [_line(name, color="grey", marker=mark, lw=0) for mark, name in marks]
    handles += [_line(f"edge weight {weight:g}", color=colours[weight]) for weight in weights]
    handles.append(_line("without quantisation", color="grey", ls=":"))
    figure.legend(handles=handles, fontsize="small", loc="outside upper center", ncols=3)
    budgets = f"Budgets: medians of {params.frontier_runs} runs, largest of all agents"
    accuracies = f"accuracies: means of {params.accuracy_runs} runs"
    return house.caption(figure, f"{origin} T = {params.iterations}. {budgets}; {accuracies}.")


def bits(table: Table, params: Params, origin: str) -> Figure | None:
    """Return bits per coordinate of a message over time, against a float's; None without any."""
    if table.empty:
        return None
    figure, panels = house.panels((10.5, 4.2), 1, 2, sharey=True)
    names = {"theta": "θ, the model", "psi": "ψ, the tracker"}
    for axes, (message, name) in zip(panels, names.items(), strict=True):
        rows = table[table["message"] == message]
        for (d_0, curve), colour in zip(rows.groupby("d_0"), STEP_COLOURS, strict=False):
            axes.plot(curve["t"] + 1, curve["fixed"], color=colour, label=f"d₀ = {d_0:g}")
            axes.plot(curve["t"] + 1, curve["entropy"], color=colour, ls="--", lw=1.2)
        label = f"unquantised: {FLOAT_BITS}-bit float"
        axes.axhline(FLOAT_BITS, color=COLOURS["unquantised"], lw=1.5, label=label)
        axes.set(xscale="log", xlabel="iteration t + 1", title=name, ylim=(0, FLOAT_BITS + 2))
    panels[0].set_ylabel("bits per coordinate")
    panels[0].plot([], [], color="grey", label="solid: fixed length, with header")
    panels[0].plot([], [], color="grey", ls="--", lw=1.2, label="dashed: entropy")
    panels[0].legend(fontsize="small", loc="center left", bbox_to_anchor=(0, 0.62))
    return house.caption(figure, f"{origin} Mean over {params.bits_runs} runs and all agents.")


def traded(params: Params, data: Mushrooms, origin: str) -> Callable[..., Figure]:
    """Return the function that draws `trade` for another d_0 and varsigma."""

    def draw(d_0: float, varsigma: float) -> Figure:
        spent = tables.quick(params, data, d_0=d_0, varsigma=varsigma)
        accuracy = learning.quick(params.learning(), data, d_0=d_0, varsigma=varsigma)
        return trade(spent, accuracy, origin)

    return draw


def trade(budgets: Table, accuracy: Table, origin: str) -> Figure:
    """Return the delta curve and the accuracy of one choice side by side, for the sliders."""
    figure, (left, right) = house.panels((10, 3.8), 1, 2)
    curve = budgets[budgets["t"] > 0].set_index("t")
    house.band(left, curve, COLOURS["quantised"], "median", label="median")
    left.set(yscale="log", xlabel="iteration t", title="max over agents of δⁱ (the paper's sum)")
    _vacuous(left, 1e3, "right")
    left.set_ylim(1e-2, 1.5e3)
    left.legend(fontsize="small", loc="lower right")
    for variant, line in accuracy.groupby("variant"):
        house.band(right, line.set_index("t"), COLOURS[variant], label=variant)
    right.set(ylim=(0.4, 1), xlabel="iteration t", title="accuracy on held-out mushrooms")
    right.yaxis.set_major_formatter(house.PERCENT)
    right.legend(fontsize="small", loc="lower right")
    words = "Left: 2 runs x 5 modifications at random times; right: 8 runs. Bands: 5 % to 95 %."
    return house.caption(figure, f"{origin} {words}")


def _setting(params: Params) -> str:
    return f"T = {params.iterations}, weights {params.weight:g}"


def _line(label: str, **look) -> mpl.lines.Line2D:
    """Return an entry of a legend."""
    return mpl.lines.Line2D([], [], label=label, **look)


def _vacuous(axes, top: float, side: str = "left") -> None:
    """Mark delta = 1 on a vertical axis, and what lies above it; the words stand at one side."""
    axes.axhline(1, color="black", lw=1)
    if top > 1:
        axes.axhspan(1, 1.5 * top, color=VACUOUS, alpha=0.25, lw=0, zorder=0)
        axes.set_ylim(None, 1.5 * top)
    place = 0.01 if side == "left" else 0.99
    words = {"xytext": (0, -4), "textcoords": "offset points", "ha": side, "va": "top"}
    words |= {"xycoords": ("axes fraction", "data"), "fontsize": "small", "color": "#444444"}
    axes.annotate("δ = 1: vacuous above", (place, 1), **words)
