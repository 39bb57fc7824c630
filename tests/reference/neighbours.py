"""The neighbours of Algorithm 1, written out: one run, one agent, one coordinate after the other.

Slow on purpose, and without a line of the project's code. Below, tiny instances by enumeration:
every outcome of one agent's messages, neighbours that react to each in the best of a few ways.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.stats import laplace, norm


def normals(first: float, second: float) -> tuple[float, float]:
    """Box and Muller 1958."""
    radius = math.sqrt(-2.0 * math.log(1.0 - first))
    return radius * math.cos(2 * math.pi * second), radius * math.sin(2 * math.pi * second)


def tracked(R, C, lam_0, nu, d_0, varsigma, theta_0, gradient, coins, iterations, noise_on):
    """Gradient tracking, eq. (4), normal noise on "messages" (d_t / 2) or "gradients" (d_t)."""
    m, dim = theta_0.shape
    theta, psi, z = theta_0.copy(), np.zeros((m, dim)), np.eye(m)
    path = [theta.copy()]
    for t in range(iterations):
        lam, u = lam_0 / (t + 1) ** nu, coins[t]
        d = [d_0[i] / (t + 1) ** varsigma[i] for i in range(m)]
        sent_theta, sent_psi, noise = theta.copy(), psi.copy(), np.zeros((m, dim))
        for i in range(m):
            for k in range(dim):
                one, two = normals(u[0][i][k], u[1][i][k])
                if noise_on == "messages":
                    sent_theta[i, k] += d[i] / 2 * one
                    sent_psi[i, k] += d[i] / 2 * two
                else:
                    noise[i, k] = d[i] * one
        new_theta, new_psi, new_z = np.empty((m, dim)), np.empty((m, dim)), np.empty((m, m))
        for i in range(m):
            new_psi[i] = (1 + C[i, i]) * psi[i] + lam * (gradient(i, sent_theta[i], t) + noise[i])
            new_theta[i] = (1 + R[i, i]) * theta[i]
            new_z[i] = z[i]
            for j in range(m):
                if j != i:
                    new_psi[i] += C[i, j] * sent_psi[j]
                    new_theta[i] += R[i, j] * sent_theta[j]
                    new_z[i] += R[i, j] * (z[j] - z[i])
            new_theta[i] -= (new_psi[i] - psi[i]) / (m * z[i, i])
        theta, psi, z = new_theta, new_psi, new_z
        path.append(theta.copy())
    return path


def weakened(R, lam_0, nu, d_0, varsigma, u, theta_0, gradient, coins, iterations, mechanism):
    """theta + gamma_t sum_j R_ij (sent_j - theta_i) - lam_t g_i / (m z_ii), gamma_t = (t+1)^-u."""
    m, dim = theta_0.shape
    theta, z, path = theta_0.copy(), np.eye(m), [theta_0.copy()]
    for t in range(iterations):
        sent = np.empty((m, dim))
        for i in range(m):
            d = d_0[i] / (t + 1) ** varsigma[i]
            for k in range(dim):
                sent[i, k] = SENDERS[mechanism](theta[i, k], d, coins[t][i][k])
        new_theta, new_z = theta.copy(), z.copy()
        for i in range(m):
            for j in range(m):
                if j != i and R[i, j] > 0:
                    new_theta[i] += R[i, j] * (sent[j] - theta[i]) / (t + 1) ** u
                    new_z[i] += R[i, j] * (z[j] - z[i])
            new_theta[i] -= lam_0 / (t + 1) ** nu * gradient(i, sent[i], t) / (m * z[i, i])
        theta, z = new_theta, new_z
        path.append(theta.copy())
    return path


def add_laplace(y: float, b: float, coin: float) -> float:
    """Return y plus the Laplace number of scale b whose distribution function is the coin."""
    return y + (b * math.log(2 * coin) if coin < 0.5 else -b * math.log(2 * (1 - coin)))


def ternary(y: float, r: float, coin: float) -> float:
    """Return r sign(y) with probability |y| / r, else 0; |y| is at most r, or taken to be r."""
    if coin >= min(abs(y), r) / r:
        return 0.0
    return r if y > 0 else -r


SENDERS = {"laplace": add_laplace, "ternary": ternary}


@dataclass(frozen=True)
class Agent:
    """One agent: what it sends (`law`), and how a state follows from it, a gradient and the others.

    `law(y, other, scale)` gives (p, q, seen) `[histories, outcomes]` of a coordinate;
    `follow(t, state, v, arriving)` the next state; `shown(state)` what is sent of a state.
    """

    law: Callable
    follow: Callable
    shown: Callable
    scale: np.ndarray


def three_levels(y, other, r):
    """Return the laws of the levels -1, 0, 1 for two inputs of each history."""
    p, q = (
        np.stack([np.maximum(-x, 0.0), 1.0 - np.abs(x), np.maximum(x, 0.0)], axis=1)
        for x in (np.clip(y / r, -1, 1), np.clip(other / r, -1, 1))
    )
    return p, q, np.tile([-r, 0.0, r], (len(y), 1))


def two_levels(y, other, d):
    """Return the laws of eq. (3) on the levels next to one of two inputs of each history."""
    lowest = np.floor(np.minimum(y, other) / d)
    number = int((np.floor(np.maximum(y, other) / d) - lowest).max()) + 2
    levels = lowest[:, None] + np.arange(number)
    p, q = (np.maximum(0.0, 1.0 - np.abs(levels - x[:, None] / d)) for x in (y, other))
    return p, q, levels * d


def cells(distribution, bins: int):
    """Return the law of noise seen through so many cells: no two laws are easier to tell apart so.

    An edge lies half-way between the two inputs, where the likelihood ratio is one.
    """

    def law(y, other, scale):
        middle = ((y + other) / 2.0)[:, None]
        inner = middle + scale * np.linspace(-2.5, 2.5, bins - 1)
        edges = np.hstack([np.full((len(y), 1), -np.inf), inner, np.full((len(y), 1), np.inf)])
        p, q = (np.diff(distribution.cdf((edges - x[:, None]) / scale), axis=1) for x in (y, other))
        seen = np.hstack([inner[:, :1] - scale / 2, inner + scale / 4])
        return p, q, seen

    return law


LAWS = {
    "laplace": cells(laplace, 4),
    "normal": cells(norm, 4),
    "ternary": three_levels,
    "eq. (3)": two_levels,
}


def total_variation(agent: Agent, state, T: int, gradients, reactions) -> float:
    """Return the largest total variation of T iterations of messages over all ways to react.

    After every outcome the neighbours choose one of `gradients`, pairs (v, v') of what the replaced
    sample gives in the two worlds, and one of `reactions`, what arrives.
    """

    def best(t, p, q, ours, theirs):
        P, Q = np.ones((len(p), 1)), np.ones((len(p), 1))
        shown = agent.shown(t, ours), agent.shown(t, theirs)
        for y, other in zip(shown[0].T, shown[1].T, strict=True):
            one, two, _ = agent.law(y, other, agent.scale[t])
            P = (P[:, :, None] * one[:, None, :]).reshape(len(p), -1)
            Q = (Q[:, :, None] * two[:, None, :]).reshape(len(p), -1)
        p, q = p[:, None] * P, q[:, None] * Q
        if t == T - 1:
            return np.maximum(p - q, 0.0).sum(axis=1)
        number, found = P.shape[1], []
        states = [[np.repeat(x, number, axis=0) for x in world] for world in (ours, theirs)]
        for v, other_v in gradients:
            for arriving in reactions:
                following = [
                    agent.follow(t, world, g, arriving)
                    for world, g in zip(states, (v, other_v), strict=True)
                ]
                found.append(best(t + 1, p.ravel(), q.ravel(), *following))
        return np.max(found, axis=0).reshape(p.shape).sum(axis=1)

    return float(best(0, np.ones(1), np.ones(1), state, state)[0])
