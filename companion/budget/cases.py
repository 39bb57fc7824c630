"""Chosen modifications measured in every way, from the paper's sum down to what is proven.

For one run, agent and modification, what was received held fixed, and every number of iterations,

    paper (sum of |y - y'| / d)  >=  sum of total variations  >=  product
                                 >=  exact total variation  >=  audited lower bound.

`compute` measures them; the functions below ask it about arrival times, worst modifications, the
sandwich and the frontier.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from companion import mushrooms as learning
from companion import runs
from companion.budget import shards, worst
from companion.budget.params import NORMALISATIONS, Params, Setting
from companion.budget.shards import Scene
from companion.data import mushrooms
from ldp_core import audit, quantizer
from ldp_core.accountant import exact, monte_carlo, trajectory
from ldp_core.randomness import Purpose, generator

MEASURES = ("paper", "sum", "product", "lower", "exact", "upper")
RESOLUTION = 1 / 16  # of the exact total variation: its two bounds are then about 0.001 apart
LARGE, DRAWS = 1 - 1e-6, 2000  # below this product, the exact one is estimated from so many draws
CANDIDATES = 2**32  # where candidates for the worst modification are drawn, beyond random ones
SCREENING = 10  # iterations after arrival by which the search compares all candidates
CONFIDENCE = 0.999  # of each audit and of each estimate: ten of them hold together with 99 %
KEYS = ["normalise", "weight", "d_0"]


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
    """Return the MEASURES of one modification, `[runs, agents]` each, and when it arrived (`k`).

    `agent [runs]` is the one that gives away most. The modification is a random one, or with `rows`
    > 0 the worst one found among so many mushrooms for each sample of the data point; it arrives at
    k, or at a random time when k is None. With `audit_samples` > 0 that agent is audited: `audit
    [runs]`, else NaN; its bounds are then certain. Agents that certainly give away less than
    another have `cheap_bounds`: whatever is largest is not theirs.
    """
    setting = Setting(**params)
    scene = shards.record(setting, data, range(first_run, first_run + count))
    shape = count, scene.algorithm.network.agents
    found = {name: np.empty(shape) for name in MEASURES} | {"audit": np.full(count, np.nan)}
    found |= {"k": np.empty(shape, dtype=np.int64), "agent": np.empty(count, dtype=np.int64)}
    for run in range(count):
        agents = range(shape[1])
        changes = [_modification(scene, setting.seed, run, agent, k, rows) for agent in agents]
        found["k"][run] = [arrives for arrives, _ in changes]
        states = _states(scene, run, changes)
        bounds, least = [cheap_bounds(*state) for state in states], 0.0
        for agent in sorted(agents, key=lambda agent: -bounds[agent][0]):
            known = bounds[agent] if bounds[agent][2] < least else None
            _note(found, run, agent, measures(*states[agent], setting.seed, known=known))
            least = max(least, found["lower"][run, agent])
        most = found["agent"][run] = int(np.argmax(found["exact"][run]))
        if audit_samples:
            _note(found, run, most, measures(*states[most], setting.seed, certain=True))
            sizes = audit_samples, audit_coordinates
            found["audit"][run] = audited(*states[most], *sizes, setting.seed)
    return found


def _note(found: dict, run: int, agent: int, measured: dict[str, float]) -> None:
    for name, value in measured.items():
        found[name][run, agent] = value


Bounds = tuple[float, float, float]  # lower, exact, upper


def cheap_bounds(y: np.ndarray, other: np.ndarray, step: np.ndarray) -> Bounds:
    """Return certain bounds on the exact total variation, beyond which `measures` finds nothing."""
    log_p, log_q, *interior = exact.pair(y, other, step)
    sums = exact.log_affinity(*interior), exact.log_overlap(*interior)
    lower, upper = exact.certain_bounds(log_p, log_q, *sums)
    return lower, (lower + upper) / 2.0, upper


def measures(
    y: np.ndarray,
    other: np.ndarray,
    step: np.ndarray,
    seed: int,
    certain: bool = False,
    known: Bounds | None = None,
) -> dict[str, float]:
    """Return the MEASURES of one transcript, one entry per coin; lower <= exact <= upper.

    The bounds are certain, or, where `certain` is not asked for and that would be slow, hold with
    CONFIDENCE: Fourier series need many nodes where the variation comes from rare events, as it
    does when little is given away. Bounds that are `known` are taken as they are.
    """
    variation = quantizer.total_variation(y, other, step)
    with np.errstate(divide="ignore"):
        product = float(-np.expm1(np.log1p(-variation).sum()))
    bounds = known or _bounds(y, other, step, None if certain or product >= LARGE else seed)
    paper = float(trajectory.sensitivity(y / step, other / step))
    sums = paper, float(variation.sum()), product
    return dict(zip(MEASURES, (*sums, *bounds), strict=True))


def _bounds(y: np.ndarray, other: np.ndarray, step: np.ndarray, seed: int | None) -> Bounds:
    """Return certain bounds on the exact total variation, or with a seed those of DRAWS."""
    if seed is None:
        lower, upper = exact.delta(exact.pair(y, other, step), resolution=RESOLUTION)
        return lower, (lower + upper) / 2.0, upper
    drawn = monte_carlo.MonteCarlo(1, DRAWS, seed, CONFIDENCE)
    drawn.add(y[None], other[None], step[None])
    lower, middle, upper = (float(bound[0]) for bound in drawn.delta()[:3])
    return lower, middle, upper


def audited(
    y: np.ndarray, other: np.ndarray, step: np.ndarray, samples: int, coordinates: int, seed: int
) -> float:
    """Return what the best informed attacker proves from the coordinates that tell most.

    A part of a transcript tells no more than the whole, so the bound is one for the whole too.
    """
    most = np.argsort(-telling(y, other, step), kind="stable")[:coordinates]
    y, other, step = y[most], other[most], step[most]
    attacker = {"likelihood ratio": audit.likelihood_ratio(y, other, step)}
    options = {"seed": seed, "confidence": CONFIDENCE, "distinguishers": attacker}
    return audit.audit(audit.sender(y, other, step), samples, **options).lower


def telling(y: np.ndarray, other: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Return one minus the affinity (sum over levels of sqrt(P P')) of each coordinate."""
    level, up = quantizer.pmf(y, step)
    down, above = (quantizer.probability(level + one, other, step) for one in (0, 1))
    return 1.0 - np.sqrt((1.0 - up) * down) - np.sqrt(up * above)


