"""Notebook 3: figures of training and budgets (those of attacks: `attack_figures`).

Each function draws, keeps the figure with its numbers in `output`, and returns it. `record` is what
the notebook is saved with: its parameters and data.
"""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pandas as pd
from IPython.display import Markdown
from matplotlib.figure import Figure

from companion import house
from companion.data.store import Provenance
from companion.house import COLOURS, PERCENT, bars, explore, panels, style  # noqa: F401
from companion.mnist import budget, promise_tables, tables
from companion.mnist.params import Params

KINDS = {"train": "on the images collected so far", "test": "on images that no agent trains on"}
SAMPLES_COLOURS = ("#7F2704", "#FD8D3C", "#FDBE85")  # fewer images at a time, darker
GREY = "#555555"
PROMISE_COLOURS = ("#08519C", "#4292C6", "#9ECAE1", "#54278F", "#9E9AC8")  # larger delta, darker
DASHES = {"softmax": "-", "network": "--", "convolution": "-."}
WITHOUT = {"twin": ("-", "its twin, unquantised"), "unprotected": (":", "no promise at all")}


def kept(figure: Figure, name: str, caption: str, record: dict, output: str, **numbers) -> Figure:
    """Return the figure with its caption (data and profile first), saved with its numbers."""
    data, profile = Provenance(**record["data"][0]), record["params"]["profile"]
    house.caption(figure, f"{data.caption()} Profile: {profile}.\n{caption}")
    house.save(figure, name, output, **record, numbers=numbers)
    return figure


def fig4(trained: tables.Trainings, record: dict, output: str) -> Figure:
    """Return Fig. 4: accuracy over time, on training (left) and test images (right).

    The history with most repeats has bands, others are dotted. A training that diverged ends in a
    cross.
    """
    (figure, both), summary = panels((10.5, 4.6), 1, 2, sharey=True), tables.summary(trained.curves)
    for axes, (kind, where) in zip(both, KINDS.items(), strict=True):
        _curves(axes, summary[summary["kind"] == kind], trained.ends)
        axes.set(xlabel="iteration t", title=f"Accuracy {where}", ylim=(0, 1))
    band = "± one standard deviation over agents and repeats"
    axes.fill_between([], [], [], color="grey", alpha=0.25, label=band)
    handles = axes.get_legend_handles_labels()
    figure.legend(*handles, loc="outside upper center", ncols=2, fontsize="x-small")
    numbers = {"summary": summary.to_dict("list")}
    numbers |= {"final_difference": tables.paired_difference(trained.main)}
    numbers |= {"diverged": trained.ends.query("diverged >= 0")["sentence"].tolist()}
    params = record["params"]
    left = f" Left: accuracy on {params['train_sample']} draws of what was collected."
    caption = (
        f"Gradients over: {tables.history_words(params['history_sample'])}; edge weights "
        f"{params['weight']:g}; initial values: {params['initialisation']},\nactivation: "
        f"{params['activation']}.{left if params['train_sample'] else ''}"
    )
    return kept(figure, "fig4", caption, record, output, **numbers)


def _curves(axes, summary: pd.DataFrame, ends: pd.DataFrame) -> None:
    main = summary.groupby("history")["repeats"].max().idxmax()
    for (variant, history), curve in summary.groupby(["variant", "history"]):
        repeats = _count(curve["repeats"].iloc[0], "repeat")
        dress = {"color": COLOURS[variant], "ls": "-" if history == main else ":"}
        axes.plot(
            curve["t"], curve["mean"], label=f"{variant}, {history}: mean of {repeats}", **dress
        )
        if history == main:
            low, high = (curve["mean"] + sign * curve["standard_deviation"] for sign in (-1, 1))
            axes.fill_between(curve["t"], low, high, color=COLOURS[variant], alpha=0.15, lw=0)
    for variant, group in ends[ends["diverged"] >= 0].groupby("variant"):
        _crosses(axes, summary[summary["variant"] == variant], group, COLOURS[variant])
    axes.axhline(0.1, color="grey", lw=0.8, ls=(0, (1, 3)))
    place = {"ha": "right", "va": "top", "fontsize": "x-small"}
    axes.text(axes.get_xlim()[1], 0.1, "chance ", color="grey", **place)
    axes.yaxis.set_major_formatter(PERCENT)


