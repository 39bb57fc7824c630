"""How far one agent's states can be apart on two adjacent data sets, for every message at once.

Fix an agent i and everything it receives, as local differential privacy does. Its states on D and D' then differ by
(dtheta_t, dpsi_t), in l1 norm at most (e_t, p_t), where e_k = p_k = 0 and for t >= k

    g_t     = min(2 d_l,  L1 (1 - 1/N_t) e_t + 2 d_l / N_t)          N_t = samples (warm_up + t + 1)
    p_{t+1} = (1 - c) p_t + lam_t g_t                                  c = |C_ii|
    e_{t+1} = (1 - r) e_t + (c p_t + lam_t g_t) / (m [z_t^i]_i)        r = |R_ii|.

Proof. g_t: the gradient at time t is the average over N_t samples, one of which may differ. The other N_t - 1 terms are
evaluated at two points that are e_t apart, so each moves by at most L1 e_t (L1 is the Lipschitz constant of the gradient from
l1 to l1); the one that differs moves by at most 2 d_l (Assumption 3), and so does the whole average. p: subtract the two
updates of psi; what was received cancels. e: subtract the two updates of theta, and use

    psi_{t+1} - psi_t = -c psi_t + lam_t g_t + received,

so the difference of these increments is at most c p_t + lam_t g_t. (The paper bounds it by p_{t+1} + p_t, which is (2 - c)
p_t + lam_t g_t and larger because c < 1.) Nothing above depends on what was received: the bound holds for all histories.

The worst k is 0. The right sides do not fall when e_t or p_t grow, and do not depend on k. For t <= k the bound of index k
is zero, so not above that of index 0, and from k on both follow the same monotone recursion. A data point of the warm-up is
in every gradient from t = 0 on, so it counts as k = 0.

Everything is computed for 2 d_l = 1: e_t, p_t and g_t are proportional to 2 d_l.

Rounding. All terms are non-negative and there are no subtractions in the recursion, so an operation of float64 loses at most
the factor 1 - 2**-53, and what underflows at most 2**-1074; `pow`, `log1p` and `expm1` are allowed to lose 2**-48, sixteen
units in the last place. Each step has about a dozen operations; multiplying its result by UP = 1 + 2**-44 and adding TINY
more than restores what was lost, and by monotonicity the computed bound is never below the one of exact arithmetic. The
recursion forgets geometrically, so all these factors together cost about 2**-44 / min(r, c), not 2**-44 T.

Weights mean what Assumption 4 says: the off-diagonal entries are taken as stored, the diagonal is minus their exact sum.
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
SETTLED = 1e-12  # relative spread of a column of (I + R)^t below which its lower bound is no longer improved
BLOCKS = 64  # pieces an octave is cut into, where an integral has no closed form


class Sensitivity(NamedTuple):
    """Bounds of ||theta_t - theta_t'||_1 and ||psi_t - psi_t'||_1, each `[time, agents]`; the state at t is sent at t."""

    theta: np.ndarray
    psi: np.ndarray


@dataclass(frozen=True, eq=False)
class Setting:
    """The public constants a bound is computed from, checked once.

    `d_l` bounds the l1 norm of a sample's gradient (Assumption 3). `L1` is the Lipschitz constant of that gradient from l1
    to l1; None or infinity means that it is not known. `samples` is how many samples a data point holds of which one may be
    replaced (1: the whole data point). `warm_up` is how many data points were collected before the first message. d_l and
    L1 may be one number or one per agent. The gradient is the average over the whole history, as in the paper.
    """

    network: Network
    schedules: Schedules
    d_l: np.ndarray
    L1: np.ndarray
    warm_up: int
    samples: int
    k: int

    @classmethod
    def of(
        cls, network: Network, schedules: Schedules, d_l, L1=None, *, warm_up: int = 0, samples: int = 1, k: int = 0
    ) -> Setting:
        require_same_agents(network, schedules)
        L1 = np.inf if L1 is None else L1
        return cls(
            network,
            schedules,
            non_negative("d_l", d_l, network.agents, "finite and not negative (Assumption 3)"),
            non_negative("L1", L1, network.agents, "not negative; None or inf means unknown", allow_infinite=True),
            whole("warm_up", warm_up, 0),
            whole("samples", samples, 1),
            whole("k", k, 0),
        )


@dataclass(frozen=True, eq=False)
class UnitBudget:
    """What messages cost an agent whose 2 d_l / d_0 is 1; multiply by 2 d_l / d_0 for any other.

    `theta` and `psi` `[time, agents]` are e_t (t+1)**varsigma and p_t (t+1)**varsigma for the messages followed one by one.
    All later messages together cost at most `tail` `[agents]`, and each of their iterations at most `tail_peak` `[agents]`;
    both are zero when nothing is sent later, and infinite when no finite bound could be proven.
    """

    theta: np.ndarray
    psi: np.ndarray
    tail: np.ndarray
    tail_peak: np.ndarray


def sensitivity_bound(
    network: Network, schedules: Schedules, d_l, L1, iterations: int, *, k: int = 0, warm_up: int = 0, samples: int = 1
) -> Sensitivity:
    """Return the bounds (e_t, p_t) of the module's recursion for t = 0 ... iterations - 1, rounded upwards."""
    setting = Setting.of(network, schedules, d_l, L1, warm_up=warm_up, samples=samples, k=k)
    states, _ = _unit_sensitivity(setting, whole("iterations", iterations, 0))
    return Sensitivity(*(times(setting.d_l, 2.0 * bound[:-1]) for bound in states))


