"""Figures of notebook 4's attacks: by how much was heard, Fig. 7, who it was, and by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from companion import house
from companion.eeg.overheard import ATTACKERS
from companion.eeg.shards import SHOWN
from companion.eeg.tables import PAPER_RATES, Trace
from companion.house import COLOURS, PERCENT, bars, caption

DEFENCE_COLOURS = {"raw": "#222222", **COLOURS, "random start": "#E69F00"}
DEFENCE_LABELS = {
    "raw": "the trials themselves",
    "D-PSGD": "D-PSGD",
    "unquantised": "unquantised twin",
    "quantised": "Algorithm 1, ψ₀ = 0",
    "random start": "Algorithm 1, random ψ₀",
    "dithered": "Algorithm 1, public dither (ours)",
}
SHORT = ("raw", "D-PSGD", "twin", "Alg. 1\nψ₀ = 0", "Alg. 1\nrandom ψ₀", "Alg. 1\ndither")
ATTACKER_MARKERS = {"none": "D", "one round": "o", "one run": "s", "many models": "^"}
UNITS = {"one run": "rounds of one run", "many models": "models"}
CURVES = ("#0072B2", "#009E73", "#D55E00")


def states_seen(seen: pd.DataFrame, counted: pd.DataFrame, ceiling: float, source: str) -> Figure:
    """Return how well trials are rebuilt by how many states were seen, and equations below."""
    figure, (top, bottom) = house.panels((8, 5.6), 2, 1, sharex=True, height_ratios=(3, 1.2))
    shown = seen[seen["defence"].isin(SHOWN)]
    for (defence, attacker), curve in shown.groupby(["defence", "attacker"], sort=False):
        curve, colour = curve.sort_values("states"), DEFENCE_COLOURS[defence]
        style = "-" if attacker == "many models" else "--"
        looks = {"color": colour, "ls": style, "marker": ATTACKER_MARKERS[attacker]}
        label = f"{DEFENCE_LABELS[defence]}: {UNITS[attacker]}"
        top.plot(curve["states"], curve["correlation"], label=label, **looks)
        ends = curve["correlation_low"], curve["correlation_high"]
        top.fill_between(curve["states"], *ends, color=colour, alpha=0.12, lw=0)
    label = "best that the attacker's band allows"
    top.axhline(ceiling, color="grey", lw=0.8, ls=":", label=label)
    top.set(ylabel="correlation with the true trial", ylim=(-0.1, 1.05))
    top.set_title("How much is seen, and how well is guessed")
    _per_unknown(bottom, counted)
    for axes in (top, bottom):
        axes.legend(fontsize="x-small", loc="center left", bbox_to_anchor=(1.01, 0.5))
    trials = f"{seen['trials'].max()} trials of single-trial agents."
    bands = "Bands: 95 % over people (Student). Algorithm 1: the paper's steps, ψ₀ = 0."
    return caption(figure, f"{source} {trials} {bands}")


def _per_unknown(axes, counted: pd.DataFrame) -> None:
    ratio = counted["equations"] / counted["unknowns"]
    label = "coordinates of gradients\nper coefficient of a trial"
    axes.plot(counted["states"], ratio, color="black", marker=".", label=label)
    axes.axhline(1.0, color="grey", ls="--", label="as many equations as unknowns")
    axes.set(xscale="log", yscale="log", ylabel="equations\nper unknown")
    axes.set_xlabel("gradients seen (states of the model)")
    axes.set_xticks(counted["states"], [f"{states:g}" for states in counted["states"]])
    low, high = np.floor(np.log2(ratio.min())), np.ceil(np.log2(ratio.max()))
    ticks = [2.0**power for power in range(int(low), int(high) + 1, 2)]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()


def fig7(traces: Mapping[str, Sequence[Trace]], source: str) -> Figure:
    """Return Fig. 7: half a second of one channel, original and reconstructions.

    `traces` maps the attacker's name to its traces; a row each, one column a trial.
    """
    columns = max(map(len, traces.values()))
    size, same = (3.9 * columns, 2.6 * len(traces) + 0.7), {"squeeze": False, "sharex": True}
    figure, panels = house.panels(size, len(traces), columns, **same)
    handles: dict = {}
    for row, (attacker, shown) in zip(panels, traces.items(), strict=True):
        for axes, trace in zip(row, shown, strict=True):
            _trace(axes, trace)
            title = f"{attacker}: subject {trace.subject}, {trace.channel}"
            axes.set_title(title, fontsize="small")
            handles |= dict(zip(*axes.get_legend_handles_labels()[::-1], strict=True))
        row[0].set_ylabel("signal (scaled)")
    for axes in panels[-1]:
        axes.set_xlabel("time (s)")
    looks = {"loc": "outside upper center", "ncols": 3, "fontsize": "small"}
    figure.legend(list(handles.values()), list(handles), **looks)
    words = "Half a second of one channel, trials chosen by seed"
    over = "correlations are over all channels (D-PSGD, Algorithm 1)"
    return caption(figure, f"{source} {words}; {over}.")


def slider(draw_traces: Callable[[int], Sequence[Trace]], numbers: Sequence[int], source: str):
    """Return what draws Fig. 7 for a place in `numbers`, of models seen, and the slider's range."""

    def draw(number: float) -> Figure:
        states = numbers[int(number) - 1]
        return fig7({f"{states} models": draw_traces(states)}, source)

    label = f"place in the list of models seen: {', '.join(map(str, numbers))}"
    return draw, (len(numbers), 1, len(numbers), 1, label)