def _crosses(axes, summary: pd.DataFrame, diverged: pd.DataFrame, colour: str) -> None:
    """Mark where trainings of one variant diverged: a cross at the last accuracy before it."""
    for when, same in diverged.groupby("diverged"):
        before = summary[summary["t"] <= when]
        height = before["mean"].iloc[before["t"].argmax()] if len(before) else 0.1
        axes.plot(when, height, "X", ms=10, color=colour, mec="black", zorder=5)
        words = f"{_count(len(same), 'repeat')} diverged at t = {when}"
        place = {"xytext": (8, -16), "textcoords": "offset points", "fontsize": "small"}
        axes.annotate(words, (when, height), color=colour, **place)


def ablation(table: pd.DataFrame, record: dict, output: str) -> Figure:
    """Return bars: the final accuracy when one open choice is made otherwise, or when it
    diverged."""
    choices = list(dict.fromkeys(table["choice"]))
    figure, axes = panels((8.6, 0.62 * len(choices) + 1.4))
    groups = table.groupby("variant", sort=True)
    for offset, (variant, group) in zip((-0.19, 0.19), groups, strict=False):
        places = np.array([choices.index(choice) for choice in group["choice"]]) + offset
        _bars(axes, places, group, variant)
    axes.axvline(0.1, color="grey", lw=1, ls=":", label="chance")
    axes.set(yticks=range(len(choices)), yticklabels=choices, xlim=(0, 1))
    axes.set(xlabel="accuracy on test images", ylim=(max(len(choices), 1) - 0.5, -0.5))
    axes.xaxis.set_major_formatter(PERCENT)
    axes.set_title("One choice made otherwise")
    axes.legend(loc="lower right", fontsize="small")
    params = record["params"]
    caption = (
        f"Accuracy after {params['ablation_iterations']} iterations, one training a bar,\n"
        f"{tables.history_words(params['history_sample'])}; "
        "whiskers: standard deviation over agents."
    )
    numbers = {"ablation": tables.plain(table)}
    return kept(figure, "fig4_ablation", caption, record, output, **numbers)


def _bars(axes, places: np.ndarray, group: pd.DataFrame, variant: str) -> None:
    dress = {"color": COLOURS[variant], "alpha": 0.85, "error_kw": {"lw": 1, "ecolor": GREY}}
    axes.barh(places, group["final"], 0.34, xerr=group["spread"], label=variant, **dress)
    for place, when in zip(places, group["diverged"], strict=True):
        if when >= 0:
            axes.plot(0.012, place, "X", color=COLOURS[variant], ms=7)
            words = {"color": COLOURS[variant], "va": "center", "fontsize": "small"}
            axes.text(0.03, place, f"diverged at t = {when}", **words)


def network_budget(found: pd.DataFrame, record: dict, output: str):
    """Return what one replaced image costs: over iterations (left), and over d_0 (right)."""
    if found.empty:
        return Markdown("No budget was asked for: `budget_scales` is empty.")
    (figure, (left, right)), spent = panels((10.5, 4.4), 1, 2, sharey=True), tables.spent(found)
    scale = min(found["scale"].unique(), key=lambda scale: abs(np.log(scale)))
    here = found[(found["scale"] == scale) & (found["diverged"] < 0) & (found["T"] >= 2)]
    over_time = here.groupby(["samples", "T"])[["paper", "lower", "upper"]].median().reset_index()
    _deltas(left, over_time, "T")
    _deltas(right, spent.dropna(subset=["paper"]), "scale")
    for place in spent[spent["diverged"] > 0]["scale"].unique():
        right.plot(place, 1, "X", ms=9, color=GREY)
        words = {"xytext": (6, 9), "textcoords": "offset points", "ha": "right", "color": GREY}
        right.annotate("the network diverges", (place, 1), fontsize="x-small", **words)
    left.xaxis.set_major_locator(mpl.ticker.MaxNLocator(integer=True))
    at = "At the paper's d₀" if scale == 1 else f"At {scale:g} times the paper's d₀"
    left.set(xlabel="iterations seen by the attacker", ylabel="δ of one replaced image", title=at)
    says_nothing = " above this line a δ says nothing"
    left.text(left.get_xlim()[0], 1.15, says_nothing, fontsize="x-small", va="bottom")
    right.set(xscale="log", xlabel="d₀ as a multiple of the paper's")
    right.set(title="At other quantisation steps, at the end")
    right.legend(loc="upper right", fontsize="x-small")
    params = record["params"]
    caption = (
        f"One image of the first iteration replaced, repeats: {params['budget_repeats']};\n"
        f"right: after {params['budget_iterations']} iterations. "
        f"Bands: certain bounds, or {budget.CONFIDENCE:.0%} confidence."
    )
    numbers = {"budget": tables.plain(spent)}
    return kept(figure, "fig5_budget", caption, record, output, **numbers)


