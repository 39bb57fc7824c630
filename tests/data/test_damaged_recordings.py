"""Damaged official recordings are refused in one line that names the file, and nothing of them
stays in the cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import mne
import numpy as np
import pytest
from scipy import io as matlab

from companion.data import DataError, eeg, recordings
from tests.data import writers
from tests.data.conftest import cached_files, refused

# Official recordings: how the bytes of a good file are changed.
RECORDINGS = {
    "EDF empty": ("physionet", lambda b: b"", "is empty"),
    "MAT empty": ("bnci2014_001", lambda b: b"", "is empty"),
    "MAT cut": ("bnci2014_001", lambda b: b[: len(b) // 2], "is not a whole MATLAB file"),
    "MAT one bit": (
        "bnci2014_001",
        lambda b: b[:9000] + bytes([b[9000] ^ 1]) + b[9001:],
        "is not a whole MATLAB file",
    ),
    "MAT a web page": (
        "bnci2014_001",
        lambda b: b"<html>404</html>",
        "is not a whole MATLAB file",
    ),
}
DATASETS = {"physionet": writers.PHYSIONET, "bnci2014_001": writers.BNCI}


@pytest.fixture
def copied(tiny_recordings, tmp_path, monkeypatch) -> Path:
    """Return a copy of subject 1's recordings that a test may damage."""
    monkeypatch.setattr(eeg, "DATASETS", DATASETS)
    for dataset in DATASETS.values():
        for name in dataset.files(1):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes((tiny_recordings / name).read_bytes())
    return tmp_path


@pytest.mark.parametrize("case", RECORDINGS)
def test_recordings(case, copied, cache):
    key, damage, problem = RECORDINGS[case]
    path = copied / DATASETS[key].files(1)[-1]
    path.write_bytes(damage(path.read_bytes()))
    refused(lambda: eeg.load(key, [1], folder=copied), path, problem, cache)


def test_a_recording_that_is_not_physionet_s(copied, cache):
    path = copied / recordings.PHYSIONET.files(1)[0]
    refused(
        lambda: recordings.load(recordings.PHYSIONET, 1, copied),
        path,
        "the published one is 3d161f88e1c0",
        cache,
    )


def test_a_recording_that_is_a_folder(copied, cache):
    path = copied / writers.BNCI.files(1)[0]
    path.unlink()
    path.mkdir()
    refused(lambda: eeg.load("bnci2014_001", [1], folder=copied), path, "is a folder", cache)


def _rewrite_mat(path: Path, edit: Callable[[list], list]) -> None:
    runs = matlab.loadmat(path, squeeze_me=True, struct_as_record=False)["data"]
    as_dicts = [{name: getattr(run, name) for name in run._fieldnames} for run in runs]
    array = np.empty(len(as_dicts), dtype=object)
    array[:] = edit(as_dicts)
    matlab.savemat(path, {"data": array})


BNCI_CONTENT = {
    "a subject with no trials": (
        lambda runs: [
            run | {"trial": np.zeros(0), "y": np.zeros(0), "artifacts": np.zeros(0)} for run in runs
        ],
        "A01 cannot be read by moabb",
    ),
    "too few channels": (
        lambda runs: [run | {"X": run["X"][:, :20]} for run in runs],
        "A01 cannot be read by moabb",
    ),
    "NaN in the signal": (
        lambda runs: [run | {"X": run["X"] * np.nan} for run in runs],
        "X is not finite in trial 0, channel 0",
    ),
    "another rate": (
        lambda runs: [run | {"fs": 500} for run in runs],
        "at 500.0 Hz, not (16, 22, 1000) at 250.0 Hz",
    ),
    "a class missing": (
        lambda runs: [run | {"y": np.minimum(run["y"], 3)} for run in runs],
        "has no trial of class tongue",
    ),
}


@pytest.mark.parametrize("case", BNCI_CONTENT)
def test_bnci_content(case, copied, cache):
    edit, problem = BNCI_CONTENT[case]
    for name in writers.BNCI.files(1):
        _rewrite_mat(copied / name, edit)
    path = copied / writers.BNCI.files(1)[0]
    with pytest.raises(DataError) as caught:
        eeg.load("bnci2014_001", [1], folder=copied)
    line = str(caught.value)
    assert str(path.parent) in line and problem in line and "\n" not in line, line
    assert cached_files(cache) == []


def test_half_the_trials_are_not_the_data_set(copied, cache):
    dataset = replace(writers.BNCI, trials=32)
    path = copied / dataset.files(1)[0]
    refused(
        lambda: recordings.load(dataset, 1, copied),
        path,
        "gives trials of shape (16, 22, 1000) at 250.0 Hz, not (32, ",
        cache,
    )


def test_an_edf_without_the_electrodes(copied, cache):
    for name in writers.PHYSIONET.files(1):
        raw = mne.io.read_raw_edf(copied / name, preload=True, verbose="ERROR").drop_channels(
            ["C3.."]
        )
        mne.export.export_raw(copied / name, raw, fmt="edf", overwrite=True, verbose="ERROR")
    with pytest.raises(DataError, match=r"S001.*C3") as caught:
        eeg.load("physionet", [1], folder=copied)
    assert "\n" not in str(caught.value) and cached_files(cache) == []
