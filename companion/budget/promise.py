"""Notebook 2, last section: a certified promise over infinite time that is not empty, and what it costs in accuracy.

L2-normalised mushrooms, a warm-up before the first message, a public dither, and schedules chosen by `accountant.plan` for a
target delta. The twin runs the same schedules on the same mushrooms in the same order, with the values themselves on the wire.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Annotated, Literal, NamedTuple

import numpy as np
import pandas as pd
from pydantic import Field

from companion import runs
from companion.data import mushrooms, streams
from companion.mushrooms import problem
from companion.params import Count, Horizon, Positive, history_bytes, public_seed
from companion.params import Params as BaseParams
from companion.problems import constants, logistic
from ldp_core import audit, engine, network, optimizer, quantizer, triangular
from ldp_core.accountant import dithered, trajectory, worst
from ldp_core.accountant.certificate import HORIZON, certify
from ldp_core.accountant.plan import Plan, plan
from ldp_core.optimizer import Algorithm1, Schedules

RUNS_PER_SHARD = 10
Variant = Literal["dithered", "plain", "unquantised"]
VARIANTS: tuple[Variant, ...] = ("dithered", "plain", "unquantised")
Delta = Annotated[float, Field(gt=0, lt=1)]
RISK = 1e-6  # that an audit proves too much


class Params(BaseParams):
    """Targets for the certified delta over infinite time, and how long to train for each."""

    weight: Positive = 0.2
    lam_0: Positive = 0.5  # the paper's own; `plan` chooses the exponents and the steps
    promise_runs: Annotated[int, Field(ge=2)] = 20
    promise_iterations: Count = 1000
    promise_warm_up: Count = 1000
    promise_targets: Annotated[tuple[Delta, ...], Field(min_length=1)] = (0.05, 0.1, 0.25)
    samples: Count = 2
    test: Count = 2000
    promise_audit_samples: Annotated[int, Field(ge=100)] = 100_000
    promise_audit_rows: Count = 8124
    audit_iterations: Count = 100
    horizon: Horizon = HORIZON

    def memory(self) -> tuple[str, int]:
        """Return the size of a shard's history, warm-up included."""
        what = f"promise_iterations = {self.promise_iterations} with promise_warm_up = {self.promise_warm_up}"
        points, block = self.promise_iterations + self.promise_warm_up, min(self.promise_runs, RUNS_PER_SHARD)
        return f"{what} and samples = {self.samples}", history_bytes(block, points, self.samples)

    def judged(self) -> list[int]:
        """Return the iterations after which accuracy is judged: 1000 on the way, and the end."""
        return sorted({min(1000, self.promise_iterations), self.promise_iterations})

    def network(self) -> network.Network:
        """Return the paper's five agents."""
        return network.paper(self.weight)


def public_constants(table: mushrooms.Mushrooms) -> constants.GradientConstants:
    """Return bounds of a sample's gradient from the schema alone: one 1 in each of the attributes, rows of l2 norm one."""
    return constants.logistic(len(table.sizes), "l2")


def plans(params: Params, table: mushrooms.Mushrooms) -> dict[float, Plan]:
    """Return the schedules that certify each target over infinite time, with the best predicted signal-to-noise."""
    return {target: _plan(_Question.of(params, table), target, params.promise_iterations) for target in params.promise_targets}


class _Question(NamedTuple):
    """What certificates depend on. A slider asks some questions again, so the answers are remembered."""

    weight: float
    lam_0: float
    warm_up: int
    horizon: int
    dim: int
    constants: constants.GradientConstants

    @classmethod
    def of(cls, params: Params, table: mushrooms.Mushrooms) -> _Question:
        known = params.weight, params.lam_0, params.promise_warm_up, params.horizon
        return cls(*known, sum(table.sizes), public_constants(table))

    def arguments(self) -> dict:
        """Return what `plan` and `dithered.ladder` have in common."""
        return {"constants": self.constants, "dim": self.dim, "warm_up": self.warm_up, "horizon": self.horizon}


@lru_cache(maxsize=64)
def _plan(asked: _Question, target: float, training: int) -> Plan:
    options = {"lam_0": (asked.lam_0,), "training": training, **asked.arguments()}
    return plan(network.paper(asked.weight), math.inf, target, **options)


