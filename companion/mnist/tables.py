"""Notebook 3: its results as tables and words."""

from __future__ import annotations

import math

import pandas as pd

from companion.claims import BROKEN, wilson
from companion.mnist import shards as mnist
from companion.mnist.attacks import THRESHOLDS


def broken(ablation: pd.DataFrame) -> list[str]:
    """Return, in words, the choices that cost more than BROKEN accuracy or diverge."""
    if ablation.empty:
        return []
    first = ablation["choice"] == ablation["choice"].iloc[0]
    usual = ablation[first].set_index("variant")["final"]
    words = []
    for row in ablation[~first].itertuples():
        if row.diverged >= 0:
            words.append(f"{row.choice}: {row.variant} diverged at t = {row.diverged}")
        elif row.final < usual[row.variant] - BROKEN:
            words.append(f"{row.choice}: {row.variant} {row.final:.0%} instead of {usual[row.variant]:.0%}")
    return words


def difference_words(difference: dict) -> str:
    """Return a difference of accuracies in points, with its interval where there is one."""
    if difference["mean"] is None:
        return "no repeat in which both variants stayed finite"
    mean, repeats = f"{100 * difference['mean']:+.2f} points", difference["repeats"]
    if difference["low"] is None:
        return f"{mean} (one repeat, so no interval)"
    ends = f"{100 * difference['low']:+.2f} to {100 * difference['high']:+.2f}"
    return f"{mean} (95 % interval {ends}, Student, {repeats} repeats)"


def plain(table: pd.DataFrame) -> dict[str, list]:
    """Return a table as columns of plain values, None where there is no number, for a record."""
    columns = table.to_dict("list").items()
    return {name: [None if pd.isna(value) else value for value in column] for name, column in columns}


def against_whole_history(ends: pd.DataFrame, history_sample: int) -> str:
    """Return how far the sampled history is from the whole one, in a sentence; or nothing."""
    whole, sampled = mnist.history_words(0), mnist.history_words(history_sample)
    wide = ends.pivot_table(index=["variant", "repeat"], columns="history", values="final")
    if whole == sampled or whole not in wide or sampled not in wide:
        return ""
    apart = (wide[sampled] - wide[whole]).dropna().groupby("variant").mean()
    words = ", ".join(f"{100 * value:+.2f} points {variant}" for variant, value in apart.items())
    return f"The approximation by {sampled} differs from the whole history by {words}, on the repeats that have both."


def breaking_scale(table: pd.DataFrame, victim: str, rounds: int) -> tuple[float, float]:
    """Return the largest scale of d_0 at which half of the images are recovered, and the smallest
    at which none is.

    `table` has the `rates` of `reconstructions`. Where there is no such scale the first is NaN and
    the second infinite.
    """
    own = table[(table["victim"] == victim) & (table["sender"] == "quantised") & table["rounds"].isin([1, rounds])]
    own = own[(own["rounds"] == rounds) | (own["scale"] == 0)]
    open_, closed = own[own["recovered"] >= 0.5]["scale"], own[own["recovered"] == 0]["scale"]
    return (float(open_.max()) if len(open_) else math.nan), (float(closed.min()) if len(closed) else math.inf)


def breaking_words(victim: str, rounds: int, half: float, none: float) -> str:
    up_to = "never" if half != half else f"up to {half:g} d_0" if half else "without quantisation"
    closed = "at no step tried" if none == math.inf else f"from {none:g} d_0"
    plural = "s" if rounds > 1 else ""
    return f"{victim}, {rounds} round{plural}: half recovered {up_to}, none {closed}"


def share(row: pd.Series | dict, name: str = "recovered") -> str:
    """Return a share with its 95 % interval as text."""
    return f"{row[name]:.0%} ({row[f'{name}_low']:.0%} to {row[f'{name}_high']:.0%})"


def qualities(row: pd.Series | dict) -> str:
    """Return cells of a Markdown table: how good reconstructions are, and labels read."""
    medians = [_median(row, name, digits) for name, digits in (("mse", ".2g"), ("psnr", ".1f"), ("ssim", ".2f"))]
    return " | ".join([*medians, share(row, "labels")])


def _median(row: pd.Series | dict, name: str, digits: str) -> str:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return f"{row[name]:{digits}}" + (f" ({low:{digits}} to {high:{digits}})" if low == low else "")  # few have none


def recovered(calibration: pd.DataFrame, method: str) -> dict:
    """Return the share of images that a method recovers, with its interval."""
    hits = calibration[calibration["method"] == method]["mse"] < THRESHOLDS[0]
    low, high = wilson(int(hits.sum()), len(hits))
    return {"method": method, "rate": hits.mean(), "rate_low": low, "rate_high": high}


def by_moment(moments: pd.DataFrame) -> pd.DataFrame:
    """Return by iteration the shares recovered, quantised and in the clear, and the error."""
    wide = moments.pivot(index="t", columns="scale", values="recovered")
    errors = moments[moments["scale"] == 1.0].set_index("t")["error"]
    named = wide.rename(columns={0.0: "clear", 1.0: "quantised"})
    return named.assign(error=errors).reset_index()
