"""Notebook 2: tables made of its results."""

from __future__ import annotations

import numpy as np
import pandas as pd

from companion.experiments.budget_bounds import EARLY
from ldp_core import quantizer


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
        rate = (
            (after / (last - split)) / (before / split)
            if split and before and last > split
            else np.nan
        )
        rows.append((d_0, before / curve.iloc[-1] if curve.iloc[-1] else np.nan, rate))
    return pd.DataFrame(rows, columns=["d_0", "share", "rate"])
