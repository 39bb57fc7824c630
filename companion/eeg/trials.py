"""Notebook 4: the trials that are learnt from and attacked, of any source; or one line why not."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from companion.attacks.trials import known_and_attacked
from companion.data import alignment, eeg, store
from companion.data.eeg import Recordings
from companion.data.epochs import Epochs
from companion.data.store import DataError, Provenance
from companion.eeg.params import Attack, Recorded, Training
from ldp_core.randomness import Purpose, generator

RECORDED = "data", "subjects", "band", "window", "seed"  # what trials depend on, beside their rate
FEWEST = 10  # trials a subject must have, to be aligned and to be tested on

_loaded: dict[tuple, Recordings] = {}


@dataclass(frozen=True, eq=False)
class Trials:
    """All trials of several subjects: x [rows, channels, samples], y and the subject [rows]."""

    x: np.ndarray
    y: np.ndarray
    subject: np.ndarray
    fs: float
    classes: tuple[str, ...]
    provenance: Provenance

    def rows(self, subjects: Sequence[int]) -> np.ndarray:
        """Return the rows of some subjects."""
        return np.flatnonzero(np.isin(self.subject, subjects))


class Scene(NamedTuple):
    """Trials at the attack's rate: what the attacker owns with names, and what is attacked.

    Unit variance over all known ones. Attacked trials come in the order of attack: as many in a
    row as there are people are of different people.
    """

    known: np.ndarray
    known_y: np.ndarray
    known_who: np.ndarray
    x: np.ndarray
    y: np.ndarray
    who: np.ndarray
    fs: float
    provenance: Provenance


def load(params: Recorded) -> Recordings:
    """Return the recordings meant by `data`, restricted to its band and window; says whence, once.

    `data` is the name of a data set ("bnci2014_001", "physionet", "synthetic"), looked for where
    `companion.data.eeg.load` says, or a folder of epochs in our own form.
    """
    params.check()
    return _load(params)


def _load(params: Recorded, stand_in: bool = True) -> Recordings:
    """Return the recordings, read once in each process, whether a stand-in would do or not."""
    key = (params.data, params.subjects, params.band, params.window, params.seed)
    if key not in _loaded:
        whole = _whole(params, stand_in)
        _loaded[key] = cut(whole, *params.window) if params.window else whole
    return _loaded[key]


def real(params: Recorded) -> Recordings | None:
    """Return the recordings of a data set, or None where there is only a stand-in for them."""
    try:
        found = _load(params, stand_in=False)
    except DataError:
        return None
    return found if found.provenance.kind == "real" else None


def quietly(params: Recorded) -> Recordings:
    """Return the recordings without a word: who asked for the experiment has been told."""
    with contextlib.redirect_stderr(io.StringIO()):
        return _load(params)


def cut(whole: Recordings, start: float, stop: float) -> Recordings:
    """Return the part of every trial between two times; the hash stays that of the whole trials."""
    if all(subject.window == (start, stop) for subject in whole.subjects):
        return whole
    part = f"{whole.provenance.part}, {start:g} to {stop:g} s after the cue"
    subjects = tuple(subject.between(start, stop) for subject in whole.subjects)
    return Recordings(whole.numbers, subjects, replace(whole.provenance, part=part))


def _whole(params: Recorded, stand_in: bool) -> Recordings:
    data, subjects, band = params.data, params.subjects, params.band
    if data in eeg.DATASETS or data == "synthetic":
        return eeg.load(data, subjects, band=band, seed=params.seed, stand_in=stand_in)
    path = Path(data)
    if not path.is_dir():
        known = ", ".join((*eeg.DATASETS, "synthetic"))
        raise DataError(data, f"is neither a known data set ({known}) nor a folder of epochs")
    stored = eeg.read_folder(path, subjects)
    digest = store.sha256("\n".join(subject.digest() for subject in stored).encode())
    part = f"subjects {', '.join(map(str, subjects))}"
    provenance = Provenance("own epochs", "real", path.name, "", digest, "not stated", part)
    store.announce(provenance)
    found = tuple(subject.band_passed(*band) for subject in stored)
    return Recordings(tuple(subjects), found, provenance)


def found(params: Training, sha256: str) -> Trials:
    """Return the trials of a training, made once in each process; they must be those meant."""
    trials = _found(Training(**params.model_dump(include={*RECORDED, "fs"})))
    trials.provenance.require(sha256)
    return trials


@cache
def _found(params: Training) -> Trials:
    return aligned(quietly(params), params.fs)


def aligned(recordings: Recordings, fs: float) -> Trials:
    """Return the trials at `fs` samples a second (or their own rate, if lower), aligned by subject.

    Raises DataError in one line when a subject has too few trials or a single class.
    """
    for number, subject in zip(recordings.numbers, recordings.subjects, strict=True):
        if len(subject) < FEWEST:
            reason = f"subject {number} has {len(subject)} trials, a fold needs at least {FEWEST}"
            raise DataError(subject.subject, reason)
        if len(np.unique(subject.y)) < 2:
            only = f"trials of one class alone ({subject.classes[int(subject.y[0])]})"
            reason = f"subject {number} has {only}: nothing to tell apart"
            raise DataError(subject.subject, reason)
    subjects = [resampled(subject, fs) for subject in recordings.subjects]
    subjects = alignment.align_subjects(subjects)
    return Trials(
        x=np.concatenate([subject.X for subject in subjects]),
        y=np.concatenate([subject.y for subject in subjects]).astype(np.int64),
        subject=np.repeat(recordings.numbers, [len(subject) for subject in subjects]),
        fs=subjects[0].fs,
        classes=recordings.classes,
        provenance=recordings.provenance,
    )


def resampled(subject: Epochs, fs: float) -> Epochs:
    """Return the trials at `fs` samples a second (polyphase filter); never more than they have."""
    if fs >= subject.fs:
        return subject
    if subject.band[1] > fs / 2:
        reason = f"reaches {subject.band[1]:g} Hz, which fs = {fs:g} Hz cannot hold"
        raise DataError(subject.subject, reason)
    from scipy.signal import resample_poly

    ratio = Fraction(fs / subject.fs).limit_denominator(1000)
    x = subject.X.astype(np.float64)
    signal = resample_poly(x, ratio.numerator, ratio.denominator, axis=-1)
    return replace(subject, X=signal.astype(np.float32), fs=float(subject.fs * ratio))


def scene(params: Attack, aligned: bool, sha256: str | None = None) -> Scene:
    """Return the trials of an attack, made once in each process; they must be those meant."""
    trials = _scene(Attack(**params.model_dump(include={*RECORDED, "attack_fs"})), aligned)
    if sha256 is not None:
        trials.provenance.require(sha256)
    return trials


@cache
def _scene(params: Attack, aligned: bool) -> Scene:
    recordings = quietly(params)
    pairs = zip(recordings.numbers, recordings.subjects, strict=True)
    people = [_halves(params, number, subject, aligned) for number, subject in pairs]
    known, known_y, attacked, y, rates = zip(*people, strict=True)
    trials = min(map(len, attacked))  # as many of everybody
    mixed = np.stack([part[:trials] for part in attacked], axis=1)
    scale = np.concatenate(known).std()
    return Scene(
        known=np.concatenate(known) / scale,
        known_y=np.concatenate(known_y).astype(np.int64),
        known_who=np.repeat(recordings.numbers, list(map(len, known))),
        x=mixed.reshape(-1, *mixed.shape[2:]) / scale,
        y=np.stack([part[:trials] for part in y], axis=1).ravel().astype(np.int64),
        who=np.tile(recordings.numbers, trials),
        fs=rates[0],
        provenance=recordings.provenance,
    )


def _halves(params: Attack, number: int, subject: Epochs, aligned: bool) -> tuple:
    """Return a person's known trials and their labels, the attacked ones and theirs, and the rate.

    Each half is aligned by its own mean: with a common one the known trials would tell of the
    attacked ones.
    """
    masks = known_and_attacked(subject)
    subject = resampled(subject, params.attack_fs)
    known, attacked = (subject.X[mask].astype(np.float64) for mask in masks)
    if aligned:
        known, attacked = alignment.align(known), alignment.align(attacked)
    order = generator(params.seed, Purpose.ATTACK, number).permutation(len(attacked))
    labels = [subject.y[mask] for mask in masks]
    return known, labels[0], attacked[order], labels[1][order], subject.fs
