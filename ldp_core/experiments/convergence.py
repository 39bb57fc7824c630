"""Notebook 1: Algorithm 1 learns to tell poisonous mushrooms from edible ones (section 4.1 of the paper)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import pandas as pd
from pydantic import Field
from tqdm.auto import tqdm

from ldp_core import engine, optimizer
from ldp_core.data import mushrooms, streams
from ldp_core.experiments.params import AgentParams, Count, Normalise, ParameterError
from ldp_core.problems import logistic
from ldp_core.problems.onehot import OneHot

Variant = Literal["quantised", "unquantised"]
VARIANTS: tuple[Variant, ...] = ("quantised", "unquantised")
RUNS_PER_SHARD = 50  # of states [50, 5, 116]: small enough to stay in the cache of one core


class Params(AgentParams):
    """The paper's first experiment; every default is the paper's, except that the weights are unknown there."""

    runs: Annotated[int, Field(ge=1, le=100_000)] = 200
    iterations: Count = 1000
    samples: Count = 2
    test: Count = 2000
    evaluate_every: Count = 40
    normalise: Normalise = "none"

    def check(self, rows: int) -> None:
        """Raise when the parameters contradict each other or the data, before anything is computed."""
        self.algorithm()
        if self.test >= rows:
            raise ParameterError(
                f"test = {self.test} must be below {rows}, the number of mushrooms, so that some are left to learn from"
            )
        if self.evaluate_every > self.iterations:
            raise ParameterError(f"evaluate_every = {self.evaluate_every} must not exceed iterations = {self.iterations}")


@dataclass(frozen=True)
class Shard:
    """A block of runs of one variant: computed alone, in any order, with the same result."""

    variant: Variant
    first_run: int
    runs: int


def shards(params: Params) -> list[Shard]:
    """Return all blocks of runs, of at most RUNS_PER_SHARD each."""
    starts = range(0, params.runs, RUNS_PER_SHARD)
    return [Shard(v, start, min(RUNS_PER_SHARD, params.runs - start)) for v in VARIANTS for start in starts]


def compute(params: Params, shard: Shard, data: mushrooms.Mushrooms) -> pd.DataFrame:
    """Return the accuracy of every run and agent of a shard on its own test rows: columns variant, run, agent, t, accuracy."""
    numbers = range(shard.first_run, shard.first_run + shard.runs)
    features = OneHot(data.codes, data.sizes, None if params.normalise == "none" else params.normalise)
    algorithm = params.algorithm()
    agents = algorithm.network.agents
    train, test = streams.history(params.seed, numbers, agents, params.iterations, params.samples, features.rows, params.test)
    measured = []

    def evaluate(state: optimizer.State) -> None:
        measured.append((state.t, logistic.accuracy(features, data.labels, state.theta, test)))

    def observe(state: optimizer.State, messages: optimizer.Messages) -> None:
        if state.t % params.evaluate_every == 0:
            evaluate(state)

    last = optimizer.run(
        engine.Compiled(algorithm)
        if shard.variant == "quantised"
        else optimizer.Algorithm1(algorithm.network, algorithm.schedules, False),
        logistic.Logistic(features, data.labels, train),
        np.zeros((shard.runs, agents, features.dim)),
        params.iterations,
        seed=params.seed,
        runs=numbers,
        observe=observe,
    )
    if last.t % params.evaluate_every == 0:
        evaluate(last)
    return _table(shard, numbers, agents, measured)


def run(params: Params, data: mushrooms.Mushrooms) -> pd.DataFrame:
    """Return the accuracies of all runs, variants, agents and times; shows its progress."""
    params.check(len(data.labels))
    return pd.concat(_progress(params, data), ignore_index=True)


def summary(accuracies: pd.DataFrame) -> pd.DataFrame:
    """Return per variant and time, over runs (each the mean of its agents): mean, spread, standard error, quantiles."""
    per_run = accuracies.groupby(["variant", "t", "run"], sort=True)["accuracy"].mean()
    grouped = per_run.groupby(["variant", "t"], sort=True)
    table = grouped.agg(mean="mean", standard_deviation="std", runs="count")
    table["standard_error"] = table["standard_deviation"] / np.sqrt(table["runs"])
    table["low"], table["high"] = grouped.quantile(0.05), grouped.quantile(0.95)
    return table.reset_index()


def paired_difference(accuracies: pd.DataFrame) -> dict[str, float]:
    """Return the final accuracy of quantised minus unquantised, paired over runs: mean and 95 % interval (normal)."""
    final = accuracies[accuracies["t"] == accuracies["t"].max()]
    per_run = final.groupby(["variant", "run"])["accuracy"].mean().unstack("variant")
    difference = per_run["quantised"] - per_run["unquantised"]
    half = 1.96 * difference.std() / np.sqrt(len(difference)) if len(difference) > 1 else np.nan
    return {"mean": float(difference.mean()), "low": float(difference.mean() - half), "high": float(difference.mean() + half)}


def _progress(params: Params, data: mushrooms.Mushrooms) -> Iterator[pd.DataFrame]:
    for shard in tqdm(shards(params), desc=f"{params.runs} runs x {len(VARIANTS)} variants", unit="shard"):
        yield compute(params, shard, data)


def _table(shard: Shard, numbers: range, agents: int, measured: list) -> pd.DataFrame:
    times, values = zip(*measured, strict=True)
    index = pd.MultiIndex.from_product([times, numbers, range(agents)], names=["t", "run", "agent"])
    table = pd.DataFrame({"accuracy": np.stack(values).ravel()}, index=index).reset_index()
    return table.assign(variant=shard.variant)
