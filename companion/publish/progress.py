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
from pathlib import Path

import psutil
from jupyter_client import AsyncKernelManager
from papermill.engines import NBClientEngine, papermill_engines

from companion import files
from companion.runs.watch import VARIABLE

LIVE_SECONDS, LINE_SECONDS = 1.0, 30.0  # between two lines, in a terminal and elsewhere


class Watch:
    """What is known of a notebook that is being executed."""

    def __init__(self, name: str, file: Path):
        self.name, self.file = name, file
        self.start = time.monotonic()
        self.cell, self.cells = 0, 0
        self.facts: list[dict] = []  # what the kernel has written, and when each was seen
        self.memory = 0.0  # gigabytes, the most that all processes had together

    def total(self, name: str) -> float:
        """Return the sum of what was said of one thing, such as shards or seconds of a `cpu`."""
        return sum(fact.get(name, 0) for fact in self.facts)

    def look(self) -> None:
        """Take in what the kernel has written since the last look; a half line waits."""
        with contextlib.suppress(FileNotFoundError):
            *lines, _ = self.file.read_text(encoding="utf-8").split("\n")
            seen = {"seen": time.monotonic()}
            self.facts += [seen | json.loads(line) for line in lines[len(self.facts) :]]

    def said(self) -> str:
        """Return how far the notebook and its last experiment are, in one line.

        The time left is said once that can be told.
        """
        now = time.monotonic()
        words = f"{self.name} {clock(now - self.start)}, cell {self.cell} of {self.cells}"
        begun = [place for place, fact in enumerate(self.facts) if "experiment" in fact]
        if not begun:
            return words
        last, finished = self.facts[begun[-1]], len(self.facts) - begun[-1] - 1
        missing = last["shards"] - last["reused"] - finished
        if missing:
            done = f"{last['shards'] - missing} of {last['shards']} shards"
            words += f", {last['experiment'] or 'shards'}: {done}"
        if missing and finished:
            words += f", {clock((now - last['seen']) / finished * missing)} left"
        return words


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
def watching(name: str, folder: Path) -> Iterator[Watch]:
    """Show how far a notebook is while it is executed; at the end, know what was reused."""
    file = folder / f".{name}.{os.getpid()}.progress"
    file.unlink(missing_ok=True)
    watch, over = Watch(name, file), threading.Event()
    shower = threading.Thread(target=_show, args=(watch, over), daemon=True)
    with files.variables({VARIABLE: str(file)}):
        shower.start()
        try:
            yield watch
        finally:
            over.set()
            shower.join()
            watch.look()
            file.unlink(missing_ok=True)


def _show(watch: Watch, over: threading.Event) -> None:
    """Print how far a notebook is, again and again, until it is over."""
    live, last = sys.stdout.isatty(), time.monotonic()
    while not over.wait(LIVE_SECONDS):
        watch.look()
        watch.memory = max(watch.memory, memory())
        if live:
            _put(watch.said())
        elif time.monotonic() - last >= LINE_SECONDS:
            last = time.monotonic()
            print(watch.said(), flush=True)
    if live:
        _put("")


def _put(words: str) -> None:
    """Write over the terminal's last line, and stay at its beginning."""
    width = shutil.get_terminal_size().columns - 1
    print(f"\r{words[:width]:{width}}", end="\r", flush=True)


def memory() -> float:
    """Return the gigabytes that this process and those it started have now."""
    total = 0
    this = psutil.Process()
    for process in (this, *this.children(recursive=True)):
        with contextlib.suppress(psutil.Error):  # it has just ended
            total += process.memory_info().rss
    return total / 1e9


def clock(seconds: float) -> str:
    """Return a time as minutes and seconds, or hours and minutes: 1:05, 2 h 03."""
    whole = max(0, round(seconds))
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d}"
    return f"{whole // 3600} h {whole % 3600 // 60:02d}"
