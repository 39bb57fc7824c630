"""The promise: from a target delta to steps that keep it for ever, and what they cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from companion.explore import spent
from companion.publish.play.pages.controls import Control
from ldp_core import network, quantizer
from ldp_core.accountant.promise_plan import Plan, plan
from ldp_core.clipping import clipped
from ldp_core.optimizer import Algorithm1, Messages, State, run
from ldp_core.randomness import Purpose, generator

TITLE = "The promise"
QUESTION = "What can be promised for ever, and what does it cost?"
TEXT = (
    "Choose how much an eavesdropper may ever learn about one sample, and how many samples each "
    "agent collects before its first message. The steps of the grid follow, from public numbers "
    "alone. The curve is certified for all data and all attackers; it never rises above your line."
)
TRY = (
    "Promise 0.05. From how many samples on does learning survive?",
    "Double the iterations. Does the promise cost more?",
    "How many bits does a number need, in place of 64?",
)
CONTROLS = (
    Control("target", "δ that is kept for ever", 0.2, 0.05, 0.9, 0.05),
    Control("samples", "samples collected before the first message", 3.0, 1.0, 5.0, 0.25, True),
    Control("iterations", "iterations of training", 150, 50, 300, 50),
)
SEED, CLIP, DIM, NETWORK = 0, 0.1, 3, network.paper(0.2)
KINDS, FLIPPED, RUNS = 32, 0.1, 5  # kinds of sample, share of wrong labels, runs that are averaged
PUBLIC: dict[str, Any] = {"clip": CLIP, "dim": DIM, "degree": 3, "cone": True}  # all may know
PUBLIC |= {"nu": (0.61, 0.71, 0.81, 0.91), "varsigma": (0.51,), "horizon": 4000}  # a quick plan
TIMES = (1, 3, 10, 30, 100, 300, 1000, 3000)  # where the curve is drawn, before for ever


def answer(target, samples, iterations):
    """Return the plan's certified curve, and the accuracy and bits of runs that keep it."""
    known = PUBLIC | {"warm_up": samples}
    found = plan(NETWORK, iterations, target, **known)
    return kept(found, samples, iterations)


def kept(found: Plan, samples: int, iterations: int) -> dict:
    """Return what is promised, and what runs under the promise reach."""
    oracle = Kinds.drawn(samples, iterations)
    accuracy, bits = _accuracy(found, oracle, iterations)
    twin = Algorithm1(found.terms.network, found.schedules, quantised=False)
    return {
        "times": list(TIMES),
        "curve": spent(found.terms, TIMES),
        "for_ever": float(found.certificate.delta.max()),
        "d_0": found.schedules.d_0,
        "lam_0": found.schedules.lam_0,
        "nu": found.schedules.nu,
        "accuracy": accuracy,
        "twin": oracle.accuracy(_trained(twin, oracle, iterations).theta),
        "best": 1.0 - FLIPPED,
        "bits": bits,
    }


@dataclass(frozen=True)
class Kinds:
    """Logistic regression on samples of a few kinds: an oracle that says how it clips and waits.

    `rows` `[kinds, 3]` hold label times features, of length 1 or less; `counts` `[time, agents,
    kinds]` say how many samples of a kind each agent has collected by time t.
    """

    rows: np.ndarray
    counts: np.ndarray
    warm_up: int
    clip: float = CLIP
    samples: int = 1
    cone: bool = True

    @classmethod
    def drawn(cls, warm_up: int, iterations: int, agents: int = 5) -> Kinds:
        """Return samples drawn evenly from all kinds, the same for the same seed."""
        source = generator(SEED, Purpose.SYNTHETIC)
        points = 2.0 * source.random((KINDS, 2)) - 1.0
        label = np.where(points @ np.array([1.0, 0.6]) > 0.1, 1.0, -1.0)
        rows = label[:, None] * np.column_stack([points, np.ones(KINDS)]) / math.sqrt(3.0)
        arriving = _arrivals(source, warm_up, iterations, agents)
        return cls(np.vstack([rows, -rows]), np.cumsum(arriving, axis=0), warm_up)

    def __call__(self, theta: np.ndarray, t: int) -> np.ndarray:
        """Return the mean of the clipped gradients of all samples so far."""
        gradients = clipped(-self.rows / (1.0 + np.exp(self._scores(theta)))[..., None], self.clip)
        share = self.counts[t] / (self.warm_up + t + 1.0)
        return np.einsum("ak,rakd->rad", share, gradients)

    def accuracy(self, theta: np.ndarray) -> float:
        """Return the share of right answers on samples to come, averaged over agents and runs."""
        right = (self._scores(theta)[..., :KINDS] > 0).mean()
        return float(right * (1.0 - FLIPPED) + (1.0 - right) * FLIPPED)

    def _scores(self, theta: np.ndarray) -> np.ndarray:
        """Return how sure the model is of each kind, cut where exp would overflow."""
        return np.clip(np.einsum("rad,kd->rak", theta, self.rows), -500.0, 500.0)


def _arrivals(source, warm_up: int, iterations: int, agents: int) -> np.ndarray:
    """Return how many samples of a kind arrive `[time, agents, 2 kinds]`; warm-up is at t = 0."""
    arriving = np.zeros((iterations, agents, 2 * KINDS))
    for agent in range(agents):
        u = source.random((2, warm_up + iterations))
        kind = np.floor(KINDS * u[0]).astype(np.intp) + KINDS * (u[1] < FLIPPED)
        arriving[0, agent] = np.bincount(kind[: warm_up + 1], minlength=2 * KINDS)
        arriving[np.arange(1, iterations), agent, kind[warm_up + 1 :]] = 1.0
    return arriving


def _accuracy(found: Plan, oracle: Kinds, iterations: int) -> tuple[float, float]:
    """Return the mean accuracy of runs that keep the promise, and bits per number sent."""
    bits: list[float] = []

    def count(state: State, messages: Messages) -> None:
        levels = np.concatenate([messages.theta, messages.psi], axis=-1)
        bits.append(float(quantizer.bits_fixed_length(levels).mean()))

    start = np.zeros((RUNS, found.terms.network.agents, DIM))
    last = found.run(oracle, start, iterations, seed=SEED, observe=count)
    return oracle.accuracy(last.theta), float(np.mean(bits))


def _trained(algorithm: Algorithm1, oracle: Kinds, iterations: int) -> State:
    start = np.zeros((1, algorithm.network.agents, DIM))
    return run(algorithm, oracle, start, iterations, seed=SEED)
