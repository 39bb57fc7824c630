"""How far a notebook is: what its kernel writes down, and what is shown of it."""

import io
import json
import os
import time

import pytest

from companion import runs
from companion.publish import progress
from companion.runs import watch as kernel
from tests.runs import workload


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def quick(monkeypatch):
    """Let lines come often."""
    monkeypatch.setattr(progress, "LIVE_SECONDS", 0.02)
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.02)


def write(path, *facts):
    with path.open("a") as file:
        file.writelines(json.dumps(fact) + "\n" for fact in facts)


def test_a_kernel_writes_down_its_shards_and_what_is_reused(tmp_path, monkeypatch):
    monkeypatch.setenv(kernel.VARIABLE, str(tmp_path / "progress"))
    store = runs.ResultStore(tmp_path / "results")
    shards = [{"seed": seed, "size": 5} for seed in range(3)]
    runs.run(workload.compute, shards[:2], store=store, workers=1)
    runs.run(workload.compute, shards, store=store, workers=1, description="three")
    facts = [json.loads(line) for line in (tmp_path / "progress").read_text().splitlines()]
    begun = [fact for fact in facts if "experiment" in fact]
    assert [(fact["shards"], fact["reused"]) for fact in begun] == [(2, 0), (3, 2)]
    done = [fact for fact in facts if "experiment" not in fact]
    assert len(done) == 3
    assert begun[1]["cpu"] == pytest.approx(sum(fact["cpu"] for fact in done[:2]), abs=0.002)
    sizes = {path.stat().st_size for path in store.folder.rglob("*.result")}
    assert sizes == {fact["disk"] for fact in done}
    assert begun[1]["disk"] == sum(fact["disk"] for fact in done[:2])


def test_nothing_is_written_when_nobody_watches(tmp_path, monkeypatch):
    monkeypatch.delenv(kernel.VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    runs.run(
        workload.compute,
        [{"seed": 1, "size": 5}],
        store=runs.ResultStore(tmp_path / "r"),
        workers=1,
    )
    assert [path.name for path in tmp_path.iterdir()] == ["r"]


def test_a_watch_adds_up_and_waits_for_whole_lines(tmp_path):
    file = tmp_path / "progress"
    watch = progress.Watch("01_good", file)
    watch.look()
    assert watch.total("shards") == 0
    many = {"experiment": "many", "shards": 10, "reused": 4, "cpu": 8.0, "disk": 100}
    write(file, many, {"cpu": 1.0, "disk": 20})
    with file.open("a") as half:
        half.write('{"cpu"')
    watch.look()
    assert (watch.total("shards"), watch.total("reused"), len(watch.facts)) == (10, 4, 2)
    assert (watch.total("cpu"), watch.total("disk")) == (9.0, 120)
    with file.open("a") as half:
        half.write(': 1.0, "disk": 3}\n')
    watch.look()
    assert (len(watch.facts), watch.total("cpu"), watch.total("disk")) == (3, 10.0, 123)


def test_a_watch_says_its_last_experiment_and_the_time_left(tmp_path, monkeypatch):
    watch = progress.Watch("01_good", tmp_path / "progress")
    beginning = "01_good 0:30, cell 0 of 0"
    monkeypatch.setattr(progress.time, "monotonic", lambda: watch.start + 30.0)
    assert watch.said() == beginning
    first = {"experiment": "few", "shards": 1, "reused": 1, "seen": watch.start}
    watch.facts += [first, {"experiment": "many", "shards": 10, "reused": 4, "seen": watch.start}]
    assert watch.said() == f"{beginning}, many: 4 of 10 shards"
    watch.facts += [{}] * 3
    assert watch.said() == f"{beginning}, many: 7 of 10 shards, 0:30 left"
    watch.facts += [{}] * 3
    assert watch.said() == beginning


@pytest.mark.parametrize(
    ("seconds", "words"), [(5, "0:05"), (65.4, "1:05"), (7384, "2 h 03"), (-1, "0:00")]
)
def test_times_are_short(seconds, words):
    assert progress.clock(seconds) == words


@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_lines_are_live_in_a_terminal_and_whole_elsewhere(quick, tmp_path, stream, monkeypatch):
    shown = stream()
    monkeypatch.setattr("sys.stdout", shown)
    with progress.watching("01_good", tmp_path) as watch:
        watch.cell, watch.cells = 3, 9
        many = {"experiment": "many", "shards": 10, "reused": 4, "cpu": 8.0, "disk": 0}
        write(watch.file, many)
        while "many: 4 of 10" not in shown.getvalue():
            time.sleep(0.01)
    text = shown.getvalue()
    assert "01_good 0:0" in text and "cell 3 of 9" in text
    assert ("\r" in text) == shown.isatty() and ("\n" in text) != shown.isatty()
    assert kernel.VARIABLE not in os.environ and not list(tmp_path.iterdir())
