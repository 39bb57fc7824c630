"""Every promise of privacy that is made anywhere, one entry each, in promises.json.

>>> Promise(
...     name="mushrooms, 0.1 for ever", data="mushrooms", model="logistic regression",
...     parameters={"d_0": 2.0, "degree": 3}, unit="one sample of one agent", delta=0.1,
...     horizon=FOR_EVER, T=1000, accuracy=(0.958, 0.957, 0.959), runs=100, twin=0.962,
...     best_unprotected=0.982, certified_by="ldp_core.accountant.promise",
... ).sentence
'one sample of one agent changes all that is ever sent by at most 0.1 in total variation'
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from companion import files

NAME = "promises.json"
FOR_EVER = "for ever"


@dataclass(frozen=True)
class Promise:
    """What is promised for one model on one data set, and what it costs.

    `unit` says whose secret is meant, as a noun phrase: "one sample of one agent"; `delta` bounds
    the total variation up to the `horizon`, an iteration or FOR_EVER. `accuracy` is (mean, low,
    high) after `T` iterations over `runs` runs; `twin` is that of the same learner without
    quantisation, and `best_unprotected` that of the best learner we know at the same T, protected
    by nothing. `certified_by` names the function whose number delta is; `guessing` is the accuracy
    of somebody who has learnt nothing.
    """

    name: str
    data: str
    model: str
    parameters: Mapping[str, Any]
    unit: str
    delta: float
    horizon: int | str
    T: int
    accuracy: tuple[float, float, float]
    runs: int
    twin: float
    best_unprotected: float
    certified_by: str
    guessing: float = 0.0

    def __post_init__(self) -> None:
        texts = ("name", "data", "model", "unit", "certified_by")
        shares = ("delta", "twin", "best_unprotected", "guessing")
        mean, low, high = self.accuracy
        rules = [(bool(getattr(self, name)), "said in words", name) for name in texts]
        rules += [(0 <= getattr(self, name) <= 1, "in [0, 1]", name) for name in shares]
        rules += [(getattr(self, name) >= 1, "at least 1", name) for name in ("T", "runs")]
        rules.append((0 <= low <= mean <= high <= 1, "(mean, low, high) in [0, 1]", "accuracy"))
        ever = self.horizon == FOR_EVER
        finite = isinstance(self.horizon, int) and self.horizon >= 1
        rules.append((ever or finite, f"{FOR_EVER!r} or a whole number, at least 1", "horizon"))
        for kept, rule, name in rules:
            if not kept:
                wrong = f"{name} = {getattr(self, name)!r} must be {rule}"
                raise ValueError(f"promise {self.name!r}: {wrong}")

    @property
    def at_most(self) -> str:
        """Return delta in four decimals, never smaller than it is."""
        return f"{math.ceil(1e4 * self.delta - 1e-9) / 1e4:g}"

    @property
    def lost(self) -> bool:
        """Return whether the accuracy cannot be told from guessing."""
        return self.accuracy[1] <= self.guessing

    @property
    def sentence(self) -> str:
        """Return what is promised, with the unit of privacy in the same sentence."""
        until = "is ever sent" if self.horizon == FOR_EVER else f"is sent in {self.horizon} rounds"
        return f"{self.unit} changes all that {until} by at most {self.at_most} in total variation"


def record(output: str | Path, entry: Promise) -> None:
    """Put a promise into promises.json in `output`, in place of an older one of its name.

    Nothing is written when `output` is empty.
    """
    if not str(output):
        return
    entries = {promise.name: promise for promise in [*load(Path(output)), entry]}
    plain = [asdict(entries[name]) for name in sorted(entries)]
    text = json.dumps(plain, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    files.put(Path(output) / NAME, text)


def load(folder: Path) -> list[Promise]:
    """Return the promises kept in a folder, sorted by name; none where there is no such file."""
    path = folder / NAME
    if not path.exists():
        return []
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        return [Promise(**{**row, "accuracy": tuple(row["accuracy"])}) for row in rows]
    except (TypeError, KeyError, ValueError) as error:
        raise ValueError(f"{path} does not hold promises: {error}") from None
