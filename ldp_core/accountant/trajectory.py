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

What the agent *receives* is held fixed: its states are then deterministic (`replay`), all its coins
independent, and its transcript is a product of two-point distributions (`exact`). With (theta_t,
psi_t) under the one data set and (theta'_t, psi'_t) under the other,

    delta_t = (||theta_t - theta'_t||_1 + ||psi_t - psi'_t||_1) / d_t.

The state at t is what is sent at t: a data point that arrives at k first moves the state at k + 1.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ldp_core import quantizer
from ldp_core.accountant.exact import Bracket, Interval
from ldp_core.accountant.monte_carlo import MonteCarlo
from ldp_core.checks import array, as_they_are, every, fit, instance, positive, reals, whole
from ldp_core.optimizer import Algorithm1, Messages, Oracle, Transcript


class Received(NamedTuple):
    """What an agent receives: sum_j R_ij Q(theta_t^j), sum_j C_ij Q(psi_t^j), `[T, batch, dim]`."""

    theta: np.ndarray
    psi: np.ndarray


def received(algorithm: Algorithm1, transcript: Transcript | Sequence[Messages], agent) -> Received:
    """Return what `agent`, or several, receive: all runs of the first, then of the second, ..."""
    messages = transcript.messages if isinstance(transcript, Transcript) else transcript
    agents = np.atleast_1d(_agents(algorithm, agent))
    values = [instance("a message", message, Messages).values() for message in messages]
    if any(psi is None for _, psi in values):
        raise ValueError("transcript: its messages hold no psi, so they are not Algorithm 1's")
    if not values:
        return Received(*np.zeros((2, 0, len(agents), 0)))
    sent = zip((algorithm.network.R, algorithm.network.C), zip(*values, strict=True), strict=True)
    return Received(*(_arriving(matrix, agents, np.stack(all_t)) for matrix, all_t in sent))


