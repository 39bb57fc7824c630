"""A small experiment for the tests of `runs`: pure shards, a final artefact, and a command that makes it."""

import json
import os
import sys
import time
from pathlib import Path

import numpy as np


def compute(seed: int, size: int, pause: float = 0.0) -> dict:
    """Return numbers that depend on (seed, size) alone, after a pause that makes the shard interruptible."""
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
