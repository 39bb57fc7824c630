"""What lies around a run, looked at before its first cell: folders, and environment variables."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from urllib.parse import urlsplit

from companion import files
from companion.publish import CommandError
from companion.runs.store import default_folder

SCHEDULER_SECONDS = 5  # to answer a knock


def check(output: Path, notebooks: Path) -> None:
    """Refuse what would stop a notebook on its way: folders, and environment variables."""
    folders = (("OUTPUT", output), ("LDP_CACHE", default_folder()), ("LDP_CACHE", notebooks))
    for name, folder in folders:
        if reason := files.why_not_writable(folder):
            rule = f"must be a folder that can be written to: {reason}"
            raise CommandError(f"{name} = {str(folder)!r} {rule}")
    workers = os.environ.get("WORKERS") or "1"
    if not (workers.isascii() and workers.isdigit() and int(workers) >= 1):
        raise CommandError(f"WORKERS = {workers!r} must be a whole number, at least 1")
    if "SCHEDULER" in os.environ:
        _check_scheduler(os.environ["SCHEDULER"])
    data = os.environ.get("LDP_DATA")
    if data and not Path(data).expanduser().is_dir():
        raise CommandError(f"LDP_DATA = {data!r} must name a folder")
    if data == "":
        said = "LDP_DATA is set and empty: data come from the cache, or are stand-ins"
        print(said, file=sys.stderr, flush=True)


def _check_scheduler(address: str) -> None:
    """Refuse a Dask scheduler that nobody listens at."""
    try:
        host, port = urlsplit(address).hostname or "", urlsplit(address).port or 0
        socket.create_connection((host, port), timeout=SCHEDULER_SECONDS).close()
    except (OSError, ValueError) as error:
        rule = "must be unset, or the address of a Dask scheduler that answers: tcp://host:8786"
        nowhere = "no address" if isinstance(error, ValueError) else "no answer"
        reason = getattr(error, "strerror", None) or nowhere
        raise CommandError(f"SCHEDULER = {address!r} {rule} ({reason})") from None
