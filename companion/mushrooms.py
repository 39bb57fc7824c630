"""Notebook 1: Algorithm 1 learns to tell poisonous mushrooms from edible ones (section 4.1 of the paper)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Annotated, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from companion import runs
from companion.data import mushrooms, streams
from companion.params import AgentParams, Count, Normalise, ParameterError, history_bytes, public_seed
from companion.problems import logistic
from companion.problems.onehot import OneHot
from ldp_core import engine, optimizer

Variant = Literal["quantised", "unquantised", "dithered"]
PAPER: tuple[Variant, ...] = ("quantised", "unquantised")  # the two that the paper compares
VARIANTS: tuple[Variant, ...] = (*PAPER, "dithered")  # and ours: the same quantizer on a grid with a public random offset
RUNS_PER_SHARD = 50  # of states [50, 5, 116]: small enough to stay in the cache of one core


class Params(AgentParams):
    """The paper's first experiment; every default is the paper's, except that the weights are unknown there."""

    runs: Annotated[int, Field(ge=1, le=100_000)] = 200
    iterations: Count = 1000
    samples: Count = 2
    test: Count = 2000
    evaluate_every: Count = 40
    normalise: Normalise = "none"

    def memory(self) -> tuple[str, int]:
        """Return the size of a shard's history."""
        what = f"iterations = {self.iterations} with samples = {self.samples}"
        return what, history_bytes(min(self.runs, RUNS_PER_SHARD), self.iterations, self.samples)

    def check(self, rows: int) -> None:
        """Raise when the parameters contradict each other or the data, before anything is computed."""
        self.algorithm()
        if self.test >= rows:
            raise ParameterError(
                f"test = {self.test} must be below {rows}, the number of mushrooms, so that some are left to learn from"
            )
        if self.evaluate_every > self.iterations:
            raise ParameterError(f"evaluate_every = {self.evaluate_every} must not exceed iterations = {self.iterations}")


def shards(params: Params, data: mushrooms.Mushrooms, variants: Sequence[Variant] = PAPER) -> list[dict]:
    """Return the arguments of `compute` for every block of at most RUNS_PER_SHARD runs of every variant asked for."""
    common = {"params": params.model_dump(exclude={"runs"}), "data": data.provenance.sha256}
    starts = range(0, params.runs, RUNS_PER_SHARD)
    return [
        {**common, "variant": variant, "first_run": start, "count": min(RUNS_PER_SHARD, params.runs - start)}
        for variant in variants
        for start in starts
    ]


@cache
def loaded() -> mushrooms.Mushrooms:
    """Return the mushrooms, read once in each process and without a word: the notebook has said where they come from."""
    return mushrooms.load(quiet=True)


@cache
def problem(normalise: str) -> tuple[mushrooms.Mushrooms, OneHot]:
    """Return the mushrooms and their one-hot rows; made once in each process."""
    table = loaded()
    return table, OneHot(table.codes, table.sizes, None if normalise == "none" else normalise)


def compute(params: dict, data: str, variant: Variant, first_run: int, count: int) -> dict[str, np.ndarray]:
    """Return the accuracy of every run and agent of a block on its test rows: `t [times]`, `accuracy [times, runs, agents]`.

    `data` is the SHA-256 of the mushrooms meant: it makes the result depend on them.
    """
    settings = Params(**params, runs=count)
    table, features = problem(settings.normalise)
    if table.provenance.sha256 != data:
        raise ValueError(f"the mushrooms here have SHA-256 {table.provenance.sha256[:12]}, those meant {data[:12]}")
    numbers = range(first_run, first_run + count)
    algorithm = settings.algorithm()
    agents = algorithm.network.agents
    train, test = streams.history(
        settings.seed, numbers, agents, settings.iterations, settings.samples, features.rows, settings.test
    )
    times, accuracies = [], []

    def evaluate(state: optimizer.State, messages: optimizer.Messages | None = None) -> None:
        if state.t % settings.evaluate_every == 0:
            times.append(state.t)
            accuracies.append(logistic.accuracy(features, table.labels, state.theta, test))

    last = optimizer.run(
        _variant(algorithm, variant, settings.seed),
        logistic.Logistic(features, table.labels, train),
        np.zeros((count, agents, features.dim)),
        settings.iterations,
        seed=settings.seed,
        runs=numbers,
        observe=evaluate,
    )
    evaluate(last)
    return {"t": np.array(times), "accuracy": np.stack(accuracies)}


