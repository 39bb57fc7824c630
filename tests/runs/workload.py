"""A small experiment for the tests of `runs`: pure shards, a final artefact, and a command that
makes it."""

import json
import os
import sys
import time
from pathlib import Path

import numpy as np


def compute(seed: int, size: int, pause: float = 0.0) -> dict:
    """Return numbers that depend on (seed, size) alone, after a pause that makes the shard
    interruptible."""
    time.sleep(pause)
    values = np.random.default_rng(seed).normal(size=size)
    return {"values": values, "total": values.sum()}


def fail_on(seed: int, bad: int) -> dict:
    """Return a number, or fail for one seed."""
    if seed == bad:
        raise ValueError(f"seed {bad} is not liked")
    return {"seed": seed}


def count_calls(seed: int, folder: str) -> dict:
    """Leave a trace of each call, to see what was computed and what was not."""
    (Path(folder) / f"{seed}-{time.time_ns()}").touch()
    return {"seed": seed}


def add(seed: int, folder: str, part: int, before: dict | None) -> dict:
    """Add the seed to what the part before returned, and leave a trace."""
    (Path(folder) / f"{seed}-{part}-{time.time_ns()}").touch()
    return {"sum": (before["sum"] if before else 0) + seed}


def total(seed: int, folder: str, numbers: np.ndarray) -> dict:
    """Return the sum of the numbers handed over, and leave a trace of the call."""
    (Path(folder) / f"{seed}-{time.time_ns()}").touch()
    return {"total": numbers.sum()}


def start_another(folder: str) -> dict:
    """Do what no shard may: start an experiment."""
    from companion import runs

    return runs.run(count_calls, [{"seed": 0, "folder": folder}], quiet=True)[0]


def own_cache(folder: str) -> None:
    """Give this process a cache that no other has."""
    os.environ["LDP_CACHE"] = str(Path(folder) / str(os.getpid()))


def count_in(folder: str, module: str, name: str) -> None:
    """Let a module's function leave a file in `folder` at every call in this process."""
    import functools
    import importlib

    home = importlib.import_module(module)
    function = getattr(home, name)

    @functools.wraps(function)
    def counted(**arguments):
        text = json.dumps(arguments, sort_keys=True)
        (Path(folder) / f"{os.getpid()}-{time.time_ns()}").write_text(text, encoding="utf-8")
        return function(**arguments)

    setattr(home, name, counted)


def process(shard: int) -> dict:
    """Return the number of the process that computes."""
    return {"pid": os.getpid()}


def threads(shard: int) -> dict:
    """Return how many threads the numerical libraries of this worker would use."""
    import numba
    import torch
    from threadpoolctl import threadpool_info

    return {
        "numba": numba.get_num_threads(),
        "torch": torch.get_num_threads(),
        "blas": max(p["num_threads"] for p in threadpool_info()),
    }


def main(folder: str, shards: int, pause: float, workers: int) -> None:
    """Run all shards and write one artefact from their results."""
    from companion import files, runs
    from tests.runs import workload  # not __main__, which has no name that a worker knows

    results = runs.run(
        workload.compute,
        [{"seed": seed, "size": 50, "pause": pause} for seed in range(shards)],
        store=runs.ResultStore(Path(folder) / "results"),
        workers=workers,
    )
    text = json.dumps([[float(r["total"]), *r["values"].tolist()] for r in results])
    files.write(Path(folder) / "artefact.json", lambda file: file.write(text.encode()))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]))
