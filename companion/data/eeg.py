"""Motor-imagery EEG: the paper's data set, another one, a folder in our form, or the stand-in."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from companion.data import epochs, recordings, store
from companion.data.epochs import Epochs
from companion.data.recordings import BNCI2014_001, PHYSIONET, Dataset, Recorded
from companion.data.store import DataError, Provenance
from ldp_core.randomness import word

NINE = tuple(range(1, 10))
MOST_SYNTHETIC = 99  # their names have two digits
DATASETS = {dataset.key: dataset for dataset in (BNCI2014_001, PHYSIONET)}


@dataclass(frozen=True)
class Folder:
    """A folder of epochs in our own form below LDP_DATA, and what its files do not say."""

    name: str
    band: tuple[float, float] = epochs.UNKNOWN
    unit: str = "unknown"
    part: bool = False  # only a part of the trials


FOLDERS = {
    BNCI2014_001.key: (Folder("bnci2014_001"), Folder("bnci2014_001_partial", unit="1", part=True)),
    PHYSIONET.key: (Folder("physionet"), Folder("physionet_epochs", band=(8.0, 30.0), unit="uV")),
}
LAYOUTS = {  # folders below LDP_DATA that may hold the official files in moabb's layout
    BNCI2014_001.key: ("", "bnci2014_001_raw", "mne_data"),
    PHYSIONET.key: ("", "physionet_raw", "mne_data"),
}


@dataclass(frozen=True, eq=False)
class Recordings:
    """Trials of subjects that can be compared: same electrodes, rate, length and classes."""

    numbers: tuple[int, ...]
    subjects: tuple[Epochs, ...]
    provenance: Provenance

    def __post_init__(self) -> None:
        _check_alike(self.subjects)

    def __getitem__(self, number: int) -> Epochs:
        """Return the trials of the subject with this number."""
        return self.subjects[self.numbers.index(number)]

    @property
    def fs(self) -> float:
        """Return the samples per second."""
        return self.subjects[0].fs

    @property
    def ch_names(self) -> tuple[str, ...]:
        """Return the names of the electrodes."""
        return self.subjects[0].ch_names

    @property
    def classes(self) -> tuple[str, ...]:
        """Return the names of the classes."""
        return self.subjects[0].classes

    def stacked(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (X, y, subject) of all trials: signals, classes, numbers of subjects."""
        who = np.repeat(self.numbers, [len(subject) for subject in self.subjects])
        X, y = ([getattr(one, name) for one in self.subjects] for name in ("X", "y"))
        return np.concatenate(X), np.concatenate(y), who


def load(
    dataset: str = BNCI2014_001.key,
    subjects: Sequence[int] = NINE,
    *,
    folder: str | os.PathLike | None = None,
    download: bool = False,
    stand_in: bool = True,
    band: tuple[float, float] = recordings.BAND,
    seed: int = 0,
) -> Recordings:
    """Return the subjects' trials, restricted to `band`, from the first place that has all of them.

    dataset: "bnci2014_001" (the paper's), "physionet" or "synthetic". The places, in order: epochs
    in our own form below the named folder; the official recordings below it; for BNCI2014_001 the
    published part of it below it; the cache; the official download if `download`; the synthetic
    stand-in, made from `seed`, if `stand_in`.

    Raises DataError when a file in the named folder is damaged, and when nothing is found and
    `stand_in` is False.
    """
    subjects, found = _numbers(dataset, subjects), None
    if dataset != "synthetic":
        found = _real(DATASETS[dataset], subjects, store.named_folder(folder), download)
        if found is None and not stand_in:
            nowhere = "neither LDP_DATA nor the cache has all the subjects"
            raise DataError(dataset, f"{nowhere}, and a stand-in was not wanted")
    found = found or _synthetic(subjects, seed)
    found = replace(found, subjects=tuple(subject.band_passed(*band) for subject in found.subjects))
    store.announce(found.provenance)
    return found


