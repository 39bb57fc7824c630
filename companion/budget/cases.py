"""Notebook 2: chosen modifications measured in every way, from the paper's sum down to what an attacker proves.

For one run, agent and modification, what was received held fixed, and every number of iterations,

    paper (sum of |y - y'| / d)  >=  sum of total variations  >=  product  >=  exact total variation  >=  audited lower bound.

`compute` measures them; the functions below ask it about arrival times, worst modifications, the sandwich and the frontier.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
import pandas as pd
from pydantic import Field

from companion import mushrooms as convergence
from companion import runs
from companion.budget import shards as budget
from companion.budget.shards import Scene, Setting
from companion.data import mushrooms
from companion.mushrooms import problem
from companion.params import Count, Horizon, Normalise, ParameterError, Positive
from ldp_core import audit, quantizer
from ldp_core.accountant import exact, monte_carlo, trajectory, worst
from ldp_core.accountant.certificate import HORIZON
from ldp_core.randomness import Purpose, generator

MEASURES = ("paper", "sum", "product", "lower", "exact", "upper")
NORMALISATIONS: tuple[Normalise, ...] = ("none", "l2", "l1")
RESOLUTION = 1 / 16  # of the exact total variation: its two bounds are then about 0.001 apart
LARGE, DRAWS = 1 - 1e-6, 2000  # below this product, the exact total variation is estimated from so many draws
CANDIDATES = 2**32  # where the candidates for the worst modification are drawn, beyond all random ones
SCREENING = 10  # iterations after arrival by which the search for the worst modification compares all candidates
CONFIDENCE = 0.999  # of each audit and of each estimate: ten of them hold together with 99 %


class Params(Setting):
    """Which cases are measured, and how often; the `target` that bounds are asked for, and their `horizon`."""

    case_runs: Count = 2
    case_d_0: Annotated[tuple[Positive, ...], Field(min_length=1)] = (2.0, 8.0)
    arrivals: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)] = (0, 3, 10, 30, 100)
    worst_runs: Count = 1
    worst_rows: Count = 1000
    worst_arrivals: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)] = (0, 10, 100)
    audit_samples: Annotated[int, Field(ge=100)] = 10_000
    audit_coordinates: Annotated[int, Field(ge=1)] = 1000
    frontier_d_0: Annotated[tuple[Positive, ...], Field(min_length=1)] = (0.5, 2.0, 8.0, 32.0, 128.0)
    frontier_weights: Annotated[tuple[Positive, ...], Field(min_length=1)] = (0.05, 0.2)
    frontier_runs: Count = 2
    accuracy_runs: Annotated[int, Field(ge=2)] = 20
    target: Annotated[float, Field(gt=0, lt=1)] = 0.5
    horizon: Horizon = HORIZON

    def memory(self) -> tuple[str, int]:
        """Return the larger of the messages of a run and the transcripts that an audit learns from."""
        what = f"audit_samples = {self.audit_samples} with audit_coordinates = {self.audit_coordinates}"
        seen = min(self.audit_coordinates, 2 * self.iterations * problem(self.normalise)[1].dim)
        learnt = int(2 * (audit.FIT + audit.SELECT) * self.audit_samples * seen)
        return max(super().memory(), (what, learnt), key=lambda pair: pair[1])

    def check(self, rows: int) -> None:
        """Raise when one of the cases makes no sense, before anything is computed."""
        for name in ("arrivals", "worst_arrivals"):
            for k in getattr(self, name):
                if k >= self.iterations - 1:
                    raise ParameterError(
                        f"{name} holds {k}, which must be below {self.iterations - 1}: a data point that arrives at k first "
                        f"moves the message of k + 1, and the last message is that of iterations - 1"
                    )
        for point in [self.at(d_0=d_0) for d_0 in self.case_d_0] + self.frontier_points():
            point.check(rows)

    def frontier_points(self) -> list[Setting]:
        """Return the settings of the frontier: every normalisation, weight and step."""
        return [
            self.at(normalise=normalise, weight=weight, d_0=d_0)
            for normalise in NORMALISATIONS
            for weight in self.frontier_weights
            for d_0 in self.frontier_d_0
        ]


def compute(
    params: dict,
    data: str,
    k: int | None,
    first_run: int,
    count: int,
    rows: int = 0,
    audit_samples: int = 0,
    audit_coordinates: int = 0,
) -> dict[str, np.ndarray]:
    """Return the MEASURES of one modification of every run and agent, `[runs, agents]` each, and when it arrived (`k`).

    `agent [runs]` is the one that gives away most. The modification is a random one, or with `rows` > 0 the worst one found
    among so many mushrooms for each sample of the data point; it arrives at k, or at a random time when k is None. With
    `audit_samples` > 0 that agent is audited: `audit [runs]`, else NaN; its bounds are then certain.
    """
    setting = Setting(**params)
    scene = budget.record(setting, data, range(first_run, first_run + count))
    agents = scene.algorithm.network.agents
    found = {name: np.empty((count, agents)) for name in MEASURES} | {"audit": np.full(count, np.nan)}
    found |= {"k": np.empty((count, agents), dtype=np.int64), "agent": np.empty(count, dtype=np.int64)}
    for run in range(count):
        states = []
        for agent in range(agents):
            found["k"][run, agent], point = _modification(scene, setting.seed, run, agent, k, rows)
            states.append(_states(scene, run, agent, int(found["k"][run, agent]), point))
            for name, value in measures(*states[agent], setting.seed).items():
                found[name][run, agent] = value
        most = found["agent"][run] = int(np.argmax(found["exact"][run]))
        if audit_samples:
            for name, value in measures(*states[most], setting.seed, certain=True).items():
                found[name][run, most] = value
            found["audit"][run] = audited(*states[most], audit_samples, audit_coordinates, setting.seed)
    return found


def measures(y: np.ndarray, other: np.ndarray, step: np.ndarray, seed: int, certain: bool = False) -> dict[str, float]:
    """Return the MEASURES of one transcript: states y and other, steps, one entry per coin; lower <= exact <= upper.

    The bounds are certain, or, where `certain` is not asked for and that would be slow, hold with CONFIDENCE: Fourier series
    need many nodes where the variation comes from rare events, as it does when little is given away.
    """
    variation = quantizer.total_variation(y, other, step)
    with np.errstate(divide="ignore"):
        product = float(-np.expm1(np.log1p(-variation).sum()))
    if certain or product >= LARGE:
        lower, upper = exact.delta(exact.pair(y, other, step), resolution=RESOLUTION)
        middle = (lower + upper) / 2.0
    else:
        drawn = monte_carlo.MonteCarlo(1, DRAWS, seed, CONFIDENCE)
        drawn.add(y[None], other[None], step[None])
        lower, middle, upper = (float(bound[0]) for bound in drawn.delta()[:3])
    paper = float((np.abs(y - other) / step).sum())
    return {"paper": paper, "sum": float(variation.sum()), "product": product, "lower": lower, "exact": middle, "upper": upper}


def audited(y: np.ndarray, other: np.ndarray, step: np.ndarray, samples: int, coordinates: int, seed: int) -> float:
    """Return what the best informed attacker proves from `samples` transcripts, looking at the most telling coordinates only.

    A part of a transcript tells no more than the whole, so the bound is one for the whole transcript too.
    """
    most = np.argsort(-telling(y, other, step), kind="stable")[:coordinates]
    y, other, step = y[most], other[most], step[most]
    attacker = {"likelihood ratio": audit.likelihood_ratio(y, other, step)}
    mechanism = audit.sender(y, other, step)
    return audit.audit(mechanism, samples, seed=seed, confidence=CONFIDENCE, distinguishers=attacker).lower


def telling(y: np.ndarray, other: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Return one minus the affinity (sum over levels of sqrt(P P')) of each coordinate: how much it tells."""
    level, up = quantizer.pmf(y, step)
    theirs = quantizer.probability(level, other, step), quantizer.probability(level + 1, other, step)
    return 1.0 - np.sqrt((1.0 - up) * theirs[0]) - np.sqrt(up * theirs[1])


