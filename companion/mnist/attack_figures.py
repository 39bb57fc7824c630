"""Notebook 3: figures of attacks: calibration, Fig. 5, what comes back, and the labels."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.house import COLOURS, PERCENT, bars, panels
from companion.mnist import attack_tables as attacks
from companion.mnist import harder_tables, tables
from companion.mnist.figures import GREY, kept
from companion.mnist.params import Params

VICTIMS = {
    "CNN": ("o", COLOURS["quantised"], "the paper's CNN, through its feature map"),
    "LeNet": ("s", COLOURS["unquantised"], "LeNet, by iDLG"),
}
METHODS = {
    "published": (COLOURS["unquantised"], "-", "L-BFGS as published"),
    "line search": (GREY, "--", "with a line search"),
}
SENDERS = {
    "D-PSGD": (COLOURS["D-PSGD"], "D-PSGD"),
    "quantised": (COLOURS["quantised"], "Algorithm 1"),
    "random psi_0": ("#E69F00", "Algorithm 1, random ψ₀"),
    "dithered": (COLOURS["dithered"], "Algorithm 1, public dither"),
}
GALLERY = {
    "CNN,\nD-PSGD": ("CNN", "D-PSGD", 0.0),
    "CNN,\nAlgorithm 1": ("CNN", "quantised", 1.0),
    "LeNet,\nD-PSGD": ("LeNet", "D-PSGD", 0.0),
    "LeNet,\nAlgorithm 1": ("LeNet", "quantised", 1.0),
}  # row of Fig. 5: victim, sender, multiple of d_0
READ_FROM = {  # what comes back of a batch, its marker, and how far aside it is drawn
    "connected": ("pixels", "o", -0.12),
    "LeNet": ("LeNet's features", "s", 0.0),
    "CNN": ("the CNN's features", "^", 0.12),
}
SHOWN = 8  # images in a row


def calibration(table: pd.DataFrame, record: dict, output: str) -> Figure:
    """Return the share of images that iDLG recovers to within a mean square error."""
    (figure, axes), published = panels((7.6, 4.4)), attacks.PUBLISHED_RATE
    for method, group in table.groupby("method", sort=False):
        colour, dashes, label = METHODS[method]
        errors = np.concatenate([[1e-8], np.sort(group["mse"].clip(1e-8, 1e4)), [1e4]])
        share = np.minimum(np.arange(len(errors)), len(group)) / len(group)
        means = f"labels {group['right'].mean():.0%}, diverged {group['diverged'].mean():.0%}"
        style = {"where": "post", "color": colour, "ls": dashes}
        axes.step(errors, share, label=f"{label}: {means}", **style)
    theirs = f"authors' code: about {published:.0%} below 0.01"
    axes.plot(1e-2, published, "*", color="black", ms=13, zorder=5, label=theirs)
    axes.axvline(1e-2, color=GREY, lw=0.8, ls=":")
    axes.text(1.3e-2, 0.03, "above: not recovered", fontsize="x-small", color=GREY)
    images = len(table) // table["method"].nunique()
    axes.set(xscale="log", xlim=(1e-8, 1e4), ylim=(0, 1.05), ylabel="share of images below it")
    axes.set(xlabel="mean square error of the reconstruction (pixels in [0, 1])")
    axes.set(title=f"iDLG on LeNet: {images} images")
    axes.yaxis.set_major_formatter(PERCENT)
    axes.legend(fontsize="x-small", loc="center right")
    caption = f"{images} images, each with a LeNet of its own."
    numbers = {"calibration": tables.plain(table)}
    return kept(figure, "fig5_calibration", caption, record, output, **numbers)


def fig5(painted: attacks.Attacked, during: attacks.Attacked, record: dict, output: str) -> Figure:
    """Return Fig. 5: original images, and what each sender's first round gave away."""
    table = painted.table
    own = {name: (table[attacks.BY] == [*case, 1]).all(axis=1) for name, case in GALLERY.items()}
    found = {name: table.index[chosen][:SHOWN] for name, chosen in own.items()}
    figure = _pictures(painted, found)
    caption = (
        "Images chosen by the seed; single-image gradients, first round, real messages;\n"
        "numbers: mean square error."
    )
    numbers = {"rates": tables.plain(painted.rates())}
    numbers |= {"during_training": tables.plain(during.rates(["scale", "t"]))}
    return kept(figure, "fig5", caption, record, output, **numbers)


