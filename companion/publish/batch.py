"""`make figures`: papermill executes the notebooks at a profile, and says what came of each.

A misspelt parameter is refused before anything runs. A notebook is executed beside its place and
moved there when it is whole; one that fails is kept apart, names its cell, and does not stop the
others.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
import papermill
import psutil
import yaml
from papermill.exceptions import PapermillExecutionError
from traitlets.config import Config

from companion import files
from companion.params import nearest
from companion.publish import CommandError, columns, environment, progress, surroundings
from companion.publish.report import provenance
from companion.runs import execute
from companion.runs.store import default_folder

ROOT = Path(environment.ROOT)
NOTEBOOKS, CACHE = ROOT / "notebooks", ROOT / "data" / "cache"
PROFILES = NOTEBOOKS / "profiles"
COMMITTED = "paper"  # the size of the results in figures/, which are committed
SMALLEST = "smoke"  # this profile is to be over soon, the others may take their time:
CELL_SECONDS = 300  # a cell of it that takes longer hangs,
THREADS = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
ALONE = {"WORKERS": "1", **dict.fromkeys(THREADS, "1")}  # and it has too little work to share out
MEASURED = ("seconds", "cold", "cpu", "memory", "disk")  # of an outcome, kept for the report
ENCRYPTED = Config({"KernelManager": {"transport_encryption": "auto"}})  # papermill to kernel


@dataclass
class Outcome:
    """What came of one notebook."""

    notebook: str
    seconds: float = 0.0
    cold: float = 0.0  # with nothing computed before; what experiments share counts for each
    memory: float = 0.0  # gigabytes
    cpu: float = 0.0  # seconds, of its shards
    disk: float = 0.0  # gigabytes, of its shards
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
        names = ", ".join(path.stem for path in found)
        raise CommandError(f"NB = {number!r} must be the beginning of one notebook's name: {names}")
    return chosen


def profile(name: str) -> dict[str, dict]:
    """Return the parameters of every notebook at a profile: {notebook: {parameter: value}}.

    A profile may say `extends: another`: it then changes some of the other's parameters.
    """
    content = _read_profile(name, f"PROFILE = {name!r}")
    if "extends" not in content:
        return content
    base = content.pop("extends")
    below = _read_profile(base, f"profile {name} extends {base!r}, which")
    if "extends" in below:
        rule = "which extends another itself: one step is all there is"
        raise CommandError(f"profile {name} extends {base}, {rule}")
    every = below | content
    return {notebook: below.get(notebook, {}) | content.get(notebook, {}) for notebook in every}


def _read_profile(name: str, named_by: str) -> dict:
    known = sorted(path.stem for path in PROFILES.glob("*.yaml"))
    if name not in known:
        raise CommandError(f"{named_by} must be one of {', '.join(known)}")
    path = PROFILES / f"{name}.yaml"
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise CommandError(f"{path.relative_to(ROOT)} is not YAML: {reason}") from None
    if not content or not isinstance(content, dict):
        rule = f"must hold notebooks and their parameters, and holds {content!r}"
        raise CommandError(f"{path.relative_to(ROOT)} {rule}")
    for notebook in content.keys() - {"extends"}:
        if not (NOTEBOOKS / f"{notebook}.ipynb").exists():
            raise CommandError(f"profile {name}: {notebook} is not a notebook")
        if not isinstance(content[notebook], dict | None):
            raise CommandError(f"profile {name}: {notebook} must hold parameters, name: value")
    return {key: {} if value is None else value for key, value in content.items()}


def parameters(path: Path, profile_name: str, seed: str | int | None, output: Path) -> dict:
    """Return what papermill injects into one notebook; a name that it does not have is refused."""
    chosen = dict(profile(profile_name).get(path.stem, {}))
    known = papermill.inspect_notebook(str(path))
    for name in chosen:
        if name not in known:
            near = nearest(str(name), known) or f"; it has {', '.join(known)}"
            raise CommandError(f"profile {profile_name}: {path.stem} has no parameter {name}{near}")
    if seed is not None:
        chosen["seed"] = _seed(seed)
    place = output.resolve()
    place = place.relative_to(ROOT) if place.is_relative_to(ROOT) else place
    return {**chosen, "profile": profile_name, "output": str(place)}


def place(profile_name: str, output: Path | None = None) -> Path:
    """Return the folder for a profile's figures: figures/<profile>, unless another is asked for.

    figures/ itself holds the committed results: only the profile of their size may renew them.
    """
    if output is None:
        return ROOT / "figures" / profile_name
    committed = output.resolve() == (ROOT / "figures").resolve()
    if committed and profile_name != COMMITTED:
        own = f"without OUT, profile {profile_name} writes to figures/{profile_name}"
        raise CommandError(f"OUT = {str(output)!r} holds the results of profile {COMMITTED}; {own}")
    return output


def run(
    profile_name: str = "default",
    number: str | None = None,
    seed: str | int | None = None,
    output: Path | None = None,
) -> int:
    """Execute the notebooks, print what came of each, and return 0 when all went well."""
    output = place(profile_name, output)
    chosen = [(path, parameters(path, profile_name, seed, output)) for path in notebooks(number)]
    surroundings.check(output, CACHE / "notebooks")
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


def _seed(seed: str | int) -> int:
    if not str(seed).isascii() or not str(seed).isdigit() or int(seed) >= 2**63:
        raise CommandError(f"SEED = {seed!r} must be a whole number in [0, 2**63)")
    return int(seed)


def _execute(path: Path, values: dict, output: Path) -> Outcome:
    """Execute one notebook; a failure is part of the outcome, not an exception."""
    outcome, failed = Outcome(path.stem), CACHE / "notebooks" / path.name
    working = failed.with_name(f".{path.stem}.{os.getpid()}.ipynb")  # of this run alone
    working.parent.mkdir(parents=True, exist_ok=True)
    before, start = _records(output), time.monotonic()
    try:
        _measured(path, working, values, outcome)
        publish(working, output / "notebooks" / path.name)
        print(f"{path.stem}: {_taken(outcome)}", flush=True)
        _keep_record(path, values, outcome, output)
        _remove_stale(path.stem, before, output)
    except KeyboardInterrupt:
        working.unlink(missing_ok=True)
        raise
    except PapermillExecutionError as error:
        place = f"cell {error.cell_index} (In [{error.exec_count}])"
        outcome.failure = f"{place}: {error.ename}: {error.evalue}"
    except Exception as error:  # a dead kernel, a full disk: the other notebooks go on
        outcome.failure = f"{type(error).__name__}: {' '.join(str(error).split())}"
    outcome.seconds = time.monotonic() - start
    _look_at_what_was_written(outcome, before, output)
    if outcome.failure:
        _say_failure(outcome, working, failed)
    return outcome


def _measured(path: Path, working: Path, values: dict, outcome: Outcome) -> None:
    """Execute a notebook, and note what it took.

    The smallest profile lets no cell hang, and works alone.
    """
    start, small = time.monotonic(), values["profile"] == SMALLEST
    added = {name: ALONE[name] for name in ALONE if small and name not in os.environ}
    with files.variables(added), progress.watching(path.stem, working.parent) as watch:
        papermill.execute_notebook(
            str(path),
            str(working),
            values,
            kernel_name="python3",
            cwd=str(ROOT),
            progress_bar=False,
            engine_name="watched",
            watch=watch,
            execution_timeout=CELL_SECONDS if small else None,
            config=ENCRYPTED,
            kernel_manager_class=progress.Unhurried,
        )
    outcome.shards, outcome.reused = (int(watch.total(name)) for name in ("shards", "reused"))
    outcome.seconds, outcome.cpu = time.monotonic() - start, watch.total("cpu")
    outcome.memory, outcome.disk = watch.memory, watch.total("disk") / 2**30
    side_by_side = os.environ.get("WORKERS") or (ALONE["WORKERS"] if small else execute.cores())
    before = sum(fact["cpu"] for fact in watch.facts if "experiment" in fact)
    outcome.cold = outcome.seconds + before / int(side_by_side)


def publish(working: Path, place: Path) -> None:
    """Move an executed notebook to its place, without times, progress bars and random names."""
    notebook = nbformat.read(working, as_version=4)
    notebook.metadata.pop("papermill", None)
    notebook.metadata.pop("widgets", None)
    for cell in notebook.cells:
        cell.metadata.pop("papermill", None)
        cell.metadata.pop("execution", None)
        if "injected-parameters" in cell.metadata.get("tags", []):
            cell.id = "injected-parameters"  # papermill draws one at random
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if not _is_progress(output)]
    place.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, working)
    working.replace(place)


def _is_progress(output: nbformat.NotebookNode) -> bool:
    """Return whether an output is a progress bar, drawn as a widget or as text."""
    data = output.get("data", {})
    return "%|" in (data.get("text/plain", "") if "data" in output else output.get("text", ""))


def _look_at_what_was_written(outcome: Outcome, before: dict, output: Path) -> None:
    """Note which figures are new, and the data they were made from."""
    after = _records(output).items()
    records = [json.loads(record[1]) for name, record in after if before.get(name) != record]
    data = [entry for record in records for entry in record["data"]]
    outcome.figures = sorted(record["figure"] for record in records)
    outcome.data = sorted({f"{entry['kind']}: {entry['name']}" for entry in data})


def _remove_stale(notebook: str, before: dict, output: Path) -> None:
    """Remove the figures of a notebook that its whole run has not written again."""
    for name, record in _records(output).items():
        if before.get(name) == record and json.loads(record[1]).get("notebook") == notebook:
            for suffix in (".json", ".png", ".svg"):
                (output / name).with_suffix(suffix).unlink(missing_ok=True)


def _say_failure(outcome: Outcome, working: Path, failed: Path) -> None:
    """Say in which cell a notebook failed, and keep it as far as it got."""
    message = f"{outcome.notebook}: FAILED in {outcome.failure}"
    with contextlib.suppress(FileNotFoundError):  # it may not have got anywhere
        working.replace(failed)
        message += f"\n  as far as it got: {os.path.relpath(failed)}"
    print(message, file=sys.stderr, flush=True)


def _taken(outcome: Outcome) -> str:
    """Return what a notebook took, and what of it had been computed before, in words."""
    if not outcome.reused:
        return f"{progress.clock(outcome.seconds)}, {outcome.shards} shards, all computed now"
    before = f"{outcome.reused} of {outcome.shards} shards came from the store"
    cold = f"from nothing at most about {progress.clock(outcome.cold)}"
    return f"{progress.clock(outcome.seconds)}; {before}; {cold}"


@contextlib.contextmanager
def _silent_end() -> Iterator[None]:
    """End the kernel and its workers at once when Ctrl-C comes.

    Asked politely they answer with tracebacks of their own, and papermill with the news that its
    kernel died. Nothing is lost by it: a shard is kept whole or not at all.
    """

    def end(number: int, frame) -> None:
        logging.disable()
        for child in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                child.kill()
        if callable(before):
            before(number, frame)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _keep_record(path: Path, values: dict, outcome: Outcome, output: Path) -> None:
    """Write down how this notebook was run, for the report."""
    seed = values.get("seed", papermill.inspect_notebook(str(path)).get("seed", {}).get("default"))
    entry = {"profile": values["profile"], "seed": None if seed is None else int(seed)}
    entry |= {name: round(getattr(outcome, name), 1) for name in MEASURED}
    entry |= {"shards": outcome.shards, "reused": outcome.reused}
    last = provenance.load(output).get(path.stem, {})
    if outcome.reused and last.get("profile") == values["profile"]:  # these need no memory now
        entry["memory"] = max(entry["memory"], last.get("memory", 0.0))
    provenance.keep(output, path.stem, entry | provenance.made_here(ROOT))


def _records(output: Path) -> dict[str, tuple[int, str]]:
    """Return time and text of the figures' records in a folder."""
    return {
        path.name: (path.stat().st_mtime_ns, path.read_text(encoding="utf-8"))
        for path in output.glob("fig*.json")
    }


def _table(outcomes: Sequence[Outcome]) -> str:
    """Return the closing table: notebook, time from nothing, memory, figures, data used."""
    rows = [("notebook", "from nothing", "memory", "figures", "data used"), *map(_row, outcomes)]
    rule = tuple("-" * max(map(len, column)) for column in zip(*rows, strict=True))
    return "\n".join(columns([rows[0], rule, *rows[1:]]))


def _row(outcome: Outcome) -> tuple[str, ...]:
    figures = "FAILED" if outcome.failure else str(len(outcome.figures))
    took = progress.clock(outcome.cold or outcome.seconds)
    data = "; ".join(outcome.data) or "-"
    return (outcome.notebook, took, f"{outcome.memory:.1f} GB", figures, data)