def unit_budget(setting: Setting, iterations: int, *, for_ever: bool = False) -> UnitBudget:
    """Return the cost of the messages t = 0 ... iterations - 1, and with `for_ever` of all that follow them too."""
    states, inverse = _unit_sensitivity(setting, iterations)
    growth = (np.arange(iterations) + 1.0)[:, None] ** np.asarray(setting.schedules.varsigma) * UP
    tail = peak = np.zeros(setting.network.agents)
    if for_ever:
        tail, peak = _tail(setting, iterations, states.theta[-1], states.psi[-1], inverse)
    return UnitBudget(states.theta[:-1] * growth, states.psi[:-1] * growth, tail, peak)


def _unit_sensitivity(setting: Setting, iterations: int) -> tuple[Sensitivity, np.ndarray]:
    """Return (e_t, p_t) for t = 0 ... iterations and 2 d_l = 1, and a bound of 1 / (m [z_t^i]_i) for all t >= iterations."""
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
        followed = _follow(*_decays(network, i), float(setting.L1[i]), *series)
        theta[first + 1 :, i], psi[first + 1 :, i] = followed
    return Sensitivity(theta, psi), inverse_later


def _follow(keep_theta: float, keep_psi: float, c: float, L1: float, lam, share, rest, inverse) -> tuple[list, list]:
    """Return e and p after each step of the recursion, from zero (in plain floats: arrays of a few agents are slower)."""
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


def _decays(network: Network, i: int) -> tuple[float, float, float]:
    """Return upper bounds of 1 - r, 1 - c and c for agent i."""
    r, c = (float(np.delete(weights, i).sum()) for weights in (network.R[i], network.C[:, i]))
    return (1.0 - r * DOWN) * UP, (1.0 - c * DOWN) * UP, c * UP


def inverse_mz(network: Network, iterations: int) -> tuple[np.ndarray, np.ndarray]:
    """Return upper bounds of 1 / (m [z_t^i]_i): `[iterations, agents]`, and `[agents]` for all t >= iterations at once.

    [z_t^i]_i is entry (i, i) of M^t, M = I + R, a product of non-negative matrices: rounding every factor and every product
    down gives a lower bound. For later times, column i of M^(t+1) is M times column i of M^t, and the rows of M add up to
    one, so every entry of the new column is an average of the old one: the smallest entry of a column never falls. Hence

        [z_s^i]_i >= min_j (M^t)_ji    for all s >= t,

    which tends to u_i / m (Lemma 3). Once a column is nearly constant we stop multiplying and keep this bound.
    """
    m = network.agents
    off_diagonal = network.R - np.diag(np.diag(network.R))
    M = off_diagonal + np.diag(np.maximum(0.0, (1.0 - off_diagonal.sum(axis=1) * UP) * DOWN))
    down = 1.0 - (m + 16) * 2.0**-52
    power = np.eye(m)
    z = np.empty((iterations, m))
    for t in range(iterations):
        smallest = power.min(axis=0)
        if (smallest >= (1.0 - SETTLED) * power.max(axis=0)).all():
            z[t:] = smallest
            break
        z[t] = np.diagonal(power)
        power = (M @ power) * down
    with np.errstate(divide="ignore", over="ignore"):
        return 1.0 / (m * z) * UP, 1.0 / (m * power.min(axis=0)) * UP


