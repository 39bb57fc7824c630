"""The promise: planned without data, kept by the algorithm that learns, judged on unseen rows."""

import numpy as np
import pandas as pd
import pytest

from companion import promises
from companion.budget import claims, promise, tables, words
from companion.budget.params import Params
from companion.data import mushrooms, streams

SMALL = Params(
    promise_runs=2,
    promise_iterations=30,
    promise_warm_up=50,
    promise_targets=(0.25,),
    test=100,
    horizon=2000,
)
KEPT = {"target": 0.25, "quantised": True}
TWIN = {"target": 0.25, "quantised": False}
PROVEN = pd.DataFrame({"target": [0.25], "certified": [0.25], "audited": [0.15]})


@pytest.fixture(scope="module")
def data():
    return mushrooms.load(quiet=True)


def piece(data, learner, first_run=0, count=2, **changes):
    (piece,) = promise._shards(SMALL, data, [learner], count)
    return {**piece, "first_run": first_run, **changes}


def test_the_plan_is_for_ever_and_about_a_whole_data_point():
    found = promise.planned(SMALL, 0.25)
    assert 0.2499 < found.certificate.delta.max() <= 0.25 and found.certificate.iterations == np.inf
    assert found.certificate.unit == "one data point of 2 samples"
    assert promise.planned(SMALL, 0.25) is found  # sliders ask again


@pytest.mark.parametrize("learner", [KEPT, TWIN, promise.TRIED[0]])
def test_shards_do_not_depend_on_their_neighbours(data, learner):
    together = promise.compute(**piece(data, learner))
    alone = promise.compute(**piece(data, learner, first_run=1, count=1))
    assert np.array_equal(together["accuracy"][1], alone["accuracy"][0])
    assert len(together["bits"]) == (2 if learner is KEPT else 0)


def test_what_is_judged_is_what_is_sent(data, monkeypatch):
    """The judged model lies on the grid of message T, and test rows are neither learnt nor tuned
    on."""
    judged = {}
    monkeypatch.setattr(
        promise.centred,
        "accuracy",
        lambda features, labels, theta, rows: (
            judged.update(theta=theta, rows=rows) or np.zeros((2, 5))
        ),
    )
    promise.compute(**piece(data, KEPT))
    steps = promise.planned(SMALL, 0.25).schedules.step(SMALL.promise_iterations)
    levels = judged["theta"] / steps[:, None]
    assert np.abs(levels - np.rint(levels)).max() < 1e-9 and np.ptp(levels) > 1
    _, test = streams.history(0, range(2), 5, 80, 2, len(data.labels), SMALL.test)
    assert np.array_equal(judged["rows"], test)
    promise.compute(**piece(data, promise.TRIED[0], validation=40))
    for run, agent in np.ndindex(2, 5):
        validation = judged["rows"][run, agent]
        assert len(validation) == 40 and not set(validation) & set(test[run, agent])


def test_wrong_data_are_refused(data):
    with pytest.raises(ValueError, match="those meant 0000"):
        promise.compute(**{**piece(data, KEPT), "data": "0" * 64})


@pytest.fixture(scope="module")
def learned():
    rows = []
    accuracies = {"promised": (0.95, 0.97), "twin": (0.96, 0.98), "figure 2": (0.95, 0.95)}
    accuracies["tuned"] = (0.99, 1.0)
    for learner, values in accuracies.items():
        target = 0.25 if learner in ("promised", "twin") else 0.0
        bits = 5.0 if learner == "promised" else np.nan
        rows += [(learner, target, run, value, 4, bits) for run, value in enumerate(values)]
    return pd.DataFrame(rows, columns=["learner", "target", "run", "accuracy", "arrivals", "bits"])


