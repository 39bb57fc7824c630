"""Theorem 2 as printed: what the paper promises, with all its constants.

    >>> from ldp_core import network
    >>> schedules = Schedules(0.5, 0.71, (1.0,) * 5, (0.51,) * 5)
    >>> theorem_2_2(network.paper(0.2), schedules, d_l=1.0, L1=0.25).log10_delta.max().round(2)
    np.float64(8.44)

`theorem_2_1` is for a finite number of iterations, `theorem_2_2` for all time. Both are computed as
the paper writes them, without rounding outwards, and their delta is never clipped: above one they
promise nothing. Where the printed text needs care is told in docs/proofs/certificate.md, section 4;
the bounds to rely on are in `certificate`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ldp_core.accountant.sensitivity import non_negative, require_same_agents
from ldp_core.checks import real, reals, whole
from ldp_core.network import Network
from ldp_core.optimizer import Schedules

AT_ONCE = 2**20  # steps followed at once
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

    @property
    def smallest_d_0(self) -> np.ndarray:
        return _power_of_ten(self.log10_smallest_d_0)

    @property
    def delta(self) -> np.ndarray:
        return _power_of_ten(self.log10_delta)


def theorem_2_1(
    network: Network,
    schedules: Schedules,
    d_l,
    iterations: int,
    lemma_4: tuple[float, float] | None = None,
) -> Theorem21:
    """Return Theorem 2.1 for `iterations` messages, by the recursions behind the printed sums:

        varrho_{t+1,psi}   = (1 - |C_ii|) varrho_{t,psi} + 2 d_l lam_t
        varrho_{t+1,theta} = (1 - |R_ii|) varrho_{t,theta}
                             + (C_z P_z**t + 1 / u_i) (varrho_{t+1,psi} + varrho_{t,psi})
        delta^i = sum_t (varrho_{t,psi} + varrho_{t,theta}) (t+1)**varsigma^i / d_0^i.

    (C_z, P_z) are any constants of Lemma 4; by default `network.lemma_4`.
    """
    require_same_agents(network, schedules)
    d_l = non_negative("d_l", d_l, network.agents, "finite and not negative (Assumption 3)")
    iterations = whole("iterations", iterations, 0)
    t = np.arange(iterations)
    rho_psi, rho_theta = np.zeros((2, iterations, network.agents))
    for i, agent in enumerate(_agents(network, schedules, lemma_4)):
        rho_psi[:, i], rho_theta[:, i] = agent.rho_series(iterations)
    with np.errstate(over="ignore"):
        rho_psi, rho_theta = rho_psi * d_l * 2.0, rho_theta * d_l * 2.0
        growth = (t[:, None] + 1.0) ** np.asarray(schedules.varsigma)
        smallest = np.sum((rho_psi + rho_theta) * growth, axis=0)
        return Theorem21(rho_psi, rho_theta, smallest, smallest / np.asarray(schedules.d_0))


def theorem_2_2(
    network: Network,
    schedules: Schedules,
    d_l,
    L1: float,
    *,
    C_1=None,
    C_0=None,
    T_0=None,
    iterations: float = math.inf,
    maximum_over_agents: bool = True,
    lemma_4: tuple[float, float] | None = None,
) -> Theorem22:
    """Return Theorem 2.2: delta^i = C_3 (C_z + C_0) / d_0^i  sum_t (t+1)**-(1 + nu - varsigma^i).

    `L1` stands for the printed sqrt(n) L (`l1_lipschitz(L, dim)`). The paper leaves free

        0 < C_1 < min(|R_ii|, |C_ii|) / 2,    C_0 >= (4 - 2 C_1) / (u_i (|C_ii| - 2 C_1)),
        T_0 > 0 such that for all t >= T_0
            |R_ii| / 2     >= L1 t lam_t / (t+1) (C_z P_z**t + C_0)    and
            C_0 |C_ii| / 2 >= (2 - |C_ii|) C_z P_z**t;

    a constant that is given (one number, or one per agent) is checked, the others are searched for
    the smallest delta^i. The search is not proven to find it; every choice is admissible. Then

        varrho_{T_0} = varrho_{T_0,theta} + (C_0 - 1/u_i) varrho_{T_0,psi},
        C_2 = max{ (2 / C_1 + varrho_{T_0} (1-C_1)**(1-T_0) / (2 d_l lam_0 (C_z+C_0)))
                       (4 (1+nu) / (e ln(2 / (2-C_1))))**(1+nu),
                   varrho_{T_0} (T_0+1)**(1+nu) / (2 d_l lam_0 (C_z+C_0)) },
        C_3 = 2 C_2 d_l lam_0 ((C_0 + 1) u_i - 1) / (C_0 u_i - 1).

    C_2 is the largest over all agents, as printed; `maximum_over_agents=False` gives each agent its
    own, which suffices. delta is infinite when varsigma^i >= nu (at infinite time), or when no T_0
    below 2**53 is admissible.
    """
    require_same_agents(network, schedules)
    m = network.agents
    d_l = non_negative("d_l", d_l, m, "finite and not negative (Assumption 3)")
    lipschitz = non_negative("L1", L1, m, "finite and not negative (Assumption 2)").tolist()
    given = [_per_agent(name, x, m) for name, x in (("C_1", C_1), ("C_0", C_0), ("T_0", T_0))]
    given[2] = [x if x is None else whole("T_0", x, 1) for x in given[2]]
    agents = _agents(network, schedules, lemma_4)
    choices = [_best_choice(agents[i], lipschitz[i], *(x[i] for x in given)) for i in range(m)]
    names = ("C_1", "C_0", "T_0", "ln_C_2")
    C_1, C_0, T_0, ln_C_2 = (np.array([getattr(x, name) for x in choices]) for name in names)
    if maximum_over_agents:
        ln_C_2 = np.full(m, ln_C_2.max())
    u, C_z = network.u, agents[0].C_z
    series = np.array([power_sum(1.0 + schedules.nu - x, iterations) for x in schedules.varsigma])
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
    L = real("L", L)
    if not (math.isfinite(L) and L >= 0):
        raise ValueError(f"L = {L} must be finite and not negative (Assumption 2)")
    return math.sqrt(whole("dim", dim, 1)) * L


def power_sum(exponent: float, iterations: float = math.inf) -> float:
    """Return an upper bound of sum_{t=0}^{iterations-1} (t+1)**-exponent, perhaps infinite.

    The first terms are added one by one; x**-exponent is convex, so term n is at most its integral
    from n - 1/2 to n + 1/2.
    """
    if iterations == math.inf and exponent <= 1:
        return math.inf
    added = TERMS if iterations == math.inf else min(whole("iterations", iterations, 0), TERMS)
    head = math.fsum((np.arange(1.0, added + 1.0) ** -exponent).tolist())
    if added == iterations:
        return head
    start, power = added + 0.5, 1.0 - exponent
    if iterations == math.inf:
        return head + start**power / -power
    end = iterations + 0.5
    return head + (math.log(end / start) if power == 0 else (end**power - start**power) / power)


@dataclass(frozen=True)
class _Agent:
    """What Theorem 2 needs to know of one agent, with 2 d_l = 1."""

    r: float
    c: float
    u: float
    C_z: float
    P_z: float
    lam: Callable
    lam_0: float
    nu: float

    def rho_series(self, iterations: int) -> tuple[list[float], list[float]]:
        """Return varrho_{t,psi} and varrho_{t,theta} for t = 0 ... iterations - 1."""
        pairs = list(self._rho(iterations - 1)) if iterations else []
        return [psi for psi, _ in pairs], [theta for _, theta in pairs]

    def rho(self, t: list[int]) -> tuple[list[float], list[float]]:
        """Return varrho_{t,psi} and varrho_{t,theta} for each t."""
        if not t:
            return [], []
        steps = math.ceil(MEMORY / min(self.r, self.c))
        some = max(1, AT_ONCE // steps)
        starts = range(0, len(t), some)
        pieces = [self._rho_at(np.array(t[i : i + some], dtype=np.float64), steps) for i in starts]
        psi, theta = (np.concatenate(parts).tolist() for parts in zip(*pieces, strict=True))
        return psi, theta

    def _rho_at(self, t: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the same for a few t, from the last `steps` steps, which start at a bound."""
        times = t - steps + np.arange(steps)[:, None]
        psi = np.where(times[0] > 0, self.lam_0 / self.c, 0.0)
        theta = (self.C_z + 1.0 / self.u) * 2.0 * psi / self.r
        there, times = times >= 0, np.maximum(times, 0.0)
        factors = self.C_z * self.P_z**times + 1.0 / self.u
        for lam, factor in zip(np.where(there, self.lam(times), 0.0), factors, strict=True):
            following = (1.0 - self.c) * psi + lam
            theta = (1.0 - self.r) * theta + factor * (following + psi)
            psi = following
        return psi, theta

    def _rho(self, stop: int):
        psi = theta = 0.0
        yield psi, theta
        times = np.arange(stop, dtype=np.float64)
        factors = self.C_z * self.P_z**times + 1.0 / self.u
        for lam, factor in zip(self.lam(times).tolist(), factors.tolist(), strict=True):
            following = (1.0 - self.c) * psi + lam
            theta = (1.0 - self.r) * theta + factor * (following + psi)
            psi = following
            yield psi, theta

    def largest_C_1(self) -> float:
        return min(self.r, self.c) / 2.0

    def smallest_C_0(self, C_1: float) -> float:
        return (4.0 - 2.0 * C_1) / (self.u * (self.c - 2.0 * C_1))

    def smallest_T_0(self, C_0: float, L1: float) -> int | None:
        """Return the smallest admissible T_0, or None if it is not below 2**53.

        Beyond t = 1 / nu the right sides of both conditions fall: what holds once holds for ever.
        """

        def holds(t: int) -> bool:
            fading = self.C_z * self.P_z**t
            pull = L1 * self.lam_0 * t / (t + 1.0) ** (1.0 + self.nu) * (fading + C_0)
            return pull <= self.r / 2.0 and (2.0 - self.c) * fading <= C_0 * self.c / 2.0

        if not self.nu > 0:
            return None
        low = high = math.ceil(1.0 / self.nu)
        if holds(high):
            while high > 1 and holds(high - 1):
                high -= 1
            return high
        while not holds(high):
            low, high = high, 2 * high
            if high > LARGEST_T_0:
                return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if holds(middle) else (middle, high)
        return high

    def ln_C_2(self, C_1: float, C_0: float, T_0: int, rho: tuple[float, float]) -> float:
        """Return the natural logarithm of this agent's C_2."""
        n = 1.0 + self.nu
        psi, theta = rho
        ln_start = math.log((theta + (C_0 - 1.0 / self.u) * psi) / (self.lam_0 * (self.C_z + C_0)))
        later = ln_start + (1 - T_0) * math.log1p(-C_1)
        ln_bracket = float(np.logaddexp(math.log(2.0 / C_1), later))
        ln_lemma_5 = n * math.log(4.0 * n / (math.e * -math.log1p(-C_1 / 2.0)))
        return max(ln_bracket + ln_lemma_5, ln_start + n * math.log(T_0 + 1.0))


