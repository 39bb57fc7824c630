"""Motor-imagery EEG: the paper's data set, another one, a folder in our form, or the stand-in."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from companion.data import epochs, recordings, store
from companion.data.epochs import Epochs
from companion.data.recordings import BNCI2014_001, PHYSIONET, Dataset
from companion.data.store import DataError, Provenance
from ldp_core.checks import word

NINE = tuple(range(1, 10))
MOST_SYNTHETIC = 99  # their names have two digits
DATASETS = {dataset.key: dataset for dataset in (BNCI2014_001, PHYSIONET)}


# folders of epochs in our own form, and what the files of some do not say
OWN_FORM: dict[str, dict[str, Any]] = {
    "bnci2014_001": {},
    "bnci2014_001_partial": {"unit": "1"},  # not all trials
    "physionet": {},
    "physionet_epochs": {"band": (8.0, 30.0), "unit": "uV"},
}
PLACES = {  # below LDP_DATA, in this order; those not above may hold files in moabb's layout
    "bnci2014_001": ("bnci2014_001", "", "bnci2014_001_raw", "mne_data", "bnci2014_001_partial"),
    "physionet": ("physionet", "physionet_epochs", "", "physionet_raw", "mne_data"),
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


def read_folder(path: Path, numbers: Sequence[int]) -> list[Epochs]:
    """Return subjects of a folder of files in our own form (see `epochs`), in this order.

    A file's name ends in its subject's number: A01.npz and S001.npz are both number 1.
    """
    files = {file: _number(file) for file in store.listing(path, ".npz")}
    if not files:
        raise DataError(path, "has no .npz file")
    return [epochs.read(_only(path, files, number)) for number in numbers]


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
    for name in PLACES[dataset.key] if named else ():
        find = _own_form if name in OWN_FORM else _official
        if found := find(dataset, subjects, Path(named or "", name)):
            source = "/".join(filter(None, ("LDP_DATA", name)))
            source += "" if name in OWN_FORM else ", read by moabb"
            return _recordings(dataset, subjects, found, source)
    return _cached(dataset, subjects) or (_downloaded(dataset, subjects) if download else None)


def _own_form(dataset: Dataset, subjects: tuple[int, ...], path: Path) -> list[Epochs]:
    """Return the subjects from a folder of epochs; none, and say who, if one is missing."""
    if not store.exists(path):
        return []
    absent = sorted(set(subjects) - {_number(file) for file in store.listing(path, ".npz")})
    if absent:
        names = ", ".join(map(str, absent))
        store.log.warning("%s: has no subject %s, so it is left out", path, names)
        return []
    return [_with_known(one, OWN_FORM[path.name]) for one in read_folder(path, subjects)]


def _with_known(one: Epochs, known: dict) -> Epochs:
    """Return trials with what is known of them; here their content counts, not what it is from."""
    unsaid = [name for name in known if getattr(one, name) in (epochs.UNKNOWN, "unknown")]
    return replace(one, source="", **{name: known[name] for name in unsaid})


def _official(dataset: Dataset, subjects: tuple[int, ...], path: Path) -> list[Epochs]:
    if recordings.missing(dataset, subjects, path):
        return []
    return [recordings.load(dataset, subject, path) for subject in subjects]


def _cached(dataset: Dataset, subjects: tuple[int, ...]) -> Recordings | None:
    """Return the subjects from recordings or trials in the cache; damaged ones count as absent."""
    try:
        found: list = _official(dataset, subjects, store.cache_folder() / "recordings")
        found = found or [recordings.cached(dataset, subject) for subject in subjects]
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
    source = f"companion.data.synthetic_eeg, seed {seed}"
    facts = "synthetic", source, synthetic_eeg.VERSION, _fingerprint(found), "MIT", _who(subjects)
    return Recordings(subjects, tuple(found), Provenance("synthetic motor imagery", *facts))


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
    slow = [one for one in found if one.source and one.recorded_fs != one.fs]
    notes = [(f"with {len(one)} trials instead of {dataset.trials}", one) for one in odd]
    notes += [(f"resampled from {one.recorded_fs:g} Hz", one) for one in slow]
    said: dict[str, list[str]] = {}  # of whom the same is to be said
    for text, one in notes:
        said.setdefault(text, []).append(one.subject)
    return [f"{', '.join(names)} {text}" for text, names in said.items()]


def _fingerprint(found: Sequence[Epochs]) -> str:
    """Return one SHA-256 of all: of their content, or of the recordings they are computed from."""
    return store.sha256("\n".join(one.source or one.digest() for one in found).encode())


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
    names = ("fs", "ch_names", "classes", "samples")
    facts = [(one.fs, one.ch_names, one.classes, one.X.shape[2]) for one in subjects]
    for subject, theirs in zip(subjects, facts, strict=True):
        for name, mine, other in zip(names, facts[0], theirs, strict=True):
            if mine != other:
                problem = f"has {name} = {other}, but {subjects[0].subject} has {mine}"
                raise DataError(subject.subject, problem)