def arrivals(params: Params, data: mushrooms.Mushrooms) -> pd.DataFrame:
    """Return random modifications by when the data point arrives, by normalisation and by d_0: columns of `_run`."""
    cases = [
        _Case(params.at(normalise=normalise, d_0=d_0), k, params.case_runs)
        for normalise in NORMALISATIONS
        for d_0 in params.case_d_0
        for k in params.arrivals
    ]
    return _run(cases, data, "arrival times")


def worst_found(params: Params, data: mushrooms.Mushrooms) -> pd.DataFrame:
    """Return the worst modification found beside a random one, at the same times of the same runs: columns of `_run`."""
    cases = [
        _Case(params.at(normalise=normalise), k, params.worst_runs, rows)
        for normalise in NORMALISATIONS
        for k in params.worst_arrivals
        for rows in (0, params.worst_rows)
    ]
    return _run(cases, data, "worst modifications")


def sandwich(params: Params, data: mushrooms.Mushrooms) -> pd.DataFrame:
    """Return all measures and the audit of one modification a case, for the agent that gives away most: columns of `_run`."""
    cases = [
        _Case(params.at(normalise=normalise), k, 1, 0, params.audit_samples, params.audit_coordinates)
        for normalise in NORMALISATIONS
        for k in params.worst_arrivals
    ]
    return _run(cases, data, "audits", one_agent=True)


def frontier(params: Params, data: mushrooms.Mushrooms) -> pd.DataFrame:
    """Return what each setting gives away and how well it learns: normalise, weight, d_0, arrival, exact, paper, accuracy.

    `exact` and `paper` are medians over runs of the largest of all agents, for a random modification that arrives at a random
    time ("uniform") or as the first one ("first"). `accuracy` is the mean of `accuracy_runs` runs on held-out mushrooms after
    as many iterations, `standard_error` its standard error.
    """
    points = params.frontier_points()
    spent = _run([_Case(point, k, params.frontier_runs) for point in points for k in (None, 0)], data, "frontier")
    spent["arrival"] = np.where(spent["asked_k"].isna(), "uniform", "first")
    keys = ["normalise", "weight", "d_0"]
    table = spent.groupby([*keys, "arrival"])[["exact", "paper"]].median().reset_index()
    return table.merge(accuracies(params, data, points), on=keys)


