"""Figures of notebook 1: the quantizer, the network, accuracy, rates, limits."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch

from companion import claims, house, mushrooms
from companion.convergence.params import TOPOLOGIES, Params
from companion.convergence.tables import FITTED, TOLERATED, claimed_slopes
from companion.house import COLOURS, explore, save, source, style  # noqa: F401 (figures' dress)
from companion.intervals import NORMAL
from ldp_core import quantizer
from ldp_core.network import Network

R_COLOUR, C_COLOUR = "#C1272D", "#222222"  # the paper draws R's weights in red and C's in black
STEP_PALETTE = ("#FDBE85", "#FD8D3C", "#D94701", "#7F2704")  # larger d_0, darker
RADIUS = 14.0  # of an agent in Fig. 1, in points: where its arrows begin and end
VARIANT_LABELS = {
    "dithered": "quantised with public dither (ours)",
    "at sent": "smoother dither, gradients at sent values (ours)",
}
MEASURE_TITLES = {
    "consensus": "consensus error  mean ‖θⁱ − θ̄‖²",
    "tracking": "tracking error  mean ‖ψⁱ − vᵢψ̄‖²",
    "gradient": "squared gradient  ‖∇F(θ̄)‖²",
    "gap": "suboptimality  F(θ̄) − F*",
}


def quantiser() -> Figure:
    """Return the quantizer at work: where an input can go, how often it goes up, its variance."""
    y = np.linspace(-2.0, 2.0, 401)
    lower, up = quantizer.pmf(y, 1.0)
    figure, (left, right) = house.panels((9, 3.4), 1, 2)
    shades = {"cmap": "Oranges", "vmin": 0, "vmax": 1, "s": 6, "rasterized": True}
    for level, weight in ((lower, 1 - up), (lower + 1, up)):
        left.scatter(y, level, c=weight, **shades)
    left.plot(y, y, color="grey", lw=1, label="mean of what is sent = input")
    left.set(ylabel="value sent", title="An input goes to one of its two neighbours")
    right.plot(y, up, color=COLOURS["quantised"], label="probability of going up")
    right.plot(y, up * (1 - up), color="grey", ls="--", label="variance / d², at most 1/4")
    right.set(ylim=(-0.03, 1.35), title="The fractional part decides")
    for axes in (left, right):
        axes.set_xlabel("input y (in steps d)")
        axes.legend(loc="upper left", fontsize="small")
    return figure


def fig1(network: Network, words: str) -> Figure:
    """Return Fig. 1: the graphs of R (red, carries theta) and C (black, carries psi), weights."""
    angles = np.pi / 2 - 2 * np.pi * np.arange(network.agents) / network.agents
    places = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    figure, axes = house.panels((6.4, 5.6))
    axes.set(xlim=(-1.35, 1.35), ylim=(-1.2, 1.3), aspect="equal")
    axes.scatter(*places.T, s=(2 * RADIUS) ** 2, c="white", ec="#444444", lw=1.4, zorder=1)
    for agent, place in enumerate(places):
        axes.text(*place, f"{agent + 1}", ha="center", va="center", fontsize=14)
    for matrix, colour, bend in ((network.R, R_COLOUR, 0.16), (network.C, C_COLOUR, -0.16)):
        for i, j in np.argwhere(matrix > 0):
            _arrow(axes, places[j], places[i], bend, colour, f"{matrix[i, j]:g}")
    axes.plot([], [], color=R_COLOUR, label="R: who pulls whose Q(θ)")
    axes.plot([], [], color=C_COLOUR, label="C: who pushes Q(ψ) to whom")
    axes.legend(loc="upper left", bbox_to_anchor=(-0.02, 1.02), fontsize="small")
    axes.axis("off")
    return house.caption(figure, f"{words} No data: the edges and weights are our choice.")


def _arrow(axes, start, end, bend: float, colour: str, label: str) -> None:
    """Draw an arrow from the edge of one agent's circle to that of another, with its weight."""
    shape = {"connectionstyle": f"arc3,rad={bend}", "arrowstyle": "-|>", "mutation_scale": 14}
    looks = {"shrinkA": RADIUS, "shrinkB": RADIUS, "color": colour, "lw": 1.5, "zorder": 2}
    axes.add_patch(FancyArrowPatch(start, end, **shape, **looks))
    (dx, dy), middle = end - start, (start + end) / 2
    centred = {"fontsize": 9, "ha": "center", "va": "center", "zorder": 3}
    behind = {"boxstyle": "round,pad=0.12", "fc": "white", "ec": "none"}
    place = middle + bend / 2 * np.array([dy, -dx])
    axes.text(*place, label, color=colour, bbox=behind, **centred)


