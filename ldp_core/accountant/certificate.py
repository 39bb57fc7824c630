"""A certified worst case for Algorithm 1 as printed: no data, no neighbours can make delta larger.

    >>> from ldp_core import network
    >>> schedules = Schedules(0.5, 0.71, (1e4,) * 5, (0.51,) * 5)
    >>> found = certify(network.paper(0.2), schedules, d_l=1.0, L1=0.25, iterations=1000)
    >>> found.product.max().round(4)
    np.float64(0.013)

From public constants alone: with (e_t, p_t) of `drift`, a_t = min(1, e_t / d_t) and b_t = min(1,
p_t / d_t), whatever was received,

    delta <= 1 - prod_t (1 - a_t)(1 - b_t) <= sum_t (e_t + p_t) / d_t.

The right side is how the paper composes; it says nothing above one. Both are at most Theorem 2.1 as
printed. Proofs: docs/proofs/certificate.md, section 2.
"""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldp_core.accountant.drift import UP, Setting, UnitBudget, times, unit_budget
from ldp_core.checks import every, per_agent, positive, whole
from ldp_core.network import Network
from ldp_core.optimizer import Schedules

PRECISION = 1e-9  # of d_0, relatively
HORIZON = 20_000  # messages that are followed one by one when the question is about all time


@dataclass(frozen=True, eq=False)
class Certificate:
    """Bounds of delta^i after `iterations` (math.inf: all time), one per agent.

    `product` is the certificate, at most 1; `sum` composes the same messages as the paper does, and
    is not clipped. `tail` is the share of `sum` that comes from beyond `horizon`.
    """

    iterations: float
    sum: np.ndarray
    product: np.ndarray
    horizon: int
    tail: np.ndarray


def certify(
    network: Network, schedules: Schedules, d_l, L1: Any, iterations, *, horizon=HORIZON, **options
) -> Certificate:
    """Return the certified worst case of delta^i after `iterations` (math.inf for all time).

    `d_l`, `L1` and the options `warm_up` and `samples` are explained in `drift.Setting`. For
    all time `horizon` messages are followed one by one: more are tighter. Without L1, with varsigma
    >= nu, or with a horizon too short for the tail's proof, `sum` is then infinite, `product` 1.
    """
    setting = Setting(network, schedules, d_l, L1, **options)
    followed, unit = _followed(setting, iterations, horizon)
    scale = _scale_of(setting, np.asarray(schedules.d_0))
    total, tail = _compose_sum(unit, scale), times(scale, unit.tail)
    with np.errstate(invalid="ignore"):
        share = np.where(tail > 0, np.where(np.isfinite(tail), tail / total, 1.0), 0.0)
    return Certificate(iterations, total, compose_product(unit, scale), followed, share)


def course(
    network: Network, schedules: Schedules, d_l, L1: Any, iterations: int, **options
) -> np.ndarray:
    """Return `sum` of the certificate after each of 1 ... iterations, `[time, agents]`."""
    setting = Setting(network, schedules, d_l, L1, **options)
    unit = unit_budget(setting, whole("iterations", iterations))
    return _sums(unit, _scale_of(setting, np.asarray(schedules.d_0)))


def calibrate(
    target,
    network: Network,
    schedules: Schedules,
    d_l,
    L1: Any,
    iterations,
    *,
    horizon=HORIZON,
    **options,
) -> np.ndarray:
    """Return d_0^i for every agent such that `product` after `iterations` is at most `target`.

    `target` is one delta in (0, 1) or one per agent; the d_0 of `schedules` is not used. What is
    returned lies at most a part in 10**9 above the smallest. Raises ValueError when there is none.
    """
    target = targets(target, network.agents)
    setting = Setting(network, schedules, d_l, L1, **options)
    _, unit = _followed(setting, iterations, horizon)

    def is_safe(d_0: np.ndarray) -> np.ndarray:
        return compose_product(unit, _scale_of(setting, d_0)) <= target

    with np.errstate(over="ignore"):
        total = _compose_sum(unit, _scale_of(setting, np.ones(network.agents)))
        safe = total / target * (1.0 + PRECISION / 4)
    if not np.isfinite(safe).all():
        i = int(np.argmin(np.isfinite(safe)))
        raise ValueError(f"agent {i}: no finite d_0 makes the bound at most target = {target[i]}")
    safe = np.maximum(safe, np.finfo(np.float64).tiny)
    # 1 - prod (1 - a) >= 1 - exp(-sum a): where the sum is -log(1 - target) it is still too large
    unsafe = safe * target / -np.log1p(-target) * (1.0 - PRECISION)
    return smallest_safe(is_safe, unsafe, safe)


