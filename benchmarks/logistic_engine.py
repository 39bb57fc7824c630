"""How fast is the full-history logistic engine, against a per-agent numpy loop?

A run-iteration at the end of the history: coins, messages, gradients, updates. The loop keeps each
agent's history ready as a dense matrix.
"""

from __future__ import annotations

import numpy as np

from benchmarks import medians
from companion.data import mushrooms, streams
from companion.problems.logistic import Logistic
from companion.problems.onehot import OneHot
from ldp_core import engine, network, optimizer

AGENTS, SAMPLES, SEED = 5, 2, 0


def main(quick: bool = False) -> dict[str, float]:
    """Return the speed-up by length of the history; `quick` makes it small enough for a test."""
    data = mushrooms.load()
    features, results = OneHot(data.codes, data.sizes), {}
    for steps in (10, 20) if quick else (100, 1000):
        shape = AGENTS, steps, SAMPLES, features.rows, 2000
        history, _ = streams.history(SEED, range(20 if quick else 200), *shape)
        ways = {
            "engine": _engine(features, data.labels, history),
            "loop": _loop(features, data.labels, history[0]),
        }
        taken = medians(ways, 15)
        results[f"speed-up at {steps} steps"] = taken["loop"] * len(history) / taken["engine"]
    return results


def _algorithm() -> optimizer.Algorithm1:
    schedules = optimizer.paper_schedules(0.5, 0.71, 2.0, 0.01, 0.6)
    return optimizer.Algorithm1(network.paper(), schedules)


def _engine(features: OneHot, labels: np.ndarray, history: np.ndarray):
    """Return one iteration of all runs."""
    algorithm, oracle = engine.Compiled(_algorithm()), Logistic(features, labels, history)
    runs, t = range(len(history)), history.shape[2] - 1
    theta = np.random.default_rng(SEED).normal(size=(len(history), AGENTS, features.dim))
    state, coins = optimizer.State(t, theta, theta, np.eye(AGENTS)), algorithm.coins(SEED)
    return lambda: algorithm.step(state, oracle(theta, t), coins(runs, t, features.dim))


def _loop(features: OneHot, labels: np.ndarray, history: np.ndarray):
    """Return the same for one run written with numpy, one agent after the other."""
    algorithm, t, generator = _algorithm(), history.shape[1] - 1, np.random.default_rng(SEED)
    R, C = (m - np.diag(np.diagonal(m)) for m in (algorithm.network.R, algorithm.network.C))
    keep_R, keep_C = 1.0 - R.sum(axis=1), 1.0 - C.sum(axis=0)
    rows = [features.dense(own.ravel()) for own in history]
    signs = [labels[own.ravel()] for own in history]
    psi = theta = generator.normal(size=(AGENTS, features.dim))
    lam, d = algorithm.schedules.lam(t), algorithm.schedules.step(t)[:, None]

    def quantise(y: np.ndarray) -> np.ndarray:
        lower = np.floor(y / d)
        return (lower + (generator.random(y.shape) < y / d - lower)) * d

    def iteration() -> None:
        sent_theta, sent_psi = quantise(theta), quantise(psi)
        for i in range(AGENTS):
            weights = signs[i] / (1.0 + np.exp(signs[i] * (rows[i] @ theta[i])))
            gradient = -(weights @ rows[i]) / len(weights)
            following = keep_C[i] * psi[i] + C[i] @ sent_psi + lam * gradient
            keep_R[i] * theta[i] + R[i] @ sent_theta - (following - psi[i]) / AGENTS

    return iteration