@lru_cache(maxsize=64)
def _rungs(asked: _Question, found: Plan) -> dict[str, np.ndarray]:
    return dithered.ladder(network.paper(asked.weight), found.schedules, iterations=math.inf, **asked.arguments())


def compute(
    params: dict, data: str, schedules: dict, variant: Variant, iterations: int, times: list, first_run: int, count: int
) -> dict[str, np.ndarray]:
    """Return the accuracy `[times, runs, agents]` of a block of runs of one variant, and bits a coordinate."""
    settings, (table, features) = Params(**params), problem("l2")
    _require(table, data)
    numbers, net = range(first_run, first_run + count), settings.network()
    points = settings.promise_warm_up + iterations
    train, test = streams.history(settings.seed, numbers, net.agents, points, settings.samples, features.rows, settings.test)
    oracle = logistic.Logistic(features, table.labels, train, warm_up=settings.promise_warm_up)
    found, bits = {}, []

    def observe(state: optimizer.State, messages: optimizer.Messages | None = None) -> None:
        if state.t in times:
            found[state.t] = logistic.accuracy(features, table.labels, state.theta, test)
            if messages is not None and messages.step is not None:
                bits.append([quantizer.bits_fixed_length(m).mean() for m in (messages.theta, messages.psi)])

    start = np.zeros((count, net.agents, features.dim))
    algorithm = _algorithm(net, Schedules(**schedules), variant, settings.seed)
    observe(optimizer.run(algorithm, oracle, start, iterations, seed=settings.seed, runs=numbers, observe=observe))
    accuracy = np.stack([found[t] for t in sorted(found)])
    return {"t": np.array(sorted(found)), "accuracy": accuracy, "bits": np.array(bits).reshape(-1, 2)}