def smallest_safe(is_safe: Callable, unsafe, safe, precision: float = PRECISION) -> np.ndarray:
    """Return safe numbers, each at most a part `precision` above the smallest one of its bracket.

    `unsafe` and `safe` are positive, numbers or arrays of one shape; `safe` is doubled until it is
    safe. What lies below the answer by that part was found unsafe, or is where the search began.
    """
    both = {"unsafe": unsafe, "safe": safe}.items()
    unsafe, safe = (every(name, x, positive, "be positive and finite") for name, x in both)
    every("precision", precision, lambda x: (x > 0) & (x < 1), "lie in (0, 1)")
    while not (good := np.asarray(is_safe(safe))).all():
        safe = np.where(good, safe, 2.0 * safe)
    while (unsafe < safe * (1.0 - precision)).any():
        middle = np.sqrt(unsafe) * np.sqrt(safe)
        good = is_safe(middle)
        unsafe, safe = np.where(good, unsafe, middle), np.where(good, middle, safe)
    return safe


def with_d_0(schedules: Schedules, d_0) -> Schedules:
    """Return the same schedules with other initial steps d_0^i (one number, or one per agent)."""
    steps = per_agent("d_0", d_0, schedules.agents, positive, "be positive and finite")
    return dataclasses.replace(schedules, d_0=tuple(steps.tolist()))


def targets(target, agents: int) -> np.ndarray:
    """Return one target per agent, each in (0, 1)."""
    rule = "lie in (0, 1): 0 needs an infinite step, 1 promises nothing"
    return per_agent("target", target, agents, lambda x: (x > 0) & (x < 1), rule)


def _followed(setting: Setting, iterations: float, horizon: int) -> tuple[int, UnitBudget]:
    for_ever = bool(np.ndim(iterations) == 0 and iterations == math.inf)
    name, number, least = ("horizon", horizon, 1) if for_ever else ("iterations", iterations, 0)
    followed = whole(name, number, least)
    return followed, unit_budget(setting, followed, for_ever=for_ever)


def _compose_sum(unit: UnitBudget, scale: np.ndarray) -> np.ndarray:
    """Return the paper's composition for 2 d_l / d_0 = `scale`, with the tail, rounded upwards."""
    more = np.where(unit.tail > 0, UP, 1.0)
    return (_largest(_sums(unit, scale)) + times(scale, unit.tail)) * more


def compose_product(unit: UnitBudget, scale: np.ndarray) -> np.ndarray:
    """Return 1 - prod (1 - a_t)(1 - b_t) for 2 d_l / d_0 = `scale`, with the tail, upwards.

    The later factors multiply to at least exp(T log(1 - s) / s), T the tail and s < 1 its peak.
    """
    exponents = _exponents(unit, scale)
    if not unit.tail.any():
        return _largest(np.minimum(_losses(exponents), _sums(unit, scale)))
    tail, peak = times(scale, unit.tail), times(scale, unit.tail_peak)
    with np.errstate(divide="ignore", invalid="ignore"):
        worst = np.where(peak < 1, np.maximum(1.0, -np.log1p(-peak) / peak), np.inf)
        later = np.where(tail > 0, tail * worst * UP, 0.0)
    return np.minimum(_losses(_largest(exponents) + later), _compose_sum(unit, scale))


def _scale_of(setting: Setting, d_0: np.ndarray) -> np.ndarray:
    """Return 2 d_l / d_0 per agent, rounded upwards; zero only when d_l is."""
    with np.errstate(over="ignore"):
        return np.nextafter(2.0 * setting.d_l / d_0 * UP, np.inf) * (setting.d_l > 0)


def _sums(unit: UnitBudget, scale: np.ndarray) -> np.ndarray:
    return times(scale, _cumulative(unit.theta + unit.psi))


def _exponents(unit: UnitBudget, scale: np.ndarray) -> np.ndarray:
    """Return -log prod (1 - a)(1 - b) after each iteration, rounded upwards."""
    with np.errstate(divide="ignore"):
        messages = (np.minimum(1.0, times(scale, cost)) for cost in (unit.theta, unit.psi))
        theta, psi = (-np.log1p(-message) for message in messages)
    return _cumulative(theta + psi) * UP


def _losses(exponents: np.ndarray) -> np.ndarray:
    return np.minimum(1.0, -np.expm1(-exponents) * UP)


def _cumulative(costs: np.ndarray) -> np.ndarray:
    """Return running sums, not below the exact ones: n additions lose at most n 2**-53."""
    n = np.arange(1, len(costs) + 1)[:, None]
    return np.cumsum(costs, axis=0) * (1.0 + (n + 8) * 2.0**-52)


def _largest(series: np.ndarray) -> np.ndarray:
    """Return the end of a series that never falls, but perhaps by the last bit of `expm1`."""
    return series.max(axis=0, initial=0.0)
