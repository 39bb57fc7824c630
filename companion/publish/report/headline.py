"""The picture that says it all, drawn from the figures' records: learning, attacks, promises."""

from __future__ import annotations

import io
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from companion.publish.report.answer import attack_rates, promised
from companion.publish.report.gather import Found, rows

NAME = "headline.png"
ROUNDED, PLAIN, OURS, SOFT = "#D55E00", "#0072B2", "#009E73", "#666666"
WORDS = {"quantised": ("rounded", ROUNDED, -22), "unquantised": ("unrounded", PLAIN, 10)}
STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 11,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.titlesize": 12,
}


def draw(found: Found) -> bytes:
    """Return the picture as a PNG of deterministic bytes; KeyError when a result is not here."""
    buffer = io.BytesIO()
    with mpl.rc_context(STYLE):
        picture(found).savefig(buffer, format="png", dpi=120, metadata={"Software": None})
    return buffer.getvalue()


def picture(found: Found) -> Figure:
    """Return the three panels."""
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    learning, attacks, privacy = figure.subplots(1, 3, width_ratios=(1, 1.1, 1))
    _learning(learning, found)
    _attacks(attacks, found)
    _privacy(privacy, found)
    figure.supxlabel(_caption(found), fontsize=8, color=SOFT)
    return figure


def _caption(found: Found) -> str:
    """Return profile, data and what is drawn."""
    figures = [found.figure(name) for name in ("fig2", "fig5", "fig7_identity")]
    data = sorted({record["name"] for figure in figures for record in figure.data})
    profiles = sorted({figure.params.get("profile", "unknown") for figure in figures})
    rounds = found.figure("fig2").params.get("runs", "several")
    return (
        f"Data: {', '.join(data)}. Profile: {', '.join(profiles)}. Left: mushrooms, mean of "
        f"{rounds} runs and the middle 90 % of them.\nMiddle: the best of our attackers. Right: "
        "Theorem 2 at the paper's settings, and a promise of ours for ever, on mushrooms."
    )


def _learning(axes: Axes, found: Found) -> None:
    """Draw accuracy over time, with and without rounding."""
    table = rows(found.figure("fig2").numbers["summary"])
    for variant, (word, colour, above) in WORDS.items():
        own = [row for row in table if row["variant"] == variant]
        names = ("t", "mean", "low", "high")
        times, means, low, high = ([row[name] for row in own] for name in names)
        axes.plot(times, means, color=colour)
        axes.fill_between(times, low, high, color=colour, alpha=0.15, linewidth=0)
        _label(axes, f"{word}: {means[-1]:.1%}", (times[-1], means[-1]), above, "right", colour)
    axes.set(title="Do they still learn?", xlabel="iteration", ylabel="accuracy", ylim=(0.5, 1.02))
    axes.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")


def _label(axes: Axes, text: str, at: tuple, above: int, side: str, colour: str) -> None:
    """Write a few words some points above a place, in its colour."""
    how: Any = {"xytext": (0, above), "textcoords": "offset points", "ha": side, "color": colour}
    axes.annotate(text, at, **how)


def _attacks(axes: Axes, found: Found) -> None:
    """Draw what attackers get from plain and from rounded messages."""
    rates = attack_rates(found)
    for place, (plain, rounded) in enumerate(rates.values()):
        for shift, share, colour in ((-0.2, plain, PLAIN), (0.2, rounded, ROUNDED)):
            axes.barh(place + shift, share, height=0.36, color=colour)
            axes.text(share + 0.02, place + shift, f"{share:.0%}", va="center", color=colour)
    axes.set(title="What do attackers get?", xlim=(0, 1.15), yticks=range(len(rates)))
    axes.set_yticklabels(rates)
    axes.invert_yaxis()
    for left, word, colour in ((0.0, "unrounded", PLAIN), (0.4, "rounded messages", ROUNDED)):
        axes.text(left, -0.1, word, color=colour, transform=axes.transAxes)
    axes.xaxis.set_visible(False)
    axes.spines["bottom"].set_visible(False)


def _privacy(axes: Axes, found: Found) -> None:
    """Draw delta: what the paper's theorem allows, beside what is certified."""
    power = found.figure("fig3_bounds").numbers["log10_delta"]["theorem 2.1"]
    certified = max(one.delta for one in promised(found.promises))
    axes.set_xscale("log")
    bounds, colours = (10**power, certified), (ROUNDED, OURS)
    axes.scatter(bounds, (0, 1), color=colours, s=90, zorder=3)
    for place, (bound, colour) in enumerate(zip(bounds, colours, strict=True)):
        text = f"{bound:.2g}" if bound < 1e3 else f"{bound:,.0f}"
        _label(axes, text, (bound, place), 11, "center", colour)
    axes.axvspan(1, 10 ** (power + 1), color=SOFT, alpha=0.12, linewidth=0)
    axes.text(1.5, 1.45, "promises nothing", color=SOFT, fontsize=9)
    axes.set(title="What is promised?", xlabel=r"bound on $\delta$", xlim=(0.01, 10 ** (power + 1)))
    axes.set(ylim=(1.7, -0.7), yticks=(0, 1))
    axes.set_yticklabels(["the paper's\nTheorem 2", "ours,\ncertified"])
