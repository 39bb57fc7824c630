"""One agent of Algorithm 1 as it should be, and mechanisms that differ from it in exactly one place
and leak more.

`Right` sends the agent's states with fresh coins while what the agent receives is held fixed: the
mechanism that the accountant describes. A fault overrides one of its methods, or which messages its
claim counts. Every subclass of `Right` is a fault.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ldp_core import network, quantizer
from ldp_core.accountant import exact, trajectory
from ldp_core.optimizer import Algorithm1, Schedules, Transcript, run
from ldp_core.randomness import Purpose, generator


@dataclass(frozen=True)
class Logistic:
    """Logistic loss on everything an agent has seen: rows `[agents, T, dim]` already multiplied by
    their labels."""

    rows: np.ndarray
    averaged: bool = True

    def __call__(self, theta: np.ndarray, t: int) -> np.ndarray:
        seen = self.rows[:, : t + 1]
        margins = np.einsum("atd,rad->rat", seen, theta)
        gradients = -np.einsum("rat,atd->rad", 1.0 / (1.0 + np.exp(margins)), seen)
        return gradients / (t + 1) if self.averaged else gradients


@dataclass(frozen=True)
class Case:
    """Agent `agent` of the paper's network with its data, the same data but for sample `k`, and
    what it receives."""

    iterations: int = 40
    dim: int = 4
    k: int = 10
    d_0: float = 2.0
    agent: int = 2
    seed: int = 20

    @cached_property
    def algorithm(self) -> Algorithm1:
        d_0 = np.full(5, self.d_0)
        d_0[4] /= 6.0  # somebody else's step is finer
        return Algorithm1(network.paper(), Schedules(0.5, 0.71, d_0, np.full(5, 0.61)))

    @cached_property
    def data(self) -> np.ndarray:
        rows = generator(self.seed, Purpose.SYNTHETIC).standard_normal(
            (5, self.iterations, self.dim)
        )
        return rows / np.linalg.norm(rows, axis=-1, keepdims=True)

    def oracle(self, which: int) -> Logistic:
        """Return the agent's own gradients under D (0) and D' (1): sample k has the opposite label
        under D'."""
        rows = self.data[self.agent : self.agent + 1].copy()
        rows[:, self.k] *= 1 - 2 * which
        return Logistic(rows)

    @cached_property
    def received(self) -> trajectory.Received:
        transcript, start = Transcript(), np.zeros((1, 5, self.dim))
        run(
            self.algorithm,
            Logistic(self.data),
            start,
            self.iterations,
            seed=self.seed,
            observe=transcript,
        )
        return trajectory.received(self.algorithm, transcript, self.agent)

    def states(self, oracle: Logistic) -> np.ndarray:
        """Return theta and psi `[T, 2, dim]`."""
        replayed = trajectory.replay(
            self.algorithm, self.agent, self.received, oracle, np.zeros((1, self.dim))
        )
        return np.stack([np.concatenate([theta, psi]) for _, theta, psi in replayed])

    def step(self, agent: int) -> np.ndarray:
        """Return an agent's steps, `[T, 1, 1]`."""
        return self.algorithm.schedules.step(np.arange(self.iterations))[:, agent, None, None]

    def pair(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the states under D and under D' and the agent's steps, all `[T, 2, dim]`."""
        states = [self.states(self.oracle(which)) for which in (0, 1)]
        return tuple(np.broadcast_arrays(*states, self.step(self.agent)))


class Right:
    """The mechanism of the paper: every coordinate of theta and psi, at every t, sent with a coin
    of its own."""

    counted = np.s_[:, :]  # the messages `[T, 2, dim]` that the claim counts: all of theta and psi

    def __init__(self, case: Case):
        self.case = case

    def states(self, which: int) -> np.ndarray:
        """Return what is to be sent under data set `which`, `[T, 2, dim]`."""
        return self.case.states(self.case.oracle(which))

    def step(self, y: np.ndarray) -> np.ndarray:
        """Return the quantisation steps, `[T, 1, 1]` (of this shape up to broadcasting)."""
        return self.case.step(self.case.agent)

    def coins(self, private: np.random.Generator, samples: int, y: np.ndarray) -> np.ndarray:
        """Return uniform numbers, `[samples, T, 2, dim]`."""
        return private.random((samples, *y.shape))

    def send(self, y: np.ndarray, step: np.ndarray, coins: np.ndarray) -> np.ndarray:
        """Return the values that go over the wire, one row of them per sample."""
        return quantizer.value(quantizer.quantise(y, step, coins), step)

    def __call__(self, which: int, private: np.random.Generator, samples: int) -> np.ndarray:
        y = self.states(which)
        return self.send(y, self.step(y), self.coins(private, samples, y))


def claim(fault: type[Right], case: Case) -> float:
    """Return what is claimed for a fault: the exact total variation of what the right mechanism
    sends (its upper bound)."""
    return exact.delta(exact.pair(*(a[fault.counted] for a in case.pair())))[1]


class RoundedToNearest(Right):
    """Rounds to the nearest level: the coin is always 1/2."""

    def coins(self, private, samples, y):
        return np.full((samples, *y.shape), 0.5)


class PsiUnquantised(Right):
    """Sends psi as it is."""

    def send(self, y, step, coins):
        sent = super().send(y, step, coins)
        sent[:, :, 1] = y[:, 1]
        return sent


class RawStateOnce(Right):
    """Sends theta as it is, at one single t."""

    def send(self, y, step, coins):
        sent = super().send(y, step, coins)
        sent[:, -1, 0] = y[-1, 0]
        return sent


class StepDecaysTooFast(Right):
    """Decays the step with exponent 1.1 in place of 0.61."""

    def step(self, y):
        t = np.arange(1.0, len(y) + 1.0)[:, None, None]
        return super().step(y) / t ** (1.1 - 0.61)


class OtherAgentsStep(Right):
    """Uses the step of agent 4, who chose a finer one."""

    def step(self, y):
        return self.case.step(4)


class StepFromTheData(Right):
    """Scales the step to the largest coordinate of the state, rounded to a tenth."""

    def step(self, y):
        return super().step(y) * (1.0 + np.round(np.abs(y).max(axis=(1, 2), keepdims=True), 1))


class CoinsFromTheData(Right):
    """Draws its coins from a generator that is seeded with a hash of the state: the same state, the
    same coins."""

    def coins(self, private, samples, y):
        seed = int.from_bytes(hashlib.sha256(y.tobytes()).digest()[:8], "big")
        return np.broadcast_to(generator(seed, Purpose.COINS).random(y.shape), (samples, *y.shape))


class CoinsSharedOverCoordinates(Right):
    """Tosses one coin for all coordinates of a message."""

    def coins(self, private, samples, y):
        return np.broadcast_to(private.random((samples, *y.shape[:2], 1)), (samples, *y.shape))


class CoinsSharedOverTime(Right):
    """Tosses its coins at t = 0 and keeps them."""

    def coins(self, private, samples, y):
        return np.broadcast_to(private.random((samples, 1, *y.shape[1:])), (samples, *y.shape))


class CoinsSharedByThetaAndPsi(Right):
    """Uses the coins of theta for psi again."""

    def coins(self, private, samples, y):
        return np.broadcast_to(
            private.random((samples, len(y), 1, y.shape[2])), (samples, *y.shape)
        )


class CoinsOfFourBits(Right):
    """Cuts its coins to four bits."""

    def coins(self, private, samples, y):
        return np.floor(super().coins(private, samples, y) * 16) / 16


class SeedOfOneByte(Right):
    """Seeds its generator with a single byte."""

    def coins(self, private, samples, y):
        seeds = private.integers(256, size=samples)
        streams = np.stack([generator(seed, Purpose.COINS).random(y.shape) for seed in range(256)])
        return streams[seeds]


class NeverRounded(Right):
    """Adds the coin and forgets to round down: the level is floor(y / d + 1 - coin), and it sends
    what stands inside."""

    def send(self, y, step, coins):
        return quantizer.value(y / step + 1.0 - coins, step)


class SentTwice(Right):
    """Sends every message twice, with fresh coins: a retransmission that quantises again."""

    def coins(self, private, samples, y):
        return private.random((samples, 2, *y.shape))


class SentWhenMoved(Right):
    """Sends only when the state has moved by a twentieth of a step, and keeps silent (zero)
    otherwise."""

    def send(self, y, step, coins):
        moved = np.abs(np.diff(y, axis=0, prepend=0.0)) > step / 20
        return np.where(moved, super().send(y, step, coins), 0.0)


class GradientSummed(Right):
    """Forgets to divide the gradient by the number of samples seen."""

    def states(self, which):
        return self.case.states(replace(self.case.oracle(which), averaged=False))


class FractionSentAlong(Right):
    """Sends beside each level how sure it was, in tenths."""

    def send(self, y, step, coins):
        sure = np.round(quantizer.pmf(y, step).upper_probability, 1)
        return np.concatenate(
            [super().send(y, step, coins), np.broadcast_to(sure, coins.shape)], axis=1
        )


class ThetaForgotten(Right):
    """Sends what it should, and claims the budget of psi alone."""

    counted = np.s_[:, 1:]


class CountedToTheMiddle(Right):
    """Sends what it should, and stops counting its budget at t = 20, halfway."""

    counted = np.s_[:20]
