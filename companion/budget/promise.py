"""A promise for all time, kept by the very algorithm that `accountant.promise_plan` hands out.

Mushrooms are centred by public constants (`problems.centred`) and every gradient is clipped. The
schedules come from `plan`, which sees no mushroom. Beside a promise learn its twin, with the same
schedules and the values themselves on the wire; and an unprotected learner, tuned on rows that
agents may learn from, never on those that judge it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pandas as pd

from companion import mushrooms as convergence
from companion import runs
from companion.attacks.steered import steered
from companion.budget.params import BLOCK, Params
from companion.data import mushrooms, streams
from companion.mushrooms import problem
from companion.params import AGENTS
from companion.problems import centred
from ldp_core import audit, optimizer, quantizer
from ldp_core.accountant import promise_plan
from ldp_core.accountant.promise import certify
from ldp_core.accountant.promise_plan import Plan
from ldp_core.optimizer import Algorithm1, Schedules

OWN = ("seed", "topology", "weight", "samples", "test", "horizon", "promise_iterations")
OWN += ("promise_warm_up", "promise_clip")
TRIED = [{"lam_0": lam_0, "nu": nu} for lam_0 in (10.0, 100.0, 1000.0) for nu in (0.51, 0.71)]
RISK = 1e-6  # that an audit proves too much
TUNING_RUNS, VALIDATION = 2, 1000  # runs and rows by which one of these is chosen


@lru_cache(maxsize=64)
def planned(params: Params, target: float) -> Plan:
    """Return the plan of a promise for all time about one data point of one agent."""
    return promise_plan.plan(
        params.network(),
        params.promise_iterations,
        target,
        clip=params.promise_clip,
        dim=problem("none")[1].dim + 1,
        warm_up=params.promise_warm_up,
        samples=params.samples,
        copies=params.samples,
        cone=True,
        horizon=params.horizon,
    )


def compute(
    params: dict, data: str, learner: dict, first_run: int, count: int, validation: int = 0
) -> dict[str, np.ndarray]:
    """Return the accuracy of what is sent at the end, `accuracy [runs, agents]`, and its bits.

    A `learner` has a target and is quantised or not (the twin), or it has lam_0 and nu, and no
    promise. It is judged on the test rows, or on so many rows for `validation`, which are then
    missing from what it learns. `arrivals [runs, agents]` is how often one mushroom came at most.
    """
    settings, (table, features) = Params(**params), problem("none")
    table.provenance.require(data)
    numbers, T = range(first_run, first_run + count), settings.promise_iterations
    algorithm, clip = _algorithm(settings, learner)
    train, judged = _rows(settings, numbers, features.rows, validation)
    oracle = centred.Centred(features, table.labels, train, clip, settings.promise_warm_up)
    start = np.zeros((count, algorithm.network.agents, features.dim + 1))
    address = {"seed": settings.seed, "runs": numbers}
    if algorithm.quantised:
        last = planned(settings, learner["target"]).run(oracle, start, T, **address)
    else:
        last = optimizer.run(algorithm, oracle, start, T, **address)
    messages = algorithm.send(last, algorithm.coins(settings.seed)(numbers, T, start.shape[2]))
    accuracy = centred.accuracy(features, table.labels, messages.values()[0], judged)
    arrivals = [[np.bincount(own.ravel()).max() for own in of_run] for of_run in train]
    return {"accuracy": accuracy, "bits": _bits(messages), "arrivals": np.array(arrivals)}


def _rows(params: Params, numbers: range, rows: int, validation: int) -> tuple:
    """Return what agents learn from, and on what they are judged: test rows, or others."""
    points, held_out = params.promise_warm_up + params.promise_iterations, params.test + validation
    shape = AGENTS, points, params.samples, rows, held_out
    train, held = streams.history(params.seed, numbers, *shape)
    return train, held[:, :, params.test :] if validation else held


def _bits(messages: optimizer.Messages) -> np.ndarray:
    """Return the bits a coordinate of theta and of psi takes; nothing where no levels are sent."""
    sent = [] if messages.step is None else [messages.theta, messages.psi]
    return np.array([quantizer.bits_fixed_length(levels).mean() for levels in sent])


def _algorithm(params: Params, learner: dict) -> tuple[Algorithm1, float]:
    """Return the algorithm of a learner, and to what it clips: rows have norm 1, so 1 clips
    none."""
    if "target" in learner:
        algorithm = planned(params, learner["target"]).algorithm()
        plain = {"quantised": False, "degree": 1, "at_sent": False, "box": None}
        kept = algorithm if learner["quantised"] else replace(algorithm, **plain)
        return kept, params.promise_clip
    unused = (1.0,) * AGENTS, (0.505,) * AGENTS  # d_0 and varsigma
    schedules = Schedules(learner["lam_0"], learner["nu"], *unused)
    return Algorithm1(params.network(), schedules, quantised=False), 1.0


def audited(params: dict, target: float, agent: int) -> dict[str, np.ndarray]:
    """Return what is proven against an agent whose neighbours do their worst: `lower`.

    Two samples that stay clipped, neighbours who put every state where a level shows most of it
    (`attacks.steered`), and an attacker who knows both worlds; at confidence 1 - RISK.
    """
    settings = Params(**params)
    terms, trials = planned(settings, target).terms, settings.promise_audit_samples
    worlds = steered(terms, agent, settings.promise_iterations)
    options = {"seed": settings.seed, "confidence": 1 - RISK, "degree": terms.degree}
    return {"lower": np.array(audit.informed(*worlds, trials, **options).lower)}


def proven(params: Params) -> pd.DataFrame:
    """Return target, certified (for ever) and audited, of the largest target; or nothing."""
    if not (params.promise_targets and params.promise_audit_samples):
        return pd.DataFrame(columns=["target", "certified", "audited"])
    target = max(params.promise_targets)
    found = planned(params, target)
    agent = int(np.argmax(certify(found.terms, params.promise_iterations).delta))
    own = {**_own(params), "promise_audit_samples": params.promise_audit_samples}
    pieces = [{"params": own, "target": target, "agent": agent}]
    (result,) = runs.run(audited, pieces, description="audit of a promise")
    certified = float(found.certificate.delta[agent])
    row = {"target": target, "certified": certified, "audited": float(result["lower"])}
    return pd.DataFrame([row])


def learned(params: Params, data: mushrooms.Mushrooms) -> pd.DataFrame:
    """Return target, learner, run, accuracy (mean of agents), bits, arrivals; shows progress.

    Learners are the one that keeps its promise and its twin for every target, and two that promise
    nothing (target 0): Fig. 2's, unquantised, on rows as they are, and the best that was tuned.
    """
    if not params.promise_targets:
        return pd.DataFrame(columns=["learner", "target", "run", "accuracy", "arrivals", "bits"])
    both = [
        {"target": target, "quantised": kind}
        for target in params.promise_targets
        for kind in (True, False)
    ]
    pieces = _shards(params, data, [*both, tuned(params, data)], params.promise_runs)
    results = runs.run(compute, pieces, description=f"{params.promise_runs} runs of each promise")
    own = [_table(piece, result) for piece, result in zip(pieces, results, strict=True)]
    return pd.concat([*own, _figure_2(params, data)], ignore_index=True)


def tuned(params: Params, data: mushrooms.Mushrooms) -> dict:
    """Return the unprotected learner that does best on rows which are neither learnt nor tested."""
    pieces = _shards(params, data, TRIED, TUNING_RUNS, validation=VALIDATION)
    results = runs.run(compute, pieces, description="unprotected learners")
    return TRIED[int(np.argmax([result["accuracy"].mean() for result in results]))]


def _figure_2(params: Params, data: mushrooms.Mushrooms) -> pd.DataFrame:
    T = params.promise_iterations
    changes = {"iterations": T, "evaluate_every": T, "normalise": "none"}
    asked = params.into(convergence.Params, runs=params.promise_runs, **changes)
    pieces = convergence.shards(asked, data, ["unquantised"])
    results = runs.run(convergence.compute, pieces, description="Fig. 2's unprotected learner")
    accuracy = np.concatenate([result["accuracy"][-1].mean(axis=1) for result in results])
    named = {"learner": "figure 2", "target": 0.0}
    return pd.DataFrame({**named, "run": range(len(accuracy)), "accuracy": accuracy})


def _table(piece: dict, result: dict[str, np.ndarray]) -> pd.DataFrame:
    learner, accuracy = piece["learner"], result["accuracy"].mean(axis=1)
    kind = {True: "promised", False: "twin"}.get(learner.get("quantised"), "tuned")
    named = {"learner": kind, "target": learner.get("target", 0.0)}
    found = {"accuracy": accuracy, "arrivals": result["arrivals"].max(axis=1)}
    bits = result["bits"].mean() if len(result["bits"]) else np.nan
    numbers = range(piece["first_run"], piece["first_run"] + piece["count"])
    return pd.DataFrame({**named, "run": numbers, **found, "bits": bits})


def _shards(
    params: Params, data: mushrooms.Mushrooms, learners: list[dict], count: int, **options
) -> list[dict]:
    """Return the arguments of `compute` for every block of runs of every learner."""
    return [
        {**block, "params": _own(params), "learner": learner, **options}
        for learner in learners
        for block in convergence.blocks(count, BLOCK, data)
    ]


def _own(params: Params) -> dict:
    return params.model_dump(include=set(OWN), mode="json")
