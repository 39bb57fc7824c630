"""The loop behind `drift`: one agent's bounds, step by step. Compiled by numba where it is installed, plain Python elsewhere.

Every line is an operation of float64 in the order written (no fast-math), so both give the same bits.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from ldp_core.checks import layout

UP, TINY = (
    1.0 + 2.0**-44,
    1e-300,
)  # as in `sensitivity`, where the rounding of one step is explained


def _follow(
    keep_theta,
    keep_psi,
    c,
    signed,
    one_signed,
    charge,
    l1,
    linf,
    moved,
    l2,
    lam,
    share,
    rest,
    inverse,
):
    """Return the bounds `[theta l1, theta linf, psi l1, psi linf][t]` for t = 0 ... T; `drift` explains every symbol."""
    T = len(lam)
    bounds = np.zeros((4, T + 1))
    negative = np.zeros((3, T + 1))  # sums of kappa- lam y, for y = 1/N, a, a^inf
    theta, psi = (
        np.zeros(3),
        np.zeros(3),
    )  # sums of kappa lam y, with their signs, and what psi has of them
    absolute = np.zeros(2)  # what rounding is charged to
    source = np.zeros(3)
    cap, cap_inf = (1.0 if one_signed else 2.0) * l1, (1.0 if one_signed else 2.0) * linf
    for t in range(T):
        e, e_inf, p, p_inf = bounds[0, t], bounds[1, t], bounds[2, t], bounds[3, t]
        away = rest[t] * min(cap, moved[0] * e, moved[1] * e_inf) + l2 * e
        away_inf = rest[t] * min(cap_inf, moved[2] * e, moved[3] * e_inf) + l2 * e_inf
        push = lam[t] * (2.0 * l1 * share[t] + away) * UP
        push_inf = lam[t] * (2.0 * linf * share[t] + away_inf) * UP
        bounds[0, t + 1] = (keep_theta * e + (c * p + push) * inverse[t]) * UP + TINY
        bounds[1, t + 1] = (keep_theta * e_inf + (c * p_inf + push_inf) * inverse[t]) * UP + TINY
        bounds[2, t + 1] = (keep_psi * p + push) * UP + TINY
        bounds[3, t + 1] = (keep_psi * p_inf + push_inf) * UP + TINY
        if not signed:
            continue
        absolute[0] = (keep_theta * absolute[0] + (c * p + push) * inverse[t]) * UP + TINY
        absolute[1] = (keep_theta * absolute[1] + (c * p_inf + push_inf) * inverse[t]) * UP + TINY
        source[0], source[1], source[2] = lam[t] * share[t], lam[t] * away, lam[t] * away_inf
        for j in range(3):
            theta[j] = keep_theta * theta[j] - (source[j] - c * psi[j]) * inverse[t]
            psi[j] = keep_psi * psi[j] + source[j]
        response, left, s = -inverse[t], 1.0, t + 1
        while response < 0.0 and s <= T:
            for j in range(3):
                negative[j, s] -= response * source[j]
            if s < T:
                response = keep_theta * response + c * left * inverse[s]
            left = keep_psi * left
            s += 1
        minus = negative[0, t + 1]
        plus = theta[0] + minus
        changed = max(plus, minus) if one_signed else plus + minus
        other, other_inf = theta[1] + 2.0 * negative[1, t + 1], theta[2] + 2.0 * negative[2, t + 1]
        bounds[0, t + 1] = min(bounds[0, t + 1], 2.0 * l1 * changed + other + charge * absolute[0])
        bounds[1, t + 1] = min(
            bounds[1, t + 1], 2.0 * linf * changed + other_inf + charge * absolute[1]
        )
    return bounds


LAYOUT = layout(
    keep_theta=float, keep_psi=float, c=float, signed=float, one_signed=float, charge=float, l1=float, linf=float,
    moved="4", l2=float, lam="time", share="time", rest="time", inverse="time",
)  # fmt: skip


@functools.cache
def follow() -> Callable[..., np.ndarray]:
    """Return the loop, compiled if numba can be imported."""
    try:
        import numba
    except ImportError:
        return LAYOUT(_follow)
    return LAYOUT(numba.njit(cache=True)(_follow))