def _per_agent(name: str, constant, agents: int) -> list:
    """Return a free constant for every agent: None, one number for all, or one each."""
    if constant is None:
        return [None] * agents
    non_negative(name, constant, agents, "finite and not negative (Theorem 2.2)")
    return np.broadcast_to(constant, (agents,)).tolist()


def _agents(network: Network, schedules: Schedules, lemma_4) -> list[_Agent]:
    given = network.lemma_4 if lemma_4 is None else lemma_4
    C_z, P_z = reals("lemma_4", given, "a pair (C_z, P_z)", shape=(2,)).tolist()
    if not (math.isfinite(C_z) and C_z > 0 and 0 < P_z < 1):
        raise ValueError(f"lemma_4 = ({C_z}, {P_z}) must have C_z > 0 and P_z in (0, 1) (Lemma 4)")
    r, c, u = (x.tolist() for x in (-np.diag(network.R), -np.diag(network.C), network.u))
    common = C_z, P_z, schedules.lam, schedules.lam_0, schedules.nu
    return [_Agent(r[i], c[i], u[i], *common) for i in range(network.agents)]


@dataclass(frozen=True)
class _Choice:
    """Constants of Theorem 2.2 for one agent; delta^i is proportional to exp(`ln_objective`)."""

    C_1: float
    C_0: float
    T_0: int
    ln_C_2: float
    ln_objective: float


