"""Notebook 2: what the agents' messages give away about one data point (section 3.2 and Fig. 3 of the paper).

The paper's protocol: run Algorithm 1, replace one data point of every agent at random, hold fixed what each agent received,
and add up delta_t^i = (||theta_t - theta'_t||_1 + ||psi_t - psi'_t||_1) / d_t^i. It does not say *which* data point: `uniform`
replaces one of the whole run, at its own time for every agent, `first` the one that arrives at k = 0. A data point is all that
an agent acquires in one iteration (Definition 2), here `samples` mushrooms; it is replaced by as many uniform draws from all.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Annotated, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from companion import runs
from companion.data import mushrooms, streams
from companion.mushrooms import problem
from companion.params import AGENTS, AgentParams, Count, Normalise, ParameterError, Positive, history_bytes
from companion.problems import logistic
from companion.problems.onehot import OneHot
from ldp_core import engine, optimizer
from ldp_core.accountant import trajectory, worst
from ldp_core.randomness import Purpose, generator

Arrival = Literal["uniform", "first"]
ARRIVALS: tuple[Arrival, ...] = ("uniform", "first")
RUNS_PER_SHARD = 5
ROWS = 25  # modifications followed together, those that arrive early first: a late one is the unmodified run until it arrives


class Setting(AgentParams):
    """One setting in which budgets are measured."""

    iterations: Annotated[int, Field(ge=2)] = 300
    samples: Count = 2
    test: Count = 2000
    normalise: Normalise = "none"

    def memory(self) -> tuple[str, int]:
        """Return the size of one run's history and of all its messages, theta and psi, which are kept."""
        columns = problem(self.normalise)[1].dim
        sent = AGENTS * self.iterations * columns * 2 * np.dtype(np.int64).itemsize
        what = f"iterations = {self.iterations} with samples = {self.samples}"
        return what, sent + history_bytes(1, self.iterations, self.samples)

    def check(self, rows: int) -> None:
        """Raise when the parameters contradict each other or the data, before anything is computed."""
        self.algorithm()
        if self.test >= rows:
            raise ParameterError(
                f"test = {self.test} must be below {rows}, the number of mushrooms, so that some are left to learn from"
            )

    def at(self, **changes) -> Setting:
        """Return this setting with other values, checked like new ones."""
        return Setting(**{**self.model_dump(include=set(Setting.model_fields)), **changes})


class Params(Setting):
    """Fig. 3: how many runs, how many modifications in each, and the quantisation steps compared."""

    runs: Annotated[int, Field(ge=2, le=100_000)] = 20
    modifications: Count = 20
    first_modifications: Count = 5
    budget_d_0: Annotated[tuple[Positive, ...], Field(min_length=1)] = (2.0, 5.0, 8.0)
    bits_runs: Count = 10

    def memory(self) -> tuple[str, int]:
        """Return the larger of the messages of a run and the states of all its modifications."""
        states = max(self.modifications, self.first_modifications) * problem(self.normalise)[1].dim * 2 * 8
        what = f"modifications = {self.modifications} with first_modifications = {self.first_modifications}"
        return max(super().memory(), (what, states), key=lambda pair: pair[1])

    def check(self, rows: int) -> None:
        """Raise when the parameters of one of the compared settings make no sense."""
        for setting in self.settings():
            setting.check(rows)

    def settings(self) -> list[Setting]:
        """Return one setting for every d_0 compared."""
        return [self.at(d_0=d_0) for d_0 in self.budget_d_0]


@dataclass(frozen=True, eq=False)
class Scene:
    """A block of recorded runs: what every agent acquired `[runs, agents, iterations, samples]`, and what was sent."""

    algorithm: optimizer.Algorithm1
    features: OneHot
    labels: np.ndarray
    numbers: Sequence[int]
    history: np.ndarray
    messages: list[optimizer.Messages]

    def problem(self, history: np.ndarray) -> logistic.Logistic:
        """Return the gradient oracle of histories `[batch, 1, iterations, samples]`."""
        return logistic.Logistic(self.features, self.labels, history)

    def received(self, run: int, agent: int) -> trajectory.Received:
        """Return what one agent received in one run (its position in the block), `[iterations, 1, dim]` each."""
        row = agent * len(self.numbers) + run
        return trajectory.Received(*(sums[:, row : row + 1] for sums in self._received))

    @cached_property
    def _received(self) -> trajectory.Received:
        return trajectory.received(self.algorithm, self.messages, range(self.algorithm.network.agents))

    def unmodified(self, run: int, agent: int) -> list[tuple[int, np.ndarray, np.ndarray]]:
        """Return (t, theta_t, psi_t), the agent's own states `[1, dim]`, for every t."""
        oracle, start = self.problem(self.history[run, agent][None, None]), np.zeros((1, self.features.dim))
        return list(trajectory.replay(self.algorithm, agent, self.received(run, agent), oracle, start))


