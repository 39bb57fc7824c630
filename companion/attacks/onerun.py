"""What one training proves against a promise: many canaries, one fair coin each.

Steinke, Nasr and Jagielski, "Privacy auditing with one (1) training run", 2023 (arXiv:2305.08846).
Each of m samples is one of two, by a fair coin; whoever sees everything that was sent guesses r of
the coins, and v guesses are right. If changing one sample keeps (epsilon, delta), then (their
main theorem, in the form of their own program)

    P(v or more right) <= beta + 2 m delta alpha,   Q ~ Binomial(r, e^epsilon / (1 + e^epsilon)),
    beta = P(Q >= v),   alpha = max over i >= 1 of P(v > Q >= v - i) / i.

What has a smaller probability than 5 % is refuted: that gives a lower bound of delta (for a given
epsilon) or of epsilon. **One run cannot show more than delta = 0.05 at 95 %**: an algorithm that
gives everything away with probability 0.05, and else nothing, keeps (0, 0.05), and all its canaries
may be guessed.
"""

from __future__ import annotations

import numpy as np
from scipy import optimize, stats

from ldp_core.optimizer import Algorithm1, State

LEVEL = 0.05  # of the test: how often a promise that is kept may be refuted
MOST = 50.0  # of an epsilon


def tail(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """Return the largest probability of so many right guesses under (epsilon, delta)."""
    beta, alpha = _binomial(guesses, right, epsilon)
    return min(1.0, beta + 2.0 * canaries * delta * alpha)


def least_delta(canaries: int, guesses: int, right: int, epsilon: float = 0.0) -> float:
    """Return the lower 95 % bound of delta(epsilon); 0 when nothing is proven."""
    beta, alpha = _binomial(guesses, right, epsilon)
    return max(0.0, LEVEL - beta) / (2.0 * canaries * alpha) if alpha else 0.0


def least_epsilon(canaries: int, guesses: int, right: int, delta: float = 0.0) -> float:
    """Return the lower 95 % bound of epsilon for a delta; 0 when nothing is proven."""

    def excess(epsilon: float) -> float:
        return tail(canaries, guesses, right, epsilon, delta) - LEVEL

    return float(optimize.brentq(excess, 0.0, MOST)) if right and excess(0.0) < 0 else 0.0


def _binomial(guesses: int, right: int, epsilon: float) -> tuple[float, float]:
    law = stats.binom(guesses, 1.0 / (1.0 + np.exp(-epsilon)))
    below = np.cumsum(law.pmf(np.arange(right - 1, -1, -1)))  # P(right > Q >= right - i)
    return float(law.sf(right - 1)), float(np.max(below / np.arange(1, right + 1), initial=0.0))


class Halfway:
    """The states of agents whose canaries all counted half as one and half as the other sample.

    Whoever knows all but the coins can follow them: what was received is heard, and gradients are
    taken at values that were sent. They differ from the true states by what eq. (4) makes of the
    gradients' differences, and that is how they are computed here.
    """

    def __init__(self, algorithm: Algorithm1, dim: int):
        self.algorithm = algorithm
        self.theta, self.psi = np.zeros((2, algorithm.network.agents, dim))

    def beside(self, state: State) -> State:
        """Return these states at the time of a true one."""
        return State(state.t, state.theta + self.theta, state.psi + self.psi, state.z)

    def move(self, state: State, difference: np.ndarray) -> None:
        """Go on by one iteration; `difference [agents, dim]` is their gradient minus the true."""
        network, lam = self.algorithm.network, float(self.algorithm.schedules.lam(state.t))
        R, C = (np.diagonal(matrix)[:, None] for matrix in (network.R, network.C))
        change = C * self.psi + lam * difference
        scale = network.agents * np.diagonal(state.z)[:, None]
        self.theta, self.psi = (1.0 + R) * self.theta - change / scale, self.psi + change


def guessed(scores: np.ndarray, guesses: int) -> np.ndarray:
    """Return which of the canaries are guessed: those of the largest |score|."""
    chosen = np.zeros(scores.size, dtype=bool)
    chosen[np.argsort(-np.abs(scores.ravel()), kind="stable")[:guesses]] = True
    return chosen.reshape(scores.shape)
