"""How fast is the full-history logistic engine, against a per-agent numpy loop and against what the
machine could do?"""

from __future__ import annotations

import tracemalloc

import numba
import numpy as np

from benchmarks import best
from companion.data import mushrooms, streams
from companion.problems.logistic import Logistic
from companion.problems.onehot import OneHot
from ldp_core import engine, network, optimizer

AGENTS, SAMPLES, SEED, REPEATS = 5, 2, 0, 7


def main(quick: bool = False) -> dict[str, float]:
    """Print and return the measurements; `quick` makes them small enough for a test."""
    data = mushrooms.load()
    features = OneHot(data.codes, data.sizes)
    runs = 20 if quick else 200
    results: dict[str, float] = {}
    for steps in (10, 20) if quick else (100, 1000):
        history, _ = streams.history(SEED, range(runs), AGENTS, steps, SAMPLES, features.rows, 2000)
        engine = _engine_seconds(features, data.labels, history)
        loop = _loop_seconds(features, data.labels, history[0])
        oracle = _oracle_seconds(features, data.labels, history)
        rate = AGENTS * SAMPLES * steps / oracle / 1e6
        results[f"speed-up at {steps} history steps"] = loop / engine
        results[f"million sample-gradients/s at {steps}"] = rate
        print(
            f"history of {steps} steps, {runs} runs: a run-iteration takes {engine * 1e6:.0f} us "
            f"in the engine, {loop * 1e6:.0f} us in the per-agent numpy loop: "
            f"{loop / engine:.1f} times faster\n  gradients alone: {rate:.0f} million "
            f"sample-gradients a second on {numba.get_num_threads()} threads"
        )
    results.update(_ceilings(features))
    if not quick:
        results["GB for 2000 runs x 1000 iterations"] = _memory(features, data.labels)
    return results


def _algorithm() -> optimizer.Algorithm1:
    return optimizer.Algorithm1(
        network.paper(), optimizer.paper_schedules(0.5, 0.71, 2.0, 0.01, 0.6)
    )


def _engine_seconds(features: OneHot, labels: np.ndarray, history: np.ndarray) -> float:
    """Return seconds per run for one full iteration at the end of the history: coins, messages,
    gradients, updates."""
    algorithm, oracle = engine.Compiled(_algorithm()), Logistic(features, labels, history)
    runs, t = range(len(history)), history.shape[2] - 1
    theta = np.random.default_rng(SEED).normal(size=(len(history), AGENTS, features.dim))
    state = optimizer.State(t, theta, theta, np.eye(AGENTS))
    coins = algorithm.coins(SEED)

    def iteration():
        return algorithm.step(state, oracle(theta, t), coins(runs, t, features.dim))

    return best(iteration, 15) / len(history)


def _oracle_seconds(features: OneHot, labels: np.ndarray, history: np.ndarray) -> float:
    oracle = Logistic(features, labels, history)
    theta = np.random.default_rng(SEED).normal(size=(len(history), AGENTS, features.dim))
    return best(lambda: oracle(theta, history.shape[2] - 1), REPEATS) / len(history)


def _loop_seconds(features: OneHot, labels: np.ndarray, history: np.ndarray) -> float:
    """Return the same for one run written with numpy, one agent after the other, its history as a
    dense matrix kept ready."""
    algorithm, (agents, steps, _) = _algorithm(), history.shape
    R, C = algorithm.network.R, algorithm.network.C
    rows = [features.dense(history[i].ravel()) for i in range(agents)]
    signs = [labels[history[i].ravel()] for i in range(agents)]
    t, generator = steps - 1, np.random.default_rng(SEED)
    theta = generator.normal(size=(agents, features.dim))
    psi, z = theta.copy(), np.eye(agents)
    lam, d = algorithm.schedules.lam(t), algorithm.schedules.step(t)

    def quantise(y, step):
        lower = np.floor(y / step)
        return (lower + (generator.random(y.shape) < y / step - lower)) * step

    def iteration():
        Q_theta = [quantise(theta[i], d[i]) for i in range(agents)]
        Q_psi = [quantise(psi[i], d[i]) for i in range(agents)]
        for i in range(agents):
            weights = signs[i] / (1.0 + np.exp(signs[i] * (rows[i] @ theta[i])))
            gradient = -(weights @ rows[i]) / len(weights)
            next_psi = (
                (1 + C[i, i]) * psi[i]
                + sum(C[i, j] * Q_psi[j] for j in range(agents) if j != i)
                + lam * gradient
            )
            next_theta = (1 + R[i, i]) * theta[i] + sum(
                R[i, j] * Q_theta[j] for j in range(agents) if j != i
            )
            next_theta -= (next_psi - psi[i]) / (agents * z[i, i])
        return next_theta

    return best(iteration, 30)


def _ceilings(features: OneHot) -> dict[str, float]:
    """Print what the machine could do at best: coins from numpy, multiply-adds from a dense matrix
    product, copied bytes."""
    generator, out = np.random.Generator(np.random.Philox(SEED)), np.empty(10**6)
    coins = 1e6 / best(lambda: generator.random(out=out), REPEATS)
    a = np.random.default_rng(SEED).normal(size=(600, 600))
    flops = 2 * 600**3 / best(lambda: a @ a, REPEATS)
    copied = out.nbytes * 2 / best(out.copy, REPEATS)
    # one addition per attribute, forward and back, as dense hardware counts
    per_sample = 2 * 2 * features.codes.shape[1]
    print(
        f"ceilings: {coins / 1e6:.0f} million coins/s on one thread; matrix product "
        f"{flops / 1e9:.0f} GFLOP/s, which is "
        f"{flops / per_sample / 1e6:.0f} million sample-gradients/s if only additions counted; "
        f"copy {copied / 1e9:.0f} GB/s"
    )
    return {"million coins/s": coins / 1e6, "GFLOP/s": flops / 1e9}


def _memory(features: OneHot, labels: np.ndarray) -> float:
    """Return the peak memory, in GB, of 2000 runs with 1000 iterations of history at the last three
    iterations."""
    tracemalloc.start()
    runs = range(2000)
    history, test = streams.history(SEED, runs, AGENTS, 1000, SAMPLES, features.rows, 2000)
    oracle, algorithm = Logistic(features, labels, history), engine.Compiled(_algorithm())
    coins = algorithm.coins(SEED)
    state = algorithm.init(np.zeros((2000, AGENTS, features.dim)))
    for t in (0, 500, 999):
        state, _ = algorithm.step(state, oracle(state.theta, t), coins(runs, t, features.dim))
    peak = tracemalloc.get_traced_memory()[1] / 1e9
    tracemalloc.stop()
    print(
        f"2000 runs x 5 agents x 1000 iterations: {peak:.2f} GB at the peak, test sets of "
        f"{test.shape[2]} rows included"
    )
    return peak
