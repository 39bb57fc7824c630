"""What a slider of a notebook and a page of `make play` both show, computed in one place.

Plain numbers and numpy: a browser runs this, too. That of d_0 and varsigma needs nothing here: both
hand `optimizer.paper_schedules` to `optimizer.Algorithm1`.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ldp_core import quantizer
from ldp_core.accountant import accuracy
from ldp_core.accountant.promise import Terms, certify


def compared(ours: quantizer.Law, theirs: quantizer.Law, step: float, dither: float) -> dict:
    """Return grid points with both probabilities, mean and variance, and the total variation."""
    low = int(min(ours.lowest, theirs.lowest))
    high = int(max(ours.lowest, theirs.lowest)) + ours.probabilities.shape[-1]
    p, q = (_spread(law, low, high) for law in (ours, theirs))
    points = quantizer.value(np.arange(low, high), step, dither)
    mean = float(p @ points)
    delta = 0.5 * float(np.abs(p - q).sum())
    return {
        "points": points,
        "ours": p,
        "theirs": q,
        "mean": mean,
        "variance": float(p @ (points - mean) ** 2),
        "delta": delta,
        "guess": float(accuracy(min(delta, 1.0))),
    }


def _spread(law: quantizer.Law, low: int, high: int) -> np.ndarray:
    """Return a law's probabilities on the levels low ... high - 1."""
    spread, start = np.zeros(high - low), int(law.lowest) - low
    spread[start : start + len(law.probabilities)] = law.probabilities
    return spread


def spent(terms: Terms, times: Iterable[int]) -> list[float]:
    """Return the certified delta of the first t iterations, for the agent with most, at each t."""
    return [float(certify(terms, t).delta.max()) for t in times]
