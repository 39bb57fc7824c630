"""The attacker whom a promise has in mind: it knows everything but one sample of one agent.

It hears every message and knows all other samples, the algorithm, and where gradients were taken
(at the values sent). For each *hypothesis* about the sample, a label or a picture, it knows where
the agent's states would have been, and so how likely its messages were. It chooses the likeliest:
nobody does better on average over the hypotheses. Around the states that were,

    log p(hypothesis) - log p(truth) = sum_t <B_t, dg_t> - I/2 sum_t E_t^2 + (third order),

dg_t the change of the mean gradient, E_t the shift of the states in steps, I the information of a
level (`quantizer`), B_t the derivative of the log-likelihood with respect to the gradient at t:
eq. (4) backwards. Of H hypotheses it finds the true one with probability at most 1/H + (1 - 1/H)
delta: take the first one's law for all, which is wrong by at most delta for each of the others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from companion.problems.clipped import Batch, History
from ldp_core import quantizer
from ldp_core.optimizer import Algorithm1, Messages, State


class Samples(NamedTuple):
    """Hypotheses about some targets: samples `x [targets, H, ...]`, labels `y [targets, H]`.

    Each in turn is taken for the truth; the first is what the run was made with.
    """

    x: np.ndarray
    y: np.ndarray


class Ear:
    """Hears one run (`observe` of `optimizer.run`): where gradients were taken, and scores.

    A score is the derivative of the log-probability of what was sent with respect to the state.
    """

    def __init__(self, degree: int):
        self.degree = degree
        self.sent: list[np.ndarray] = []
        self.scores: list[np.ndarray] = []

    def __call__(self, state: State, messages: Messages) -> None:
        if messages.step is None or messages.psi is None:
            rule = "read what it sends"
            raise ValueError(f"an algorithm that quantises nothing has no scores: {rule}")
        step = messages.step[:, None]
        pairs = ((state.theta, messages.theta), (state.psi, messages.psi))
        scores = [score(y[0] / step, level[0], self.degree) / step for y, level in pairs]
        self.scores.append(np.array(scores, dtype=np.float32))
        self.sent.append(messages.values()[0][0].astype(np.float32))


def score(x: np.ndarray, level: np.ndarray, degree: int) -> np.ndarray:
    """Return d log beta_p(level - x) / dx, x in steps: beta_p' is a difference of lower splines."""
    u = level - x
    slope = quantizer.density(u + 0.5, degree - 1) - quantizer.density(u - 0.5, degree - 1)
    return -slope / np.maximum(quantizer.density(u, degree), 1e-300)


def backwards(algorithm: Algorithm1, ear: Ear, agent: int) -> np.ndarray:
    """Return B_t `[time, dim]`: the log-likelihood's derivative with respect to each gradient."""
    network, schedules, T = algorithm.network, algorithm.schedules, len(ear.sent)
    r, c = -network.R[agent, agent], -network.C[agent, agent]
    scale, lam = network.agents * network.z(T)[:, agent], schedules.lam(np.arange(T))
    of_theta = of_psi = np.zeros_like(ear.sent[0][agent], dtype=np.float64)
    found = np.empty((T, len(of_theta)), dtype=np.float32)
    for t in reversed(range(T)):
        found[t] = lam[t] * (of_psi - of_theta / scale[t])
        theta, psi = ear.scores[t][:, agent]
        of_psi = psi + (1.0 - c) * of_psi + c / scale[t] * of_theta
        of_theta = theta + (1.0 - r) * of_theta
    return found


def likelihoods(
    algorithm: Algorithm1, oracle: History, ear: Ear, agent: int, about: Samples
) -> np.ndarray:
    """Return log p(hypothesis) - log p(truth) `[targets, truth, hypothesis]`, to second order.

    Every hypothesis is taken for the truth in turn: to this order the noise of the messages is the
    same whichever it is. Only so is the ceiling one: what is true is often what a model expects.
    The targets are samples that the agent has from the beginning on.
    """
    flat = about.x.reshape(*about.y.shape, -1)
    slopes, shifts = backwards(algorithm, ear, agent), _Shifts(algorithm, agent, flat)
    features, total = flat.shape[2], np.zeros((*about.y.shape, about.y.shape[1]))
    batch = Batch.of(about.x.reshape(-1, *about.x.shape[2:]), about.y.ravel())
    for t, slope in enumerate(slopes):
        found = oracle.model.factors(ear.sent[t][agent], batch, oracle.clip)
        u, rest = (part / oracle.seen(t) for part in found)
        first, behind = np.split(slope, [features * u.shape[1]])
        told = (flat.reshape(-1, features) @ first.reshape(features, -1) * u).sum(axis=1)
        told += rest @ behind
        told = told.reshape(about.y.shape)
        total += told[:, None, :] - told[:, :, None] - shifts.step(t, u, rest)
    return total


class _Shifts:
    """How far hypotheses move the states from where they were: eq. (4), for differences."""

    def __init__(self, algorithm: Algorithm1, agent: int, x: np.ndarray):
        self.algorithm, self.agent = algorithm, agent
        self.overlap = _products(x.astype(np.float64))  # of each picture with each
        self.psi: list[np.ndarray] = []
        self.theta: list[np.ndarray] = []

    def step(self, t: int, u: np.ndarray, rest: np.ndarray) -> np.ndarray:
        """Return I/2 E_t^2 of every pair, and move on by the gradients of iteration t."""
        parts = [part.reshape(*self.overlap.shape[:2], -1) for part in (u, rest)]
        if not self.psi:
            self.psi, self.theta = ([np.zeros_like(part) for part in parts] for _ in range(2))
        width = float(self.algorithm.schedules.step(t)[self.agent])
        moved = self._square(*self.psi) + self._square(*self.theta)
        cost = 0.5 * quantizer.information(self.algorithm.degree) * moved / width**2
        network, lam = self.algorithm.network, float(self.algorithm.schedules.lam(t))
        r, c = (-float(matrix[self.agent, self.agent]) for matrix in (network.R, network.C))
        scale = network.agents * float(network.z(t + 1)[t, self.agent])
        for k, part in enumerate(parts):
            change = lam * part - c * self.psi[k]
            self.psi[k] = self.psi[k] + change
            self.theta[k] = (1.0 - r) * self.theta[k] - change / scale
        return cost

    def _square(self, u: np.ndarray, rest: np.ndarray) -> np.ndarray:
        """Return |x_h u_h - x_g u_g|^2 + |rest_h - rest_g|^2 of every pair, from the factors."""
        inner = _products(u) * self.overlap + _products(rest)
        own = np.diagonal(inner, axis1=1, axis2=2)
        return own[:, :, None] + own[:, None, :] - 2.0 * inner


def _products(rows: np.ndarray) -> np.ndarray:
    """Return the products of every row with every row, `[targets, H, H]`."""
    return rows @ rows.swapaxes(1, 2)


def ceiling(delta: float, hypotheses: int) -> float:
    """Return the largest share of right answers that a promise of delta allows."""
    return 1.0 / hypotheses + (1.0 - 1.0 / hypotheses) * delta
