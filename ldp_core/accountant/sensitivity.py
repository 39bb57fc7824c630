"""How far one agent's states can be apart on two adjacent data sets, for every message at once.

    >>> from ldp_core import network
    >>> schedules = Schedules(0.5, 0.71, (1.0,) * 5, (0.51,) * 5)
    >>> bound = sensitivity_bound(network.paper(0.2), schedules, d_l=1.0, L1=0.25, iterations=3)
    >>> bound.psi[:, 0].round(3).tolist()  # of psi_0, psi_1, psi_2: two gradients of length d_l
    [0.0, 1.0, 0.913]

Fix an agent i and everything it receives, as local differential privacy does. Its states on D and
D' then differ in l1 norm by at most (e_t, p_t), where e_k = p_k = 0 and for t >= k

    g_t     = min(2 d_l,  L1 (1 - 1/N_t) e_t + 2 d_l / N_t)          N_t = samples (warm_up + t + 1)
    p_{t+1} = (1 - c) p_t + lam_t g_t                                c = |C_ii|
    e_{t+1} = (1 - r) e_t + (c p_t + lam_t g_t) / (m [z_t^i]_i)      r = |R_ii|.

The worst k is 0. Everything is computed for 2 d_l = 1, to which all is proportional, and rounded
upwards. Proofs: docs/proofs/certificate.md, section 1. Weights mean what Assumption 4 says: the
off-diagonal entries are taken as stored, the diagonal is minus their exact sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ldp_core.checks import instance, reals, whole
from ldp_core.network import Network
from ldp_core.optimizer import Schedules

UP, DOWN = 1.0 + 2.0**-44, 1.0 - 2.0**-44
TINY = 1e-300  # more than all that can underflow in one step
SETTLED = 1e-12  # spread of a column of (I + R)^t below which its lower bound is not improved
BLOCKS = 64  # pieces an octave is cut into, where an integral has no closed form


class Sensitivity(NamedTuple):
    """Bounds of ||theta_t - theta_t'||_1 and ||psi_t - psi_t'||_1, each `[time, agents]`."""

    theta: np.ndarray
    psi: np.ndarray


@dataclass(frozen=True, eq=False)
class Setting:
    """The public constants a bound is computed from, checked once.

    `d_l` bounds the l1 norm of a sample's gradient (Assumption 3). `L1` is the Lipschitz constant
    of that gradient from l1 to l1; None or infinity: not known. `samples` is how many samples a
    data point holds of which one may be replaced (1: the whole data point), `warm_up` how many data
    points were collected before the first message. d_l and L1 are one number, or one per agent.
    """

    network: Network
    schedules: Schedules
    d_l: np.ndarray
    L1: np.ndarray
    warm_up: int
    samples: int
    k: int

    @classmethod
    def of(cls, network, schedules, d_l, L1=None, *, warm_up=0, samples=1, k=0) -> Setting:
        require_same_agents(network, schedules)
        m, L1 = network.agents, np.inf if L1 is None else L1
        rule = "not negative; None or inf means unknown"
        return cls(
            network,
            schedules,
            non_negative("d_l", d_l, m, "finite and not negative (Assumption 3)"),
            non_negative("L1", L1, m, rule, allow_infinite=True),
            whole("warm_up", warm_up, 0),
            whole("samples", samples, 1),
            whole("k", k, 0),
        )


@dataclass(frozen=True, eq=False)
class UnitBudget:
    """What messages cost an agent whose 2 d_l / d_0 is 1; multiply by 2 d_l / d_0 for any other.

    `theta` and `psi` `[time, agents]` are e_t (t+1)**varsigma and p_t (t+1)**varsigma. All later
    messages together cost at most `tail` `[agents]`, each of their iterations at most `tail_peak`;
    zero when nothing is sent later, infinite when no finite bound could be proven.
    """

    theta: np.ndarray
    psi: np.ndarray
    tail: np.ndarray
    tail_peak: np.ndarray


def sensitivity_bound(network, schedules, d_l, L1, iterations: int, **options) -> Sensitivity:
    """Return (e_t, p_t) for t = 0 ... iterations - 1; `options`: warm_up, samples, k."""
    setting = Setting.of(network, schedules, d_l, L1, **options)
    states, _ = _unit_sensitivity(setting, whole("iterations", iterations, 0))
    return Sensitivity(*(times(setting.d_l, 2.0 * bound[:-1]) for bound in states))


def unit_budget(setting: Setting, iterations: int, *, for_ever: bool = False) -> UnitBudget:
    """Return the cost of the first messages, and with `for_ever` of all that follow them too."""
    states, inverse = _unit_sensitivity(setting, iterations)
    growth = (np.arange(iterations) + 1.0)[:, None] ** np.asarray(setting.schedules.varsigma) * UP
    tail = peak = np.zeros(setting.network.agents)
    if for_ever:
        tail, peak = _tail(setting, iterations, states.theta[-1], states.psi[-1], inverse)
    return UnitBudget(states.theta[:-1] * growth, states.psi[:-1] * growth, tail, peak)


def _unit_sensitivity(setting: Setting, iterations: int) -> tuple[Sensitivity, np.ndarray]:
    """Return (e_t, p_t) for t = 0 ... iterations, 2 d_l = 1, and all later 1 / (m [z_t^i]_i)."""
    network, schedules = setting.network, setting.schedules
    inverse, inverse_later = inverse_mz(network, iterations)
    t = np.arange(iterations)
    lam = schedules.lam(t) * UP
    seen = setting.samples * (setting.warm_up + t + 1.0)
    share, rest = 1.0 / seen * UP, (seen - 1.0) / seen * UP
    theta, psi = np.zeros((2, iterations + 1, network.agents))
    first = min(setting.k, iterations)
    for i in range(network.agents):
        series = (x[first:].tolist() for x in (lam, share, rest, inverse[:, i]))
        followed = _follow(*decays(network, i), float(setting.L1[i]), *series)
        theta[first + 1 :, i], psi[first + 1 :, i] = followed
    return Sensitivity(theta, psi), inverse_later


def _follow(keep_theta, keep_psi, c, L1, lam, share, rest, inverse) -> tuple[list, list]:
    """Return e and p after each step of the recursion, from zero; plain floats are fastest here."""
    e = p = 0.0
    es, ps = [], []
    for lam_t, share_t, rest_t, inverse_t in zip(lam, share, rest, inverse, strict=True):
        moved = rest_t * (L1 * e) if e > 0.0 else 0.0
        push = lam_t * min(1.0, share_t + moved)
        e = (keep_theta * e + (c * p + push) * inverse_t) * UP + TINY
        p = (keep_psi * p + push) * UP + TINY
        es.append(e)
        ps.append(p)
    return es, ps


def decays(network: Network, i: int) -> tuple[float, float, float]:
    """Return upper bounds of 1 - r, 1 - c and c for agent i."""
    r, c = (float(np.delete(weights, i).sum()) for weights in (network.R[i], network.C[:, i]))
    return (1.0 - r * DOWN) * UP, (1.0 - c * DOWN) * UP, c * UP


def inverse_mz(network: Network, iterations: int) -> tuple[np.ndarray, np.ndarray]:
    """Return upper bounds of 1 / (m [z_t^i]_i): `[iterations, agents]`, and for all later t.

    [z_t^i]_i is entry (i, i) of M^t, M = I + R, a product of non-negative matrices that is rounded
    down. The smallest entry of a column never falls, so it bounds all that come later.
    """
    m = network.agents
    off_diagonal = network.R - np.diag(np.diag(network.R))
    diagonal = np.maximum(0.0, (1.0 - off_diagonal.sum(axis=1) * UP) * DOWN)
    M, down = off_diagonal + np.diag(diagonal), 1.0 - (m + 16) * 2.0**-52
    power, z = np.eye(m), np.empty((iterations, m))
    for t in range(iterations):
        smallest = power.min(axis=0)
        if (smallest >= (1.0 - SETTLED) * power.max(axis=0)).all():
            z[t:] = smallest
            break
        z[t] = np.diagonal(power)
        power = (M @ power) * down
    with np.errstate(divide="ignore", over="ignore"):
        return 1.0 / (m * z) * UP, 1.0 / (m * power.min(axis=0)) * UP


def _tail(setting: Setting, H: int, e_H, p_H, b) -> tuple[np.ndarray, np.ndarray]:
    """Return bounds of the cost of all messages t >= H, and of their dearest iteration, by agent.

    Iteration t costs at most (E + P) f(t+1), f(x) = x**(varsigma - nu) / (warm_up + x), which falls
    and is convex for varsigma < nu: the sum is at most the integral from H + 1/2.
    """
    nu, warm_up = setting.schedules.nu, setting.warm_up
    tail, peak = np.full((2, setting.network.agents), np.inf)
    for i, varsigma in enumerate(setting.schedules.varsigma):
        envelope = _envelope(setting, i, H, float(e_H[i]), float(p_H[i]), float(b[i]))
        if envelope is not None and varsigma < nu:
            total = sum(envelope)
            tail[i] = total * integral(H + 0.5, nu - varsigma, warm_up) * UP
            peak[i] = total * (H + 1.0) ** (varsigma - nu) / (warm_up + H + 1.0) * UP
    return tail, peak


def _envelope(setting, i: int, H: int, e_H: float, p_H: float, b: float):
    """Return (E, P), e_t <= E w_t and p_t <= P w_t for t >= H, or None when H is too small.

    w_t = (t+1)**-nu / (warm_up + t + 1), and b bounds 1 / (m [z_t^i]_i) for t >= H. The formulas
    are derived in docs/proofs/certificate.md, section 2.
    """
    schedules, warm_up = setting.schedules, setting.warm_up
    if not schedules.nu > 0:
        return None
    keep_theta, keep_psi, c = decays(setting.network, i)
    pull = float(schedules.lam(H)) * float(setting.L1[i]) * UP
    points = warm_up + H + 1.0
    w_H = (H + 1.0) ** -schedules.nu / points
    eta = ((H + 1.0) / (H + 2.0)) ** schedules.nu * (points / (points + 1.0)) * DOWN
    a, q = (eta - keep_theta - b * pull * UP) * DOWN, (eta - keep_psi) * DOWN
    if not (math.isfinite(b) and a > 0 and q > 0):
        return None
    rho = b * c * pull / (a * q) * UP
    if not rho < 1:
        return None
    A = schedules.lam_0 / setting.samples * UP
    e, p = e_H / w_H * UP, p_H / w_H * UP
    settled = b * A * (c / q + 1.0) / (a * ((1.0 - rho) * DOWN)) * UP
    E = max(e, b * (c * p + A) / a * UP, settled)
    return E, max(p, (pull * E + A) / q * UP)


def integral(start: float, a: float, shift: float) -> float:
    """Return an upper bound of the integral of x**-a / (shift + x) from `start` > 0 on, a > 0.

    x / (shift + x) grows, so on a piece [x, y] it is at most y / (shift + y) (x**-a - y**-a) / a.
    """
    if shift == 0:
        return start**-a / a * UP
    pieces = BLOCKS * max(1, math.ceil(math.log2(max(2.0, shift / start)) + 20))
    ends = start * 2.0 ** (np.arange(1, pieces + 1) / BLOCKS)
    starts_power = (start * 2.0 ** (np.arange(pieces) / BLOCKS)) ** -a
    inside = ends / (shift + ends) * starts_power * -math.expm1(-a * math.log(2.0) / BLOCKS)
    return (float(np.sum(inside)) + float(ends[-1]) ** -a) / a * UP


def times(scale: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """Return scale * cost rounded upwards; zero times infinity is zero, as nothing is at stake."""
    with np.errstate(over="ignore", invalid="ignore"):
        product = np.nextafter(scale * cost * UP, np.inf)
    return np.where((cost > 0) & (scale > 0), product, 0.0)


def require_same_agents(network: Network, schedules: Schedules) -> None:
    instance("network", network, Network)
    instance("schedules", schedules, Schedules)
    if network.agents != schedules.agents:
        both = f"the network has {network.agents} agents and the schedules {schedules.agents}"
        raise ValueError(f"{both}: they must agree")


def non_negative(name: str, numbers, agents: int, rule: str, *, allow_infinite=False) -> np.ndarray:
    """Return one float per agent, from one number or one per agent, none negative or NaN."""
    array = per_agent(name, numbers, agents)
    wrong = ~(array >= 0) if allow_infinite else ~((array >= 0) & np.isfinite(array))
    if wrong.any():
        raise ValueError(f"{name} = {array[wrong].flat[0]} must be {rule}")
    return array


def per_agent(name: str, numbers, agents: int) -> np.ndarray:
    """Return one float per agent, from one number or one per agent."""
    wanted = f"one number, or one for each of {agents} agents"
    array = reals(name, numbers, wanted)
    if array.shape not in ((), (agents,)):
        raise ValueError(f"{name} has shape {array.shape}: it must be {wanted}")
    return np.broadcast_to(array, (agents,))