def replay(
    algorithm: Algorithm1, agent: Any, heard: Received, oracle: Oracle, theta_0, psi_0=None, start=0
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Yield (t, theta_t, psi_t), t = start ... T-1: the agent's own states `[batch, dim]`.

    This is eq. (4) for one agent, what it receives held fixed. The data enter through
    `oracle(theta [batch, 1, dim], t)`: a batch row is a data set, a run, or, with one `agent` per
    row, an agent. theta_0 and psi_0 (zero by default) are the states `[batch, dim]` at `start`.
    """
    R, C, agents = algorithm.network.R, algorithm.network.C, algorithm.network.agents
    i = _agents(algorithm, agent)
    keep_R, keep_C = (1.0 + R[i, i])[..., None], (1.0 + C[i, i])[..., None]
    iterations = len(heard.theta)
    z = algorithm.network.z(iterations)[:, i][..., None]
    theta = _rows("theta_0", theta_0)
    psi = np.zeros_like(theta) if psi_0 is None else _rows("psi_0", psi_0)
    for t in range(whole("start", start), iterations):
        yield t, theta, psi
        if t + 1 == iterations:
            return
        asked = theta[:, None, :]
        gradients = array(f"oracle(theta, {t})", oracle(asked, t), asked.shape)[:, 0, :]
        following = keep_C * psi + heard.psi[t] + algorithm.schedules.lam(t) * gradients
        theta = keep_R * theta + heard.theta[t] - (following - psi) / (agents * z[t])
        psi = following


def sensitivity(ours, theirs) -> np.ndarray:
    """Return Delta_t: the l1 distance of two states `[..., dim]`."""
    return np.abs(np.atleast_1d(np.subtract(ours, theirs))).sum(axis=-1)


def delta_t(theta, other_theta, psi, other_psi, step: Any) -> np.ndarray:
    """Return the paper's delta_t = (Delta_t^theta + Delta_t^psi) / d_t of states `[..., dim]`."""
    moved = sensitivity(theta, other_theta) + sensitivity(psi, other_psi)
    step = every("step", step, positive, "be positive and finite (eq. (3))")
    fit(states=moved, step=step)
    return moved / step


@dataclass(frozen=True)
class Budget:
    """What the messages of T iterations give away, for a batch of pairs of data sets.

    Series are `[T, batch]`: the paper's `delta_t`, and `variation`, the sum over the coordinates of
    message t of their exact total variations. Cumulative series are `[T + 1, batch]`. `exact` is
    the total variation of the whole transcript, arrays `[batch]`, if it was asked for.
    """

    delta_t: np.ndarray
    variation: np.ndarray
    product: np.ndarray  # cumulative: 1 - product of (1 - total variation) over all coordinates
    exact: Interval | None

    @property
    def paper(self) -> np.ndarray:
        """Return the paper's delta, the cumulative sum of delta_t; above 1 it says nothing."""
        return _cumulative(self.delta_t)

    @property
    def sum(self) -> np.ndarray:
        """Return the cumulative sum of exact total variations, `[T + 1, batch]`."""
        return _cumulative(self.variation)


def budget(
    algorithm: Algorithm1,
    agent: Any,
    heard: Received,
    oracle: Oracle,
    modified: Oracle,
    theta_0,
    psi_0=None,
    *,
    modifications: int | None = None,
    exact: str | None = None,
    samples: int = 10_000,
    seed: int = 0,
    confidence: float = 0.99,
) -> Budget:
    """Return the budget between the data behind `oracle` and those behind `modified`.

    theta_0 and psi_0 `[rows, dim]` start both, and `oracle` gets batches of as many rows.
    `modified` gets batches of `modifications` rows (as many as theta_0 by default): with one row of
    theta_0, one data set is compared with many modified ones. `agent` is as in `replay`.

    `exact` = "bracket" computes the total variation of the transcript between certain bounds, at 16
    bytes for every coordinate that differs, and "monte carlo" estimates it from `samples` draws, at
    the stated confidence. Always paper >= sum >= product >= exact total variation.
    """
    theta_0 = _rows("theta_0", theta_0)
    psi_0 = np.zeros_like(theta_0) if psi_0 is None else _rows("psi_0", psi_0)
    batch = modifications or len(theta_0)
    both = (np.broadcast_to(start, (batch, start.shape[1])) for start in (theta_0, psi_0))
    ours = replay(algorithm, agent, heard, oracle, theta_0, psi_0)
    theirs = replay(algorithm, agent, heard, modified, *both)
    if algorithm.dither is not None or algorithm.degree > 1:
        raise ValueError("a budget is for the coins of eq. (3), without a dither and of degree 1")
    whole = _accountant(exact, batch, samples, seed, confidence)
    moved, variations, survival = np.zeros((3, len(heard.theta), batch))
    for (t, theta, psi), (_, other_theta, other_psi) in zip(ours, theirs, strict=True):
        step = np.broadcast_to(algorithm.schedules.step(t)[np.asarray(agent)], batch)
        moved[t] = delta_t(theta, other_theta, psi, other_psi, step)
        for y, other in ((theta, other_theta), (psi, other_psi)):
            variation = quantizer.total_variation(y, other, step[:, None])
            variations[t] += variation.sum(axis=-1)
            with np.errstate(divide="ignore"):  # a total variation of one leaves no survival: log 0
                survival[t] += np.log1p(-variation).sum(axis=-1)
        if whole is not None:
            states = np.hstack([theta, psi]), np.hstack([other_theta, other_psi])
            whole.add(*states, step[:, None])
    product = -np.expm1(_cumulative(survival))
    return Budget(moved, variations, product, None if whole is None else whole.delta())


def _accountant(exact: str | None, batch: int, samples: int, seed: int, confidence: float):
    if exact in (None, "bracket"):
        return None if exact is None else Bracket(batch)
    if exact == "monte carlo":
        return MonteCarlo(batch, samples, seed, confidence)
    raise ValueError(f"exact = {exact!r} must be None, 'bracket' or 'monte carlo'")


def _cumulative(series: np.ndarray) -> np.ndarray:
    return np.concatenate([np.zeros((1, series.shape[1])), np.cumsum(series, axis=0)])


def _arriving(matrix: np.ndarray, agents: np.ndarray, sent: np.ndarray) -> np.ndarray:
    """Return sum_j M_ij sent^j for the agents i, `[T, len(agents) * runs, dim]`, in edge order."""
    T, runs, _, dim = sent.shape
    arriving = np.zeros((T, len(agents), runs, dim))
    for row, i in enumerate(agents):
        for j in np.flatnonzero(matrix[i] > 0):
            arriving[:, row] += matrix[i, j] * sent[:, :, j]
    return arriving.reshape(T, -1, dim)


def _agents(algorithm: Algorithm1, agent) -> np.ndarray:
    agents, agent = algorithm.network.agents, as_they_are("agent", agent)
    if agent.dtype.kind not in "iu" or ((agent < 0) | (agent >= agents)).any():
        raise ValueError(f"agent = {agent.tolist()} must be in 0 ... {agents - 1}")
    return agent


def _rows(name: str, numbers) -> np.ndarray:
    rows = reals(name, numbers)
    if rows.ndim != 2 or not np.isfinite(rows).all():
        raise ValueError(f"{name} has shape {rows.shape}: it must be [batch, dim], and finite")
    return rows