def accuracies(
    params: Params, data: mushrooms.Mushrooms, points: list[Setting], variant: convergence.Variant = "quantised"
) -> pd.DataFrame:
    """Return the final accuracy of every setting: normalise, weight, d_0, accuracy (mean over runs), standard_error."""
    pieces, labels = [], []
    for point in points:
        settings = convergence.Params(**point.model_dump(), runs=params.accuracy_runs, evaluate_every=point.iterations)
        own = convergence.shards(settings, data, [variant])
        pieces += own
        labels += [(point.normalise, point.weight, point.d_0)] * len(own)
    results = runs.run(convergence.compute, pieces, description=f"accuracies, {variant}")
    rows = [
        (*label, accuracy)
        for label, result in zip(labels, results, strict=True)
        for accuracy in result["accuracy"][-1].mean(axis=1)
    ]
    table = pd.DataFrame(rows, columns=["normalise", "weight", "d_0", "accuracy"])
    grouped = table.groupby(["normalise", "weight", "d_0"])["accuracy"]
    return grouped.agg(accuracy="mean", standard_error="sem").reset_index()


class _Case(NamedTuple):
    setting: Setting
    k: int | None
    runs: int
    rows: int = 0
    audit_samples: int = 0
    audit_coordinates: int = 0


def _run(cases: list[_Case], data: mushrooms.Mushrooms, description: str, *, one_agent: bool = False) -> pd.DataFrame:
    """Return one row per case and run: normalise, weight, d_0, kind (random or worst), asked_k, run, the measures, audit.

    Each measure is the largest of all agents, or, with `one_agent`, that of the agent whose exact total variation is largest.
    """
    pieces, labels = [], []
    for case in cases:
        named = case.setting.model_dump(include={"normalise", "weight", "d_0"})
        named |= {"kind": "worst" if case.rows else "random", "asked_k": np.nan if case.k is None else case.k}
        common = {"params": case.setting.model_dump(), "data": data.provenance.sha256, "k": case.k, "rows": case.rows}
        common |= {"audit_samples": case.audit_samples, "audit_coordinates": case.audit_coordinates}
        for number in range(case.runs):
            pieces.append({**common, "first_run": number, "count": 1})
            labels.append({**named, "run": number})
    results = runs.run(compute, pieces, description=description)
    return pd.DataFrame([label | _largest(result, one_agent) for label, result in zip(labels, results, strict=True)])


def _largest(result: dict[str, np.ndarray], one_agent: bool) -> dict[str, float]:
    most = int(result["agent"][0])
    row = {name: float(result[name][0, most] if one_agent else result[name][0].max()) for name in MEASURES}
    return row | {"k": int(result["k"][0, most]), "agent": most, "audit": float(result["audit"][0])}


def _modification(scene: Scene, seed: int, run: int, agent: int, k: int | None, rows: int) -> tuple[int, np.ndarray]:
    """Return (k, point): modification number 0 of this run and agent, moved to k if given, or the worst of `rows` there."""
    drawn, point = budget.modifications(scene, seed, run, agent, 1)
    arrives = int(drawn[0]) if k is None else k
    if not rows:
        return arrives, point[0]
    random = generator(seed, Purpose.MODIFICATION, scene.numbers[run], agent=agent, t=CANDIDATES)
    found = worst.search(
        scene.algorithm,
        agent,
        scene.received(run, agent),
        scene.problem,
        scene.history[run, agent],
        random.permutation(scene.features.rows)[:rows],
        np.zeros((1, scene.features.dim)),
        points=(arrives,),
        whole=True,
        screening=SCREENING,
        finalists=4,
    )
    return arrives, found.point[found.worst("paper")]


def _states(scene: Scene, run: int, agent: int, k: int, point: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (y, other, step), one entry per coin from time k on: the states as they are, and with one data point replaced."""
    history, got = scene.history[run, agent], scene.received(run, agent)
    own = scene.unmodified(run, agent)
    oracle = scene.problem(worst.adjacent(history, [k], point[None]))
    changed = trajectory.replay(scene.algorithm, agent, got, oracle, *own[k][1:], k)
    y, other, steps = [], [], []
    for (t, theta, psi), (_, own_theta, own_psi) in zip(changed, own[k:], strict=True):
        y.append(np.concatenate([own_theta[0], own_psi[0]]))
        other.append(np.concatenate([theta[0], psi[0]]))
        steps.append(np.full(len(y[-1]), scene.algorithm.schedules.step(t)[agent]))
    return np.concatenate(y), np.concatenate(other), np.concatenate(steps)