def _trace(axes, trace: Trace) -> None:
    axes.plot(trace.time, trace.original, color="black", lw=2.4, alpha=0.55, label="original")
    for defence, signal in trace.found.items():
        looks = {"color": DEFENCE_COLOURS[defence], "lw": 1.4}
        axes.plot(trace.time, signal, label=DEFENCE_LABELS[defence], **looks)
    text = "   ".join(f"{value:.2f}" for value in trace.correlation.values())
    place = {"xycoords": "axes fraction", "fontsize": "x-small"}
    axes.annotate(f"correlation: {text}", (0.02, 0.02), **place)
    largest = 1.3 * np.abs(trace.original).max()
    axes.set_ylim(-1.25 * largest, largest)


def reidentified(rates: pd.DataFrame, chance: float, source: str) -> Figure:
    """Return how often people are named, with intervals: one column a classifier.

    One row with, one without alignment.
    """
    rates = rates[rates["factor"] == 1.0]
    kinds, alignments = list(rates["classifier"].unique()), list(rates["aligned"].unique())
    size = (4.2 * len(kinds), 3.3 * len(alignments) + 1.1)
    same = {"squeeze": False, "sharey": True, "sharex": True}
    figure, panels = house.panels(size, len(alignments), len(kinds), **same)
    for row, aligned in zip(panels, alignments, strict=True):
        for axes, kind in zip(row, kinds, strict=True):
            own = (rates["classifier"] == kind) & (rates["aligned"] == aligned)
            _rates(axes, rates[own], chance)
            axes.set_title(f"{kind}, {_alignment(aligned)}", fontsize="medium")
        row[0].set_ylabel("subject named correctly")
        row[0].yaxis.set_major_formatter(PERCENT)
    handles = _attackers(rates, chance)
    figure.legend(handles=handles, loc="outside upper center", ncols=3, fontsize="small")
    rebuilt = rates[rates["defence"] != "raw"]["trials"].max()
    each = f"{rebuilt} reconstructions each, all attacked trials for raw"
    return caption(figure, f"{source} Bars: 95 % Wilson intervals; {each}.")


def _alignment(aligned: bool) -> str:
    return "aligned" if aligned else "not aligned"


def _rates(axes, part: pd.DataFrame, chance: float) -> None:
    labels = dict(zip(DEFENCE_LABELS, SHORT, strict=True))
    order = [defence for defence in labels if defence in set(part["defence"])]
    for place, defence in enumerate(order):
        own = part[part["defence"] == defence]
        offsets = np.linspace(-0.24, 0.24, len(own)) if len(own) > 1 else [0.0]
        for offset, row in zip(offsets, own.itertuples(), strict=True):
            error = [[row.rate - row.low], [row.high - row.rate]]
            looks = {"color": DEFENCE_COLOURS[defence], "ms": 6, "capsize": 2, "lw": 1.3}
            marker = ATTACKER_MARKERS[row.attacker]
            axes.errorbar(place + offset, row.rate, yerr=error, marker=marker, **looks)
    _marks(axes, chance)
    axes.set(ylim=(-0.03, 1.05))
    axes.set_xticks(range(len(order)), [labels[name] for name in order], fontsize="x-small")


def _marks(axes, chance: float) -> None:
    axes.axhline(chance, color="grey", lw=1, ls=":")
    for rate in PAPER_RATES:
        axes.axhline(rate, color="#999999", lw=0.9, ls="-.")


