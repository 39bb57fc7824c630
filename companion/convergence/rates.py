"""Notebook 1, second half: what Theorem 1 and Remark 2 say about speed, measured over long runs.

The loss is L2-regularised logistic regression over all mushrooms, so that an optimum exists (Assumption 1 fails without the L2
term: the one-hot mushrooms are linearly separable). Every agent draws from all 8124 rows, so F is the mean over them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Annotated, NamedTuple

import numpy as np
import pandas as pd
from pydantic import Field

from companion import runs
from companion.data import mushrooms, streams
from companion.params import AgentParams, Count, Normalise, NotNegative, ParameterError, history_bytes, public_seed
from companion.problems import logistic
from companion.problems.onehot import OneHot
from ldp_core import engine, network, optimizer

RUNS_PER_SHARD = 5
OPTIMUM_GAP = 1e-10
UNQUANTISED = 0.0  # the d_0 that stands for no quantisation
MEASURES = {
    "consensus": "mean over agents of ||theta^i - thetabar||^2",
    "tracking": "mean over agents of ||psi^i - v_i psibar||^2",
    "gradient": "||grad F(thetabar)||^2",
    "gap": "F(thetabar) - F*",
}


class Params(AgentParams):
    """Long runs at several d_0, `UNQUANTISED` among them."""

    rate_runs: Annotated[int, Field(ge=2)] = 10
    rate_iterations: Annotated[int, Field(ge=100)] = 10_000
    rate_d_0: tuple[NotNegative, ...] = (0.0, 0.5, 2.0, 8.0)
    samples: Count = 2
    l2: NotNegative = 0.1
    normalise: Normalise = "none"

    def memory(self) -> tuple[str, int]:
        """Return the size of a shard's history."""
        what = f"rate_iterations = {self.rate_iterations} with samples = {self.samples}"
        return what, history_bytes(min(self.rate_runs, RUNS_PER_SHARD), self.rate_iterations, self.samples)

    def check(self) -> None:
        """Raise when a d_0 breaks an assumption, or none is the unquantised one, before anything is computed."""
        for d_0 in self.rate_d_0:
            _algorithm(self, d_0)
        if not self.l2 > 0:
            raise ParameterError(f"l2 = {self.l2} must be positive: without an L2 term separable classes have no optimum")
        if UNQUANTISED not in self.rate_d_0 or len(set(self.rate_d_0)) < 2:
            raise ParameterError(f"rate_d_0 = {list(self.rate_d_0)} must hold 0 (no quantisation) and at least one other step")


def features_of(table: mushrooms.Mushrooms, normalise: str) -> OneHot:
    """Return the one-hot rows with the chosen normalisation."""
    return OneHot(table.codes, table.sizes, None if normalise == "none" else normalise)


class Optimum(NamedTuple):
    """A minimiser theta of F, its value, and a proven bound on value - F*."""

    theta: np.ndarray
    value: float
    gap: float


