"""The official EEG recordings, read by moabb: BNCI2014_001 (the paper's) and PhysionetMI.

moabb is imported only here and only when a recording is really read, because that takes seconds. It
believes any file that has the right name, and fetches any that has not; so every file is checked
before moabb sees it, and moabb is called only when all files are there or a download was asked for.
What it makes is kept in the cache in the form of `epochs`, together with the digest of the files it
was made from.

Layouts, as moabb has them below one folder:

    MNE-bnci-data/~bci/database/001-2014/A01T.mat, A01E.mat, ...     (`~bci` is a folder's name)
    MNE-eegbci-data/files/eegmmidb/1.0.0/S001/S001R04.edf, ...       (imagery: runs 4, 6, ... 14)
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import logging
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

import numpy as np

from companion import files
from companion.data import epochs, store
from companion.data.epochs import CHANNELS, Epochs
from companion.data.store import DataError

BAND = (8.0, 30.0)  # Hz, as in the paper
WINDOW = (0.0, 4.0)  # seconds after the cue, as in the paper
MICROVOLTS = 1e6  # in one volt


@dataclass(frozen=True)
class Dataset:
    """What is published about a data set, and where its files are.

    `runs` are the numbers of the runs in the order in which moabb counts them. `alike` says whether
    everybody has `trials` trials at `fs`; if not, whoever was sampled at another rate is resampled.
    `title` is moabb's name for it. `checked` says whether published SHA-256 sums exist for the
    files; without them only their structure can be checked.
    """

    key: str
    title: str
    people: int
    file_pattern: str
    parts: tuple[str, ...]
    name_pattern: str
    fs: float
    classes: tuple[str, ...]
    runs: tuple[int, ...]
    trials: int
    version: str
    licence: str
    alike: bool
    checked: bool

    def name(self, subject: int) -> str:
        """Return the data set's own name of a subject, such as A01."""
        return self.name_pattern.format(subject=subject)

    def files(self, subject: int) -> list[str]:
        """Return a subject's files, relative to the folder that holds the layout."""
        return [self.file_pattern.format(subject=subject, part=part) for part in self.parts]


BNCI2014_001 = Dataset(
    key="bnci2014_001",
    title="BNCI2014_001",
    people=9,
    file_pattern="MNE-bnci-data/~bci/database/001-2014/A{subject:02d}{part}.mat",
    parts=("T", "E"),
    name_pattern="A{subject:02d}",
    fs=250.0,
    classes=("left_hand", "right_hand", "feet", "tongue"),
    runs=(0, 1, 2, 3, 4, 5),
    trials=576,
    version="001-2014",
    licence="CC BY-ND 4.0",
    alike=True,
    checked=False,
)
PHYSIONET = Dataset(
    key="physionet",
    title="PhysionetMI",
    people=109,
    file_pattern="MNE-eegbci-data/files/eegmmidb/1.0.0/S{subject:03d}/S{subject:03d}R{part}.edf",
    parts=("04", "06", "08", "10", "12", "14"),
    name_pattern="S{subject:03d}",
    fs=160.0,
    classes=("left_hand", "right_hand", "hands", "feet"),
    runs=(4, 8, 12, 6, 10, 14),
    trials=90,
    version="EEGMMIDB 1.0.0",
    licence="ODC-By 1.0",
    alike=False,  # S104 has 87 trials; S088, S092 and S100 were sampled at 128 Hz
    checked=True,
)


def missing(dataset: Dataset, subjects: Sequence[int], raw: Path) -> list[str]:
    """Return which of the subjects' files are not below a folder."""
    wanted = [name for subject in subjects for name in dataset.files(subject)]
    return [name for name in wanted if not store.exists(raw / name)]


def load(dataset: Dataset, subject: int, raw: Path) -> Epochs:
    """Return one subject's trials, band-passed and cut as in the paper, from recordings.

    The first time moabb reads them; later they come from the cache, if the recordings are still the
    same. Raises DataError when a recording is damaged.
    """
    digests = [_check_file(dataset, raw / name) for name in dataset.files(subject)]
    source = store.sha256("\n".join([_recipe(dataset), *digests]).encode())
    found = cached(dataset, subject, source)
    if found is None:
        found = _by_moabb(dataset, subject, raw, source)
        path = cache_path(dataset, subject)
        try:
            epochs.write(path, found)
        except OSError as error:  # a full disk must not cost data
            store.log.warning("%s: not cached (%s)", path, store.reason(error))
    return found


