"""Notebook 2: Algorithm 1 and its neighbours on one bench, accuracy against delta.

Same mushrooms, network, clipped gradients and number of iterations for every mechanism. *The
search* is the same for each: a grid of equal size (`candidates`), for every target delta the
noise calibrated so that each agent's certificate over all iterations is the target, then the
candidate with the best accuracy on rows that are held out of the training rows. The test rows are
drawn once, before anything else, and used after the choice alone.

Two measures, each with its own choice: agents' `own` models, which they keep (the paper's measure),
and the model of a `listener` who has nothing but what was sent. All agents draw from the same
mushrooms, so an agent that sends nothing learns as well: the first measure alone says little.
"""

from __future__ import annotations

import itertools
import warnings
from functools import cache
from typing import NamedTuple

import numpy as np
import pandas as pd

from companion import runs
from companion.budget import mechanisms
from companion.budget.mechanisms import Gaussian, Laplace, NoisyGradients, Ternary
from companion.budget.params import BLOCK, Params
from companion.budget.shards import FLOAT_BITS, HEADER_BITS
from companion.data import mushrooms, streams
from companion.mushrooms import problem
from companion.problems import centred
from ldp_core import network, optimizer, quantizer
from ldp_core.accountant import promise
from ldp_core.accountant.promise_plan import BOX
from ldp_core.optimizer import DPSGD, Algorithm1, Schedules

MECHANISMS = {  # names of shards, and what readers see
    "spline": "ours: smooth coins (p = 3)",
    "paper": "the paper's quantizer, eq. (3)",
    "gaussian": "Gaussian noise on messages",
    "tracking": "Gaussian noise on gradients",
    "laplace": "Laplace noise, weakened",
    "ternary": "ternary levels, weakened",
}
REFERENCES = {
    "clear": "nothing hidden",
    "alone": "nothing sent",
}  # Algorithm 1; each agent for itself
MEASURES = ("own", "listener")  # whose model is judged (`learnt`)
ONE_VALUE = ("laplace", "ternary")  # send theta alone, all others theta and psi
HELD_OUT, TUNING_RUNS = 1500, 1  # rows and runs by which a candidate is chosen
TERNARY_BITS = 2.0  # of a fixed length, for three levels
TUNING = 1_000_000  # runs from this number on are used for tuning alone
OWN = {"seed", "topology", "weight", "samples", "test", "promise_warm_up", "promise_clip"}
OWN |= {
    f"neighbour_{name}"
    for name in ("iterations", "pushes", "nu", "varsigma", "weakening", "fading")
}


class Choice(NamedTuple):
    """What is searched: lam_0, nu, and `third` (`candidates`)."""

    lam_0: float
    nu: float
    third: float


def candidates(params: Params, mechanism: str) -> list[Choice]:
    """Return the grid of a mechanism: pushes lam_0 C, nu, and what else it can choose.

    That is varsigma where theta and psi are sent with noise, the weakening factor's exponent where
    theta alone is, and the exponent with which noise on gradients fades.
    """
    third = {"tracking": params.neighbour_fading}.get(mechanism, params.neighbour_varsigma)
    third = params.neighbour_weakening if mechanism in ONE_VALUE else third
    grid = itertools.product(params.neighbour_pushes, params.neighbour_nu, third)
    return [Choice(push / params.promise_clip, *others) for push, *others in grid]


@cache
def _network(params: Params) -> network.Network:
    """Return the agents' network, one object for all questions."""
    return params.network()


def build(params: Params, mechanism: str, choice: Choice, d_0):
    """Return a mechanism with its schedules; each takes gradients at what it sent."""
    varsigma = 0.0 if mechanism in ONE_VALUE else choice.third
    with warnings.catch_warnings():  # schedules of others than Algorithm 1 may leave its range
        warnings.simplefilter("ignore", optimizer.TheoremWarning)
        schedules = Schedules(choice.lam_0, choice.nu, tuple(d_0), (varsigma,) * 5, explore=True)
    parts = (_network(params), schedules)
    if mechanism in ONE_VALUE:
        return (Laplace if mechanism == "laplace" else Ternary)(*parts, weakening=choice.third)
    if mechanism in ("gaussian", "tracking"):
        return (Gaussian if mechanism == "gaussian" else NoisyGradients)(*parts)
    if mechanism in REFERENCES:
        alone = mechanism == "alone"
        return DPSGD(np.eye(5), schedules) if alone else Algorithm1(*parts, quantised=False)
    box = BOX * (max(d_0) + choice.lam_0 * params.promise_clip)
    return Algorithm1(*parts, degree=3 if mechanism == "spline" else 1, at_sent=True, box=box)


