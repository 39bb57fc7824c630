"""An example of Algorithm 1 that is small enough to print: three agents, one number each.

Agent i wants its number near TARGETS[i], f^i(theta) = (theta - target)^2 / 2; together they want
the mean of the targets. Notebook 1 writes eqs. (3) and (4) with these names.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from ldp_core import network, optimizer

SEED, ROUNDS = 0, 3
TARGETS = np.array([-1.0, 0.0, 4.0])
EDGES = ((0, 1), (1, 2), (2, 0), (0, 2))  # (from, to): agent 0 is heard by both others
NETWORK = network.from_edges(3, EDGES, EDGES, weight=0.3)
SCHEDULES = optimizer.paper_schedules(0.5, 0.71, 1.0, 0.0, 0.6, agents=3)
R, C, m = NETWORK.R, NETWORK.C, NETWORK.agents
lam, d, diag, floor = SCHEDULES.lam, SCHEDULES.step, np.diagonal, np.floor


def gradient(theta: np.ndarray) -> np.ndarray:
    """Return the gradients of all agents' losses, each at its own number."""
    return theta - TARGETS


def others(matrix: np.ndarray) -> np.ndarray:
    """Return the weights of what is received: the matrix without its diagonal."""
    return matrix - np.diag(np.diagonal(matrix))


def coins(t: int) -> np.ndarray:
    """Return the coins of iteration t `[2, agents]`, theta's and then psi's: the engine's own."""
    return optimizer.Algorithm1(NETWORK, SCHEDULES).coins(SEED)([0], t, 1)[0, :, :, 0]


def rounds(iteration: Callable, count: int = ROUNDS) -> pd.DataFrame:
    """Return theta and psi of every agent at t = 0 ... count, by (t, theta, psi, z) -> the next."""
    states = [(np.zeros(m), np.zeros(m), np.eye(m))]
    for t in range(count):
        states.append(iteration(t, *states[-1]))
    columns = {f"t = {t}": [*theta, *psi] for t, (theta, psi, _) in enumerate(states)}
    names = [[name for name in ("theta", "psi") for _ in range(m)], [*range(1, m + 1)] * 2]
    return pd.DataFrame(columns, index=pd.MultiIndex.from_arrays(names, names=["", "agent"]))


def engine(algorithm: optimizer.Algorithm, count: int = ROUNDS) -> np.ndarray:
    """Return theta and psi after `count` iterations of an algorithm of `ldp_core`."""

    def oracle(theta: np.ndarray, t: int) -> np.ndarray:
        return gradient(theta[0, :, 0])[None, :, None]

    last = optimizer.run(algorithm, oracle, np.zeros((1, m, 1)), count, seed=SEED)
    return np.concatenate([last.theta.ravel(), last.psi.ravel()])
