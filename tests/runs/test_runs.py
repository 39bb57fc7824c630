"""Shards: computed once, believed only when whole, the same bytes after any interruption."""

import logging
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from companion import runs
from companion.publish import environment
from companion.runs import execute
from tests.runs import workload

ROOT = Path(environment.ROOT)
SHARDS = [{"seed": seed, "size": 5} for seed in range(6)]
PATIENCE = 600  # seconds until a process is said to hang: a busy machine gets its time


@pytest.fixture
def store(tmp_path):
    return runs.ResultStore(tmp_path / "results")


def test_results_come_in_the_order_of_the_shards(store):
    results = runs.run(workload.compute, SHARDS, store=store, workers=2)
    for shard, result in zip(SHARDS, results, strict=True):
        assert np.array_equal(result["values"], workload.compute(**shard)["values"])


def test_finished_shards_are_not_computed_again(store, tmp_path):
    shards = [{"seed": seed, "folder": str(tmp_path)} for seed in range(4)]
    runs.run(workload.count_calls, shards[:3], store=store, workers=1)
    runs.run(workload.count_calls, shards, store=store, workers=1)
    assert sorted(path.name.split("-")[0] for path in tmp_path.glob("*-*")) == ["0", "1", "2", "3"]


def test_equal_shards_are_computed_once(store, tmp_path):
    results = runs.run(
        workload.count_calls, [{"seed": 1, "folder": str(tmp_path)}] * 3, store=store, workers=1
    )
    assert len(list(tmp_path.glob("1-*"))) == 1 and len(results) == 3


def test_a_chain_goes_on_after_its_last_finished_part(store, tmp_path):
    shards = [{"seed": seed, "folder": str(tmp_path)} for seed in (2, 5)]
    runs.chain(workload.add, shards, 2, store=store)
    results = runs.chain(workload.add, shards, 4, store=store, description="four parts")
    assert [[int(part["sum"]) for part in parts] for parts in results] == [
        [2, 4, 6, 8],
        [5, 10, 15, 20],
    ]
    calls = sorted(path.name.rpartition("-")[0] for path in tmp_path.iterdir() if path.is_file())
    assert calls == [f"{seed}-{part}" for seed in (2, 5) for part in range(4)]


def test_what_is_handed_over_is_part_of_a_shards_name(store, tmp_path):
    """The same numbers again, in another array: nothing is computed.

    Other numbers, type or shape: it is.
    """
    numbers = np.arange(6, dtype=np.float32)
    handed = [
        numbers,
        numbers.copy(),
        numbers + 1,
        numbers.astype(np.float64),
        numbers.reshape(2, 3),
    ]
    shard = {"seed": 0, "folder": str(tmp_path)}
    totals = [
        runs.run(workload.total, [shard], store=store, workers=1, given=[{"numbers": own}])[0]
        for own in handed
    ]
    assert [int(found["total"]) for found in totals] == [15, 15, 21, 15, 15]
    assert len(list(tmp_path.glob("0-*"))) == 4


def test_a_large_array_reaches_several_processes(store, tmp_path):
    numbers = np.arange(400_000, dtype=np.float64)
    shards = [{"seed": seed, "folder": str(tmp_path)} for seed in range(3)]
    given = [{"numbers": numbers}] * 3
    results = runs.run(workload.total, shards, store=store, workers=2, given=given)
    assert [found["total"] for found in results] == [numbers.sum()] * 3


def test_a_shard_that_starts_an_experiment_is_refused(store, tmp_path):
    with pytest.raises(runs.ShardError, match="a shard must not start another experiment"):
        runs.run(workload.start_another, [{"folder": str(tmp_path)}], store=store, workers=1)
    runs.run(workload.count_calls, [{"seed": 0, "folder": str(tmp_path)}], store=store, workers=1)


def test_no_shards_no_results(store):
    assert runs.run(workload.compute, [], store=store) == []


def test_provenance_is_kept_with_the_result(store):
    runs.run(workload.compute, SHARDS[:1], store=store, workers=1)
    (path,) = store.folder.rglob("*.result")
    record = store.provenance(path.stem)
    assert record["function"] == "tests.runs.workload.compute" and record["arguments"] == SHARDS[0]
    assert {"code", "seconds", "cpu", "finished", "python", "numpy"} <= set(record)


def test_a_failing_shard_is_named_and_the_others_are_kept(store):
    shards = [{"seed": seed, "bad": 2} for seed in range(3)]
    with pytest.raises(
        runs.ShardError,
        match=r"shard \{'seed': 2, 'bad': 2\} failed: ValueError: seed 2 is not liked",
    ):
        runs.run(workload.fail_on, shards, store=store, workers=1)
    assert len(list(store.folder.rglob("*.result"))) == 2