def run(params: Params, table: mushrooms.Mushrooms, chosen: dict[float, Plan]) -> pd.DataFrame:
    """Return a table: target, variant, t, run, agent, accuracy, bits (mean of a coordinate; none where nothing is sent).

    Shows progress, can be interrupted.
    """
    times = sorted({0, *np.unique(np.geomspace(10, params.promise_iterations, 12).astype(int)).tolist(), *params.judged()})
    pieces = [
        {
            "params": params.model_dump(include={"seed", "weight", "promise_warm_up", "samples", "test"}, mode="json"),
            "data": table.provenance.sha256,
            "schedules": _as_dict(found.schedules, variant),
            "variant": variant,
            "iterations": params.promise_iterations,
            "times": times,
            "first_run": start,
            "count": min(RUNS_PER_SHARD, params.promise_runs - start),
        }
        for found in chosen.values()
        for variant in VARIANTS
        for start in range(0, params.promise_runs, RUNS_PER_SHARD)
    ]
    targets = np.repeat(list(chosen), len(pieces) // len(chosen))
    results = runs.run(compute, pieces, description=f"{params.promise_runs} runs x {len(chosen)} targets")
    return pd.concat([_table(t, piece, r) for t, piece, r in zip(targets, pieces, results, strict=True)], ignore_index=True)


def frontier(params: Params, table: mushrooms.Mushrooms, chosen: dict[float, Plan], accuracies: pd.DataFrame) -> pd.DataFrame:
    """Return one row a target and judged t: what is certified with and without dither, accuracy against the twin, bits.

    Differences are paired over runs; the interval is 95 %, Student's t.
    """
    wide = accuracies.groupby(["target", "t", "run", "variant"])["accuracy"].mean().unstack("variant")
    bits = accuracies.groupby(["target", "variant"])["bits"].mean()
    rows = []
    for target, found in chosen.items():
        sizes = {"bits": bits[target, "dithered"], "bits_plain": bits[target, "plain"]}
        common = {"target": target, **_certified(params, table, found), **sizes, **_chosen(found.schedules)}
        rows += [{**common, "t": t, **_cost(wide.loc[target, t])} for t in params.judged()]
    return pd.DataFrame(rows)


def _certified(params: Params, table: mushrooms.Mushrooms, found: Plan) -> dict[str, float]:
    """Return the largest delta that is certified with dither, and without it composed by coupling and summed."""
    bounds = public_constants(table)
    options = {"warm_up": params.promise_warm_up, "horizon": params.horizon}
    plain = certify(params.network(), found.schedules, bounds.l1, bounds.lipschitz, math.inf, **options)
    return {
        "certified": float(found.delta.max()),
        "without_dither": float(plain.product.max()),
        "sum_without_dither": float(plain.sum.max()),
    }


def _chosen(schedules: Schedules) -> dict[str, float]:
    return {
        "lam_0": schedules.lam_0,
        "nu": schedules.nu,
        "varsigma": max(schedules.varsigma),
        "d_0_smallest": min(schedules.d_0),
        "d_0_largest": max(schedules.d_0),
    }


def _cost(wide: pd.DataFrame) -> dict[str, float]:
    """Return mean accuracies of the variants, and dithered minus unquantised with its interval."""
    from scipy.stats import t as student

    lost = wide["dithered"] - wide["unquantised"]
    half = student.ppf(0.975, len(lost) - 1) * lost.std() / math.sqrt(len(lost))
    return {
        "accuracy": wide["dithered"].mean(),
        "accuracy_plain": wide["plain"].mean(),
        "accuracy_unquantised": wide["unquantised"].mean(),
        "lost": lost.mean(),
        "lost_low": lost.mean() - half,
        "lost_high": lost.mean() + half,
        "runs": len(lost),
    }


def replan(params: Params, table: mushrooms.Mushrooms, *, delta: float, warm_up: int) -> tuple[Plan, dict[str, np.ndarray]]:
    """Return the plan and its ladder of certificates for another target and warm-up, in about a second: for a slider."""
    changed = params.model_copy(update={"promise_targets": (delta,), "promise_warm_up": warm_up})
    found = plans(changed, table)[delta]
    return found, rungs(changed, table, found)


def rungs(params: Params, table: mushrooms.Mushrooms, found: Plan) -> dict[str, np.ndarray]:
    """Return the ladder of certificates for one plan, per agent: from Theorem 2.2 as printed to ours."""
    return dict(_rungs(_Question.of(params, table), found))


def attacked(params: dict, data: str, schedules: dict, agent: int, modification: int) -> dict[str, np.ndarray]:
    """Return what an informed attacker proves against one agent: the audited lower bound on delta, and its parts.

    The modification is the worst found over `promise_audit_rows` rows (evenly spaced; at most all of them) in both samples of
    the first warm-up data point (bounded search by the paper's sum over the first iterations). The attacker knows both
    trajectories and sees the coordinates that tell most; its likelihood ratio is the best test there is, and the bound holds at
    confidence 1 - RISK.
    """
    settings, (table, features) = Params(**params), problem("l2")
    _require(table, data)
    net = settings.network()
    iterations, warm_up = settings.audit_iterations, settings.promise_warm_up
    train, _ = streams.history(
        settings.seed, [modification], net.agents, warm_up + iterations, settings.samples, features.rows, 0
    )
    algorithm = _algorithm(net, Schedules(**schedules), "dithered", settings.seed).plain
    transcript, start = optimizer.Transcript(), np.zeros((1, net.agents, features.dim))
    oracle = logistic.Logistic(features, table.labels, train, warm_up=warm_up)
    optimizer.run(
        engine.Compiled(algorithm), oracle, start, iterations, seed=settings.seed, runs=[modification], observe=transcript
    )

    def oracle_of(histories: np.ndarray) -> logistic.Logistic:
        return logistic.Logistic(features, table.labels, histories, warm_up=warm_up)

    received = trajectory.received(algorithm, transcript, agent)
    rows = np.unique(np.linspace(0, features.rows - 1, min(settings.promise_audit_rows, features.rows)).astype(int))
    found = worst.search(
        algorithm,
        agent,
        received,
        oracle_of,
        train[0, agent],
        rows,
        start[0, :1],
        whole=True,
        screening=3,
        finalists=1,
        warm_up=warm_up,
    )
    changed = worst.adjacent(train[0, agent], found.k[:1], found.point[:1])
    both = [
        np.concatenate(
            [np.hstack(state) for _, *state in trajectory.replay(algorithm, agent, received, oracle_of(h), start[0, :1])],
            axis=1,
        )[0]
        for h in (train[0, agent][None, None], changed)
    ]
    step = np.repeat(algorithm.schedules.step(np.arange(iterations))[:, agent], 2 * features.dim)
    lower = _audit(*both, step, settings.promise_audit_samples, settings.seed)
    return {"lower": np.array(lower), "paper": found.budget.paper[-1, :1], "product": found.budget.product[-1, :1]}


def audits(params: Params, table: mushrooms.Mushrooms, chosen: dict[float, Plan]) -> pd.DataFrame:
    """Return the audited lower bound on delta per target, for the agent whose certificate is largest."""
    names = {"seed", "weight", "promise_warm_up", "samples", "promise_audit_samples", "promise_audit_rows", "audit_iterations"}
    own = params.model_dump(include=names, mode="json")
    pieces = [
        {
            "params": own,
            "data": table.provenance.sha256,
            "schedules": _as_dict(found.schedules),
            "agent": int(np.argmax(found.delta)),
            "modification": 0,
        }
        for found in chosen.values()
    ]
    results = runs.run(attacked, pieces, description=f"attacks on {len(chosen)} promises")
    rows = [
        {"target": target, "audited": float(r["lower"]), "sum": float(r["paper"][0])}
        for target, r in zip(chosen, results, strict=True)
    ]
    return pd.DataFrame(rows)


def _audit(y: np.ndarray, other: np.ndarray, step: np.ndarray, samples: int, seed: int, most: int = 500) -> float:
    """Return the lower bound on delta of an attacker who knows both states, from the coordinates that tell most.

    What is left out can only weaken the attacker: a part of a transcript is a function of it.
    """
    shift = np.abs(y - other) / step
    keep = np.argsort(-shift, kind="stable")[:most]
    y, other, step = y[keep], other[keep], step[keep]

    def mechanism(which: int, private: np.random.Generator, count: int) -> np.ndarray:
        noise = private.random((count, len(step))) - private.random(
            (count, len(step))
        )  # triangular: a difference of two uniforms
        return ((y, other)[which] - y) / step + noise

    def fit(ours: np.ndarray, theirs: np.ndarray) -> audit.Score:
        def score(values: np.ndarray) -> np.ndarray:
            ratio = triangular.log_likelihood_ratio(values, 0.0, (other - y) / step, 1.0)
            return np.clip(np.nan_to_num(ratio, posinf=700.0, neginf=-700.0), -700.0, 700.0).sum(axis=1)

        return score

    return audit.audit(mechanism, samples, seed=seed, confidence=1 - RISK, distinguishers={"likelihood ratio": fit}).lower


def _require(table: mushrooms.Mushrooms, sha256: str) -> None:
    if table.provenance.sha256 != sha256:
        raise ValueError(f"the mushrooms here have SHA-256 {table.provenance.sha256[:12]}, those meant {sha256[:12]}")


def _algorithm(net: network.Network, schedules: Schedules, variant: Variant, seed: int) -> optimizer.Algorithm:
    """Return one variant of Algorithm 1."""
    if variant == "unquantised":
        return Algorithm1(net, schedules, quantised=False)
    return engine.Compiled(Algorithm1(net, schedules, dither=public_seed(seed) if variant == "dithered" else None))


def _as_dict(schedules: Schedules, variant: Variant = "dithered") -> dict:
    """Return the schedules for JSON. The twin has no use for d_0 and varsigma: without them it is computed once for all."""
    d_0 = [1.0] * schedules.agents if variant == "unquantised" else list(schedules.d_0)
    varsigma = [0.51] * schedules.agents if variant == "unquantised" else list(schedules.varsigma)
    return {"lam_0": schedules.lam_0, "nu": schedules.nu, "d_0": d_0, "varsigma": varsigma}


def _table(target: float, piece: dict, result: dict[str, np.ndarray]) -> pd.DataFrame:
    numbers = range(piece["first_run"], piece["first_run"] + piece["count"])
    index = pd.MultiIndex.from_product([result["t"], numbers, range(result["accuracy"].shape[2])], names=["t", "run", "agent"])
    table = pd.DataFrame({"accuracy": result["accuracy"].ravel()}, index=index).reset_index()
    bits = dict(
        zip(result["t"].tolist(), result["bits"].mean(axis=1).tolist(), strict=False)
    )  # nothing is sent after the last step
    return table.assign(target=target, variant=piece["variant"], bits=table["t"].map(bits))
