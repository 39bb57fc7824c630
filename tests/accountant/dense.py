"""A small logistic problem in plain numpy, for tests of trajectories and searches; shares no code
with `companion.problems`.
"""

from __future__ import annotations

import numpy as np

from ldp_core import network, optimizer
from ldp_core.randomness import Purpose, generator

ROWS, DIM = 30, 3


class Dense:
    """Gradients of the mean logistic loss over the history so far, `[runs, agents, data points,
    samples]`.

    At time t an agent has the first warm_up + t + 1 data points.
    """

    def __init__(self, history, features=None, warm_up=0):
        rng = generator(21, Purpose.SYNTHETIC)
        table, self.labels = rng.normal(size=(ROWS, DIM)) * 2, rng.choice([-1.0, 1.0], ROWS)
        self.warm_up = warm_up
        self.features, self.history = table if features is None else features, np.asarray(history)

    def __call__(self, theta, t):
        gradients = np.empty_like(theta)
        for run, agent in np.ndindex(theta.shape[:2]):
            rows = self.history[run, agent, : self.warm_up + t + 1].ravel()
            a, b = self.features[rows], self.labels[rows]
            gradients[run, agent] = (
                (-b * (1 - np.tanh(b * (a @ theta[run, agent]) / 2)) / 2) @ a / len(rows)
            )
        return gradients


def network_run(iterations: int, runs: int = 1, seed: int = 3):
    """Return (algorithm, history, states, transcript) of a run of the paper's five agents on the
    small problem.
    """
    algorithm = optimizer.Algorithm1(
        network.paper(), optimizer.paper_schedules(0.5, 0.71, 2.0, 0.01, 0.6)
    )
    rng = generator(seed, Purpose.DATA)
    history = rng.integers(ROWS, size=(runs, 5, max(iterations, 1), 2))
    theta_0, psi_0 = rng.normal(size=(2, runs, 5, DIM))
    states, transcript = [], optimizer.Transcript()

    def observe(state, messages):
        states.append(state)
        transcript(state, messages)

    optimizer.run(
        algorithm, Dense(history), theta_0, iterations, seed=seed, psi_0=psi_0, observe=observe
    )
    return algorithm, history, states, transcript
