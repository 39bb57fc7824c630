"""How far a notebook is: one live line in a terminal, a line every half minute elsewhere.

The notebook's kernel writes down what its experiments do (`companion.runs.watch`), papermill tells
which cell it is at, and a thread here reads and prints.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import psutil
from jupyter_client import AsyncKernelManager
from papermill.engines import NBClientEngine, papermill_engines

from companion import files
from companion.runs.watch import VARIABLE

LIVE_SECONDS, LINE_SECONDS = 1.0, 30.0  # between two lines, in a terminal and elsewhere
GIGABYTE = 1e9


@dataclass
class Step:
    """One experiment of a notebook: its shards, those taken from before, those finished since."""

    name: str
    shards: int
    reused: int
    since: float
    finished: int = 0

    def said(self, now: float) -> str:
        """Return how far it is, with the time left once that can be told."""
        done = self.reused + self.finished
        words = f"{self.name}: {done} of {self.shards} shards"
        if not self.finished or done == self.shards:
            return words
        left = (now - self.since) / self.finished * (self.shards - done)
        return f"{words}, {clock(left)} left"


class Watch:
    """What is known of a notebook that is being executed."""

    def __init__(self, name: str, file: Path):
        self.name, self.file = name, file
        self.start = time.monotonic()
        self.cell, self.cells = 0, 0
        self.steps: list[Step] = []
        self.before = 0.0  # seconds of a processor that reused shards took when computed
        self.cpu = 0.0  # the same of all shards
        self.disk = 0  # bytes of all shards
        self.memory = 0.0  # gigabytes, the most that all processes had together
        self._read = 0

    @property
    def shards(self) -> int:
        """Return how many shards all experiments had until now."""
        return sum(step.shards for step in self.steps)

    @property
    def reused(self) -> int:
        """Return how many of them had been computed before."""
        return sum(step.reused for step in self.steps)

    def look(self) -> None:
        """Take in what the kernel has written since the last look; a half line waits."""
        with contextlib.suppress(FileNotFoundError), self.file.open(encoding="utf-8") as file:
            file.seek(self._read)
            *lines, rest = file.read().split("\n")
            self._read = file.tell() - len(rest.encode())
            for line in lines:
                self._take(json.loads(line))

    def _take(self, facts: dict) -> None:
        if "experiment" in facts:
            counts = facts["shards"], facts["reused"], time.monotonic()
            self.steps.append(Step(facts["experiment"] or "shards", *counts))
            self.before += facts["cpu"]
        elif self.steps:
            self.steps[-1].finished += 1
        self.cpu, self.disk = self.cpu + facts["cpu"], self.disk + facts["disk"]

    def said(self) -> str:
        """Return how far the notebook is, in one line."""
        now = time.monotonic()
        parts = [f"{self.name} {clock(now - self.start)}", f"cell {self.cell} of {self.cells}"]
        last = self.steps[-1:]
        parts += [step.said(now) for step in last if step.reused + step.finished < step.shards]
        return ", ".join(parts)


class Watched(NBClientEngine):
    """papermill's engine, which tells a `watch` its cell, and saves the notebook once, at the end.

    To save it twice a cell, as papermill does, takes a second or two.
    """

    @classmethod
    def execute_managed_notebook(cls, nb_man, kernel_name, *, watch, **options):
        """Execute a notebook that papermill saves afterwards, however that comes."""
        place, start = nb_man.output_path, nb_man.cell_start
        watch.cells = len(nb_man.nb.cells)

        def cell_start(cell, cell_index=None, **more):
            watch.cell = cell_index + 1
            start(cell, cell_index, **more)

        nb_man.cell_start = cell_start
        nb_man.output_path = None
        try:
            super().execute_managed_notebook(nb_man, kernel_name, **options)
        finally:
            nb_man.output_path = place


papermill_engines.register("watched", Watched)


class Unhurried(AsyncKernelManager):
    """Ends a kernel without an interrupt before: the last cell is over.

    Jupyter's own sends one, and a kernel that has just answered prints that it caught it.
    """

    async def _async_interrupt_kernel(self) -> None:
        if not self.shutting_down:
            await super()._async_interrupt_kernel()


@contextlib.contextmanager
def watching(name: str, folder: Path, stream: TextIO | None = None) -> Iterator[Watch]:
    """Show how far a notebook is while it is executed; at the end, know what was reused."""
    stream = stream or sys.stdout
    file = folder / f".{name}.{os.getpid()}.progress"
    file.unlink(missing_ok=True)
    watch, over = Watch(name, file), threading.Event()
    shower = threading.Thread(target=_show, args=(watch, over, stream), daemon=True)
    with files.variables({VARIABLE: str(file)}):
        shower.start()
        try:
            yield watch
        finally:
            over.set()
            shower.join()
            watch.look()
            file.unlink(missing_ok=True)


def _show(watch: Watch, over: threading.Event, stream: TextIO) -> None:
    """Print how far a notebook is, again and again, until it is over."""
    live, last = stream.isatty(), time.monotonic()
    while not over.wait(LIVE_SECONDS):
        watch.look()
        watch.memory = max(watch.memory, memory())
        if live:
            width = shutil.get_terminal_size().columns - 1
            print(f"\r{watch.said()[:width].ljust(width)}", end="", file=stream, flush=True)
        elif time.monotonic() - last >= LINE_SECONDS:
            last = time.monotonic()
            print(watch.said(), file=stream, flush=True)
    if live:
        blank = " " * (shutil.get_terminal_size().columns - 1)
        print(f"\r{blank}", end="\r", file=stream, flush=True)


def memory() -> float:
    """Return the gigabytes that this process and those it started have now."""
    total = 0
    this = psutil.Process()
    for process in (this, *this.children(recursive=True)):
        with contextlib.suppress(psutil.Error):  # it has just ended
            total += process.memory_info().rss
    return total / GIGABYTE


def clock(seconds: float) -> str:
    """Return a time as minutes and seconds, or hours and minutes: 1:05, 2 h 03."""
    whole = max(0, round(seconds))
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d}"
    return f"{whole // 3600} h {whole % 3600 // 60:02d}"
