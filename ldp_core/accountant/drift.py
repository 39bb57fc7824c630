"""How far one agent's states can be apart on two adjacent data sets, for every message at once.

    >>> from ldp_core import network
    >>> schedules = Schedules(30.0, 0.9, (1.5,) * 5, (0.51,) * 5)
    >>> theta, psi, _ = drift(Terms(network.paper(0.2), schedules, clip=0.1, warm_up=1000), 3)
    >>> psi[:, 0].round(5).tolist()  # two clipped gradients among 1001 samples, times lam_0
    [0.0, 0.00599, 0.00681, 0.00631]

Fix an agent i and everything it receives, as local differential privacy does. For the algorithm as
printed (`Setting`, `unit_drift`) its states differ in l1 norm by at most (e_t, p_t), e_0 = p_0 = 0,

    g_t     = min(2 d_l,  L1 (1 - 1/N_t) e_t + 2 d_l / N_t)          N_t = samples (warm_up + t + 1)
    p_{t+1} = (1 - c) p_t + lam_t g_t                                c = |C_ii|
    e_{t+1} = (1 - r) e_t + (c p_t + lam_t g_t) / (m [z_t^i]_i)      r = |R_ii|.

With clipped gradients at sent values (`Terms`, `drift`), and in l2 norm: docs/proofs/promise.md,
sections 3 to 5. Proof of the above: certificate.md, section 1. All is rounded upwards.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldp_core import quantizer
from ldp_core.checks import every, instance, not_negative, per_agent, positive, whole
from ldp_core.network import Network
from ldp_core.optimizer import Schedules, require_same_agents

UP, DOWN = 1.0 + 2.0**-44, 1.0 - 2.0**-44
TINY = 1e-300  # more than all that can underflow in one step
SETTLED = 1e-12  # spread of a column of (I + R)^t below which its lower bound is not improved
ROUNDING = 2.0**-53  # of one operation, relatively
BLOCKS = 64  # pieces an octave is cut into, where an integral has no closed form


@dataclass(frozen=True, eq=False)
class Setting:
    """The public constants a bound is computed from, checked once.

    `d_l` bounds the l1 norm of a sample's gradient (Assumption 3). `L1` is the Lipschitz constant
    of that gradient from l1 to l1; None or infinity: not known. Both may be one per agent. A data
    point holds `samples`, of which one may be replaced; `warm_up` came before the first message.
    """

    network: Network
    schedules: Schedules
    d_l: Any
    L1: Any = None
    warm_up: int = 0
    samples: int = 1

    def __post_init__(self) -> None:
        require_same_agents(self.network, self.schedules)
        m, L1 = self.network.agents, np.inf if self.L1 is None else self.L1
        rule = "be finite and not negative (Assumption 3)"
        object.__setattr__(self, "d_l", per_agent("d_l", self.d_l, m, not_negative, rule))
        rule = "not be negative; None or inf means unknown"
        object.__setattr__(self, "L1", per_agent("L1", L1, m, lambda x: x >= 0, rule))
        for name, least in (("warm_up", 0), ("samples", 1)):
            object.__setattr__(self, name, whole(name, getattr(self, name), least))


@dataclass(frozen=True, eq=False)
class UnitBudget:
    """What messages cost an agent whose 2 d_l / d_0 is 1, to which all is proportional.

    `theta` and `psi` `[time, agents]` are e_t (t+1)**varsigma and p_t (t+1)**varsigma. All later
    messages cost at most `tail` `[agents]`, each iteration at most `tail_peak`; infinite: unproven.
    """

    theta: np.ndarray
    psi: np.ndarray
    tail: np.ndarray
    tail_peak: np.ndarray


def unit_budget(setting: Setting, iterations: int, *, for_ever: bool = False) -> UnitBudget:
    """Return the cost of the first messages, and with `for_ever` of all that follow them too."""
    theta, psi, inverse = unit_drift(setting, iterations)
    growth = (np.arange(iterations) + 1.0)[:, None] ** np.asarray(setting.schedules.varsigma) * UP
    tail = peak = np.zeros(setting.network.agents)
    if for_ever:
        tail, peak = _tail(setting, iterations, theta[-1], psi[-1], inverse)
    return UnitBudget(theta[:-1] * growth, psi[:-1] * growth, tail, peak)


def unit_drift(setting: Setting, iterations: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return e_t, p_t `[iterations + 1, agents]`, 2 d_l = 1, and all later 1 / (m [z_t^i]_i)."""
    inverse, later = inverse_mz(setting.network, iterations)
    t = np.arange(iterations)
    lam = setting.schedules.lam(t) * UP
    seen = setting.samples * (setting.warm_up + t + 1.0)
    share, rest = 1.0 / seen * UP, (seen - 1.0) / seen * UP
    theta, psi = np.zeros((2, iterations + 1, setting.network.agents))
    for i, own in enumerate(np.vstack([_decays(setting.network), setting.L1]).T):
        series = (x.tolist() for x in (own, lam, share, rest, inverse[:, i]))
        theta[1:, i], psi[1:, i] = _follow(*series)
    return theta, psi, later


