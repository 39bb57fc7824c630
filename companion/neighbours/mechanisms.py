"""Neighbours of Algorithm 1 on the same bench: ternary levels, Laplace, Gaussian, noisy gradients.

    >>> from ldp_core import network
    >>> from ldp_core.optimizer import Schedules
    >>> schedules = Schedules(30.0, 0.9, (1.5,) * 5, (0.51,) * 5)
    >>> terms = Terms(network.paper(0.2), schedules, clip=0.1, warm_up=1000, cone=True)
    >>> algorithm = Gaussian(terms.network, schedules)
    >>> bounds(algorithm, shifts(algorithm, terms, 1000), np.full(5, 1.5))["delta"].max().round(3)
    np.float64(0.087)

Gradients are clipped (`clipping`) and taken at the value that was *sent*, so one sample moves them
by at most 2 C / N_t, whatever others do (docs/proofs/neighbours.md). With d_t of the schedules:

    Gaussian        Algorithm 1, noise of deviation d_t / 2 (eq. (3)'s largest) on theta and psi
    NoisyGradients  Algorithm 1 in the clear, noise of deviation d_t on gradients: plain DP tracking
    Laplace         noise of scale d_t on theta, with a weakening factor (Chen and Wang 2025)
    Ternary         theta as one of -d_t, 0, d_t, likewise (Wang and Basar 2023)

*Our choices* for the last two, on this directed network: the divisor m [z_t^i]_i of Algorithm 1
makes agents count alike; the weakening factor (t+1)**-u multiplies R; an agent's own state enters
as it is; no tracker, no projection. Where Ternary's |theta| > d_t the nearest end is sent.

`bounds` are of delta, the total variation of all that an agent sends when one sample is replaced
and neighbours choose what they send after all they have seen.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from ldp_core import checks
from ldp_core.accountant import promise
from ldp_core.accountant.drift import inverse_mz
from ldp_core.accountant.promise import Shifts, Terms
from ldp_core.optimizer import Algorithm1, Coins, Draws, Messages, State
from ldp_core.randomness import Purpose, Uniforms

UP = 1.0 + 1e-9  # covers the rounding of sums of up to 10^6 positive numbers
SMALLEST = 2.0**-53  # of uniform numbers: noise is cut off where it has this weight


def normal(coins: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return two independent normal numbers for every two coins `[runs, 2, ...]` (Box, Muller)."""
    radius = np.sqrt(-2.0 * np.log(np.maximum(1.0 - coins[:, 0], SMALLEST)))
    angle = 2.0 * math.pi * coins[:, 1]
    return radius * np.cos(angle), radius * np.sin(angle)


def _two(algorithm: Algorithm1, state: State, uniform: Draws) -> np.ndarray:
    wanted = (len(state.theta), 2, *state.theta.shape[1:])
    return checks.array("coins", algorithm.separate(uniform)[0], wanted)


@dataclass(frozen=True)
class Gaussian(Algorithm1):
    """Algorithm 1 with normal noise of deviation d_t / 2 in place of the quantizer."""

    at_sent: bool = True

    def send(self, state: State, uniform: Draws = None) -> Messages:
        """Return theta and psi with noise; `uniform` are the coins of Algorithm 1."""
        deviation = self.schedules.step(state.t)[:, None] / 2.0
        one, two = normal(_two(self, state, uniform))
        return Messages(state.t, state.theta + deviation * one, state.psi + deviation * two, None)


@dataclass(frozen=True)
class NoisyGradients(Algorithm1):
    """Algorithm 1 with every value in the clear and normal noise of deviation d_t on gradients."""

    def step(self, state: State, gradients, coins: Draws = None) -> tuple[State, Messages]:
        """Return the state at t + 1 and the messages; of each two coins one normal is used."""
        noise = self.schedules.step(state.t)[:, None] * normal(_two(self, state, coins))[0]
        messages = Messages(state.t, state.theta, state.psi, None)
        return self.move(state, gradients + noise, messages), messages