def _pictures(painted: attacks.Attacked, found: dict[str, pd.Index]) -> Figure:
    """Return a row of originals, and one an entry of `found`, its error under each picture."""
    first = next(iter(found.values()))
    lines = [("original", painted.originals[first], [""] * len(first))]
    for name, rows in found.items():
        errors = [f"{error:.2g}" for error in painted.table.loc[rows, "mse"]]
        lines.append((name, painted.pictures[rows], errors))
    size = (1.05 * len(first) + 1.6, 1.35 * len(lines) + 0.7)
    figure, places = panels(size, len(lines), len(first), squeeze=False)
    for line, (name, pictures, errors) in zip(places, lines, strict=True):
        for axes, picture, error in zip(line, pictures, errors, strict=True):
            grey = {"cmap": "gray", "vmin": 0, "vmax": 1, "interpolation": "nearest"}
            axes.imshow(np.clip(picture, 0, 1), **grey)
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
            axes.set_xlabel(error, fontsize="x-small", labelpad=2)
        place = {"rotation": 0, "ha": "right", "va": "center", "labelpad": 8}
        line[0].set_ylabel(name, fontsize="small", **place)
    return figure


def slider(log10_scale: float, painted: attacks.Attacked, record: dict) -> Figure:
    """Return originals and reconstructions at the computed scale of d_0 next to the one asked for.

    The step stands above them, so that the pictures hold still while a slider moves.
    """
    table, d_0 = painted.table, record["params"]["d_0"]
    own = table[(table["victim"] == "CNN") & (table["sender"] == "quantised")]
    own = own[(own["rounds"] == 1) & (own["scale"] > 0)]
    scales = own["scale"].unique()
    nearest = scales[np.argmin(np.abs(np.log10(scales) - log10_scale))]
    rows = own.index[own["scale"] == nearest][:SHOWN]
    figure = _pictures(painted, {"rebuilt": rows})
    figure.suptitle(f"d₀ = {nearest * d_0:g}", fontsize="medium")
    return kept(figure, "slider", "Mean square errors below.", record, "")


def slider_range(params: Params) -> tuple[float, float, float, float, str]:
    """Return where the slider stands, its ends, its step and its label: powers of ten of scales."""
    lowest = math.log10(min(params.scales))
    return lowest, lowest, 0.0, 1.0, "factor on d_0, as a power of ten"


def fig5_curve(painted: attacks.Attacked, spent: pd.DataFrame, record: dict, output: str) -> Figure:
    """Return what comes back as the steps shrink: images recovered, and the accountant's delta."""
    params, rates = record["params"], painted.rates()
    delta = tables.delta_curve(spent, min(params["budget_samples"]), params["scales"])
    size, ratios = ((8.2, 6.6), [2.2, 1]) if len(delta) else ((8.2, 4.6), [1])
    shape = {"sharex": True, "height_ratios": ratios, "squeeze": False}
    figure, rows = panels(size, len(ratios), 1, **shape)
    _recovered(rows[0, 0], rates[rates["sender"] == "quantised"], params["d_0"])
    rows[-1, 0].set_xlabel("quantisation step d₀ (bars: 95 % Wilson intervals)")
    if len(delta):
        _delta_panel(rows[1, 0], delta.assign(d_0=delta["scale"] * params["d_0"]))
    caption = (
        f"One image per agent; {params['fig5_images']} images at the paper's d₀, "
        f"{params['curve_images']} elsewhere.\n"
        f"δ: {params['budget_iterations']} iterations, images at a time: "
        f"{min(params['budget_samples'])}."
    )
    numbers = {"rates": tables.plain(rates), "delta": tables.plain(delta)}
    return kept(figure, "fig5_curve", caption, record, output, **numbers)


