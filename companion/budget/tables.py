"""Notebook 2: tables made of its results."""

from __future__ import annotations

import numpy as np
import pandas as pd

from companion.budget.bounds import EARLY
from ldp_core import quantizer
from ldp_core.accountant import meaning

ARRIVAL_NAMES = {"uniform": "random time", "first": "first data point"}
ROW_NAMES = {"none": "unnormalised", "l2": "L2-normalised", "l1": "L1-normalised"}


def lemma_6_ratio(points: int = 401) -> float:
    """Return the largest total variation over |y - y'| / d, on a grid up to three cells apart."""
    y = np.linspace(0.0, 1.0, points)[:, None]
    other = y + np.linspace(0.0, 3.0, points)[None, 1:]
    return float((quantizer.total_variation(y, other, 1.0) / (other - y)).max())


def early_share(summary: pd.DataFrame, arrival: str) -> pd.DataFrame:
    """Return per d_0 the share of the budget spent by EARLY, and growth after it over before."""
    rows = []
    for d_0, curve in summary[summary["arrival"] == arrival].groupby("d_0"):
        curve = curve.set_index("t")["mean"]
        split = curve.index[curve.index <= EARLY].max()
        before, after, last = curve[split], curve.iloc[-1] - curve[split], curve.index[-1]
        rate = (after / (last - split)) / (before / split) if split and before and last > split else np.nan
        rows.append((d_0, before / curve.iloc[-1] if curve.iloc[-1] else np.nan, rate))
    return pd.DataFrame(rows, columns=["d_0", "share", "rate"])


def named(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with the names of its arrivals."""
    return table.assign(when=table["arrival"].map(ARRIVAL_NAMES))


def latest(own: pd.DataFrame) -> dict:
    """Return the smallest and largest sum of data points from the first k on that stays below 1."""
    by_k = own.groupby("asked_k")["paper"].agg(["min", "max"]).sort_index(ascending=False)
    safe = by_k[(by_k["max"] < 1).cummin()]
    k, ends = (safe.index[-1], safe) if len(safe) else (by_k.index[0], by_k[:1])
    named = {"rows": ROW_NAMES[own["normalise"].iloc[0]], "d_0": own["d_0"].iloc[0]}
    when = f"data points from number {k:.0f} on"
    return {**named, "when": when, "sum_low": ends["min"].min(), "sum_high": ends["max"].max()}


def both_at_once(tried: pd.DataFrame, kept: pd.DataFrame, error: float) -> pd.DataFrame:
    """Return every step with the ends of the accuracy it loses and of the delta it has.

    Certified steps have delta at most the target; of others what a first data point gives away by
    the last iteration, less the `error` of the exact counts, is a lower bound of every valid delta.
    """
    columns = ["normalise", "unquantised", "target", "iterations"]
    own = tried[(tried["arrival"] == "first") & (tried["weight"] == kept["weight"].iloc[0])]
    own = own.merge(kept[columns], on="normalise")
    own = own.assign(step="tried", delta_low=own["delta"] - error, delta_high=np.inf)
    certified = kept.assign(step="certified", delta_low=0.0, delta_high=kept["target"])
    found = pd.concat([own, certified], ignore_index=True)
    lost, spread = found["unquantised"] - found["accuracy"], 1.96 * 2**0.5 * found["standard_error"]
    ends = {"lost_low": lost - spread, "lost_high": lost + spread}
    return found.assign(lost=lost, rows=found["normalise"].map(ROW_NAMES), **ends)


def valid_range(summary: pd.DataFrame, arrivals: pd.DataFrame, normalise: str) -> tuple[list[dict], pd.DataFrame]:
    """Return the paper's sum by rows, step and time of arrival, and this notebook's part of it."""
    last = named(summary[summary["t"] == summary["t"].max()])
    own = last.assign(rows=ROW_NAMES[normalise], sum_low=last["low"], sum_high=last["high"])
    late = [latest(part) for _, part in arrivals.groupby(["normalise", "d_0"])]
    return [*own.to_dict("records"), *late], own


def worst_ratio(own: pd.DataFrame) -> pd.DataFrame:
    """Return by time of arrival the medians of random and worst modifications, and their ratio."""
    wide = own.groupby(["asked_k", "kind"])[["paper", "exact"]].median().unstack("kind")
    wide.columns = [f"{measure}_of_{kind}" for measure, kind in wide.columns]
    return wide.assign(ratio=wide["paper_of_worst"] / wide["paper_of_random"]).reset_index()


def span(shares: pd.Series) -> str:
    """Return the smallest and the largest of some shares in words."""
    return f"{shares.min():.0%} to {shares.max():.0%}"


def stringency(delta: float, tiny: float = 1e-5, epsilon: float = 1.0) -> list[dict]:
    """Return by how much a (0, delta) mechanism breaks (epsilon, delta'), delta' = delta or tiny.

    It is the one that sends the data with probability delta, and otherwise nothing: without false
    alarms it is missed with probability 1 - delta, where the other promise demands more.
    """
    others = {"both have the same delta": delta, "the other delta is tiny": tiny}
    demanded = {case: float(meaning.trade_off(0.0, d, epsilon)) for case, d in others.items()}
    return [{"case": case, "excess": miss - (1 - delta)} for case, miss in demanded.items()]