@dataclass(frozen=True)
class Weakened(Algorithm1):
    """theta_{t+1}^i = theta_t^i + gamma_t sum_j R_ij (sent_t^j - theta_t^i) - lam_t g_t^i / (m z_i)

    with gamma_t = (t+1)**-weakening and z_i = [z_t^i]_i of Algorithm 1; no psi is sent.
    """

    weakening: float = 0.6
    at_sent: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= checks.real("weakening", self.weakening) < 1:
            raise ValueError(f"weakening = {self.weakening} must lie in [0, 1): agents must meet")

    def coins(self, seed: int) -> Coins:
        """Return the source of coins `[runs, agents, dim]` at each t."""
        private, agents = Uniforms(seed, Purpose.COINS), self.network.agents
        return lambda runs, t, dim: private(runs, t, (agents, dim))

    def move(self, state: State, gradients: np.ndarray, messages: Messages) -> State:
        """Return the state at t + 1, when `messages` is what was sent at t."""
        checks.array("gradients", gradients, state.theta.shape)
        R, t = self.network.R, state.t
        sent, own = messages.values()[0], np.diagonal(R)[:, None]
        heard = np.einsum("ij,rjk->rik", np.where(R > 0, R, 0.0), sent) + own * state.theta
        scale = self.network.agents * np.diagonal(state.z)[:, None]
        theta = state.theta - self.schedules.lam(t) * gradients / scale
        theta += (t + 1.0) ** -self.weakening * heard
        return State(t + 1, theta, state.psi, state.z + R @ state.z)


@dataclass(frozen=True)
class Laplace(Weakened):
    """Laplace noise of scale d_t on theta."""

    def send(self, state: State, uniform: Draws = None) -> Messages:
        """Return theta with noise; a coin is the distribution function of its noise."""
        centred = checks.array("coins", uniform, state.theta.shape) - 0.5
        size = -np.log(np.maximum(1.0 - 2.0 * np.abs(centred), SMALLEST))
        noise = self.schedules.step(state.t)[:, None] * np.sign(centred) * size
        return Messages(state.t, state.theta + noise, None, None)


@dataclass(frozen=True)
class Ternary(Weakened):
    """Levels -1, 0, 1 of the step d_t: the sign of theta with probability |theta| / d_t, else 0."""

    def send(self, state: State, uniform: Draws = None) -> Messages:
        """Return the levels and d_t; the mean of what is sent is theta where |theta| <= d_t."""
        step = self.schedules.step(state.t)
        up = checks.array("coins", uniform, state.theta.shape) < np.abs(state.theta) / step[:, None]
        return Messages(state.t, (np.sign(state.theta) * up).astype(np.int64), None, step)


def bounds(algorithm, found: Shifts, d_0: np.ndarray, spread: float = 1.0) -> dict:
    """Return bounds of delta^i by name, one per agent; the least of them is "delta".

    `found` are the algorithm's `shifts`, for d_0 = 1. `spread` bounds ||v||_1 / ||v||_2 of samples'
    gradients v (sqrt(dim) always does): Ternary, eq. (3) and pure epsilon add up l1 norms, and
    `cone` must then mean a positive number times a fixed row. 1: nothing proven.
    """
    now, (total, squares, largest) = found.followed / d_0, _tail(found, d_0)
    squares = squares + (now**2).sum(axis=0)
    if isinstance(algorithm, Gaussian | NoisyGradients):  # d_t is two deviations, or one
        by = {"closed form": gaussian(np.sqrt(squares) * (1 + isinstance(algorithm, Gaussian)))}
    elif isinstance(algorithm, Laplace):  # of a shift s: (1 + s/2) exp(-s/2) >= exp(-s^2/8)
        pure = np.tanh(spread * (now.sum(axis=0) + total) / 2.0)
        by = {"pure epsilon": pure, "affinity": np.sqrt(-np.expm1(-squares / 4.0))}
    elif algorithm.degree == 1:
        spread *= 1.0 if isinstance(algorithm, Ternary) else math.sqrt(2.0)  # theta and psi
        by = {"product": coupled(spread * now, spread * total, spread * largest)}
    else:
        by = {"affinity": promise.hellinger(np.sum(promise.exponents(found, d_0), axis=0))}
    by = {name: np.minimum(1.0, bound * UP) for name, bound in by.items()}
    return by | {"delta": np.min(list(by.values()), axis=0)}


def gaussian(mu) -> np.ndarray:
    """Return 2 Phi(mu / 2) - 1: the total variation of normal laws that are mu deviations apart."""
    half = np.minimum(mu, 80.0) / 2.0
    phi = np.array([NormalDist().cdf(x) for x in half.flat]).reshape(half.shape)
    return 2.0 * phi - 1.0


