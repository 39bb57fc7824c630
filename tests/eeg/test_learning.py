"""Notebook 4's learning: nobody trains on the one who is tested, and results are pure."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from companion.data import epochs
from companion.data.store import DataError
from companion.eeg import shards, tables, training, trials
from companion.eeg.params import Params
from companion.params import ParameterError

SUBJECTS = [1, 2, 3, 4, 5, 6]
SMALL = {"subjects": SUBJECTS, "iterations": 6, "evaluate_every": 3, "samples": 6, "seeds": 1}


def person(number, trials=24, fs=64.0, seed=0, classes=2):
    """Return noise whose power at one of two electrodes tells the class: what imagined movements
    do, only clearer.
    """
    draw = np.random.default_rng([seed, number])
    x = draw.normal(size=(trials, len(epochs.CHANNELS), 64))
    y = np.arange(trials) % classes
    x[np.arange(trials), 3 + 4 * y] *= 5
    session = (np.arange(trials) >= trials // 2).astype(np.int8)
    names = tuple("abcd"[:classes])
    return epochs.Epochs(
        f"A{number:02d}",
        x,
        y,
        fs,
        epochs.CHANNELS,
        names,
        session,
        0 * session,
        (8.0, 30.0),
        (0.0, 1.0),
        "1",
    )


def write(folder, people):
    folder.mkdir(exist_ok=True)
    for one in people:
        epochs.write(folder / f"{one.subject}.npz", one)
    return str(folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write(tmp_path_factory.mktemp("own"), [person(number) for number in SUBJECTS])


def problem(folder, **changes):
    params = Params(**(SMALL | {"data": folder} | changes))
    return params, trials.load(params)


def shard(folder, variant="quantised", test=1, **changes):
    params, data = problem(folder, **changes)
    return next(s for s in pieces(params, data) if s["variant"] == variant and s["test"] == test)


def pieces(params, data):
    return shards.trainings(params, data, params.tests, params.seeds)


def trained(folder, variant="quantised", run=0, **changes):
    """Return the last state of a training without subject 1."""
    piece = shard(folder, variant, **changes)
    here = training.fold(piece["params"], piece["data"], 1, run)
    return training.train(here, training.start(here), variant).theta


def test_shards_cover_every_fold_seed_and_variant_once(folder):
    params, data = problem(folder, seeds=2, folds=[2, 5])
    covered = {(s["test"], s["run"], s["variant"]) for s in pieces(params, data)}
    assert len(pieces(params, data)) == len(covered) == 8
    assert pieces(params, data)[0] in pieces(*problem(folder)), (
        "a fold does not depend on which others are computed"
    )


def test_a_shard_is_pure_and_its_twin_starts_from_the_same_state(folder):
    first, again = (training.learnt(**shard(folder)) for _ in range(2))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert first["t"].tolist() == [0, 3, 6] and first["accuracy"].shape == (3, 5)
    twin = training.learnt(**shard(folder, "unquantised"))
    assert np.array_equal(first["accuracy"][0], twin["accuracy"][0])
    assert not np.array_equal(trained(folder), trained(folder, "unquantised"))
    assert not np.array_equal(trained(folder), trained(folder, run=1))


def test_agents_hold_all_training_subjects_disjointly_and_never_the_left_out_one(folder):
    piece = shard(folder, iterations=60, evaluate_every=60)
    for test in SUBJECTS:
        here = training.fold(piece["params"], piece["data"], test, 0)
        rows = [here.oracle.history[0, agent].ravel() for agent in range(5)]
        held = [set(here.trials.subject[own]) for own in rows]
        assert sum(map(len, held)) == 5 and set().union(*held) == set(SUBJECTS) - {test}


def test_nothing_of_the_left_out_subject_reaches_training(tmp_path):
    people = [person(number) for number in SUBJECTS]
    changed = [replace(people[0], X=7 * person(1, seed=9).X, y=1 - people[0].y), *people[1:]]
    before, after = (write(tmp_path / name, them) for name, them in (("a", people), ("b", changed)))
    assert np.array_equal(trained(before), trained(after)), "training is the same to the last bit"
    judged = [training.learnt(**shard(folder))["accuracy"] for folder in (before, after)]
    assert not np.array_equal(*judged), "the test is not"


def test_alignment_looks_at_no_other_subject_and_at_no_label(tmp_path):
    people = [person(number) for number in SUBJECTS]
    x = people[1].X * np.linspace(1, 5, 22)[:, None].astype(np.float32)
    changed = [
        people[0],
        replace(people[1], X=x),
        replace(people[2], y=1 - people[2].y),
        *people[3:],
    ]
    both = [problem(write(tmp_path / name, them)) for name, them in (("a", people), ("b", changed))]
    before, after = (trials.found(params, data.provenance.sha256) for params, data in both)
    same = (before.x == after.x).all(axis=(1, 2))
    assert same[before.subject != 2].all() and not same[before.subject == 2].any()


def test_aligned_subjects_have_the_identity_as_mean_covariance(folder):
    params, data = problem(folder)
    found = trials.found(params, data.provenance.sha256)
    x = found.x[found.rows([4])].astype(np.float64)
    assert np.allclose((x @ x.transpose(0, 2, 1)).mean(0) / x.shape[2], np.eye(22), atol=1e-4)


def test_true_labels_are_learnt_and_permuted_ones_give_chance(tmp_path):
    """Under permuted labels hits are hypergeometric: 24 trials miss 0.5 by 0.36 with probability
    below 0.001.
    """
    people = [person(number) for number in SUBJECTS]
    draw = np.random.default_rng(5)
    permuted = [replace(one, y=draw.permutation(one.y)) for one in people]
    faster = {
        "weight": 0.2,
        "convolution_scale": 0.3,
        "lam_0": 1.0,
    }  # five agents with 24 trials each learn it in a second
    settings = {"iterations": 40, "evaluate_every": 40, "variant": "unquantised", **faster}
    true, chance = (
        training.learnt(**shard(write(tmp_path / name, them), **settings))["accuracy"][-1].mean()
        for name, them in (("true", people), ("permuted", permuted))
    )
    assert true > 0.85 and abs(chance - 0.5) < 0.36


def test_centralised_training_learns_and_does_not_see_the_left_out_subject(tmp_path, monkeypatch):
    monkeypatch.setattr(training, "BATCH", 30)
    monkeypatch.setattr(training, "RATE", 5e-3)
    people = [person(number) for number in SUBJECTS]
    flipped = [replace(one, y=1 - one.y) if one.subject == "A02" else one for one in people]
    found = []
    for name, them in (("c", people), ("d", flipped)):
        piece = shard(write(tmp_path / name, them), test=2)
        found.append(training.centralised(piece["params"], piece["data"], 2, 0, epochs=20))
    first, other = (result["accuracy"] for result in found)
    assert found[0]["epoch"].tolist() == list(range(21)) and first[-1] > 0.9
    assert np.allclose(other, 1 - first)


def test_the_kept_subject_alone_says_when_to_stop():
    epochs_run = np.arange(12)
    validation = np.where((epochs_run >= 4) & (epochs_run <= 8), 0.6, 0.3)
    table = pd.DataFrame(
        {
            "subject": 1,
            "run": 0,
            "epoch": epochs_run,
            "validation": validation,
            "accuracy": epochs_run / 100,
        }
    )
    assert tables.stopped(table)["epoch"].tolist() == [6]
    assert tables.stopped(table.assign(accuracy=1 - table["accuracy"]))["epoch"].tolist() == [6]
    assert training.following(9, [1, 5, 9]) == 1 and training.following(1, [1, 5, 9]) == 5


def test_divergence_is_caught_named_counted_and_reported(folder):
    piece = shard(
        folder, "unquantised", batch_norm="none", convolution_scale=1.0, lam_0=1e12, d_0=1e12
    )
    result = training.learnt(**piece)
    assert (
        0 <= result["diverged"] < 6
        and np.isnan(result["accuracy"][-1]).all()
        and np.isfinite(result["accuracy"][0]).all()
    )
    table = shards.learnt(piece, result)
    assert tables.diverged(table).to_dict("records") == [
        {"variant": "unquantised", "subject": 1, "run": 0, "iteration": int(result["diverged"])}
    ]
    last = tables.summary(table, classes=2).iloc[-1]
    assert last["mean"] == 0.5 and last["diverged"] == 1, (
        "a network that has diverged decides nothing"
    )


def test_a_state_too_large_to_be_quantised_has_diverged(folder):
    result = training.learnt(
        **shard(
            folder, batch_norm="none", convolution_scale=1.0, lam_0=1e9, d_0=1e-9, d_0_slope=0.0
        )
    )
    assert 0 <= result["diverged"] < 6 and np.isnan(result["accuracy"][-1]).all()


@pytest.mark.parametrize("batch_norm", ["fixed", "none"])
def test_other_treatments_of_normalisation_run(folder, batch_norm):
    result = training.learnt(**shard(folder, batch_norm=batch_norm, convolution_scale=1.0))
    assert np.isfinite(result["accuracy"]).all() and result["diverged"] == -1


def test_ablations_keep_the_ratio_that_decides_privacy():
    base = Params(ablation_folds=(1,))
    for label, params in base.ablations().items():
        assert params.d_0 / params.lam_0 == pytest.approx(base.d_0 / base.lam_0), label
        assert params.d_0_slope / params.lam_0 == pytest.approx(base.d_0_slope / base.lam_0), label
        params.check()


def test_the_defaults_are_the_papers_schedules():
    schedules = Params().algorithm().schedules
    assert schedules.d_0 == pytest.approx([0.52, 0.54, 0.56, 0.58, 0.6]) and schedules.lam(0) == 0.2
    assert (
        schedules.varsigma == pytest.approx([0.51, 0.52, 0.53, 0.54, 0.55]) and schedules.nu == 0.61
    )


def test_resampling_keeps_what_it_can_hold_and_refuses_what_not():
    time = np.arange(500) / 250
    tone = np.sin(2 * np.pi * 12 * time) * np.ones((12, 22, 1))
    draw = np.random.default_rng(0).normal(size=tone.shape) * 1e-3
    y = np.arange(12) % 2
    one = epochs.Epochs(
        "A01", tone + draw, y, 250.0, epochs.CHANNELS, ("a", "b"), 0 * y, 0 * y, (8.0, 30.0)
    )
    half = trials.resampled(one, 125.0)
    expected = np.sin(2 * np.pi * 12 * np.arange(250) / 125)
    assert (
        half.fs == 125
        and half.X.shape[2] == 250
        and np.abs(half.X[0, 0, 20:-20] - expected[20:-20]).max() < 0.02
    )
    assert trials.resampled(one, 500.0) is one, "never more samples than there are"
    with pytest.raises(DataError, match="reaches 30 Hz, which fs = 50 Hz cannot hold"):
        trials.resampled(one, 50.0)


def test_a_window_shortens_all_trials_and_the_caption_says_so(folder):
    params, data = problem(folder, window=[0.25, 0.75])
    assert {subject.X.shape[2] for subject in data.subjects} == {32}
    assert data.provenance.caption().endswith(", 0.25 to 0.75 s after the cue.")
    assert trials.found(params, data.provenance.sha256).x.shape[2] == 32
    assert problem(folder, window=[0.0, 1.0])[1].provenance == problem(folder)[1].provenance, (
        "all of it is no part"
    )


def broken(**change):
    people = [person(number) for number in SUBJECTS]
    return [replace(people[0], **change), *people[1:]]


@pytest.mark.parametrize(
    ("people", "words"),
    [
        (
            [person(number) for number in SUBJECTS[:-1]],
            "has no file for subject 6, it must be one file",
        ),
        (broken(ch_names=("Oz", *epochs.CHANNELS[1:])), "has no channel Fz; its channels are Oz"),
        (broken(fs=70.0), "A02: has fs = 64.0, but A01 has 70.0"),
        (
            [person(1, trials=8), *map(person, SUBJECTS[1:])],
            "A01: subject 1 has 8 trials, a fold needs at least 10",
        ),
        (
            broken(y=np.zeros(24, dtype=int)),
            "subject 1 has trials of one class alone .a.: nothing to tell apart",
        ),
    ],
)
def test_data_that_cannot_be_used_are_refused_in_one_line(tmp_path, people, words):
    with pytest.raises(DataError, match=words) as caught:
        params, data = problem(write(tmp_path / "broken", people))
        trials.found(params, data.provenance.sha256)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"folds": [7]}, r"folds = \[7\]: subject 7 is not among subjects"),
        ({"evaluate_every": 7}, "evaluate_every = 7 must not exceed iterations = 6"),
        ({"subjects": [1, 2, 2, 3, 4, 5]}, "must be all different"),
        ({"varsigma": 0.7}, r"max varsigma = 0.75 must be below nu = 0.61"),
        ({"window": [1.0]}, r"window = \[1.0\] must be empty or two increasing times"),
        ({"window": [0.5, 0.2]}, r"window = \[0.5, 0.2\] must be empty or two increasing times"),
        ({"batch_norm": "running"}, "batch_norm = 'running' is wrong"),
    ],
)
def test_parameters_that_contradict_are_refused_in_one_sentence(folder, change, words):
    with pytest.raises(ParameterError, match=words):
        problem(folder, **change)


def test_an_unknown_source_and_other_data_than_meant_are_refused(folder):
    with pytest.raises(
        DataError,
        match=r"is neither a known data set .bnci2014_001, physionet, synthetic. nor a folder",
    ):
        trials.load(Params(data="bnci2014_002"))
    with pytest.raises(ValueError, match="the data here have SHA-256"):
        training.learnt(**(shard(folder) | {"data": "0" * 64}))
