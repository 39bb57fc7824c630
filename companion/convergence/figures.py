"""Figures of notebook 1: the quantizer, the network, accuracy, rates, limits."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch

from companion import house
from companion.house import COLOURS, explore, save, style  # noqa: F401 (a notebook's figures and their dress)
from ldp_core import quantizer
from ldp_core.network import Network

R_COLOUR, C_COLOUR = "#C1272D", "#222222"  # the paper draws R's weights in red and C's in black
STEP_PALETTE = ("#FDBE85", "#FD8D3C", "#D94701", "#7F2704")  # larger d_0, darker; unquantised keeps its own colour
MEASURE_TITLES = {
    "consensus": "consensus error  mean ‖θⁱ − θ̄‖²",
    "tracking": "tracking error  mean ‖ψⁱ − vᵢψ̄‖²",
    "gradient": "squared gradient  ‖∇F(θ̄)‖²",
    "gap": "suboptimality  F(θ̄) − F*",
}


def quantiser(step: float = 1.0, points: int = 401) -> Figure:
    """Return a picture of the quantizer at work: where an input can go, how often it goes up, and its variance."""
    y = np.linspace(-2 * step, 2 * step, points)
    lower, up = quantizer.pmf(y, step)
    figure = Figure(figsize=(9, 3.4))
    left, right = figure.subplots(1, 2)
    for level, weight in ((lower, 1 - up), (lower + 1, up)):
        left.scatter(y, level * step, c=weight, cmap="Oranges", vmin=0, vmax=1, s=6, rasterized=True)
    left.plot(y, y, color="grey", lw=1, label="mean of what is sent = input")
    left.set(xlabel="input y (in steps d)", ylabel="value sent", title="An input goes to one of its two neighbours")
    left.legend(loc="upper left", fontsize="small")
    right.plot(y, up, color=COLOURS["quantised"], label="probability of going up")
    right.plot(y, up * (1 - up), color="grey", ls="--", label="variance / d², at most 1/4")
    right.set(xlabel="input y (in steps d)", ylim=(-0.03, 1.35), title="The fractional part decides")
    right.legend(loc="upper left", fontsize="small")
    return figure


def fig1(network: Network) -> Figure:
    """Return Fig. 1: the directed graphs of R (red, carries theta) and C (black, carries psi) with their weights."""
    angles = np.pi / 2 - 2 * np.pi * np.arange(network.agents) / network.agents
    places = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    figure = Figure(figsize=(6.4, 5.6))
    axes = figure.subplots()
    for matrix, colour, bend in ((network.R, R_COLOUR, 0.16), (network.C, C_COLOUR, -0.16)):
        for i, j in np.argwhere(matrix > 0):
            _arrow(axes, places[j], places[i], bend, colour, f"{matrix[i, j]:g}")
    for agent, (x, y) in enumerate(places):
        axes.text(x, y, f"{agent + 1}", ha="center", va="center", fontsize=14, zorder=4,
                  bbox={"boxstyle": "circle,pad=0.45", "fc": "white", "ec": "#444444", "lw": 1.4})  # fmt: skip
    axes.plot([], [], color=R_COLOUR, label="R: who pulls whose Q(θ)")
    axes.plot([], [], color=C_COLOUR, label="C: who pushes Q(ψ) to whom")
    axes.legend(loc="upper left", bbox_to_anchor=(-0.02, 1.02), fontsize="small")
    axes.set(xlim=(-1.35, 1.35), ylim=(-1.2, 1.3), aspect="equal")
    axes.axis("off")
    return figure


VARIANT_LABELS = {"dithered": "quantised with public dither (ours)"}


def fig2(summary: pd.DataFrame, caption: str) -> Figure:
    """Return Fig. 2: accuracy over time of every variant; `summary` has variant, t, mean, low, high, runs."""
    figure = Figure(figsize=(7.2, 4.4))
    axes = figure.subplots()
    for variant, curve in summary.groupby("variant", sort=True):
        colour = COLOURS[variant]
        axes.plot(
            curve["t"],
            curve["mean"],
            color=colour,
            label=f"{VARIANT_LABELS.get(variant, variant)}: mean of {curve['runs'].iloc[0]} runs",
        )
        axes.fill_between(
            curve["t"], curve["low"], curve["high"], color=colour, alpha=0.18, lw=0, label="5 % to 95 % of the runs"
        )
    axes.set(xlabel="iteration t", ylabel="accuracy on held-out mushrooms", title="Algorithm 1 with and without quantisation")
    axes.yaxis.set_major_formatter(mpl.ticker.PercentFormatter(1.0, decimals=0))
    axes.legend(loc="lower right", fontsize="small")
    house.caption(figure, caption)
    return figure


def rates(
    table: pd.DataFrame,
    slopes: pd.DataFrame,
    claimed: dict[str, float],
    plain: pd.DataFrame,
    dithered: tuple[pd.DataFrame, pd.DataFrame],
    caption: str,
) -> Figure:
    """Return four log-log panels, one a measure: medians and 5-95 % bands over runs for each d_0, and the claimed slope.

    `table` has d_0, run, t and one column a measure; `slopes` d_0, measure, slope, low, high. `plain` is a table for the loss
    without its L2 term, drawn dotted: it has no minimiser, so its last panel shows F itself. `dithered` is a
    table and its slopes for a single d_0 with a public dither.
    """
    figure = Figure(figsize=(13.5, 7.6))
    steps = sorted(table["d_0"].unique())
    colours = dict(zip([step for step in steps if step], STEP_PALETTE, strict=False)) | {0.0: COLOURS["unquantised"]}
    for axes, (name, title) in zip(figure.subplots(2, 2).flat, MEASURE_TITLES.items(), strict=True):
        for step in steps:
            band = table[table["d_0"] == step].groupby("t")[name].quantile([0.05, 0.5, 0.95]).unstack()
            fitted = slopes[(slopes["d_0"] == step) & (slopes["measure"] == name)].iloc[0]
            label = "unquantised" if step == 0 else f"d₀ = {step:g}"
            label += f": slope {fitted['slope']:.2f} [{fitted['low']:.2f}, {fitted['high']:.2f}]"
            axes.plot(band.index, band[0.5], color=colours[step], label=label)
            axes.fill_between(band.index, band[0.05], band[0.95], color=colours[step], alpha=0.15, lw=0)
        for step, dotted in plain.groupby("d_0"):
            axes.plot(dotted.groupby("t")[name].median(), color=colours[step], ls=":", lw=1.3)
        fitted = dithered[1][dithered[1]["measure"] == name].iloc[0]
        label = f"d₀ = {fitted['d_0']:g}, dither: slope {fitted['slope']:.2f} [{fitted['low']:.2f}, {fitted['high']:.2f}]"
        axes.plot(dithered[0].groupby("t")[name].median(), color=COLOURS["dithered"], ls="-.", label=label)
        axes.plot([], [], color="grey", ls=":", label="plain loss, without L2 term")
        if name in claimed:
            _slope_guide(axes, table, name, claimed[name])
        axes.set(xscale="log", yscale="log", xlabel="iteration t", title=title)
        axes.legend(fontsize="x-small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
    house.caption(figure, caption)
    return figure


def limits(lost: pd.DataFrame, tolerated: float, weight: float, d_0: float, caption: str) -> Figure:
    """Return what quantisation costs: a map over edge weight and d_0 on the paper's network, and bars over topologies
    at one weight and d_0.

    `lost` has topology, weight, d_0, mean, standard_error (quantised minus unquantised accuracy).
    """
    figure = Figure(figsize=(11, 4.3))
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    grid = (
        lost[lost["topology"] == "paper"].pivot_table(index="weight", columns="d_0", values="mean").sort_index(ascending=False)
    )
    points = (100 * grid).round(1) + 0.0  # no minus zero
    sns.heatmap(points, annot=True, fmt=".1f", cmap="RdBu", vmin=-40, vmax=40, ax=left, cbar_kws={"label": "points"})
    left.set(xlabel="quantisation step d₀", ylabel="edge weight", title="Accuracy: quantised − unquantised")
    broken = np.argwhere(grid.to_numpy() < -tolerated)
    for row, column in broken:
        left.add_patch(mpl.patches.Rectangle((column, row), 1, 1, fill=False, ec="black", lw=2))
    here = lost[(lost["weight"] == weight) & (lost["d_0"] == d_0)]
    bars = here.set_index("topology").loc[["paper", "ring", "exponential", "random"]]
    right.bar(
        bars.index, 100 * bars["mean"], yerr=196 * bars["standard_error"], color=COLOURS["quantised"], alpha=0.85, capsize=4
    )
    right.axhline(0, color="black", lw=0.8)
    right.set(ylabel="points (bars: 95 % interval)", title=f"Other graphs (weight {weight:g}, d₀ = {d_0:g})")
    house.caption(figure, caption)
    return figure


def _slope_guide(axes, table: pd.DataFrame, name: str, slope: float) -> None:
    """Draw a dashed line with the claimed slope above the curves."""
    t = np.array([table["t"].max() / 30, table["t"].max()])
    top = table[table["t"] >= t[0]][name].max()
    axes.plot(t, 2.5 * top * (t / t[0]) ** slope, color="black", ls="--", lw=1.2, label=f"claimed: {slope:.2f} or steeper")


def _arrow(axes, start, end, bend: float, colour: str, label: str) -> None:
    arrow = FancyArrowPatch(start, end, connectionstyle=f"arc3,rad={bend}", arrowstyle="-|>", mutation_scale=14,
                            shrinkA=38, shrinkB=16, color=colour, lw=1.5, zorder=2)  # fmt: skip
    axes.add_patch(arrow)
    (dx, dy), middle = end - start, (start + end) / 2
    x, y = middle + bend / 2 * np.array([dy, -dx])
    axes.text(x, y, label, color=colour, fontsize=9, ha="center", va="center", zorder=3,
              bbox={"boxstyle": "round,pad=0.12", "fc": "white", "ec": "none"})  # fmt: skip
