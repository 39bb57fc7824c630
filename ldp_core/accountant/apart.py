"""How far apart two states can be, in l2, when gradients are clipped and taken at the sent value.

    >>> from ldp_core import network
    >>> schedules = Schedules(30.0, 0.9, (1.5,) * 5, (0.51,) * 5)
    >>> theta, psi, _ = drift(Terms(network.paper(0.2), schedules, clip=0.1, warm_up=1000), 3)
    >>> psi[:, 0].round(5).tolist()  # two clipped gradients among 1001 samples, times lam_0
    [0.0, 0.00599, 0.00681, 0.00631]

With a_t = 2 C lam_t / N_t the differences obey

    ||dpsi_{t+1}|| <= (1 - c) ||dpsi_t|| + a_t,    ||dtheta_t|| <= max(K+_t, K-_t)  or  K+_t + K-_t,

K+ and K- the sums of a_s over the positive and the negative responses of theta_t to a push at s:
the maximum if gradients of one sample at any two points make an angle of at most 60 degrees
(`cone`: logistic and softmax regression, clipped or not), the sum for any other model. Everything
is rounded upwards. Proofs: docs/proofs/promise.md, sections 3 to 5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldp_core import quantizer
from ldp_core.accountant.sensitivity import (
    DOWN,
    UP,
    decays,
    inverse_mz,
    non_negative,
    require_same_agents,
)
from ldp_core.checks import whole
from ldp_core.network import Network
from ldp_core.optimizer import Schedules

ROUNDING = 2.0**-53


@dataclass(frozen=True, eq=False)
class Terms:
    """Everything a promise depends on; `optimizer.Algorithm1` with the same options keeps it.

    `clip` is C, one number or one per agent. Before the first message `warm_up` data points of
    `samples` samples each were collected. The unit of privacy is `copies` samples of one agent: 1
    is one sample, `samples` a whole data point, more of them a record that arrives several times.
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
        clip = non_negative("clip", self.clip, self.network.agents, "finite and not negative")
        object.__setattr__(self, "clip", clip)
        for name, least in (("warm_up", 0), ("samples", 1), ("copies", 1)):
            object.__setattr__(self, name, whole(name, getattr(self, name), least))
        if self.dim is not None:
            object.__setattr__(self, "dim", whole("dim", self.dim, 1))
        if quantizer.require_degree(self.degree) == 1 and (self.dim is None or not self.dithered):
            rule = "needs dithered = True and a dim: its information is infinite"
            raise ValueError(f"degree = 1 {rule}")
        if self.box is not None and not 0 < self.box < math.inf:
            raise ValueError(f"box = {self.box} must be positive and finite")

    @property
    def unit(self) -> str:
        """Return the unit of privacy, in words."""
        if self.copies == 1:
            return "one sample"
        point = f"one data point of {self.samples} samples"
        return point if self.copies == self.samples else f"{self.copies} samples"


def drift(terms: Terms, T: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return bounds of ||dtheta_t||, ||dpsi_t|| `[T + 1, agents]`, and later 1 / (m [z_t^i]_i).

    Of K+ - K-, the part that pushes theta through psi is `through`, the part that pushes it
    directly is `direct`; K- is summed over the first lags, where the response is negative. Numbers
    of both signs are added here, so their rounding is charged as a share of the same sums without
    signs.
    """
    inverse, later = inverse_mz(terms.network, T)
    inverse = np.ascontiguousarray(inverse.T)  # from here on [agents, time]: long rows are fast
    keep_theta, keep_psi, c = _decays(terms.network)
    push = pushes(terms, np.arange(T))
    psi = _discounted(keep_psi, push)
    direct = _discounted(keep_theta, push * inverse)
    through = _discounted(keep_theta, c * psi[:, :T] * inverse)
    minus = _negative(keep_theta, keep_psi, c, push, inverse)
    plus = np.maximum(0.0, through - direct + minus)
    theta = np.maximum(plus, minus) if terms.cone else plus + minus
    return (theta + _charge(terms, T) * (direct + through)).T, psi.T, later


def pushes(terms: Terms, t: np.ndarray) -> np.ndarray:
    """Return a_t = 2 C copies lam_t / N_t `[agents, time]`, rounded upwards."""
    seen = terms.samples * (terms.warm_up + t + 1.0)
    share = np.minimum(1.0, terms.copies / seen)  # no more samples than there are
    return np.multiply.outer(2.0 * terms.clip, terms.schedules.lam(t) * share * UP) * UP


def _decays(network: Network) -> np.ndarray:
    """Return upper bounds of 1 - r, 1 - c and c, `[agents, 1]` each."""
    return np.array([decays(network, i) for i in range(network.agents)]).T[:, :, None]


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


def _charge(terms: Terms, T: int) -> float:
    """Return the share that covers rounding in `drift`: T steps, and decays known to 2**-43."""
    network = terms.network
    slowest = min(np.abs(np.diag(network.R)).min(), np.abs(np.diag(network.C)).min())
    return 2.0**-30 + T * (network.agents + 64) * 2.0**-49 + 2.0**-36 / float(slowest)


def envelope(terms: Terms, i: int, T: int, theta: float, psi: float, inverse: float) -> float:
    """Return B with sqrt(||dtheta_t||^2 + ||dpsi_t||^2) <= B w_t for t >= T, or infinity.

    w_t = (t+1)**-nu / (warm_up + t + 1), and w_{t+1} >= eta w_t for t >= T with eta = w_{T+1} /
    w_T. By induction p_t <= P w_t and e_t <= E w_t if (eta - (1-c)) P >= A and (eta - (1-r)) E >= b
    (c P + A), A = 2 C copies lam_0 / samples, b >= 1 / (m [z_t^i]_i), and both hold at T.
    """
    nu, points = terms.schedules.nu, terms.warm_up + T + 1.0
    weight = (T + 1.0) ** -nu / points * DOWN
    eta = ((T + 1.0) / (T + 2.0)) ** nu * (points / (points + 1.0)) * DOWN
    keep_theta, keep_psi, c = decays(terms.network, i)
    if not (nu > 0 and eta > max(keep_theta, keep_psi) * UP and math.isfinite(inverse)):
        return math.inf
    A = 2.0 * terms.clip[i] * terms.copies * terms.schedules.lam_0 / terms.samples * UP
    P = max(psi / weight, A / ((eta - keep_psi) * DOWN)) * UP
    E = max(theta / weight, inverse * (c * P + A) / ((eta - keep_theta) * DOWN)) * UP
    return math.hypot(E, P) * UP


def rounding(terms: Terms, T: int) -> np.ndarray:
    """Return how far float64 can move the two states of an agent apart, `[agents]`, in l2 norm.

    Received values and the first states lie in the box B, so |psi| <= S_psi and |theta| <= S_theta.
    An update is a sum of at most m + 3 products; each of its operations errs by at most 2**-53
    times the sum of all absolute values. The average of N gradients errs by (N + 8) 2**-53 C, in
    any order of its sum. These pushes enter the same recursions as the data's; y / d is rounded
    once more.
    """
    network, B = terms.network, float(terms.box or 0.0)
    m, lam_0 = network.agents, terms.schedules.lam_0
    b = inverse_mz(network, T)[0].max(axis=0)
    keep_theta, _, c = _decays(network)[:, :, 0]
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
