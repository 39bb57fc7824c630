"""The one bracketed search of the project: from a rule that is safe beyond some number, to it.

>>> smallest_safe(lambda x: x**2 >= 2.0, 1.0, 2.0).round(6)
np.float64(1.414214)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

PRECISION = 1e-9


def smallest_safe(
    is_safe: Callable[[np.ndarray], np.ndarray], unsafe, safe, precision: float = PRECISION
) -> np.ndarray:
    """Return safe numbers, each at most a part `precision` above the smallest one of its bracket.

    `unsafe` and `safe` are positive, numbers or arrays of one shape; `safe` is safe. What lies
    below the answer by that part was found unsafe, or is where the search began.
    """
    unsafe, safe = np.asarray(unsafe, dtype=np.float64), np.asarray(safe, dtype=np.float64)
    while (unsafe < safe * (1.0 - precision)).any():
        middle = np.sqrt(unsafe) * np.sqrt(safe)
        good = is_safe(middle)
        unsafe, safe = np.where(good, unsafe, middle), np.where(good, middle, safe)
    return safe


def doubled(is_safe: Callable[[np.ndarray], np.ndarray], start) -> np.ndarray:
    """Return `start`, doubled wherever and as often as needed until it is safe."""
    safe = np.asarray(start, dtype=np.float64)
    while not (good := np.asarray(is_safe(safe))).all():
        safe = np.where(good, safe, 2.0 * safe)
    return safe
