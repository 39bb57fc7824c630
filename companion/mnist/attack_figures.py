"""Figures of notebook 3 on attacks: calibration, Fig. 5, what comes back as d_0 shrinks, and the labels."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion import house
from companion.house import COLOURS

GREY = "#555555"
VICTIMS = {"CNN": ("o", "the paper's CNN, through its feature map"), "LeNet": ("s", "LeNet, by iDLG")}
METHODS = {"published": (COLOURS["unquantised"], "-", "L-BFGS as published"), "line search": (GREY, "--", "with a line search")}
SENDERS = {
    "D-PSGD": (COLOURS["D-PSGD"], "D-PSGD"),
    "quantised": (COLOURS["quantised"], "Algorithm 1"),
    "random psi_0": ("#E69F00", "Algorithm 1, random ψ₀"),
    "dithered": (COLOURS["dithered"], "Algorithm 1, public dither"),
}


def idlg_calibration(table: pd.DataFrame, published: float, caption: str) -> Figure:
    """Return the share of images that iDLG recovers to within a mean square error, against that error.

    `table` has method, mse, diverged, right; `published` is the rate of the authors' code below 1e-2.
    """
    figure = Figure(figsize=(7.6, 4.4))
    axes = figure.subplots()
    for method, group in table.groupby("method", sort=False):
        colour, dashes, label = METHODS[method]
        errors = np.sort(group["mse"].clip(1e-8, 1e4))
        label = f"{label}: labels {group['right'].mean():.0%}, diverged {group['diverged'].mean():.0%}"
        share = np.arange(1, len(errors) + 1) / len(errors)
        axes.step(
            np.concatenate([[1e-8], errors, [1e4]]),
            np.concatenate([[0], share, [1]]),
            where="post",
            color=colour,
            ls=dashes,
            label=label,
        )
    axes.plot(1e-2, published, "*", color="black", ms=13, zorder=5, label=f"authors' code: about {published:.0%} below 0.01")
    axes.axvline(1e-2, color=GREY, lw=0.8, ls=":")
    axes.text(1.3e-2, 0.03, "above: not recovered", fontsize="x-small", color=GREY)
    axes.set(
        xscale="log", xlim=(1e-8, 1e4), ylim=(0, 1.05), xlabel="mean square error of the reconstruction (pixels in [0, 1])"
    )
    axes.set(ylabel="share of images below it", title=f"iDLG on LeNet: {len(table) // table['method'].nunique()} images")
    axes.yaxis.set_major_formatter(mpl.ticker.PercentFormatter(1.0))
    axes.legend(fontsize="x-small", loc="center right")
    house.caption(figure, caption)
    return figure


def fig5(originals: np.ndarray, rows: dict[str, np.ndarray], errors: dict[str, np.ndarray], caption: str) -> Figure:
    """Return Fig. 5: a row of original images, and under it one row for each entry of `rows`, its error under each picture.

    `originals [images, 28, 28]`; `rows` maps a name to reconstructions of the same shape, `errors` to their mean square errors.
    """
    count, names = len(originals), ["original", *rows]
    figure = Figure(figsize=(1.05 * count + 1.6, 1.35 * len(names) + 0.7))
    panels = figure.subplots(len(names), count, squeeze=False)
    for line, name in zip(panels, names, strict=True):
        pictures = originals if name == "original" else rows[name]
        for column, (axes, picture) in enumerate(zip(line, pictures, strict=True)):
            axes.imshow(np.clip(picture, 0, 1), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
            if name != "original":
                axes.set_xlabel(f"{errors[name][column]:.2g}", fontsize="x-small", labelpad=2)
        line[0].set_ylabel(name, fontsize="small", rotation=0, ha="right", va="center", labelpad=8)
    house.caption(figure, caption)
    return figure


def fig5_curve(rates: pd.DataFrame, caption: str, delta: pd.DataFrame | None = None, d_0: float = 1.0) -> Figure:
    """Return what comes back as the steps shrink: images recovered against d_0, and below it the accountant's delta.

    `rates` has victim, scale, rounds, recovered, recovered_low, recovered_high, ssim (scale 0 is without quantisation); `delta`
    has d_0 and delta, and optionally a label; `d_0` is the paper's, to which the scales refer.
    """
    figure = Figure(figsize=(8.2, 6.6 if delta is not None else 4.6))
    if delta is None:
        axes, below = figure.subplots(), None
    else:
        axes, below = figure.subplots(2, 1, sharex=True, height_ratios=[2.2, 1])
    scales = sorted(rates["scale"].unique())
    smallest = min(scale for scale in scales if scale > 0)
    zero = smallest / 4  # where "no quantisation" stands on a logarithmic axis
    most = rates["rounds"].max()
    for (victim, rounds), group in rates.groupby(["victim", "rounds"], sort=True):
        marker, label = VICTIMS[victim]
        colour = COLOURS["quantised"] if victim == "CNN" else COLOURS["unquantised"]
        place = group["scale"].where(group["scale"] > 0, zero) * d_0
        bars = [group["recovered"] - group["recovered_low"], group["recovered_high"] - group["recovered"]]
        aside = (0.84 if victim == "CNN" else 1.06) * (1.12 if rounds > 1 else 1.0)  # side by side, so that all bars are seen
        axes.errorbar(place * aside, group["recovered"], yerr=np.maximum(bars, 0.0), fmt=marker,
                      ls="--" if rounds == most and most > 1 else "-", color=colour, mfc="white" if rounds > 1 else colour,
                      capsize=3, label=f"{label}, {rounds} round{'s' if rounds > 1 else ''}")  # fmt: skip
    axes.axvline(d_0, color=GREY, lw=0.8, ls=":")
    axes.text(0.93 * d_0, 0.78, "the paper's d₀", fontsize="x-small", color=GREY, rotation=90, ha="right", va="center")
    axes.set(xscale="log", ylim=(-0.03, 1.04), ylabel="images recovered (mse < 0.01)")
    axes.set_title("Single images come back as the quantisation steps shrink", pad=38)
    axes.yaxis.set_major_formatter(mpl.ticker.PercentFormatter(1.0))
    axes.legend(fontsize="x-small", loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2)
    ticks = [zero, *(scale for scale in scales if scale > 0)]
    lowest = axes if below is None else below
    lowest.set_xticks([tick * d_0 for tick in ticks], ["none", *(f"{tick * d_0:g}" for tick in ticks[1:])])
    lowest.minorticks_off()
    lowest.set_xlabel("quantisation step d₀ (bars: 95 % Wilson intervals)")
    if below is not None:
        _delta_panel(below, delta)
    house.caption(figure, caption)
    return figure


def _delta_panel(axes, delta: pd.DataFrame) -> None:
    groups = delta.groupby("label", sort=False) if "label" in delta else [("the accountant's δ", delta)]
    for (name, group), dashes in zip(groups, ("-", "--", ":", "-."), strict=False):
        axes.plot(group["d_0"], group["delta"], dashes, marker="D", ms=4, color="black", label=name)
    axes.axhspan(1.0, max(1.5, 1.2 * delta["delta"].max()), color="#999999", alpha=0.15, lw=0)
    axes.set(ylabel="δ", ylim=(0, max(1.2, 1.1 * delta["delta"].max())))
    if delta["delta"].max() > 10:
        axes.set(yscale="log", ylim=(0.5 * delta["delta"].min(), 2 * delta["delta"].max()))
    axes.legend(fontsize="x-small")


def labels_read(rates: pd.DataFrame, caption: str, rule: str = "row sums") -> Figure:
    """Return the share of labels that an eavesdropper reads, per sender and number of rounds heard.

    `rates` has sender, rule, rounds, labels, labels_low, labels_high.
    """
    figure = Figure(figsize=(8.0, 4.2))
    axes = figure.subplots()
    own = rates[rates["rule"] == rule]
    rounds = sorted(own["rounds"].unique())
    width = 0.8 / len(SENDERS)
    for k, (sender, (colour, label)) in enumerate(SENDERS.items()):
        group = own[own["sender"] == sender].sort_values("rounds")
        place = np.arange(len(rounds)) + (k - (len(SENDERS) - 1) / 2) * width
        bars = [group["labels"] - group["labels_low"], group["labels_high"] - group["labels"]]
        axes.bar(place, group["labels"], width * 0.92, color=colour, label=label)
        axes.errorbar(place, group["labels"], yerr=np.maximum(bars, 0.0), fmt="none", color="black", capsize=3, lw=1)
    axes.axhline(0.1, color=GREY, lw=1, ls="--")
    axes.text(len(rounds) - 0.5, 0.1, "by chance", fontsize="x-small", color=GREY, ha="left", va="center")
    axes.set_xticks(range(len(rounds)), [f"{k} round{'s' if k > 1 else ''} heard" for k in rounds])
    axes.set(ylim=(0, 1.05), ylabel="labels read", title="Labels of agents that hold one image (paper's d₀)")
    axes.yaxis.set_major_formatter(mpl.ticker.PercentFormatter(1.0))
    axes.set_xlim(-0.5, len(rounds) - 0.5)
    axes.legend(fontsize="x-small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
    house.caption(figure, caption)
    return figure


def reconstruction(
    scale: float, table: pd.DataFrame, originals: np.ndarray, pictures: np.ndarray, victim: str = "CNN", d_0: float = 1.0
) -> Figure:
    """Return originals and reconstructions at the computed scale of d_0 next to `scale` (for a slider).

    `table`, `originals` and `pictures` are those of `mnist_attacks.reconstructions`, row by row.
    """
    own = table[(table["victim"] == victim) & (table["sender"] == "quantised") & (table["rounds"] == 1)]
    scales = own["scale"][own["scale"] > 0].unique()
    nearest = scales[np.argmin(np.abs(np.log10(scales / scale)))]
    rows = own.index[own["scale"] == nearest][:8]
    name = f"d₀ = {nearest * d_0:g}"
    return fig5(originals[rows], {name: pictures[rows]}, {name: table.loc[rows, "mse"].to_numpy()}, "mean square errors below")
