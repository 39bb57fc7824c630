"""`make test-matrix`: the tests and `verify` as other machines would run them, in one table.

Rows are processors that this one can play (`processors`), one core, a busy machine, and other
Pythons. All but the last run the tests marked `sensitive` (where rounding, threads, time or
processes matter) and `verify`; another Python runs the whole suite in a copy of the project with
its own .venv, made by the project's own set-up. Logs and copies are in data/cache/matrix.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from companion.publish import CommandError, columns, environment, processors
from companion.runs.execute import cores

ROOT = Path(environment.ROOT)
CACHE = ROOT / "data" / "cache"
FOLDER = CACHE / "matrix"
ONE_CORE, BUSY = "one-core", "busy"
LOOPS = 2  # beside which a busy machine tests
PYTHONS = ("python3.11", "python3.12", "python3.13")
ROWS = (*processors.VARIABLES, ONE_CORE, BUSY, *PYTHONS)
PARTS = ("tests", "verify")
LEFT_OUT = (".git", ".venv", "*cache", "__pycache__", ".hypothesis", ".ipynb_checkpoints")
TITLES = ("machine", "part", "exit", "seconds", "result")
Outcome = tuple[str, str, str, str, str]  # of one part of one row, in words


def run(rows: Iterable[str] = (), parts: Iterable[str] = ()) -> int:
    """Run the chosen rows (none: all), print a table, and return 0 when nothing failed."""
    chosen, wanted = _chosen("ROWS", rows, ROWS), _chosen("PARTS", parts, PARTS)
    outcomes: list[Outcome] = []
    for row in chosen:
        for outcome in _row(row, wanted):
            print(*outcome, flush=True)
            outcomes.append(outcome)
    print("", *columns([TITLES, *outcomes]), f"logs: {os.path.relpath(FOLDER, ROOT)}", sep="\n")
    return int(any(code not in ("0", "-") for _, _, code, *_ in outcomes))


def _chosen(name: str, words: Iterable[str], known: Iterable[str]) -> list[str]:
    words = list(words)
    for word in words:
        if word not in known:
            raise CommandError(f"{name} = {word!r} must be among {', '.join(known)}")
    return words or list(known)


def _row(row: str, parts: Iterable[str]) -> Iterator[Outcome]:
    """Yield what comes of each part of a row."""
    if reason := _impossible(row):
        yield row, "-", "-", "-", f"not run: {reason}"
    elif row in PYTHONS:
        yield _whole_suite(row, str(find_python(row)))
    else:
        variables = processors.variables(row, CACHE) if processors.VARIABLES.get(row) else {}
        prefix = ["taskset", "-c", str(min(os.sched_getaffinity(0)))] if row == ONE_CORE else []
        with _loops(LOOPS if row == BUSY else 0):
            for part in parts:
                yield _execute(row, part, [*prefix, *_command(part)], variables)


def _impossible(row: str) -> str:
    """Return why a row cannot be run on this machine, or nothing."""
    if row in PYTHONS:
        return "" if find_python(row) else f"no {row} is installed"
    if row == ONE_CORE:
        return "" if shutil.which("taskset") else "there is no taskset"
    return "" if row == BUSY else processors.missing(row, processors.flags())


def _command(part: str) -> list[str]:
    """Return the command of a part; the tests use all cores that they may."""
    rest = f"pytest -m sensitive -n {cores()} --dist loadfile"
    return [sys.executable, "-m", *("companion verify" if part == "verify" else rest).split()]


@contextlib.contextmanager
def _loops(count: int) -> Iterator[None]:
    """Keep `count` cores busy for a while."""
    command = [sys.executable, "-c", "while True: pass"]
    loops = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def _whole_suite(row: str, python: str) -> Outcome:
    """Return what comes of the whole suite on another Python, in a copy with its own .venv."""
    copy = FOLDER / row
    _copy(copy)
    set_up = [str(python), str(copy / "companion" / "publish" / "environment.py")]
    made = _execute(row, "set-up", set_up, {}, copy)
    if made[2] != "0":
        return made
    test = [environment.venv_python(str(copy)), "-m", "companion", "test"]
    return _execute(row, "all tests", test, {}, copy)


def _copy(folder: Path) -> None:
    """Make a folder a copy of the project as it is now; its own .venv and cache stay."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.name not in (".venv", "data"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copytree(ROOT, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*LEFT_OUT))


@functools.cache
def find_python(name: str) -> str | None:
    """Return the path of a Python of this name that works: one on the PATH may lead nowhere."""
    version = name.removeprefix("python")
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        return getattr(sys, "_base_executable", sys.executable)
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    own = sorted(map(str, pyenv.glob(f"{version}*/bin/{name}")), reverse=True)
    places = filter(None, [shutil.which(name), *own])
    return next((place for place in places if _is_version(place, version)), None)


def _is_version(python: str, version: str) -> bool:
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        said = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=60)
        return said.stdout.strip() == version
    return False


def _execute(
    row: str, part: str, command: list[str], variables: Mapping[str, str], folder: Path = ROOT
) -> Outcome:
    """Return what comes of a command; all that it prints goes to a log."""
    log = FOLDER / f"{row}-{part.replace(' ', '-')}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    inner = {**_outer(folder), **variables}
    with log.open("w", encoding="utf-8") as file:
        # Ctrl-C reaches the command, too, as it is in the same terminal
        code = subprocess.call(command, cwd=folder, env=inner, stdout=file, stderr=file)
    words = summary(log.read_text(encoding="utf-8", errors="replace"))
    return row, part, str(code), f"{time.monotonic() - start:.0f}", words


def _outer(folder: Path) -> dict[str, str]:
    """Return this process's environment; a copy must not write to this project's cache."""
    if folder == ROOT:
        return dict(os.environ)
    inside = {*environment.library_folders(), "VIRTUAL_ENV", "PYTHONPATH", "PYTHONPYCACHEPREFIX"}
    return {name: value for name, value in os.environ.items() if name not in inside}


def summary(log: str) -> str:
    """Return the last line that counts, of pytest or of verify."""
    kinds = "passed|failed|error|skipped|deselected"
    counted = re.findall(rf"(?m)^(?:=+ )?(\d+ (?:{kinds}).*?)(?: in [\d.]+s.*)?$", log)
    said = re.findall(r"(?m)^(?:verify|Set-up): (.*)$", log)
    last = log.strip().splitlines()[-1:] or ["it printed nothing"]
    return (counted or said or last)[-1]
