"""Notebook 2: Algorithm 1 and its neighbours on one bench, accuracy against delta.

Same mushrooms, network, clipped gradients and number of iterations for every mechanism. *The
search* is the same for each: a grid of equal size (`candidates`), for every target delta the
noise calibrated so that each agent's certificate over all iterations is the target, then the
candidate with the best accuracy on rows that are held out of the training rows. The test rows are
drawn once, before anything else, and used after the choice alone.

Two measures, each with its own choice: agents' `own` models, which they keep (the paper's measure),
and the model of a `listener` who has nothing but what was sent. All agents draw from the same
mushrooms, so an agent that sends nothing learns as well: the first measure alone says little.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd

from companion import mushrooms as learning
from companion import runs
from companion.budget.params import BLOCK, Params
from companion.data import mushrooms, streams
from companion.neighbours.bench import (
    KEYS,
    MEASURES,
    MECHANISMS,
    REFERENCES,
    Bench,
    Choice,
    bits,
    build,
    calibrated,
    candidates,
)
from companion.problems import centred
from ldp_core import optimizer

HELD_OUT, TUNING_RUNS = 1500, 1  # rows and runs by which a candidate is chosen
TUNING = 1_000_000  # runs from this number on are used for tuning alone
OWN = {"seed", "topology", "weight", "samples", "test", "promise_warm_up", "promise_clip"}
OWN |= {
    f"neighbour_{name}"
    for name in ("iterations", "pushes", "nu", "varsigma", "weakening", "fading")
}


@cache
def bench_of(params: Params, sizes: tuple[int, ...]) -> Bench:
    """Return the bench of mushrooms: one object for all questions.

    All centred rows of a schema are alike, and an agent may hold one with either label.
    """
    first = np.concatenate([np.arange(size) == 0 for size in sizes])
    row = centred.matrix(sizes) @ first
    spread = float(np.abs(row).sum()) * (1.0 + 1e-12)
    counted = params.promise_clip, params.promise_warm_up, params.samples
    return Bench(params.network(), *counted, params.neighbour_iterations, row, spread)


def rows(params: Params, total: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return row numbers (test, held out for tuning, all that may be learnt from but the test)."""
    test, train = streams.split(params.seed, 0, 0, total, params.test)
    return test, train[:HELD_OUT], train


