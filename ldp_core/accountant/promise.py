"""The promise: a bound of delta for any model whose per-sample gradients are clipped, for all time.

    >>> from ldp_core import network
    >>> from ldp_core.optimizer import Schedules
    >>> schedules = Schedules(30.0, 0.9, (1.5,) * 5, (0.51,) * 5)
    >>> terms = Terms(network.paper(0.2), schedules, clip=0.1, warm_up=1000, cone=True)
    >>> certify(terms, math.inf).delta.max().round(3)
    np.float64(0.099)

Algorithm 1 with coins of degree p >= 2 (`quantizer`), gradients taken at the *sent* value and
per-sample gradients clipped to the l2 norm C. Theorem (docs/proofs/promise.md): let (dtheta_t,
dpsi_t) be how far an agent's states can be apart when one sample is replaced, and

    E_t = sqrt(||dtheta_t||^2 + ||dpsi_t||^2) / d_t,       I = quantizer.information(p).

Whatever the neighbours do with what they have seen, and whatever an eavesdropper reads,

    delta <= sqrt(1 - prod_t cos^2(sqrt(I) E_t / 2)),     cos^2(sqrt(I) E_t / 2) >= 1 - I E_t^2 / 4,

where a factor is zero if its angle exceeds pi / 2. With a_t = 2 C lam_t / N_t the differences obey

    ||dpsi_{t+1}|| <= (1 - c) ||dpsi_t|| + a_t,    ||dtheta_t|| <= max(K+_t, K-_t)  or  K+_t + K-_t,

K+ and K- the sums of a_s over the positive and the negative responses of theta_t to a push at s:
the maximum if gradients of one sample at any two points make an angle of at most 60 degrees
(`cone`: logistic and softmax regression, clipped or not), the sum for any other model. No Lipschitz
constant, no convexity, no dimension. Squares add up, so all time needs 2 (1 + nu - varsigma) > 1
only.

What is assumed: the agent's data enter its gradients and nothing else; coins are fresh and private.
Neighbours may be malicious. Without a dither they may know everything but data and coins; with one
(`dithered`), they must not know a dither before the messages that it moves.

`delta` supposes exact arithmetic. `program` is the bound for the float64 program during the first
`horizon` iterations, with rounding and coins of 53 bits charged; it needs a box and a dimension.
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
    inverse_mz,
    non_negative,
    require_same_agents,
    whole,
)
from ldp_core.accountant.sensitivity import _decays as decays
from ldp_core.network import Network
from ldp_core.optimizer import Schedules

HORIZON = 100_000  # iterations that are followed one by one when the question is about all time
PIECES, OCTAVES = 16, 64  # the tail is cut into so many pieces an octave, over so many octaves
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
            raise ValueError("degree = 1 needs dithered = True and a dim: its information is infinite")
        if self.box is not None and not 0 < self.box < math.inf:
            raise ValueError(f"box = {self.box} must be positive and finite")

    @property
    def unit(self) -> str:
        """Return the unit of privacy, in words."""
        points = {1: "one sample", self.samples: f"one data point of {self.samples} samples"}
        return points.get(self.copies, f"{self.copies} samples") if self.copies > 1 else "one sample"


@dataclass(frozen=True, eq=False)
class Shifts:
    """E_t d_0 of all messages: `followed` `[time, agents]`, then `later` `[pieces, agents]`.

    Piece k of the tail holds `number[k]` iterations, none above `later[k]`; what comes after the
    last falls as t**-`fall` (`[agents]`; infinite where no tail is left, zero where none is
    proven).
    """

    terms: Terms
    iterations: float
    followed: np.ndarray
    later: np.ndarray
    number: np.ndarray
    fall: np.ndarray


@dataclass(frozen=True, eq=False)
class Certificate:
    """Bounds of delta^i after `iterations` (math.inf: all time), one per agent, for one `unit`.

    `exponent` is the bound of -log of the affinity, `tail` the share of it that comes from beyond
    `horizon`. `program` covers float64 for the first `horizon` iterations; None without a box.
    """

    iterations: float
    horizon: int
    unit: str
    delta: np.ndarray
    exponent: np.ndarray
    tail: np.ndarray
    program: np.ndarray | None

    @property
    def mu(self) -> np.ndarray:
        """Return mu of the Gaussian curve with the same affinity: an estimate, not a bound."""
        return np.sqrt(8.0 * self.exponent)

    def profile(self, epsilon) -> np.ndarray:
        """Return bounds of delta(epsilon) `[*epsilon.shape, agents]`; epsilon = 0 gives `delta`.

        With A and B the integrals of the smaller and the larger of p and e^epsilon q, A + B = 1 +
        e^epsilon and A B >= e^epsilon BC^2 (Cauchy and Schwarz); delta(epsilon) = 1 - A.
        """
        gamma = np.exp(np.asarray(epsilon, dtype=np.float64))[..., None]
        lost = -np.expm1(-2.0 * self.exponent)
        root = np.sqrt((gamma - 1.0) ** 2 + 4.0 * gamma * lost)
        return np.minimum(1.0, 2.0 * gamma * lost / np.maximum(root + gamma - 1.0, 1e-300) * UP)


def certify(terms: Terms, iterations: float, *, horizon: int = HORIZON) -> Certificate:
    """Return the certified worst case of delta^i, over all data, all neighbours and all attackers.

    For all time (`iterations` = math.inf) `horizon` iterations are followed one by one. delta is 1
    when no tail can be proven: 2 (1 + nu - varsigma) <= 1, or weights too small for the horizon.
    """
    return certificate(shifts(terms, iterations, horizon=horizon), np.asarray(terms.schedules.d_0))


def certificate(found: Shifts, d_0: np.ndarray) -> Certificate:
    """Return the certificate when agent i starts with the step d_0[i]."""
    now, later = exponents(found, d_0)
    with np.errstate(invalid="ignore"):
        tail = np.where(later > 0, np.where(np.isfinite(later), later / (now + later), 1.0), 0.0)
    horizon = len(found.followed)
    delta, unit = hellinger(now + later), found.terms.unit
    program = _program(found, d_0) if horizon else None
    return Certificate(found.iterations, horizon, unit, delta, now + later, tail, program)


def exponents(found: Shifts, d_0: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return bounds of -log of the affinity of the messages followed, and of all later ones."""
    with np.errstate(over="ignore", invalid="ignore"):
        now = cost(found.followed / d_0 * UP, found.terms).sum(axis=0) * (1.0 + 1e-9)
        pieces = cost(found.later / d_0 * UP, found.terms) * found.number[:, None]
    return now, pieces.sum(axis=0) * (1.0 + 1e-9) + _rest(found, d_0)


