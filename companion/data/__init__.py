"""Mushrooms, MNIST and EEG: each is found in the same order, and each says where it came from.

See `store`.
"""

from __future__ import annotations

from companion.data.store import DataError, Provenance

__all__ = ["DataError", "Provenance", "overview"]


def overview(download: bool = False) -> list[Provenance]:
    """Load every data set once, downloaded if that is allowed; return where each came from."""
    from companion.data import eeg, mnist, mushrooms

    return [
        mushrooms.load().provenance,
        mnist.load(download=download).provenance,
        eeg.load("bnci2014_001", download=download).provenance,
        eeg.load("physionet", download=download).provenance,
    ]
