"""A worst case that is certified: no data, no neighbours and no attacker can make delta larger.

From public constants alone, for a finite number of iterations or for all time. `sensitivity` bounds how far apart the states of
one agent can be; here the bounds of single messages become one delta.

One message. Its coordinates have independent coins, and one coordinate has total variation at most |y - y'| / d (Lemma 6).
So the message theta_t has total variation at most a_t = min(1, e_t / d_t) and psi_t at most b_t = min(1, p_t / d_t),
whatever was received before.

All messages. Let the neighbours react to what they receive, and let an attacker read every channel. Run the mechanism on D
and D' together: as long as both transcripts are equal, everything received is equal (the others' data are the same, and
they act on equal messages, so their coins can be shared), the bounds hold, and the next message can be coupled to differ
with probability at most a_t, or b_t (maximal coupling). Both transcripts are equal to the end with probability at least
prod (1 - a_t)(1 - b_t). Hence

    delta <= 1 - prod_t (1 - a_t)(1 - b_t) <= sum_t (e_t + p_t) / d_t.

The right side is how the paper composes; it is kept as computed, and says nothing when it exceeds one. The left side never
does.

Never above Theorem 2.1 as printed: p_t <= rho_psi,t because g_t <= 2 d_l; then, with 1 / (m [z_t^i]_i) <= C_z P_z**t + 1 /
u_i (Lemma 4),

    (c p_t + lam_t g_t) / (m [z_t^i]_i) <= (C_z P_z**t + 1 / u_i) (c rho_psi,t + 2 d_l lam_t)
                                        <= (C_z P_z**t + 1 / u_i) (rho_psi,t+1 + rho_psi,t)

because the last bracket is (2 - c) rho_psi,t + 2 d_l lam_t; so e_t <= rho_theta,t by induction.

All time. The messages up to a horizon are followed one by one, the later ones have the proven tail T (the sum of their (e_t
+ p_t) / d_t) and the peak s < 1 (the largest of them). -log(1 - x) / x grows with x, so the later factors multiply to at
least exp(T log(1 - s) / s).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ldp_core.accountant.sensitivity import UP, Setting, UnitBudget, times, unit_budget
from ldp_core.checks import whole
from ldp_core.network import Network
from ldp_core.optimizer import Schedules
from ldp_core.randomness import COIN_BITS

HORIZON = 20_000  # messages that are followed one by one when the question is about all time


@dataclass(frozen=True, eq=False)
class Certificate:
    """Bounds of delta^i after `iterations` (math.inf: all time), one per agent.

    `product` is the certificate, at most 1; `sum` composes the same messages as the paper does, and is not clipped. `tail`
    is the share of `sum` that comes from the analytic bound beyond `horizon` (zero for finite time). Both suppose coins of
    exact probability; `coins` is what coins of 53 bits can add to either (`coin_term`), None when no dimension was given.
    """

    iterations: float
    sum: np.ndarray
    product: np.ndarray
    horizon: int
    tail: np.ndarray
    coins: float | None = None


@dataclass(frozen=True, eq=False)
class Course:
    """The certificate after 1, 2, ... iterations: row t of `sum` and `product` `[time, agents]` is for t + 1 iterations."""

    sum: np.ndarray
    product: np.ndarray


def certify(
    network: Network,
    schedules: Schedules,
    d_l,
    L1,
    iterations: float,
    *,
    k: int = 0,
    warm_up: int = 0,
    samples: int = 1,
    dim: int | None = None,
    horizon: int = HORIZON,
) -> Certificate:
    """Return the certified worst case of delta^i after `iterations` (math.inf for all time), over all data and all neighbours.

    `d_l`, `L1`, `warm_up` and `samples` are explained in `sensitivity.Setting`; `k` is the time at which the modified data
    point arrives (0 is the worst). For all time `horizon` messages are followed one by one: a longer one is tighter.
    Without L1, or with varsigma >= nu, or a horizon too short for the tail's proof, `sum` is infinite and `product` is 1 at
    infinite time.
    """
    setting = Setting.of(network, schedules, d_l, L1, warm_up=warm_up, samples=samples, k=k)
    for_ever = iterations == math.inf
    followed = whole("horizon", horizon, 1) if for_ever else whole("iterations", iterations, 0)
    unit = unit_budget(setting, followed, for_ever=for_ever)
    scale = scale_of(setting, np.asarray(schedules.d_0))
    total, tail = compose_sum(unit, scale), times(scale, unit.tail)
    with np.errstate(invalid="ignore"):
        share = np.where(tail > 0, np.where(np.isfinite(tail), tail / total, 1.0), 0.0)
    coins = None if dim is None else coin_term(iterations, dim)
    return Certificate(iterations, total, compose_product(unit, scale), followed, share, coins)


def course(
    network: Network, schedules: Schedules, d_l, L1, iterations: int, *, k: int = 0, warm_up: int = 0, samples: int = 1
) -> Course:
    """Return the certificate after each of 1 ... iterations; its last row equals `certify` to the last bit."""
    setting = Setting.of(network, schedules, d_l, L1, warm_up=warm_up, samples=samples, k=k)
    unit = unit_budget(setting, whole("iterations", iterations, 0))
    scale = scale_of(setting, np.asarray(schedules.d_0))
    return Course(_sums(unit, scale), _products(unit, scale))


def coin_term(iterations: float, dim: int) -> float:
    """Return what coins of 53 bits can add to a total variation: 2 dim (iterations - 1) 2**-53; infinite for all time.

    A coin that should fall with probability a falls with ceil(a 2**53) / 2**53. Two states of one coordinate can thereby
    move apart by less than 2**-53, and equal ones not at all: the messages of t = 0 are equal. The term does not fade as
    states converge, because a difference however small may have a multiple of 2**-53 inside: over truly infinite time it
    bounds nothing, and `coin_horizon` says how long it stays small. The rounding of the states, and of y / d, is not in it.
    """
    dim = whole("dim", dim, 1)
    if iterations == math.inf:
        return math.inf
    return 2 * dim * max(0, whole("iterations", iterations, 0) - 1) * 2.0**-COIN_BITS


def coin_horizon(share: float, dim: int) -> int:
    """Return the largest number of iterations for which `coin_term` is at most `share`."""
    if not (math.isfinite(share) and share >= 0):
        raise ValueError(f"share = {share} must be finite and not negative")
    return 1 + int(math.ldexp(share, COIN_BITS)) // (2 * whole("dim", dim, 1))


def compose_sum(unit: UnitBudget, scale: np.ndarray) -> np.ndarray:
    """Return the paper's composition for 2 d_l / d_0 = `scale`, per agent, with the tail, rounded upwards."""
    return (_last(_sums(unit, scale)) + times(scale, unit.tail)) * np.where(unit.tail > 0, UP, 1.0)