def cost(E: np.ndarray, terms: Terms) -> np.ndarray:
    """Return a bound of -log of the affinity of an iteration's messages whose shift has l2 norm E.

    -log cos(sqrt(I) E / 2) for p >= 2. For p = 1, with a dither, a coordinate that is moved by eps
    loses at most eps^2 / 8 (3 + log(16 / eps^2)), which is concave in eps^2: the worst is to move
    all 2 dim coordinates alike, and the affinity is at least 1 - E^2 / 8 (3 + log(32 dim / E^2)).
    """
    if terms.degree == 1:
        square = np.minimum(E, 2.0) ** 2
        lost = square / 8.0 * (3.0 + np.log(32.0 * (terms.dim or 1) / np.maximum(square, 1e-300))) * UP
        return _minus_log(np.where(square < 4.0, 1.0 - lost, 0.0))
    information = quantizer.information(terms.degree, terms.dithered)
    square = information / 4.0 * np.minimum(E, 4.0) ** 2 * UP
    exponent = 0.5 * square * (1.0 + 0.17 * square)  # enough for angles up to a tenth
    large = square > 0.01
    angle = np.minimum(np.sqrt(square[large]), 0.5 * math.pi)
    exponent[large] = _minus_log(np.cos(angle))
    return exponent


def _minus_log(affinity: np.ndarray) -> np.ndarray:
    """Return -log, rounded upwards; infinite for what is not above rounding."""
    return np.where(affinity > 1e-9, -np.log(np.maximum(affinity, 1e-9)) * (1.0 + 1e-9), np.inf)