def _recovered(axes, rates: pd.DataFrame, d_0: float) -> None:
    """Draw the share recovered against d_0, bars side by side so that all are seen."""
    scales = sorted(rates["scale"].unique())
    zero = min(scale for scale in scales if scale > 0) / 4  # the place of "no quantisation"
    for (victim, rounds), group in rates.groupby(["victim", "rounds"], sort=True):
        marker, colour, label = VICTIMS[victim]
        place = group["scale"].where(group["scale"] > 0, zero) * d_0
        aside = (0.84 if victim == "CNN" else 1.06) * (1.12 if rounds > 1 else 1.0)
        many = rounds > 1
        style = {"ls": "--" if many else "-", "color": colour, "mfc": "white" if many else colour}
        style |= {"capsize": 3, "label": f"{label}, {rounds} round{'s' if many else ''}"}
        error = bars(group, "recovered")
        axes.errorbar(place * aside, group["recovered"], yerr=error, fmt=marker, **style)
    axes.axvline(d_0, color=GREY, lw=0.8, ls=":")
    words = {"fontsize": "x-small", "color": GREY, "rotation": 90, "ha": "right", "va": "center"}
    axes.text(0.93 * d_0, 0.78, "the paper's d₀", **words)
    axes.set(xscale="log", ylim=(-0.03, 1.04), ylabel="images recovered (mse < 0.01)")
    axes.set_title("Single images come back as the quantisation steps shrink", pad=38)
    axes.yaxis.set_major_formatter(PERCENT)
    axes.legend(fontsize="x-small", loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2)
    ticks = [zero, *(scale for scale in scales if scale > 0)]
    names = ["none", *(f"{tick * d_0:g}" for tick in ticks[1:])]
    axes.set_xticks([tick * d_0 for tick in ticks], names)
    axes.minorticks_off()


def _delta_panel(axes, delta: pd.DataFrame) -> None:
    for (name, group), dashes in zip(delta.groupby("label", sort=False), ("-", "--"), strict=False):
        axes.plot(group["d_0"], group["delta"], dashes, marker="D", ms=4, color="black", label=name)
    most = delta["delta"].max()
    axes.axhspan(1.0, max(1.5, 1.2 * most), color="#999999", alpha=0.15, lw=0)
    axes.set(ylabel="δ", ylim=(0, max(1.2, 1.1 * most)))
    if most > 10:
        axes.set(yscale="log", ylim=(0.5 * delta["delta"].min(), 2 * most))
    axes.legend(fontsize="x-small")


def labels_read(table: pd.DataFrame, record: dict, output: str) -> Figure:
    """Return the share of labels that an eavesdropper reads, per sender and rounds heard."""
    (figure, axes), own = panels((8.0, 4.2)), table[table["rule"] == "row sums"]
    rounds, width = sorted(own["rounds"].unique()), 0.8 / len(SENDERS)
    for k, (sender, (colour, label)) in enumerate(SENDERS.items()):
        group = own[own["sender"] == sender].sort_values("rounds")
        place = np.arange(len(rounds)) + (k - (len(SENDERS) - 1) / 2) * width
        axes.bar(place, group["labels"], width * 0.92, color=colour, label=label)
        style = {"fmt": "none", "color": "black", "capsize": 3, "lw": 1}
        axes.errorbar(place, group["labels"], yerr=bars(group, "labels"), **style)
    axes.axhline(0.1, color=GREY, lw=1, ls="--")
    words = {"fontsize": "x-small", "color": GREY, "ha": "left", "va": "center"}
    axes.text(len(rounds) - 0.5, 0.1, "by chance", **words)
    names = [f"{k} round{'s' if k > 1 else ''} heard" for k in rounds]
    axes.set_xticks(range(len(rounds)), names)
    axes.set(ylim=(0, 1.05), xlim=(-0.5, len(rounds) - 0.5), ylabel="labels read")
    axes.set(title="Labels of agents that hold one image (paper's d₀)")
    axes.yaxis.set_major_formatter(PERCENT)
    axes.legend(fontsize="x-small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
    images = record["params"]["label_images"]
    caption = f"{images} images, one at a time; intervals: 95 %, Wilson."
    return kept(figure, "fig5_labels", caption, record, output, labels=tables.plain(table))


def harder(
    found: tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, pd.DataFrame], record: dict, output: str
) -> Figure:
    """Return what attackers who try harder find: batches, a model of many rounds, coins.

    `found` are the tables of batches, rounds, painted images and secrets.
    """
    batches, heard, painted, secrets = found
    rates = harder_tables.rounds_rates(heard)
    figure, (left, middle, right) = panels((12.5, 4.4), 1, 3)
    _batches(left, batches)
    _models(middle, rates)
    _secrets(right, secrets)
    params = record["params"]
    caption = (
        f"Left: {_counted(batches)}, first round. Middle: {params['attack_rounds']} "
        f"rounds, {params['patient_images']} fresh images each.\nRight: bars: 95 % (Wilson); "
        "crosses: what the promise allows."
    )
    tables_of = {"batches": batches, "rounds": rates, "secrets": secrets}
    tables_of["painted"] = harder_tables.painted_rates(painted)
    numbers = {name: tables.plain(table) for name, table in tables_of.items()}
    return kept(figure, "fig5_harder", caption, record, output, **numbers)