def _follow(own: list, lam: list, share: list, rest: list, inverse: list) -> tuple[list, list]:
    """Return e and p after each step of the recursion, from zero; plain floats are fastest here."""
    keep_theta, keep_psi, c, L1 = own
    e, p, es, ps = 0.0, 0.0, [], []
    for lam_t, share_t, rest_t, inverse_t in zip(lam, share, rest, inverse, strict=True):
        moved = rest_t * (L1 * e) if e > 0.0 else 0.0
        push = lam_t * min(1.0, share_t + moved)
        e = (keep_theta * e + (c * p + push) * inverse_t) * UP + TINY
        p = (keep_psi * p + push) * UP + TINY
        es.append(e)
        ps.append(p)
    return es, ps


def _decays(network: Network) -> np.ndarray:
    """Return upper bounds of 1 - r, 1 - c and c, `[3, agents]`."""
    weights = [(network.R[i], network.C[:, i]) for i in range(network.agents)]
    r, c = np.array([[np.delete(x, i).sum() for x in both] for i, both in enumerate(weights)]).T
    return np.array([(1.0 - r * DOWN) * UP, (1.0 - c * DOWN) * UP, c * UP])


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

    Iteration t costs at most (E + P) f(t+1), f(x) = x**(varsigma - nu) / (warm_up + x), which is
    convex for varsigma < nu: the sum is at most the integral from H + 1/2.
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

    w_t = (t+1)**-nu / (warm_up + t + 1), and b bounds 1 / (m [z_t^i]_i) for t >= H
    (docs/proofs/certificate.md, section 2).
    """
    schedules, warm_up = setting.schedules, setting.warm_up
    if not schedules.nu > 0:
        return None
    keep_theta, keep_psi, c = _decays(setting.network)[:, i].tolist()
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
    every("start, a", (start, a), positive, "be positive and finite")
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


@dataclass(frozen=True, eq=False)
class Terms:
    """Everything a promise depends on; `optimizer.Algorithm1` with the same options keeps it.

    `clip` is C, one number or one per agent. Before the first message `warm_up` data points of
    `samples` samples each were collected. The unit of privacy is `copies` samples of one agent.
    `cone` says that gradients of one sample never make an angle above 60 degrees. `box` bounds what
    is received, theta_0 and psi_0; it and the dimension `dim` are needed for `Certificate.program`.
    """

    network: Network
    schedules: Schedules
    clip: Any
    warm_up: int = 0
    samples: int = 1
    copies: int = 1
    degree: int = 3
    dithered: bool = False
    cone: bool = False
    box: float | None = None
    dim: int | None = None

    def __post_init__(self) -> None:
        require_same_agents(self.network, self.schedules)
        own = self.clip, self.network.agents, not_negative, "be finite and not negative"
        object.__setattr__(self, "clip", per_agent("clip", *own))
        for name in ("dithered", "cone"):
            instance(name, getattr(self, name), bool)
        for name, least in (("warm_up", 0), ("samples", 1), ("copies", 1), ("dim", 1)):
            if name != "dim" or self.dim is not None:
                object.__setattr__(self, name, whole(name, getattr(self, name), least))
        if quantizer.require_degree(self.degree) == 1 and (self.dim is None or not self.dithered):
            rule = "needs dithered = True and a dim: its information is infinite"
            raise ValueError(f"degree = 1 {rule}")
        if self.box is not None:
            every("box", self.box, positive, "be positive and finite")

    @property
    def unit(self) -> str:
        """Return the unit of privacy, in words."""
        if self.copies == 1:
            return "one sample"
        point = f"one data point of {self.samples} samples"
        return point if self.copies == self.samples else f"{self.copies} samples"


def drift(terms: Terms, T: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return bounds of ||dtheta_t||, ||dpsi_t|| `[T + 1, agents]`, and later 1 / (m [z_t^i]_i).

    K+ - K- is what pushes theta through psi, `through`, less what pushes it directly. Numbers of
    both signs are added, so their rounding is charged as a share of the sums without signs.
    """
    inverse, later = inverse_mz(terms.network, T)
    inverse = np.ascontiguousarray(inverse.T)  # from here on [agents, time]: long rows are fast
    keep_theta, keep_psi, c = _decays(terms.network)[:, :, None]
    push = pushes(terms, np.arange(T))
    psi = _discounted(keep_psi, push)
    direct = _discounted(keep_theta, push * inverse)
    through = _discounted(keep_theta, c * psi[:, :T] * inverse)
    minus = _negative(keep_theta, keep_psi, c, push, inverse)
    plus = np.maximum(0.0, through - direct + minus)
    theta = np.maximum(plus, minus) if terms.cone else plus + minus
    slowest = min(np.abs(np.diag(x)).min() for x in (terms.network.R, terms.network.C))
    charge = 2.0**-30 + T * (terms.network.agents + 64) * 2.0**-49 + 2.0**-36 / float(slowest)
    return (theta + charge * (direct + through)).T, psi.T, later


