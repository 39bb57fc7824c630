"""The search for EEG: the right place first, one line each, and provenance that says what part was
found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from companion.data import DataError, eeg, epochs
from tests.data import writers


def _folder(path, numbers=range(1, 10), pattern="A{:02d}", **changes):
    for number in numbers:
        one = writers.epochs(number, **changes)
        epochs.write(path / f"{pattern.format(number)}.npz", one)
    return path


def test_epochs_of_our_own_form_are_found_below_ldp_data(tmp_path, monkeypatch, caplog):
    _folder(tmp_path / "bnci2014_001")
    monkeypatch.setenv("LDP_DATA", str(tmp_path))
    found = eeg.load()
    assert found.numbers == tuple(range(1, 10)) and found.provenance.kind == "real"
    assert found.provenance.source == "LDP_DATA/bnci2014_001"
    assert "72 of 5184 trials" in found.provenance.part
    assert caplog.messages == [found.provenance.line()]
    assert (found[4].X == writers.epochs(4).X).all()


def test_a_part_is_used_only_when_the_whole_is_not_there(tmp_path):
    _folder(tmp_path / "bnci2014_001_partial", band=(0.0, 38.0), samples=200)
    part = eeg.load(folder=tmp_path)
    assert part.provenance.source == "LDP_DATA/bnci2014_001_partial" and part.subjects[0].band == (
        8.0,
        30.0,
    )
    _folder(tmp_path / "bnci2014_001")
    assert eeg.load(folder=tmp_path).provenance.source == "LDP_DATA/bnci2014_001"


def test_official_recordings_below_ldp_data_are_read(tiny_recordings, monkeypatch):
    monkeypatch.setattr(
        eeg, "DATASETS", {"physionet": writers.PHYSIONET, "bnci2014_001": writers.BNCI}
    )
    found = eeg.load("physionet", folder=tiny_recordings)
    assert found.provenance.source == "LDP_DATA, read by moabb" and len(found.subjects) == 9
    assert found.provenance.part == "subjects 1-9 of 109"
    assert eeg.load("bnci2014_001", [2, 1], folder=tiny_recordings).numbers == (2, 1)


def test_an_incomplete_folder_is_named_and_left_out(tmp_path, caplog):
    _folder(tmp_path / "bnci2014_001", numbers=[1, 2, 4])
    found = eeg.load(subjects=[1, 2, 3], folder=tmp_path)
    assert found.provenance.kind == "synthetic"
    assert caplog.messages[0].endswith("bnci2014_001: has no subject 3, so it is left out")
    assert eeg.load(subjects=[1, 4], folder=tmp_path).provenance.kind == "real"


def test_any_folder_can_be_read(tmp_path):
    _folder(tmp_path, numbers=[3, 1], pattern="person{}")
    found = eeg.read_folder(tmp_path, [3, 1])
    assert [subject.subject for subject in found] == ["person3", "person1"]


def test_two_files_of_one_subject_are_refused(tmp_path):
    _folder(tmp_path / "bnci2014_001", numbers=[1])
    _folder(tmp_path / "bnci2014_001", numbers=[1], pattern="S{:03d}")
    with pytest.raises(
        DataError,
        match=r"bnci2014_001: has A01.npz and S001.npz for subject 1, it must be one file",
    ):
        eeg.load(subjects=[1], folder=tmp_path)


def test_the_stand_in_says_that_it_is_one():
    found = eeg.load("physionet", [1])
    assert found.provenance.kind == "synthetic"
    assert (
        found.provenance.caption()
        == "Stand-in data (synthetic): synthetic motor imagery, subject 1."
    )
    assert eeg.load("synthetic", [1]).provenance == found.provenance
    assert eeg.load("synthetic", [1], seed=1).provenance.sha256 != found.provenance.sha256


def test_stacked_trials_know_whose_they_are(tmp_path):
    _folder(tmp_path / "bnci2014_001", numbers=[1, 2, 5])
    found = eeg.load(subjects=[5, 1], folder=tmp_path)
    X, y, who = found.stacked()
    assert X.shape == (16, 22, 50) and who.tolist() == [5] * 8 + [1] * 8
    assert (X[who == 1] == found[1].X).all() and (y[who == 5] == found[5].y).all()


def test_the_same_data_has_the_same_hash_wherever_it_lies(tmp_path):
    _folder(tmp_path / "one" / "bnci2014_001", numbers=[1])
    other = tmp_path / "two" / "bnci2014_001"
    other.mkdir(parents=True)
    arrays = dict(np.load(tmp_path / "one" / "bnci2014_001" / "A01.npz"))
    np.savez_compressed(other / "A01.npz", **arrays)
    hashes = {
        eeg.load(subjects=[1], folder=tmp_path / name).provenance.sha256 for name in ("one", "two")
    }
    assert len(hashes) == 1


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"fs": 101.0}, "has fs = 101.0, but A01 has 100.0"),
        ({"samples": 60, "window": (0.0, 0.5)}, "has samples = 60, but A01 has 50"),
        ({"classes": ("a", "b", "c", "d")}, "has classes = "),
    ],
)
def test_subjects_that_cannot_be_compared_are_refused(tmp_path, change, text):
    _folder(tmp_path / "bnci2014_001", numbers=[1])
    _folder(tmp_path / "bnci2014_001", numbers=[2], **change)
    with pytest.raises(DataError, match=text):
        eeg.load(subjects=[1, 2], folder=tmp_path)


@pytest.mark.parametrize("subjects", [[], [0], [1, 1], [10], [1.5], [-1]])
def test_impossible_subjects_are_refused(subjects):
    with pytest.raises(ValueError, match=r"subjects? = "):
        eeg.load("bnci2014_001", subjects)


def test_an_unknown_data_set_is_refused():
    with pytest.raises(
        ValueError, match="dataset = 'eeg' must be one of bnci2014_001, physionet, synthetic"
    ):
        eeg.load("eeg")


def test_an_unknown_band_of_the_known_folder_is_filled_in(tmp_path):
    one = replace(writers.epochs(), band=epochs.UNKNOWN, unit="unknown")
    epochs.write(tmp_path / "physionet_epochs" / "S001.npz", one)
    found = eeg.load("physionet", [1], folder=tmp_path)
    assert found[1].band == (8.0, 30.0) and found[1].unit == "uV" and (found[1].X == one.X).all()
