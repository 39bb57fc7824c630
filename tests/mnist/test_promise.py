"""Promises for pictures: what is certified is what is run; tables, records and verdicts."""

import json
import math

import numpy as np
import pandas as pd
import pytest

from companion import promises
from companion.data import mnist as images
from companion.mnist import claims, figures, promise, promise_tables, tables
from companion.mnist.params import Params
from companion.params import ParameterError
from companion.problems import scattering
from ldp_core.accountant.promise import certify
from ldp_core.randomness import Purpose, generator

KINDS = ("softmax", "network", "convolution")


@pytest.fixture
def small(monkeypatch):
    """Return four well separated classes of 1000 + 50 samples with six features, in place of
    digits."""
    monkeypatch.setattr(scattering, "FEATURES", 6)
    monkeypatch.setattr(promise, "HIDDEN", 8)
    random = generator(7, Purpose.SYNTHETIC)
    centres, y = random.normal(size=(10, 6)), random.integers(4, size=1050)
    x = centres[y] + 0.1 * random.normal(size=(1050, 6))
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float16), y


@pytest.fixture
def drawn(small, monkeypatch):
    """Return pictures of the same classes: of each one kind of stroke, with some noise."""
    monkeypatch.setattr(promise, "FILTERS", 8)
    random, y = generator(8, Purpose.SYNTHETIC), small[1]
    strokes = scattering.strokes(4, 1)[y]
    return (strokes + 0.7 * random.normal(size=strokes.shape)).astype(np.float16), y


@pytest.mark.parametrize("kind", KINDS)
def test_the_promise_is_certified_for_all_time_and_for_one_image(kind):
    plan = promise.plan_of(kind, 0.25, 60000, 100)
    assert plan.certificate.iterations == math.inf and plan.certificate.unit == "one sample"
    assert (plan.certificate.delta <= 0.25).all() and plan.certificate.delta.max() > 0.2495
    assert (plan.certificate.program <= 0.25).all()  # in float64, for 100,000 iterations
    assert (certify(plan.terms, math.inf).delta <= 0.25).all()
    point = promise.plan_of(kind, 0.25, 60000, 100, copies=promise.SAMPLES)
    assert point.terms.schedules == plan.terms.schedules
    assert (point.certificate.delta > 2 * plan.certificate.delta).all()


def test_more_images_need_less_noise_for_each_unit_of_step():
    few, many = (promise.plan_of("softmax", 0.25, n, 50).terms.schedules for n in (8000, 60000))
    assert min(few.d_0) / few.lam_0 > 2 * min(many.d_0) / many.lam_0


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_run_is_what_is_certified_and_twins_learn(small, drawn, monkeypatch, kind):
    """A thousand samples at delta = 0.95: four classes, easily told apart by those who clip."""
    monkeypatch.setattr(promise, "LOOKS", 2)
    x, y = drawn if kind == "convolution" else small
    arguments = {"seed": 0, "images": 1000, "iterations": 8, "x": x, "y": y}
    found, twin, plain = (
        promise.train(kind, variant, 0.95, attacked=count, **arguments)
        for variant, count in (("promise", 3), ("twin", 0), ("unprotected", 0))
    )
    assert found["t"].tolist() == [1, 8] and found["accuracy"].shape == (2, 5)
    assert (found["delta"] <= 0.95).all() and (found["program"] >= found["delta"]).all()
    assert found["labels"].shape == found["pictures"].shape == (5,)
    least = {"softmax": 0.9, "network": 0.5, "convolution": 0.9}[kind]  # chance: 0.25
    assert twin["accuracy"][-1].mean() > least
    assert not np.array_equal(plain["accuracy"], twin["accuracy"])
    assert "labels" not in twin
    again = promise.train(kind, "promise", 0.95, attacked=3, **arguments)
    assert all(np.array_equal(found[name], again[name]) for name in found)


def test_every_image_arrives_once(small):
    plan = promise.plan_of("softmax", 0.5, 1000, 8)
    oracle, _ = promise.learners("softmax", "promise", plan, *small, 3, 1000)
    rows = np.concatenate(oracle.x)
    assert rows.shape == (1000, 6) and oracle.seen(7) == 200  # all that an agent has, at the end
    np.testing.assert_array_equal(np.sort(rows, axis=0), np.sort(small[0][:1000], axis=0))


