"""Attacks on EEG training: what is overheard, and that nothing leaks from the attacked half."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from companion.attacks import identity
from companion.data import eeg, synthetic_eeg
from companion.data.eeg import Recordings
from companion.eeg import overheard, shards, tables, trials
from companion.eeg.params import DEFENCES, Attack, Attacking, Params
from companion.params import AGENTS, ParameterError

PEOPLE = (1, 2, 3, 4, 5)
PARAMS = Attacking(
    data="synthetic",
    subjects=PEOPLE,
    attack_trials=1,
    attack_rounds=2,
    attack_models=2,
    attack_steps=2,
)


@pytest.fixture(scope="module")
def recordings() -> Recordings:
    """Five people, sixteen trials of one second each, in place of the whole stand-in."""
    whole = eeg._synthetic(PEOPLE, 0)
    rows = np.r_[0:8, -8:0]
    names = ("y", "session", "run")
    cut = [
        replace(
            subject,
            X=subject.X[rows, :, :250],
            window=(0.0, 1.0),
            **{name: getattr(subject, name)[rows] for name in names},
        )
        for subject in whole.subjects
    ]
    return replace(whole, subjects=tuple(subject.band_passed(8.0, 30.0) for subject in cut))


@pytest.fixture(autouse=True)
def loaded(recordings, monkeypatch):
    monkeypatch.setattr(trials, "_load", lambda *arguments: recordings)
    for cached in (trials._scene, overheard._unknowns):
        cached.cache_clear()
    yield
    for cached in (trials._scene, overheard._unknowns):
        cached.cache_clear()


def heard_from(defence: str, attacker: str, states: int = 2, groups: int = 1, factor: float = 1.0):
    scene = trials.scene(PARAMS, False)
    rows = np.tile(np.arange(AGENTS), groups)  # every group the same trials
    way = overheard.Way(defence, factor, attacker, states)
    held = overheard.Held(PARAMS, scene, scene.x[rows], scene.y[rows])
    return overheard.overhear(PARAMS, held, 0, way)


def test_the_second_attacker_uses_as_many_rounds_as_help_and_were_heard(recordings):
    """Calibrated for each defence by itself: their best numbers differ."""
    curve = {1: 0.5, 2: 0.8, 4: 0.6, 8: 0.1}
    means = dict.fromkeys(DEFENCES, curve) | {"quantised": {1: 0.0, 2: 0.1, 4: 0.2, 8: 0.3}}
    rows = [
        (defence, states, mean)
        for defence, found in means.items()
        for states, mean in found.items()
    ]
    table = pd.DataFrame(rows, columns=["defence", "states", "correlation"]).assign(
        attacker="one run"
    )
    table = pd.concat([table, table.assign(attacker="many models", correlation=1.0)])
    others = dict.fromkeys(DEFENCES, 2)
    heard_four = PARAMS.model_copy(update={"attack_rounds": 4})
    assert shards.helpful_rounds(heard_four, table) == others | {"quantised": 4}
    assert shards.helpful_rounds(
        PARAMS.model_copy(update={"attack_rounds": 8}), table
    ) == others | {"quantised": 8}


def test_intervals_are_over_people_and_not_over_their_trials():
    """Ten trials of each of three people, alike within a person: thirty trials say no more than
    three.
    """
    common = {
        "aligned": False,
        "defence": "D-PSGD",
        "factor": 1.0,
        "attacker": "one round",
        "states": 1,
    }
    common |= dict.fromkeys(("relative_error", "spectrum_error", "label", "diverged", "noise"), 0.0)
    people = {1: 0.1, 2: 0.2, 3: 0.6}
    rows = [
        common | {"subject": subject, "correlation": mean}
        for subject, mean in people.items()
        for _ in range(10)
    ]
    (row,) = tables.attacked(pd.DataFrame(rows)).itertuples()
    half = (
        4.302653 * np.std(list(people.values()), ddof=1) / np.sqrt(3)
    )  # Student, two degrees of freedom
    assert row.correlation == pytest.approx(0.3) and row.trials == 30
    assert (row.correlation_low, row.correlation_high) == pytest.approx(
        (0.3 - half, 0.3 + half), rel=1e-6
    )


def test_a_calibration_without_a_round_that_was_heard_is_refused():
    wrong = PARAMS.model_copy(update={"attack_rounds": 1, "calibration_states": (2, 4)})
    with pytest.raises(
        ParameterError,
        match=r"calibration_states = \[2, 4\] must hold a number up to attack_rounds = 1",
    ):
        wrong.check()


@pytest.mark.parametrize("defence", ["D-PSGD", "unquantised"])
@pytest.mark.parametrize("attacker", overheard.ATTACKERS)
def test_without_a_quantizer_the_gradients_are_heard_exactly(defence, attacker):
    heard = heard_from(defence, attacker)
    assert heard.theta.shape == heard.estimate.shape == heard.truth.shape
    assert heard.theta.shape[:2] == (AGENTS, 1 if attacker == "one round" else 2)
    np.testing.assert_allclose(heard.estimate, heard.truth, atol=1e-6)


def test_many_models_are_different_and_the_same_for_all_trials():
    heard = heard_from("D-PSGD", "many models", states=3)
    assert np.ptp(heard.theta, axis=0).max() == 0
    assert np.abs(np.diff(heard.theta, axis=1)).max(axis=2).min() > 0.01


@pytest.mark.parametrize("defence", ["quantised", "random start", "dithered"])
def test_groups_share_no_coin_and_smaller_steps_hear_more(defence):
    heard = heard_from(defence, "one round", groups=2)
    error = (heard.estimate - heard.truth)[:, 0]
    assert (
        np.abs(np.corrcoef(error[:5].ravel(), error[5:].ravel())[0, 1]) < 0.2
    )  # 7,000 numbers: 0.2 is 16 deviations
    fine = heard_from(defence, "one round", groups=2, factor=0.01)
    assert np.std(fine.estimate - fine.truth) < 0.2 * np.std(error)


def test_psi_0_on_the_grid_gives_more_away_than_a_random_one():
    errors = {
        name: np.std(h.estimate - h.truth)
        for name in ("quantised", "random start")
        for h in [heard_from(name, "one round")]
    }
    assert errors["quantised"] < 0.5 * errors["random start"]


@pytest.mark.parametrize("aligned", [False, True])
def test_the_known_half_does_not_depend_on_the_attacked_one(aligned, recordings, monkeypatch):
    before = trials.scene(PARAMS, aligned)
    changed = [
        replace(s, X=np.where((s.session == 1)[:, None, None], 3 * s.X[:, ::-1], s.X))
        for s in recordings.subjects
    ]
    monkeypatch.setattr(
        trials, "_load", lambda *arguments: replace(recordings, subjects=tuple(changed))
    )
    trials._scene.cache_clear()
    after = trials.scene(PARAMS, aligned)
    np.testing.assert_array_equal(before.known, after.known)
    assert np.abs(before.x - after.x).max() > 0.1


def test_five_trials_in_a_row_are_of_five_people():
    scene = trials.scene(PARAMS, False)
    assert all(len(set(scene.who[start : start + 5])) == 5 for start in range(0, len(scene.who), 5))
    assert len(scene.x) == 8 * len(PEOPLE)


def test_a_block_is_the_same_whatever_is_computed_beside_it(recordings):
    """Also when it begins in the middle of the five trials that five agents hold."""
    common = shards._common(PARAMS.into(Attack), recordings) | {"aligned": False, "states": 2}
    ways = [("D-PSGD", 1.0, "one run"), ("quantised", 1.0, "many models")]
    both = overheard.rebuilt(**common, ways=ways, first=0, count=9)
    second = overheard.rebuilt(**common, ways=ways[1:], first=3, count=5)
    block, (own,) = {name: part[1, 3:8] for name, part in both.items()}, second["x"]
    np.testing.assert_allclose(block["error"], second["error"][0], rtol=1e-6)
    np.testing.assert_array_equal(block["guessed"], second["guessed"][0])
    np.testing.assert_allclose(block["x"], own, atol=1e-2 * np.abs(own).max())


def test_ways_on_the_same_trials_are_attacked_together_as_long_as_they_are_few():
    ways = [(False, name, 1.0, "one run") for name in DEFENCES]
    keys = [(*way, states, 0, 27) for way in ways for states in (1, 4, 16)]
    pieces = shards.together(keys)
    told = [
        (piece["aligned"], *way, piece["states"], piece["first"], piece["count"])
        for piece in pieces
        for way in piece["ways"]
    ]
    assert sorted(told) == sorted(keys)
    sizes = [(piece["states"], len(piece["ways"])) for piece in pieces]
    assert sizes == [(1, 5), (4, 2), (4, 2), (4, 1), *[(16, 1)] * 5]


def test_blocks_hold_every_trial_once_and_those_of_the_calibration_by_themselves(recordings):
    params = PARAMS.model_copy(update={"calibration_trials": 5})  # 25 trials of five people
    for per_subject, calibrated in itertools.product((5, 4, 8), (True, False)):
        blocks = shards.blocks(params, per_subject, calibrated)
        held = np.concatenate([np.arange(b["first"], b["first"] + b["count"]) for b in blocks])
        np.testing.assert_array_equal(held, np.arange(5 * per_subject))
        assert max(block["count"] for block in blocks) <= shards.TRIALS_PER_SHARD
        apart = calibrated and per_subject == 8
        assert any(block["first"] == 25 for block in blocks) == apart


def made_up_attacks(asked: list):
    """Return what runs no attack but notes what is asked for, and answers with the trials."""

    def run(function, pieces, **options):
        names = "defence", "factor", "attacker"
        for piece in pieces:
            asked.extend(piece | dict(zip(names, way, strict=True)) for way in piece["ways"])
        x = trials.scene(PARAMS, False).x
        row = {
            "guessed": 0,
            "value": 0.0,
            "steps": 1,
            "diverged": False,
            "gradient": 1.0,
            "error": 0.0,
        }
        shapes = [(len(piece["ways"]), piece["count"]) for piece in pieces]
        return [
            {"x": np.stack([x[:count]] * ways)}
            | {name: np.full((ways, count), value) for name, value in row.items()}
            for ways, count in shapes
        ]

    return run


def test_what_is_not_shown_or_tells_the_same_is_not_computed(recordings, monkeypatch):
    asked: list[dict] = []
    monkeypatch.setattr(shards.runs, "run", made_up_attacks(asked))
    params = PARAMS.model_copy(update={"calibration_states": (1, 2, 4)})
    seen = shards.by_states(params, recordings)
    found = shards.attacks(params, recordings, seen)
    assert {piece["attacker"] for piece in asked if piece["states"] == 1} == {"one round"}
    twin = {piece["attacker"] for piece in asked if piece["defence"] == "unquantised"}
    assert twin <= {"one run"}, "in the clear, all that t = 0 tells is told by D-PSGD"
    assert set(found.table["defence"]) == set(DEFENCES), "but shown for both"
    assert not [piece for piece in asked if piece["aligned"] and piece["factor"] != 1.0]
    assert [piece for piece in asked if not piece["aligned"] and piece["factor"] != 1.0]
    defences = {piece["defence"] for piece in asked if piece["states"] == 4}
    assert defences == set(shards.SHOWN)


def test_at_the_first_round_the_twin_tells_what_dpsgd_tells():
    """So one attack stands for both: the estimates are the same gradient."""
    for attacker in ("one round", "many models"):
        clear, twin = (heard_from(defence, attacker) for defence in overheard.CLEAR)
        np.testing.assert_array_equal(clear.theta, twin.theta)
        np.testing.assert_allclose(clear.estimate, twin.estimate, atol=1e-12)


def test_other_recordings_are_refused():
    with pytest.raises(ValueError, match="the data here have SHA-256"):
        trials.scene(PARAMS, False, "0" * 64)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (
            {"attack_band": (10.0, 34.0)},
            r"attack_band = \[10.0, 34.0\] must hold band = \[8.0, 30.0\]",
        ),
        ({"attack_fs": 40.0}, r"attack_band = .* end below attack_fs / 2 = 20 Hz"),
        ({"attack_aligned": ()}, r"attack_aligned = \[\] is wrong: it must hold at least 1"),
        ({"attack_models": 0}, "attack_models = 0 is wrong"),
        ({"attack_shape": "magic"}, "attack_shape = 'magic' is wrong"),
        ({"identity_classifiers": ("oracle",)}, "identity_classifiers holds 'oracle'"),
        ({"nu": 0.4}, r"nu = 0.4 must lie in \(1/2, 1\)"),
    ],
)
def test_nonsense_stops_with_one_sentence(values, sentence):
    with pytest.raises(ParameterError, match=sentence):
        Params(**values).check()


def test_a_data_point_must_arrive_before_the_budget_ends():
    with pytest.raises(ParameterError, match="budget_arrivals holds 9, which must be below"):
        Params(budget_iterations=10, budget_arrivals=(9,)).check()


def test_too_many_trials_are_refused(recordings):
    with pytest.raises(ParameterError, match="attack_trials = 9 must not exceed 8"):
        shards.by_states(PARAMS.model_copy(update={"attack_trials": 9}), recordings)


def test_the_logarithm_of_gradients_averages_noise_away_where_states_agree():
    random = np.random.default_rng(0)
    truth = np.exp(random.normal(size=(4, 1, 50)))
    noisy = truth + random.normal(size=(4, 400, 50))
    found = overheard.log_gradient(noisy)[:, :50]
    assert np.abs(found - np.log(truth[:, 0])).mean() < 0.1


def test_turning_wide_features_onto_their_axes_changes_no_probability():
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    random = np.random.default_rng(0)
    x, who = random.normal(size=(30, 200)), np.arange(30) % 3
    plain = make_pipeline(
        StandardScaler(), LogisticRegression(C=identity.INVERSE_PENALTY, max_iter=5000, tol=1e-8)
    ).fit(x, who)
    turned = identity.wide_regression().set_params(logisticregression__tol=1e-8).fit(x, who)
    new = random.normal(size=(10, 200))
    np.testing.assert_allclose(turned.predict_proba(new), plain.predict_proba(new), atol=1e-5)


def test_stand_in_people_have_two_sessions():
    assert len(np.unique(synthetic_eeg.generate(0, (1,))[0].session)) == 2


def test_what_defences_share_is_computed_once_and_changes_nothing(recordings, monkeypatch):
    scene, asked, plain = trials.scene(PARAMS, False), [], overheard.signals.trial_gradients
    monkeypatch.setattr(
        overheard.signals,
        "trial_gradients",
        lambda *given: asked.append(given[1].shape) or plain(*given),
    )
    shared = overheard.Held(PARAMS, scene, scene.x[:AGENTS], scene.y[:AGENTS])
    ways = [overheard.Way(each, 1.0, "one run", 2) for each in DEFENCES]
    together = [overheard.overhear(PARAMS, shared, 0, way) for way in ways]
    assert len(asked) == 1 + len(ways)  # the first round of all defences, and the second of each
    for way, found in zip(ways, together, strict=True):
        own = overheard.Held(PARAMS, scene, scene.x[:AGENTS], scene.y[:AGENTS])
        for one, other in zip(found, overheard.overhear(PARAMS, own, 0, way), strict=True):
            assert (one == other).all()
