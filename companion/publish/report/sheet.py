"""The paper's seven figures, as they came out here, on one A4 page to print."""

from __future__ import annotations

import io
import textwrap

import matplotlib as mpl
from matplotlib.figure import Figure
from PIL import Image

from companion.publish.report import gather

NAME = "figures.pdf"
A4 = (8.27, 11.69)  # inches
COLUMNS, ROWS = 2, 4
LETTERS = 74  # of a line of a caption
PIXELS = 1100  # across a picture: 300 dots an inch
UNDATED = {"CreationDate": None, "Creator": "ldp-quantization-companion", "Producer": None}
TITLE = "The seven figures of the paper, redrawn"


def draw(found: gather.Found) -> bytes:
    """Return the page as a PDF of deterministic bytes; a figure that is not here leaves a gap."""
    here = {figure.name: figure for figure in found.figures}
    with mpl.rc_context({"font.family": "DejaVu Sans"}):
        page = Figure(figsize=A4)
        page.suptitle(TITLE, x=0.06, y=0.975, ha="left", fontsize=13, fontweight="bold")
        page.text(0.06, 0.948, _about(found), fontsize=7.5, color="#555555", va="top")
        for place, name in enumerate(gather.CAPTIONS):
            _cell(page, place, here.get(name), name)
        buffer = io.BytesIO()
        page.savefig(buffer, format="pdf", dpi=300, metadata=UNDATED)
    return buffer.getvalue()


def _about(found: gather.Found) -> str:
    counts = found.counts(ours=False)
    verdicts = ", ".join(f"{number} {verdict}" for verdict, number in counts.items() if number)
    title = "Local Differential Privacy via Dynamic Quantization in Distributed Online Stochastic"
    paper = f"Zhang, Kui, Ma and Wu, “{title} Optimization”"
    return f"{paper}.\nVerdicts on its claims: {verdicts}."


def _cell(page: Figure, place: int, figure: gather.Figure | None, name: str) -> None:
    """Put a picture and the caption below it in their place on the page."""
    row, column = divmod(place, COLUMNS)
    width, height = 0.92 / COLUMNS, 0.9 / ROWS
    left, bottom = 0.05 + column * width, 0.915 - (row + 1) * height
    label = figure.label if figure else f"Fig. {name[3:]}"
    caption = f"{label}. {gather.CAPTIONS[name]['caption']}. {_made(figure)}"
    lines = textwrap.fill(caption, LETTERS)
    page.text(left, bottom + 0.038, lines, va="top", fontsize=6.8, linespacing=1.3)
    if figure:
        axes = page.add_axes((left, bottom + 0.042, width - 0.03, height - 0.05))
        axes.set_axis_off()
        axes.set_anchor("SW")
        with Image.open(figure.path) as picture:
            picture.thumbnail((PIXELS, PIXELS), Image.Resampling.LANCZOS)
            axes.imshow(picture.convert("RGB"), interpolation="none")


def _made(figure: gather.Figure | None) -> str:
    """Return profile and data of a figure, in words."""
    if figure is None:
        return "Not here."
    data = sorted({f"{record['name']} ({record['kind']})" for record in figure.data})
    return f"Profile {figure.params.get('profile', 'unknown')}; data: {', '.join(data) or 'none'}."