def test_promises_are_compared_with_all_that_promise_nothing(learned):
    (row,) = tables.promises(SMALL, learned).to_dict("records")
    assert (row["accuracy"], row["accuracy_unquantised"]) == pytest.approx((0.96, 0.97))
    assert (row["figure_2"], row["tuned"]) == pytest.approx((0.95, 0.995))
    assert row["lost"] == pytest.approx(-0.01) and row["lost_low"] == pytest.approx(-0.01)
    half = 12.7062 * np.std([0.95, 0.97], ddof=1) / np.sqrt(2)  # Student, one degree of freedom
    assert row["accuracy_high"] - row["accuracy"] == pytest.approx(half, rel=1e-4)
    assert row["certified"] <= 0.25 and row["runs"] == 2 and row["bits"] == 5.0


def test_units_grow_with_the_mushrooms_in_them(learned):
    table = tables.units(SMALL, learned)
    assert table["copies"].tolist() == [1, 2, 4]
    assert (table["delta"].diff()[1:] > 0).all() and (
        table["delta"] < table["delta_for_ever"]
    ).all()
    assert table["delta_for_ever"][1] == pytest.approx(0.25, rel=1e-3)
    shown = words.units(table, SMALL)
    assert (
        shown.loc["one mushroom that arrives 4 times"].iloc[-1]
        == f"{table['delta_for_ever'][2]:.3f}"
    )


def test_a_profile_begins_at_delta_and_falls():
    table = tables.profiles(SMALL)
    assert table["delta"].iloc[0] == pytest.approx(0.25, rel=1e-3)
    assert (table["delta"].diff()[1:] < 0).all() and (table["gaussian"] <= table["delta"]).all()


def test_a_promise_is_spent_over_time():
    one, point = (
        curve["delta"].to_numpy() for _, curve in tables.spending(SMALL, 0.25).groupby("copies")
    )
    assert (np.diff(one) >= 0).all() and (np.diff(point) >= 0).all()
    assert (one <= point).all() and 0.24 < point[-1] <= 0.25


@pytest.mark.parametrize(
    ("gain", "verdict"),
    [
        ((-0.005, 0.02), "holds"),
        ((-0.02, 0.02), "cannot be checked"),
        ((-0.04, -0.02), "does not hold"),
    ],
)
def test_verdicts_follow_the_interval(learned, gain, verdict):
    found = tables.promises(SMALL, learned).assign(gain_low=gain[0], gain_high=gain[1])
    (claim,) = claims.promises(found, PROVEN[:0], SMALL)
    assert claim.verdict == verdict and claim.key == "ours-certified-0.25"
    assert "one data point of 2 mushrooms" in claim.words and "99.5%" in claim.ours


def test_nothing_is_promised_without_targets(data):
    none = SMALL.model_copy(update={"promise_targets": ()})
    found = tables.promises(none, promise.learned(none, data))
    assert found.empty and claims.promises(found, promise.proven(none), none) == []
    assert words.promise(found, none).data.endswith("this part is left out.")


@pytest.mark.parametrize(
    ("audited", "verdict"), [(0.15, "holds"), (0.1, "cannot be checked"), (0.26, "does not hold")]
)
def test_an_audit_must_prove_half_and_never_more_than_all(audited, verdict):
    (claim,) = claims.promises(pd.DataFrame(), PROVEN.assign(audited=audited), SMALL)
    assert claim.key == "ours-audit" and claim.verdict == verdict


def test_an_audit_stays_within_the_promise():
    """Few transcripts of a short run: it proves something, and no more than is certified (1e-6)."""
    found = promise.proven(SMALL.model_copy(update={"promise_audit_samples": 5000}))
    assert 0.0 < found["audited"][0] < found["certified"][0] <= 0.25


def test_every_promise_is_kept_in_one_file(learned, data, tmp_path):
    words.keep(tables.promises(SMALL, learned), SMALL, data, str(tmp_path))
    (entry,) = promises.load(tmp_path)
    assert entry.sentence.startswith(
        "one data point of 2 mushrooms of one agent changes all that is ever"
    )
    assert entry.best_unprotected == pytest.approx(0.995) and entry.twin == pytest.approx(0.97)
    assert entry.delta <= 0.25 and entry.runs == 2