def kept(accuracy=(0.95, 0.96), images_=60000):
    """Return two seeds of one promise as `promise_tables.kept` does."""
    common = {"kind": "softmax", "target": 0.25, "delta": 0.25, "program": 0.251}
    rows = [
        common
        | {
            "variant": "promise",
            "seed": k,
            "accuracy": value,
            "labels": [0.1, 0.2] * 5,
            "pictures": [0.02] * 5,
        }
        for k, value in enumerate(accuracy)
    ]
    rows += [common | {"variant": v, "seed": 0, "accuracy": 0.97} for v in ("twin", "unprotected")]
    ends = pd.DataFrame(rows)
    return promise_tables.Kept(
        ends[["kind", "variant", "target", "seed", "accuracy"]].assign(t=5), ends, images_, 100
    )


def test_the_summary_has_student_intervals():
    row = promise_tables.summary(kept()).iloc[0]
    half = 12.706 * np.std([0.95, 0.96], ddof=1) / math.sqrt(2)
    assert row["accuracy"] == pytest.approx(0.955) and row["seeds"] == 2
    assert row["low"] == pytest.approx(0.955 - half, rel=1e-3) and row["high"] == 1.0
    assert promise_tables.interval(np.array([0.9])) == (0.9, 0.9, 0.9)


def test_every_promise_is_kept_with_its_unit(tmp_path):
    promise_tables.record(kept(), Params(), images.embedded(), str(tmp_path))
    (entry,) = promises.load(tmp_path)
    assert entry.sentence.startswith("one image of one agent changes all that is ever sent")
    assert entry.delta == 0.25 and entry.best_unprotected == 0.97 and entry.runs == 2
    assert json.loads((tmp_path / "promises.json").read_text())[0]["parameters"]["degree"] == 3


def rows_of(found, **changes):
    params = Params(promise_seeds=2, **changes)
    return {c.key: c for c in claims.of_promises(params, found, images.embedded(), "")}


def test_verdicts_follow_the_numbers():
    assert rows_of(kept((0.955, 0.9551)))["promise-for-pictures"].verdict == "holds"
    assert rows_of(kept((0.80, 0.801)))["promise-for-pictures"].verdict == "does not hold"
    for accuracy in (0.955, 0.80):  # few images decide neither way: what is promised needs many
        few = rows_of(kept((accuracy, accuracy + 1e-4), 8000))["promise-for-pictures"]
        assert few.verdict == "cannot be checked" and "8000" in few.reason
        assert f"{accuracy:.1%}" in few.ours
    found = kept()
    assert rows_of(found, promise_attacked=100)["promise-attacked"].verdict == "holds"
    broken = found._replace(ends=found.ends.assign(labels=[[0.9, 0.95]] * 4))
    assert rows_of(broken, promise_attacked=100)["promise-attacked"].verdict == "does not hold"
    unclear = found._replace(ends=found.ends.assign(labels=[[0.1, 0.5]] * 4))
    assert rows_of(unclear, promise_attacked=1)["promise-attacked"].verdict == "cannot be checked"


def test_the_figure_and_tables_show_what_is_promised():
    record = Params().record("03_mnist_idlg", "x", images.embedded())
    figure = figures.promises(kept(), Params(), record, "")
    texts = " ".join(text.get_text() for text in figure.findobj(lambda a: hasattr(a, "get_text")))
    assert "δ = 0.25" in texts and "for all time, one image" in texts
    shown = promise_tables.accuracy_table(kept()).iloc[0]
    assert shown["accuracy of sent values"].startswith("95.5% (")
    assert len(promise_tables.attack_table(kept())) == 2


def test_no_target_is_no_promise():
    params = Params(promise_targets=())
    found = promise_tables.kept(params, images.embedded())
    assert found.ends.empty and promise_tables.attack_table(found).empty
    assert "No promise" in figures.promises(found, params, {}, "").data
    assert claims.of_promises(params, found, images.embedded(), "") == []
    assert promise_tables.accuracy_table(found).empty
    assert promise_tables.certificates(found, params).empty and tables.plain(found.curves) == {}


def test_sizes_that_do_not_fit_are_refused():
    data = images.embedded()
    with pytest.raises(ParameterError, match="promise_images = 60000 must not exceed 8000"):
        Params(promise_images=60000).check(data)
    with pytest.raises(ParameterError, match="promise_images = 6000 leaves an agent 0 images"):
        Params(promise_images=6000).check(data)
    assert Params(promise_images=0, promise_test=0).dealt(data) == (8000, 2000)