class _Constants(NamedTuple):
    C_1: float
    C_0: float
    T_0: int
    admissible: bool


def _weigh(agent: _Agent, tried: list[_Constants]) -> list[_Choice]:
    """Return what each try comes to."""
    starts = sorted({x.T_0 for x in tried if x.admissible})
    rho = dict(zip(starts, zip(*agent.rho(starts), strict=True), strict=True))
    choices = []
    for C_1, C_0, T_0, admissible in tried:
        ln_C_2 = agent.ln_C_2(C_1, C_0, T_0, rho[T_0]) if admissible else math.inf
        ratio = (
            (agent.C_z + C_0) * ((C_0 + 1.0) * agent.u - 1.0) / (C_0 * agent.u - 1.0)
            if admissible
            else 1.0
        )
        choices.append(_Choice(C_1, C_0, T_0, ln_C_2, ln_C_2 + math.log(ratio)))
    return choices


def _best_choice(agent: _Agent, L1: float, C_1, C_0, T_0) -> _Choice:
    """Return the best choice on a grid of how far C_1, C_0, T_0 are from their extremes, in logs.

    The ratios span 1 ... exp(30), exp(3) and exp(2); the grid is then refined three times around
    its best point. A constant that is given stays as it is.
    """
    if C_1 is not None and not 0 < C_1 < agent.largest_C_1():
        rule = f"(0, {agent.largest_C_1()}), half of min(|R_ii|, |C_ii|) (Theorem 2.2)"
        raise ValueError(f"C_1 = {C_1} must lie in {rule}")
    smallest_T_0 = lru_cache(maxsize=None)(agent.smallest_T_0)

    def constants(x: float, y: float, z: float) -> _Constants:
        own_C_1 = agent.largest_C_1() * math.exp(-x) if C_1 is None else C_1
        least_C_0 = agent.smallest_C_0(own_C_1)
        own_C_0 = least_C_0 * math.exp(y) if C_0 is None else C_0
        least_T_0 = smallest_T_0(own_C_0, L1)
        own_T_0 = math.ceil((least_T_0 or 0) * math.exp(z)) if T_0 is None else T_0
        admissible = own_C_0 >= least_C_0 and least_T_0 is not None and own_T_0 >= least_T_0
        return _Constants(own_C_1, own_C_0, own_T_0 if admissible else least_T_0 or 0, admissible)

    points = (31 if C_1 is None else 1, 5 if C_0 is None else 1, 3 if T_0 is None else 1)
    lowest, center, width = (1e-3, 0.0, 0.0), (15.0, 1.5, 1.0), (15.0, 1.5, 1.0)
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
    if best.ln_objective == math.inf and best.T_0 > 0:
        given = f"C_1 = {C_1}, C_0 = {C_0}, T_0 = {T_0} (None: free)"
        raise ValueError(f"{given} are not admissible together (Theorem 2.2)")
    return best


def _power_of_ten(log10: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return 10.0**log10
