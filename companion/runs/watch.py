"""What whoever started this process may follow: a line for each experiment and each finished shard.

LDP_PROGRESS names the file; without it nothing is written. A line is a JSON object: an experiment
that begins has `experiment`, `shards`, `reused`, and `cpu` and `disk`, the seconds of a processor
that its reused shards took when they were computed and the bytes they take; a shard that is
finished has its own `cpu` and `disk`.
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
        places = list(reused)
        known = [store.provenance(place) for place in places]
        taken = sum(record.get("cpu", record["seconds"]) for record in known)
        costs = {"cpu": round(taken, 3), "disk": sum(map(store.size, places))}
        _say({"experiment": experiment, "shards": shards, "reused": len(places), **costs})


def finished(cpu: float, disk: int) -> None:
    """Say that a shard is finished, how long it took and how many bytes it takes."""
    if VARIABLE in os.environ:
        _say({"cpu": round(cpu, 3), "disk": disk})


def _say(facts: dict) -> None:
    with open(os.environ[VARIABLE], "a", encoding="utf-8") as file:
        file.write(json.dumps(facts) + "\n")