def read_folder(
    path: Path, numbers: Sequence[int] | None = None, known: Folder | None = None
) -> list[Epochs]:
    """Return the subjects of a folder of files in our own form (see `epochs`), ordered by name.

    With `numbers`, only the files whose name ends in one of these numbers (A01.npz and S001.npz are
    both number 1).
    """
    files = {file: _number(file) for file in store.listing(path, ".npz")}
    if not files:
        raise DataError(path, "has no .npz file")
    wanted = list(files) if numbers is None else [_only(path, files, number) for number in numbers]
    found = [epochs.read(file) for file in wanted]
    if known is None:
        return found
    return [_with_known(subject, known) for subject in found]


def _with_known(subject: Epochs, known: Folder) -> Epochs:
    band = known.band if math.isnan(subject.band[0]) else subject.band
    unit = known.unit if subject.unit == "unknown" else subject.unit
    return replace(subject, band=band, unit=unit)


def _only(path: Path, files: dict[Path, int | None], number: int) -> Path:
    """Return the one file with a number."""
    found = [file for file in files if files[file] == number]
    if len(found) != 1:
        names = " and ".join(file.name for file in found) or "no file"
        raise DataError(path, f"has {names} for subject {number}, it must be one file")
    return found[0]


def _real(
    dataset: Dataset, subjects: tuple[int, ...], named: Path | None, download: bool
) -> Recordings | None:
    """Return the subjects from the first place that has all of them."""
    found = named and (
        _from_folder(dataset, subjects, named, part=False)
        or _named_recordings(dataset, subjects, named)
        or _from_folder(dataset, subjects, named, part=True)
    )
    found = found or _cached(dataset, subjects)
    return _downloaded(dataset, subjects) if found is None and download else found


def _from_folder(
    dataset: Dataset, subjects: tuple[int, ...], named: Path, part: bool
) -> Recordings | None:
    """Return the subjects from the first folder of epochs that has all of them.

    Say in one line who is missing from another.
    """
    for known in (known for known in FOLDERS[dataset.key] if known.part is part):
        path = named / known.name
        if not store.exists(path):
            continue
        absent = sorted(set(subjects) - {_number(file) for file in store.listing(path, ".npz")})
        if not absent:
            found = read_folder(path, subjects, known)
            return _recordings(dataset, subjects, found, f"LDP_DATA/{known.name}")
        names = ", ".join(map(str, absent))
        store.log.warning("%s: has no subject %s, so it is left out", path, names)
    return None


def _named_recordings(
    dataset: Dataset, subjects: tuple[int, ...], named: Path
) -> Recordings | None:
    for name in LAYOUTS[dataset.key]:
        if not recordings.missing(dataset, subjects, named / name):
            found = [recordings.load(dataset, subject, named / name) for subject in subjects]
            place = "/".join(filter(None, ("LDP_DATA", name)))
            return _recordings(dataset, subjects, found, f"{place}, read by moabb")
    return None


def _cached(dataset: Dataset, subjects: tuple[int, ...]) -> Recordings | None:
    """Return the subjects from recordings or trials in the cache; damaged ones count as absent."""
    raw = store.cache_folder() / "recordings"
    is_raw = not recordings.missing(dataset, subjects, raw)
    try:
        found = [
            recordings.load(dataset, subject, raw)
            if is_raw
            else recordings.cached(dataset, subject)
            for subject in subjects
        ]
    except DataError as error:
        store.forget(error)
        return None
    if None in found:
        return None
    return _recordings(dataset, subjects, found, "the cache, read by moabb before")


def _downloaded(dataset: Dataset, subjects: tuple[int, ...]) -> Recordings | None:
    try:
        places = ((subject, recordings.download(dataset, subject)) for subject in subjects)
        found = [recordings.load(dataset, *place) for place in places]
    except DataError as error:
        store.log.warning("%s", error)
        return None
    return _recordings(dataset, subjects, found, "moabb's download")


def _synthetic(subjects: tuple[int, ...], seed: int) -> Recordings:
    from companion.data import synthetic_eeg

    found = synthetic_eeg.generate(seed, subjects)
    synthetic_eeg.check(seed, subjects, found)
    provenance = Provenance(
        name="synthetic motor imagery",
        kind="synthetic",
        source=f"companion.data.synthetic_eeg, seed {seed}",
        version=synthetic_eeg.VERSION,
        sha256=_fingerprint(found),
        licence="MIT",
        part=_who(subjects),
    )
    return Recordings(subjects, tuple(found), provenance)


