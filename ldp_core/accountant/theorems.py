"""Theorem 2 as printed: what the paper promises, with all its constants.

    >>> from ldp_core import network
    >>> schedules = Schedules(0.5, 0.71, (1.0,) * 5, (0.51,) * 5)
    >>> theorem_2_2(network.paper(0.2), schedules, d_l=1.0, L1=0.25).log10_delta.max().round(2)
    np.float64(8.44)

`theorem_2_1` is for finitely many iterations, `theorem_2_2` for all time: as the paper writes them,
not rounded outwards, never clipped. Above one they promise nothing. Where the printed text needs
care is told in docs/proofs/certificate.md, section 4; the bounds to rely on are in `certificate`.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ldp_core.checks import every, not_negative, per_agent, whole
from ldp_core.network import Network
from ldp_core.optimizer import Schedules, require_same_agents

MEMORY = 100.0  # the recursion starts MEMORY / min(r, c) steps early: what lies before is exp(-100)
LARGEST_T_0 = 2**53  # beyond it t + 1 is no longer a float64
TERMS = 100_000  # terms of the zeta series that are added one by one


@dataclass(frozen=True, eq=False)
class Theorem21:
    """varrho_{t,psi}, varrho_{t,theta} `[time, agents]`, the smallest d_0^i, and delta^i."""

    rho_psi: np.ndarray
    rho_theta: np.ndarray
    smallest_d_0: np.ndarray
    delta: np.ndarray


@dataclass(frozen=True, eq=False)
class Theorem22:
    """Theorem 2.2 with the constants chosen, one per agent; logarithms always fit a float64."""

    C_0: np.ndarray
    C_1: np.ndarray
    T_0: np.ndarray
    log10_C_2: np.ndarray
    log10_C_3: np.ndarray
    log10_smallest_d_0: np.ndarray
    log10_delta: np.ndarray


def theorem_2_1(network: Network, schedules: Schedules, d_l, iterations: int) -> Theorem21:
    """Return Theorem 2.1 for `iterations` messages, by the recursions behind the printed sums:

    varrho_{t+1,psi}   = (1 - |C_ii|) varrho_{t,psi} + 2 d_l lam_t
    varrho_{t+1,theta} = (1 - |R_ii|) varrho_{t,theta}
                         + (C_z P_z**t + 1 / u_i) (varrho_{t+1,psi} + varrho_{t,psi})
    delta^i = sum_t (varrho_{t,psi} + varrho_{t,theta}) (t+1)**varsigma^i / d_0^i.
    """
    require_same_agents(network, schedules)
    d_l = per_agent("d_l", d_l, network.agents, not_negative, "be finite and not negative")
    t = np.arange(whole("iterations", iterations), dtype=np.float64)[:, None]
    psi, theta = np.zeros((2, len(t), network.agents))
    C_z, P_z = network.lemma_4
    keep_psi, keep_theta = 1.0 + np.diag(network.C), 1.0 + np.diag(network.R)
    factors = C_z * P_z**t + 1.0 / network.u
    for s, lam in enumerate(schedules.lam(t[:-1])):
        psi[s + 1] = keep_psi * psi[s] + lam
        theta[s + 1] = keep_theta * theta[s] + factors[s] * (psi[s + 1] + psi[s])
    with np.errstate(over="ignore"):
        psi, theta = psi * d_l * 2.0, theta * d_l * 2.0
        smallest = np.sum((psi + theta) * (t + 1.0) ** np.asarray(schedules.varsigma), axis=0)
        return Theorem21(psi, theta, smallest, smallest / np.asarray(schedules.d_0))


def theorem_2_2(network: Network, schedules: Schedules, d_l, L1) -> Theorem22:
    """Return Theorem 2.2: delta^i = C_3 (C_z + C_0) / d_0^i  sum_t (t+1)**-(1 + nu - varsigma^i).

    `L1` stands for the printed sqrt(n) L (`l1_lipschitz(L, dim)`). The paper leaves free

        0 < C_1 < min(|R_ii|, |C_ii|) / 2,    C_0 >= (4 - 2 C_1) / (u_i (|C_ii| - 2 C_1)),
        T_0 > 0 such that for all t >= T_0
            |R_ii| / 2     >= L1 t lam_t / (t+1) (C_z P_z**t + C_0)    and
            C_0 |C_ii| / 2 >= (2 - |C_ii|) C_z P_z**t;

    they are searched for the smallest delta^i (not proven to be found; every choice is admissible).

        varrho = varrho_{T_0,theta} + (C_0 - 1/u_i) varrho_{T_0,psi},  V = 2 d_l lam_0 (C_z + C_0),
        C_2 = max{ (2/C_1 + varrho (1-C_1)**(1-T_0) / V) (4 (1+nu) / (e ln(2/(2-C_1))))**(1+nu),
                   varrho (T_0+1)**(1+nu) / V },
        C_3 = 2 C_2 d_l lam_0 ((C_0+1) u_i - 1) / (C_0 u_i - 1).

    C_2 is the largest over all agents, as printed. delta is infinite when varsigma^i >= nu, or when
    no T_0 below 2**53 is admissible (T_0 = 0 then).
    """
    require_same_agents(network, schedules)
    m, u = network.agents, network.u
    d_l = per_agent("d_l", d_l, m, not_negative, "be finite and not negative (Assumption 3)")
    L1 = per_agent("L1", L1, m, not_negative, "be finite and not negative (Assumption 2)")
    C_z, P_z = network.lemma_4
    r, c, own_u = (x.tolist() for x in (-np.diag(network.R), -np.diag(network.C), u))
    agents = [_Agent(r[i], c[i], own_u[i], C_z, P_z, schedules) for i in range(m)]
    choices = [_best_choice(*both) for both in zip(agents, L1.tolist(), strict=True)]
    C_1, C_0, T_0, ln_C_2 = (np.array(x) for x in list(zip(*choices, strict=True))[:4])
    ln_C_2 = np.full(m, ln_C_2.max())
    series = np.array([power_sum(1.0 + schedules.nu - x) for x in schedules.varsigma])
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = 2.0 * schedules.lam_0 * ((C_0 + 1.0) * u - 1.0) / (C_0 * u - 1.0)
        ln_C_3 = np.where(d_l > 0, ln_C_2 + np.log(ratio) + np.log(d_l), -np.inf)
        ln_d_0 = ln_C_3 + np.log(C_z + C_0) + np.log(series)
        ln_d_0 = np.where((d_l > 0) & (series > 0), ln_d_0, -np.inf)
    ln_10 = math.log(10.0)
    log10_delta = ln_d_0 / ln_10 - np.log10(schedules.d_0)
    return Theorem22(C_0, C_1, T_0, ln_C_2 / ln_10, ln_C_3 / ln_10, ln_d_0 / ln_10, log10_delta)


def l1_lipschitz(L: float, dim: int) -> float:
    """Return sqrt(dim) L: ||x||_2 <= ||x||_1 <= sqrt(dim) ||x||_2; the paper writes n for dim."""
    every("L", L, not_negative, "be finite and not negative (Assumption 2)")
    return math.sqrt(whole("dim", dim, 1)) * L


def power_sum(exponent: float) -> float:
    """Return an upper bound of sum_{t >= 0} (t+1)**-exponent, infinite for exponents up to 1.

    x**-exponent is convex, so term n is at most its integral from n - 1/2 to n + 1/2.
    """
    if exponent <= 1:
        return math.inf
    head = math.fsum((np.arange(1.0, TERMS + 1.0) ** -exponent).tolist())
    return head + (TERMS + 0.5) ** (1.0 - exponent) / (exponent - 1.0)


@dataclass(frozen=True)
class _Agent:
    """What Theorem 2.2 needs to know of one agent, with 2 d_l = 1."""

    r: float
    c: float
    u: float
    C_z: float
    P_z: float
    schedules: Schedules

    def rho(self, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return varrho_{t,psi} and varrho_{t,theta} from the last steps, begun at a bound."""
        steps = math.ceil(MEMORY / min(self.r, self.c))
        psi = np.where(t - steps > 0, self.schedules.lam_0 / self.c, 0.0)
        theta = (self.C_z + 1.0 / self.u) * 2.0 * psi / self.r
        for step in range(steps):
            time = np.maximum(t - steps + step, 0.0)
            lam = np.where(t - steps + step >= 0, self.schedules.lam(time), 0.0)
            following = (1.0 - self.c) * psi + lam
            factor = self.C_z * self.P_z**time + 1.0 / self.u
            theta = (1.0 - self.r) * theta + factor * (following + psi)
            psi = following
        return psi, theta

    def smallest_T_0(self, C_0: float, L1: float) -> int:
        """Return the smallest admissible T_0, or 0 if it is not below 2**53.

        Beyond t = 1 / nu the right sides of both conditions fall: what holds once holds for ever.
        """
        nu = self.schedules.nu

        def holds(t: int) -> bool:
            fading = self.C_z * self.P_z**t
            pull = L1 * self.schedules.lam_0 * t / (t + 1.0) ** (1.0 + nu) * (fading + C_0)
            return pull <= self.r / 2.0 and (2.0 - self.c) * fading <= C_0 * self.c / 2.0

        if not nu > 0:
            return 0
        low = high = math.ceil(1.0 / nu)
        if holds(high):
            while high > 1 and holds(high - 1):
                high -= 1
            return high
        while not holds(high):
            low, high = high, 2 * high
            if high > LARGEST_T_0:
                return 0
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if holds(middle) else (middle, high)
        return high

    def ln_C_2(self, C_1: float, C_0: float, T_0: int, psi: float, theta: float) -> float:
        """Return the natural logarithm of this agent's C_2, for varrho_{T_0} = (psi, theta)."""
        n, lam_0 = 1.0 + self.schedules.nu, self.schedules.lam_0
        ln_start = math.log((theta + (C_0 - 1.0 / self.u) * psi) / (lam_0 * (self.C_z + C_0)))
        later = ln_start + (1 - T_0) * math.log1p(-C_1)
        ln_bracket = float(np.logaddexp(math.log(2.0 / C_1), later))
        ln_lemma_5 = n * math.log(4.0 * n / (math.e * -math.log1p(-C_1 / 2.0)))
        return max(ln_bracket + ln_lemma_5, ln_start + n * math.log(T_0 + 1.0))


