"""Figures of notebook 2's closing section: what a promise costs, and how it is spent."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
from matplotlib.figure import Figure

from companion import house
from companion.budget import promise as promises
from companion.budget import tables, words
from companion.budget.params import Params
from companion.house import COLOURS

PROMISED, WITHOUT = COLOURS["quantised"], COLOURS["unquantised"]
SHADES = ("#FD8D3C", "#D94701", "#7F2704", "#3B0F00")


def promise(
    promises: pd.DataFrame, profiles: pd.DataFrame, params: Params, origin: str
) -> Figure | None:
    """Return accuracy against the certified delta, and delta(epsilon) of each promise, if any."""
    if promises.empty:
        return None
    figure, (left, right) = house.panels((11, 4.8), 1, 2)
    _costs(left, promises)
    for (target, curve), colour in zip(profiles.groupby("target"), SHADES, strict=False):
        right.plot(curve["epsilon"], curve["delta"], color=colour, label=f"δ(0) = {target:g}")
        right.plot(curve["epsilon"], curve["gaussian"], color=colour, ls="--", lw=1)
    right.plot([], [], color="grey", label="solid: proven, from the affinity alone")
    right.plot([], [], color="grey", ls="--", lw=1, label="dashed: Gaussian of the same affinity")
    right.set(yscale="log", ylim=(1e-5, 1), xlabel="ε", ylabel="δ(ε), for all time")
    right.set_title("The same promises, for every ε")
    right.legend(fontsize="x-small", loc="lower right")
    caption = (
        f"{origin} Unit of privacy: one data point of {params.samples} mushrooms of one agent. "
        f"{params.promise_runs} runs of {params.promise_iterations} iterations after a warm-up of "
        f"{params.promise_warm_up} data points; bars: 95 % of the mean. Accuracy of what is sent."
    )
    return house.caption(figure, caption)


def _costs(axes, promises: pd.DataFrame) -> None:
    look = {"fmt": "o-", "color": PROMISED, "capsize": 4, "label": "promised for ever"}
    bars = house.bars(promises, "accuracy")
    axes.errorbar(promises["certified"], promises["accuracy"], yerr=bars, **look)
    twin = {"color": WITHOUT, "label": "its twin, unquantised"}
    axes.plot(promises["certified"], promises["accuracy_unquantised"], "s--", **twin)
    tuned, plain = promises["tuned"].mean(), promises["figure_2"].mean()
    axes.axhline(tuned, color="#555555", ls="-.", lw=1.2, label="unprotected, tuned")
    axes.axhline(plain, color="#555555", ls=":", lw=1.2, label="Fig. 2's")
    targets = promises["target"]
    axes.set(xscale="log", xlabel="certified δ for all time")
    axes.set_ylabel("accuracy on held-out mushrooms")
    axes.set_xticks(targets, [f"{target:g}" for target in targets])
    axes.minorticks_off()
    axes.set_title("What a promise costs")
    axes.yaxis.set_major_formatter(house.PERCENT)
    axes.legend(fontsize="small", loc="lower right")


def vow(params: Params) -> Callable[..., Figure]:
    """Return the function that plans another promise and draws how it is spent."""

    def draw(delta: float, warm_up: float) -> Figure:
        changed = params.model_copy(update={"promise_warm_up": int(warm_up)})
        found = words.chosen(promises.planned(changed, delta))
        return spending(tables.spending(changed, delta), delta, found)

    return draw


def spending(table: pd.DataFrame, target: float, caption: str) -> Figure:
    """Return how a promise is spent: the certified delta of the first t iterations, by unit."""
    figure, axes = house.panels((8.4, 4.0))
    for (copies, curve), colour in zip(table.groupby("copies"), SHADES, strict=False):
        label = "one mushroom" if copies == 1 else f"one data point, {copies} mushrooms"
        axes.plot(curve["t"], curve["delta"], color=colour, lw=2.2, label=label)
    axes.axhline(target, color="black", lw=1, ls=":", label=f"promised for ever: {target:g}")
    axes.set(xscale="log", ylim=(0, 0.55), xlabel="iteration t", ylabel="certified δ until then")
    axes.set_title("For ever is spent early")
    axes.legend(fontsize="small", loc="upper left")
    return house.caption(figure, caption)