def optimum(features: OneHot, labels: np.ndarray, l2: float) -> Optimum:
    """Return the minimiser of F to OPTIMUM_GAP, found by scipy's trust-region Newton method and checked.

    F is l2-strongly convex, so F(theta) - F* <= ||grad F(theta)||^2 / (2 l2): the bound needs no trust in the solver.
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
        return rows.T @ ((p * (1 - p))[:, None] * rows) / len(rows) + l2 * np.eye(rows.shape[1])

    found = minimize(loss, np.zeros(features.dim), jac=gradient, hess=hessian, method="trust-exact", options={"gtol": 1e-9})
    gap = float(gradient(found.x) @ gradient(found.x)) / (2 * l2)
    if not gap <= OPTIMUM_GAP:
        raise ArithmeticError(f"the optimum is known to {gap:.1e} only, it must be known to {OPTIMUM_GAP:.0e}")
    return Optimum(found.x, loss(found.x), gap)


def times(iterations: int, per_decade: int = 12) -> np.ndarray:
    """Return the times at which a run is measured: evenly spaced on a logarithmic axis, 1 and the last one included."""
    points = int(np.ceil(np.log10(iterations) * per_decade)) + 1
    return np.unique(np.rint(np.geomspace(1, iterations, points)).astype(int))


def measure(state: optimizer.State, net: network.Network) -> dict[str, np.ndarray]:
    """Return thetabar `[runs, dim]`, and the consensus and tracking errors of Theorem 1 a) `[runs]`."""
    thetabar = np.einsum("i,rid->rd", net.u, state.theta) / net.agents
    psibar = state.psi.mean(axis=1)
    return {
        "thetabar": thetabar,
        "consensus": np.sum((state.theta - thetabar[:, None]) ** 2, axis=2).mean(axis=1),
        "tracking": np.sum((state.psi - net.v[:, None] * psibar[:, None]) ** 2, axis=2).mean(axis=1),
    }


@cache
def _reference(normalise: str, l2: float) -> tuple[mushrooms.Mushrooms, OneHot, Optimum]:
    table = mushrooms.load(quiet=True)
    features = features_of(table, normalise)
    no_optimum = Optimum(np.full(features.dim, np.nan), 0.0, 0.0)  # separable classes: the plain loss tends to 0, never reached
    return table, features, optimum(features, table.labels, l2) if l2 > 0 else no_optimum


def compute(params: dict, data: str, d_0: float, first_run: int, count: int, dithered: bool = False) -> dict[str, np.ndarray]:
    """Return the four MEASURES `[times, runs]` and `t` of a block of runs at one d_0."""
    settings = Params(**params, rate_runs=max(2, count))
    table, features, best = _reference(settings.normalise, settings.l2)
    if table.provenance.sha256 != data:
        raise ValueError(f"the mushrooms here have SHA-256 {table.provenance.sha256[:12]}, those meant {data[:12]}")
    numbers, algorithm = range(first_run, first_run + count), _algorithm(settings, d_0, dithered)
    net = algorithm.plain.network if isinstance(algorithm, engine.Compiled) else algorithm.network
    history, _ = streams.history(
        settings.seed, numbers, net.agents, settings.rate_iterations, settings.samples, features.rows, 0
    )
    everything = np.broadcast_to(np.arange(features.rows), (count, 1, 1, features.rows))
    population = logistic.Logistic(features, table.labels, everything, l2=settings.l2)
    wanted, series = set(times(settings.rate_iterations).tolist()), {name: [] for name in ("t", *MEASURES)}

    def observe(state: optimizer.State, messages: optimizer.Messages | None = None) -> None:
        if state.t not in wanted:
            return
        found = measure(state, net)
        gradient = population(found["thetabar"][:, None], 0)[:, 0]
        value = logistic.loss(features, table.labels, found["thetabar"], np.arange(features.rows), settings.l2)
        series["t"].append(state.t)
        series["consensus"].append(found["consensus"])
        series["tracking"].append(found["tracking"])
        series["gradient"].append(np.sum(gradient**2, axis=1))
        series["gap"].append(value - best.value)

    oracle = logistic.Logistic(features, table.labels, history, l2=settings.l2)
    start = np.zeros((count, net.agents, features.dim))
    observe(
        optimizer.run(algorithm, oracle, start, settings.rate_iterations, seed=settings.seed, runs=numbers, observe=observe)
    )
    return {name: np.array(values) for name, values in series.items()}


def run(params: Params, data: mushrooms.Mushrooms) -> pd.DataFrame:
    """Return all measures of all runs as a table: d_0, run, t and one column a measure. Shows progress, can be interrupted."""
    params.check()
    return _run(params, data)


def _run(params: Params, data: mushrooms.Mushrooms, **options: bool) -> pd.DataFrame:
    common = {
        "params": params.model_dump(exclude={"rate_runs", "rate_d_0", "d_0"}, mode="json"),
        "data": data.provenance.sha256,
        **options,
    }
    pieces = [
        {**common, "d_0": d_0, "first_run": start, "count": min(RUNS_PER_SHARD, params.rate_runs - start)}
        for d_0 in params.rate_d_0
        for start in range(0, params.rate_runs, RUNS_PER_SHARD)
    ]
    results = runs.run(compute, pieces, description=f"{params.rate_runs} long runs x {len(params.rate_d_0)} steps d_0")
    return pd.concat([_table(piece, result) for piece, result in zip(pieces, results, strict=True)], ignore_index=True)


def run_plain(params: Params, data: mushrooms.Mushrooms) -> pd.DataFrame:
    """Return the same for the loss without its L2 term, with and without quantisation at the paper's d_0; `gap` is F itself."""
    return _run(params.model_copy(update={"l2": 0.0, "rate_d_0": (UNQUANTISED, _nearest(params))}), data)