def run(params: Params, data: mushrooms.Mushrooms) -> pd.DataFrame:
    """Return the accuracies of all runs as a table: variant, t, run, agent, accuracy. Shows progress, can be interrupted."""
    params.check(len(data.labels))
    pieces = shards(params, data, VARIANTS)
    results = runs.run(compute, pieces, description=f"{params.runs} runs x {len(VARIANTS)} variants")
    return pd.concat([_table(shard, result) for shard, result in zip(pieces, results, strict=True)], ignore_index=True)


def quick(params: Params, data: mushrooms.Mushrooms, *, d_0: float, varsigma: float, count: int = 8) -> pd.DataFrame:
    """Return the summary of a few short runs at other quantisation steps, in well under a second: for a slider."""
    changed = params.model_copy(
        update={"d_0": d_0, "varsigma": varsigma, "iterations": 160, "evaluate_every": 10, "runs": count}
    )
    changed.check(len(data.labels))
    pieces = shards(changed, data)
    return summary(pd.concat([_table(piece, _cached(json.dumps(piece))) for piece in pieces], ignore_index=True))


def summary(accuracies: pd.DataFrame) -> pd.DataFrame:
    """Return per variant and time, over runs (each the mean of its agents): mean, spread, standard error, quantiles."""
    per_run = accuracies.groupby(["variant", "t", "run"], sort=True)["accuracy"].mean()
    grouped = per_run.groupby(["variant", "t"], sort=True)
    table = grouped.agg(mean="mean", standard_deviation="std", runs="count")
    table["standard_error"] = table["standard_deviation"] / np.sqrt(table["runs"])
    table["low"], table["high"] = grouped.quantile(0.05), grouped.quantile(0.95)
    return table.reset_index()


def paired_difference(accuracies: pd.DataFrame, variant: Variant = "quantised") -> dict[str, float]:
    """Return the final accuracy of a variant minus the unquantised one, paired over runs: mean and 95 % interval (normal)."""
    final = accuracies[accuracies["t"] == accuracies["t"].max()]
    per_run = final.groupby(["variant", "run"])["accuracy"].mean().unstack("variant")
    difference = per_run[variant] - per_run["unquantised"]
    half = 1.96 * difference.std() / np.sqrt(len(difference)) if len(difference) > 1 else np.nan
    return {"mean": float(difference.mean()), "low": float(difference.mean() - half), "high": float(difference.mean() + half)}


@lru_cache(maxsize=64)
def _cached(piece: str) -> dict[str, np.ndarray]:
    return compute(**json.loads(piece))


def _variant(algorithm: optimizer.Algorithm1, variant: Variant, seed: int) -> optimizer.Algorithm:
    network, schedules = algorithm.network, algorithm.schedules
    if variant == "unquantised":
        return optimizer.Algorithm1(network, schedules, quantised=False)
    dither = public_seed(seed) if variant == "dithered" else None
    return engine.Compiled(optimizer.Algorithm1(network, schedules, dither=dither))


def _table(shard: dict, result: dict[str, np.ndarray]) -> pd.DataFrame:
    accuracy = result["accuracy"]
    numbers = range(shard["first_run"], shard["first_run"] + shard["count"])
    index = pd.MultiIndex.from_product([result["t"], numbers, range(accuracy.shape[2])], names=["t", "run", "agent"])
    return pd.DataFrame({"accuracy": accuracy.ravel()}, index=index).reset_index().assign(variant=shard["variant"])
