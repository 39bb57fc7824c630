"""Benchmarks: one file a question, and here how time is taken.

Each prints ratios measured in one run; `main(quick)` returns them.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator, Mapping


def seconds(action: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Return how long an action takes."""
    start = clock()
    action()
    return clock() - start


def best(action: Callable[[], object], repeats: int) -> float:
    """Return the least time that an action takes, after a first one that warms up."""
    action()
    return min(seconds(action) for _ in range(repeats))


def medians(actions: Mapping, rounds: int, clock: Callable[[], float] = time.perf_counter) -> dict:
    """Return the median time of every action, after a first round that warms up.

    They take turns, so that what else the machine does hits them alike.
    """
    turns = [{name: seconds(actions[name], clock) for name in actions} for _ in range(rounds + 1)]
    return {name: statistics.median(turn[name] for turn in turns[1:]) for name in actions}


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread for a while."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
