"""Our own .npz form: what is written is read, in any order of channels, as whole numbers or not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import signal

from companion.data import DataError, epochs
from companion.data.epochs import CHANNELS
from tests.data import writers


def _same(a: epochs.Epochs, b: epochs.Epochs) -> bool:
    return (
        a.digest() == b.digest()
        and (a.X == b.X).all()
        and (a.y == b.y).all()
        and (a.session == b.session).all()
    )


def test_what_is_written_is_read(tmp_path):
    one = writers.epochs(source="somewhere", recorded_fs=128.0)
    epochs.write(tmp_path / "A01.npz", one)
    again = epochs.read(tmp_path / "A01.npz")
    assert (
        _same(one, again)
        and again.subject == "A01"
        and again.band == (8.0, 30.0)
        and again.unit == "uV"
    )
    assert (again.source, again.recorded_fs) == ("somewhere", 128.0)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_the_least_that_a_file_must_have(tmp_path, save):
    one = writers.epochs()
    save(tmp_path / "X7.npz", X=one.X, y=one.y, run=one.run, fs=100, ch_names=CHANNELS)
    again = epochs.read(tmp_path / "X7.npz")
    assert again.classes == ("0", "1", "2", "3") and (again.session == 0).all()
    assert np.isnan(again.band).all() and np.isnan(again.window).all() and again.unit == "unknown"


def test_whole_numbers_with_a_scale(tmp_path):
    one = writers.epochs()
    numbers = np.round(one.X * 512).astype(np.int16)
    np.savez(
        tmp_path / "A.npz",
        X=numbers,
        scale=1 / 512,
        y=one.y,
        session=one.session,
        fs=100.0,
        ch_names=CHANNELS,
        tmin=0.5,
    )
    again = epochs.read(tmp_path / "A.npz")
    assert (numbers.astype(np.float32) / 512 == again.X).all()
    assert again.window == (0.5, 1.0)


def test_channels_are_found_by_name_and_others_left_out(tmp_path):
    one = writers.epochs()
    order = np.random.default_rng(0).permutation(22)
    more = np.concatenate(
        [one.X[:, order], np.random.default_rng(1).normal(size=(8, 1, 50))], axis=1
    )
    np.savez(
        tmp_path / "A.npz",
        X=more,
        y=one.y,
        run=one.run,
        fs=100.0,
        ch_names=[*np.array(CHANNELS)[order], "EOG1"],
    )
    assert (epochs.read(tmp_path / "A.npz").X == one.X).all()


def test_fortran_order_is_understood(tmp_path):
    one = writers.epochs()
    np.savez(
        tmp_path / "A.npz",
        X=np.asfortranarray(one.X),
        y=one.y,
        run=one.run,
        fs=100.0,
        ch_names=CHANNELS,
    )
    assert (epochs.read(tmp_path / "A.npz").X == one.X).all()


def test_the_digest_sees_every_part():
    one = writers.epochs()
    changed = [
        writers.epochs(X=one.X * np.float32(1.0000001)),
        writers.epochs(y=(one.y + 1) % 4),
        writers.epochs(session=1 - one.session),
        writers.epochs(run=one.run + 1),
        writers.epochs(fs=101.0),
        writers.epochs(band=(8.0, 31.0)),
        writers.epochs(classes=("a", "b", "c", "d")),
        writers.epochs(ch_names=CHANNELS[::-1]),
    ]
    assert len({one.digest(), *(other.digest() for other in changed)}) == 9
    assert replace(one, subject="somebody else").digest() == one.digest()


def test_a_narrow_band_is_left_alone_and_a_wide_one_is_filtered():
    one = writers.epochs(trials=4, samples=400, band=(0.0, 45.0))
    time = np.arange(400) / 100.0
    inside, outside = np.sin(2 * np.pi * 15 * time), np.sin(2 * np.pi * 3 * time)
    mixed = writers.epochs(
        trials=4,
        samples=400,
        X=np.tile(inside + outside, (4, 22, 1)) + 1e-9 * one.X,
        band=(0.0, 45.0),
    )
    filtered = mixed.band_passed(8.0, 30.0)
    assert filtered.band == (8.0, 30.0)
    middle = slice(100, 300)
    # zero phase: the inside stays in place
    assert np.abs(filtered.X[..., middle] - inside[middle]).max() < 0.02
    assert filtered.band_passed(8.0, 30.0) is filtered
    frequencies, power = signal.welch(filtered.X, 100.0, nperseg=200)
    assert power[..., frequencies < 4].max() < 1e-3 * power.max()


def test_a_window_is_cut_out_of_every_trial_or_refused_in_one_line():
    one = writers.epochs(samples=400, window=(0.0, 4.0))
    part = one.between(0.5, 2.5)
    assert (
        part.window == (0.5, 2.5)
        and (one.X[:, :, 50:250] == part.X).all()
        and (part.y == one.y).all()
    )
    with pytest.raises(DataError, match=r"has 0 to 4 s after the cue, not window = \[2, 5\]"):
        one.between(2.0, 5.0)
    with pytest.raises(DataError, match="does not say how long after the cue its trials begin"):
        replace(one, window=epochs.UNKNOWN).between(0.5, 2.5)


def test_an_impossible_band_is_refused():
    with pytest.raises(ValueError, match=r"0 < low < high < fs / 2 = 50.0 Hz"):
        writers.epochs(band=(0.0, 50.0)).band_passed(8.0, 60.0)


@pytest.mark.parametrize("kind", [np.uint8, np.int64])
def test_labels_of_any_whole_type_without_class_names(tmp_path, kind):
    one = writers.epochs()
    np.savez(
        tmp_path / "A.npz", X=one.X, y=one.y.astype(kind), run=one.run, fs=100.0, ch_names=CHANNELS
    )
    assert epochs.read(tmp_path / "A.npz").classes == ("0", "1", "2", "3")


def test_the_caller_s_array_stays_writable():
    mine = np.random.default_rng(0).normal(size=(8, 22, 50)).astype(np.float32)
    writers.epochs(X=mine)
    mine[0] = 1.0


def test_trials_cannot_be_changed_by_accident():
    with pytest.raises(ValueError, match="read-only"):
        writers.epochs().X[0] = 0.0


def test_covariances_are_not_mistaken_for_epochs(real_data):
    path = real_data / "bnci2014_001_cov" / "A01.npz"
    if not path.exists():
        pytest.skip("LDP_DATA/bnci2014_001_cov is not there")
    with pytest.raises(DataError, match=r"A01.npz: has no array 'X'; it has band, ch_names"):
        epochs.read(path)
