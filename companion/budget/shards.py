"""What the agents' messages give away about one data point (section 3.2 and Fig. 3 of the paper).

The paper's protocol: run Algorithm 1, replace one data point of every agent at random, hold fixed
what each agent received, and add up delta_t^i (`accountant.trajectory`). It does not say *which*
data point: `uniform` replaces one of the whole run, at its own time for every agent, `first` the
one that arrives at k = 0. A data point is all that an agent acquires in one iteration (Definition
2), here `samples` mushrooms; it is replaced by as many uniform draws from all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np

from companion import mushrooms as learning
from companion.budget import worst
from companion.budget.params import Params, Setting
from companion.data import mushrooms, streams
from companion.problems import logistic
from companion.problems.onehot import OneHot
from ldp_core import engine, optimizer
from ldp_core.accountant import trajectory
from ldp_core.randomness import Purpose, generator

Arrival = Literal["uniform", "first"]
ARRIVALS: tuple[Arrival, ...] = ("uniform", "first")
RUNS_PER_SHARD = 5
ROWS = 25  # modifications followed together where they arrive at different times


@dataclass(frozen=True, eq=False)
class Scene:
    """Recorded runs: what agents acquired `[runs, agents, iterations, samples]`, what was sent."""

    algorithm: optimizer.Algorithm1
    features: OneHot
    labels: np.ndarray
    numbers: Sequence[int]
    history: np.ndarray
    messages: list[optimizer.Messages]

    def problem(self, history: np.ndarray) -> logistic.Logistic:
        """Return the gradient oracle of histories `[batch, 1, iterations, samples]`."""
        return logistic.Logistic(self.features, self.labels, history)

    def received(self, run: int, agent: int | None = None) -> trajectory.Received:
        """Return what an agent, or each, received in a run (its position), `[T, agents, dim]`."""
        return trajectory.Received(*(sums[:, self._rows(run, agent)] for sums in self._received))

    @cached_property
    def _received(self) -> trajectory.Received:
        agents = range(self.algorithm.network.agents)
        return trajectory.received(self.algorithm, self.messages, agents)

    def unmodified(
        self, run: int, agent: int | None = None
    ) -> list[tuple[int, np.ndarray, np.ndarray]]:
        """Return (t, theta_t, psi_t) for every t: own states of an agent, or each, in a run."""
        rows = self._rows(run, agent)
        return [(t, theta[rows], psi[rows]) for t, theta, psi in self._unmodified]

    @cached_property
    def _unmodified(self) -> list[tuple[int, np.ndarray, np.ndarray]]:
        """Return the states of all agents in all runs, replayed together."""
        runs, agents, *shape = self.history.shape
        oracle = self.problem(self.history.swapaxes(0, 1).reshape(agents * runs, 1, *shape))
        start, who = np.zeros((agents * runs, self.features.dim)), np.repeat(range(agents), runs)
        return list(trajectory.replay(self.algorithm, who, self._received, oracle, start))

    def _rows(self, run: int, agent: int | None) -> slice:
        """Return where an agent's states of a run are, or every agent's: all runs of each."""
        runs = len(self.numbers)
        first = run if agent is None else agent * runs + run
        return slice(first, None if agent is None else first + 1, runs)


def record(setting: Setting, data: str, numbers: Sequence[int]) -> Scene:
    """Return the runs of these numbers, recorded; `data` is the SHA-256 of the mushrooms meant.

    The last few are kept in each process: shards differ in what is replaced more than in the run.
    """
    return _recorded(setting.model_dump_json(), data, tuple(numbers))


@lru_cache(maxsize=8)
def _recorded(text: str, data: str, numbers: tuple[int, ...]) -> Scene:
    setting = Setting.model_validate_json(text)
    table, features = learning.problem(setting.normalise)
    table.provenance.require(data)
    algorithm, transcript = setting.algorithm(), optimizer.Transcript()
    agents = algorithm.network.agents
    shape = agents, setting.iterations, setting.samples, features.rows, setting.test
    history, _ = streams.history(setting.seed, numbers, *shape)
    oracle = logistic.Logistic(features, table.labels, history)
    start = np.zeros((len(numbers), agents, features.dim))
    address = {"seed": setting.seed, "runs": numbers, "observe": transcript}
    optimizer.run(engine.Compiled(algorithm), oracle, start, setting.iterations, **address)
    return Scene(algorithm, features, table.labels, numbers, history, transcript.messages)


def modifications(
    scene: Scene, seed: int, run: int, agent: int, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return (k `[count]`, point `[count, samples]`) of the paper's protocol for a run and agent.

    Modification number j depends on (seed, run number, agent, j) alone.
    """
    points, samples = scene.history.shape[2:]
    k, point = np.empty(count, np.int64), np.empty((count, samples), np.int64)
    for j in range(count):
        random = generator(seed, Purpose.MODIFICATION, scene.numbers[run], agent=agent, t=j)
        k[j], point[j] = random.integers(points), random.choice(scene.features.rows, samples)
    return k, point