def hellinger(exponent: np.ndarray) -> np.ndarray:
    """Return sqrt(1 - BC^2) for -log BC = `exponent`, rounded upwards: a bound of delta."""
    return np.minimum(1.0, np.sqrt(-np.expm1(-2.0 * exponent)) * UP)


def shifts(terms: Terms, iterations: float, *, horizon: int = HORIZON) -> Shifts:
    """Return the largest shifts of all messages t = 0 ... iterations - 1, for d_0 = 1."""
    for_ever = iterations == math.inf
    T = whole("horizon", horizon, 1) if for_ever else whole("iterations", iterations, 0)
    theta, psi, later = drift(terms, T)
    varsigma = np.asarray(terms.schedules.varsigma)
    followed = np.hypot(theta, psi)[:T] * (np.arange(T) + 1.0)[:, None] ** varsigma * UP
    if not for_ever:
        nothing = np.zeros((0, terms.network.agents))
        return Shifts(terms, T, followed, nothing, np.zeros(0), np.full(len(varsigma), np.inf))
    starts = np.floor((T + 1.0) * 2.0 ** (np.arange(OCTAVES * PIECES + 1) / PIECES))
    growth = varsigma - terms.schedules.nu
    ends = np.maximum(starts[:-1, None] ** growth, starts[1:, None] ** growth)
    fraction = ends / (terms.warm_up + starts[:-1])[:, None] * UP
    envelope = [_envelope(terms, i, T, theta[T, i], psi[T, i], later[i]) for i in range(len(growth))]
    fall = np.where(np.isfinite(envelope), 1.0 - growth, 0.0)
    with np.errstate(invalid="ignore"):
        pieces = np.where(fall > 0.5, envelope * fraction * UP, 0.0)
    return Shifts(terms, iterations, followed, pieces, np.diff(starts), fall)


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
    push = _pushes(terms, np.arange(T))
    psi = _discounted(keep_psi, push)
    direct = _discounted(keep_theta, push * inverse)
    through = _discounted(keep_theta, c * psi[:, :T] * inverse)
    minus = _negative(keep_theta, keep_psi, c, push, inverse)
    plus = np.maximum(0.0, through - direct + minus)
    theta = np.maximum(plus, minus) if terms.cone else plus + minus
    return (theta + _charge(terms, T) * (direct + through)).T, psi.T, later


def _decays(network: Network) -> np.ndarray:
    """Return upper bounds of 1 - r, 1 - c and c, `[agents, 1]` each."""
    return np.array([decays(network, i) for i in range(network.agents)]).T[:, :, None]


def _pushes(terms: Terms, t: np.ndarray) -> np.ndarray:
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


def _charge(terms: Terms, T: int) -> float:
    """Return the share that covers rounding in `drift`: T steps, and decays known to 2**-43."""
    network = terms.network
    slowest = min(np.abs(np.diag(network.R)).min(), np.abs(np.diag(network.C)).min())
    return 2.0**-30 + T * (network.agents + 64) * 2.0**-49 + 2.0**-36 / float(slowest)


def _envelope(terms: Terms, i: int, T: int, theta: float, psi: float, inverse: float) -> float:
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


def _rest(found: Shifts, d_0: np.ndarray) -> np.ndarray:
    """Return the exponent of what comes after the last piece, a bound of a sum over octaves j >= 0.

    Octave j has 2^j X iterations, X the end of the last piece, whose E_t^2 is at most E^2 2^(-2
    fall j), E = `later[-1]` / d_0. Each costs at most E_t^2 (cost(E) / E^2 + B j), B = fall log(2)
    / 4 for p = 1 and 0 for all others.
    """
    if not len(found.later):
        return np.zeros(len(d_0))
    end, first = len(found.followed) + 1.0 + found.number.sum(), found.later[-1] / d_0 * UP
    ratio = 2.0 ** np.minimum(1.0 - 2.0 * found.fall, 0.0)
    B = found.fall * math.log(2.0) / 4.0 if found.terms.degree == 1 else 0.0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        octaves = cost(first, found.terms) + B * first**2 * ratio / (1.0 - ratio)
        total = np.where(first > 0, end * octaves / (1.0 - ratio) * (1.0 + 1e-9), 0.0)
    return np.where(found.fall > 0.5, total, np.inf)


