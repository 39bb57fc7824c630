"""Finished shards on disk: content-addressed, written atomically, verified before they are
believed.

A result file is one line, the SHA-256 of the rest, followed by an `.npz` archive with the arrays
and the provenance (JSON). A file that does not have its own digest is damaged: it is said so in one
line, removed, and computed again.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from companion import files

log = logging.getLogger("companion.runs")
PROVENANCE = "_provenance"
Result = dict[str, np.ndarray]


class StoreError(OSError):
    """A result cannot be kept; the message is one sentence."""


def default_folder() -> Path:
    """Return where results are kept: `results` under LDP_CACHE, or under data/cache of the
    project."""
    cache = os.environ.get("LDP_CACHE") or Path(__file__).resolve().parents[2] / "data" / "cache"
    return Path(cache).expanduser() / "results"


def address(function: str, arguments: Mapping, fingerprint: str) -> str:
    """Return the name of a shard's result: a hash of what computes it, from what, with which
    code."""
    text = json.dumps([function, arguments, fingerprint], sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def content(value):
    """Return what names an array, or a mapping of such: the SHA-256 of its type, shape and numbers.

    None stays None.
    """
    if value is None:
        return None
    if isinstance(value, Mapping):
        return {name: content(part) for name, part in value.items()}
    array = np.ascontiguousarray(value)
    head = f"{array.dtype.str} {np.shape(value)}\n".encode()
    return hashlib.sha256(head + array.tobytes()).hexdigest()


class ResultStore:
    """A folder of results by address."""

    def __init__(self, folder: Path | None = None):
        self.folder = Path(folder) if folder is not None else default_folder()

    def path(self, address: str) -> Path:
        """Return where a result lies or would lie."""
        return self.folder / address[:2] / f"{address}.result"

    def read(self, address: str) -> Result | None:
        """Return a finished result, or None when there is none that can be believed."""
        path = self.path(address)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        digest, _, payload = content.partition(b"\n")
        if digest.decode("ascii", "replace") != hashlib.sha256(payload).hexdigest():
            log.warning("result %s is damaged: it is computed again", path.name[:12])
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        with np.load(io.BytesIO(payload), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files if name != PROVENANCE}

    def provenance(self, address: str) -> dict:
        """Return what is recorded about how a result was made."""
        payload = self.path(address).read_bytes().partition(b"\n")[2]
        with np.load(io.BytesIO(payload), allow_pickle=False) as arrays:
            return json.loads(arrays[PROVENANCE].tobytes().decode())

    def size(self, address: str) -> int:
        """Return how many bytes a finished result takes."""
        return self.path(address).stat().st_size

    def write(self, address: str, result: Result, provenance: Mapping) -> None:
        """Keep a result; what is on disk under its name is either all of it or nothing."""
        buffer = io.BytesIO()
        record = np.frombuffer(
            json.dumps(dict(provenance), sort_keys=True).encode(), dtype=np.uint8
        )
        np.savez(buffer, **result, **{PROVENANCE: record})  # type: ignore[arg-type]
        payload = buffer.getvalue()
        digest = hashlib.sha256(payload).hexdigest().encode()
        try:
            files.write(self.path(address), lambda file: file.write(digest + b"\n" + payload))
        except OSError as error:
            raise StoreError(
                f"a finished shard cannot be kept in {self.folder}: {error.strerror or error}"
            ) from error
