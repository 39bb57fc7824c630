"""Learning on mushrooms (section 4.1 of the paper): what notebooks 1 and 2 share."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Annotated, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from companion.data import mushrooms, streams
from companion.params import (
    AgentParams,
    Count,
    Normalise,
    history_bytes,
    public_seed,
    require_at_most,
    require_some_left,
)
from companion.problems import logistic
from companion.problems.onehot import OneHot
from ldp_core import engine, optimizer

Variant = Literal["quantised", "unquantised", "dithered", "at sent"]
PAPER: tuple[Variant, ...] = ("quantised", "unquantised")  # the two that the paper compares
RUNS_PER_SHARD = 50  # of states [50, 5, 116]: small enough to stay in the cache of one core
SMOOTH = 3  # the degree of the dither where gradients are taken at sent values, as in the promise


class Params(AgentParams):
    """The paper's first experiment, with its numbers; the weights it does not print."""

    runs: Annotated[int, Field(ge=1, le=100_000)] = 200
    iterations: Count = 1000
    samples: Count = 2
    test: Count = 2000
    evaluate_every: Count = 40
    normalise: Normalise = "none"

    def memory(self) -> tuple[str, int]:
        """Return the size of a shard's history."""
        what = f"iterations = {self.iterations} with samples = {self.samples}"
        block = min(self.runs, RUNS_PER_SHARD)
        return what, history_bytes(block, self.iterations, self.samples)

    def check(self, rows: int = mushrooms.ROWS) -> None:
        """Raise when the parameters contradict each other or the data."""
        self.algorithm()
        require_some_left(self.test, rows)
        require_at_most(self, "evaluate_every", "iterations")


def shards(params: Params, data: mushrooms.Mushrooms, variants: Sequence[Variant] = PAPER) -> list:
    """Return the arguments of `compute` for every block of runs of every variant asked for."""
    return [
        {**block, "params": _settings(params, variant), "variant": variant}
        for variant in variants
        for block in blocks(params.runs, RUNS_PER_SHARD, data)
    ]


def _settings(params: Params, variant: Variant) -> dict:
    """Return what a variant depends on: without a quantizer the step is left out."""
    left_out = {"runs", "d_0"} if variant == "unquantised" else {"runs"}
    return params.model_dump(exclude=left_out)


def blocks(runs: int, size: int, data: mushrooms.Mushrooms) -> list[dict]:
    """Return first_run and count of blocks of at most `size` runs, and the SHA-256 of the data."""
    starts = range(0, runs, size)
    counts = [{"first_run": start, "count": min(size, runs - start)} for start in starts]
    return [{**count, "data": data.provenance.sha256} for count in counts]


@cache
def problem(normalise: str) -> tuple[mushrooms.Mushrooms, OneHot]:
    """Return the mushrooms and their one-hot rows; made once in each process, without a word."""
    table = mushrooms.load(quiet=True)
    return table, features_of(table, normalise)


def features_of(table: mushrooms.Mushrooms, normalise: str) -> OneHot:
    """Return the one-hot rows with the chosen normalisation."""
    return OneHot(table.codes, table.sizes, None if normalise == "none" else normalise)


def compute(params: dict, data: str, variant: Variant, first_run: int, count: int) -> dict:
    """Return the accuracy of a block's runs on test rows: `t [times]`, `[times, runs, agents]`.

    `data` is the SHA-256 of the mushrooms meant: it makes the result depend on them.
    """
    settings, numbers = Params(**params, runs=count), range(first_run, first_run + count)
    table, features = problem(settings.normalise)
    table.provenance.require(data)
    seed, iterations, plain = settings.seed, settings.iterations, settings.algorithm()
    agents, algorithm = plain.network.agents, varied(plain, variant, seed)
    train, test = streams.history(
        seed, numbers, agents, iterations, settings.samples, features.rows, settings.test
    )
    times, accuracies = [], []

    def evaluate(state: optimizer.State, messages: optimizer.Messages | None = None) -> None:
        if state.t % settings.evaluate_every == 0:
            times.append(state.t)
            accuracies.append(logistic.accuracy(features, table.labels, state.theta, test))

    oracle = logistic.Logistic(features, table.labels, train)
    start = np.zeros((count, agents, features.dim))
    options = {"seed": seed, "runs": numbers, "observe": evaluate}
    evaluate(optimizer.run(algorithm, oracle, start, iterations, **options))
    return {"t": np.array(times), "accuracy": np.stack(accuracies)}


def varied(plain: optimizer.Algorithm1, variant: Variant, seed: int) -> optimizer.Algorithm:
    """Return a variant of Algorithm 1: as it is, unquantised, dithered, or as the promise has it.

    "at sent" takes gradients at sent values, with a smoother public dither.
    """
    network, schedules = plain.network, plain.schedules
    if variant == "unquantised":
        return optimizer.Algorithm1(network, schedules, quantised=False)
    dither = None if variant == "quantised" else public_seed(seed)
    smooth = {"degree": SMOOTH, "at_sent": True} if variant == "at sent" else {}
    return engine.Compiled(optimizer.Algorithm1(network, schedules, dither=dither, **smooth))


def quick(
    params: Params, data: mushrooms.Mushrooms, *, d_0: float, varsigma: float
) -> pd.DataFrame:
    """Return the summary of eight short runs at other quantisation steps: for a slider."""
    short = {"iterations": 160, "evaluate_every": 10, "runs": 8}
    changed = params.into(Params, d_0=d_0, varsigma=varsigma, **short)
    changed.check()
    pieces = shards(changed, data)
    return summary(pd.concat([table(piece, _cached(json.dumps(piece))) for piece in pieces]))


@lru_cache(maxsize=64)
def _cached(piece: str) -> dict[str, np.ndarray]:
    return compute(**json.loads(piece))


def table(shard: dict, result: dict[str, np.ndarray]) -> pd.DataFrame:
    """Return a shard's accuracies as a table: variant, t, run, agent, accuracy."""
    numbers = range(shard["first_run"], shard["first_run"] + shard["count"])
    agents = range(result["accuracy"].shape[2])
    names = ["t", "run", "agent"]
    index = pd.MultiIndex.from_product([result["t"], numbers, agents], names=names)
    column = pd.DataFrame({"accuracy": result["accuracy"].ravel()}, index=index)
    return column.reset_index().assign(variant=shard["variant"])


def summary(accuracies: pd.DataFrame) -> pd.DataFrame:
    """Return per variant and time, over runs (means of agents): mean, spread, 5 and 95 %."""
    per_run = accuracies.groupby(["variant", "t", "run"], sort=True)["accuracy"].mean()
    grouped = per_run.groupby(["variant", "t"], sort=True)
    table = grouped.agg(mean="mean", standard_deviation="std", runs="count")
    table["standard_error"] = table["standard_deviation"] / np.sqrt(table["runs"])
    table["low"], table["high"] = grouped.quantile(0.05), grouped.quantile(0.95)
    return table.reset_index()
