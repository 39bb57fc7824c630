"""Notebook 1: the runs of Fig. 2, long runs for Theorem 1 and Remark 2, and a map of limits.

The long runs' loss is L2-regularised logistic regression over all mushrooms, so that an optimum
exists (the one-hot mushrooms are linearly separable: without the L2 term Assumption 1 fails). Every
agent draws from all rows, so F is the mean over them.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import pandas as pd

from companion import mushrooms as learning
from companion import runs
from companion.convergence.params import LONG_RUNS_PER_SHARD, UNQUANTISED, Params
from companion.data import mushrooms, streams
from companion.params import AgentParams, Count, Normalise, NotNegative
from companion.problems import logistic
from companion.problems.onehot import OneHot
from ldp_core import network, optimizer

Data = mushrooms.Mushrooms
OPTIMUM_GAP = 1e-10
OURS: tuple[learning.Variant, ...] = ("dithered", "at sent")
MEASURES = {
    "consensus": "mean over agents of ||theta^i - thetabar||^2",
    "tracking": "mean over agents of ||psi^i - v_i psibar||^2",
    "gradient": "||grad F(thetabar)||^2",
    "gap": "F(thetabar) - F*",
}


def accuracies(params: Params, data: Data) -> pd.DataFrame:
    """Return the accuracies of Fig. 2's runs: variant, t, run, agent, accuracy."""
    variants = (*learning.PAPER, "dithered")
    pieces = learning.shards(params.into(learning.Params), data, variants)
    words = f"{params.runs} runs x {len(variants)} variants"
    results = runs.run(learning.compute, pieces, description=words)
    return pd.concat(map(learning.table, pieces, results), ignore_index=True)


def sweep(params: Params, data: Data) -> pd.DataFrame:
    """Return the map's last accuracies: topology, weight, d_0, variant, run, accuracy."""
    points = params.points() if params.sweep_runs else []
    pieces = [(point, piece) for point in points for piece in learning.shards(point, data)]
    words = f"{len(points)} networks and steps"
    results = runs.run(learning.compute, [piece for _, piece in pieces], description=words)
    tables = [_last(*pair, result) for pair, result in zip(pieces, results, strict=True)]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def _last(point: learning.Params, piece: dict, result: dict) -> pd.DataFrame:
    """Return the last accuracy of a shard's runs, with their point of the map."""
    accuracy = result["accuracy"][-1].mean(axis=1)
    where = {"topology": point.topology, "weight": point.weight, "d_0": point.d_0}
    numbers = piece["first_run"] + np.arange(piece["count"])
    return pd.DataFrame(
        {"run": numbers, "accuracy": accuracy, "variant": piece["variant"], **where}
    )


class LongRun(AgentParams):
    """What a block of long runs depends on."""

    iterations: Count
    samples: Count
    l2: NotNegative
    normalise: Normalise


def long_runs(params: Params, data: Data) -> pd.DataFrame:
    """Return the MEASURES of all long runs: variant, d_0, run, t and one column a measure."""
    asked = [("quantised" if d_0 else "unquantised", d_0) for d_0 in params.rate_d_0]
    asked += [(variant, paper_step(params)) for variant in OURS]
    return _long(params, data, asked, params.l2)


def plain_runs(params: Params, data: Data) -> pd.DataFrame:
    """Return the same for the loss without its L2 term, at the paper's d_0; `gap` is F itself."""
    asked = [("unquantised", UNQUANTISED), ("quantised", paper_step(params))]
    return _long(params, data, asked, l2=0.0)


def paper_step(params: Params) -> float:
    """Return the quantisation step among those compared that is nearest to the paper's."""
    steps = [d_0 for d_0 in params.rate_d_0 if d_0 != UNQUANTISED]
    return min(steps, key=lambda d_0: abs(d_0 - params.d_0))


def _long(params: Params, data: Data, asked: list[tuple], l2: float) -> pd.DataFrame:
    settings = params.into(LongRun, iterations=params.rate_iterations, l2=l2)
    common = settings.model_dump(exclude={"d_0"})
    pieces = [
        {**block, "params": {**common, **({"d_0": d_0} if d_0 else {})}, "variant": variant}
        for variant, d_0 in asked
        for block in learning.blocks(params.rate_runs, LONG_RUNS_PER_SHARD, data)
    ]
    words = f"{params.rate_runs} long runs x {len(asked)} kinds"
    results = runs.run(compute, pieces, description=words)
    tables = [_series(piece, result) for piece, result in zip(pieces, results, strict=True)]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def _series(piece: dict, result: dict[str, np.ndarray]) -> pd.DataFrame:
    numbers = range(piece["first_run"], piece["first_run"] + piece["count"])
    index = pd.MultiIndex.from_product([result["t"], numbers], names=["t", "run"])
    columns = pd.DataFrame({name: result[name].ravel() for name in MEASURES}, index=index)
    d_0 = piece["params"].get("d_0", UNQUANTISED)
    return columns.reset_index().assign(d_0=d_0, variant=piece["variant"])