def fig2(summary: pd.DataFrame, paired: pd.DataFrame, params: Params, words: str) -> Figure:
    """Return Fig. 2: accuracy over time of every variant, and what differs from the twin.

    `summary` has variant, t, mean, low, high, runs; `paired` variant, t, mean, low, high.
    """
    figure, (left, right) = house.panels((11.5, 4.4), 1, 2, width_ratios=(6, 5))
    _accuracy(left, summary)
    for variant, curve in paired.groupby("variant"):
        points = 100 * curve.set_index("t")[["mean", "low", "high"]]
        house.band(right, points, COLOURS[variant], label=f"{variant} − unquantised")
    right.axhline(0, color=COLOURS["unquantised"], lw=1)
    least = 100 * claims.threshold("figure-2", "difference")
    limit = f"{least:g} point: the limit of “comparable”"
    right.axhline(least, color="grey", ls=":", lw=1, label=limit)
    right.set(xlabel="iteration t", ylabel="points", title="What differs, run by run")
    right.margins(y=0.3)
    right.legend(fontsize="small", loc="upper right")
    tested = f"each agent is tested on its own {params.test} held-out mushrooms"
    bands = "Bands: 5 % to 95 % of the runs (left), the mean's 95 % interval (right)"
    return house.caption(figure, f"{words} Network weights {params.weight:g}; {tested}. {bands}.")


def short_runs(params: Params, data, words: str, *, d_0: float, varsigma: float) -> Figure:
    """Return the accuracy of a few short runs, on axes that hold still while a slider moves."""
    figure, axes = house.panels((7.2, 3.8))
    _accuracy(axes, mushrooms.quick(params, data, d_0=d_0, varsigma=varsigma))
    axes.set_ylim(0.45, 1.0)
    return house.caption(figure, f"{words} Bands: 5 % to 95 % of the runs.")


def _accuracy(axes, summary: pd.DataFrame) -> None:
    """Draw the mean accuracy of every variant, and where 90 % of its runs lie."""
    for variant, curve in summary.groupby("variant"):
        label = f"{VARIANT_LABELS.get(variant, variant)}: mean of {curve['runs'].iloc[0]} runs"
        house.band(axes, curve.set_index("t"), COLOURS[variant], label=label)
    axes.set(xlabel="iteration t", ylabel="accuracy on held-out mushrooms")
    axes.set_title("Algorithm 1 with and without quantisation")
    axes.yaxis.set_major_formatter(house.PERCENT)
    axes.legend(loc="lower right", fontsize="small")


