"""Runs shards on joblib: on the cores of this machine, or on a Dask cluster named by its scheduler.

Of several workers each computes on one thread, so that as many as there are cores do not get in
each other's way; a single one works in this process. Results come back in the order of the shards,
whatever order they were finished in, so whatever is made from them has the same bytes whether the
run was interrupted or not.
"""

from __future__ import annotations

import contextlib
import contextvars
import datetime
import gc
import os
import platform
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache

import joblib
import numpy as np
from joblib.externals.loky import process_executor
from tqdm.auto import tqdm

from companion.runs import fingerprint, watch
from companion.runs.store import Result, ResultStore, address, content

Function = Callable[..., Result]
CONNECT_SECONDS = 20
INSIDE = contextvars.ContextVar("INSIDE", default=False)  # a shard

# loky replaces a worker whose memory has grown since its first shard, and says so with the path of
# its own file; nothing is lost by it but the time to import everything again. A third of a gigabyte
# would be too little: other people's EEG takes more, and is no leak
process_executor._MAX_MEMORY_LEAK_SIZE = 2**30
warnings.filterwarnings(
    "ignore", message="A worker stopped while some jobs were given to the executor"
)
# Dask would rather have handed-over arrays scattered; but what is scattered is lost with the worker
# that holds it
warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)


class ShardError(RuntimeError):
    """A shard failed; the message names it and says why. Finished shards are kept."""


def run(
    function: Function,
    shards: Sequence[Mapping],
    *,
    description: str = "",
    store: ResultStore | None = None,
    workers: int | None = None,
    given: Sequence[Mapping] | None = None,
    quiet: bool = False,
) -> list[Result]:
    """Return `function(**shard)` for every shard, from the store where it is there already.

    The environment variable SCHEDULER names a Dask scheduler, such as tcp://127.0.0.1:8786; else
    `workers` local processes compute (or the environment variable WORKERS; default: one per core
    that this process may use). `given` are arrays handed to each shard, as
    further arguments: results of earlier experiments, which no shard starts itself. They are part
    of its name by a hash of their content. `quiet` leaves out the progress bar. Raises ShardError
    when a shard fails.
    """
    if function.__module__ == "__main__":
        raise ValueError(
            f"{function.__qualname__} must live in a module, not in a notebook or script: other "
            "processes import it"
        )
    if INSIDE.get():
        raise ShardError(
            "a shard must not start another experiment: hand it the results that it needs (`given`)"
        )
    store, code = store or ResultStore(), fingerprint.of(function)
    name = f"{function.__module__}.{function.__qualname__}"
    more = given or [{}] * len(shards)
    named = [{**shard, **content(extra)} for shard, extra in zip(shards, more, strict=True)]
    places = [address(name, arguments, code) for arguments in named]
    results = {
        place: result
        for place in dict.fromkeys(places)
        if (result := store.read(place)) is not None
    }
    described = dict(zip(places, named, strict=True))
    calls = dict(zip(places, zip(shards, more, strict=True), strict=True))
    missing = {place: call for place, call in calls.items() if place not in results}
    watch.begin(description, len(calls), results, store)
    with tqdm(
        total=len(set(places)),
        initial=len(results),
        desc=description,
        unit="shard",
        disable=quiet or not places,
    ) as progress:
        for place, result, cost in _compute(function, missing, code, workers):
            store.write(place, result, _provenance(name, described[place], code, cost))
            results[place] = result
            watch.finished(cost["cpu"], store.size(place))
            progress.update()
    return [results[place] for place in places]


def chain(
    function: Function, shards: Sequence[Mapping], parts: int, *, description: str = "", **options
) -> list[list[Result]]:
    """Return, for every shard, the results of `function(**shard, part=0, before=None)`, then of
    `part=1` with `before` its result, and so on: one long computation in so many parts, each of
    which is kept. Interrupted, it goes on after the last.
    """
    results: list[list[Result]] = [[] for _ in shards]
    for part in range(parts):
        words = description if parts == 1 else f"{description}, part {part + 1} of {parts}"
        given = [{"before": done[-1] if done else None} for done in results]
        found = run(
            function,
            [{**shard, "part": part} for shard in shards],
            description=words,
            given=given,
            **options,
        )
        for done, result in zip(results, found, strict=True):
            done.append(result)
    return results


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _workers() -> int:
    """Return how many processes to use when the caller does not say."""
    text = os.environ.get("WORKERS") or str(cores())
    if not (text.isascii() and text.isdigit() and int(text) >= 1):
        raise ShardError(f"WORKERS = {text!r} must be a whole number, at least 1")
    return int(text)


def _compute(
    function: Function,
    missing: Mapping[str, tuple[Mapping, Mapping]],
    code: str,
    workers: int | None,
) -> Iterator[tuple[str, Result, dict[str, float]]]:
    """Yield (address, result, cost) of every missing shard as soon as it is finished."""
    workers, scheduler = workers or _workers(), os.environ.get("SCHEDULER")
    checked = code if scheduler else None  # local processes read the same files
    calls = [
        joblib.delayed(_shard)(function, place, dict(shard), dict(given), checked)
        for place, (shard, given) in missing.items()
    ]
    if not calls:
        return
    with _backend(scheduler, min(workers, len(calls))):
        yield from joblib.Parallel(
            return_as="generator_unordered", pre_dispatch="all", batch_size=1
        )(calls)


@contextlib.contextmanager
def _backend(scheduler: str | None, workers: int) -> Iterator[None]:
    """Choose where joblib runs: a Dask cluster, or local processes with one thread each."""
    if not scheduler:
        with joblib.parallel_config(backend="loky", n_jobs=workers, inner_max_num_threads=1):
            yield
        return
    from dask.distributed import Client

    try:
        client = Client(scheduler, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ShardError(
            f"SCHEDULER = {scheduler!r}: no Dask scheduler answers there "
            f"({' '.join(str(error).split())})"
        ) from None
    with client, joblib.parallel_config(backend="dask", client=client, wait_for_workers_timeout=60):
        yield


def _shard(
    function: Function, place: str, shard: dict, given: dict, code: str | None
) -> tuple[str, Result, dict[str, float]]:
    """Compute one shard, in whatever process this is; its cost are `seconds` and those of a `cpu`.

    Refuse when its code is not the caller's (`code`, unless None).
    """
    if code is not None and fingerprint.of(function) != code:
        raise ShardError(
            f"{function.__module__} on {platform.node()} is not the same code or packages as here"
        )
    _leave_imports_alone()
    clocks = {"seconds": time.perf_counter, "cpu": time.process_time}
    start, inside = {name: clock() for name, clock in clocks.items()}, INSIDE.set(True)
    try:
        result = {name: np.asarray(array) for name, array in function(**shard, **given).items()}
    except Exception as error:
        raise ShardError(f"shard {shard} failed: {type(error).__name__}: {error}") from error
    finally:
        INSIDE.reset(inside)
    return place, result, {name: clock() - start[name] for name, clock in clocks.items()}


@cache
def _leave_imports_alone() -> None:
    """Let no search for garbage look at what is imported, from now on: that stays."""
    gc.freeze()


def _provenance(name: str, shard: Mapping, code: str, cost: Mapping[str, float]) -> dict:
    return {
        **{clock: round(value, 3) for clock, value in cost.items()},
        "function": name,
        "arguments": dict(shard),
        "code": code,
        "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "numpy": np.__version__,
    }
