"""Tiny dithered instances by enumeration: every outcome, every reaction of the neighbours, no theory.

One agent of Algorithm 1 with logistic gradients is simulated on two adjacent data sets, literally. What it sends is its
state plus triangular noise, coordinate by coordinate. The noise is observed through `bins` cells per coordinate, whose
probabilities are exact; seeing only cells cannot make two laws easier to tell apart, so the total variation found is never
above the true one, and tends to it. Neighbours choose what they send from a small set, after every outcome anew, to make the
total variation largest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


def triangular_cdf(x):
    x = np.clip(x, -1.0, 1.0)
    return np.where(x < 0, (1.0 + x) ** 2 / 2.0, 1.0 - (1.0 - x) ** 2 / 2.0)


def cells(shifts, bins: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the probabilities of the cells of each coordinate, under noise around 0 and around its shift, `[shifts, bins]`.

    The cells cut the overlap of the two supports into bins - 2 equal parts; the two outermost are what one side has alone.
    """
    shifts = np.abs(np.asarray(shifts, dtype=float)).reshape(-1, 1)
    inner = np.minimum(shifts - 1.0, 1.0) + np.linspace(0.0, 1.0, bins - 1) * np.abs(2.0 - shifts)
    edges = np.hstack([np.full_like(shifts, -1.0), inner, 1.0 + shifts])
    return np.diff(triangular_cdf(edges)), np.diff(triangular_cdf(edges - shifts))


def joint(shifts, bins: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the probabilities of all joint outcomes of independent coordinates with these shifts."""
    P, Q = np.ones(1), np.ones(1)
    for p, q in zip(*cells(shifts, bins), strict=True):
        P, Q = np.multiply.outer(P, p).ravel(), np.multiply.outer(Q, q).ravel()
    return P, Q


def total_variation(shifts, bins: int) -> float:
    """Return the total variation of the cells of a product of shifted coordinates."""
    P, Q = joint(shifts, bins)
    return float(np.maximum(P - Q, 0.0).sum())


@dataclass(frozen=True)
class Agent:
    """One agent: what Algorithm 1 makes of its own state, of what arrives, and of its samples."""

    r: float
    c: float
    agents: int
    z: Sequence[float]
    lam: Sequence[float]
    step: Sequence[float]
    l2: float = 0.0

    def next(self, t: int, theta, psi, rows, labels, arriving):
        """Return (theta, psi) at t + 1 from those at t, the samples seen so far, and the weighted sums that arrive."""
        slopes = labels / (1.0 + np.exp(np.minimum(700.0, labels * (rows @ theta))))
        gradient = self.l2 * theta - slopes @ rows / len(rows)
        new_psi = (1.0 - self.c) * psi + arriving[1] + self.lam[t] * gradient
        new_theta = (1.0 - self.r) * theta + arriving[0] - (new_psi - psi) / (self.agents * self.z[t])
        return new_theta, new_psi


def adaptive_total_variation(
    agent: Agent, theta_0, samples, other, per_step: int, warm_up: int, T: int, reactions, bins: int
) -> float:
    """Return the largest total variation of T iterations of messages over all ways the neighbours may react.

    `samples` and `other` are the two data sets, (rows, labels) each; `per_step` of them arrive at a time, after `warm_up`
    times as many. `reactions` are the pairs (for theta, for psi) that may arrive in any iteration.
    """

    def value(t, p, q, ours, theirs):
        """Return the sum of (p - q)_+ over all continuations of each history (p, q), under the best reactions."""
        if t == T:
            return np.maximum(p - q, 0.0)
        shifts = np.concatenate([(ours[0] - theirs[0]), (ours[1] - theirs[1])]) / agent.step[t]
        P, Q = joint(shifts[np.abs(shifts) > 0], bins)
        p, q = np.multiply.outer(p, P), np.multiply.outer(q, Q)
        seen = per_step * (warm_up + t + 1)
        best = None
        for arriving in reactions if t + 1 < T else reactions[:1]:  # what arrives in the last iteration is never sent on
            following = [
                agent.next(t, *state, data[0][:seen], data[1][:seen], arriving)
                for state, data in ((ours, samples), (theirs, other))
            ]
            gain = value(t + 1, p.ravel(), q.ravel(), *following).reshape(p.shape)
            best = gain if best is None else np.maximum(best, gain)
        return best.sum(axis=1)

    start = (np.asarray(theta_0, dtype=float), np.zeros(len(theta_0)))
    return float(value(0, np.ones(1), np.ones(1), start, start)[0])
