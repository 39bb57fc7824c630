"""The real loaders on the real files below LDP_DATA.

Each test is skipped by name where its files are not.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import mne
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from companion.data import alignment, eeg, epochs, mnist, mushrooms, recordings
from companion.data.epochs import CHANNELS


def _below(real_data: Path, name: str) -> Path:
    if not (real_data / name).exists():
        pytest.skip(f"LDP_DATA/{name} is not there")
    return real_data / name


def test_mnist(real_data, cache):
    raw = _below(real_data, "MNIST/raw")
    digits = mnist.load(real_data)
    assert digits.train_images.shape == (60000, 28, 28) and digits.test_images.shape == (
        10000,
        28,
        28,
    )
    assert np.bincount(digits.train_labels).tolist() == [
        5923,
        6742,
        5958,
        6131,
        5842,
        5421,
        5918,
        6265,
        5851,
        5949,
    ]
    assert digits.train_labels[:5].tolist() == [5, 0, 4, 1, 9] and digits.test_labels[
        :5
    ].tolist() == [7, 2, 1, 0, 4]
    packed = gzip.decompress((raw / "train-images-idx3-ubyte.gz").read_bytes())
    assert digits.train_images.tobytes() == packed[16:]
    assert digits.provenance.kind == "real" and digits.provenance.source == "LDP_DATA/MNIST/raw"


def test_the_stand_in_is_the_real_test_file(real_data):
    _below(real_data, "MNIST/raw")
    real, stand_in = mnist.load(real_data), mnist.embedded()
    both = np.concatenate([stand_in.train_images, stand_in.test_images])
    assert {image.tobytes() for image in both} == {image.tobytes() for image in real.test_images}


def test_mushrooms(real_data):
    _below(real_data, "mushrooms")
    real, shipped = mushrooms.load(real_data), mushrooms.load()
    assert (
        real.provenance.source.startswith("LDP_DATA/mushrooms")
        and real.provenance.sha256 == shipped.provenance.sha256
    )
    assert (real.codes == shipped.codes).all()


# in five runs of S034 the file ends with the last trial
@pytest.mark.parametrize("subject", [1, 34])
def test_physionet_through_moabb_and_in_our_own_form(subject, real_data):
    """moabb's epochs (Butterworth) and those of our own form (MNE's FIR) are the same trials,
    filtered differently."""
    theirs = recordings.load(recordings.PHYSIONET, subject, _below(real_data, "physionet_raw"))
    assert theirs.X.shape == (90, 22, 640) and theirs.fs == theirs.recorded_fs == 160.0
    assert theirs.ch_names == CHANNELS and theirs.unit == "uV"
    assert np.bincount(theirs.run)[[4, 6, 8, 10, 12, 14]].tolist() == [15] * 6
    ours = epochs.read(_below(real_data, "physionet_epochs") / f"S{subject:03d}.npz")
    assert (ours.y == theirs.y).all() and (ours.run == theirs.run).all()
    assert ours.classes == theirs.classes
    similarity = _correlations(theirs.X, ours.X)
    assert similarity.min() > 0.93 and np.median(similarity) > 0.96
    assert np.abs(_correlations(theirs.X[1:], ours.X[:-1])).max() < 0.6


def _correlations(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the correlation of every trial of one with the same trial of the other."""
    return np.array([np.corrcoef(x.ravel(), y.ravel())[0, 1] for x, y in zip(a, b, strict=True)])