def _deltas(axes, table: pd.DataFrame, x: str) -> None:
    """Draw the paper's sum and the exact total variation against column x."""
    for colour, (samples, curve) in zip(SAMPLES_COLOURS, table.groupby("samples"), strict=False):
        at_a_time, dress = f"{_count(samples, 'image')} at a time", {"ms": 4, "color": colour}
        axes.plot(curve[x], curve["paper"], "o--", label=f"the paper's sum, {at_a_time}", **dress)
        middle = (curve["lower"] + curve["upper"]) / 2
        axes.plot(curve[x], middle, "s-", label=f"exact total variation, {at_a_time}", **dress)
        axes.fill_between(curve[x], curve["lower"], curve["upper"], color=colour, alpha=0.3, lw=0)
    axes.axhline(1, color="black", lw=0.9)
    axes.set(yscale="log")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def promises(found: promise_tables.Kept, params: Params, record: dict, output: str):
    """Return accuracy under promises over time (left), and what the informed attacker reads."""
    if found.ends.empty:
        return Markdown(
            "No promise was asked for: `promise_targets`, `network_targets` and "
            "`convolution_targets` are empty."
        )
    figure, (left, right) = panels((10.5, 4.4), 1, 2, width_ratios=[1.25, 1])
    _promised(left, found.curves)
    table = promise_tables.attacked(found)
    _attacked(right, table)
    caption = (
        f"{found.images} training images, five agents; {found.test} test images; "
        f"seeds: {params.promise_seeds} (bands: from the worst to the best).\n"
        "δ: for all time, one image. Right: the attacker knows all other images; "
        "bars: 95 % Student intervals over agents and seeds."
    )
    numbers = {"accuracy": tables.plain(promise_tables.summary(found))}
    numbers |= {"attacked": tables.plain(table)}
    return kept(figure, "fig5_promise", caption, record, output, **numbers)


def _promised(axes, curves: pd.DataFrame) -> None:
    for place, ((kind, target), group) in enumerate(curves.groupby(["kind", "target"], sort=False)):
        colour, dashes = PROMISE_COLOURS[place % len(PROMISE_COLOURS)], DASHES[kind]
        for variant, own in group.groupby("variant", sort=False):
            by_t = own.groupby("t")["accuracy"]
            mean = by_t.mean()
            if variant == "promise":
                axes.plot(mean.index, mean, dashes, color=colour, label=f"{kind}, δ = {target:g}")
                axes.fill_between(mean.index, by_t.min(), by_t.max(), color=colour, alpha=0.2, lw=0)
            elif place == 0:
                line, label = WITHOUT[variant]
                grey = {"color": GREY, "lw": 1.2, "ls": line, "label": f"{kind}: {label}"}
                axes.plot(mean.index, mean, **grey)
    axes.xaxis.set_major_locator(mpl.ticker.MaxNLocator(integer=True))
    begun = curves[curves["t"] > curves["t"].min()]["accuracy"]  # the first is noise alone
    lowest = max(0.0, begun.min() - 0.02) if len(begun) else 0.0
    axes.set(xlabel="iteration t", ylim=(lowest, 1.0), title="Accuracy of what is sent, by promise")
    axes.yaxis.set_major_formatter(PERCENT)
    axes.legend(loc="lower right", fontsize="x-small")


def _attacked(axes, table: pd.DataFrame) -> None:
    names = [f"{row.kind}, δ = {row.target:g}: {row.read}" for row in table.itertuples()]
    places = np.arange(len(table))
    axes.barh(places, table["allowed"], 0.7, color="#DDDDDD", label="allowed by the promise")
    looks = {"fmt": "o", "color": "#D55E00", "capsize": 3, "label": "read"}
    axes.errorbar(table["share"], places, xerr=bars(table, "share", "low", "high"), **looks)
    axes.plot(table["chance"], places, "|", color="black", ms=14, label="by guessing")
    axes.set(yticks=places, yticklabels=names, xlim=(0, 1), ylim=(len(table) - 0.4, -0.6))
    axes.set(xlabel="share of images", title="Read by an attacker who knows all the rest")
    axes.tick_params(axis="y", labelsize="x-small")
    axes.xaxis.set_major_formatter(PERCENT)
    axes.legend(loc="upper right", fontsize="x-small")
