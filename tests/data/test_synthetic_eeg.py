"""The synthetic stand-in: MNE's physics, deterministic, learnable but not trivial, and people can
be told apart."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import warnings

import mne
import numpy as np
import pytest
from scipy import signal
from sklearn.linear_model import LogisticRegression

from companion.data import DataError, alignment, eeg, exact, head, synthetic_eeg
from companion.data.epochs import CHANNELS, Epochs
from ldp_core.randomness import Purpose, generator

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from pyriemann.tangentspace import TangentSpace


@pytest.fixture(scope="module")
def people() -> list[Epochs]:
    return synthetic_eeg.generate(0)


def _tangent(train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return tangent-space features of two sets of covariances, at the log-Euclidean mean of the
    first."""
    space = TangentSpace(metric={"mean": "logeuclid", "map": "riemann"}).fit(train)
    return space.transform(train), space.transform(test)


def _accuracy(train: np.ndarray, labels: np.ndarray, test: np.ndarray, truth: np.ndarray) -> float:
    features, others = _tangent(train, test)
    return float(
        (
            LogisticRegression(C=0.1, max_iter=300).fit(features, labels).predict(others) == truth
        ).mean()
    )


def _across_subjects(people: list[Epochs]) -> np.ndarray:
    """Return the accuracy of the four classes on each left-out person."""
    covariances = [alignment.covariances(person.X) for person in people]
    accuracies = []
    for left_out, person in enumerate(people):
        others = [k for k in range(len(people)) if k != left_out]
        train, labels = (
            np.concatenate([covariances[k] for k in others]),
            np.concatenate([people[k].y for k in others]),
        )
        accuracies.append(_accuracy(train, labels, covariances[left_out], person.y))
    return np.array(accuracies)


SIMD = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])  # beyond numpy's baseline
MACHINES = {
    "SSE": {"OPENBLAS_CORETYPE": "Nehalem", "NPY_DISABLE_CPU_FEATURES": " ".join(SIMD)},
    "AVX2": {"OPENBLAS_CORETYPE": "Haswell", "NPY_DISABLE_CPU_FEATURES": " ".join(SIMD[1:])},
    "AVX-512": {"OPENBLAS_CORETYPE": "SkylakeX"},
    "one thread": {"OPENBLAS_NUM_THREADS": "1"},
}


def test_the_bytes_are_the_known_ones(people):
    assert tuple(person.digest() for person in people) == synthetic_eeg.SHA256


@pytest.mark.parametrize("machine", MACHINES)
def test_another_machine_makes_the_same_bytes(machine):
    if machine == "AVX-512" and not any(name.startswith(("AVX512", "X86_V4")) for name in SIMD):
        pytest.skip("this processor has no AVX-512")
    script = (
        "from companion.data import synthetic_eeg; "
        "print(synthetic_eeg.generate(0, [2])[0].digest())"
    )
    said = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        env=os.environ | MACHINES[machine], capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert said.stdout.strip() == synthetic_eeg.SHA256[1]


def test_other_bytes_are_refused_in_one_sentence(monkeypatch):
    monkeypatch.setattr(synthetic_eeg, "SHA256", ("0" * 64,))
    with pytest.raises(DataError, match=r"V01: made-up trials have SHA-256 .* here, 000000000000"):
        eeg.load("synthetic", [1])
    assert eeg.load("synthetic", [1], seed=1).subjects  # only the default data set has known bytes


def test_products_of_whole_numbers_are_exact_or_refused():
    """A float64 product of numbers that need 52 bits against the same sum in Python's whole
    numbers."""
    a, b = (exact.bell(generator(0, Purpose.SYNTHETIC, run), 40, 40) * 2**13 for run in (1, 2))
    whole = a.astype(int).astype(object) @ b.astype(int).astype(object)
    assert (exact.product(a, b) == whole).all()
    with pytest.raises(ValueError, match=r"sums up to .* must stay below 2\*\*53 to be exact"):
        exact.product(a * 2**5, b * 2**5)


def test_no_cosine_is_near_enough_to_a_half_to_round_otherwise():
    """The tables are rounded; a library would have to be wrong by 1e-8 to change one of them."""
    angles = 2 * math.pi * np.arange(synthetic_eeg.PERIOD) / synthetic_eeg.PERIOD
    values = 2**12 * np.concatenate([np.cos(angles), np.sin(angles)])
    assert np.abs(values - np.floor(values) - 0.5).min() > 1e-8 * 2**12


def test_bells_and_exponentials_are_what_they_say():
    """100,000 draws: mean and variance within 5 standard errors, wrong once in 10^6 at another
    seed."""
    drawn = exact.normal(generator(0, Purpose.SYNTHETIC), 2.0, 100_000)
    assert abs(drawn.mean()) < 5 * 2.0 / math.sqrt(100_000)
    assert abs(drawn.var() / 4.0 - 1.0) < 5 * math.sqrt(2.0 / 100_000)
    even = exact.uniform(generator(0, Purpose.SYNTHETIC), 2.0, 5.0, 100_000)
    assert even.min() >= 2.0 and even.max() < 5.0
    assert abs(even.mean() - 3.5) < 5 * 3.0 / math.sqrt(12 * 100_000)
    x = np.linspace(-8.0, 2.0, 50)
    assert (np.abs(exact.exp(x) / np.exp(x) - 1.0) <= x * x / 2000 + 1e-12).all()


