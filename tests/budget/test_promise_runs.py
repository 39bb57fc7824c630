"""The promise: certified from public constants, kept in runs, and not broken by the attack."""

import math

import numpy as np
import pandas as pd
import pytest

from companion.budget import promise
from companion.budget import promise_claims as promise_verdicts
from companion.data import mushrooms
from companion.params import ParameterError
from ldp_core import triangular
from ldp_core.accountant.dithered import certify_dithered

SMALL = promise.Params(promise_runs=2, promise_iterations=30, promise_warm_up=50, promise_targets=(0.25,), test=100,
                       audit_iterations=5, promise_audit_samples=2000)  # fmt: skip


@pytest.fixture(scope="module")
def data():
    return mushrooms.load(quiet=True)


@pytest.fixture(scope="module")
def chosen(data):
    return promise.plans(SMALL, data)


def test_a_plan_certifies_its_target(data, chosen):
    (found,) = chosen.values()
    again = certify_dithered(
        SMALL.network(), found.schedules, promise.public_constants(data), math.inf, dim=116, warm_up=SMALL.promise_warm_up
    )
    assert (again.delta <= 0.25).all() and again.delta.max() > 0.24


def test_a_question_asked_again_has_the_same_answer_and_another_its_own(data, chosen):
    (found,) = chosen.values()
    again, steps = promise.replan(SMALL, data, delta=SMALL.promise_targets[0], warm_up=SMALL.promise_warm_up)
    assert again is found and (steps["losses"] == promise.rungs(SMALL, data, found)["losses"]).all()
    shorter = SMALL.model_copy(update={"horizon": 1000})
    (other,) = promise.plans(shorter, data).values()
    assert other is not found and (other.delta <= 0.25).all()
    assert (promise.rungs(shorter, data, found)["losses"] > steps["losses"]).all()  # what is not followed is bounded


def test_constants_come_from_the_schema(data):
    constants = promise.public_constants(data)
    assert constants.l1 >= math.sqrt(21) and constants.l1 == pytest.approx(math.sqrt(21))


def piece(chosen, variant, **change):
    (found,) = chosen.values()
    common = {"params": SMALL.model_dump(include={"seed", "weight", "promise_warm_up", "samples", "test"}, mode="json")}
    common |= {"data": mushrooms.SHA256, "schedules": promise._as_dict(found.schedules, variant), "variant": variant}
    return {**common, "iterations": 30, "times": [0, 30], "first_run": 0, "count": 2, **change}


@pytest.mark.parametrize("variant", promise.VARIANTS)
def test_shards_do_not_depend_on_their_neighbours(chosen, variant):
    together = promise.compute(**piece(chosen, variant))
    alone = promise.compute(**piece(chosen, variant, first_run=1, count=1))
    assert np.array_equal(together["accuracy"][:, 1], alone["accuracy"][:, 0])
    assert len(together["bits"]) == (0 if variant == "unquantised" else 1)


def test_the_twin_is_the_same_for_all_targets(chosen):
    (found,) = chosen.values()
    assert set(promise._as_dict(found.schedules, "unquantised")["d_0"]) == {1.0}


def test_the_attack_stays_below_the_certificate_and_finds_what_is_there(data, chosen):
    """With many independent shifts of known size the audit is close to their total variation, and never above it."""
    (found,) = chosen.values()
    names = {"seed", "weight", "promise_warm_up", "samples", "promise_audit_samples", "promise_audit_rows", "audit_iterations"}
    own = SMALL.model_dump(include=names, mode="json")
    where = data.provenance.sha256, promise._as_dict(found.schedules), int(np.argmax(found.delta)), 0
    few, every = (promise.attacked({**own, "promise_audit_rows": rows}, *where) for rows in (1, 8124))
    assert few["paper"][0] != every["paper"][0]  # another replacement was found (by its first iterations, so perhaps a better)
    assert all(0 <= float(result["lower"]) <= found.delta.max() for result in (few, every))
    shift = 0.4
    lower = promise._audit(np.zeros(1), np.full(1, shift), np.ones(1), 40_000, 0)
    exact = float(triangular.total_variation(shift))
    assert 0.85 * exact < lower < exact


def test_rows_follow_the_numbers():
    table = pd.DataFrame(
        {
            "target": [0.1], "t": [1000], "certified": [0.1], "without_dither": [1.0], "sum_without_dither": [50.0],
            "lost": [0.001], "lost_low": [-0.002], "lost_high": [0.004], "runs": [20],
        }
    )  # fmt: skip
    rows = promise_verdicts.verdicts(table, pd.DataFrame({"target": [0.1], "audited": [0.03]}), promise.Params(), 116)
    assert [row.verdict for row in rows] == ["holds"] * 3 and all(row.ours_to_prove for row in rows)
    worse = promise_verdicts.verdicts(
        table.assign(lost_low=-0.05, lost_high=-0.02, without_dither=0.5),
        pd.DataFrame({"target": [0.1], "audited": [0.2]}),
        promise.Params(),
        116,
    )
    assert [row.verdict for row in worse] == ["does not hold"] * 3
    nothing = pd.DataFrame({"target": [0.1], "audited": [0.0]})
    unclear = promise_verdicts.verdicts(table.assign(lost_low=-0.05), nothing, promise.Params(), 116)
    assert unclear[0].verdict == unclear[2].verdict == "cannot be checked" and "proves nothing" in unclear[2].reason
    slow = pd.concat([table.assign(t=300, lost_low=-0.05), table])
    assert (
        promise_verdicts.verdicts(slow, nothing, promise.Params(), 116)[0].sentence == "holds if training lasts 1000 iterations"
    )


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"promise_targets": (0.0,)}, "promise_targets"),
        ({"promise_warm_up": -1}, "promise_warm_up = -1 is wrong: it must be greater than or equal to 1"),
        ({"promise_runs": 1}, "promise_runs = 1 is wrong"),
    ],
)
def test_nonsense_is_one_sentence(change, sentence):
    with pytest.raises(ParameterError, match=sentence):
        promise.Params(**change)
