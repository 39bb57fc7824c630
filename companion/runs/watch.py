"""What whoever started this process may follow: a line for each experiment and each finished shard.

LDP_PROGRESS names the file; without it nothing is written. A line is a JSON object: an experiment
that begins has `experiment`, `shards`, `reused`, and `before`, the seconds that its reused shards
took when they were computed; a shard that is finished has `seconds`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable

from companion.runs.store import ResultStore

VARIABLE = "LDP_PROGRESS"


def begin(experiment: str, shards: int, reused: Iterable[str], store: ResultStore) -> None:
    """Say that an experiment begins, and which of its shards are in the store already."""
    if VARIABLE in os.environ:
        before = [store.provenance(place).get("seconds", 0.0) for place in reused]
        counts = {"shards": shards, "reused": len(before), "before": round(sum(before), 3)}
        _say({"experiment": experiment, **counts})


def finished(seconds: float) -> None:
    """Say that a shard is finished, and how long it took."""
    if VARIABLE in os.environ:
        _say({"seconds": round(seconds, 3)})


def _say(facts: dict) -> None:
    with open(os.environ[VARIABLE], "a", encoding="utf-8") as file:
        file.write(json.dumps(facts) + "\n")
