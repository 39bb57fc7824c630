"""Tiny instances of the promise by enumeration: every outcome, every reaction, no theory.

One agent of Algorithm 1 with coins of degree p is followed on two adjacent data sets. It takes its
gradients at what it sent, and its one sample that differs has clipped gradients v and v'; all
others cancel. After every outcome the neighbours choose anew, to make the total variation largest,
from a few pairs (v, v'), which stand for where they steer theta, and from a few values that they
may send, which move the state within its cell.

Without a dither the levels are enumerated and the total variation is exact. With one, the noise is
seen through `bins` cells a coordinate, which cannot make two laws easier to tell apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


def spline(x, degree: int):
    """Return the centred B-spline: 1/p! sum_j (-1)^j binom(p+1, j) (x + (p+1)/2 - j)_+^p."""
    x = np.asarray(x, dtype=float)
    x = (degree + 1) / 2 - np.abs(x)  # symmetric; the sum is over the fewest terms
    powers = (
        (-1) ** j * math.comb(degree + 1, j) * np.maximum(0.0, x - j) ** degree
        for j in range(degree + 1)
    )
    return np.maximum(0.0, sum(powers)) / math.factorial(degree)


def spline_cdf(x, degree: int):
    """Return the integral of the centred B-spline up to x: a sum of whole splines of the next
    degree.
    """
    x = np.clip(np.asarray(x, dtype=float), -(degree + 1) / 2, (degree + 1) / 2)
    return sum(spline(x - 0.5 - j, degree + 1) for j in range(degree + 2))


@dataclass(frozen=True)
class Agent:
    """One agent: degree, r, c, and for every t: d_t, lam_t / N_t and 1 / (m [z_t^i]_i)."""

    degree: int
    r: float
    c: float
    step: Sequence[float]
    push: Sequence[float]
    inverse: Sequence[float]
    bins: int = 0  # cells of a dithered coordinate; 0: no dither

    def outcomes(self, t: int, ours: np.ndarray, theirs: np.ndarray):
        """Return P, Q `[histories, outcomes]` and values `[histories, outcomes, coordinates]`."""
        P, Q, value = np.ones((len(ours), 1)), np.ones((len(ours), 1)), np.zeros((len(ours), 1, 0))
        for y, other in zip(ours.T / self.step[t], theirs.T / self.step[t], strict=True):
            p, q, seen = self._cells(y, other) if self.bins else self._levels(y, other)
            P = (P[:, :, None] * p[:, None, :]).reshape(len(y), -1)
            Q = (Q[:, :, None] * q[:, None, :]).reshape(len(y), -1)
            old = np.repeat(value, seen.shape[1], axis=1)
            new = np.tile(seen, (1, value.shape[1]))[:, :, None] * self.step[t]
            value = np.concatenate([old, new], axis=2)
        return P, Q, value

    def _levels(self, y, other):
        lowest = np.ceil(np.minimum(y, other) - (self.degree + 1) / 2)
        number = int(np.floor(np.maximum(y, other) + (self.degree + 1) / 2 - lowest).max()) + 1
        levels = lowest[:, None] + np.arange(number)
        return (
            spline(levels - y[:, None], self.degree),
            spline(levels - other[:, None], self.degree),
            levels,
        )

    def _cells(self, y, other):
        low, high = (
            np.minimum(y, other) - (self.degree + 1) / 2,
            np.maximum(y, other) + (self.degree + 1) / 2,
        )
        edges = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, self.bins + 1)
        p, q = (np.diff(spline_cdf(edges - x[:, None], self.degree), axis=1) for x in (y, other))
        return p, q, (edges[:, 1:] + edges[:, :-1]) / 2

    def next(self, t: int, theta, psi, gradient, arriving):
        """Return (theta, psi) at t + 1: eq. (4), with what arrives already weighted."""
        new_psi = (1.0 - self.c) * psi + arriving[1] + self.push[t] * gradient
        new_theta = (1.0 - self.r) * theta + arriving[0] - (new_psi - psi) * self.inverse[t]
        return new_theta, new_psi


def total_variation(agent: Agent, theta_0, T: int, gradients, reactions) -> float:
    """Return the largest total variation of T iterations of messages over all ways to react.

    `gradients` are functions: sent theta `[histories, dim]` -> (v, v') of the same shape.
    `reactions` are pairs of what may arrive at theta and at psi.
    """

    def best(t, p, q, ours, theirs):
        """Return the sum of (p - q)_+ over all continuations of each history, under the best
        reactions.
        """
        dim = ours[0].shape[1]
        both = [np.concatenate(state, axis=1) if t else state[0] for state in (ours, theirs)]
        P, Q, values = agent.outcomes(t, *both)  # psi_0 says nothing, and nothing depends on it
        p, q = p[:, None] * P, q[:, None] * Q
        if t == T - 1:
            return np.maximum(p - q, 0.0).sum(axis=1)
        number = P.shape[1]
        states = [[np.repeat(x, number, axis=0) for x in state] for state in (ours, theirs)]
        found = []
        for gradient in gradients:
            moved = gradient(values[:, :, :dim].reshape(-1, dim))
            for arriving in reactions:
                following = [
                    agent.next(t, *state, v, arriving)
                    for state, v in zip(states, moved, strict=True)
                ]
                found.append(best(t + 1, p.ravel(), q.ravel(), *following))
        return np.max(found, axis=0).reshape(p.shape).sum(axis=1)

    start = np.atleast_2d(np.asarray(theta_0, dtype=float))
    state = (start, np.zeros_like(start))
    return float(best(0, np.ones(1), np.ones(1), state, state)[0])