def arrivals(params: Params, data: mushrooms.Mushrooms) -> pd.DataFrame:
    """Return random modifications by arrival, normalisation and d_0: columns of `_run`."""
    cases = [
        _Case(params.at(normalise=normalise, d_0=d_0), k, params.case_runs)
        for normalise in NORMALISATIONS
        for d_0 in params.case_d_0
        for k in params.arrivals
    ]
    return _run(cases, data, "arrival times")


def worst_found(params: Params, data: mushrooms.Mushrooms) -> pd.DataFrame:
    """Return the worst modification found beside a random one of the same runs and times."""
    cases = [
        _Case(params.at(normalise=normalise), k, params.worst_runs, rows)
        for normalise in NORMALISATIONS
        for k in params.worst_arrivals
        for rows in (0, params.worst_rows)
    ]
    return _run(cases, data, "worst modifications")


def sandwich(params: Params, data: mushrooms.Mushrooms) -> pd.DataFrame:
    """Return all measures and the audit of one modification a case, for the agent that tells
    most."""
    sizes = params.audit_samples, params.audit_coordinates
    cases = [
        _Case(params.at(normalise=normalise), k, 1, 0, *sizes)
        for normalise in NORMALISATIONS
        for k in params.worst_arrivals
    ]
    return _run(cases, data, "audits", one_agent=True)


def frontier(params: Params, data: mushrooms.Mushrooms) -> pd.DataFrame:
    """Return what each setting gives away and how well it learns: KEYS, arrival, exact, accuracy.

    `exact` and `paper` are medians over runs of the largest of all agents, for a random
    modification that arrives at a random time ("uniform") or as the first one ("first").
    """
    points = params.frontier_points()
    cases = [_Case(point, k, params.frontier_runs) for point in points for k in (None, 0)]
    spent = _run(cases, data, "frontier")
    spent["arrival"] = np.where(spent["asked_k"].isna(), "uniform", "first")
    table = spent.groupby([*KEYS, "arrival"])[["exact", "paper"]].median().reset_index()
    return table.merge(accuracies(params, data, points), on=KEYS)


def accuracies(
    params: Params,
    data: mushrooms.Mushrooms,
    points: list[Setting],
    variant: learning.Variant = "quantised",
) -> pd.DataFrame:
    """Return the final accuracy of every setting: KEYS, accuracy (mean of runs), standard_error."""
    pieces, labels = [], []
    for point in points:
        sizes = {"runs": params.accuracy_runs, "evaluate_every": point.iterations}
        own = learning.shards(point.into(learning.Params, **sizes), data, [variant])
        pieces += own
        labels += [[getattr(point, key) for key in KEYS]] * len(own)
    results = runs.run(learning.compute, pieces, description=f"accuracies, {variant}")
    rows = [
        (*label, accuracy)
        for label, result in zip(labels, results, strict=True)
        for accuracy in result["accuracy"][-1].mean(axis=1)
    ]
    grouped = pd.DataFrame(rows, columns=[*KEYS, "accuracy"]).groupby(KEYS)["accuracy"]
    return grouped.agg(accuracy="mean", standard_error="sem").reset_index()


