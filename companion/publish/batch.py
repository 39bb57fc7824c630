"""`make figures`: papermill executes the notebooks at a profile, one after the other, and says what came of each.

A misspelt parameter is refused before anything runs. A notebook is executed beside its place and moved there when it is whole;
one that fails is kept apart, names its cell, and does not stop the others.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import papermill
import psutil
import yaml
from papermill.exceptions import PapermillExecutionError
from traitlets.config import Config

from companion import files
from companion.params import nearest
from companion.publish import environment, executed, progress
from companion.publish.report import provenance
from companion.runs import execute
from companion.runs.store import default_folder

ROOT = Path(environment.ROOT)
NOTEBOOKS, PROFILES, CACHE = (
    ROOT / "notebooks",
    ROOT / "notebooks" / "profiles",
    ROOT / "data" / "cache",
)
COMMITTED = ("paper", "evening")  # the sizes of the results in figures/, which are committed
SMALLEST = "smoke"  # this profile is to be over soon, the others may take their time:
CELL_SECONDS = 300  # a cell of it that takes longer hangs,
SCHEDULER_SECONDS = 5  # to answer a knock
THREADS = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
ALONE = {"WORKERS": "1", **dict.fromkeys(THREADS, "1")}  # and it has too little work to share out
ENCRYPTED = Config(
    {"KernelManager": {"transport_encryption": "auto"}}
)  # between papermill and the kernel


class BatchError(ValueError):
    """A command that cannot be carried out; the message is one sentence."""


@dataclass
class Outcome:
    """What came of one notebook."""

    notebook: str
    seconds: float = 0.0
    cold: float = 0.0  # what it would have taken with nothing computed before
    figures: list[str] = field(default_factory=list)
    data: list[str] = field(default_factory=list)
    shards: int = 0
    reused: int = 0
    failure: str = ""


def notebooks(number: str | None = None) -> list[Path]:
    """Return the notebooks in order, or the one whose name starts with `number`."""
    found = sorted(NOTEBOOKS.glob("[0-9]*.ipynb"))
    if number is None:
        return found
    beginning = number.zfill(2) if number.isascii() and number.isdigit() else number  # 1 means 01
    chosen = [path for path in found if path.name.startswith(beginning)]
    if len(chosen) != 1:
        raise BatchError(
            f"NB = {number!r} must be the beginning of one notebook's name: {', '.join(p.stem for p in found)}"
        )
    return chosen


def profile(name: str) -> dict[str, dict]:
    """Return the parameters of every notebook at a profile: {notebook: {parameter: value}}.

    A profile may say `extends: another`: it then changes some of the other's parameters and keeps the rest.
    """
    content = _read_profile(name)
    if "extends" not in content:
        return content
    base = content.pop("extends")
    if base not in _profiles():
        raise BatchError(
            f"profile {name} extends {base!r}, which must be one of {', '.join(_profiles())}"
        )
    below = _read_profile(base)
    if "extends" in below:
        raise BatchError(
            f"profile {name} extends {base}, which extends another itself: one step is all there is"
        )
    return {
        notebook: below.get(notebook, {}) | content.get(notebook, {})
        for notebook in below | content
    }


def _profiles() -> list[str]:
    return sorted(path.stem for path in PROFILES.glob("*.yaml"))


def _read_profile(name: str) -> dict:
    path = PROFILES / f"{name}.yaml"
    if name not in _profiles():
        raise BatchError(f"PROFILE = {name!r} must be one of {', '.join(_profiles())}")
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BatchError(
            f"{path.relative_to(ROOT)} is not YAML: {' '.join(str(error).split())}"
        ) from None
    if not content or not isinstance(content, dict):
        raise BatchError(
            f"{path.relative_to(ROOT)} must hold notebooks and their parameters, and holds {content!r}"
        )
    for notebook, parameters in content.items():
        if notebook == "extends":
            continue
        if not (NOTEBOOKS / f"{notebook}.ipynb").exists():
            raise BatchError(f"profile {name}: {notebook} is not a notebook")
        if parameters is not None and not isinstance(parameters, dict):
            raise BatchError(f"profile {name}: {notebook} must hold parameters, name: value")
    return {name: value or {} if name != "extends" else value for name, value in content.items()}


def parameters(path: Path, profile_name: str, seed: str | int | None, output: Path) -> dict:
    """Return what papermill injects into one notebook, or refuse a name that its parameters cell does not have."""
    chosen = dict(profile(profile_name).get(path.stem, {}))
    known = papermill.inspect_notebook(str(path))
    for name in chosen:
        if name not in known:
            near = nearest(str(name), known) or f"; it has {', '.join(known)}"
            raise BatchError(f"profile {profile_name}: {path.stem} has no parameter {name}{near}")
    if seed is not None:
        chosen["seed"] = _seed(seed)
    inside = output.resolve().is_relative_to(ROOT)
    return {
        **chosen,
        "profile": profile_name,
        "output": str(output.resolve().relative_to(ROOT) if inside else output.resolve()),
    }


def place(profile_name: str, output: Path | None = None) -> Path:
    """Return the folder for a profile's figures: figures/<profile>, unless another is asked for.

    figures/ itself holds the committed results: only the profiles of their size may renew them.
    """
    if output is None:
        return ROOT / "figures" / profile_name
    committed = output.resolve() == (ROOT / "figures").resolve()
    if committed and profile_name not in COMMITTED:
        own = f"without OUT, profile {profile_name} writes to figures/{profile_name}"
        sizes = " or ".join(COMMITTED)
        raise BatchError(f"OUT = {str(output)!r} holds the results of profile {sizes}; {own}")
    return output


def run(
    profile_name: str = "default",
    number: str | None = None,
    seed: str | int | None = None,
    output: Path | None = None,
) -> int:
    """Execute the notebooks, print a table of what came of each, and return 0 when all went well."""
    output = place(profile_name, output)
    chosen = [(path, parameters(path, profile_name, seed, output)) for path in notebooks(number)]
    check_surroundings(output)
    print(_beginning(profile_name, chosen, output), flush=True)
    with _silent_end():
        outcomes = [_execute(path, values, output) for path, values in chosen]
    print(_table(outcomes))
    return 1 if any(outcome.failure for outcome in outcomes) else 0


def _beginning(profile_name: str, chosen: list, output: Path) -> str:
    """Return what is going to happen: which notebooks, where to, and what is there from before."""
    kept = sum(1 for _ in default_folder().glob("*/*.result"))
    before = f"{kept} finished shards, of which those that fit are taken" if kept else "nothing"
    names = ", ".join(path.stem for path, _ in chosen)
    where = f"profile {profile_name}: {names} -> {os.path.relpath(output)}"
    return f"{where}\nfrom before: {before} ({os.path.relpath(default_folder())})"


def check_surroundings(output: Path) -> None:
    """Refuse folders and environment variables that would stop a notebook on its way, before the first cell."""
    for name, folder in (
        ("OUTPUT", output),
        ("LDP_CACHE", default_folder()),
        ("LDP_CACHE", CACHE / "notebooks"),
    ):
        if reason := files.why_not_writable(folder):
            raise BatchError(
                f"{name} = {str(folder)!r} must be a folder that can be written to: {reason}"
            )
    workers = os.environ.get("WORKERS") or "1"
    if not (workers.isascii() and workers.isdigit() and int(workers) >= 1):
        raise BatchError(f"WORKERS = {workers!r} must be a whole number, at least 1")
    if "SCHEDULER" in os.environ:
        _check_scheduler(os.environ["SCHEDULER"])
    data = os.environ.get("LDP_DATA")
    if data and not Path(data).expanduser().is_dir():
        raise BatchError(f"LDP_DATA = {data!r} must name a folder")
    if data == "":
        print(
            "LDP_DATA is set and empty: data come from the cache, or are stand-ins",
            file=sys.stderr,
            flush=True,
        )


def _check_scheduler(address: str) -> None:
    """Refuse a Dask scheduler that nobody listens at."""
    try:
        place = urlsplit(address)
        host, port = place.hostname, place.port
    except ValueError:
        host = port = None
    if not (host and port):
        raise BatchError(
            f"SCHEDULER = {address!r} must be unset, or the address of a Dask scheduler: tcp://127.0.0.1:8786"
        )
    try:
        socket.create_connection((host, port), timeout=SCHEDULER_SECONDS).close()
    except OSError as error:
        raise BatchError(
            f"SCHEDULER = {address!r} must answer, and does not: {error.strerror or error}"
        ) from None


def _seed(seed: str | int) -> int:
    if not str(seed).isascii() or not str(seed).isdigit() or int(seed) >= 2**63:
        raise BatchError(f"SEED = {seed!r} must be a whole number in [0, 2**63)")
    return int(seed)


def _execute(path: Path, values: dict, output: Path) -> Outcome:
    """Execute one notebook; a failure is part of the outcome, not an exception."""
    outcome, failed = Outcome(path.stem), CACHE / "notebooks" / path.name
    working = failed.with_name(
        f".{path.stem}.{os.getpid()}.ipynb"
    )  # two runs at the same time do not share it
    working.parent.mkdir(parents=True, exist_ok=True)
    before = _records(output)
    start, small = time.monotonic(), values["profile"] == SMALLEST
    try:
        with (
            _environment(ALONE if small else {}),
            progress.watching(path.stem, working.parent) as watch,
        ):
            _papermill(path, working, values, watch)
        outcome.shards, outcome.reused = watch.shards, watch.reused
        outcome.seconds = time.monotonic() - start
        outcome.cold = outcome.seconds + watch.before / _side_by_side(small)
        executed.publish(working, output / "notebooks" / path.name)
        print(f"{path.stem}: {_taken(outcome)}", flush=True)
        _keep_record(path, values, outcome, output)
    except KeyboardInterrupt:
        working.unlink(missing_ok=True)
        raise
    except PapermillExecutionError as error:
        outcome.failure = (
            f"cell {error.cell_index} (In [{error.exec_count}]): {error.ename}: {error.evalue}"
        )
    except (
        Exception
    ) as error:  # a dead kernel, a full disk: whatever it is, the other notebooks go on
        outcome.failure = f"{type(error).__name__}: {' '.join(str(error).split())}"
    outcome.seconds = time.monotonic() - start
    written = [record for name, record in _records(output).items() if before.get(name) != record]
    outcome.figures = sorted(json.loads(text)["figure"] for _, text in written)
    outcome.data = sorted(
        {
            f"{data['kind']}: {data['name']}"
            for _, text in written
            for data in json.loads(text)["data"]
        }
    )
    if outcome.failure:
        message = f"{path.stem}: FAILED in {outcome.failure}"
        with contextlib.suppress(FileNotFoundError):  # it may not have got anywhere
            working.replace(failed)
            message += f"\n  as far as it got: {os.path.relpath(failed)}"
        print(message, file=sys.stderr, flush=True)
    return outcome


def _papermill(path: Path, working: Path, values: dict, watch: progress.Watch) -> None:
    """Execute a notebook; the smallest profile saves it once and lets no cell hang."""
    small = values["profile"] == SMALLEST
    papermill.execute_notebook(
        str(path),
        str(working),
        values,
        kernel_name="python3",
        cwd=str(ROOT),
        progress_bar=False,
        engine_name="watched",
        watch=watch,
        save_once=small,
        execution_timeout=CELL_SECONDS if small else None,
        config=ENCRYPTED,
    )


def _side_by_side(small: bool) -> int:
    """Return how many shards are computed at the same time."""
    return int(os.environ.get("WORKERS") or (ALONE["WORKERS"] if small else execute.cores()))


def _taken(outcome: Outcome) -> str:
    """Return what a notebook took, and what of it had been computed before, in words."""
    if not outcome.reused:
        return f"{progress.clock(outcome.seconds)}, {outcome.shards} shards, all computed now"
    before = f"{outcome.reused} of {outcome.shards} shards were finished before"
    cold = f"from nothing it takes about {progress.clock(outcome.cold)}"
    return f"{progress.clock(outcome.seconds)}; {before}; {cold}"


@contextlib.contextmanager
def _silent_end() -> Iterator[None]:
    """End the kernel and its workers at once when Ctrl-C comes: asked politely they answer with tracebacks of their own.

    Nothing is lost by it: a shard is kept whole or not at all.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame) -> None:
        for child in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                child.kill()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for a while; what the user has set already stays."""
    added = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


def _keep_record(path: Path, values: dict, outcome: Outcome, output: Path) -> None:
    """Write down how this notebook was run, for the report."""
    seed = values.get("seed", papermill.inspect_notebook(str(path)).get("seed", {}).get("default"))
    entry = provenance.record(
        ROOT,
        profile=values["profile"],
        seed=None if seed is None else int(seed),
        seconds=outcome.seconds,
        cold=outcome.cold,
        shards=outcome.shards,
        reused=outcome.reused,
    )
    provenance.keep(output, path.stem, entry)


def _records(output: Path) -> dict[str, tuple[int, str]]:
    """Return time and text of the figures' records in a folder."""
    return {
        path.name: (path.stat().st_mtime_ns, path.read_text(encoding="utf-8"))
        for path in output.glob("fig*.json")
    }


def _table(outcomes: Iterable[Outcome]) -> str:
    """Return the closing table: notebook, seconds, figures written, data used."""
    rows = [("notebook", "from nothing", "figures written", "data used")]
    for outcome in outcomes:
        figures = "FAILED" if outcome.failure else " ".join(outcome.figures) or "-"
        rows.append(
            (
                outcome.notebook,
                progress.clock(outcome.cold or outcome.seconds),
                figures,
                "; ".join(outcome.data) or "-",
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])