def _attackers(rates: pd.DataFrame, chance: float) -> list[Line2D]:
    handles = []
    for name, marker in ATTACKER_MARKERS.items():
        if name in set(rates["attacker"]):
            label = "no attack needed" if name == "none" else name
            handles.append(Line2D([], [], color="#555555", marker=marker, ls="", label=label))
    paper = " and ".join(f"{rate:.1%}" for rate in PAPER_RATES) + " (paper)"
    handles.append(Line2D([], [], color="grey", ls=":", label=f"chance {chance:.1%}"))
    return [*handles, Line2D([], [], color="#999999", ls="-.", label=paper)]


def steps(summary: pd.DataFrame, rates: pd.DataFrame, source: str) -> Figure:
    """Return reconstruction and re-identification by d_0, from none (D-PSGD) to the paper's own."""
    figure, (left, right) = house.panels((9.6, 3.9), 1, 2)
    _over_steps(left, summary, "correlation", "attacker")
    left.set(ylabel="correlation with the true trial", title="Reconstruction", ylim=(-0.1, 1.05))
    named = {"low": "rate_low", "high": "rate_high"}
    models = rates[rates["attacker"] == "many models"].rename(columns=named)
    _over_steps(right, models, "rate", "classifier")
    right.set(ylabel="subject named correctly", ylim=(-0.03, 1.05))
    right.set_title("Re-identification (many models)")
    right.yaxis.set_major_formatter(PERCENT)
    return caption(figure, f"{source} Bars: 95 % (Student over people; Wilson over trials).")


def _over_steps(axes, table: pd.DataFrame, name: str, by: str) -> None:
    """Draw a measure over the factor of d_0; D-PSGD, without a quantizer, stands at the left."""
    table = table[table["defence"].isin(SHOWN)]
    shown = sorted(table[table["defence"] == "quantised"]["factor"].unique())
    places = {factor: 1 + place for place, factor in enumerate(shown)}
    for colour, (label, part) in zip(CURVES, table.groupby(by, sort=False), strict=False):
        clear = part["defence"] == "D-PSGD"
        rows = part.assign(x=part["factor"].map(places).mask(clear, 0)).sort_values("x")
        looks = {"marker": "o", "capsize": 3, "color": colour, "label": label}
        axes.errorbar(rows["x"], rows[name], yerr=bars(rows, name), **looks)
    names = [f"{factor:g} × paper" if factor != 1 else "paper" for factor in shown]
    axes.set_xticks(range(len(shown) + 1), ["none", *names])
    axes.set_xlabel("quantisation step d₀")
    axes.legend(fontsize="small")


def straight(table: pd.DataFrame, chance: float, source: str) -> Figure:
    """Return how often people are named by estimates alone, by states; a row is an attacker."""
    alignments = list(table["aligned"].unique())
    attackers = [name for name in ATTACKERS[1:] if name in set(table["attacker"])]
    size = (4.9 * len(alignments) + 1.5, 3.1 * len(attackers) + 0.9)
    same = {"squeeze": False, "sharey": True}
    figure, panels = house.panels(size, len(attackers), len(alignments), **same)
    for row, attacker in zip(panels, attackers, strict=True):
        own = table["attacker"].isin([attacker, "one round"])  # the first point of both
        for axes, aligned in zip(row, alignments, strict=True):
            part = table[own & (table["aligned"] == aligned)].sort_values("states", kind="stable")
            _by_states(axes, part, attacker)
            _marks(axes, chance)
            axes.set(xlabel=f"{UNITS[attacker]} seen", title=_alignment(aligned))
        row[0].set_ylabel("subject named correctly")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", fontsize="x-small")
    words = f"Bars: 95 % Wilson intervals, {table['trials'].iloc[0]} trials"
    return caption(figure, f"{source} {words}. Lines: chance, and the paper's two rates.")


def _by_states(axes, part: pd.DataFrame, attacker: str) -> None:
    for place, (defence, curve) in enumerate(part.groupby("defence", sort=False)):
        beside = curve["states"] * (1 + 0.04 * place)  # so that intervals do not hide each other
        looks = {"color": DEFENCE_COLOURS[defence], "lw": 1.3, "ms": 5, "capsize": 2}
        looks |= {"marker": ATTACKER_MARKERS[attacker], "label": DEFENCE_LABELS[defence]}
        axes.errorbar(beside, curve["rate"], yerr=bars(curve, "rate", "low", "high"), **looks)
    states = sorted(part["states"].unique())
    axes.set(xscale="log")
    axes.set_xticks(states, [str(number) for number in states])
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(PERCENT)
