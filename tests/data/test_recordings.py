"""The official EEG layouts through moabb, on tiny files written here: EDF by MNE's exporter, .mat
by scipy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import mne
import numpy as np
import pytest
from scipy import io

from companion.attacks.trials import known_and_attacked
from companion.data import DataError, alignment, eeg, epochs, recordings
from companion.data.epochs import CHANNELS
from tests.data import writers
from tests.data.conftest import cached_files


def test_nine_physionet_subjects(tiny_recordings):
    for subject in range(1, 10):
        found = recordings.load(writers.PHYSIONET, subject, tiny_recordings)
        assert found.X.shape == (12, 22, 640) and found.fs == 160.0 and found.ch_names == CHANNELS
        assert (
            found.subject == f"S{subject:03d}" and found.unit == "uV" and found.band == (8.0, 30.0)
        )
        assert found.run.tolist() == [4, 4, 6, 6, 8, 8, 10, 10, 12, 12, 14, 14]
        # fists in runs 4, 8, 12, both fists and feet in 6, 10, 14
        assert found.y.tolist() == [0, 1, 2, 3] * 3


def test_physionet_signals_are_those_of_the_file(tiny_recordings):
    """The same numbers by hand: read with MNE, band-pass as moabb does, cut 0-4 s after the cue."""
    found = recordings.load(writers.PHYSIONET, 3, tiny_recordings)
    raw = mne.io.read_raw_edf(
        tiny_recordings / writers.PHYSIONET.files(3)[2], preload=True, verbose="ERROR"
    )
    raw.filter(8.0, 30.0, method="iir", verbose="ERROR")
    names = [name.strip(".").upper() for name in raw.ch_names]
    picks = [names.index(name.upper()) for name in CHANNELS]
    start = round(8.0 * 160)  # the second cue of run 8
    expected = raw.get_data()[picks, start : start + 640] * 1e6
    trial = found.X[(found.run == 8) & (found.y == 1)][0]
    np.testing.assert_allclose(trial, expected, rtol=1e-4, atol=1e-3)


@pytest.fixture
def uneven(tmp_path, monkeypatch) -> Path:
    """Return recordings of three people: as most are, ending early in five of six runs, and at 128
    Hz."""
    monkeypatch.setattr(eeg, "DATASETS", {"physionet": writers.PHYSIONET})
    writers.edf_subject(tmp_path, 1)
    writers.edf_subject(tmp_path, 34, lengths=(11, 14, 12, 11, 12, 12))
    writers.edf_subject(tmp_path, 88, fs=128.0)
    return tmp_path


def test_a_run_that_ends_with_its_last_trial_keeps_it_and_one_that_ends_before_loses_it(uneven):
    found = recordings.load(writers.PHYSIONET, 34, uneven)
    assert found.X.shape == (10, 22, 640) and found.recorded_fs == 160.0
    assert found.run.tolist() == [4, 6, 6, 8, 8, 10, 12, 12, 14, 14]
    assert found.y.tolist() == [0, 2, 3, 0, 1, 2, 0, 1, 2, 3]


def test_a_person_sampled_at_128_hz_is_resampled(uneven):
    """The same by hand in another order: resample the whole run, then cut.

    Compared off the edges.
    """
    found = recordings.load(writers.PHYSIONET, 88, uneven)
    assert found.X.shape == (12, 22, 640) and found.fs == 160.0 and found.recorded_fs == 128.0
    path = uneven / writers.PHYSIONET.files(88)[0]
    raw = mne.io.read_raw_edf(path, preload=True, verbose="ERROR")
    raw.filter(8.0, 30.0, method="iir", verbose="ERROR").resample(160.0, verbose="ERROR")
    names = [name.strip(".").upper() for name in raw.ch_names]
    picks = [names.index(name.upper()) for name in CHANNELS]
    expected = raw.get_data()[picks, 320:960] * 1e6
    middle = slice(40, 600)
    error = found.X[0][:, middle] - expected[:, middle]
    assert np.abs(error).max() < 0.02 * expected.std()


def test_what_is_unusual_about_people_is_in_the_provenance_from_files_and_cache_alike(uneven):
    numbers = [1, 34, 88]
    first = eeg.load("physionet", numbers, folder=uneven)
    unusual = "S034 with 10 trials instead of 12, S088 resampled from 128 Hz"
    assert first.provenance.part == f"subjects 1, 34, 88 of 109, {unusual}"
    assert eeg.load("physionet", numbers, folder=uneven).provenance == first.provenance
    again = eeg.load("physionet", numbers, stand_in=False)
    assert again.provenance.part == first.provenance.part
    assert again.provenance.sha256 == first.provenance.sha256


def test_people_with_unequal_trials_can_be_stacked_aligned_and_attacked(uneven):
    found = eeg.load("physionet", [1, 34, 88], folder=uneven)
    X, y, who = found.stacked()
    assert len(X) == len(y) == 34 and np.bincount(who)[[1, 34, 88]].tolist() == [12, 10, 12]
    for before, after in zip(found.subjects, alignment.align_subjects(found.subjects), strict=True):
        assert len(after) == len(before)
        mean = alignment.covariances(after.X).mean(axis=0)
        np.testing.assert_allclose(mean, np.eye(22), atol=1e-4)
    for subject in found.subjects:
        known, attacked = known_and_attacked(subject)
        assert (known ^ attacked).all() and set(subject.run[attacked]) == {10, 12, 14}


def test_the_hash_of_trials_is_that_of_the_recordings_not_of_the_machine_s_last_bits(
    tiny_recordings, monkeypatch
):
    monkeypatch.setattr(eeg, "DATASETS", {"physionet": writers.PHYSIONET})
    first = eeg.load("physionet", [1, 2], folder=tiny_recordings)
    shutil.rmtree(recordings.cache_path(writers.PHYSIONET, 1).parent)
    original = recordings._sorted
    monkeypatch.setattr(
        recordings,
        "_sorted",
        lambda *given: (found := original(*given)) | {"X": found["X"] * (1 + 1e-6)},
    )
    other = eeg.load("physionet", [1, 2], folder=tiny_recordings)
    assert other[1].digest() != first[1].digest()
    assert other.provenance.sha256 == first.provenance.sha256
    alone = eeg.load("physionet", [1], folder=tiny_recordings)
    assert alone.provenance.sha256 != first.provenance.sha256


@pytest.mark.parametrize("subject", [1, 2])  # compressed and uncompressed .mat
def test_bnci_has_two_sessions_and_four_classes(tiny_recordings, subject):
    found = recordings.load(writers.BNCI, subject, tiny_recordings)
    assert (
        found.X.shape == (16, 22, 1000) and found.fs == 250.0 and found.subject == f"A{subject:02d}"
    )
    assert (
        found.session.tolist() == [0] * 8 + [1] * 8
        and found.run.tolist() == [0, 0, 0, 0, 1, 1, 1, 1] * 2
    )
    assert (np.bincount(found.y) == 4).all()


def test_bnci_window_starts_at_the_cue_two_seconds_into_the_trial(tiny_recordings):
    found = recordings.load(writers.BNCI, 1, tiny_recordings)
    run = io.loadmat(
        tiny_recordings / writers.BNCI.files(1)[0], squeeze_me=True, struct_as_record=False
    )["data"][1]
    filtered = mne.filter.filter_data(run.X.T[:22], 250.0, 8.0, 30.0, method="iir", verbose="ERROR")
    start = run.trial[2] - 1 + 500
    np.testing.assert_allclose(found.X[2], filtered[:, start : start + 1000], rtol=1e-4, atol=1e-3)
    assert found.y[2] == run.y[2] - 1


def test_the_second_time_comes_from_the_cache(tiny_recordings, monkeypatch, cache):
    first = recordings.load(writers.PHYSIONET, 1, tiny_recordings)
    monkeypatch.setattr(recordings, "_by_moabb", lambda *_: pytest.fail("the cache was not used"))
    again = recordings.load(writers.PHYSIONET, 1, tiny_recordings)
    assert again.digest() == first.digest() and again.subject == first.subject
    assert len(cached_files(cache)) == 1


def test_other_recordings_under_the_same_name_are_read_anew(tiny_recordings, tmp_path):
    first = recordings.load(writers.PHYSIONET, 1, tiny_recordings)
    for name, other in zip(writers.PHYSIONET.files(1), writers.PHYSIONET.files(2), strict=True):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes((tiny_recordings / other).read_bytes())
    assert recordings.load(writers.PHYSIONET, 1, tmp_path).digest() != first.digest()


def test_unchecked_files_never_share_a_cache_place_with_checked_ones():
    places = {
        recordings.cache_path(dataset, 1) for dataset in (writers.PHYSIONET, recordings.PHYSIONET)
    }
    assert len(places) == 2


def test_the_reader_s_environment_is_left_as_it_was(tiny_recordings):
    before = dict(os.environ)
    recordings.load(writers.PHYSIONET, 1, tiny_recordings)
    with pytest.raises(DataError):
        recordings.load(writers.PHYSIONET, 1, tiny_recordings / "nowhere")
    assert dict(os.environ) == before


def test_published_sums_cover_all_imagery_runs_of_all_subjects():
    sums = recordings._published_sums()
    for subject in range(1, 110):
        for name in recordings.PHYSIONET.files(subject):
            assert len(sums["/".join(Path(name).parts[-2:])]) == 64


def test_moabb_is_not_imported_for_epochs_of_our_own_form(tmp_path):
    for subject in range(1, 10):
        epochs.write(tmp_path / "physionet" / f"S{subject:03d}.npz", writers.epochs(subject))
    script = (
        "import sys; from companion.data import eeg; eeg.load('physionet'); "
        "print(sorted({'moabb', 'mne', 'torch', 'scipy.signal'} & set(sys.modules)))"
    )
    settings = os.environ | {"LDP_DATA": str(tmp_path)}
    said = subprocess.run(
        [sys.executable, "-c", script], env=settings, capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == "[]"


@pytest.fixture
def server(tiny_recordings, monkeypatch):
    """Replace only the transport of moabb's download by a copy from a folder.

    Return how to spoil what is sent.
    """
    import moabb.datasets.download as download

    sent, spoil = [], [lambda content: content]

    def retrieve(url, known_hash, fname, path, **_):
        target = Path(path) / fname
        if known_hash is None:
            source = next(tiny_recordings.rglob(fname), None)
            if source is None:  # the baseline runs that moabb wants too
                source = next(tiny_recordings.rglob("S001R04.edf"))
            target.write_bytes(spoil[0](source.read_bytes()))
            sent.append(fname)
        return str(target)

    monkeypatch.setattr(download, "retrieve", retrieve)
    monkeypatch.setattr(
        eeg, "DATASETS", {"physionet": writers.PHYSIONET, "bnci2014_001": writers.BNCI}
    )
    return sent, spoil


@pytest.mark.parametrize("name", ["physionet", "bnci2014_001"])
def test_a_download_is_made_only_when_asked_checked_and_kept(server, name, tiny_recordings):
    sent, _ = server
    dataset = eeg.DATASETS[name]
    with pytest.raises(DataError, match="a stand-in was not wanted"):
        eeg.load(name, [1, 2], stand_in=False)
    assert sent == []
    first = eeg.load(name, [1, 2], download=True)
    assert first.provenance.kind == "real" and first.provenance.source == "moabb's download"
    assert {Path(file).name for subject in (1, 2) for file in dataset.files(subject)} <= set(sent)
    count = len(sent)
    again = eeg.load(name, [1, 2])
    assert len(sent) == count and again.provenance.sha256 == first.provenance.sha256
    assert again.provenance.source == "the cache, read by moabb before"
    direct = recordings.load(dataset, 2, tiny_recordings)
    assert direct.digest() == first[2].digest()


def test_the_cache_is_enough_when_the_recordings_are_gone(server, cache):
    first = eeg.load("physionet", [1], download=True)
    shutil.rmtree(cache / "recordings")
    assert eeg.load("physionet", [1]).provenance.sha256 == first.provenance.sha256


def test_a_cut_download_is_refused_removed_and_made_again(server, cache, caplog):
    _, spoil = server
    spoil[0] = lambda content: content[:-1000]
    with pytest.raises(DataError, match="a stand-in was not wanted"):
        eeg.load("bnci2014_001", [1], download=True, stand_in=False)
    assert "A01T.mat" in caplog.text and "A01E.mat" in caplog.text and "MATLAB" in caplog.text
    assert not list(cache.rglob("*.npz")) and not list(cache.rglob("*.mat"))
    spoil[0] = lambda content: content
    assert eeg.load("bnci2014_001", [1], download=True).provenance.kind == "real"


def test_what_an_earlier_download_left_damaged_is_fetched_again(server, cache):
    good = eeg.load("bnci2014_001", [1], download=True)
    for path in cache.rglob("*.mat"):
        path.write_bytes(path.read_bytes()[:5000])
    for path in cache.rglob("*.npz"):
        path.unlink()
    again = eeg.load("bnci2014_001", [1], download=True)
    assert (
        again.provenance.source == "moabb's download"
        and again.provenance.sha256 == good.provenance.sha256
    )


def test_a_dead_link_gives_the_stand_in_and_one_line(server, monkeypatch, caplog):
    import moabb.datasets.download as download

    def gone(*_, **__):
        raise OSError("404 Client Error: Not Found\nfor url ...")

    monkeypatch.setattr(download, "retrieve", gone)
    found = eeg.load("bnci2014_001", [1], download=True)
    assert found.provenance.kind == "synthetic"
    assert (
        caplog.messages[0]
        == "BNCI2014_001: subject 1 was not downloaded (404 Client Error: Not Found for url ...)"
    )
    assert len(caplog.messages) == 2
