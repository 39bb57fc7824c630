"""The same shards on a real Dask scheduler with real workers on this machine, one of which is
killed."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from companion import runs
from companion.publish import environment
from tests.runs import workload

ROOT = Path(environment.ROOT)
PATIENCE = 600  # seconds until a process is said to hang: a busy machine gets its time


def start(*arguments):
    command = [sys.executable, "-m", "distributed.cli." + arguments[0], *arguments[1:]]
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@pytest.fixture
def cluster(tmp_path):
    """Start a scheduler and three worker processes on loopback.

    Return the address and the workers.
    """
    note = tmp_path / "scheduler.json"
    scheduler = start(
        "dask_scheduler",
        "--host",
        "127.0.0.1",
        "--port",
        "0",
        "--no-dashboard",
        "--scheduler-file",
        str(note),
    )
    deadline = time.monotonic() + PATIENCE
    while not note.exists():
        assert time.monotonic() < deadline and scheduler.poll() is None
        time.sleep(0.1)
    options = (
        "--scheduler-file",
        str(note),
        "--nthreads",
        "1",
        "--no-nanny",
        "--no-dashboard",
        "--local-directory",
        str(tmp_path),
    )
    workers = [start("dask_worker", *options) for _ in range(3)]
    from dask.distributed import Client

    with Client(scheduler_file=str(note), set_as_default=False) as client:
        client.wait_for_workers(3, timeout=PATIENCE)
        address = client.scheduler.address
    yield address, workers
    for process in [*workers, scheduler]:
        process.kill()
        process.wait()


def test_same_results_on_a_cluster_that_loses_a_worker(cluster, tmp_path, monkeypatch):
    address, workers = cluster
    monkeypatch.setenv("SCHEDULER", address)
    shards = [{"seed": seed, "size": 20, "pause": 0.3} for seed in range(24)]
    store = runs.ResultStore(tmp_path / "results")
    code = (
        "import os, signal, sys, time; time.sleep(float(sys.argv[1])); "
        "os.kill(int(sys.argv[2]), signal.SIGKILL)"
    )
    killer = subprocess.Popen([sys.executable, "-c", code, "1.5", str(workers[0].pid)])
    results = runs.run(workload.compute, shards, store=store)
    assert killer.wait() == 0 and workers[0].wait() == -signal.SIGKILL
    for shard, result in zip(shards, results, strict=True):
        assert np.array_equal(
            result["values"], workload.compute(**{**shard, "pause": 0.0})["values"]
        )


@pytest.fixture
def silent():
    """Return an address that is taken, and where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"tcp://127.0.0.1:{taken.getsockname()[1]}"


def test_no_scheduler_is_one_sentence(silent, tmp_path, monkeypatch):
    monkeypatch.setenv("SCHEDULER", silent)
    monkeypatch.setattr("companion.runs.execute.CONNECT_SECONDS", 2)
    sentence = re.escape(f"SCHEDULER = '{silent}': no Dask scheduler answers there")
    with pytest.raises(runs.ShardError, match=sentence):
        runs.run(workload.compute, [{"seed": 0, "size": 1}], store=runs.ResultStore(tmp_path))


def test_nonsense_scheduler_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("SCHEDULER", "nonsense")
    with pytest.raises(runs.ShardError, match="SCHEDULER = 'nonsense'"):
        runs.run(workload.compute, [{"seed": 0, "size": 1}], store=runs.ResultStore(tmp_path))
