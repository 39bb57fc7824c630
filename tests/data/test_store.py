"""Provenance says what it must, and the search for data is said out loud in one line."""

from __future__ import annotations

import dataclasses
import json
import logging
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from companion.data import DataError, Provenance, store

RECORD = Provenance(
    "MNIST",
    "embedded",
    "the shipped file",
    "1998",
    "0" * 64,
    "CC BY-SA 3.0",
    "10,000 of 70,000 images",
)


def test_a_stand_in_says_so_in_its_caption():
    assert RECORD.caption() == "Stand-in data (embedded): MNIST, 10,000 of 70,000 images."
    made_up = Provenance("synthetic motor imagery", "synthetic", "seed 0", "1", "0" * 64, "MIT")
    assert made_up.caption() == "Stand-in data (synthetic): synthetic motor imagery."
    assert (
        Provenance("Mushrooms", "real", "a file", "1987", "0" * 64, "CC BY 4.0").caption()
        == "Data: Mushrooms."
    )


def test_a_record_survives_json():
    assert Provenance(**json.loads(json.dumps(dataclasses.asdict(RECORD)))) == RECORD


@pytest.mark.parametrize(("field", "value"), [("kind", "fake"), ("sha256", "abc")])
def test_a_wrong_record_is_refused(field, value):
    with pytest.raises(ValueError, match=f"{field} = '{value}' must be"):
        Provenance(**(dataclasses.asdict(RECORD) | {field: value}))


def test_a_load_says_one_line_to_the_log(caplog):
    with caplog.at_level(logging.INFO, "companion.data"):
        store.announce(RECORD)
    assert [record.getMessage() for record in caplog.records] == [RECORD.line()]
    assert (
        "\n" not in RECORD.line()
        and "embedded" in RECORD.line()
        and "the shipped file" in RECORD.line()
    )


def test_a_load_says_exactly_one_line_where_logging_is_not_set_up():
    script = "from companion.data import mushrooms; mushrooms.load()"
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert said.stdout == ""
    assert said.stderr.count("\n") == 1 and said.stderr.startswith(
        "data: Mushrooms (UCI): real, from the file that ships"
    )


def test_ldp_data_must_be_a_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LDP_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match=r"nowhere: LDP_DATA must name a folder"):
        store.named_folder()


def test_an_empty_ldp_data_counts_as_none(monkeypatch):
    monkeypatch.setenv("LDP_DATA", "")
    assert store.named_folder() is None


def test_an_argument_comes_before_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("LDP_DATA", "/nowhere")
    assert store.named_folder(tmp_path) == tmp_path


def test_the_cache_lies_in_the_project_unless_told_otherwise(monkeypatch, tmp_path):
    assert store.cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("LDP_CACHE")
    assert store.cache_folder() == store.SHIPPED / "cache"


def test_only_cache_files_are_ever_removed(tmp_path, monkeypatch, cache):
    monkeypatch.chdir(tmp_path)
    for path in (tmp_path / "mine", cache / "theirs"):
        path.parent.mkdir(exist_ok=True)
        path.write_text("data")
    for path in ("mine", tmp_path / "mine", cache / "theirs"):
        store.forget(DataError(path, "is damaged"))
    assert (tmp_path / "mine").exists() and not (cache / "theirs").exists()


def test_an_error_is_one_line_and_crosses_processes():
    error = DataError(Path("a") / "b.npz", "is\nbroken")
    assert str(error) == f"{Path('a') / 'b.npz'}: is broken"
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) and again.path == error.path
