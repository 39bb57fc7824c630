"""Where data comes from, what it is called, and what happens when a file of it is damaged.

Every data set is looked for in the same order: the folder named by LDP_DATA, the cache under
`data/cache`, the official download (only when asked for), the stand-in that ships with the code.
Whatever is found says so in one line and carries a `Provenance`, so that no figure can forget which
data made it.

A damaged file in LDP_DATA is an error, because the reader meant that file. A damaged file in the
cache is reported in one line, never believed, and made again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import hashlib
import logging
import os
import re
import sys
import zlib
from pathlib import Path

from companion import files

SHIPPED = Path(__file__).resolve().parents[2] / "data"
KINDS = ("real", "embedded", "synthetic")

log = logging.getLogger("companion.data")
log.setLevel(logging.INFO)


class DataError(files.OneSentence, ValueError):
    """A data file that cannot be used; the message is one line that names it and the problem."""

    def __init__(self, path: str | os.PathLike, problem: str):
        super().__init__(str(path), problem)
        self.path = Path(path)

    def __str__(self) -> str:
        return " ".join(f"{self.args[0]}: {self.args[1]}".split())


@dataclasses.dataclass(frozen=True)
class Provenance:
    """Which data made a result: plain strings only, so that it goes into JSON as it is.

    `kind` is "real" (the data set, or a named part of it), "embedded" (real data, but only the part
    that ships with the code) or "synthetic" (made up). `sha256` is taken over the content, not over
    the file that held it: the same data has the same hash whether it was compressed, cached or
    downloaded. Trials that are computed from recordings have the hash of these and of the recipe:
    the last bits of a filter are the machine's. `part` says what is missing or unusual, or nothing.
    """

    name: str
    kind: str
    source: str
    version: str
    sha256: str
    licence: str
    part: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind = {self.kind!r} must be one of {', '.join(KINDS)}")
        if not re.fullmatch("[0-9a-f]{64}", self.sha256):
            raise ValueError(f"sha256 = {self.sha256!r} must be 64 hexadecimal digits")

    def require(self, sha256: str) -> None:
        """Raise unless these are the data that were meant: a shard's result depends on them."""
        if self.sha256 != sha256:
            meant = f"those meant {sha256[:12]}"
            raise ValueError(f"{self.name}: the data here have SHA-256 {self.sha256[:12]}, {meant}")

    def line(self) -> str:
        """Return the one line that a load says out loud."""
        part = f" ({self.part})" if self.part else ""
        content = f"sha256 {self.sha256[:12]}"
        return f"data: {self.name}{part}: {self.kind}, from {self.source}; {content}"

    def caption(self) -> str:
        """Return what a figure's caption must say about its data: stand-ins are called that."""
        part = f", {self.part}" if self.part else ""
        if self.kind == "real":
            return f"Data: {self.name}{part}."
        return f"Stand-in data ({self.kind}): {self.name}{part}."


def announce(provenance: Provenance) -> None:
    """Say in one line where data came from: to the log when that is set up, else on standard error.

    A notebook paints that red, as if something were wrong; there it goes to standard output.
    """
    if log.hasHandlers():
        log.info("%s", provenance.line())
        return
    in_notebook = type(sys.stderr).__module__.startswith("ipykernel")
    print(provenance.line(), file=sys.stdout if in_notebook else sys.stderr)


def named_folder(folder: str | os.PathLike | None = None) -> Path | None:
    """Return the folder that the reader named, as an argument or in LDP_DATA, or None."""
    named = folder if folder is not None else os.environ.get("LDP_DATA") or None
    if named is None:
        return None
    path = Path(named).expanduser()
    if not (exists(path) and path.is_dir()):
        raise DataError(path, "LDP_DATA must name a folder, and this is none")
    return path


def cache_folder() -> Path:
    """Return the folder for all that can be made or fetched again: LDP_CACHE, or `data/cache`."""
    return Path(os.environ.get("LDP_CACHE") or SHIPPED / "cache").expanduser()


def exists(path: Path) -> bool:
    """Return whether there is something under this name, or say why that cannot be known."""
    try:
        return path.exists()
    except OSError as error:
        raise DataError(path, f"cannot be read ({reason(error)})") from None


def listing(folder: Path, suffix: str) -> list[Path]:
    """Return what is in a folder and ends so, by name, or say why that cannot be known."""
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == suffix)
    except OSError as error:
        raise DataError(folder, f"cannot be read ({reason(error)})") from None


def read(path: Path) -> bytes:
    """Return a file's bytes, unpacked if it is a .gz, or say why they cannot be had."""
    try:
        content = path.read_bytes()
        content = gzip.decompress(content) if content and path.suffix == ".gz" else content
    except IsADirectoryError:
        raise DataError(path, "is a folder, it must be a file") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(path, f"is not a whole gzip file ({reason(error)})") from None
    except OSError as error:
        raise DataError(path, f"cannot be read ({reason(error)})") from None
    if not content:
        raise DataError(path, "is empty")
    return content


def reason(error: BaseException) -> str:
    """Return an error's text as one line."""
    told = error.strerror if isinstance(error, OSError) else None
    return " ".join((told or str(error) or type(error).__name__).split())


def sha256(content) -> str:
    """Return the SHA-256 of bytes, or of what shows its bytes, such as an array, as hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def check_digest(path: Path, content: bytes, expected: str) -> None:
    """Raise unless the content has the published digest."""
    if (found := sha256(content)) != expected:
        raise DataError(path, f"its sha256 is {found}, the published one is {expected}")


def forget(error: DataError) -> None:
    """Say in one line that a cache file is damaged, and remove it: only ever below the cache."""
    log.warning("%s; this cache file is not used", error)
    if error.path.is_relative_to(cache_folder()):
        with contextlib.suppress(OSError):
            error.path.unlink()