def run_dithered(params: Params, data: mushrooms.Mushrooms) -> pd.DataFrame:
    """Return the same with a public dither at the step nearest to the paper's d_0; `d_0` in the table is that step."""
    return _run(params.model_copy(update={"rate_d_0": (_nearest(params),)}), data, dithered=True)


def slopes(table: pd.DataFrame, last_share: float = 1 / 30) -> pd.DataFrame:
    """Return the fitted exponents: per d_0 and measure, the mean slope of log(measure) over log(t), with a 95 % interval.

    Each run is fitted by least squares over t >= last_share * T; the interval is Student's t over the runs' slopes.
    """
    from scipy.stats import t as student

    late = table[table["t"] >= last_share * table["t"].max()]
    rows = []
    for d_0, of_d_0 in late.groupby("d_0"):
        for name in MEASURES:
            fitted = [_slope(of_run["t"], of_run[name]) for _, of_run in of_d_0.groupby("run")]
            half = student.ppf(0.975, len(fitted) - 1) * np.std(fitted, ddof=1) / np.sqrt(len(fitted))
            rows.append((d_0, name, np.mean(fitted), np.mean(fitted) - half, np.mean(fitted) + half, len(fitted)))
    return pd.DataFrame(rows, columns=["d_0", "measure", "slope", "low", "high", "runs"])


def claimed_slopes(nu: float) -> dict[str, float]:
    """Return Remark 2's exponents: decay no slower than 1/t for the errors, 1/t^(1 - nu) for the squared gradient."""
    return {"consensus": -1.0, "tracking": -1.0, "gradient": nu - 1.0}


def _slope(t: Sequence[float], values: Sequence[float]) -> float:
    return float(np.polyfit(np.log(t), np.log(np.maximum(values, 1e-300)), 1)[0])


def _nearest(params: Params) -> float:
    """Return the quantisation step among those compared that is nearest to the paper's."""
    return min((d_0 for d_0 in params.rate_d_0 if d_0 != UNQUANTISED), key=lambda d_0: abs(d_0 - params.d_0))


def _algorithm(params: Params, d_0: float, dithered: bool = False) -> optimizer.Algorithm:
    """Return the compiled Algorithm 1 at this d_0, or its twin when d_0 is UNQUANTISED."""
    if d_0 == UNQUANTISED:
        plain = params.algorithm()
        return optimizer.Algorithm1(plain.network, plain.schedules, quantised=False)
    if not d_0 > 0:
        raise ParameterError(f"rate_d_0 = {d_0} must not be negative; 0 stands for no quantisation")
    plain = params.model_copy(update={"d_0": d_0}).algorithm()
    dither = public_seed(params.seed) if dithered else None
    return engine.Compiled(optimizer.Algorithm1(plain.network, plain.schedules, dither=dither))


def _table(piece: dict, result: dict[str, np.ndarray]) -> pd.DataFrame:
    numbers = range(piece["first_run"], piece["first_run"] + piece["count"])
    index = pd.MultiIndex.from_product([result["t"], numbers], names=["t", "run"])
    columns = {name: result[name].ravel() for name in MEASURES}
    return pd.DataFrame(columns, index=index).reset_index().assign(d_0=piece["d_0"])
