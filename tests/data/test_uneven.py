"""People with unequal numbers of trials, as real ones are, go through training and attacks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from companion.data import epochs
from companion.eeg import training, trials
from companion.eeg.params import Attack, Recorded, Training
from companion.params import ParameterError
from tests.data import writers

TRIALS = {1: 16, 2: 10, 3: 14, 4: 11, 5: 16, 6: 12}  # by subject


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """Return a folder of six people with 10 to 16 trials each in two runs, 2 s at 100 Hz."""
    for subject, count in TRIALS.items():
        halves = np.arange(count) >= count // 2
        one = writers.epochs(subject, count, 200, run=halves.astype(int), session=0 * halves)
        epochs.write(tmp_path / f"A{subject:02d}.npz", one)
    return str(tmp_path)


def test_training_sees_all_trials_of_everybody(folder):
    params = Training(data=folder, subjects=tuple(TRIALS), iterations=2, evaluate_every=1)
    data = trials.load(params)
    found = trials.aligned(data, params.fs)
    assert [len(found.rows([subject])) for subject in TRIALS] == list(TRIALS.values())
    given = params.model_dump(mode="json"), data.provenance.sha256
    result = training.learnt(*given, test=4, run=0, variant="quantised")
    right = result["accuracy"] * TRIALS[4]
    assert np.isfinite(right).all() and np.allclose(right, right.round())


@pytest.mark.parametrize("aligned", [False, True])
def test_attackers_face_as_many_trials_of_everybody_and_know_all_the_others(folder, aligned):
    params = Attack(data=folder, subjects=tuple(TRIALS), attack_fs=100.0)
    scene = trials.scene(params, aligned)
    fewest = min(count - count // 2 for count in TRIALS.values())
    assert np.bincount(scene.who)[1:].tolist() == [fewest] * 6
    assert np.bincount(scene.known_who)[1:].tolist() == [count // 2 for count in TRIALS.values()]


def test_the_hash_of_a_folder_is_that_of_what_is_stored_whatever_band_is_wanted(folder):
    common = {"data": folder, "subjects": tuple(TRIALS)}
    wide, narrow = (trials.load(Recorded(**common, band=b)) for b in ((8.0, 30.0), (9.0, 20.0)))
    assert wide[1].digest() != narrow[1].digest()
    assert wide.provenance.sha256 == narrow.provenance.sha256


def test_a_list_that_is_too_short_is_shown_as_it_was_given():
    with pytest.raises(
        ParameterError, match=r"^subjects = \[1, 2\] is wrong: it must hold at least 6"
    ):
        Training(subjects=(1, 2))
