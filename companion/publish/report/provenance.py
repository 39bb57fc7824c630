"""Who made these figures: the record of each notebook's last run, kept in runs.json beside them."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from companion import files
from companion.runs.execute import cores

NAME = "runs.json"
MADE_BY_RUNS = (
    ":!figures",
    ":!README.md",
)  # what a run itself writes does not make the tree a changed one


def record(
    root: Path,
    *,
    profile: str,
    seed: int | str | None,
    seconds: float,
    cold: float,
    memory: float,
    shards: int,
    reused: int,
) -> dict:
    """Return what is worth knowing about a run that has just ended."""
    commit, changed = source(root)
    return {
        "profile": profile,
        "seed": seed,
        "seconds": round(seconds, 1),
        "cold": round(cold, 1),
        "memory": round(memory, 1),
        "shards": shards,
        "reused": reused,
        "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="minutes"),
        "commit": commit,
        "changed": changed,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": cores(),
        "packages": packages(root),
    }


def load(folder: Path) -> dict[str, dict]:
    """Return the records of a folder by notebook; none when there are none, or damaged ones."""
    try:
        found = json.loads((folder / NAME).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def keep(folder: Path, notebook: str, entry: Mapping) -> None:
    """Put the record of one notebook into runs.json, beside those of the others."""
    entries = {**load(folder), notebook: dict(entry)}
    text = json.dumps(entries, indent=1, sort_keys=True) + "\n"
    files.write(folder / NAME, lambda file: file.write(text.encode()))


def source(root: Path) -> tuple[str, bool]:
    """Return the commit that is checked out (empty: none), and whether files differ from it."""
    top = _git(root, "rev-parse", "--show-toplevel")
    if top is None or Path(top).resolve() != root.resolve():
        return "", False
    return _git(root, "rev-parse", "HEAD") or "", bool(
        _git(root, "status", "--porcelain", "--", ".", *MADE_BY_RUNS)
    )


def packages(root: Path) -> dict[str, str]:
    """Return the installed versions of what the project uses, as requirements.in lists it."""
    path = root / "requirements.in"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return {
        name: _version(name) for name in re.findall(r"(?m)^([A-Za-z0-9_.-]+)(?:\[.*\])?==", text)
    }


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _git(root: Path, *arguments: str) -> str | None:
    """Return what git says, or None when it is not there or refuses."""
    quiet = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        said = subprocess.run(
            ["git", *arguments], cwd=root, capture_output=True, text=True, timeout=30, env=quiet
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return said.stdout.strip() if said.returncode == 0 else None