def coupled(steps: np.ndarray, later=0.0, largest=0.0) -> np.ndarray:
    """Return 1 - prod_t (1 - s_t) for bounds s_t `[time, agents]` of the total variation of a step.

    Two runs that agree so far can be made to agree at t with probability 1 - s_t. `later` is the
    sum of all s_t that follow, none above `largest`.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        kept = np.log1p(-np.minimum(steps, 1.0)).sum(axis=0)
        return np.where(largest < 1, -np.expm1(kept - later / (1.0 - largest)), 1.0)


def shifts(algorithm, terms: Terms, iterations: float, *, horizon: int = 100_000) -> Shifts:
    """Return how far one sample moves an agent's messages, in l2 norm and for d_0 = 1."""
    if not isinstance(algorithm, Weakened | NoisyGradients):
        return promise.shifts(terms, iterations, horizon=horizon)
    T = checks.whole("iterations", horizon if iterations == math.inf else iterations)
    B, varsigma = 2.0 * terms.clip * terms.copies / terms.samples, terms.schedules.varsigma
    moved, fall = _pushes(terms, np.arange(T)), 1.0 - np.asarray(varsigma)
    if isinstance(algorithm, Weakened):
        moved, B, fall = _weak(algorithm, terms, T, fall)
    moved = moved * (np.arange(T) + 1.0)[:, None] ** np.asarray(varsigma) * UP
    later = (B * (T + 1.0) ** -fall * UP)[None][: int(iterations == math.inf)]
    return Shifts(terms, iterations, moved, later, np.zeros(len(later)), fall)


def _tail(found: Shifts, d_0: np.ndarray) -> np.ndarray:
    """Return bounds of the sum, of the squares and of the largest of shifts beyond those followed.

    After the last piece, from n = t + 1 = `end` on, they are at most first (n / end)**-fall.
    """
    if not len(found.later):
        return np.zeros((3, len(d_0)))
    later, end = found.later / d_0 * UP, len(found.followed) + 1.0 + found.number.sum()
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        rest = [later[-1] ** k * (1.0 + end / (k * found.fall - 1.0)) for k in (1, 2)]
        whole = np.nan_to_num([found.number @ later**k for k in (1, 2)], nan=np.inf, posinf=np.inf)
    whole += np.where(np.outer((1, 2), found.fall) > 1, rest, np.inf)
    return np.array([*whole, np.where(found.fall > 0, later.max(axis=0), np.inf)]) * UP


def _pushes(terms: Terms, t: np.ndarray) -> np.ndarray:
    """Return 2 C copies / N_t `[time, agents]`: how far one sample moves a gradient."""
    seen = terms.samples * (terms.warm_up + t + 1.0)
    return np.multiply.outer(np.minimum(1.0, terms.copies / seen), 2.0 * terms.clip)


def _weak(algorithm: Weakened, terms: Terms, T: int, fall: np.ndarray):
    """Return the shifts of theta, and B, fall + a with at most B (t+1)**-(1 + a) later.

    e_{t+1} = (1 - gamma_t r) e_t + a_t / (m z_t). With w_t = (t+1)**-a / (warm_up + t + 1), a = nu
    - u, w_{t+1} >= (1 - k / (t+2)) w_t, k = 1 + max(1, a): e_t <= E w_t stays true from T on if
    E (r - k (T+1)**(u-1)) >= A / (m z), a_t = A (t+1)**-u w_t. Where no E does, nothing is proven.
    """
    (inverse, later), schedules = inverse_mz(terms.network, T), terms.schedules
    t, r, u = np.arange(T), -np.diagonal(terms.network.R), algorithm.weakening
    push = _pushes(terms, t) * schedules.lam(t)[:, None] * inverse
    keep = 1.0 - np.multiply.outer((t + 1.0) ** -u, r)
    both = zip(keep.T.tolist(), push.T.tolist(), strict=True)  # plain floats are fastest here
    e = np.array([list(_followed(*each)) for each in both]).T
    a, warm = schedules.nu - u, terms.warm_up + T + 1.0
    room = r - (1.0 + max(1.0, a)) * (T + 1.0) ** (u - 1.0)
    A = 2.0 * terms.clip * terms.copies * schedules.lam_0 / terms.samples * later
    E = np.maximum(e[T] * warm * (T + 1.0) ** a, A / np.maximum(room, 1e-300))
    return e[:T], np.where(room > 0, E, np.inf), fall + a


def _followed(keep: list[float], push: list[float]) -> Iterator[float]:
    """Yield e_0 = 0 and e_{t+1} = keep_t e_t + push_t."""
    steps = zip(keep, push, strict=True)
    return itertools.accumulate(steps, lambda e, step: step[0] * e + step[1], initial=0.0)
