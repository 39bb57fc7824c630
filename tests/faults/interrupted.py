"""Notebook 1, cell by cell, in processes that are killed: `python -m tests.faults.interrupted
FOLDER KILLS`.

The parent imports everything once and computes nothing; each attempt is a fork of it, in a group of
its own, that executes the notebook's cells as a kernel would. It is killed right after a few chosen
shards, so that different stages are met whatever the speed of the machine; then at a random moment,
and started again, until it was killed often enough.
"""

import contextlib
import itertools
import json
import math
import os
import random
import signal
import sys
import time
from pathlib import Path

import matplotlib as mpl
import nbformat
import psutil

from companion import mushrooms, runs
from companion.convergence import claims, figures, lesson, tables  # noqa: F401
from companion.convergence.shards import compute
from companion.publish import batch
from companion.runs import fingerprint
from ldp_core import network

NOTEBOOK = "01_convergence"
# mere drawing
LEFT_OUT = (
    "figures.rates(",
    "figures.limits(",
    "figures.explore(",
    "figures.quantiser(",
    "figures.fig1(",
)
SMALLER = {"runs": 4, "iterations": 40, "rate_iterations": 100}
STAGES = (1, 4, 7)  # shards after which it is killed, each time counted from the one before
# kills fall into this share of an undisturbed run's time: a resumed one is even shorter
SEED, SHARE = 20261116, 0.65


def cells() -> list[str]:
    """Return what is executed: the notebook's code, with the smoke profile and less in place of its
    parameters."""
    code = [
        cell
        for cell in nbformat.read(batch.NOTEBOOKS / f"{NOTEBOOK}.ipynb", 4).cells
        if cell.cell_type == "code"
    ]
    kept = [cell.source for cell in code if not any(words in cell.source for words in LEFT_OUT)]
    values = {**batch.profile("smoke")[NOTEBOOK], **SMALLER, "profile": "smoke"}
    return [kept[0], *(f"{name} = {value!r}" for name, value in values.items()), *kept[1:]]


def warm_up() -> None:
    """Do once what every attempt would begin with: read the code's fingerprints, find the fonts."""
    mpl.use("agg")
    for function in (mushrooms.compute, compute):
        fingerprint.of(function)
    figures.style()
    figures.fig1(network.paper(), "").savefig(os.devnull, format="png")


def attempt(sources: list[str], folder: Path, shards: float = math.inf) -> int:
    """Start the notebook in a fork with its own cache and output in `folder`; return the process
    number.

    It is killed, as from outside, right after it has kept so many `shards`.
    """
    process = os.fork()
    if process:
        with contextlib.suppress(PermissionError):  # it was faster
            os.setpgid(process, process)
        return process
    code = 1
    try:
        os.setpgid(0, 0)
        if hasattr(os, "sched_setaffinity"):
            # one core: shards run in this process
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        os.environ["LDP_CACHE"] = str(folder / "cache")
        die_after(shards)
        names = {}
        for source in [sources[0], f"output = {str(folder / 'out')!r}", *sources[1:]]:
            exec(source, names)
        code = 0
    finally:
        os._exit(code)


def die_after(shards: float) -> None:
    """Let this process be killed as soon as it has kept so many shards."""
    keep, kept = runs.ResultStore.write, itertools.count(1)

    def keep_and_die(*arguments) -> None:
        keep(*arguments)
        if next(kept) == shards:
            os.kill(os.getpid(), signal.SIGKILL)

    runs.ResultStore.write = keep_and_die


def finish(process: int, within: float = math.inf) -> float:
    """Return the processor time after which a process ended well, or 0 when it used up the time
    given and was killed.

    Its own clock, not the wall's: on a busy machine the same kills fall at the same stages of the
    work.
    """
    clock = psutil.Process(process)
    while True:
        used = clock.cpu_times().user + clock.cpu_times().system
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            assert status == 0, f"an attempt that nobody disturbed failed: {status}"
            return used
        if used >= within:
            os.killpg(process, signal.SIGKILL)
            os.waitpid(process, 0)
            return 0.0
        time.sleep(0.005)


def main(folder: Path, wanted: int) -> dict:
    """Make the artefacts once undisturbed and once with `wanted` kills and a damaged cache on the
    way; return what happened."""
    warm_up()
    sources, chance = cells(), random.Random(SEED)
    undisturbed, disturbed = folder / "undisturbed", folder / "disturbed"
    seconds, kept = finish(attempt(sources, undisturbed)), []
    for shards in STAGES:
        _, status = os.waitpid(attempt(sources, disturbed, shards), 0)
        assert os.WIFSIGNALED(status), f"it was not killed after {shards} more shards: {status}"
        kept.append(len(results(disturbed)))
    while len(kept) < len(STAGES) + wanted:
        if finish(attempt(sources, disturbed), chance.uniform(0, SHARE * seconds)):
            for path in results(disturbed):
                path.unlink()  # it got through: there must be something left to interrupt
        else:
            kept.append(len(results(disturbed)))
    damage(results(disturbed))
    finish(attempt(sources, disturbed))
    return {"seconds": seconds, "shards at each kill": kept, "shards": len(results(disturbed))}


def damage(paths: list[Path]) -> None:
    """Truncate, change or empty what is in the cache, a file each in turn: none of it may be
    believed."""
    for number, path in enumerate(sorted(paths)):
        content = path.read_bytes()
        changed = (content[:-7], content[:200] + bytes([content[200] ^ 1]) + content[201:], b"")[
            number % 3
        ]
        path.write_bytes(changed)


def results(folder: Path) -> list[Path]:
    """Return the finished shards."""
    return list(runs.ResultStore(folder / "cache" / "results").folder.rglob("*.result"))


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]))))
