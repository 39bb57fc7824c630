"""Compiled loops are compiled by one process at a time: the others wait, and load what it kept.

Workers that begin together would each compile all loops, which takes some seconds of a processor.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from filelock import FileLock
from numba.core import event


class Turn(event.Listener):
    """Holds the lock of a file while numba looks for a loop in its cache, or compiles it."""

    def __init__(self, path: Path):
        self.lock = FileLock(path)

    def on_start(self, event: event.Event) -> None:
        self.lock.acquire()

    def on_end(self, event: event.Event) -> None:
        self.lock.release()


@cache
def in_turn() -> None:
    """Let this process take turns with others that share numba's cache, from now on."""
    if folder := os.environ.get("NUMBA_CACHE_DIR"):
        event.register("numba:compiler_lock", Turn(Path(folder) / "compiling.lock"))