class _Case(NamedTuple):
    setting: Setting
    k: int | None
    runs: int
    rows: int = 0
    audit_samples: int = 0
    audit_coordinates: int = 0

    def label(self) -> dict:
        """Return KEYS, kind (random or worst) and asked_k of a case."""
        named = {"kind": "worst" if self.rows else "random"}
        asked = {"asked_k": np.nan if self.k is None else self.k}
        return self.setting.model_dump(include=set(KEYS)) | named | asked

    def shard(self, data: mushrooms.Mushrooms, run: int) -> dict:
        """Return the arguments of `compute` for one run."""
        named = {"params": self.setting.model_dump(), "data": data.provenance.sha256}
        asked = {
            name: getattr(self, name) for name in self._fields if name not in ("setting", "runs")
        }
        return {**named, **asked, "first_run": run, "count": 1}


def _run(
    cases: list[_Case], data: mushrooms.Mushrooms, description: str, *, one_agent: bool = False
) -> pd.DataFrame:
    """Return one row per case and run: its label, the run, the measures, and the audit.

    Each measure is the largest of all agents, or, with `one_agent`, that of the agent whose exact
    total variation is largest.
    """
    both = [(case, run) for case in cases for run in range(case.runs)]
    pieces = [case.shard(data, run) for case, run in both]
    results = runs.run(compute, pieces, description=description)
    rows = [
        {**case.label(), "run": run, **_largest(result, one_agent)}
        for (case, run), result in zip(both, results, strict=True)
    ]
    return pd.DataFrame(rows)


def _largest(result: dict[str, np.ndarray], one_agent: bool) -> dict[str, float]:
    most = int(result["agent"][0])
    row = {name: result[name][0, most] if one_agent else result[name][0].max() for name in MEASURES}
    found = {name: float(value) for name, value in row.items()}
    return found | {
        "k": int(result["k"][0, most]),
        "agent": most,
        "audit": float(result["audit"][0]),
    }


def _modification(
    scene: Scene, seed: int, run: int, agent: int, k: int | None, rows: int
) -> tuple[int, np.ndarray]:
    """Return (k, point): modification 0 of this run and agent, or the worst of `rows` there."""
    drawn, point = shards.modifications(scene, seed, run, agent, 1)
    arrives = int(drawn[0]) if k is None else k
    if not rows:
        return arrives, point[0]
    random = generator(seed, Purpose.MODIFICATION, scene.numbers[run], agent=agent, t=CANDIDATES)
    tried = random.permutation(scene.features.rows)[:rows]

    def score(points: np.ndarray, until: int | None) -> np.ndarray:
        change = np.full(len(points), arrives), points
        return shards.spent(scene, run, agent, *change, until=until, together=len(points))[-1]

    window = arrives + 1 + SCREENING
    return arrives, worst.search(score, scene.history[run, agent, arrives], tried, window)


def _states(scene: Scene, run: int, changes: list[tuple[int, np.ndarray]]) -> list[tuple]:
    """Return (y, other, step) of every agent, one entry per coin from its k on: as it is, and with
    data point k replaced (`changes`: k and the new one)."""
    own, first, history = scene.unmodified(run), min(k for k, _ in changes), scene.history[run]
    replaced = [
        worst.adjacent(mine, [k], point[None])
        for mine, (k, point) in zip(history, changes, strict=True)
    ]
    oracle, agents = scene.problem(np.concatenate(replaced)), range(len(changes))
    got, start = scene.received(run), own[first][1:]
    other = list(trajectory.replay(scene.algorithm, agents, got, oracle, *start, first))
    steps = scene.algorithm.schedules.step(np.arange(len(own)))
    return [
        (
            _coins(own[k:], i),
            _coins(other[k - first :], i),
            np.repeat(steps[k:, i], 2 * scene.features.dim),
        )
        for i, (k, _) in enumerate(changes)
    ]


def _coins(states: list[tuple], agent: int) -> np.ndarray:
    """Return what an agent's coins decide about: theta_t and psi_t, one after the other."""
    return np.concatenate([np.concatenate([theta[agent], psi[agent]]) for _, theta, psi in states])