def _program(found: Shifts, d_0: np.ndarray) -> np.ndarray | None:
    """Return the bound for the float64 program over the iterations followed; None without a box.

    Rounding moves the two states apart by at most `rounding`, in l2 norm, which joins every E_t;
    and each of 2 dim coordinates an iteration has a law within `quantizer.precision` of the exact
    one, in both worlds.
    """
    terms, T = found.terms, len(found.followed)
    if terms.box is None or terms.dim is None:
        return None
    growth = (np.arange(T) + 1.0)[:, None] ** np.asarray(terms.schedules.varsigma) * UP
    relative = 1.0 + (terms.dim + 8 + 8 * terms.network.agents * T) * 2.0**-50
    moved = found.followed * relative + rounding(terms, T) * growth
    with np.errstate(over="ignore"):
        exponent = cost(moved / d_0 * UP, terms).sum(axis=0) * (1.0 + 1e-9)
    coins = 4 * terms.dim * T * quantizer.precision(terms.degree)
    return np.minimum(1.0, hellinger(exponent) + coins)


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


def calibrate(found: Shifts, target: np.ndarray) -> np.ndarray:
    """Return the smallest d_0^i, to a part in 10^6, whose certified delta is at most the target.

    The exponent falls nearly as d_0**-2, so scaling by it meets the target in a few rounds.
    """
    wanted = -0.5 * np.log1p(-(np.asarray(target) ** 2)) * (1.0 - 1e-6)
    squares = (found.followed**2).sum(axis=0) + found.number @ found.later**2
    information = quantizer.information(max(2, found.terms.degree), found.terms.dithered)
    d_0 = np.sqrt(np.maximum(information / 8.0 * squares / wanted, 1e-300))
    if not (found.fall > 0.5).all():
        raise ValueError("no d_0 meets the target for all time: 2 (1 + nu - varsigma) must exceed 1")
    for _ in range(60):
        exponent = sum(exponents(found, d_0))
        good = (exponent <= wanted * (1.0 + 0.5e-6)) & (exponent >= wanted * (1.0 - 1e-6))
        if (good | (squares == 0)).all():
            break
        scale = np.sqrt(np.clip(exponent, 1e-12 * wanted, 4.0 * wanted) / wanted)
        d_0 = np.where(good | (squares == 0), d_0, d_0 * scale)
    return d_0


def attained(terms: Terms, i: int, iterations: int) -> tuple[np.ndarray, np.ndarray]:
    """Return dtheta_t and dpsi_t `[time]` of agent i when both samples stay clipped.

    Two logistic samples with rows (1, w) and (-1, w), w small, and equal labels do this: neighbours
    steer the second coordinate to where both are badly wrong, so that both gradients are clipped
    and, but for a share w^2 / 2, opposite.
    """
    network, T = terms.network, whole("iterations", iterations, 0)
    r, c = -float(network.R[i, i]), -float(network.C[i, i])
    push, scale = _pushes(terms, np.arange(T))[i], network.agents * network.z(T)[:, i]
    theta, psi = np.zeros((2, T + 1))
    for t in range(T):
        psi[t + 1] = (1.0 - c) * psi[t] + push[t]
        theta[t + 1] = (1.0 - r) * theta[t] - (psi[t + 1] - psi[t]) / scale[t]
    return theta[:T], psi[:T]


def steered(terms: Terms, i: int, iterations: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (y, other, step) `[2 T]`: agent i's states in the two worlds of `attained`.

    First theta's, then psi's, in the one coordinate that differs. The neighbours, who know all but
    the sample, also send what puts each state where a level shows most of it (`quantizer.dearest`).
    So all messages are independent: `audit.informed` proves what these give away.
    """
    step = np.tile(terms.schedules.step(np.arange(iterations))[:, i], 2)
    apart = np.concatenate(attained(terms, i, iterations))
    middle = quantizer.dearest(terms.degree) * step
    return middle - apart / 2.0, middle + apart / 2.0, step