def compose_product(unit: UnitBudget, scale: np.ndarray) -> np.ndarray:
    """Return 1 - prod (1 - a_t)(1 - b_t) for 2 d_l / d_0 = `scale`, per agent, with the tail, rounded upwards."""
    if not unit.tail.any():
        return _last(_products(unit, scale))
    tail, peak = times(scale, unit.tail), times(scale, unit.tail_peak)
    with np.errstate(divide="ignore", invalid="ignore"):
        worst = np.where(peak < 1, np.maximum(1.0, -np.log1p(-peak) / peak), np.inf)
        later = np.where(tail > 0, tail * worst * UP, 0.0)
    return np.minimum(_losses(_last(_exponents(unit, scale)) + later), compose_sum(unit, scale))


def scale_of(setting: Setting, d_0: np.ndarray) -> np.ndarray:
    """Return 2 d_l / d_0 per agent, rounded upwards; zero only when d_l is."""
    with np.errstate(over="ignore"):
        return np.nextafter(2.0 * setting.d_l / d_0 * UP, np.inf) * (setting.d_l > 0)


def _sums(unit: UnitBudget, scale: np.ndarray) -> np.ndarray:
    return times(scale, _cumulative(unit.theta + unit.psi))


def _exponents(unit: UnitBudget, scale: np.ndarray) -> np.ndarray:
    """Return -log prod (1 - a)(1 - b) after each iteration, rounded upwards."""
    with np.errstate(divide="ignore"):
        cost = [-np.log1p(-np.minimum(1.0, times(scale, message))) for message in (unit.theta, unit.psi)]
    return _cumulative(cost[0] + cost[1]) * UP


def _products(unit: UnitBudget, scale: np.ndarray) -> np.ndarray:
    """Return 1 - prod (1 - a)(1 - b) after each iteration; a running maximum, as `expm1` may fall by its last bit."""
    return np.maximum.accumulate(np.minimum(_losses(_exponents(unit, scale)), _sums(unit, scale)), axis=0)


def _losses(exponents: np.ndarray) -> np.ndarray:
    return np.minimum(1.0, -np.expm1(-exponents) * UP)


def _cumulative(costs: np.ndarray) -> np.ndarray:
    """Return running sums over time, not below the exact ones: n additions of non-negative numbers lose at most n 2**-53."""
    n = np.arange(1, len(costs) + 1)[:, None]
    return np.cumsum(costs, axis=0) * (1.0 + (n + 8) * 2.0**-52)


def _last(series: np.ndarray) -> np.ndarray:
    return series[-1] if len(series) else np.zeros(series.shape[1])
