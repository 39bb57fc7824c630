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
MADE_BY_RUNS = (":!figures", ":!README.md")  # which does not make the tree a changed one


def made_here(root: Path) -> dict:
    """Return what is worth knowing about where and when a run has just ended."""
    commit, changed = source(root)
    return {
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
    files.put(folder / NAME, json.dumps(entries, indent=1, sort_keys=True) + "\n")


def source(root: Path) -> tuple[str, bool]:
    """Return the commit that is checked out (empty: none), and whether files differ from it."""
    top = _git(root, "rev-parse", "--show-toplevel")
    if top is None or Path(top).resolve() != root.resolve():
        return "", False
    changed = _git(root, "status", "--porcelain", "--", ".", *MADE_BY_RUNS)
    return _git(root, "rev-parse", "HEAD") or "", bool(changed)


def packages(root: Path) -> dict[str, str]:
    """Return the installed versions of what the project uses, as requirements.in lists it."""
    path = root / "requirements.in"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    names = re.findall(r"(?m)^([A-Za-z0-9_.-]+)(?:\[.*\])?==", text)
    return {name: _version(name) for name in names}


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _git(root: Path, *arguments: str) -> str | None:
    """Return what git says, or None when it is not there or refuses."""
    quiet = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    how: dict = {"cwd": root, "capture_output": True, "text": True, "timeout": 30, "env": quiet}
    try:
        said = subprocess.run(["git", *arguments], **how)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return said.stdout.strip() if said.returncode == 0 else None
