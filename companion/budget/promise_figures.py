"""Figures of notebook 2's last section: the ladder of certificates, and the frontier of promise against accuracy."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion import house
from companion.house import COLOURS

RUNGS = {
    "theorem": "Theorem 2.2 as printed",
    "recursion": "our recursion, summed as in the paper",
    "product": "composed by coupling instead",
    "warm-up": "+ warm-up",
    "dither": "+ public dither",
    "l-infinity": "+ l-infinity norm",
    "signs": "+ signs of the two updates",
    "losses": "+ exact total variation: the certificate",
}
DITHERED = COLOURS["dithered"]


def ladder(rungs: dict[str, np.ndarray], audited: float | None, caption: str) -> Figure:
    """Return what each step of the proof gains: bounds of delta over infinite time per agent, and what an attack proves.

    `rungs` maps the names of RUNGS to one bound per agent; `audited` is a lower bound (None: no attack was tried).
    """
    figure = Figure(figsize=(8.6, 4.6))
    axes = figure.subplots()
    for place, (name, label) in enumerate(RUNGS.items()):
        values, height = rungs[name], len(RUNGS) - place
        colour = DITHERED if place >= 4 else "#555555"
        axes.plot(values, np.full(len(values), height), "o", color=colour, ms=7, alpha=0.8)
        axes.text(values.max() * 1.6, height, f"{values.max():.3g}", va="center", fontsize="small", color=colour)
        axes.text(2e-4, height, label, va="center", ha="right", fontsize="small")
    if audited is not None:
        axes.plot(max(audited, 1e-3), 0, ">", color="black", ms=9)
        axes.text(max(audited, 1e-3) * 1.6, 0, f"at least {audited:.3g}", va="center", fontsize="small")
        axes.text(2e-4, 0, "what an informed attack proves", va="center", ha="right", fontsize="small")
    axes.axvspan(1, 1e11, color="#999999", alpha=0.15, lw=0)
    axes.text(1.5, len(RUNGS) + 0.75, "above 1: says nothing", fontsize="small", color="#555555")
    axes.set(
        xscale="log",
        xlim=(3e-4, 1e11),
        ylim=(-0.7, len(RUNGS) + 1.2),
        xlabel="bound on δ over infinite time (one dot an agent)",
        yticks=[],
    )
    axes.spines["left"].set_visible(False)
    house.caption(figure, caption)
    return figure


def promise(table: pd.DataFrame, audits: pd.DataFrame, caption: str) -> Figure:
    """Return accuracy against the certified delta: dithered, its twin, and the paper's quantizer, which certifies nothing.

    `table` has target, t, certified, accuracy, accuracy_plain, accuracy_unquantised, lost_low, lost_high; `audits` has target
    and audited. One panel for each t.
    """
    moments = sorted(table["t"].unique())
    figure = Figure(figsize=(5.4 * len(moments) + 1.6, 4.4))
    panels = figure.subplots(1, len(moments), sharey=True, squeeze=False)[0]
    for axes, t in zip(panels, moments, strict=True):
        _promise_panel(axes, table[table["t"] == t], audits)
        axes.set(title=f"What a promise costs: after {t} iterations")
    panels[0].set(ylabel="accuracy on held-out mushrooms")
    panels[-1].legend(fontsize="x-small", loc="lower right")
    house.caption(figure, caption)
    return figure


def _promise_panel(axes, table: pd.DataFrame, audits: pd.DataFrame) -> None:
    centre = table["accuracy_unquantised"]
    band = [table["accuracy"] - (centre + table["lost_low"]), (centre + table["lost_high"]) - table["accuracy"]]
    axes.errorbar(table["certified"], table["accuracy"], yerr=band, fmt="o-", color=DITHERED, capsize=4,
                  label="dithered: certified for ever (bars: 95 % of the difference to the twin)")  # fmt: skip
    axes.plot(
        table["certified"],
        centre,
        "s--",
        color=COLOURS["unquantised"],
        label="unquantised twin, same schedules (certifies nothing)",
    )
    axes.plot(
        np.ones(len(table)),
        table["accuracy_plain"],
        "D",
        color=COLOURS["quantised"],
        label="paper's quantizer, same schedules: certified δ = 1",
    )
    for row in table.merge(audits, on="target").itertuples():
        axes.annotate(f"attack proves {row.audited:.3f}", (row.certified, row.accuracy), textcoords="offset points",
                      xytext=(6, -14), fontsize="x-small", color="#555555")  # fmt: skip
    axes.set(xscale="log", xlabel="certified δ over infinite time")
    axes.yaxis.set_major_formatter(mpl.ticker.PercentFormatter(1.0, decimals=1))