def spent(
    scene: Scene,
    run: int,
    agent: int,
    k: np.ndarray,
    point: np.ndarray,
    *,
    until: int | None = None,
    together: int = ROWS,
) -> np.ndarray:
    """Return the paper's delta^i after 0, 1, ... iterations, `[1 + all or until, modifications]`.

    So many modifications are followed `together`, early ones first: a late one changes nothing
    before.
    """
    own = scene.unmodified(run, agent)[:until]
    got = trajectory.Received(*(sums[:until] for sums in scene.received(run, agent)))
    history, iterations = scene.history[run, agent, :until], len(own)
    steps = scene.algorithm.schedules.step(np.arange(iterations))[:, agent]
    total = np.zeros((iterations + 1, len(k)))
    order = np.argsort(k, kind="stable")
    for rows in np.split(order, range(together, len(order), together)):
        start = int(k[rows[0]])
        states = (np.repeat(state, len(rows), axis=0) for state in own[start][1:])
        oracle = scene.problem(worst.adjacent(history, k[rows], point[rows]))
        for t, *changed in trajectory.replay(scene.algorithm, agent, got, oracle, *states, start):
            (theta, psi), (other_theta, other_psi) = own[t][1:], changed
            states = theta, other_theta, psi, other_psi
            total[t + 1, rows] = trajectory.delta_t(*states, steps[t])
    return np.cumsum(total, axis=0)


def times(iterations: int) -> np.ndarray:
    """Return when budgets are kept: densely at first, every 20 iterations later, and the last."""
    few, more = np.arange(0, 20), np.arange(20, 60, 4)
    wanted = np.concatenate([few, more, np.arange(60, iterations, 20), [iterations]])
    return np.unique(wanted[wanted <= iterations])


def compute(
    params: dict, data: str, arrival: Arrival, amount: int, first_run: int, count: int
) -> dict[str, np.ndarray]:
    """Return max_i delta^i of a block of runs: `t [times]`, `delta [times, runs, modifications]`.

    Also `last [runs, modifications, agents]`, every agent's delta^i at the end, and `k`, of the
    same shape, when each agent's modified data point arrived.
    """
    setting = Setting(**params)
    scene = record(setting, data, range(first_run, first_run + count))
    kept, agents = times(setting.iterations), scene.algorithm.network.agents
    delta = np.empty((len(kept), count, amount, agents))
    arrived = np.empty((count, amount, agents), dtype=np.int64)
    for run, agent in np.ndindex(count, agents):
        k, point = modifications(scene, setting.seed, run, agent, amount)
        k = k if arrival == "uniform" else np.zeros_like(k)
        arrived[run, :, agent] = k
        delta[:, run, :, agent] = spent(scene, run, agent, k, point)[kept]
    return {"t": kept, "delta": delta.max(axis=-1), "last": delta[-1], "k": arrived}


def levels(params: dict, data: str, first_run: int, count: int) -> dict[str, np.ndarray]:
    """Return what was sent: `t [times]`, `levels [times, runs, 2, agents, dim]` (theta, psi)."""
    setting = Setting(**params)
    scene = record(setting, data, range(first_run, first_run + count))
    kept = times(setting.iterations)[:-1]
    sent = [np.stack([scene.messages[t].theta, scene.messages[t].psi], axis=1) for t in kept]
    return {"t": kept, "levels": np.stack(sent).astype(np.int32)}


def shards(params: Params, data: mushrooms.Mushrooms) -> list[dict]:
    """Return the arguments of `compute` for every block of runs of every d_0 and arrival."""
    amounts = {"uniform": params.modifications, "first": params.first_modifications}
    return [
        {**block, "arrival": arrival, "amount": amounts[arrival]}
        for setting in params.settings()
        for arrival in ARRIVALS
        for block in blocks(setting, data, params.runs)
    ]


def blocks(setting: Setting, data: mushrooms.Mushrooms, count: int) -> list[dict]:
    """Return what all shards have: the setting, the data, and the runs of each block."""
    found = learning.blocks(count, RUNS_PER_SHARD, data)
    return [{**block, "params": setting.model_dump()} for block in found]
