"""Tiny files in the official layouts, so that the official readers run without a network and
without the real data."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from companion.data import mnist, recordings
from companion.data.epochs import CHANNELS, Epochs

# two trials in each of six runs
PHYSIONET = replace(recordings.PHYSIONET, trials=12, checked=False)
# four trials in each of two runs of two sessions
BNCI = replace(recordings.BNCI2014_001, trials=16)


def mnist_files(raw: Path, images: int = 30, packed: bool = True) -> dict[str, str]:
    """Write four small idx files as MNIST has them; return what would be published about them."""
    random = np.random.default_rng(1)
    published = {}
    raw.mkdir(parents=True, exist_ok=True)
    for name in mnist.PUBLISHED:
        count = images if name.startswith("train") else images // 2
        shape = (count, 28, 28) if "images" in name else (count,)
        array = random.integers(0, 256 if "images" in name else 10, shape, dtype=np.uint8)
        content = bytes([0, 0, 8, array.ndim]) + np.array(shape, ">u4").tobytes() + array.tobytes()
        gz = gzip.compress(content, mtime=0)
        (raw / (f"{name}.gz" if packed else name)).write_bytes(gz if packed else content)
        published[name] = hashlib.sha256(content).hexdigest()
    return published


def epochs(subject: int = 1, trials: int = 8, samples: int = 50, **changes) -> Epochs:
    """Return a few random trials of one subject."""
    random = np.random.default_rng(subject)
    values = {
        "subject": f"A{subject:02d}",
        "X": random.normal(size=(trials, len(CHANNELS), samples)).astype(np.float32),
        "y": np.arange(trials) % 4,
        "fs": 100.0,
        "ch_names": CHANNELS,
        "classes": ("left_hand", "right_hand", "feet", "tongue"),
        "session": np.arange(trials) // (trials // 2),
        "run": np.zeros(trials, dtype=int),
        "band": (8.0, 30.0),
        "window": (0.0, samples / 100.0),
        "unit": "uV",
    }
    return Epochs(**(values | changes))


def edf_subject(
    raw: Path, subject: int, fs: float = PHYSIONET.fs, lengths: Sequence[int] = (14,) * 6
) -> None:
    """Write six short EDF+ files of one subject as PhysioNet has them, by MNE's exporter.

    Names are dotted. T1 comes after 2 s and T2 after 8 s; `lengths` are those of the files in
    seconds, so that one of 12 ends with its last trial, and one of 11 before it.
    """
    import mne

    random = np.random.default_rng(subject)
    # moabb renames these, so they have to be there
    electrodes = (*CHANNELS, "Afz", "Fpz", "Fp1", "Fp2", "Oz", "Iz")
    names = [
        name.replace("FC", "Fc").replace("CP", "Cp").replace("PO", "Po").ljust(4, ".")
        for name in electrodes
    ]
    for name, seconds in zip(PHYSIONET.files(subject), lengths, strict=True):
        path = raw / name
        path.parent.mkdir(parents=True, exist_ok=True)
        signal = random.normal(0.0, 2e-5, (len(names), round(seconds * fs)))
        record = mne.io.RawArray(signal, mne.create_info(names, fs, "eeg"), verbose="ERROR")
        last = min(4.1, seconds - 8.0)
        record.set_annotations(
            mne.Annotations([0.0, 2.0, 8.0], [2.0, 4.1, last], ["T0", "T1", "T2"])
        )
        mne.export.export_raw(path, record, fmt="edf", overwrite=True, verbose="ERROR")


def bnci_subject(raw: Path, subject: int) -> None:
    """Write the two .mat files of one subject as BNCI Horizon 2020 has them: runs of X, trial, y,
    fs, classes, artifacts."""
    from scipy import io

    random = np.random.default_rng(subject)
    for path in (raw / name for name in BNCI.files(subject)):
        path.parent.mkdir(parents=True, exist_ok=True)
        runs = np.empty(3, dtype=object)
        for number in range(3):
            # the first run is a baseline without trials
            trials = np.arange(4) * 1750 + 251 if number else np.zeros(0)
            runs[number] = {
                "X": random.normal(0.0, 20.0, (4 * 1750 + 500, len(CHANNELS) + 3)),
                "trial": trials,
                "y": random.permutation(4) + 1 if number else np.zeros(0),
                "fs": 250,
                "classes": np.array(["left hand", "right hand", "feet", "tongue"], dtype=object),
                "artifacts": np.zeros(len(trials)),
                "gender": "male",
                "age": 22,
            }
        io.savemat(path, {"data": runs}, do_compression=subject % 2 == 1)
