"""How a file reaches the disk: whole or not at all; what a machine has room for, and is told."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

STALE_SECONDS = 3600.0  # an unfinished file older than this belongs to a writer that died


def write(path: Path, fill: Callable[[BinaryIO], object]) -> None:
    """Let `fill` write a file that appears under its name whole or not at all.

    The bytes go to a hidden file beside it, are flushed to the disk, and only then renamed; a
    rename within a folder is atomic. A writer that is killed leaves a hidden `.part` file, which
    nobody reads and a later writer clears away.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _clear_stale(path)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            fill(file)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def put(path: Path, content: str | bytes) -> None:
    """Write a text (UTF-8) or bytes to a file, whole or not at all."""
    write(path, lambda file: file.write(content.encode() if isinstance(content, str) else content))


class OneSentence(Exception):
    """An error whose text is all that its reader needs: a notebook shows it in one line."""

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows in place of a traceback."""
        return [f"{type(self).__name__}: {self}"]


def why_not_writable(folder: Path) -> str:
    """Return why no file can be written into a folder, there yet or not; nothing when it can."""
    there = folder.expanduser().absolute()
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir():
        return f"{there} is not a folder"
    try:
        with tempfile.NamedTemporaryFile(prefix=".", suffix=".part", dir=there):
            return ""
    except OSError as error:
        return f"{there}: {error.strerror or error}"


@contextlib.contextmanager
def variables(changed: Mapping[str, str | None]) -> Iterator[None]:
    """Set environment variables for a while, or remove those that have no value."""
    before = {name: os.environ.get(name) for name in changed}
    _set(changed)
    try:
        yield
    finally:
        _set(before)


def _set(changed: Mapping[str, str | None]) -> None:
    for name, value in changed.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def memory() -> int:
    """Return the bytes of memory of this machine."""
    import psutil

    return psutil.virtual_memory().total


def _clear_stale(path: Path) -> None:
    for part in path.parent.glob(f".{path.name}.*.part"):
        with contextlib.suppress(OSError):
            if time.time() - part.stat().st_mtime > STALE_SECONDS:
                part.unlink()