def test_shape_and_balance(people):
    assert len(people) == 9
    for person in people:
        assert (
            person.X.shape == (144, 22, 1000) and person.fs == 250.0 and person.ch_names == CHANNELS
        )
        assert person.classes == ("left_hand", "right_hand", "feet", "tongue")
        for session in (0, 1):
            for run in range(6):
                assert (
                    np.bincount(person.y[(person.session == session) & (person.run == run)]) == 3
                ).all()


def test_the_same_seed_gives_the_same_bytes_and_subjects_do_not_depend_on_each_other(people):
    (alone,) = synthetic_eeg.generate(0, [4])
    assert alone.digest() == people[3].digest()
    (other,) = synthetic_eeg.generate(1, [4])
    assert other.digest() != alone.digest()
    assert len({person.digest() for person in people}) == 9


def test_the_lead_field_is_mne_s(monkeypatch):
    """With the shells as MNE fits them here to the digit; with ours, fitted elsewhere, to 0.5 %."""
    random = np.random.default_rng(0)
    electrodes, radius = head.electrodes(), 0.09
    places = random.normal(size=(30, 3))
    places *= random.uniform(0.2, 0.85, (30, 1)) / np.linalg.norm(places, axis=1, keepdims=True)
    directions = random.normal(size=(30, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    info = mne.create_info(list(CHANNELS), 250.0, "eeg")
    where = dict(zip(CHANNELS, electrodes * radius, strict=True))
    info.set_montage(mne.channels.make_dig_montage(where, coord_frame="head"))
    sphere = mne.make_sphere_model((0.0, 0.0, 0.0), radius, verbose="ERROR")
    dipoles = {"rr": places * radius, "nn": directions}
    sources = mne.setup_volume_source_space(
        pos=dipoles, sphere=sphere, sphere_units="m", verbose="ERROR"
    )
    forward = mne.make_forward_solution(
        info, None, sources, sphere, meg=False, mindist=0.0, verbose="ERROR"
    )
    theirs = np.einsum("epk,pk->ep", forward["sol"]["data"].reshape(22, 30, 3), directions)
    ours = head.lead_field(electrodes, places, directions) / radius**2
    assert np.abs(ours - theirs).max() < 0.005 * np.abs(theirs).max()
    fitted = tuple(zip(sphere["mu"], sphere["lambda"], strict=True))
    monkeypatch.setattr(head, "SHELLS", fitted)
    ours = head.lead_field(electrodes, places, directions) / radius**2
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_electrodes_are_mne_s_to_the_thousandth():
    montage = mne.channels.make_standard_montage("colin27_1005").get_positions()["ch_pos"]
    middle = np.mean([montage[name] for name in ("T7", "T8", "Fpz", "Oz")], axis=0)
    theirs = np.array([montage[name] for name in CHANNELS]) - middle
    theirs /= np.linalg.norm(theirs, axis=1, keepdims=True)
    assert np.abs(np.array(head.ELECTRODES) / 1000 - theirs).max() <= 0.0005


def test_electrodes_lie_where_their_names_say():
    where = dict(zip(CHANNELS, head.electrodes(), strict=True))
    assert where["C3"][0] < -0.3 < 0.3 < where["C4"][0]  # left, right
    assert where["Fz"][1] > 0.3 > -0.3 > where["POz"][1]  # front, back
    assert where["Cz"][2] > 0.9  # top


def test_the_band_is_what_it_says(people):
    frequencies, power = signal.welch(people[0].X, 250.0, nperseg=500)
    power = power.mean(axis=(0, 1))
    inside = (frequencies >= 8.0) & (frequencies <= 30.0)
    assert power[inside].sum() > 0.97 * power.sum()


def test_imagining_a_hand_weakens_the_rhythm_on_the_other_side(people):
    """Mean power over all nine people, C3 against C4: the sign of the difference is the physiology
    put in."""
    left, right = CHANNELS.index("C3"), CHANNELS.index("C4")
    ratios = []
    for person in people:
        power = np.log(person.X.var(axis=2))
        ratios.append(
            [
                (power[person.y == label, left] - power[person.y == label, right]).mean()
                for label in (0, 1)
            ]
        )
    left_hand, right_hand = np.mean(ratios, axis=0)
    assert left_hand - right_hand > 0.2


def test_classes_of_an_unseen_person_are_learnable_but_not_trivial(people):
    """1296 trials: the standard error is below 0.014, and the data are fixed by the seed, so this
    either holds or not."""
    plain = _across_subjects(people)
    aligned = _across_subjects(alignment.align_subjects(people))
    assert 0.40 < plain.mean() < 0.75
    assert 0.40 < aligned.mean() < 0.75
    assert aligned.mean() > plain.mean() + 0.05  # alignment helps, as on real data
    assert aligned.max() - aligned.min() > 0.15  # some people are better at it than others


def test_people_are_recognised_across_sessions_and_less_so_when_aligned(people):
    def recognised(prepared) -> float:
        halves = [[prepared(s.X[s.session == session]) for s in people] for session in (0, 1)]
        parts = [[alignment.covariances(X) for X in half] for half in halves]
        labels = np.repeat(np.arange(len(people)), [len(part) for part in parts[0]])
        return _accuracy(np.concatenate(parts[0]), labels, np.concatenate(parts[1]), labels)

    plain, aligned = recognised(lambda X: X), recognised(alignment.align)
    assert plain > 0.70
    assert 1 / 9 < aligned < plain


def test_sessions_drift(people):
    for person in people[:3]:
        means = [
            alignment.covariances(person.X[person.session == session]).mean(axis=0)
            for session in (0, 1)
        ]
        change = np.linalg.norm(means[1] - means[0]) / np.linalg.norm(means[0])
        assert 0.03 < change < 1.0