DAMAGES = {
    "truncated": lambda content: content[:-7],
    "one byte changed": lambda content: content[:100] + bytes([content[100] ^ 1]) + content[101:],
    "empty": lambda content: b"",
    "digest of something else": lambda content: b"0" * 64 + content[64:],
    "garbage": lambda content: os.urandom(300),
    "text": lambda content: b"\xff\xfe not a result\n" * 3,
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_result_is_computed_again_not_believed(store, name, caplog):
    before = runs.run(workload.compute, SHARDS[:1], store=store, workers=1)
    (path,) = store.folder.rglob("*.result")
    path.write_bytes(DAMAGES[name](path.read_bytes()))
    with caplog.at_level(logging.WARNING):
        after = runs.run(workload.compute, SHARDS[:1], store=store, workers=1)
    assert "is damaged: it is computed again" in caplog.text
    assert np.array_equal(before[0]["values"], after[0]["values"])
    assert store.read(path.stem) is not None


def test_workers_use_one_thread_each(store):
    for result in runs.run(workload.threads, [{"shard": 0}, {"shard": 1}], store=store, workers=2):
        assert {name: int(number) for name, number in result.items()} == {
            "numba": 1,
            "torch": 1,
            "blas": 1,
        }


def test_a_worker_that_is_replaced_is_not_worth_a_word_with_a_path_in_it():
    """The words are loky's own: if they change, this fails."""
    from joblib.externals.loky import process_executor

    words = "A worker stopped while some jobs were given to the executor."
    assert words[:30] in Path(process_executor.__file__).read_text()
    code = (  # a warning may be printed with the line that gave it: both must not stand on one
        "import sys, warnings\nimport companion.runs\nfor words in sys.argv[1:]:\n    "
        "warnings.warn(words)\n"
    )
    command = [sys.executable, "-c", code, words + " More.", "other"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stderr
    assert "other" in said and "worker" not in said


def test_as_many_workers_as_cores(monkeypatch):
    """Those that this process may use, where the system can tell; else all there are."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert execute.cores() == allowed


def test_quiet_shows_no_progress(store, capsys):
    runs.run(workload.compute, SHARDS[:1], store=store, workers=1, quiet=True)
    quiet = capsys.readouterr().err
    runs.run(workload.compute, SHARDS[:1], store=store, workers=1)
    assert not quiet and "1/1" in capsys.readouterr().err


def test_the_environment_says_how_many_workers(store, monkeypatch):
    """A single worker is this process.

    A word that is no number is refused before anything is computed.
    """
    monkeypatch.setenv("WORKERS", "1")
    assert {
        int(r["pid"]) for r in runs.run(workload.process, [{"shard": 0}, {"shard": 1}], store=store)
    } == {os.getpid()}
    monkeypatch.setenv("WORKERS", "2")
    assert os.getpid() not in {
        int(r["pid"]) for r in runs.run(workload.process, [{"shard": 2}, {"shard": 3}], store=store)
    }
    for word in ("0", "two", "-1", "1.5", "²"):
        monkeypatch.setenv("WORKERS", word)
        with pytest.raises(
            runs.ShardError, match=f"WORKERS = '{word}' must be a whole number, at least 1"
        ):
            runs.run(workload.compute, SHARDS, store=store)


def command(folder, shards=12, pause=0.05, workers=2):
    return [
        sys.executable,
        "-m",
        "tests.runs.workload",
        str(folder),
        str(shards),
        str(pause),
        str(workers),
    ]


def test_killed_at_twenty_random_moments_ends_in_the_same_bytes(tmp_path):
    """SIGKILL to the whole process group, again and again.

    The artefact equals that of a run nobody disturbed.
    """
    undisturbed, disturbed = tmp_path / "undisturbed", tmp_path / "disturbed"
    subprocess.run(command(undisturbed, shards=40), cwd=ROOT, check=True, capture_output=True)
    chance, kills = random.Random(20261116), 0
    while kills < 20:
        process = subprocess.Popen(
            command(disturbed, shards=40),
            cwd=ROOT,
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        with_luck = chance.uniform(0.5, 3.0)
        try:
            process.wait(timeout=with_luck)
            # it got through: make it work again
            for path in (disturbed / "results").rglob("*.result"):
                path.unlink()
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            kills += 1
    subprocess.run(command(disturbed, shards=40), cwd=ROOT, check=True, capture_output=True)
    assert (disturbed / "artefact.json").read_bytes() == (
        undisturbed / "artefact.json"
    ).read_bytes()


def test_interrupted_by_ctrl_c_it_goes_on_where_it_was(tmp_path):
    process = subprocess.Popen(
        command(tmp_path, shards=40, pause=0.2),
        cwd=ROOT,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # a shell's background jobs ignore Ctrl-C
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + PATIENCE
    while len(list((tmp_path / "results").rglob("*.result"))) < 3:
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=PATIENCE) != 0
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "results").rglob("*.result")}
    subprocess.run(
        command(tmp_path, shards=40, pause=0.2), cwd=ROOT, check=True, capture_output=True
    )
    assert all(path.stat().st_mtime_ns == time_ns for path, time_ns in kept.items())
    assert (tmp_path / "artefact.json").exists()


def test_two_runs_on_the_same_folder_do_not_disturb_each_other(tmp_path):
    together = [
        subprocess.Popen(command(tmp_path, shards=20), cwd=ROOT, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    for process in together:
        assert process.wait(timeout=PATIENCE) == 0, process.stderr.read().decode()
    assert len(list((tmp_path / "results").rglob("*.result"))) == 20
    assert not list((tmp_path / "results").rglob("*.part"))


@pytest.fixture
def tiny_disk(tmp_path):
    """Return a folder on a file system of 64 KB, or skip by name where it cannot be made."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)],
        capture_output=True,
        text=True,
    )
    if mounted.returncode:
        pytest.skip("no right to mount a tiny file system here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_one_sentence_and_no_half_file(tiny_disk):
    store = runs.ResultStore(tiny_disk)
    shards = [{"seed": seed, "size": 2000} for seed in range(10)]
    with pytest.raises(
        OSError, match=r"a finished shard cannot be kept in .*: No space left on device"
    ):
        runs.run(workload.compute, shards, store=store, workers=1)
    assert not list(tiny_disk.rglob("*.part"))
    kept = list(tiny_disk.rglob("*.result"))
    assert kept and all(store.read(path.stem) is not None for path in kept)


def test_a_full_disk_is_one_sentence_anywhere(store, monkeypatch):
    """The same without the right to mount: the operating system's answer is played."""

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        OSError, match=r"a finished shard cannot be kept in .*: No space left on device"
    ):
        runs.run(workload.compute, SHARDS[:1], store=store, workers=1)
    assert not [path for path in store.folder.rglob("*") if path.is_file()]
