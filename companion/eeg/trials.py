"""Notebook 4: the trials that the EEG experiments learn from, of any source, resampled and aligned; or one line why not."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np

from companion.data import alignment, eeg, store
from companion.data.eeg import Recordings
from companion.data.epochs import Epochs
from companion.data.store import DataError, Provenance
from companion.params import ParameterError

Alignment = Literal["subject", "session", "none"]
Pair = tuple[float, ...]  # of two numbers; a window may also be empty
FEWEST = 10  # trials a subject must have, to be aligned and to be tested on


@dataclass(frozen=True, eq=False)
class Trials:
    """All trials of several subjects in one array: x [rows, channels, samples], y and the number of the subject [rows]."""

    x: np.ndarray
    y: np.ndarray
    subject: np.ndarray
    fs: float
    ch_names: tuple[str, ...]
    classes: tuple[str, ...]
    provenance: Provenance

    def rows(self, subjects: Sequence[int]) -> np.ndarray:
        """Return the rows of some subjects."""
        return np.flatnonzero(np.isin(self.subject, subjects))


def check_window(window: Sequence[float]) -> None:
    """Raise unless `window` is empty or a start and a later stop."""
    if len(window) not in (0, 2) or sorted(set(window)) != list(window):
        raise ParameterError(f"window = {list(window)} must be empty or two increasing times, in seconds after the cue")


def load(data: str, subjects: Sequence[int], band: Sequence[float], window: Sequence[float] = (), seed: int = 0) -> Recordings:
    """Return the recordings meant by `data`: the name of a data set ("bnci2014_001", "physionet", "synthetic") or a folder of
    epochs in our own form. A data set is looked for where `companion.data.eeg.load` says; all are restricted to `band` and, if
    it is not empty, to `window`.
    """
    whole = _whole(data, subjects, band, seed)
    return cut(whole, window[0], window[1]) if len(window) else whole


def cut(whole: Recordings, start: float, stop: float) -> Recordings:
    """Return the part of every trial between two times after the cue; the hash stays that of the whole trials."""
    if all(subject.window == (start, stop) for subject in whole.subjects):
        return whole
    part = f"{whole.provenance.part}, {start:g} to {stop:g} s after the cue"
    subjects = tuple(subject.between(start, stop) for subject in whole.subjects)
    return Recordings(whole.numbers, subjects, replace(whole.provenance, part=part))


def _whole(data: str, subjects: Sequence[int], band: Sequence[float], seed: int) -> Recordings:
    if data in eeg.DATASETS or data == "synthetic":
        return eeg.load(data, subjects, band=(band[0], band[1]), seed=seed)
    path = Path(data)
    if not path.is_dir():
        known = ", ".join((*eeg.DATASETS, "synthetic"))
        raise DataError(data, f"is neither a known data set ({known}) nor a folder of epochs")
    stored = eeg.read_folder(path, subjects)
    digest = store.sha256("\n".join(subject.digest() for subject in stored).encode())
    found = [subject.band_passed(band[0], band[1]) for subject in stored]
    provenance = Provenance(
        "own epochs", "real", path.name, "", digest, "not stated", f"subjects {', '.join(map(str, subjects))}"
    )
    store.announce(provenance)
    return Recordings(tuple(subjects), tuple(found), provenance)


def trials(recordings: Recordings, fs: float, align: Alignment) -> Trials:
    """Return the trials at `fs` samples a second (or their own rate, if lower), each subject or session aligned by itself.

    Raises DataError in one line when a subject has too few trials or a single class.
    """
    for number, subject in zip(recordings.numbers, recordings.subjects, strict=True):
        _check(number, subject)
    subjects = [resampled(subject, fs) for subject in recordings.subjects]
    if align != "none":
        subjects = alignment.align_subjects(subjects, by_session=align == "session")
    return Trials(
        x=np.concatenate([subject.X for subject in subjects]),
        y=np.concatenate([subject.y for subject in subjects]).astype(np.int64),
        subject=np.repeat(recordings.numbers, [len(subject) for subject in subjects]),
        fs=subjects[0].fs,
        ch_names=recordings.ch_names,
        classes=recordings.classes,
        provenance=recordings.provenance,
    )


def resampled(subject: Epochs, fs: float) -> Epochs:
    """Return the trials at `fs` samples a second (scipy's polyphase filter against aliasing); never more than they have."""
    if fs >= subject.fs:
        return subject
    if subject.band[1] > fs / 2:
        raise DataError(subject.subject, f"reaches {subject.band[1]:g} Hz, which fs = {fs:g} Hz cannot hold")
    from scipy.signal import resample_poly

    ratio = Fraction(fs / subject.fs).limit_denominator(1000)
    signal = resample_poly(subject.X.astype(np.float64), ratio.numerator, ratio.denominator, axis=-1)
    return replace(subject, X=signal.astype(np.float32), fs=float(subject.fs * ratio))


@cache
def cached(
    data: str,
    subjects: tuple[int, ...],
    band: tuple[float, ...],
    window: tuple[float, ...],
    fs: float,
    align: Alignment,
    seed: int,
) -> Trials:
    """Return the trials, made once in each process, and without a word: who asked for the experiment has been told."""
    with contextlib.redirect_stderr(io.StringIO()):
        recordings = load(data, subjects, band, window, seed)
    return trials(recordings, fs, align)


def require(found: Trials, sha256: str) -> None:
    """Raise unless these trials come from the recordings that were meant."""
    if found.provenance.sha256 != sha256:
        raise ValueError(
            f"the recordings here have SHA-256 {found.provenance.sha256[:12]}, those meant {sha256[:12]}"
            f" (LDP_DATA = {os.environ.get('LDP_DATA', '')!r})"
        )


def _check(number: int, subject: Epochs) -> None:
    if len(subject) < FEWEST:
        raise DataError(subject.subject, f"subject {number} has {len(subject)} trials, a fold needs at least {FEWEST}")
    if len(np.unique(subject.y)) < 2:
        only = subject.classes[int(subject.y[0])]
        raise DataError(subject.subject, f"subject {number} has trials of one class alone ({only}): nothing to tell apart")