def terms_of(params: Params, algorithm) -> promise.Terms:
    """Return what the certificate of a mechanism depends on: public numbers alone."""
    common = {"warm_up": params.promise_warm_up, "samples": params.samples, "cone": True}
    degree = max(2, getattr(algorithm, "degree", 2))
    parts = (algorithm.network, algorithm.schedules, params.promise_clip)
    return promise.Terms(*parts, degree=degree, **common)


def spread(sizes: tuple[int, ...]) -> float:
    """Return the l1 norm of a centred row of norm one; all rows of a schema have the same."""
    first = np.concatenate([np.arange(size) == 0 for size in sizes])
    return float(np.abs(centred.matrix(sizes) @ first).sum()) * (1.0 + 1e-12)


def calibrated(params: Params, mechanism: str, choice: Choice, target: float, sizes) -> np.ndarray:
    """Return the smallest scale d_0^i whose certificate over all iterations is the target."""
    unit = build(params, mechanism, choice, (1.0,) * 5)
    found = mechanisms.shifts(unit, terms_of(params, unit), params.neighbour_iterations)
    low, high = np.full((2, 5), [[-30.0], [50.0]])  # powers of two
    for _ in range(30):
        middle = (low + high) / 2.0
        safe = mechanisms.bounds(unit, found, 2.0**middle, spread(sizes))["delta"] <= target
        low, high = np.where(safe, low, middle), np.where(safe, middle, high)
    return 2.0**high


