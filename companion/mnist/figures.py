"""Figures of notebook 3 that show training and budgets: Fig. 4, the ablation, the budget of a network."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion import house
from companion.house import COLOURS, explore, save, style  # noqa: F401 (a notebook's figures and their dress)
from companion.mnist import attack_figures as mnist_attacks
from companion.mnist.attack_figures import fig5_curve, idlg_calibration, labels_read, reconstruction  # noqa: F401

KINDS = {"train": "on the images collected so far", "test": "on images that no agent trains on"}
GALLERY = {
    "CNN,\nD-PSGD": ("CNN", "D-PSGD", 0.0),
    "CNN,\nAlgorithm 1": ("CNN", "quantised", 1.0),
    "LeNet,\nD-PSGD": ("LeNet", "D-PSGD", 0.0),
    "LeNet,\nAlgorithm 1": ("LeNet", "quantised", 1.0),
}  # row of Fig. 5: victim, sender, multiple of d_0
SAMPLES_COLOURS = ("#7F2704", "#FD8D3C", "#FDBE85")  # fewer images at a time, darker


def fig4(summary: pd.DataFrame, ends: pd.DataFrame, caption: str) -> Figure:
    """Return Fig. 4: accuracy over time, on training images (left) and test images (right), with and without quantisation.

    `summary` has variant, history, kind, t, mean, standard_deviation, repeats; `ends` variant, history, diverged (-1, or the
    iteration). The history with most repeats has bands, others are dotted. A training that diverged ends in a cross.
    """
    figure = Figure(figsize=(10.5, 4.6))
    main = summary.groupby("history")["repeats"].max().idxmax()
    for axes, (kind, where) in zip(figure.subplots(1, 2, sharey=True), KINDS.items(), strict=True):
        for (variant, history), curve in summary[summary["kind"] == kind].groupby(["variant", "history"]):
            label = f"{variant}, {history}: mean of {_count(curve['repeats'].iloc[0], 'repeat')}"
            axes.plot(curve["t"], curve["mean"], color=COLOURS[variant], ls="-" if history == main else ":", label=label)
            if history == main:
                low, high = (curve["mean"] + sign * curve["standard_deviation"] for sign in (-1, 1))
                axes.fill_between(curve["t"], low, high, color=COLOURS[variant], alpha=0.15, lw=0)
        for variant, group in ends[ends["diverged"] >= 0].groupby("variant"):
            _crosses(axes, summary[(summary["kind"] == kind) & (summary["variant"] == variant)], group, COLOURS[variant])
        axes.axhline(0.1, color="grey", lw=0.8, ls=(0, (1, 3)))
        axes.text(axes.get_xlim()[1], 0.1, "chance ", color="grey", fontsize="x-small", ha="right", va="top")
        axes.set(xlabel="iteration t", title=f"Accuracy {where}", ylim=(0, 1))
        axes.yaxis.set_major_formatter(mpl.ticker.PercentFormatter(1.0, decimals=0))
    axes.fill_between([], [], [], color="grey", alpha=0.25, label="± one standard deviation over agents and repeats")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=2, fontsize="x-small")
    house.caption(figure, caption)
    return figure


def ablation(table: pd.DataFrame, caption: str) -> Figure:
    """Return bars: the final accuracy when one open choice is made otherwise; a training that diverged says when instead.

    `table` has choice, variant, final (NaN when diverged), spread, diverged.
    """
    choices = list(dict.fromkeys(table["choice"]))
    figure = Figure(figsize=(8.6, 0.62 * len(choices) + 1.4))
    axes = figure.subplots()
    for offset, (variant, group) in zip((-0.19, 0.19), table.groupby("variant", sort=True), strict=False):
        places = np.array([choices.index(choice) for choice in group["choice"]]) + offset
        axes.barh(
            places, group["final"], 0.34, xerr=group["spread"], color=COLOURS[variant], alpha=0.85, label=variant,
            error_kw={"lw": 1, "ecolor": "#555555"},
        )  # fmt: skip
        for place, when in zip(places, group["diverged"], strict=True):
            if when >= 0:
                axes.plot(0.012, place, "X", color=COLOURS[variant], ms=7)
                axes.text(0.03, place, f"diverged at t = {when}", color=COLOURS[variant], va="center", fontsize="small")
    axes.axvline(0.1, color="grey", lw=1, ls=":", label="chance")
    axes.set(
        yticks=range(len(choices)),
        yticklabels=choices,
        xlim=(0, 1),
        xlabel="accuracy on test images",
        ylim=(max(len(choices), 1) - 0.5, -0.5),
    )
    axes.xaxis.set_major_formatter(mpl.ticker.PercentFormatter(1.0, decimals=0))
    axes.set_title("One choice made otherwise")
    axes.legend(loc="lower right", fontsize="small")
    house.caption(figure, caption)
    return figure


def network_budget(budgets: pd.DataFrame, last: pd.DataFrame, caption: str) -> Figure:
    """Return what one replaced image costs: over the number of iterations at the paper's d_0 (left), and over d_0 (right).

    `budgets` has samples, scale, T, repeat, paper, lower, upper, diverged; `last` the same by samples and scale, at the end.
    """
    figure = Figure(figsize=(10.5, 4.4))
    left, right = figure.subplots(1, 2, sharey=True)
    paper_scale = min(budgets["scale"].unique(), key=lambda scale: abs(np.log(scale)))
    here = budgets[(budgets["scale"] == paper_scale) & (budgets["diverged"] < 0) & (budgets["T"] >= 2)]
    over_time = here.groupby(["samples", "T"])[["paper", "lower", "upper"]].median().reset_index()
    for axes, table, x in ((left, over_time, "T"), (right, last.dropna(subset=["paper"]), "scale")):
        for colour, (samples, curve) in zip(SAMPLES_COLOURS, table.groupby("samples"), strict=False):
            at_a_time = f"{_count(samples, 'image')} at a time"
            axes.plot(curve[x], curve["paper"], "o--", ms=4, color=colour, label=f"the paper's sum, {at_a_time}")
            middle = (curve["lower"] + curve["upper"]) / 2
            axes.plot(curve[x], middle, "s-", ms=4, color=colour, label=f"exact total variation, {at_a_time}")
            axes.fill_between(curve[x], curve["lower"], curve["upper"], color=colour, alpha=0.3, lw=0)
        axes.axhline(1, color="black", lw=0.9)
        axes.set(yscale="log")
    for scale in last[last["diverged"] > 0]["scale"].unique():
        right.plot(scale, 1, "X", ms=9, color="#555555")
        right.annotate("the network diverges", (scale, 1), xytext=(6, 9), textcoords="offset points", ha="right",
                       fontsize="x-small", color="#555555")  # fmt: skip
    at = "At the paper's d₀" if paper_scale == 1 else f"At {paper_scale:g} times the paper's d₀"
    left.xaxis.set_major_locator(mpl.ticker.MaxNLocator(integer=True))
    left.set(xlabel="iterations seen by the attacker", ylabel="δ of one replaced image", title=at)
    left.text(left.get_xlim()[0], 1.15, " above this line a δ says nothing", fontsize="x-small", va="bottom")
    right.set(xscale="log", xlabel="d₀ as a multiple of the paper's", title="At other quantisation steps, at the end")
    right.legend(loc="upper right", fontsize="x-small")
    house.caption(figure, caption)
    return figure


def gallery(table: pd.DataFrame, originals: np.ndarray, pictures: np.ndarray, count: int, caption: str) -> Figure:
    """Return Fig. 5 for the first `count` images attacked from one round: the original, and what each sender gave away.

    `table` has victim, sender, scale, rounds, image, mse; `originals` and `pictures [rows, 28, 28]` belong to its rows.
    """
    keys = ["victim", "sender", "scale", "rounds"]
    found = {name: table.index[(table[keys] == [*case, 1]).all(axis=1)][:count] for name, case in GALLERY.items()}
    errors = {name: table.loc[rows, "mse"].to_numpy() for name, rows in found.items()}
    first = next(iter(found.values()))
    return mnist_attacks.fig5(originals[first], {name: pictures[rows] for name, rows in found.items()}, errors, caption)


def _crosses(axes, of_variant: pd.DataFrame, diverged: pd.DataFrame, colour: str) -> None:
    """Mark where trainings of one variant diverged: one cross an iteration, at the last accuracy before it."""
    for when, same in diverged.groupby("diverged"):
        before = of_variant[of_variant["t"] <= when]
        height = before["mean"].iloc[before["t"].argmax()] if len(before) else 0.1
        axes.plot(when, height, "X", ms=10, color=colour, mec="black", zorder=5)
        axes.annotate(f"{_count(len(same), 'repeat')} diverged at t = {when}", (when, height), xytext=(8, -16),
                      textcoords="offset points", color=colour, fontsize="small")  # fmt: skip


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
