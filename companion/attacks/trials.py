"""What attacks on EEG need to know of trials: which the attacker owns, and their spectra."""

from __future__ import annotations

import numpy as np

from companion.data.epochs import Epochs

BIN = 2.0  # Hz; width of a bin of the spectrum


def known_and_attacked(subject: Epochs) -> tuple[np.ndarray, np.ndarray]:
    """Return two masks `[trials]`: what the attacker owns, with names, and what is attacked.

    They share no session, or no run: of several sessions the last one is attacked and all earlier
    ones are known; of one session, the later half of its runs is attacked.
    """
    groups = subject.session if len(np.unique(subject.session)) > 1 else subject.run
    numbers = np.unique(groups)
    if len(numbers) < 2:
        rule = "one session with one run cannot be cut into known and attacked trials"
        raise ValueError(f"{subject.subject}: {rule}")
    first_attacked = numbers[-1] if groups is subject.session else numbers[(len(numbers) + 1) // 2]
    return groups < first_attacked, groups >= first_attacked


def log_spectrum(X: np.ndarray, fs: float, band: tuple[float, float]) -> np.ndarray:
    """Return the log power of channels in bins of BIN Hz of a band, `[trials, channels * bins]`."""
    from scipy.signal import periodogram

    frequency, power = periodogram(np.asarray(X, dtype=np.float64), fs, window="hann")
    lows = np.arange(band[0], band[1] + BIN / 2, BIN)[:-1]
    inside = ((frequency >= low) & (frequency < low + BIN) for low in lows)
    bins = [power[..., own].mean(axis=-1) for own in inside]
    return np.log(np.stack(bins, axis=-1) + np.finfo(np.float64).tiny).reshape(len(X), -1)