def rows(params: Params, total: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return row numbers (test, held out for tuning, all that may be learnt from but the test)."""
    test, train = streams.split(params.seed, 0, 0, total, params.test)
    return test, train[:HELD_OUT], train


def learnt(params: Params, algorithm, numbers, source, judged, times) -> dict[str, np.ndarray]:
    """Return accuracies on the rows `judged`: `own [times, runs]`, `listener [runs]`; and `bits`.

    `own` is the mean over agents of their own models, `listener` that of the mean of everything
    that was sent in the last tenth of the iterations, which anybody can compute.
    """
    table, features = problem("none")
    T, warm_up = params.neighbour_iterations, params.promise_warm_up
    history = _history(params, numbers, T + warm_up, source)
    oracle = centred.Centred(features, table.labels, history, params.promise_clip, warm_up)
    own, bits, heard = [], [], np.zeros((len(numbers), features.dim + 1))

    def observe(state: optimizer.State, messages: optimizer.Messages | None = None) -> None:
        if state.t in times:
            right = centred.accuracy(features, table.labels, state.theta, judged)
            own.append(right.mean(axis=1))
        if messages is not None and state.t >= T - max(1, T // 10):
            heard[:] += messages.values()[0].mean(axis=1)
            bits.append(_bits(messages))

    start = np.zeros((len(numbers), 5, features.dim + 1))
    options = {"seed": params.seed, "runs": numbers, "observe": observe}
    observe(optimizer.run(algorithm, oracle, start, T, **options))
    listener = centred.accuracy(features, table.labels, heard, judged)
    return {"own": np.stack(own), "listener": listener, "bits": np.mean(bits, axis=0)}


def _history(params: Params, numbers, points: int, source: np.ndarray) -> np.ndarray:
    """Return the row numbers `[runs, agents, points, samples]` that arrive, drawn from `source`."""
    shape = (points, params.samples)
    drawn = [[streams.stream(params.seed, r, i, *shape, source) for i in range(5)] for r in numbers]
    return np.array(drawn)


def _bits(messages: optimizer.Messages) -> float:
    """Return the bits that stand for one coordinate of the model, with a code of fixed length."""
    sent = [values for values in (messages.theta, messages.psi) if values is not None]
    if messages.step is None:
        return float(FLOAT_BITS * len(sent))
    if len(sent) == 1:
        return TERNARY_BITS
    header = HEADER_BITS / messages.theta.shape[-1]
    return float(sum(quantizer.bits_fixed_length(levels).mean() + header for levels in sent))


def tune(params: dict, data: str, mechanism: str, target: float, place: int) -> dict:
    """Return candidate number `place` at a target: its scales d_0, and its scores on held-out rows.

    A run that diverges scores zero.
    """
    settings, (table, features) = Params(**params), problem("none")
    table.provenance.require(data)
    choice, d_0 = candidates(settings, mechanism)[place], np.ones(5)
    if mechanism not in REFERENCES:
        d_0 = calibrated(settings, mechanism, choice, target, features.sizes)
    _, held_out, train = rows(settings, features.rows)
    source, numbers = train[len(held_out) :], range(TUNING, TUNING + TUNING_RUNS)
    algorithm = build(settings, mechanism, choice, d_0.tolist())
    last = (settings.neighbour_iterations,)
    try:
        found = learnt(settings, algorithm, numbers, source, held_out, last)
        scores = [found["own"].mean(), found["listener"].mean()]
    except optimizer.Diverged:
        scores = [0.0, 0.0]
    return {"scores": np.array(scores), "d_0": d_0}


def compute(
    params: dict, data: str, mechanism: str, choice: list, d_0: list, first_run: int, count: int
) -> dict[str, np.ndarray]:
    """Return what `learnt` returns of a block of runs on the test rows."""
    settings, (table, features) = Params(**params), problem("none")
    table.provenance.require(data)
    test, _, train = rows(settings, features.rows)
    algorithm = build(settings, mechanism, Choice(*choice), d_0)
    numbers = range(first_run, first_run + count)
    return learnt(settings, algorithm, numbers, train, test, moments(settings))


def moments(params: Params) -> list[int]:
    """Return the iterations after which agents' own models are judged."""
    T = params.neighbour_iterations
    return sorted({max(1, T // 30), max(1, T // 10), max(1, T // 3), T})


def search(params: Params, table: mushrooms.Mushrooms) -> pd.DataFrame:
    """Return every candidate tried: mechanism, target, lam_0, nu, third, d_0, own, listener.

    `own` and `listener` are its scores. References have no target (zero). Resumable.
    """
    asked = [(name, target) for name in MECHANISMS for target in params.neighbour_targets]
    tried = [
        {"mechanism": name, "target": target, "place": place}
        for name, target in [*asked, *((name, 0.0) for name in REFERENCES)]
        for place in range(len(candidates(params, name)))
    ]
    pieces = [_common(params, table) | one for one in tried]
    found = runs.run(tune, pieces, description=f"{len(tried)} candidates")
    records = []
    for one, result in zip(tried, found, strict=True):
        scores = dict(zip(MEASURES, result["scores"].tolist(), strict=True))
        choice = candidates(params, one["mechanism"])[one["place"]]._asdict()
        records.append(one | choice | scores | {"d_0": result["d_0"].tolist()})
    return pd.DataFrame(records)


def chosen(tried: pd.DataFrame) -> pd.DataFrame:
    """Return the best candidate of every measure, mechanism and target; the first of equals."""
    by = tried.groupby(["mechanism", "target"], sort=False)
    best = [tried.loc[by[measure].idxmax()].assign(measure=measure) for measure in MEASURES]
    return pd.concat(best, ignore_index=True)


def run(params: Params, table: mushrooms.Mushrooms, best: pd.DataFrame) -> pd.DataFrame:
    """Return accuracies of all runs of what was chosen: measure, mechanism, target, t, run.

    Shows progress, can be interrupted; what is chosen for both measures is computed once.
    """
    starts = range(0, params.neighbour_runs, BLOCK)
    asked = [(one, first) for one in best.itertuples() for first in starts]
    pieces = [
        _common(params, table)
        | {"mechanism": one.mechanism, "choice": [one.lam_0, one.nu, one.third], "d_0": one.d_0}
        | {"first_run": first, "count": min(BLOCK, params.neighbour_runs - first)}
        for one, first in asked
    ]
    found = runs.run(compute, pieces, description=f"{params.neighbour_runs} runs x {len(best)}")
    tables = [_table(params, *ask, result) for ask, result in zip(asked, found, strict=True)]
    return pd.concat(tables, ignore_index=True)


def _table(params: Params, one, first: int, result: dict) -> pd.DataFrame:
    accuracy, times = result["own"], moments(params)
    if one.measure == "listener":
        accuracy, times = result["listener"][None], [params.neighbour_iterations]
    numbers = range(first, first + accuracy.shape[1])
    index = pd.MultiIndex.from_product([times, numbers], names=["t", "run"])
    part = pd.DataFrame({"accuracy": accuracy.ravel()}, index=index).reset_index()
    named = {"measure": one.measure, "mechanism": one.mechanism, "target": one.target}
    return part.assign(**named, bits=float(result["bits"]))


def _common(params: Params, table: mushrooms.Mushrooms) -> dict:
    own = params.model_dump(include=OWN, mode="json")
    return {"params": own, "data": table.provenance.sha256}
