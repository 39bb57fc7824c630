"""One bench for Algorithm 1 and its neighbours: searched, calibrated, counted and certified alike.

Same network, clipped gradients and number of messages for every mechanism. *The search* is the same
for each: a grid of equal size (`candidates`), for every target delta the noise calibrated so that
each agent's certificate is the target, then the candidate with the best accuracy on rows that are
held out of the training rows. The test rows are used after the choice alone.

Two measures, each with its own choice: agents' `own` models, which they keep (the paper's measure),
and the model of a `listener` who has nothing but what was sent.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from companion.attacks.steered import attained
from companion.neighbours import mechanisms, products
from companion.neighbours.mechanisms import Gaussian, Laplace, NoisyGradients, Ternary, Weakened
from companion.params import FLOAT_BITS, HEADER_BITS, Params
from ldp_core import optimizer, quantizer
from ldp_core.accountant import promise
from ldp_core.accountant.promise_plan import BOX
from ldp_core.network import Network
from ldp_core.optimizer import DPSGD, Algorithm1, Messages, Schedules

MECHANISMS = {  # names of shards, and what readers see
    "spline": "ours: smooth coins (p = 3)",
    "paper": "the paper's quantizer, eq. (3)",
    "gaussian": "Gaussian noise on messages",
    "tracking": "Gaussian noise on gradients",
    "laplace": "Laplace noise, weakened",
    "ternary": "ternary levels, weakened",
}
REFERENCES = {  # Algorithm 1; each agent for itself
    "clear": "nothing hidden",
    "alone": "nothing sent",
}
MEASURES = ("own", "listener")  # whose model is judged
KEYS = ["measure", "mechanism", "target"]  # of a choice, and of what came of it
ONE_VALUE = ("laplace", "ternary")  # send theta alone, all others theta and psi
TERNARY_BITS = 2.0  # of a fixed length, for three levels
HORIZON = 100_000  # iterations that are followed one by one when the question is about all time


class Choice(NamedTuple):
    """What is searched: lam_0, nu, and `third` (`candidates`)."""

    lam_0: float
    nu: float
    third: float

    @classmethod
    def of(cls, row) -> Choice:
        """Return what a row of the tables of candidates holds."""
        return cls(row.lam_0, row.nu, row.third)


@dataclass(frozen=True, eq=False)
class Bench:
    """What a certificate depends on besides the mechanism: public numbers alone.

    `iterations` are those that the certificate covers (math.inf: all time). `row` is the direction
    in which two samples' gradients can be opposite, of l2 norm one, `spread` a bound of the l1 norm
    of any.
    """

    network: Network
    clip: float
    warm_up: int
    samples: int
    iterations: float
    row: np.ndarray
    spread: float
    horizon: int = HORIZON

    def terms(self, algorithm) -> promise.Terms:
        """Return what the certificate of a mechanism depends on."""
        degree = max(2, algorithm.degree)
        parts, counted = (algorithm.network, algorithm.schedules), (self.warm_up, self.samples)
        return promise.Terms(*parts, self.clip, *counted, cone=True, degree=degree)

    def shifts(self, algorithm, iterations: float) -> promise.Shifts:
        """Return how far one sample moves the messages of so many iterations."""
        found = self.terms(algorithm)
        return mechanisms.shifts(algorithm, found, iterations, horizon=self.horizon)


def candidates(params: Params, mechanism: str, clip: float) -> list[Choice]:
    """Return the grid of a mechanism: pushes lam_0 C, nu, and what else it can choose.

    That is varsigma where theta and psi are sent with noise, the weakening factor's exponent where
    theta alone is, and the exponent with which noise on gradients fades.
    """
    third = "weakening" if mechanism in ONE_VALUE else "varsigma"
    names = "pushes", "nu", "fading" if mechanism == "tracking" else third
    found = itertools.product(*(getattr(params, f"neighbour_{name}") for name in names))
    return [Choice(push / clip, *others) for push, *others in found]


def build(bench: Bench, mechanism: str, choice: Choice, d_0):
    """Return a mechanism with its schedules; each takes gradients at what it sent."""
    varsigma = 0.0 if mechanism in ONE_VALUE else choice.third
    with warnings.catch_warnings():  # schedules of others than Algorithm 1 may leave its range
        warnings.simplefilter("ignore", optimizer.TheoremWarning)
        schedules = Schedules(choice.lam_0, choice.nu, tuple(d_0), (varsigma,) * 5, explore=True)
    parts = (bench.network, schedules)
    if mechanism in ONE_VALUE:
        return (Laplace if mechanism == "laplace" else Ternary)(*parts, weakening=choice.third)
    if mechanism in ("gaussian", "tracking"):
        return (Gaussian if mechanism == "gaussian" else NoisyGradients)(*parts)
    if mechanism in REFERENCES:
        alone = mechanism == "alone"
        return DPSGD(np.eye(5), schedules) if alone else Algorithm1(*parts, quantised=False)
    box = BOX * (max(d_0) + choice.lam_0 * bench.clip)
    return Algorithm1(*parts, degree=3 if mechanism == "spline" else 1, at_sent=True, box=box)


def calibrated(bench: Bench, mechanism: str, choice: Choice, targets) -> list[np.ndarray]:
    """Return for each target the smallest scales d_0^i whose certificate is the target.

    References hide nothing: their scales are one.
    """
    if mechanism in REFERENCES:
        return [np.ones(5) for _ in targets]
    unit = build(bench, mechanism, choice, (1.0,) * 5)
    found = bench.shifts(unit, bench.iterations)
    return [_smallest(unit, found, target, bench.spread) for target in targets]


def _smallest(unit, found: promise.Shifts, target: float, spread: float) -> np.ndarray:
    low, high = np.full((2, 5), [[-30.0], [50.0]])  # powers of two
    for _ in range(30):
        middle = (low + high) / 2.0
        safe = mechanisms.bounds(unit, found, 2.0**middle, spread)["delta"] <= target
        low, high = np.where(safe, low, middle), np.where(safe, middle, high)
    return 2.0**high


def chosen(tried: pd.DataFrame) -> pd.DataFrame:
    """Return the best candidate of every measure, mechanism and target; the first of equals."""
    by = tried.groupby(["mechanism", "target"], sort=False)
    best = [tried.loc[by[measure].idxmax()].assign(measure=measure) for measure in MEASURES]
    return pd.concat(best, ignore_index=True)


def bits(messages: Messages) -> float:
    """Return the bits that stand for one coordinate of the model, with a code of fixed length."""
    sent = [values for values in (messages.theta, messages.psi) if values is not None]
    if messages.step is None:
        return float(FLOAT_BITS * len(sent))
    if len(sent) == 1:
        return TERNARY_BITS
    header = HEADER_BITS / messages.theta.shape[-1]
    return float(sum(quantizer.bits_fixed_length(levels).mean() + header for levels in sent))


def deltas(bench: Bench, mechanism: str, choice: Choice, d_0, T: int) -> dict[str, float]:
    """Return what is known of the largest delta of any agent.

    `certified` over the T iterations, `for_ever` over all time with the same setting (1: nothing is
    proven), `one_iteration` the largest of one, `pure` by pure epsilon (Laplace), `attained` by one
    pair of samples (`reached`) `within` the iterations that the target covers, or the horizon.
    """
    algorithm, d_0 = build(bench, mechanism, choice, d_0), np.asarray(d_0)
    shifts = bench.shifts(algorithm, T)
    single = dataclasses.replace(shifts, followed=shifts.followed.max(axis=0, keepdims=True))
    ever = bench.shifts(algorithm, math.inf)
    bounds, of_one, for_ever = (
        mechanisms.bounds(algorithm, found, d_0, bench.spread) for found in (shifts, single, ever)
    )
    found = {"certified": bounds["delta"].max(), "for_ever": for_ever["delta"].max()}
    found["one_iteration"] = of_one["delta"].max()
    pure = bounds["pure epsilon"].max() if "pure epsilon" in bounds else math.nan
    within = int(min(bench.iterations, bench.horizon))
    attained = reached(bench, algorithm, within)
    return found | {"pure": pure, "attained": attained, "within": within}


def reached(bench: Bench, algorithm, T: int) -> float:
    """Return the total variation of one pair of samples after T iterations: any delta is above it.

    Two samples whose gradients are opposite, while neighbours keep both clipped: the states are
    apart along their row by `attained`, or by all that is certified where nothing cancels. Two
    levels are told apart best with one world's state on the grid (at zero): whether the other's
    level differs there is decided by independent coins. Normal noise has a closed form. For Laplace
    noise and smooth coins it is a lower bound (`products`), for the agent that moves farthest.
    """
    apart = np.abs(_apart(bench, algorithm, T))
    squares = (apart**2).sum(axis=(0, 2))
    if isinstance(algorithm, Gaussian | NoisyGradients):
        width = 2.0 if isinstance(algorithm, Gaussian) else 1.0
        return float(mechanisms.gaussian(width * np.sqrt(squares)).max())
    entries, counts = np.unique(np.abs(bench.row), return_counts=True)
    laplace = isinstance(algorithm, Laplace)
    if algorithm.degree == 1 and not laplace:
        moved = np.minimum(np.multiply.outer(apart, entries), 1.0 - 1e-16)
        return float(-np.expm1((np.log1p(-moved) @ counts).sum(axis=(0, 2)).min()))
    moved = np.multiply.outer(apart[:, squares.argmax()], entries)
    laws = products.signs(moved) if laplace else products.levels(moved, algorithm.degree)
    ours, theirs = (law.reshape(moved.size, -1) for law in laws)
    return products.told_apart(ours, theirs, np.broadcast_to(counts, moved.shape).ravel())


def _apart(bench: Bench, algorithm, T: int) -> np.ndarray:
    """Return how far apart two worlds' messages are, over scales, `[time, agents, messages]`."""
    terms = bench.terms(algorithm)
    d_0 = np.asarray(terms.schedules.d_0)
    if isinstance(algorithm, NoisyGradients | Weakened):
        return (bench.shifts(algorithm, T).followed / d_0 / mechanisms.UP)[..., None]
    both = [np.stack(attained(terms, i, T), axis=1) for i in range(len(d_0))]
    return np.stack(both, axis=1) / terms.schedules.step(np.arange(T))[..., None]
