"""Benchmarks: one file a question, and here how time is taken.

`main(quick)` returns ratios measured in one run, by name; `make bench` prints them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping


def medians(actions: Mapping, rounds: int, clock: Callable[[], float] = time.perf_counter) -> dict:
    """Return the median time of every action, after a first round that warms up.

    They take turns, so that what else the machine does hits them alike.
    """
    turns = [{name: seconds(actions[name], clock) for name in actions} for _ in range(rounds + 1)]
    return {name: statistics.median(turn[name] for turn in turns[1:]) for name in actions}


def seconds(action: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Return how long an action takes."""
    start = clock()
    action()
    return clock() - start
