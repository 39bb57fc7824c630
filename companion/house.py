"""The house style, and how figures reach the disk and the notebook.

Quantised is always the same colour, unquantised the same other one, D-PSGD a third (Okabe and Ito's
palette, safe for colour blindness). Saved figures have deterministic bytes: no dates, a fixed salt.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import math
import os
import textwrap
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from IPython import get_ipython
from IPython.core.pylabtools import print_figure, select_figure_formats
from IPython.display import display
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatterSciNotation, PercentFormatter
from PIL import Image

from companion import files

COLOURS = {
    "quantised": "#D55E00",
    "unquantised": "#0072B2",
    "D-PSGD": "#009E73",
    "dithered": "#CC79A7",
    "at sent": "#56B4E9",
}
PERCENT = PercentFormatter(1.0, decimals=0)
PNG_DPI, NOTEBOOK_DPI = 200, 90
COMPRESSION = 3  # of 9: two thirds of the time of 6, for seven more bytes in a hundred
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
LONG = 100.0  # a logarithmic axis that spans as much has ticks at powers of ten alone
LETTERS = 13  # of a caption, to an inch

_small: WeakKeyDictionary[Figure, bytes] = WeakKeyDictionary()  # saved figures, as they are shown


def style() -> None:
    """Set the house style for this process, and show figures in a notebook as small pictures."""
    sns.set_theme(context="notebook", style="ticks", font="DejaVu Sans")
    mpl.rcParams.update({
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlelocation": "left",
        "axes.titley": 1.0,  # where it is anyway: to find that out takes a tenth of all drawing
        "figure.constrained_layout.use": True,
        "legend.frameon": False,
        "svg.hashsalt": "ldp-quantization-companion",
    })  # fmt: skip
    if (shell := get_ipython()) is not None:
        select_figure_formats(shell, {"png"})  # and no other
        shell.display_formatter.formatters["image/png"].for_type(Figure, picture)
        if not gc.get_freeze_count():
            gc.freeze()  # what is imported stays: to look for garbage in it takes a second in all


def panels(size: tuple[float, float], *rows_and_columns: int, **options) -> tuple[Figure, Any]:
    """Return an empty figure of a size in inches, and its axes as `Figure.subplots` gives them."""
    figure = Figure(figsize=size)
    return figure, figure.subplots(*rows_and_columns, **options)


def band(axes, curve: pd.DataFrame, colour: str, middle: str = "mean", **line) -> None:
    """Draw a column over the index, and the band from low to high around it."""
    axes.plot(curve[middle], color=colour, **line)
    axes.fill_between(curve.index, curve["low"], curve["high"], color=colour, alpha=0.18, lw=0)


def bars(table: pd.DataFrame, middle: str, low: str = "", high: str = "") -> np.ndarray:
    """Return how far the ends of intervals, columns <middle>_low and _high, lie from their middle.

    That is what error bars are drawn from; the ends may have names of their own.
    """
    ends = table[[low or f"{middle}_low", high or f"{middle}_high"]].to_numpy().T
    return np.abs(ends - table[middle].to_numpy())


def picture(figure: Figure) -> bytes:
    """Return a figure as a small PNG: the saved one shrunk, as drawing takes ten times longer."""
    if figure in _small and not figure.stale:
        return _small[figure]
    options = {"bbox_inches": None, "metadata": {"Software": None}}
    with _arranged(figure, NOTEBOOK_DPI):
        return print_figure(figure, "png", dpi=NOTEBOOK_DPI, **options)


@contextlib.contextmanager
def _arranged(figure: Figure, dpi: int) -> Iterator[None]:
    """Give everything in a figure its place, once: each saving would find the places again.

    A figure without a layout engine gets the default one when it has been saved: there must be no
    default meanwhile.
    """
    figure.set_dpi(dpi)
    if (engine := figure.get_layout_engine()) is None:
        yield
        return
    engine.execute(figure)
    with mpl.rc_context({"figure.constrained_layout.use": False}):
        figure.set_layout_engine(None)
        try:
            yield
        finally:
            figure.set_layout_engine(engine)


def explore(draw: Callable[..., Figure], *, interactive: bool, **sliders: tuple):
    """Return sliders (value, lowest, highest, step, label) that redraw a figure, or the figure.

    A notebook that papermill executes, or that GitHub shows, gets the figure at the sliders' first
    values; JupyterLab gets the sliders. Without a label a slider has its name.
    """
    if not (interactive and "JPY_SESSION_NAME" in os.environ):  # which only a Jupyter server sets
        return draw(**{name: values[0] for name, values in sliders.items()})
    import ipywidgets

    def slider(name: str, value: float, low: float, high: float, step: float, label: str = ""):
        limits = {"value": value, "min": low, "max": high, "step": step}
        looks = {"style": {"description_width": "initial"}, "layout": {"width": "640px"}}
        words = {"description": label or name, "continuous_update": False}
        return ipywidgets.FloatSlider(**limits, **words, **looks)

    own = {name: slider(name, *values) for name, values in sliders.items()}
    return ipywidgets.interactive(lambda **values: display(draw(**values)), **own)


def save(
    figure: Figure | None,
    name: str,
    output: str | os.PathLike,
    *,
    notebook: str,
    params: dict,
    data: Iterable[dict],
    numbers: dict,
) -> None:
    """Write name.svg, name.png and name.json (what made it, and its numbers) into `output`.

    Nothing is written when output is empty, or when there is no figure because its part was left
    out. Each file is written beside its place and renamed: an interrupted run leaves the old one.
    """
    if figure is None or not str(output):
        return
    record = {"figure": name, "notebook": notebook, "params": params, "data": list(data)}
    record |= {"numbers": numbers}
    text = json.dumps(record, indent=1, sort_keys=True, allow_nan=False) + "\n"
    png, svg, small, place = io.BytesIO(), io.BytesIO(), io.BytesIO(), Path(output)
    with _arranged(figure, PNG_DPI):
        pixels, size = FigureCanvasAgg(figure).print_to_buffer()
        whole = Image.frombuffer("RGBA", size, pixels).convert("RGB")  # nothing is clear
        whole.save(png, "png", dpi=(PNG_DPI, PNG_DPI), compress_level=COMPRESSION)
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
    less = [round(side * NOTEBOOK_DPI / PNG_DPI) for side in size]
    whole.resize(less, Image.Resampling.HAMMING).save(small, "png", compress_level=COMPRESSION)
    _small[figure], figure.stale = small.getvalue(), False  # until somebody changes it
    for suffix, content in (("png", png.getvalue()), ("svg", svg.getvalue()), ("json", text)):
        files.put(place / f"{name}.{suffix}", content)


def source(profile: str, *data) -> str:
    """Return the beginning of a caption: the profile, and what the data are."""
    return " ".join([f"Profile {profile}.", *(each.provenance.caption() for each in data)])


def caption(figure: Figure, text: str) -> Figure:
    """Return a finished figure with its caption written below, in lines that fit its width.

    Long logarithmic axes keep powers of ten alone, as text: other ticks would be most of what
    matplotlib places and draws, and a power as a formula takes it ten times longer.
    """
    lines = textwrap.fill(text, int(LETTERS * figure.get_figwidth()))
    figure.supxlabel(lines, fontsize="x-small", color="#555555")
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = axis.get_view_interval()
            if axis.get_scale() == "log" and high >= LONG * low > 0:
                axis.minorticks_off()
                if isinstance(axis.get_major_formatter(), LogFormatterSciNotation):  # not names
                    axis.set_major_formatter(power_of_ten)
    return figure


def power_of_ten(value: float, position: float | None = None) -> str:
    """Return 1000 as 10³, for the ticks of a logarithmic axis; other numbers as they are."""
    exponent = round(math.log10(value)) if value > 0 else 0
    is_power = math.isclose(value, 10.0**exponent)
    return f"10{str(exponent).translate(SUPERSCRIPTS)}" if is_power else f"{value:g}"