def compute(
    params: dict, data: str, variant: learning.Variant, first_run: int, count: int
) -> dict[str, np.ndarray]:
    """Return the four MEASURES `[times, runs]` and `t` of a block of runs of one variant."""
    settings, numbers = LongRun(**params), range(first_run, first_run + count)
    table, features, best = _reference(settings.normalise, settings.l2)
    table.provenance.require(data)
    plain, iterations, rows = settings.algorithm(), settings.iterations, np.arange(features.rows)
    net, wanted = plain.network, set(times(iterations).tolist())
    everything = np.broadcast_to(rows, (count, 1, 1, features.rows))
    population = logistic.Logistic(features, table.labels, everything, l2=settings.l2)
    series: dict[str, list] = {name: [] for name in ("t", *MEASURES)}

    def observe(state: optimizer.State, messages: optimizer.Messages | None = None) -> None:
        if state.t in wanted:
            thetabar, found = errors(state, net)
            value = logistic.loss(features, table.labels, thetabar, rows, settings.l2)
            gradient = population(thetabar[:, None], 0)[:, 0]
            found |= {"gradient": np.sum(gradient**2, axis=1), "gap": value - best.value}
            for name, numbers in {"t": state.t, **found}.items():
                series[name].append(numbers)

    drawn = net.agents, iterations, settings.samples, features.rows, 0
    history, _ = streams.history(settings.seed, numbers, *drawn)
    oracle = logistic.Logistic(features, table.labels, history, l2=settings.l2)
    start = np.zeros((count, net.agents, features.dim))
    algorithm = learning.varied(plain, variant, settings.seed)
    options = {"seed": settings.seed, "runs": numbers, "observe": observe}
    observe(optimizer.run(algorithm, oracle, start, iterations, **options))
    return {name: np.array(values) for name, values in series.items()}


def times(iterations: int, per_decade: int = 12) -> np.ndarray:
    """Return when a run is measured: evenly on a logarithmic axis, from 1 to the last one."""
    points = int(np.ceil(np.log10(iterations) * per_decade)) + 1
    return np.unique(np.rint(np.geomspace(1, iterations, points)).astype(int))


def errors(state: optimizer.State, net: network.Network) -> tuple[np.ndarray, dict]:
    """Return thetabar `[runs, dim]`, and the errors of Theorem 1 a) `[runs]`."""
    thetabar = np.einsum("i,rid->rd", net.u, state.theta) / net.agents
    between = state.theta - thetabar[:, None]
    tracked = state.psi - net.v[:, None] * state.psi.mean(axis=1)[:, None]
    return thetabar, {"consensus": _square(between), "tracking": _square(tracked)}


def _square(error: np.ndarray) -> np.ndarray:
    """Return the mean over agents of the squared norms."""
    return np.sum(error**2, axis=2).mean(axis=1)


@cache
def _reference(normalise: str, l2: float) -> tuple[Data, OneHot, Optimum]:
    table, features = learning.problem(normalise)
    if l2 > 0:
        return table, features, optimum(features, table.labels, l2)
    nowhere = np.full(features.dim, np.nan)  # the plain loss tends to 0 and does not reach it
    return table, features, Optimum(nowhere, 0.0, 0.0)


class Optimum(NamedTuple):
    """A minimiser theta of F, its value, and a proven bound on value - F*."""

    theta: np.ndarray
    value: float
    gap: float


def optimum(features: OneHot, labels: np.ndarray, l2: float) -> Optimum:
    """Return the minimiser of F to OPTIMUM_GAP, by scipy's trust-region Newton method, checked.

    F is l2-strongly convex, so F(theta) - F* <= ||grad F(theta)||^2 / (2 l2): the bound needs no
    trust in the solver.
    """
    from scipy.optimize import minimize
    from scipy.special import expit

    rows = features.dense()

    def loss(theta):
        return float(np.logaddexp(0.0, -labels * (rows @ theta)).mean() + 0.5 * l2 * theta @ theta)

    def gradient(theta):
        return -(labels * expit(-labels * (rows @ theta))) @ rows / len(rows) + l2 * theta

    def hessian(theta):
        p = expit(rows @ theta)
        return rows.T @ ((p * (1 - p))[:, None] * rows) / len(rows) + l2 * np.eye(features.dim)

    start, options = np.zeros(features.dim), {"method": "trust-exact", "options": {"gtol": 1e-9}}
    found = minimize(loss, start, jac=gradient, hess=hessian, **options)
    gap = float(gradient(found.x) @ gradient(found.x)) / (2 * l2)
    if not gap <= OPTIMUM_GAP:
        rule = f"it must be known to {OPTIMUM_GAP:.0e}"
        raise ArithmeticError(f"the optimum is known to {gap:.1e} only, {rule}")
    return Optimum(found.x, loss(found.x), gap)