def pushes(terms: Terms, t: np.ndarray) -> np.ndarray:
    """Return a_t = 2 C copies lam_t / N_t `[agents, time]`, rounded upwards."""
    seen = terms.samples * (terms.warm_up + t + 1.0)
    share = np.minimum(1.0, terms.copies / seen)  # no more samples than there are
    return np.multiply.outer(2.0 * terms.clip, terms.schedules.lam(t) * share * UP) * UP


def _discounted(keep: np.ndarray, source: np.ndarray) -> np.ndarray:
    """Return x `[agents, T + 1]` with x_0 = 0, x_{t+1} = keep x_t + source_t, by doubling the lag.

    What came so long ago that less than 2**-200 is left is bounded by that share of the largest.
    """
    total, lag = np.hstack([np.zeros((len(source), 1)), source]), 1
    while lag < total.shape[1] and (keep**lag > 2.0**-200).any():
        total[:, lag:] += keep**lag * total[:, :-lag]
        lag *= 2
    forgotten = 2.0**-190 * total.max(axis=1, keepdims=True) if lag < total.shape[1] else 0.0
    return total * (1.0 + (source.shape[1] + 64) * 2.0**-50) + forgotten


def _negative(keep_theta, keep_psi, c, push: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    """Return K- `[agents, T + 1]`: lag by lag, all pushes at once, while any response is negative.

    A response starts at -1 / (m z) and every step adds a positive number: it changes its sign once.
    """
    agents, T = push.shape
    minus, response, left, lag = np.zeros((agents, T + 1)), -inverse, np.ones((agents, 1)), 0
    while lag < T and (response < 0).any():
        minus[:, lag + 1 :] += np.maximum(0.0, -response) * push[:, : T - lag]
        lag += 1
        response = keep_theta * response[:, :-1] + c * left * inverse[:, lag:]
        left = keep_psi * left
    return minus * UP


def envelope(terms: Terms, i: int, T: int, theta: float, psi: float, inverse: float) -> float:
    """Return B with sqrt(||dtheta_t||^2 + ||dpsi_t||^2) <= B w_t for t >= T, or infinity.

    w_t = (t+1)**-nu / (warm_up + t + 1); the induction is in docs/proofs/promise.md, section 4.
    """
    nu, points = terms.schedules.nu, terms.warm_up + T + 1.0
    weight = (T + 1.0) ** -nu / points * DOWN
    eta = ((T + 1.0) / (T + 2.0)) ** nu * (points / (points + 1.0)) * DOWN
    keep_theta, keep_psi, c = _decays(terms.network)[:, i].tolist()
    if not (nu > 0 and eta > max(keep_theta, keep_psi) * UP and math.isfinite(inverse)):
        return math.inf
    A = 2.0 * terms.clip[i] * terms.copies * terms.schedules.lam_0 / terms.samples * UP
    P = max(psi / weight, A / ((eta - keep_psi) * DOWN)) * UP
    E = max(theta / weight, inverse * (c * P + A) / ((eta - keep_theta) * DOWN)) * UP
    return math.hypot(E, P) * UP


def rounding(terms: Terms, T: int) -> np.ndarray:
    """Return how far float64 can move the two states of an agent apart, `[agents]`, in l2 norm.

    Received values and the first states lie in the box, so |psi| <= S_psi and |theta| <= S_theta;
    every operation errs by at most 2**-53 of them (docs/proofs/promise.md, section 5).
    """
    network, B, T = terms.network, float(terms.box or 0.0), whole("T", T, 1)
    m, lam_0 = network.agents, terms.schedules.lam_0
    b = inverse_mz(network, T)[0].max(axis=0)
    keep_theta, _, c = _decays(network)
    r, received = (1.0 - keep_theta) * DOWN, np.maximum(network.C, 0.0).sum(axis=1) * B
    S_psi = np.maximum(B, (received + lam_0 * terms.clip) / (c * DOWN**2)) * UP
    jump = c * S_psi + received + lam_0 * terms.clip
    S_theta = np.maximum(B, (r * B + jump * b) / r) * UP
    t = np.arange(T)
    seen = terms.samples * (terms.warm_up + t + 1.0)
    averages = 2.0 * ROUNDING * terms.clip * (terms.schedules.lam(t) * (seen + 8.0)).max()
    once = 2.0 * ROUNDING * math.sqrt(terms.dim or 1)  # in both worlds, in every coordinate
    of_psi = averages + once * (2 * m + 6) * (S_psi + received + lam_0 * terms.clip)
    psi = of_psi / (c * DOWN**2)
    of_theta = once * (2 * m + 8) * (S_theta + r * B + 2.0 * S_psi * b)
    theta = ((c * psi + of_psi) * b + of_theta) / r
    return np.hypot(theta + once * S_theta, psi + once * S_psi) * (1.0 + 1e-6)
