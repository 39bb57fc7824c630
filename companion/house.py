"""The house style, and how figures reach the disk and the notebook.

Quantised is always the same colour, unquantised the same other one, D-PSGD a third (Okabe and Ito's palette, safe for colour
blindness). Saved figures have deterministic bytes: no dates, a fixed hash salt.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from weakref import WeakKeyDictionary

import matplotlib as mpl
import seaborn as sns
from IPython import get_ipython
from IPython.core.pylabtools import print_figure, select_figure_formats
from IPython.display import display
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatterSciNotation
from PIL import Image

from companion import files

COLOURS = {"quantised": "#D55E00", "unquantised": "#0072B2", "D-PSGD": "#009E73", "dithered": "#CC79A7"}
PNG_DPI, NOTEBOOK_DPI = 200, 90
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
LONG = 100.0  # a logarithmic axis that spans as much has ticks at powers of ten alone

_small: WeakKeyDictionary[Figure, bytes] = WeakKeyDictionary()  # figures that were saved, as the notebook shows them


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
        select_figure_formats(shell, {"png"})  # and no other
        shell.display_formatter.formatters["image/png"].for_type(Figure, picture)
        if not gc.get_freeze_count():
            gc.freeze()  # what a notebook has imported stays: to look through it for garbage takes a second in all


def picture(figure: Figure) -> bytes:
    """Return a figure as a small PNG: the saved one shrunk if there is one, since drawing it again takes ten times longer."""
    if figure in _small and not figure.stale:
        return _small[figure]
    with _arranged(figure, NOTEBOOK_DPI):
        return print_figure(figure, "png", dpi=NOTEBOOK_DPI, bbox_inches=None, metadata={"Software": None})


@contextlib.contextmanager
def _arranged(figure: Figure, dpi: int) -> Iterator[None]:
    """Give everything in a figure its place, once: each saving would find the places again, and draw twice for it.

    A figure without a layout engine gets the default one when it has been saved: there must be no default meanwhile.
    """
    if (engine := figure.get_layout_engine()) is None:
        yield
        return
    figure.set_dpi(dpi)
    engine.execute(figure)
    with mpl.rc_context({"figure.constrained_layout.use": False}):
        figure.set_layout_engine(None)
        try:
            yield
        finally:
            figure.set_layout_engine(engine)


def _shrunk(png: bytes) -> bytes:
    """Return a picture of PNG_DPI with NOTEBOOK_DPI."""
    whole, small = Image.open(io.BytesIO(png)).convert("RGB"), io.BytesIO()
    size = [round(side * NOTEBOOK_DPI / PNG_DPI) for side in whole.size]
    whole.resize(size, Image.Resampling.LANCZOS).save(small, "png")
    return small.getvalue()


def explore(draw: Callable[..., Figure], *, interactive: bool, **sliders: tuple[float, float, float, float]):
    """Return sliders (value, lowest, highest, step) that redraw a figure, or the figure at their first values.

    A notebook that papermill executes, or that GitHub shows, gets the figure; JupyterLab gets the sliders.
    """
    if not (interactive and "JPY_SESSION_NAME" in os.environ):  # set by a Jupyter server, and by nothing that executes in batch
        return draw(**{name: values[0] for name, values in sliders.items()})
    import ipywidgets

    return ipywidgets.interactive(
        lambda **values: display(draw(**values)),
        **{
            name: ipywidgets.FloatSlider(value=value, min=low, max=high, step=step, continuous_update=False, description=name)
            for name, (value, low, high, step) in sliders.items()
        },
    )


def save(
    figure: Figure, name: str, output: str | os.PathLike, *, notebook: str, params: dict, data: Iterable[dict], numbers: dict
) -> None:
    """Write name.svg, name.png and name.json (what made it, and its numbers) into `output`; nothing when output is empty.

    Each file is written beside its place and renamed, so that an interrupted run leaves the old one whole.
    """
    if not str(output):
        return
    folder = Path(output)
    record = {"figure": name, "notebook": notebook, "params": params, "data": list(data), "numbers": numbers}
    text = json.dumps(record, indent=1, sort_keys=True, allow_nan=False) + "\n"
    png, svg = io.BytesIO(), io.BytesIO()
    with _arranged(figure, PNG_DPI):
        figure.savefig(png, format="png", dpi=PNG_DPI, metadata={"Software": None})
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
    _small[figure], figure.stale = _shrunk(png.getvalue()), False  # until somebody changes it
    files.write(folder / f"{name}.png", lambda file: file.write(png.getvalue()))
    files.write(folder / f"{name}.svg", lambda file: file.write(svg.getvalue()))
    files.write(folder / f"{name}.json", lambda file: file.write(text.encode()))


def caption(figure: Figure, text: str) -> None:
    """Write the caption below a figure that is otherwise finished, and leave powers of ten to long logarithmic axes.

    Ticks between them would be most of what matplotlib places and draws; as a formula each power would take it ten times longer
    than as text.
    """
    figure.supxlabel(text, fontsize="x-small", color="#555555")
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = axis.get_view_interval()
            if axis.get_scale() == "log" and high >= LONG * low > 0:
                axis.minorticks_off()
                if isinstance(axis.get_major_formatter(), LogFormatterSciNotation):  # and not names that the figure has chosen
                    axis.set_major_formatter(power_of_ten)


def power_of_ten(value: float, position: float | None = None) -> str:
    """Return 1000 as 10³, for the ticks of a logarithmic axis; other numbers as they are."""
    exponent = round(math.log10(value)) if value > 0 else 0
    return f"10{str(exponent).translate(SUPERSCRIPTS)}" if math.isclose(value, 10.0**exponent) else f"{value:g}"