def cached(dataset: Dataset, subject: int, source: str | None = None) -> Epochs | None:
    """Return one subject's trials from the cache, if whole and made from these recordings."""
    path = cache_path(dataset, subject)
    try:
        if not store.exists(path):
            return None
        found = epochs.read(path)
        if not found.source:
            raise DataError(path, "does not say which recordings it was made from")
        _check_epochs(dataset, found, path)
    except DataError as error:
        store.forget(error)
        return None
    return found if source in (None, found.source) else None


def download(dataset: Dataset, subject: int) -> Path:
    """Let moabb download one subject into the cache, check what came, and return the folder.

    A damaged file, old or new, is removed, so that the next try fetches it again.
    """
    raw = store.cache_folder() / "recordings"
    _remove_damaged(dataset, subject, raw)
    try:
        raw.mkdir(parents=True, exist_ok=True)
        with _moabb(raw) as (datasets, _):
            getattr(datasets, dataset.title)().data_path(subject)
    except Exception as error:  # whatever a server, a proxy or a full disk can do
        problem = f"subject {subject} was not downloaded ({store.reason(error)})"
        raise DataError(dataset.title, problem) from None
    for damaged in _remove_damaged(dataset, subject, raw):
        raise damaged
    return raw


def cache_path(dataset: Dataset, subject: int) -> Path:
    """Return where a subject's trials are kept.

    Another band, window, electrode or version of moabb is another place.
    """
    place = store.cache_folder() / "eeg" / dataset.key / _recipe(dataset)[:16]
    return place / f"{dataset.name(subject)}.npz"


def _recipe(dataset: Dataset) -> str:
    """Return the SHA-256 of all that decides what is made of recordings."""
    versions = metadata.version("moabb"), metadata.version("mne")
    settings = (dataset.checked, dataset.trials, dataset.fs, BAND, WINDOW, CHANNELS, *versions)
    return store.sha256(json.dumps(settings).encode())


def _by_moabb(dataset: Dataset, subject: int, raw: Path, source: str) -> Epochs:
    """Return one subject's trials as moabb reads them, at the rate of the data set.

    A trial ends one sample before the window's end: some runs of PhysionetMI end there, too.
    """
    path = raw / dataset.files(subject)[0]
    try:
        with _moabb(raw) as (datasets, paradigms):
            cut = paradigms.MotorImagery(
                events=list(dataset.classes),
                n_classes=len(dataset.classes),
                fmin=BAND[0],
                fmax=BAND[1],
                tmin=WINDOW[0],
                tmax=WINDOW[1] - 1.0 / dataset.fs,  # MNE keeps a window's last point
                channels=list(CHANNELS),
            )
            instance = getattr(datasets, dataset.title)()
            found = cut.get_data(instance, subjects=[subject], return_epochs=True)
            recorded_fs = found[0].info["sfreq"]
            if recorded_fs != dataset.fs and not dataset.alike:
                found[0].resample(dataset.fs)
    except Exception as error:  # moabb, mne and scipy raise almost anything on a damaged recording
        problem = f"{dataset.name(subject)} cannot be read by moabb ({store.reason(error)})"
        raise DataError(path.parent, problem) from None
    if set(found[0].ch_names) != set(CHANNELS):
        names = ", ".join(found[0].ch_names)
        raise DataError(path, f"has the channels {names}, wanted are {', '.join(CHANNELS)}")
    try:
        trials = Epochs(**_sorted(dataset, subject, *found), source=source, recorded_fs=recorded_fs)
    except ValueError as error:
        raise DataError(path, store.reason(error)) from None
    _check_epochs(dataset, trials, path)
    return trials