def _tail(setting: Setting, H: int, e_H: np.ndarray, p_H: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return bounds, per agent, of the cost of all messages t >= H and of the dearest iteration among them (2 d_l = d_0 = 1).

    By `_envelope` iteration t costs (e_t + p_t) (t+1)**varsigma <= (E + P) f(t+1), f(x) = x**(varsigma - nu) / (warm_up + x).
    When varsigma < nu, f falls and is convex, so the dearest is t = H, f(n) is at most the integral of f from n - 1/2 to
    n + 1/2, and the sum over t >= H is at most (E + P) times the integral of f from H + 1/2.
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


def _envelope(setting: Setting, i: int, H: int, e_H: float, p_H: float, b: float) -> tuple[float, float] | None:
    """Return (E, P) with e_t <= E w_t, p_t <= P w_t for all t >= H, where w_t = (t+1)**-nu / (warm_up + t + 1); or None.

    lam_t / N_t = A w_t with A = lam_0 / samples. For t >= H we have lam_t <= lam_H =: lam, 1 / (m [z_t^i]_i) <= b, and
    w_{t+1} / w_t >= w_{H+1} / w_H =: eta, because this ratio grows with t. If E >= e_H / w_H and P >= p_H / w_H satisfy

        eta P >= (1 - c) P + lam L1 E + A
        eta E >= (1 - r) E + b (c P + lam L1 E + A)

    the claim follows by induction: the recursion gives e_{t+1} <= w_t times the second right side, which is at most
    eta E w_t <= E w_{t+1}, and likewise p. Let a = eta - (1 - r) - b lam L1 and q = eta - (1 - c) be positive, and
    rho = b c lam L1 / (a q) < 1 (if they are not, H is too small and None is returned). The smallest solution is

        E = max(e_H / w_H,  b (c p_H / w_H + A) / a,  b A (c / q + 1) / (a (1 - rho)))
        P = max(p_H / w_H,  (lam L1 E + A) / q)

    since E must not be below the fixed point of any of the three affine functions of slope below one whose maximum it is.
    As H grows, eta -> 1, lam -> 0, b -> 1 / u_i, and (E, P) tends to the limit of (e_t, p_t) / w_t: nothing is lost.
    """
    schedules, warm_up = setting.schedules, setting.warm_up
    if not schedules.nu > 0:
        return None
    keep_theta, keep_psi, c = _decays(setting.network, i)
    pull = float(schedules.lam(H)) * float(setting.L1[i]) * UP
    w_H = (H + 1.0) ** -schedules.nu / (warm_up + H + 1.0)
    eta = ((H + 1.0) / (H + 2.0)) ** schedules.nu * ((warm_up + H + 1.0) / (warm_up + H + 2.0)) * DOWN
    a, q = (eta - keep_theta - b * pull * UP) * DOWN, (eta - keep_psi) * DOWN
    if not (math.isfinite(b) and a > 0 and q > 0):
        return None
    rho = b * c * pull / (a * q) * UP
    if not rho < 1:
        return None
    A = schedules.lam_0 / setting.samples * UP
    e, p = e_H / w_H * UP, p_H / w_H * UP
    E = max(e, b * (c * p + A) / a * UP, b * A * (c / q + 1.0) / (a * ((1.0 - rho) * DOWN)) * UP)
    return E, max(p, (pull * E + A) / q * UP)


def integral(start: float, a: float, shift: float) -> float:
    """Return an upper bound of the integral of x**-a / (shift + x) from `start` > 0 to infinity, for a > 0, shift >= 0.

    shift = 0: start**-a / a. Otherwise x / (shift + x) grows with x, so on a piece [x, y] the integral is at most
    y / (shift + y) (x**-a - y**-a) / a. The pieces have y / x = 2**(1/64), which loses at most 1 %, until x is 2**20 shift.
    """
    if shift == 0:
        return start**-a / a * UP
    pieces = BLOCKS * max(1, math.ceil(math.log2(max(2.0, shift / start)) + 20))
    ends = start * 2.0 ** (np.arange(1, pieces + 1) / BLOCKS)
    starts_power = (start * 2.0 ** (np.arange(pieces) / BLOCKS)) ** -a
    inside = ends / (shift + ends) * starts_power * -math.expm1(-a * math.log(2.0) / BLOCKS)
    return (float(np.sum(inside)) + float(ends[-1]) ** -a) / a * UP


def times(scale: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """Return scale * cost rounded upwards, where zero times infinity is zero: no message, or nothing to protect."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.where((cost > 0) & (scale > 0), np.nextafter(scale * cost * UP, np.inf), 0.0)


def require_same_agents(network: Network, schedules: Schedules) -> None:
    instance("network", network, Network)
    instance("schedules", schedules, Schedules)
    if network.agents != schedules.agents:
        raise ValueError(f"the network has {network.agents} agents and the schedules {schedules.agents}: they must agree")


def non_negative(name: str, numbers, agents: int, rule: str, *, allow_infinite: bool = False) -> np.ndarray:
    """Return one float per agent, from one number or one per agent, none of them negative or NaN."""
    array = reals(name, numbers, f"one number, or one for each of {agents} agents")
    if array.shape not in ((), (agents,)):
        raise ValueError(f"{name} has shape {array.shape}: it must be one number, or one for each of {agents} agents")
    wrong = ~(array >= 0) if allow_infinite else ~((array >= 0) & np.isfinite(array))
    if wrong.any():
        raise ValueError(f"{name} = {array[wrong].flat[0]} must be {rule}")
    return np.broadcast_to(array, (agents,))