def learnt(params: Params, algorithm, numbers, source, judged) -> dict[str, np.ndarray]:
    """Return accuracies on the rows `judged`: `own [runs]`, `listener [runs]`; and `bits`.

    `own` is the mean over agents of their own models, `listener` that of the mean of everything
    that was sent in the last tenth of the iterations, which anybody can compute.
    """
    table, features = learning.problem("none")
    T, warm_up = params.neighbour_iterations, params.promise_warm_up
    history = _history(params, numbers, T + warm_up, source)
    oracle = centred.Centred(features, table.labels, history, params.promise_clip, warm_up)
    counted, heard = [], np.zeros((len(numbers), features.dim + 1))

    def observe(state: optimizer.State, messages: optimizer.Messages) -> None:
        if state.t >= T - max(1, T // 10):
            heard[:] += messages.values()[0].mean(axis=1)
            counted.append(bits(messages))

    start = np.zeros((len(numbers), 5, features.dim + 1))
    options = {"seed": params.seed, "runs": numbers, "observe": observe}
    last = optimizer.run(algorithm, oracle, start, T, **options)
    own, listener = (
        centred.accuracy(features, table.labels, theta, judged) for theta in (last.theta, heard)
    )
    return {"own": own.mean(axis=1), "listener": listener, "bits": np.mean(counted)}


def _history(params: Params, numbers, points: int, source: np.ndarray) -> np.ndarray:
    """Return the row numbers `[runs, agents, points, samples]` that arrive, drawn from `source`."""
    shape = (points, params.samples)
    drawn = [[streams.stream(params.seed, r, i, *shape, source) for i in range(5)] for r in numbers]
    return np.array(drawn)


def tune(params: dict, data: str, mechanism: str, target: float, place: int) -> dict:
    """Return candidate number `place` at a target: its scales d_0, and its scores on held-out rows.

    A run that diverges scores zero.
    """
    settings, (table, features) = Params(**params), learning.problem("none")
    table.provenance.require(data)
    bench = bench_of(settings, features.sizes)
    choice = candidates(settings, mechanism, settings.promise_clip)[place]
    (d_0,) = calibrated(bench, mechanism, choice, (target,))
    _, held_out, train = rows(settings, features.rows)
    source, numbers = train[len(held_out) :], range(TUNING, TUNING + TUNING_RUNS)
    algorithm = build(bench, mechanism, choice, d_0.tolist())
    try:
        found = learnt(settings, algorithm, numbers, source, held_out)
        scores = [found["own"].mean(), found["listener"].mean()]
    except optimizer.Diverged:
        scores = [0.0, 0.0]
    return {"scores": np.array(scores), "d_0": d_0}


def compute(
    params: dict, data: str, mechanism: str, choice: list, d_0: list, first_run: int, count: int
) -> dict[str, np.ndarray]:
    """Return what `learnt` returns of a block of runs on the test rows."""
    settings, (table, features) = Params(**params), learning.problem("none")
    table.provenance.require(data)
    test, _, train = rows(settings, features.rows)
    bench = bench_of(settings, features.sizes)
    algorithm = build(bench, mechanism, Choice(*choice), d_0)
    numbers = range(first_run, first_run + count)
    return learnt(settings, algorithm, numbers, train, test)


def search(params: Params, table: mushrooms.Mushrooms) -> pd.DataFrame:
    """Return every candidate tried: mechanism, target, lam_0, nu, third, d_0, own, listener.

    `own` and `listener` are its scores. References have no target (zero). Resumable.
    """
    asked = [(name, target) for name in MECHANISMS for target in params.neighbour_targets]
    tried = [
        ({"mechanism": name, "target": target, "place": place}, choice)
        for name, target in [*asked, *((name, 0.0) for name in REFERENCES)]
        for place, choice in enumerate(candidates(params, name, params.promise_clip))
    ]
    pieces = [_common(params, table) | one for one, _ in tried]
    found = runs.run(tune, pieces, description=f"{len(tried)} candidates")
    return pd.DataFrame([
        one | choice._asdict() | dict(zip(MEASURES, result["scores"], strict=True))
        | {"d_0": result["d_0"].tolist()}
        for (one, choice), result in zip(tried, found, strict=True)
    ])  # fmt: skip


def run(params: Params, table: mushrooms.Mushrooms, best: pd.DataFrame) -> pd.DataFrame:
    """Return accuracies of all runs of what was chosen: measure, mechanism, target, run, bits.

    Shows progress, can be interrupted; what is chosen for both measures is computed once.
    """
    blocks = learning.blocks(params.neighbour_runs, BLOCK, table)
    asked = [(one, block) for one in best.itertuples() for block in blocks]
    pieces = [
        {**_common(params, table), **block, "mechanism": one.mechanism, "d_0": one.d_0}
        | {"choice": Choice.of(one)}
        for one, block in asked
    ]
    found = runs.run(compute, pieces, description=f"{params.neighbour_runs} runs x {len(best)}")
    return pd.DataFrame([
        {name: getattr(one, name) for name in KEYS}
        | {"run": block["first_run"] + k, "accuracy": accuracy, "bits": float(result["bits"])}
        for (one, block), result in zip(asked, found, strict=True)
        for k, accuracy in enumerate(result[one.measure])
    ])  # fmt: skip


def _common(params: Params, table: mushrooms.Mushrooms) -> dict:
    own = params.model_dump(include=OWN, mode="json")
    return {"params": own, "data": table.provenance.sha256}