def _counted(table: pd.DataFrame) -> str:
    """Return how many batches of each size were attacked, in words."""
    if table.empty:
        return "no batches"
    sizes = table.groupby("batches", sort=False)["size"].max().items()
    return " and ".join(f"{count} batches each of up to {size} images" for count, size in sizes)


def _batches(axes, table: pd.DataFrame) -> None:
    sizes = sorted(set(table["size"])) if len(table) else []
    for (victim, sender), group in table.groupby(["victim", "sender"]) if len(table) else ():
        (colour, label), (name, marker, aside) = SENDERS[sender], READ_FROM[victim]
        aside += -0.2 if sender == "D-PSGD" else 0.2  # else one would hide the other
        places = [sizes.index(size) + aside for size in group["size"]]
        style = {"color": colour, "ls": "", "marker": marker, "capsize": 2, "ms": 5, "lw": 1}
        style["label"] = f"{label}: {name}"
        axes.errorbar(places, group["recovered"], yerr=bars(group, "recovered"), **style)
    axes.set_xticks(range(len(sizes)), sizes)
    axes.set(ylim=(-0.05, 1.05), xlabel="images in a batch", title="Batches that come back")
    axes.yaxis.set_major_formatter(PERCENT)
    if len(table):
        axes.legend(fontsize="x-small", loc="center", bbox_to_anchor=(0.5, 0.6))


def _models(axes, rates: pd.DataFrame) -> None:
    names = {"free": "one\nround", "shrinking": "shrin-\nking", "constant": "con-\nstant"}
    names["kept"] = "the one\nkept"
    for row in rates.itertuples():
        colour, marker = VICTIMS[row.victim][1], "o" if row.victim == "CNN" else "s"
        filled = colour if row.scale == rates["scale"].max() else "white"
        style = {"color": colour, "marker": marker, "mfc": filled, "ls": "", "ms": 6}
        errors = [getattr(row, name) for name in names]
        axes.plot(range(len(names)), errors, label=f"{row.victim}, {row.scale:g} d₀", **style)
    axes.set_xticks(range(len(names)), names.values(), fontsize="small")
    axes.set(yscale="log", xlim=(-0.5, len(names) - 0.5), xlabel="model of many rounds")
    axes.set_title("Error of a gradient over its size")
    if len(rates):
        axes.legend(fontsize="x-small", loc="upper right")


def _secrets(axes, table: pd.DataFrame) -> None:
    for k, row in enumerate(table.itertuples()):
        colour = COLOURS["quantised" if row.variant in ("promise", "quantised") else "unquantised"]
        error = [[max(row.share - row.low, 0.0)], [max(row.high - row.share, 0.0)]]
        axes.errorbar(row.share, k, xerr=error, fmt="o", color=colour, capsize=3, ms=4)
        axes.plot(row.allowed, k, "x", color=GREY)
    words = [
        f"{row.kind}, {f'δ = {row.delta:g}' if row.variant == 'promise' else row.variant}, "
        + row.attack
        for row in table.itertuples()
    ]  # fmt: skip
    axes.set_yticks(range(len(words)), words, fontsize="x-small")
    axes.axvline(0.5, color=GREY, lw=0.8, ls=":")
    axes.set(xlim=(0.45, 1.02), title="Coins and members told rightly")
    axes.xaxis.set_major_formatter(PERCENT)