def rates(
    series: pd.DataFrame, slopes: pd.DataFrame, plain: pd.DataFrame, params: Params, words: str
) -> Figure | None:
    """Return four log-log panels, one a measure, with the claimed slopes; None without runs.

    Medians of `series` over runs for each variant and d_0, 5-95 % bands for the paper's, and fitted
    `slopes`. `plain` is for the loss without its L2 term, drawn dotted: it has no minimiser, so its
    last panel shows F itself.
    """
    if series.empty:
        return None
    figure, panels = house.panels((13.5, 7.6), 2, 2)
    palette, claimed = (COLOURS["unquantised"], *STEP_PALETTE), claimed_slopes(params.nu)
    colours = dict(zip(sorted(series["d_0"].unique()), palette, strict=False))  # 0 is among them
    for axes, (name, title) in zip(panels.flat, MEASURE_TITLES.items(), strict=True):
        for fitted in slopes[slopes["measure"] == name].itertuples():
            chosen = (series["variant"] == fitted.variant) & (series["d_0"] == fitted.d_0)
            _rate(axes, series[chosen].groupby("t")[name], fitted, colours)
        for step, dotted in plain.groupby("d_0"):
            axes.plot(dotted.groupby("t")[name].median(), color=colours[step], ls=":", lw=1.3)
        axes.plot([], [], color="grey", ls=":", label="plain loss, without L2 term")
        if name in claimed:
            _slope_guide(axes, series, name, claimed[name])
        axes.set(xscale="log", yscale="log", xlabel="iteration t", title=title)
        axes.legend(fontsize="x-small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
    bands = f"medians of {params.rate_runs} runs, bands: 5 % to 95 % of them"
    fitted = "Slopes fitted over the last 1.5 decades"
    return house.caption(figure, f"{words} L2-regularised loss; {bands}. {fitted}.")


def _rate(axes, runs, fitted, colours: dict[float, str]) -> None:
    """Draw one measure of one kind of run: a median and its band, or the median alone of ours."""
    band = runs.quantile([0.05, 0.5, 0.95]).unstack()
    slope = f"slope {fitted.slope:.2f} [{fitted.low:.2f}, {fitted.high:.2f}]"
    names = {"unquantised": "unquantised", "quantised": f"d₀ = {fitted.d_0:g}"}
    if fitted.variant not in names:
        short = {"dithered": "dither", "at sent": "at sent values"}[fitted.variant]
        looks = {"color": COLOURS[fitted.variant], "ls": "-."}
        axes.plot(band[0.5], label=f"d₀ = {fitted.d_0:g}, {short}: {slope}", **looks)
        return
    colour = colours[fitted.d_0]
    axes.plot(band[0.5], color=colour, label=f"{names[fitted.variant]}: {slope}")
    axes.fill_between(band.index, band[0.05], band[0.95], color=colour, alpha=0.15, lw=0)


def _slope_guide(axes, table: pd.DataFrame, name: str, slope: float) -> None:
    """Draw a dashed line with the claimed slope above the curves."""
    t = table["t"].max() * np.array([FITTED, 1.0])
    top = table[table["t"] >= t[0]][name].max()
    looks = {"color": "black", "ls": "--", "lw": 1.2, "label": f"claimed: {slope:.2f} or steeper"}
    axes.plot(t, 2.5 * top * (t / t[0]) ** slope, **looks)


def limits(lost: pd.DataFrame, params: Params, words: str) -> Figure | None:
    """Return what quantisation costs: a map over weights and d_0, and bars over topologies.

    `lost` has topology, weight, d_0, mean, standard_error (quantised minus unquantised accuracy);
    the map is of the paper's network, the bars of the own weight and d_0. None without runs.
    """
    if lost.empty:
        return None
    figure, (left, right) = house.panels((11, 4.3), 1, 2, width_ratios=(3, 2))
    _map(left, lost[lost["topology"] == "paper"])
    weight, d_0, length = params.weight, params.d_0, params.sweep_iterations
    here = lost[(lost["weight"] == weight) & (lost["d_0"] == d_0)]
    bars = 100 * here.set_index("topology").loc[list(TOPOLOGIES)][["mean", "standard_error"]]
    looks = {"color": COLOURS["quantised"], "alpha": 0.85, "capsize": 4}
    right.bar(bars.index, bars["mean"], yerr=NORMAL * bars["standard_error"], **looks)
    right.axhline(0, color="black", lw=0.8)
    right.set(ylabel="points (bars: 95 % interval)")
    right.set_title(f"Other graphs (weight {weight:g}, d₀ = {d_0:g})")
    paired = f"{params.sweep_runs} paired runs at every point: their mean"
    words = f"{words} Accuracy after {length} iterations, {paired}, bars with its 95 % interval."
    return house.caption(figure, words)


def _map(axes, lost: pd.DataFrame) -> None:
    """Draw the loss over weights and steps in points, what is not TOLERATED in a black frame."""
    grid = lost.pivot_table(index="weight", columns="d_0", values="mean")[::-1]
    points = (100 * grid).round(1) + 0.0  # no minus zero
    looks = {"cmap": "RdBu", "vmin": -40, "vmax": 40, "cbar_kws": {"label": "points"}}
    sns.heatmap(points, annot=True, fmt=".1f", ax=axes, **looks)
    axes.set(xlabel="quantisation step d₀", ylabel="edge weight")
    axes.set_title("Accuracy: quantised − unquantised")
    for row, column in np.argwhere(grid.to_numpy() < -TOLERATED):
        axes.add_patch(mpl.patches.Rectangle((column, row), 1, 1, fill=False, ec="black", lw=2))
