"""The budget of one trajectory: what two adjacent data sets of an agent change in what it sends.

    >>> from ldp_core import network
    >>> from ldp_core.optimizer import Schedules, run
    >>> algorithm = Algorithm1(network.paper(), Schedules(0.5, 0.71, (2.0,) * 5, (0.6,) * 5))
    >>> transcript = Transcript()
    >>> start = np.ones((1, 5, 3))
    >>> _ = run(algorithm, lambda theta, t: theta, start, 4, seed=0, observe=transcript)
    >>> oracles = [lambda theta, t, d=d: theta + d / (t + 1) for d in (0.0, 0.1)]  # D and D'
    >>> spent = budget(algorithm, 0, received(algorithm, transcript, 0), *oracles, np.ones((1, 3)))
    >>> spent.delta_t[:, 0].round(3).tolist()
    [0.0, 0.136, 0.14, 0.114]

Local differential privacy compares an agent's messages under two data sets while everything the
agent *receives* is held fixed. Given its data and what it received an agent's states are
deterministic (`replay`), all its coins are independent, and its transcript is a product of
two-point distributions (`exact`). At each time t, with (theta_t, psi_t) under the one data set and
(theta'_t, psi'_t) under the other,

    delta_t = (||theta_t - theta'_t||_1 + ||psi_t - psi'_t||_1) / d_t.

Time: the state at t is what is sent at t. A data point that arrives at k enters the gradient at k
and first moves the state at k + 1, so delta_t = 0 for t <= k.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ldp_core import quantizer
from ldp_core.accountant.exact import Bracket, Interval
from ldp_core.accountant.monte_carlo import MonteCarlo
from ldp_core.checks import array, reals, whole
from ldp_core.optimizer import Algorithm1, Messages, Oracle, Transcript


class Received(NamedTuple):
    """What an agent receives, already summed: sum_j R_ij Q(theta_t^j) and sum_j C_ij Q(psi_t^j).

    Both are `[T, batch, dim]`.
    """

    theta: np.ndarray
    psi: np.ndarray


def received(algorithm: Algorithm1, transcript: Transcript | Sequence[Messages], agent) -> Received:
    """Return what `agent` receives in the runs of a transcript.

    `agent` is a number, or a sequence of A numbers: the batch axis then holds all runs of the first
    agent, after them all runs of the second, and so on (A x runs rows).
    """
    messages = transcript.messages if isinstance(transcript, Transcript) else transcript
    agents = _agents(algorithm, np.atleast_1d(agent))
    values = [message.values() for message in messages]
    if any(psi is None for _, psi in values):
        rule = "so they are not those of Algorithm 1"
        raise ValueError(f"transcript: its messages hold no psi, {rule}")
    if not values:
        return Received(*np.zeros((2, 0, len(agents), 0)))
    R, C = algorithm.network.R, algorithm.network.C
    theta, psi = zip(*values, strict=True)
    sums = [[_arriving(m, agents, x) for x in sent] for m, sent in ((R, theta), (C, psi))]
    return Received(*(np.stack(x) for x in sums))


def replay(
    algorithm: Algorithm1,
    agent,
    received: Received,
    oracle: Oracle,
    theta_0,
    psi_0=None,
    start: int = 0,
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Yield (t, theta_t, psi_t), t = start ... T-1: the agent's own states `[batch, dim]`.

    This is eq. (4) for one agent, what it receives held fixed, and deterministic. The data enter
    through `oracle(theta [batch, 1, dim], t)`: a batch row is a data set (a modification), or a
    run, or, with `agent` a sequence of one number per row, an agent. theta_0 and psi_0 (zero by
    default) are the states `[batch, dim]` at `start`; what was received may have one row for all.
    The oracle is asked for t = start ... T-2.
    """
    R, C, agents = algorithm.network.R, algorithm.network.C, algorithm.network.agents
    i = _agents(algorithm, np.asarray(agent))
    keep_R, keep_C = (1.0 + R[i, i])[..., None], (1.0 + C[i, i])[..., None]
    iterations = len(received.theta)
    z = algorithm.network.z(iterations)[:, i][..., None]
    theta = _rows("theta_0", theta_0)
    psi = np.zeros_like(theta) if psi_0 is None else _rows("psi_0", psi_0)
    for t in range(start, iterations):
        yield t, theta, psi
        if t + 1 == iterations:
            return
        asked = theta[:, None, :]
        gradients = array(f"oracle(theta, {t})", oracle(asked, t), asked.shape)[:, 0, :]
        following = keep_C * psi + received.psi[t] + algorithm.schedules.lam(t) * gradients
        theta = keep_R * theta + received.theta[t] - (following - psi) / (agents * z[t])
        psi = following


