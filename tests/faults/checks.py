"""Checks of an implementation of Algorithm 1 that need only run it. Each says how often it may
accuse a right one.

They use one problem, f_i(theta) = a_i |theta - b_i|^2 / 2. Its gradients are affine, so the whole
algorithm is, and the state is that of the unquantised twin plus a weighted sum of quantisation
errors. Given the past, each of these errors has mean zero and lies in an interval of one step: a
martingale to which the Azuma-Hoeffding inequality applies. Rates are proven, not fitted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from ldp_core import quantizer
from ldp_core.network import Network
from ldp_core.optimizer import Algorithm, Algorithm1, Messages, Schedules, State, run
from ldp_core.randomness import Purpose, generator

ROUNDING = 1e-9  # of the largest number in a sum; the right algorithm stays below 1e-12


class Verdict(NamedTuple):
    """`passed` says that the statistic does not exceed its limit."""

    passed: bool
    statistic: float
    limit: float


@dataclass(frozen=True, eq=False)
class Problem:
    """A network, its schedules, and a quadratic function for every agent."""

    network: Network
    schedules: Schedules
    curvature: np.ndarray  # a, [agents]
    target: np.ndarray  # b, [agents, dim]

    @classmethod
    def random(cls, network: Network, schedules: Schedules, dim: int, seed: int) -> Problem:
        random = generator(seed, Purpose.SYNTHETIC)
        return cls(
            network,
            schedules,
            random.uniform(0.5, 1.5, network.agents),
            3.0 * random.standard_normal((network.agents, dim)),
        )

    def oracle(self, theta: np.ndarray, t: int) -> np.ndarray:
        return self.curvature[:, None] * (theta - self.target)

    @property
    def optimum(self) -> np.ndarray:
        return self.curvature @ self.target / self.curvature.sum()


@cache
def twin(problem: Problem, iterations: int) -> np.ndarray:
    """Return theta `[agents, dim]` after so many iterations with nothing quantised: the mean of the
    right algorithm."""
    algorithm = Algorithm1(problem.network, problem.schedules, quantised=False)
    return run(
        algorithm, problem.oracle, np.zeros((1, *problem.target.shape)), iterations, seed=0
    ).theta[0]


@cache
def variance_proxy(problem: Problem, iterations: int) -> np.ndarray:
    """Return V `[agents]`: log E exp(s (theta_T - twin)) <= s^2 V / 2 for every coordinate of an
    agent's theta_T.

    theta_T - twin = sum_t G_t e_t, with e_t the quantisation errors of theta and psi at t.
    Hoeffding's lemma gives an error in an interval of length d_t^j the proxy (d_t^j)^2 / 4, and
    martingale differences add up: V = sum_t G_t^2 (d_t)^2 / 4.
    """
    R, C, m = problem.network.R, problem.network.C, problem.network.agents
    eye, z = np.eye(m), problem.network.z(iterations)
    # d theta_T / d theta_{t+1} and d theta_T / d psi_{t+1}
    to_theta, to_psi = eye, np.zeros((m, m))
    total = np.zeros(m)
    for t in reversed(range(iterations)):
        to_descent = to_psi - to_theta / (m * z[t])  # psi_{t+1} also acts through theta_{t+1}
        steps = problem.schedules.step(t)
        for gain in (to_theta @ (R - np.diag(np.diag(R))), to_descent @ (C - np.diag(np.diag(C)))):
            total += (gain**2) @ steps**2 / 4.0
        gradient = problem.schedules.lam(t) * np.diag(problem.curvature)
        to_theta, to_psi = (
            to_theta @ (eye + R) + to_descent @ gradient,
            to_descent @ (eye + C) + to_theta / (m * z[t]),
        )
    return total


class Record:
    """Every state, every message and the last state of `runs` runs from zero."""

    def __init__(
        self, algorithm: Algorithm, problem: Problem, iterations: int, runs: int, seed: int
    ):
        self.problem, self.iterations, self.runs = problem, iterations, runs
        self.states: list[State] = []
        self.messages: list[Messages] = []
        start = np.zeros((runs, *problem.target.shape))
        self.states.append(
            run(algorithm, problem.oracle, start, iterations, seed=seed, observe=self._keep)
        )

    def _keep(self, state: State, messages: Messages) -> None:
        self.states.append(state)
        self.messages.append(messages)


def unbiased(record: Record, alpha: float) -> Verdict:
    """Check that what is sent has the mean of what is meant. Accuses a right algorithm with
    probability at most `alpha`.

    For theta and for psi it adds the errors, in steps, with predictable weights: 1, and 2 a - 1 for
    a fraction a. Azuma and Hoeffding: each of the four sums, of n terms, exceeds sqrt(n / 2 log(8 /
    alpha)) with probability at most alpha / 4.
    """
    largest = 0.0
    for name in ("theta", "psi"):
        errors, fractions = [], []
        for state, message in zip(record.states, record.messages, strict=False):
            y, step = getattr(state, name), message.step[:, None]
            errors.append((quantizer.value(getattr(message, name), step) - y) / step)
            fractions.append(quantizer.pmf(y, step).upper_probability)
        errors, fractions = np.stack(errors), np.stack(fractions)
        for weights in (1.0, 2.0 * fractions - 1.0):
            largest = max(
                largest,
                abs(float((weights * errors).sum()))
                / math.sqrt(errors.size / 2.0 * math.log(8.0 / alpha)),
            )
    return Verdict(largest <= 1.0, largest, 1.0)


def psi_invariant(record: Record, alpha: float = 0.0) -> Verdict:
    """Check sum_i psi_{t+1}^i = sum_i psi_t^i + sum_j |C_jj| (Q(psi_t^j) - psi_t^j) + lam_t sum_i
    g_t^i. No chance involved.

    C has zero column sums: what leaves an agent arrives, and only the quantisation error of what is
    sent comes on top.
    """
    leaving = -np.diag(record.problem.network.C)[:, None]
    residuals = []
    for t, message in enumerate(record.messages):
        now, after = record.states[t], record.states[t + 1]
        gradients = record.problem.schedules.lam(t) * record.problem.oracle(now.theta, t)
        expected = now.psi + leaving * (message.values()[1] - now.psi) + gradients
        residuals.append(_relative((after.psi - expected).sum(axis=1), after.psi, expected))
    return _small(residuals)


def theta_invariant(record: Record, alpha: float = 0.0) -> Verdict:
    """Check that sum_i u_i theta_{t+1}^i is what it must be. No chance involved.

    u^T R = 0, so it is sum_i u_i (theta_t^i + |R_ii| (Q(theta_t^i) - theta_t^i) - (psi_{t+1}^i -
    psi_t^i) / (m [z_t^i]_i)): nothing but quantisation errors and the descent change it.
    """
    network = record.problem.network
    u, leaving = network.u[:, None], -np.diag(network.R)[:, None]
    mz = network.agents * network.z(record.iterations)
    residuals = []
    for t, message in enumerate(record.messages):
        now, after = record.states[t], record.states[t + 1]
        expected = (
            now.theta
            + leaving * (message.values()[0] - now.theta)
            - (after.psi - now.psi) / mz[t][:, None]
        )
        residuals.append(
            _relative((u * (after.theta - expected)).sum(axis=1), after.theta, expected)
        )
    return _small(residuals)


def z_is_right(record: Record, alpha: float = 0.0) -> Verdict:
    """Check [z_t^i]_i against the diagonal of (I + R)^t. No chance involved."""
    z = record.problem.network.z(record.iterations)
    return _small(
        [_relative(np.diagonal(state.z) - z[t], z[t]) for t, state in enumerate(record.states[:-1])]
    )


def mean_is_the_twin(record: Record, alpha: float) -> Verdict:
    """Check that theta_T, averaged over the runs, is the unquantised twin's. Accuses with
    probability at most `alpha`.

    The average of n runs has the variance proxy V / n; one of K numbers is off by sqrt(2 V / n
    log(2 K / alpha)) with probability at most alpha.
    """
    mean, proxy = (
        twin(record.problem, record.iterations),
        variance_proxy(record.problem, record.iterations),
    )
    width = np.sqrt(2.0 * proxy / record.runs * math.log(2.0 * mean.size / alpha))
    statistic = float((np.abs(record.states[-1].theta.mean(axis=0) - mean) / width[:, None]).max())
    return Verdict(statistic <= 1.0, statistic, 1.0)


def converges(record: Record, alpha: float) -> Verdict:
    """Check the mean square distance of theta_T from the optimum, over the runs. Accuses with
    probability at most `alpha`.

    With n independent runs of proxy V, mean (theta_T - twin)^2 exceeds (1 + x) V with probability
    at most exp(-n / 2 (x - log(1 + x))), because E exp(s X^2) <= (1 - 2 s V)^(-1/2); the distance
    of the twin from the optimum comes on top (Minkowski). x is chosen for alpha / K, with K
    numbers.
    """
    mean, proxy = (
        twin(record.problem, record.iterations),
        variance_proxy(record.problem, record.iterations),
    )
    excess = _chi_square_excess(math.log(mean.size / alpha), record.runs)
    limit = np.abs(mean - record.problem.optimum) + np.sqrt((1.0 + excess) * proxy)[:, None]
    distance = np.sqrt(((record.states[-1].theta - record.problem.optimum) ** 2).mean(axis=0))
    worst = np.unravel_index(np.argmax(distance / limit), limit.shape)
    return Verdict(bool((distance <= limit).all()), float(distance[worst]), float(limit[worst]))


def _chi_square_excess(log_term: float, runs: int) -> float:
    """Return the smallest x with n / 2 (x - log(1 + x)) >= log_term, up to rounding upwards."""
    low, high = 0.0, 1.0
    while runs / 2.0 * (high - math.log1p(high)) < log_term:
        high *= 2.0
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (
            (middle, high)
            if runs / 2.0 * (middle - math.log1p(middle)) < log_term
            else (low, middle)
        )
    return high


def _relative(residual: np.ndarray, *scales: np.ndarray) -> float:
    return float(np.abs(residual).max() / max(1.0, *(float(np.abs(s).max()) for s in scales)))


def _small(residuals: list[float]) -> Verdict:
    return Verdict(max(residuals) <= ROUNDING, max(residuals), ROUNDING)


CHECKS = {
    "unbiased coins": unbiased,
    "psi invariant": psi_invariant,
    "theta invariant": theta_invariant,
    "z": z_is_right,
    "mean of the runs": mean_is_the_twin,
    "convergence": converges,
}