def _recordings(
    dataset: Dataset, subjects: tuple[int, ...], found: list, source: str
) -> Recordings:
    """Return real recordings; their provenance says what part of the data set they are."""
    part = ", ".join([_who(subjects, dataset.people), *_unusual(dataset, found)])
    facts = "real", source, dataset.version, _fingerprint(found), dataset.licence
    return Recordings(subjects, tuple(found), Provenance(dataset.title, *facts, part))


def _unusual(dataset: Dataset, found: Sequence[Epochs]) -> list[str]:
    """Return in words whose trials are not as many as published, and who was resampled."""
    published = dataset.trials * len(found)
    if dataset.alike and sum(map(len, found)) != published:
        start, stop = found[0].window
        part = f"{sum(map(len, found))} of {published} trials"
        return [f"{part}, {start:g} to {stop:g} s after the cue"]
    odd = [one for one in found if len(one) != dataset.trials]
    slow = [one for one in found if isinstance(one, Recorded) and one.recorded_fs != one.fs]
    notes = _grouped(odd, lambda one: f"with {len(one)} trials instead of {dataset.trials}")
    return notes + _grouped(slow, lambda one: f"resampled from {one.recorded_fs:g} Hz")


def _grouped(people: Sequence[Epochs], words: Callable[[Any], str]) -> list[str]:
    """Return the names of people, and behind them what is said of all of these alike."""
    said: dict[str, list[str]] = {}
    for one in people:
        said.setdefault(words(one), []).append(one.subject)
    return [f"{', '.join(names)} {text}" for text, names in said.items()]


def _fingerprint(found: Sequence[Epochs]) -> str:
    """Return one SHA-256 of all: of their content, or of the recordings they are computed from."""
    names = (one.source if isinstance(one, Recorded) else one.digest() for one in found)
    return store.sha256("\n".join(names).encode())


def _who(subjects: tuple[int, ...], people: int | None = None) -> str:
    """Return the subjects in words, such as "subjects 1-9 of 109"."""
    if people is not None and subjects == tuple(range(1, people + 1)):
        return f"all {people} subjects"
    in_a_row = len(subjects) > 1 and subjects == tuple(range(subjects[0], subjects[-1] + 1))
    numbers = f"{subjects[0]}-{subjects[-1]}" if in_a_row else ", ".join(map(str, subjects))
    return f"subject{'s' * (len(subjects) > 1)} {numbers}" + (f" of {people}" if people else "")


def _number(file: Path) -> int | None:
    """Return the number at the end of a file's name, or None."""
    digits = file.stem[len(file.stem.rstrip("0123456789")) :]
    return int(digits) if digits else None


def _numbers(dataset: str, subjects: Sequence[int]) -> tuple[int, ...]:
    if dataset != "synthetic" and dataset not in DATASETS:
        raise ValueError(f"dataset = {dataset!r} must be one of {', '.join(DATASETS)}, synthetic")
    people = DATASETS[dataset].people if dataset in DATASETS else MOST_SYNTHETIC
    numbers = tuple(word("subject", subject) for subject in subjects)
    different = len(set(numbers)) == len(numbers) > 0
    if not different or not 1 <= min(numbers) <= max(numbers) <= people:
        raise ValueError(f"subjects = {list(numbers)} must be different numbers of 1 ... {people}")
    return numbers


def _check_alike(subjects: Sequence[Epochs]) -> None:
    """Raise unless all subjects have the same electrodes, rate, number of samples and classes."""
    first = subjects[0]
    for subject in subjects[1:]:
        for name in ("fs", "ch_names", "classes"):
            mine, theirs = getattr(first, name), getattr(subject, name)
            if mine != theirs:
                problem = f"has {name} = {theirs}, but {first.subject} has {mine}"
                raise DataError(subject.subject, problem)
        mine, theirs = first.X.shape[2], subject.X.shape[2]
        if mine != theirs:
            problem = f"has {theirs} samples a trial, but {first.subject} has {mine}"
            raise DataError(subject.subject, problem)
