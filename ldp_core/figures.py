"""One function a figure, and the house style. Figures are made from results alone; nothing is computed here.

Quantised is always the same colour, unquantised the same other one, D-PSGD a third (Okabe and Ito's palette, safe for colour
blindness). Saved figures have deterministic bytes: no dates, a fixed hash salt.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from IPython import get_ipython
from IPython.core.pylabtools import select_figure_formats
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch

from ldp_core import quantizer
from ldp_core.network import Network

COLOURS = {"quantised": "#D55E00", "unquantised": "#0072B2", "D-PSGD": "#009E73"}
R_COLOUR, C_COLOUR = "#C1272D", "#222222"  # the paper draws R's weights in red and C's in black
PNG_DPI, NOTEBOOK_DPI = 200, 90
ROOT = Path(__file__).resolve().parents[1]


def style() -> None:
    """Set the house style for this process, and show figures in a notebook as small pictures."""
    sns.set_theme(context="notebook", style="ticks", font="DejaVu Sans")
    mpl.rcParams.update({
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlelocation": "left",
        "figure.constrained_layout.use": True,
        "legend.frameon": False,
        "svg.hashsalt": "ldp-quantization-companion",
    })  # fmt: skip
    if (shell := get_ipython()) is not None:
        select_figure_formats(shell, {"png"}, dpi=NOTEBOOK_DPI, metadata={"Software": None})


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


def fig2(summary: pd.DataFrame, caption: str) -> Figure:
    """Return Fig. 2: accuracy over time, quantised against unquantised; `summary` has variant, t, mean, low, high, runs."""
    figure = Figure(figsize=(7.2, 4.4))
    axes = figure.subplots()
    for variant, curve in summary.groupby("variant", sort=True):
        colour = COLOURS[variant]
        axes.plot(curve["t"], curve["mean"], color=colour, label=f"{variant}: mean of {curve['runs'].iloc[0]} runs")
        axes.fill_between(
            curve["t"], curve["low"], curve["high"], color=colour, alpha=0.18, lw=0, label="5 % to 95 % of the runs"
        )
    axes.set(xlabel="iteration t", ylabel="accuracy on held-out mushrooms", title="Algorithm 1 with and without quantisation")
    axes.yaxis.set_major_formatter(mpl.ticker.PercentFormatter(1.0, decimals=0))
    axes.legend(loc="lower right", fontsize="small")
    _caption(figure, caption)
    return figure


def save(
    figure: Figure, name: str, output: str | os.PathLike, *, notebook: str, params: dict, data: Iterable[dict], numbers: dict
) -> None:
    """Write name.svg, name.png and name.json (what made it, and its numbers) into `output`; nothing when output is empty.

    Each file is written beside its place and renamed, so that an interrupted run leaves the old one whole.
    """
    if not str(output):
        return
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    record = {"figure": name, "notebook": notebook, "params": params, "data": list(data), "numbers": numbers}
    with _replacing(folder / f"{name}.svg") as path:
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
    with _replacing(folder / f"{name}.png") as path:
        figure.savefig(path, format="png", dpi=PNG_DPI, metadata={"Software": None})
    with _replacing(folder / f"{name}.json") as path:
        path.write_text(json.dumps(record, indent=1, sort_keys=True, allow_nan=False) + "\n", encoding="utf-8")


class _replacing:
    """Give a temporary path beside `path`, and rename it over `path` when the block ends well."""

    def __init__(self, path: Path):
        self._path = path

    def __enter__(self) -> Path:
        handle, name = tempfile.mkstemp(dir=self._path.parent, prefix=f".{self._path.name}.")
        os.close(handle)
        self._temporary = Path(name)
        return self._temporary

    def __exit__(self, kind, value, traceback) -> None:
        if kind is None:
            self._temporary.chmod(0o644)
            self._temporary.replace(self._path)
        else:
            self._temporary.unlink(missing_ok=True)


def _arrow(axes, start: np.ndarray, end: np.ndarray, bend: float, colour: str, label: str) -> None:
    arrow = FancyArrowPatch(start, end, connectionstyle=f"arc3,rad={bend}", arrowstyle="-|>", mutation_scale=15,
                            shrinkA=27, shrinkB=16, color=colour, lw=1.5, zorder=2)  # fmt: skip
    axes.add_patch(arrow)
    (dx, dy), middle = end - start, (start + end) / 2
    x, y = middle + bend / 2 * np.array([dy, -dx])
    axes.text(x, y, label, color=colour, fontsize=9, ha="center", va="center", zorder=3,
              bbox={"boxstyle": "round,pad=0.12", "fc": "white", "ec": "none"})  # fmt: skip


def _caption(figure: Figure, caption: str) -> None:
    figure.supxlabel(caption, fontsize="x-small", color="#555555")