class _Choice(NamedTuple):
    """Constants of Theorem 2.2 for one agent; delta^i is proportional to exp(`ln_objective`)."""

    C_1: float
    C_0: float
    T_0: int
    ln_C_2: float
    ln_objective: float


def _weigh(agent: _Agent, tried: list[tuple[float, float, int]]) -> Iterator[_Choice]:
    """Yield what each try (C_1, C_0, T_0) comes to; T_0 = 0 is not admissible."""
    starts = sorted({T_0 for *_, T_0 in tried})
    psi, theta = agent.rho(np.array(starts, dtype=np.float64))
    rho = dict(zip(starts, zip(psi.tolist(), theta.tolist(), strict=True), strict=True))
    for C_1, C_0, T_0 in tried:
        if T_0:
            ln_C_2 = agent.ln_C_2(C_1, C_0, T_0, *rho[T_0])
            ratio = (agent.C_z + C_0) * ((C_0 + 1.0) * agent.u - 1.0) / (C_0 * agent.u - 1.0)
            yield _Choice(C_1, C_0, T_0, ln_C_2, ln_C_2 + math.log(ratio))
        else:
            yield _Choice(C_1, C_0, T_0, math.inf, math.inf)


def _best_choice(agent: _Agent, L1: float) -> _Choice:
    """Return the best choice on a grid of how far C_1, C_0, T_0 are from their extremes, in logs.

    The ratios span 1 ... exp(30), exp(3) and exp(2); the grid is refined three times.
    """
    smallest_T_0 = lru_cache(maxsize=None)(agent.smallest_T_0)

    def constants(x: float, y: float, z: float) -> tuple[float, float, int]:
        C_1 = min(agent.r, agent.c) / 2.0 * math.exp(-x)
        C_0 = (4.0 - 2.0 * C_1) / (agent.u * (agent.c - 2.0 * C_1)) * math.exp(y)
        return C_1, C_0, math.ceil(smallest_T_0(C_0, L1) * math.exp(z))

    lowest, points = (1e-3, 0.0, 0.0), (31, 5, 3)
    center = width = (15.0, 1.5, 1.0)
    for _ in range(4):
        axes = [
            np.maximum(low, mid + wide * np.linspace(-1.0, 1.0, n)).tolist()
            for low, mid, wide, n in zip(lowest, center, width, points, strict=True)
        ]
        places = list(itertools.product(*axes))
        choices = _weigh(agent, [constants(*place) for place in places])
        both = zip(choices, places, strict=True)
        best, center = min(both, key=lambda pair: pair[0].ln_objective)
        width = (width[0] / 10.0, width[1] / 3.0, width[2] / 3.0)
    return best