def record(setting: Setting, data: str, numbers: Sequence[int]) -> Scene:
    """Return the runs of these numbers of a setting, recorded; `data` is the SHA-256 of the mushrooms meant."""
    labels, features = _rows(data, setting.normalise)
    algorithm, transcript = setting.algorithm(), optimizer.Transcript()
    agents = algorithm.network.agents
    history, _ = streams.history(
        setting.seed, numbers, agents, setting.iterations, setting.samples, features.rows, setting.test
    )
    optimizer.run(
        engine.Compiled(algorithm),
        logistic.Logistic(features, labels, history),
        np.zeros((len(numbers), agents, features.dim)),
        setting.iterations,
        seed=setting.seed,
        runs=numbers,
        observe=transcript,
    )
    return Scene(algorithm, features, labels, numbers, history, transcript.messages)


def modifications(scene: Scene, seed: int, run: int, agent: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (k `[count]`, point `[count, samples]`) of the paper's protocol for one run (its position) and agent.

    Modification number j depends on (seed, run number, agent, j) alone.
    """
    rows = np.arange(scene.features.rows)
    drawn = [
        worst.random_modifications(
            scene.history[run, agent],
            rows,
            generator(seed, Purpose.MODIFICATION, scene.numbers[run], agent=agent, t=number),
            1,
        )
        for number in range(count)
    ]
    k, point = zip(*drawn, strict=True)
    return np.concatenate(k), np.concatenate(point)


def spent(scene: Scene, run: int, agent: int, k: np.ndarray, point: np.ndarray) -> np.ndarray:
    """Return the paper's delta^i after 0, 1, ..., T iterations for each modification, `[T + 1, modifications]`."""
    own, got = scene.unmodified(run, agent), scene.received(run, agent)
    history, iterations = scene.history[run, agent], len(own)
    steps = scene.algorithm.schedules.step(np.arange(iterations))[:, agent]
    total = np.zeros((iterations + 1, len(k)))
    order = np.argsort(k, kind="stable")
    for rows in np.split(order, range(ROWS, len(order), ROWS)):
        start = int(k[rows[0]])
        states = (np.repeat(state, len(rows), axis=0) for state in own[start][1:])
        oracle = scene.problem(worst.adjacent(history, k[rows], point[rows]))
        for t, theta, psi in trajectory.replay(scene.algorithm, agent, got, oracle, *states, start):
            sensitivity = np.abs(theta - own[t][1]).sum(axis=-1) + np.abs(psi - own[t][2]).sum(axis=-1)
            total[t + 1, rows] = sensitivity / steps[t]
    return np.cumsum(total, axis=0)


def times(iterations: int) -> np.ndarray:
    """Return the numbers of iterations at which budgets are kept: densely at first, every 20 later, the last included."""
    wanted = np.concatenate([np.arange(0, 20), np.arange(20, 60, 4), np.arange(60, iterations, 20), [iterations]])
    return np.unique(wanted[wanted <= iterations])


def compute(params: dict, data: str, arrival: Arrival, amount: int, first_run: int, count: int) -> dict[str, np.ndarray]:
    """Return max_i delta^i of a block of runs: `t [times]`, `delta [times, runs, modifications]`.

    Also `last [runs, modifications, agents]`, every agent's delta^i at the end, and `k`, of the same shape, when each agent's
    modified data point arrived. `data` is the SHA-256 of the mushrooms meant: it makes the result depend on them.
    """
    setting = Setting(**params)
    scene, kept = record(setting, data, range(first_run, first_run + count)), times(setting.iterations)
    agents = scene.algorithm.network.agents
    delta = np.empty((len(kept), count, amount, agents))
    arrived = np.empty((count, amount, agents), dtype=np.int64)
    for run in range(count):
        for agent in range(agents):
            k, point = modifications(scene, setting.seed, run, agent, amount)
            k = k if arrival == "uniform" else np.zeros_like(k)
            arrived[run, :, agent] = k
            delta[:, run, :, agent] = spent(scene, run, agent, k, point)[kept]
    return {"t": kept, "delta": delta.max(axis=-1), "last": delta[-1], "k": arrived}


def shards(params: Params, data: mushrooms.Mushrooms) -> list[dict]:
    """Return the arguments of `compute` for every block of runs of every d_0 and arrival."""
    amounts = {"uniform": params.modifications, "first": params.first_modifications}
    return [
        {
            "params": setting.model_dump(),
            "data": data.provenance.sha256,
            "arrival": arrival,
            "amount": amounts[arrival],
            "first_run": start,
            "count": min(RUNS_PER_SHARD, params.runs - start),
        }
        for setting in params.settings()
        for arrival in ARRIVALS
        for start in range(0, params.runs, RUNS_PER_SHARD)
    ]


def run(params: Params, data: mushrooms.Mushrooms) -> pd.DataFrame:
    """Return the budgets as a table: d_0, arrival, t, run, modification, delta (the largest of all agents). Shows progress."""
    params.check(len(data.labels))
    pieces = shards(params, data)
    results = runs.run(compute, pieces, description=f"{params.runs} runs x {params.modifications} modifications")
    return pd.concat([_table(piece, result) for piece, result in zip(pieces, results, strict=True)], ignore_index=True)


def summary(budgets: pd.DataFrame) -> pd.DataFrame:
    """Return per d_0, arrival and t, over runs and modifications: mean, median, 5 % and 95 %, and the share above one.

    The standard error is that of the mean of runs, because modifications of one run are not independent.
    """
    grouped = budgets.groupby(["d_0", "arrival", "t"], sort=True)["delta"]
    table = grouped.agg(mean="mean", median="median", count="count")
    table["low"], table["high"] = grouped.quantile(0.05), grouped.quantile(0.95)
    table["vacuous"] = grouped.apply(lambda delta: float((delta >= 1).mean()))
    per_run = budgets.groupby(["d_0", "arrival", "t", "run"], sort=True)["delta"].mean()
    table["standard_error"] = per_run.groupby(["d_0", "arrival", "t"]).sem()
    return table.reset_index()


def falls(budgets: pd.DataFrame) -> pd.DataFrame:
    """Return by how much the last budget falls from each d_0 to the next larger one: arrival, d_0, next, fall, standard_error.

    Runs and modifications of equal number have the same data and the same replacement, so the differences are paired, and the
    standard error is that of the mean over runs.
    """
    last = budgets[budgets["t"] == budgets["t"].max()]
    per_run = last.groupby(["arrival", "run", "d_0"])["delta"].mean().unstack("d_0")
    fall = -per_run.diff(axis=1).iloc[:, 1:]
    grouped = fall.groupby("arrival").agg(["mean", "sem"])
    rows = [
        (arrival, d_0, following, grouped.loc[arrival, (following, "mean")], grouped.loc[arrival, (following, "sem")])
        for arrival in grouped.index
        for d_0, following in zip(per_run.columns[:-1], per_run.columns[1:], strict=True)
    ]
    return pd.DataFrame(rows, columns=["arrival", "d_0", "next", "fall", "standard_error"])


def quick(params: Params, data: mushrooms.Mushrooms, *, d_0: float, varsigma: float) -> pd.DataFrame:
    """Return the summary of a few modifications of two short runs at another step, in about half a second: for a slider."""
    setting = params.at(d_0=d_0, varsigma=varsigma, iterations=min(80, params.iterations))
    setting.check(len(data.labels))
    piece = {
        "params": setting.model_dump(),
        "data": data.provenance.sha256,
        "arrival": "uniform",
        "amount": 5,
        "first_run": 0,
        "count": 2,
    }
    return summary(_table(piece, _cached(json.dumps(piece))))


@lru_cache(maxsize=64)
def _cached(piece: str) -> dict[str, np.ndarray]:
    return compute(**json.loads(piece))


def _rows(sha256: str, normalise: Normalise) -> tuple[np.ndarray, OneHot]:
    """Return labels and features of the mushrooms meant."""
    table, features = problem(normalise)
    if table.provenance.sha256 != sha256:
        raise ValueError(f"the mushrooms here have SHA-256 {table.provenance.sha256[:12]}, those meant {sha256[:12]}")
    return table.labels, features


def _table(piece: dict, result: dict[str, np.ndarray]) -> pd.DataFrame:
    numbers = range(piece["first_run"], piece["first_run"] + piece["count"])
    index = pd.MultiIndex.from_product([result["t"], numbers, range(piece["amount"])], names=["t", "run", "modification"])
    table = pd.DataFrame({"delta": result["delta"].ravel()}, index=index).reset_index()
    return table.assign(d_0=piece["params"]["d_0"], arrival=piece["arrival"])
