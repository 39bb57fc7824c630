"""Subject classifiers: what they learn, and that nothing of the judged trials reaches them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import logm

from companion.attacks import identity
from companion.attacks.trials import known_and_attacked, log_spectrum
from companion.data.epochs import Epochs
from companion.eeg.params import CLASSIFIERS

FS, BAND, CHANNELS, SAMPLES = 32.0, (4.0, 14.0), 4, 64
PEOPLE, TRIALS = 4, 24


def people(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return (known, who, judged, who): people differ in how their electrodes mix and in the
    frequency of their rhythm.
    """
    random = np.random.default_rng(seed)
    t = np.arange(SAMPLES) / FS
    trials = []
    for person in range(PEOPLE):
        mixing = random.normal(size=(CHANNELS, CHANNELS))
        phase = random.uniform(0, 2 * np.pi, (2 * TRIALS, CHANNELS, 1))
        rhythm = 3 * np.sin(2 * np.pi * (5 + 2 * person) * t + phase)
        trials.append(mixing @ (rhythm + random.normal(size=(2 * TRIALS, CHANNELS, SAMPLES))))
    who = np.repeat(np.arange(1, PEOPLE + 1), TRIALS)
    return (
        np.concatenate([x[:TRIALS] for x in trials]),
        who,
        np.concatenate([x[TRIALS:] for x in trials]),
        who,
    )


def epochs(session, run) -> Epochs:
    X = np.random.default_rng(0).normal(size=(len(session), 2, 8))
    classes, names = ("a", "b"), ("C3", "C4")
    return Epochs(
        "S1",
        X,
        np.arange(len(session)) % 2,
        8.0,
        names,
        classes,
        np.asarray(session),
        np.asarray(run),
    )


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_people_are_told_apart_and_by_nothing_but_the_trial(kind):
    known, who, judged, names = people()
    fitted = identity.classifier(kind, FS, BAND, 0).fit(known, who)
    guessed = fitted.predict(judged)
    assert np.mean(names == guessed) > 0.8
    np.testing.assert_array_equal(
        fitted.predict(judged[::7]), guessed[::7]
    )  # not by the trials judged beside it
    np.testing.assert_array_equal(fitted.predict(40 * judged), guessed)  # not by how loud it is


@pytest.mark.parametrize("kind", ["log-covariance", "log-spectrum"])
def test_permuted_identities_give_chance(kind):
    """Learned from names that say nothing, 20 times: the mean share of right names is 1/4. Each
    share has a deviation of at most 0.15 (measured: 0.14), so the mean is within 0.17 of it but
    with probability 1e-6."""
    known, who, judged, names = people()
    shares = []
    for seed in range(20):
        permuted = np.random.default_rng(seed).permutation(who)
        guessed = identity.classifier(kind, FS, BAND, 0).fit(known, permuted).predict(judged)
        shares.append(np.mean(names == guessed))
    assert abs(np.mean(shares) - 0.25) < 0.17


def test_the_network_is_a_function_of_its_seed_and_leaves_the_global_generator_alone(monkeypatch):
    import torch

    monkeypatch.setattr(identity, "PASSES", 2)
    known, who, judged, _ = people()
    before = torch.random.get_rng_state()
    first, second = (identity.Network(FS, 3).fit(known, who).predict(judged) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_with_several_sessions_the_last_one_is_attacked():
    known, attacked = known_and_attacked(epochs([0, 0, 1, 2, 2], [0, 1, 0, 0, 1]))
    np.testing.assert_array_equal(known, [True, True, True, False, False])
    np.testing.assert_array_equal(attacked, ~known)


def test_with_one_session_the_later_half_of_the_runs_is_attacked():
    known, attacked = known_and_attacked(epochs([0] * 5, [4, 6, 8, 10, 12]))
    np.testing.assert_array_equal(known, [True, True, True, False, False])
    np.testing.assert_array_equal(attacked, ~known)


def test_one_run_cannot_be_cut():
    with pytest.raises(
        ValueError,
        match="S1: one session with one run cannot be cut into known and attacked trials",
    ):
        known_and_attacked(epochs([0, 0], [3, 3]))


def test_log_covariance_is_the_matrix_logarithm():
    X = np.random.default_rng(0).normal(size=(3, CHANNELS, 200))
    covariance = X[1] @ X[1].T / 200
    shrunk = (1 - identity.SHRINKAGE) * covariance + identity.SHRINKAGE * np.trace(
        covariance
    ) / CHANNELS * np.eye(CHANNELS)
    rows, columns = np.triu_indices(CHANNELS)
    expected = logm(shrunk).real[rows, columns] * np.where(rows == columns, 1.0, np.sqrt(2.0))
    np.testing.assert_allclose(identity.log_covariance(X)[1], expected, atol=1e-10)
    assert np.linalg.norm(expected) == pytest.approx(np.linalg.norm(logm(shrunk)))


def test_log_spectrum_finds_a_rhythm_in_its_bin():
    t = np.arange(256) / 64.0
    X = np.stack([np.sin(2 * np.pi * 11 * t), np.sin(2 * np.pi * 15 * t)])[None]
    found = log_spectrum(X, 64.0, (8.0, 20.0)).reshape(2, -1)
    assert found.shape[1] == 6
    np.testing.assert_array_equal(found.argmax(axis=1), [1, 3])  # bins 10-12 and 14-16 Hz
