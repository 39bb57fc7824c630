"""Notebook 2: how many bits the messages take."""

from __future__ import annotations

import numpy as np
import pandas as pd

from companion import runs
from companion.budget import shards as budget
from companion.data import mushrooms
from ldp_core import quantizer

FLOAT_BITS, HEADER_BITS = 32, 64  # an unquantised coordinate; smallest and largest level of a message


def compute(params: dict, data: str, first_run: int, count: int) -> dict[str, np.ndarray]:
    """Return the levels that were sent: `t [times]`, `levels [times, runs, 2, agents, dim]` (theta, psi)."""
    setting = budget.Setting(**params)
    scene = budget.record(setting, data, range(first_run, first_run + count))
    kept = budget.times(setting.iterations)[:-1]
    levels = [np.stack([scene.messages[t].theta, scene.messages[t].psi], axis=1) for t in kept]
    return {"t": kept, "levels": np.stack(levels).astype(np.int32)}


def run(params: budget.Params, data: mushrooms.Mushrooms) -> pd.DataFrame:
    """Return bits per coordinate of a message over time: d_0, message, t, fixed, entropy.

    `fixed` is the mean over runs and agents of a code of fixed length, with its share of a header that says the smallest and
    the largest level; `entropy` what an ideal code would need that knows how often each level occurs at that time.
    """
    starts = range(0, params.bits_runs, budget.RUNS_PER_SHARD)
    pieces = [
        {
            "params": setting.model_dump(),
            "data": data.provenance.sha256,
            "first_run": start,
            "count": min(budget.RUNS_PER_SHARD, params.bits_runs - start),
        }
        for setting in params.settings()
        for start in starts
    ]
    results = runs.run(compute, pieces, description="bits")
    rows = []
    for place, setting in enumerate(params.settings()):
        found = results[place * len(starts) : (place + 1) * len(starts)]
        levels = np.concatenate([result["levels"] for result in found], axis=1)
        header = HEADER_BITS / levels.shape[-1]
        for t, sent in zip(found[0]["t"], levels, strict=True):
            for message, name in enumerate(("theta", "psi")):
                of_message = sent[:, message]
                fixed = float(quantizer.bits_fixed_length(of_message).mean()) + header
                rows.append((setting.d_0, name, int(t), fixed, quantizer.bits_entropy(of_message)))
    return pd.DataFrame(rows, columns=["d_0", "message", "t", "fixed", "entropy"])