def sensitivity(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Return Delta_t: the l1 distance of two states `[..., dim]`."""
    return np.abs(ours - theirs).sum(axis=-1)


def delta_t(theta, other_theta, psi, other_psi, step) -> np.ndarray:
    """Return the paper's delta_t = (Delta_t^theta + Delta_t^psi) / d_t of states `[..., dim]`."""
    return (sensitivity(theta, other_theta) + sensitivity(psi, other_psi)) / step


@dataclass(frozen=True)
class Budget:
    """What the messages of T iterations give away, for a batch of pairs of data sets.

    Series are `[T, batch]`: `sensitivity_theta` and `sensitivity_psi` (Delta_t, l1), `step` (d_t),
    and `variation`, the sum over the coordinates of message t of their exact total variations.
    Cumulative series are `[T + 1, batch]`: entry n is the budget of the first n iterations. `exact`
    holds delta(epsilon) of the whole transcript, arrays `[len(times), len(epsilons), batch]`, where
    times are numbers of iterations; it is None when it was not asked for.
    """

    sensitivity_theta: np.ndarray
    sensitivity_psi: np.ndarray
    step: np.ndarray
    variation: np.ndarray
    product: np.ndarray  # cumulative: 1 - product of (1 - total variation) over all coordinates
    times: tuple[int, ...]
    epsilons: tuple[float, ...]
    exact: Interval | None

    @property
    def delta_t(self) -> np.ndarray:
        """Return the paper's delta_t, `[T, batch]`."""
        return (self.sensitivity_theta + self.sensitivity_psi) / self.step

    @property
    def paper(self) -> np.ndarray:
        """Return the paper's delta, the cumulative sum of delta_t; above 1 it says nothing."""
        return _cumulative(self.delta_t)

    @property
    def sum(self) -> np.ndarray:
        """Return the cumulative sum of exact total variations, `[T + 1, batch]`."""
        return _cumulative(self.variation)

    @property
    def total_variation(self) -> Interval | None:
        """Return the exact total variation `[len(times), batch]`, if epsilon = 0 was asked for."""
        if self.exact is None or 0.0 not in self.epsilons:
            return None
        lower, estimate, upper = (x[:, self.epsilons.index(0.0)] for x in self.exact[:3])
        return Interval(lower, estimate, upper, self.exact.confidence)


def budget(
    algorithm: Algorithm1,
    agent,
    received: Received,
    oracle: Oracle,
    modified: Oracle,
    theta_0,
    psi_0=None,
    *,
    modifications: int | None = None,
    exact: str | None = None,
    times: Sequence[int] | None = None,
    epsilons: Sequence[float] = (0.0,),
    samples: int = 10_000,
    seed: int = 0,
    confidence: float = 0.99,
) -> Budget:
    """Return the budget between the data behind `oracle` and those behind `modified`.

    theta_0 and psi_0 `[rows, dim]` start both, and `oracle` gets batches of as many rows.
    `modified` gets batches of `modifications` rows (as many as theta_0 by default): with one row of
    theta_0, one data set is compared with many modified ones. `agent` is as in `replay`.

    `exact` = "bracket" computes delta(epsilon) at the given times (numbers of iterations; T by
    default) between certain bounds, at 16 bytes for every coordinate that differs, and "monte
    carlo" estimates it from `samples` draws, each interval with the stated confidence. Always

        paper  >=  sum  >=  product  >=  exact total variation.
    """
    theta_0 = _rows("theta_0", theta_0)
    psi_0 = np.zeros_like(theta_0) if psi_0 is None else _rows("psi_0", psi_0)
    batch, iterations = modifications or len(theta_0), len(received.theta)
    times, epsilons = _times(times, iterations), tuple(float(epsilon) for epsilon in epsilons)
    theta_all, psi_all = (
        np.broadcast_to(start, (batch, start.shape[1])) for start in (theta_0, psi_0)
    )
    ours = replay(algorithm, agent, received, oracle, theta_0, psi_0)
    theirs = replay(algorithm, agent, received, modified, theta_all, psi_all)
    if algorithm.dither is not None or algorithm.degree > 1:
        raise ValueError("a budget is for the coins of eq. (3), without a dither and of degree 1")
    series, whole = _Series(iterations, batch), None
    if exact is not None:
        whole = _Exact(_accountant(exact, batch, samples, seed, confidence), times, epsilons)
    for (t, theta, psi), (_, other_theta, other_psi) in zip(ours, theirs, strict=True):
        step = np.broadcast_to(algorithm.schedules.step(t)[np.asarray(agent)], batch)
        series.add(t, step, theta, other_theta, psi, other_psi)
        if whole is not None:
            whole.add(t, step, np.hstack([theta, psi]), np.hstack([other_theta, other_psi]))
    return series.budget(times, epsilons, whole.finished() if whole is not None else None)


def _accountant(exact: str, batch: int, samples: int, seed: int, confidence: float):
    if exact == "bracket":
        return Bracket(batch)
    if exact == "monte carlo":
        return MonteCarlo(batch, samples, seed, confidence)
    raise ValueError(f"exact = {exact!r} must be None, 'bracket' or 'monte carlo'")


class _Series:
    """The series of a budget, filled one iteration at a time."""

    def __init__(self, iterations: int, batch: int):
        shape = (5, iterations, batch)
        self.theta, self.psi, self.step, self.variation, self.survival = np.zeros(shape)

    def add(self, t: int, step, theta, other_theta, psi, other_psi) -> None:
        self.step[t] = step
        self.theta[t] = sensitivity(theta, other_theta)
        self.psi[t] = sensitivity(psi, other_psi)
        for y, other in ((theta, other_theta), (psi, other_psi)):
            variation = quantizer.total_variation(y, other, step[:, None])
            self.variation[t] += variation.sum(axis=-1)
            with np.errstate(divide="ignore"):  # a total variation of one leaves no survival: log 0
                self.survival[t] += np.log1p(-variation).sum(axis=-1)

    def budget(self, times, epsilons, exact: Interval | None) -> Budget:
        product = -np.expm1(_cumulative(self.survival))
        series = (self.theta, self.psi, self.step, self.variation)
        return Budget(*series, product, times, epsilons, exact)


class _Exact:
    """The exact delta(epsilon) at chosen times, from one pass."""

    def __init__(self, accountant: Bracket | MonteCarlo, times, epsilons):
        self.accountant, self.times, self.epsilons = accountant, times, epsilons
        self.found: list[list[Interval]] = []
        self.look(0)

    def add(self, t: int, step, y, other) -> None:
        self.accountant.add(y, other, step[:, None])
        self.look(t + 1)

    def look(self, iterations: int) -> None:
        if iterations in self.times:
            self.found.append([self.accountant.delta(epsilon) for epsilon in self.epsilons])

    def finished(self) -> Interval:
        low, middle, high = (
            np.array([[x[part] for x in row] for row in self.found]) for part in range(3)
        )
        return Interval(low, middle, high, self.found[0][0].confidence)


def _cumulative(series: np.ndarray) -> np.ndarray:
    return np.concatenate([np.zeros((1, series.shape[1])), np.cumsum(series, axis=0)])


def _times(times: Sequence[int] | None, iterations: int) -> tuple[int, ...]:
    times = (iterations,) if times is None else tuple(whole("times", time) for time in times)
    rising = bool(times) and list(times) == sorted(set(times))
    if not rising or not all(0 <= time <= iterations for time in times):
        rule = f"within 0 ... {iterations}, the number of iterations received"
        raise ValueError(f"times = {times} must increase {rule}")
    return times


def _arriving(matrix: np.ndarray, agents: np.ndarray, sent: np.ndarray) -> np.ndarray:
    """Return sum_j M_ij sent^j for the agents i, `[len(agents) * runs, dim]`, in edge order."""
    arriving = np.zeros((len(agents), len(sent), sent.shape[-1]))
    for row, i in zip(arriving, agents, strict=True):
        for j in np.flatnonzero(matrix[i] > 0):
            row += matrix[i, j] * sent[:, j]
    return arriving.reshape(-1, sent.shape[-1])


def _agents(algorithm: Algorithm1, agent: np.ndarray) -> np.ndarray:
    agents = algorithm.network.agents
    if not np.issubdtype(agent.dtype, np.integer) or ((agent < 0) | (agent >= agents)).any():
        raise ValueError(f"agent = {agent.tolist()} must be in 0 ... {agents - 1}")
    return agent


def _rows(name: str, numbers) -> np.ndarray:
    rows = reals(name, numbers)
    if rows.ndim != 2 or not np.isfinite(rows).all():
        raise ValueError(f"{name} has shape {rows.shape}: it must be [batch, dim], and finite")
    return rows
