"""promises.json: one entry a promise, merged by name, whole or not at all."""

import doctest
import json
from dataclasses import replace

import pytest

from companion import promises

MADE = promises.Promise(
    name="mushrooms, 0.1",
    data="mushrooms",
    model="logistic regression",
    parameters={"d_0": 2.0, "degree": 3},
    unit="one sample of one agent",
    delta=0.1,
    horizon=promises.FOR_EVER,
    T=1000,
    accuracy=(0.958, 0.957, 0.959),
    runs=100,
    twin=0.962,
    best_unprotected=0.982,
    certified_by="ldp_core.accountant.promise",
)


def test_what_is_recorded_is_loaded_sorted_by_name(tmp_path):
    for name in ("b", "a", "c"):
        promises.record(tmp_path, replace(MADE, name=name))
    assert [promise.name for promise in promises.load(tmp_path)] == ["a", "b", "c"]
    assert promises.load(tmp_path)[0] == replace(MADE, name="a")


def test_a_promise_made_again_replaces_its_older_self_only(tmp_path):
    for entry in (MADE, replace(MADE, name="other"), replace(MADE, delta=0.05)):
        promises.record(tmp_path, entry)
    assert {promise.name: promise.delta for promise in promises.load(tmp_path)} == {
        MADE.name: 0.05,
        "other": 0.1,
    }


def test_the_same_promises_are_the_same_bytes_in_any_order(tmp_path):
    entries = [MADE, replace(MADE, name="other")]
    for folder, order in (("one", entries), ("two", entries[::-1])):
        for entry in order:
            promises.record(tmp_path / folder, entry)
    texts = [(tmp_path / folder / promises.NAME).read_text() for folder in ("one", "two")]
    assert texts[0] == texts[1]


def test_nothing_is_written_without_an_output(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    promises.record("", MADE)
    assert list(tmp_path.iterdir()) == []


def test_there_are_no_promises_where_none_were_made(tmp_path):
    assert promises.load(tmp_path) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"delta": 1.5}, r"delta = 1.5 must be in \[0, 1\]"),
        ({"delta": float("nan")}, r"delta = nan must be in \[0, 1\]"),
        ({"unit": ""}, "unit = '' must be said in words"),
        ({"accuracy": (0.9, 0.95, 0.99)}, "accuracy = .* must be"),
        ({"horizon": "soon"}, "horizon = 'soon' must be"),
        ({"runs": 0}, "runs = 0 must be at least 1"),
    ],
)
def test_a_promise_that_says_nothing_is_refused(change, words):
    with pytest.raises(ValueError, match=words):
        replace(MADE, **change)


def test_a_damaged_file_is_named(tmp_path):
    (tmp_path / promises.NAME).write_text(json.dumps([{"name": "half"}]))
    with pytest.raises(ValueError, match=r"promises\.json does not hold promises"):
        promises.load(tmp_path)


def test_a_delta_is_never_shown_smaller_than_it_is():
    assert "at most 0.1 " in MADE.sentence
    assert "at most 0.0988 " in replace(MADE, delta=0.09871).sentence
    assert "sent in 300 rounds" in replace(MADE, horizon=300).sentence


def test_the_example_of_the_module_runs():
    assert doctest.testmod(promises).failed == 0