def test_physionet_s001_epochs_are_made_from_these_recordings(real_data):
    """With MNE's FIR filter the original EDF files give the epochs of our own form, up to their
    rounding (0.45 % of the SD)."""
    ours = epochs.read(_below(real_data, "physionet_epochs") / "S001.npz")
    raw_folder = _below(real_data, "physionet_raw")
    for name in recordings.PHYSIONET.files(1)[:2]:
        run = int(name[-6:-4])
        raw = mne.io.read_raw_edf(raw_folder / name, preload=True, verbose="ERROR")
        raw.rename_channels(lambda channel: channel.strip(".").upper())
        raw.pick([channel.upper() for channel in CHANNELS]).filter(8.0, 30.0, verbose="ERROR")
        onsets = [
            onset
            for onset, text in zip(raw.annotations.onset, raw.annotations.description, strict=True)
            if text != "T0"
        ]
        signal = raw.get_data([channel.upper() for channel in CHANNELS]) * 1e6
        expected = np.stack(
            [signal[:, round(onset * 160) : round(onset * 160) + 640] for onset in onsets]
        )
        error = ours.X[ours.run == run] - expected
        assert np.sqrt((error**2).mean() / (expected**2).mean()) < 0.006


def test_physionet_nine_subjects_of_our_own_form(real_data):
    _below(real_data, "physionet_epochs")
    found = eeg.load("physionet", folder=real_data)
    assert (
        found.provenance.kind == "real" and found.provenance.source == "LDP_DATA/physionet_epochs"
    )
    assert found.provenance.part == "subjects 1-9 of 109"
    counts = [np.bincount(subject.y).tolist() for subject in found.subjects]
    assert counts[:4] == [[23, 22, 21, 24], [23, 22, 24, 21], [23, 22, 21, 24], [23, 22, 22, 23]]
    assert all(subject.X.shape == (90, 22, 640) for subject in found.subjects)


def test_physionet_all_people_of_our_own_form(real_data):
    folder = _below(real_data, "physionet_epochs")
    numbers = sorted(int(path.stem[1:]) for path in folder.glob("S*.npz"))
    found = eeg.load("physionet", numbers, folder=real_data)
    assert (
        found.numbers == tuple(numbers) and found.provenance.source == "LDP_DATA/physionet_epochs"
    )
    assert "instead of" not in found.provenance.part and "resampled" not in found.provenance.part


def test_one_subject_alone_still_comes_from_the_ready_epochs(real_data):
    """Recordings of S001 and ready epochs of S001-S009 lie side by side.

    The answer does not depend on who is asked for.
    """
    _below(real_data, "physionet_epochs")
    assert (
        eeg.load("physionet", [1], folder=real_data).provenance.source
        == "LDP_DATA/physionet_epochs"
    )


def test_bnci_partial(real_data):
    _below(real_data, "bnci2014_001_partial")
    found = eeg.load("bnci2014_001", folder=real_data)
    assert found.provenance.part == "all 9 subjects, 954 of 5184 trials, 0.5 to 2.5 s after the cue"
    assert found[1].fs == 250.0 and found.classes == ("left_hand", "right_hand", "feet", "tongue")
    for number, subject in zip(found.numbers, found.subjects, strict=True):
        assert subject.X.shape == (106, 22, 500) and subject.band == (8.0, 30.0)
        assert np.bincount(subject.y[subject.session == 0]).tolist() == [21, 24, 21, 23]
        late = [6, 5, 3, 3] if number == 4 else [5, 6, 2, 4]
        assert np.bincount(subject.y[subject.session == 1]).tolist() == late


def test_bnci_partial_labels_belong_to_the_trials(real_data):
    """Classes of an unseen person from log-covariances after alignment: chance 0.25, standard error
    0.016."""
    _below(real_data, "bnci2014_001_partial")
    aligned = alignment.align_subjects(eeg.load("bnci2014_001", folder=real_data).subjects)
    features = [_log_covariances(subject.X) for subject in aligned]
    right = 0
    for left_out, subject in enumerate(aligned):
        others = [k for k in range(9) if k != left_out]
        model = LogisticRegression(C=0.01, max_iter=300)
        model.fit(
            np.concatenate([features[k] for k in others]),
            np.concatenate([aligned[k].y for k in others]),
        )
        right += (model.predict(features[left_out]) == subject.y).sum()
    assert right / 954 > 0.45


def _log_covariances(X: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(alignment.covariances(X))
    logs = (vectors * np.log(values)[:, None, :]) @ vectors.transpose(0, 2, 1)
    return logs[:, *np.triu_indices(22)]
