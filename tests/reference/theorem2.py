"""Theorem 2 transcribed symbol by symbol: double loops straight from the printed sums, slow on
purpose.

The `d` and `n` of the paper are spelled out where they clash: `d_l` and `d_0` are steps and bounds,
`L1` is the printed sqrt(n) L.
"""

from __future__ import annotations

import math


def lam(lam_0: float, nu: float, t: int) -> float:
    return lam_0 / (t + 1) ** nu


def varrho_psi(t: int, C_ii: float, d_l: float, lam_0: float, nu: float) -> float:
    """2 d_l sum_{p=0}^{t-1} (1 - |C_ii|)^p lambda_{t-1-p}."""
    total = 0.0
    for p in range(t):
        total += (1 - abs(C_ii)) ** p * lam(lam_0, nu, t - 1 - p)
    return 2 * d_l * total


def varrho_theta(
    t: int,
    R_ii: float,
    C_ii: float,
    u_i: float,
    C_z: float,
    P_z: float,
    d_l: float,
    lam_0: float,
    nu: float,
) -> float:
    """sum_{p=0}^{t-1} (1 - |R_ii|)^(t-p-1) (C_z P_z^p + 1/|u_i|) (varrho_{p+1,psi} +
    varrho_{p,psi}).
    """
    total = 0.0
    for p in range(t):
        pair = varrho_psi(p + 1, C_ii, d_l, lam_0, nu) + varrho_psi(p, C_ii, d_l, lam_0, nu)
        total += (1 - abs(R_ii)) ** (t - p - 1) * (C_z * P_z**p + 1 / abs(u_i)) * pair
    return total


def smallest_d_0(T: int, varsigma: float, R_ii, C_ii, u_i, C_z, P_z, d_l, lam_0, nu) -> float:
    """Theorem 2.1: sum_{t=0}^{T-1} (varrho_{t,psi} + varrho_{t,theta}) (t+1)^varsigma."""
    total = 0.0
    for t in range(T):
        theta = varrho_theta(t, R_ii, C_ii, u_i, C_z, P_z, d_l, lam_0, nu)
        total += (varrho_psi(t, C_ii, d_l, lam_0, nu) + theta) * (t + 1) ** varsigma
    return total


def is_admissible(C_1, C_0, T_0, R_ii, C_ii, u_i, C_z, P_z, L1, lam_0, nu, until: int) -> bool:
    """The conditions on C_1, C_0 and T_0, the last one looked at for T_0 <= t <= until."""
    r, c, u = abs(R_ii), abs(C_ii), abs(u_i)
    if (
        not 0 < C_1 < min(r / 2, c / 2)
        or not (4 - 2 * C_1) / (u * (c - 2 * C_1)) <= C_0
        or not T_0 > 0
    ):
        return False
    for t in range(T_0, until + 1):
        step = lam(lam_0, nu, t)
        if not r / 2 >= L1 * C_z * (t * P_z**t * step) / (t + 1) + C_0 * L1 * t * step / (t + 1):
            return False
        if not C_0 * c / 2 >= (2 - c) * C_z * P_z**t:
            return False
    return True


def C_2_of_agent(C_1, C_0, T_0, R_ii, C_ii, u_i, C_z, P_z, d_l, lam_0, nu) -> float:
    """What C_2 takes the maximum of, for one agent."""
    start = varrho_theta(T_0, R_ii, C_ii, u_i, C_z, P_z, d_l, lam_0, nu)
    start += (C_0 - 1 / abs(u_i)) * varrho_psi(T_0, C_ii, d_l, lam_0, nu)
    noise = 2 * d_l * lam_0 * (C_z + C_0)
    lemma_5 = (4 * (1 + nu) / (math.e * math.log(2 / (2 - C_1)))) ** (1 + nu)
    first = (2 / C_1 + start * (1 - C_1) ** (1 - T_0) / noise) * lemma_5
    return max(first, start * (T_0 + 1) ** (1 + nu) / noise)


def C_3(C_2, C_0, u_i, d_l, lam_0) -> float:
    u = abs(u_i)
    return 2 * C_2 * d_l * lam_0 * ((C_0 + 1) * u - 1) / (C_0 * u - 1)


def theorem_2_2_d_0(T: int, C_3, C_z, C_0, nu, varsigma) -> float:
    """sum_{t=0}^{T-1} C_3 (C_z + C_0) / (t+1)^(1 + nu - varsigma)."""
    total = 0.0
    for t in range(T):
        total += C_3 * (C_z + C_0) / (t + 1) ** (1 + nu - varsigma)
    return total