def _sorted(dataset: Dataset, subject: int, trials, labels, table) -> dict:
    """Return moabb's trials as fields of `Epochs`, in the order of sessions and runs."""
    run = np.array([dataset.runs[int(number)] for number in table["run"]])
    session = np.array([int(str(name)[0]) for name in table["session"]])
    order = np.lexsort((run, session))  # stable: trials keep their order within a run
    picks = [trials.ch_names.index(name) for name in CHANNELS]
    return {
        "subject": dataset.name(subject),
        "X": trials.get_data(copy=False)[order][:, picks] * MICROVOLTS,
        "y": np.array([dataset.classes.index(label) for label in labels])[order],
        "fs": trials.info["sfreq"],
        "ch_names": CHANNELS,
        "classes": dataset.classes,
        "session": session[order],
        "run": run[order],
        "band": BAND,
        "window": WINDOW,
        "unit": "uV",
    }


def _check_epochs(dataset: Dataset, found: Epochs, path: Path) -> None:
    """Raise unless trials are as many (if people are alike), as long and as varied as published."""
    samples = round((WINDOW[1] - WINDOW[0]) * dataset.fs)
    expected = (dataset.trials if dataset.alike else len(found), len(CHANNELS), samples)
    if found.X.shape != expected or found.fs != dataset.fs:
        given = f"gives trials of shape {found.X.shape} at {found.fs} Hz"
        raise DataError(path, f"{given}, not {expected} at {dataset.fs} Hz")
    absent = [name for index, name in enumerate(dataset.classes) if not (found.y == index).any()]
    if absent or found.classes != dataset.classes:
        raise DataError(path, f"has no trial of class {', '.join(absent or dataset.classes)}")


def _check_file(dataset: Dataset, path: Path) -> str:
    """Return the SHA-256 of one recording, or raise DataError that says what is wrong with it."""
    content = store.read(path)
    if dataset.checked:
        published = _published_sums().get("/".join(path.parts[-2:]), "unknown")
        store.check_digest(path, content, published)
    elif path.suffix == ".mat":
        from scipy import io as matlab

        try:
            matlab.loadmat(io.BytesIO(content))
        except Exception as error:  # scipy raises almost anything on damaged bytes
            raise DataError(path, f"is not a whole MATLAB file ({store.reason(error)})") from None
    return store.sha256(content)


def _remove_damaged(dataset: Dataset, subject: int, raw: Path) -> list[DataError]:
    """Remove a subject's damaged recordings from the cache; say and return what was wrong."""
    damaged = []
    for path in (raw / name for name in dataset.files(subject)):
        try:
            if store.exists(path):
                _check_file(dataset, path)
        except DataError as error:
            store.forget(error)
            damaged.append(error)
    return damaged


@cache
def _published_sums() -> Mapping[str, str]:
    """Return PhysioNet's own SHA-256 sums of all its EDF files, as the MNE package carries them."""
    spec = importlib.util.find_spec("mne")
    if spec is None or spec.origin is None:
        raise DataError("mne", "is not installed, and it holds the published checksums")
    lines = (Path(spec.origin).parent / "data" / "eegbci_checksums.txt").read_text().splitlines()
    return dict(line.split() for line in lines if line.strip())


@contextlib.contextmanager
def _moabb(raw: Path) -> Iterator[tuple]:
    """Give (moabb.datasets, moabb.paradigms): quiet, and seeing this folder only, no home."""
    places = ("MNE_DATA", "MNE_DATASETS_BNCI_PATH", "MNE_DATASETS_EEGBCI_PATH")
    flags = {"MNE_DONTWRITE_HOME": "true", "MOABB_DOWNLOAD_PROVIDER": "upstream"}
    drawing = os.environ.get("MPLCONFIGDIR") or str(store.cache_folder() / "matplotlib")
    log = logging.getLogger("mne")
    log.addFilter(_errors_only)
    settings = {**dict.fromkeys(places, str(raw)), **flags, "MPLCONFIGDIR": drawing}
    try:
        with files.variables(settings), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import mne
            from moabb import datasets, paradigms

            with mne.utils.use_log_level("ERROR"):
                yield datasets, paradigms
    finally:
        log.removeFilter(_errors_only)


def _errors_only(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.ERROR
