"""The other way round: from a target delta to the steps d_0^i, and from a budget to the number of iterations.

Three bounds can be asked: "theorem" (Theorem 2 as printed: 2.1 for finite time, 2.2 for all time), "certificate-sum" and
"certificate-product" (ours, composed as the paper does and by coupling; the last is the smallest).

Every bound falls when d_0^i grows: the states' bounds e_t, p_t, and the paper's varrho_t, do not depend on d_0^i, each
message costs them divided by d_t^i = d_0^i / (t+1)**varsigma^i, and both compositions grow with each message's cost. So
there is a smallest d_0^i, and what is returned lies at most a part in 10**9 above it, on the safe side: it has been put
into the bound, and the bound is at most the target.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Literal, get_args

import numpy as np

from ldp_core.accountant.certificate import HORIZON, certify, compose_product, compose_sum, course, scale_of
from ldp_core.accountant.sensitivity import Setting, unit_budget
from ldp_core.accountant.theorems import theorem_2_1, theorem_2_2
from ldp_core.checks import reals, whole
from ldp_core.network import Network
from ldp_core.optimizer import Schedules

Bound = Literal["theorem", "certificate-sum", "certificate-product"]

LIMIT = 100_000  # iterations that `largest_iterations` looks at
PRECISION = 1e-9  # relative width at which a bisection stops


def calibrate(
    target,
    network: Network,
    schedules: Schedules,
    d_l,
    L1,
    iterations: float,
    *,
    bound: Bound = "certificate-product",
    warm_up: int = 0,
    samples: int = 1,
    horizon: int = HORIZON,
) -> np.ndarray:
    """Return d_0^i for every agent such that the bound after `iterations` (math.inf: all time) is at most `target`.

    `target` is one delta in (0, 1) or one per agent. `schedules` gives lam_0, nu and varsigma; its d_0 is not used. The other
    arguments are those of `certify`; the theorem has no warm-up and takes `L1` for sqrt(n) L, at infinite time only. Raises
    ValueError when no finite d_0 reaches the target. A bound that is zero for every d_0 (d_l = 0, or a single message)
    is met by any step: the smallest normal float64 is returned for it.
    """
    _require_bound(bound, warm_up, samples)
    target = _targets(target, network.agents)
    if bound == "theorem":
        needed = _theorem_d_0(network, schedules, d_l, L1, iterations)
        return _with_room(needed, target, bound)
    setting = Setting.of(network, schedules, d_l, L1, warm_up=warm_up, samples=samples)
    for_ever = iterations == math.inf
    followed = whole("horizon", horizon, 1) if for_ever else whole("iterations", iterations, 0)
    unit = unit_budget(setting, followed, for_ever=for_ever)

    def price(d_0: np.ndarray) -> np.ndarray:
        return (compose_sum if bound == "certificate-sum" else compose_product)(unit, scale_of(setting, d_0))

    safe = _with_room(compose_sum(unit, scale_of(setting, np.ones(network.agents))), target, bound)
    if bound == "certificate-product":
        # 1 - prod (1 - a) >= 1 - exp(-sum a): where the sum is -log(1 - target), the product still is too large
        safe = _bisect(lambda d_0: price(d_0) <= target, safe * target / -np.log1p(-target) * (1.0 - PRECISION), safe)
    while not (met := price(safe) <= target).all():  # only if rounding ate all the room
        safe = np.where(met, safe, safe * (1.0 + PRECISION))
    return safe


def calibrate_uniform(target: float, network: Network, schedules: Schedules, d_l, L1, iterations: float, **options) -> float:
    """Return one d_0 for all agents, so that one step d_t serves everybody and delta is at most `target` for each (Remark 4).

    It is the largest of the agents' own d_0^i: bounds fall when d_0^i grows. All varsigma^i must be equal, or d_t is not
    uniform.
    """
    if len(set(schedules.varsigma)) > 1:
        raise ValueError(f"varsigma = {schedules.varsigma} must be the same for all agents: Remark 4 has one step d_t")
    if np.ndim(target) != 0:
        raise ValueError(f"target = {target} must be one number: Remark 4 has one delta for all agents")
    return float(calibrate(target, network, schedules, d_l, L1, iterations, **options).max())


def largest_iterations(
    target,
    network: Network,
    schedules: Schedules,
    d_l,
    L1,
    *,
    bound: Bound = "certificate-product",
    warm_up: int = 0,
    samples: int = 1,
    limit: int = LIMIT,
) -> np.ndarray:
    """Return per agent the largest T <= `limit` whose bound is at most `target`, or infinity when the one of all time is.

    It is at least 1: the first message was computed before any data. An agent that gets `limit` may have more than that.
    """
    _require_bound(bound, warm_up, samples)
    target, limit = _targets(target, network.agents), whole("limit", limit, 1)
    last = np.full(network.agents, np.inf)
    last[_for_ever(network, schedules, d_l, L1, bound, warm_up, samples) > target] = limit
    length = min(limit, 1000)
    while True:
        bounds = _course(network, schedules, d_l, L1, length, bound, warm_up, samples)
        first_too_large = np.argmax(bounds > target, axis=0)  # row t is for t + 1 iterations, row 0 is zero
        last = np.where(first_too_large > 0, first_too_large, last)
        if length == limit or (last != limit).all():
            return last
        length = min(limit, 8 * length)


def with_d_0(schedules: Schedules, d_0) -> Schedules:
    """Return the same schedules with other initial steps d_0^i (one number, or one per agent)."""
    return dataclasses.replace(schedules, d_0=tuple(np.broadcast_to(d_0, (schedules.agents,)).tolist()))


def _theorem_d_0(network: Network, schedules: Schedules, d_l, L1, iterations: float) -> np.ndarray:
    if iterations == math.inf:
        return theorem_2_2(network, schedules, d_l, L1).smallest_d_0
    return theorem_2_1(network, schedules, d_l, whole("iterations", iterations, 0)).smallest_d_0


def _for_ever(network, schedules, d_l, L1, bound: Bound, warm_up: int, samples: int) -> np.ndarray:
    """Return the bound at infinite time; infinite where it needs an L1 that is not known."""
    if bound == "theorem":
        known = L1 is not None and np.isfinite(L1).all()
        return theorem_2_2(network, schedules, d_l, L1).delta if known else np.full(network.agents, np.inf)
    result = certify(network, schedules, d_l, L1, math.inf, warm_up=warm_up, samples=samples)
    return result.sum if bound == "certificate-sum" else result.product


def _course(network, schedules, d_l, L1, iterations: int, bound: Bound, warm_up: int, samples: int) -> np.ndarray:
    """Return the bound after each of 1 ... iterations, `[iterations, agents]`."""
    if bound == "theorem":
        theorem = theorem_2_1(network, schedules, d_l, iterations)
        return np.cumsum((theorem.rho_psi + theorem.rho_theta) / schedules.step(np.arange(iterations)), axis=0)
    result = course(network, schedules, d_l, L1, iterations, warm_up=warm_up, samples=samples)
    return result.sum if bound == "certificate-sum" else result.product


def _bisect(is_safe, unsafe: np.ndarray, safe: np.ndarray) -> np.ndarray:
    """Return a safe d_0 within PRECISION of the smallest one in [unsafe, safe]; `safe` must be safe."""
    while (unsafe < safe * (1.0 - PRECISION)).any():
        middle = np.sqrt(unsafe) * np.sqrt(safe)
        good = is_safe(middle)
        unsafe, safe = np.where(good, unsafe, middle), np.where(good, middle, safe)
    return safe


def _require_bound(bound: str, warm_up: int, samples: int) -> None:
    if bound not in get_args(Bound):
        raise ValueError(f"bound = {bound!r} must be one of {', '.join(get_args(Bound))}")
    if bound == "theorem" and (warm_up, samples) != (0, 1):
        raise ValueError(f"warm_up = {warm_up}, samples = {samples} must be 0 and 1 for the theorem, which has neither")


def _targets(target, agents: int) -> np.ndarray:
    array = reals("target", target, f"one number, or one for each of {agents} agents")
    if array.shape not in ((), (agents,)):
        raise ValueError(f"target has shape {array.shape}: it must be one number, or one for each of {agents} agents")
    wrong = ~((array > 0) & (array < 1))
    if wrong.any():
        raise ValueError(f"target = {array[wrong].flat[0]} must lie in (0, 1): 0 needs an infinite step, 1 promises nothing")
    return np.broadcast_to(array, (agents,))


def _with_room(total: np.ndarray, target: np.ndarray, bound: Bound) -> np.ndarray:
    """Return a little more than the d_0 at which a sum that is `total` at d_0 = 1 meets the target, if it is finite."""
    with np.errstate(over="ignore"):
        d_0 = total / target * (1.0 + PRECISION / 4)
    if not np.isfinite(d_0).all():
        i = int(np.argmin(np.isfinite(d_0)))
        raise ValueError(f"agent {i}: no finite d_0 makes the bound {bound!r} at most target = {target[i]}")
    return np.maximum(d_0, np.finfo(np.float64).tiny)
