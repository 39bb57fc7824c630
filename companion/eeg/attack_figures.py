"""Figures of notebook 4, the attacks: by how much was heard, Fig. 7, who it was, and the same straight from gradients."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion import house
from companion.house import COLOURS

DEFENCE_COLOURS = {"raw": "#222222", **COLOURS, "random start": "#E69F00"}
DEFENCE_LABELS = {
    "raw": "the trials themselves",
    "D-PSGD": "D-PSGD",
    "unquantised": "unquantised twin",
    "quantised": "Algorithm 1, ψ₀ = 0",
    "random start": "Algorithm 1, random ψ₀",
    "dithered": "Algorithm 1, public dither (ours)",
}
ATTACKER_MARKERS = {"none": "D", "one round": "o", "one run": "s", "many models": "^"}
PERCENT = mpl.ticker.PercentFormatter(1.0, decimals=0)


def heads(power: np.ndarray, subjects: Sequence[int], ch_names: Sequence[str], caption: str) -> Figure:
    """Return maps of the head, one a person: where its power lies, `power [subjects, channels]`, log10 against the mean."""
    import mne

    info = mne.create_info(list(ch_names), 100.0, "eeg")
    info.set_montage("colin27_1020", match_case=False)
    figure = Figure(figsize=(1.15 * len(subjects) + 1.2, 2.4))
    panels = figure.subplots(1, len(subjects), squeeze=False)[0]
    limit = float(np.abs(power).max())
    for axes, person, values in zip(panels, subjects, power, strict=True):
        image, _ = mne.viz.plot_topomap(values, info, axes=axes, vlim=(-limit, limit), cmap="RdBu_r", show=False)
        axes.set_title(f"{person}", fontsize="small", loc="center")
    bar = figure.colorbar(image, ax=list(panels), shrink=0.75)
    bar.set_label("log₁₀ power", fontsize="small")
    _caption(figure, caption)
    return figure


def states_seen(summary: pd.DataFrame, counted: pd.DataFrame, ceiling: float, caption: str) -> Figure:
    """Return how well trials are reconstructed by how many states were seen, and equations against unknowns below.

    `summary` has defence, attacker, states, correlation and its interval; `counted` states, equations, unknowns.
    """
    figure = Figure(figsize=(8, 5.6))
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1.2))
    for (defence, attacker), curve in summary.groupby(["defence", "attacker"], sort=False):
        curve, colour = curve.sort_values("states"), DEFENCE_COLOURS[defence]
        style = "-" if attacker == "many models" else "--"
        label = f"{DEFENCE_LABELS[defence]}: {'models' if attacker == 'many models' else 'rounds of one run'}"
        top.plot(curve["states"], curve["correlation"], color=colour, ls=style, marker=ATTACKER_MARKERS[attacker], label=label)
        top.fill_between(curve["states"], curve["correlation_low"], curve["correlation_high"], color=colour, alpha=0.12, lw=0)
    top.axhline(ceiling, color="grey", lw=0.8, ls=":", label="best that the attacker's band allows")
    top.set(ylabel="correlation with the true trial", ylim=(-0.1, 1.05), title="How much is seen, and how well is guessed")
    top.legend(fontsize="x-small", loc="center left", bbox_to_anchor=(1.01, 0.5))
    ratio = counted["equations"] / counted["unknowns"]
    bottom.plot(
        counted["states"], ratio, color="black", marker=".", label="coordinates of gradients\nper coefficient of a trial"
    )
    bottom.axhline(1.0, color="grey", ls="--", label="as many equations as unknowns")
    bottom.set(xscale="log", yscale="log", xlabel="gradients seen (states of the model)", ylabel="equations\nper unknown")
    bottom.set_xticks(counted["states"], [f"{states:g}" for states in counted["states"]])
    ticks = [2.0**power for power in range(int(np.floor(np.log2(ratio.min()))), int(np.ceil(np.log2(ratio.max()))) + 1, 2)]
    bottom.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    bottom.minorticks_off()
    bottom.legend(fontsize="x-small", loc="center left", bbox_to_anchor=(1.01, 0.5))
    _caption(figure, caption)
    return figure


def fig7(traces: Mapping[str, Sequence], caption: str) -> Figure:
    """Return Fig. 7: half a second of one channel, original and reconstructions; one row an attacker, one column a trial.

    `traces` maps the attacker's name to its `Trace`s.
    """
    columns = max(map(len, traces.values()))
    figure = Figure(figsize=(3.9 * columns, 2.6 * len(traces) + 0.7))
    panels = figure.subplots(len(traces), columns, squeeze=False, sharex=True)
    for row, (attacker, shown) in zip(panels, traces.items(), strict=True):
        for axes, trace in zip(row, shown, strict=True):
            _trace(axes, trace)
            axes.set_title(f"{attacker}: subject {trace.subject}, {trace.channel}", fontsize="small")
        row[0].set_ylabel("signal (scaled)")
    for axes in panels[-1]:
        axes.set_xlabel("time (s)")
    handles: dict = {}
    for axes in panels.flat:
        handles |= dict(zip(*axes.get_legend_handles_labels()[::-1], strict=True))
    figure.legend(list(handles.values()), list(handles), loc="outside upper center", ncols=3, fontsize="small")
    _caption(figure, caption)
    return figure


def reidentified(table: pd.DataFrame, paper: tuple[float, float], chance: float, caption: str) -> Figure:
    """Return re-identification rates with intervals: one column a classifier, one row with or without alignment.

    `table` has classifier, aligned, defence, factor, attacker, rate, low, high; `paper` are the paper's two rates.
    """
    table = table[table["factor"] == 1.0]
    kinds, alignments = list(table["classifier"].unique()), list(table["aligned"].unique())
    figure = Figure(figsize=(4.2 * len(kinds), 3.3 * len(alignments) + 1.1))
    panels = figure.subplots(len(alignments), len(kinds), squeeze=False, sharey=True, sharex=True)
    for row, aligned in zip(panels, alignments, strict=True):
        for axes, kind in zip(row, kinds, strict=True):
            part = table[(table["classifier"] == kind) & (table["aligned"] == aligned)]
            _rates(axes, part, chance, paper)
            axes.set_title(f"{kind}, {'aligned' if aligned else 'not aligned'}", fontsize="medium")
        row[0].set_ylabel("subject named correctly")
        row[0].yaxis.set_major_formatter(PERCENT)
    _attacker_legend(figure, table, paper, chance)
    _caption(figure, caption)
    return figure


def factors(summary: pd.DataFrame, rates: pd.DataFrame, caption: str) -> Figure:
    """Return reconstruction and re-identification by d_0: from none (D-PSGD) through smaller steps to the paper's own.

    `summary` is that of the attacks, `rates` the table of re-identification; both of unaligned trials.
    """
    figure = Figure(figsize=(9.6, 3.9))
    left, right = figure.subplots(1, 2)
    _over_factors(left, summary, "correlation", {"attacker": "attacker"})
    left.set(ylabel="correlation with the true trial", title="Reconstruction", ylim=(-0.1, 1.05))
    strongest = rates[rates["attacker"] == "many models"]
    _over_factors(
        right, strongest.rename(columns={"low": "rate_low", "high": "rate_high"}), "rate", {"classifier": "classifier"}
    )
    right.set(ylabel="subject named correctly", title="Re-identification (many models)", ylim=(-0.03, 1.05))
    right.yaxis.set_major_formatter(PERCENT)
    _caption(figure, caption)
    return figure


def straight(table: pd.DataFrame, paper: tuple[float, float], chance: float, caption: str) -> Figure:
    """Return re-identification from gradient estimates alone by the number of states; a row is an attacker."""
    table = _with_first(table[table["factor"] == 1.0])
    alignments, attackers = (list(table[name].unique()) for name in ("aligned", "attacker"))
    figure = Figure(figsize=(4.9 * len(alignments) + 1.5, 3.1 * len(attackers) + 0.9))
    panels = figure.subplots(len(attackers), len(alignments), squeeze=False, sharey=True)
    for row, attacker in zip(panels, attackers, strict=True):
        for axes, aligned in zip(row, alignments, strict=True):
            part = table[(table["aligned"] == aligned) & (table["attacker"] == attacker)]
            for place, (defence, curve) in enumerate(part.groupby("defence", sort=False)):
                error = np.abs(curve[["low", "high"]].to_numpy().T - curve["rate"].to_numpy())
                beside = curve["states"] * (1 + 0.04 * place)  # so that intervals do not hide each other
                axes.errorbar(beside, curve["rate"], yerr=error, color=DEFENCE_COLOURS[defence], lw=1.3,
                              marker=ATTACKER_MARKERS[attacker], ms=5, capsize=2, label=DEFENCE_LABELS[defence])  # fmt: skip
            _marks(axes, paper, chance)
            states = sorted(part["states"].unique())
            unit = "models" if attacker == "many models" else "rounds of one run"
            axes.set(xscale="log", xlabel=f"{unit} seen", title="aligned" if aligned else "not aligned")
            axes.set_xticks(states, [str(number) for number in states])
            axes.minorticks_off()
            axes.yaxis.set_major_formatter(PERCENT)
        row[0].set_ylabel("subject named correctly")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside right center", fontsize="x-small")
    _caption(figure, caption)
    return figure


def _caption(figure: Figure, text: str) -> None:
    """Write the caption in as many lines as the width asks for."""
    house.caption(figure, textwrap.fill(text, int(13 * figure.get_figwidth())))


def _trace(axes, trace) -> None:
    axes.plot(trace.time, trace.original, color="black", lw=2.4, alpha=0.55, label="original")
    for defence, signal in trace.found.items():
        axes.plot(trace.time, signal, color=DEFENCE_COLOURS[defence], lw=1.4, label=DEFENCE_LABELS[defence])
    text = "   ".join(f"{value:.2f}" for value in trace.correlation.values())
    axes.annotate(f"correlation: {text}", (0.02, 0.02), xycoords="axes fraction", fontsize="x-small")
    low, high = axes.get_ylim()
    axes.set_ylim(low - 0.14 * (high - low), high)


def _rates(axes, part: pd.DataFrame, chance: float, paper: tuple[float, float]) -> None:
    order = [defence for defence in DEFENCE_LABELS if defence in set(part["defence"])]
    for place, defence in enumerate(order):
        own = part[part["defence"] == defence]
        for offset, row in zip(np.linspace(-0.24, 0.24, len(own)) if len(own) > 1 else [0.0], own.itertuples(), strict=True):
            axes.errorbar(place + offset, row.rate, yerr=[[row.rate - row.low], [row.high - row.rate]], capsize=2, lw=1.3,
                          color=DEFENCE_COLOURS[defence], marker=ATTACKER_MARKERS[row.attacker], ms=6)  # fmt: skip
    _marks(axes, paper, chance)
    axes.set(ylim=(-0.03, 1.05))
    short = {"raw": "raw", "D-PSGD": "D-PSGD", "unquantised": "twin", "quantised": "Alg. 1\nψ₀ = 0",
             "random start": "Alg. 1\nrandom ψ₀", "dithered": "Alg. 1\ndither"}  # fmt: skip
    axes.set_xticks(range(len(order)), [short[defence] for defence in order], fontsize="x-small")


def _marks(axes, paper: tuple[float, float], chance: float) -> None:
    axes.axhline(chance, color="grey", lw=1, ls=":")
    for rate in paper:
        axes.axhline(rate, color="#999999", lw=0.9, ls="-.")


def _attacker_legend(figure: Figure, table: pd.DataFrame, paper: tuple[float, float], chance: float) -> None:
    line = mpl.lines.Line2D
    names = {"none": "no attack needed"} | {name: name for name in ATTACKER_MARKERS if name != "none"}
    markers = {name: marker for name, marker in ATTACKER_MARKERS.items() if name in set(table["attacker"])}
    handles = [line([], [], color="#555555", marker=marker, ls="", label=names[name]) for name, marker in markers.items()]
    handles.append(line([], [], color="grey", ls=":", label=f"chance {chance:.1%}"))
    handles.append(line([], [], color="#999999", ls="-.", label=" and ".join(f"{rate:.1%}" for rate in paper) + " (paper)"))
    figure.legend(handles=handles, loc="outside upper center", ncols=3, fontsize="small")


def _over_factors(axes, table: pd.DataFrame, name: str, by: Mapping[str, str]) -> None:
    """Draw a measure over the factor of d_0; D-PSGD, where there is no quantizer, stands at the left."""
    table = table[(table["defence"] == "quantised") | (table["defence"] == "D-PSGD")]
    shown = sorted(table[table["defence"] == "quantised"]["factor"].unique())
    places = {factor: 1 + place for place, factor in enumerate(shown)}
    for (column,) in [tuple(by)]:
        for colour, (label, part) in zip(("#0072B2", "#009E73", "#D55E00"), table.groupby(column, sort=False), strict=False):
            x = [0 if row.defence == "D-PSGD" else places[row.factor] for row in part.itertuples()]
            order = np.argsort(x)
            rows = part.iloc[order]
            error = np.abs(rows[[f"{name}_low", f"{name}_high"]].to_numpy().T - rows[name].to_numpy())
            axes.errorbar(np.sort(x), rows[name], yerr=error, marker="o", capsize=3, color=colour, label=label)
    axes.set_xticks(range(len(shown) + 1), ["none", *(f"{factor:g} × paper" if factor != 1 else "paper" for factor in shown)])
    axes.set_xlabel("quantisation step d₀")
    axes.legend(fontsize="small")


def _with_first(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with "one round" as the first point of both ways to see more."""
    first = table[table["attacker"] == "one round"]
    both = [first.assign(attacker=attacker) for attacker in ("one run", "many models") if attacker in set(table["attacker"])]
    rest = table[table["attacker"] != "one round"]
    return pd.concat([*both, rest]).sort_values(["states"], kind="stable")
