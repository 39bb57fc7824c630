"""The promise: a bound of delta for any model whose per-sample gradients are clipped, for ever.

    >>> from ldp_core import network
    >>> from ldp_core.optimizer import Schedules
    >>> schedules = Schedules(30.0, 0.9, (1.5,) * 5, (0.51,) * 5)
    >>> terms = Terms(network.paper(0.2), schedules, clip=0.1, warm_up=1000, cone=True)
    >>> certify(terms, math.inf).delta.max().round(3)
    np.float64(0.099)

Algorithm 1 with coins of degree p >= 2 (`quantizer`), gradients taken at the *sent* value and
per-sample gradients clipped to the l2 norm C. Theorem (docs/proofs/promise.md): let (dtheta_t,
dpsi_t) be how far an agent's states can be apart when one sample is replaced (`drift`), and

    E_t = sqrt(||dtheta_t||^2 + ||dpsi_t||^2) / d_t,       I = quantizer.information(p).

Whatever the neighbours do with what they have seen, and whatever an eavesdropper reads,

    delta <= sqrt(1 - prod_t cos^2(sqrt(I) E_t / 2)),    a factor is zero beyond pi / 2.

No Lipschitz constant, no convexity, no dimension. Assumed: data enter gradients and nothing else;
coins are fresh and private; who may be malicious does not know a dither before the messages that it
moves. `delta` supposes exact arithmetic; `program` is the bound for the float64 program during the
first `horizon` iterations, with rounding and coins of 53 bits charged.
"""

import math
from dataclasses import dataclass

import numpy as np

from ldp_core import quantizer
from ldp_core.accountant.certificate import smallest_safe, targets
from ldp_core.accountant.drift import UP, Terms, drift, envelope, rounding
from ldp_core.checks import per_agent, positive, whole

HORIZON = 100_000  # iterations that are followed one by one when the question is about all time
PIECES, OCTAVES = 16, 64  # the tail is cut into so many pieces an octave, over so many octaves


@dataclass(frozen=True, eq=False)
class Shifts:
    """E_t d_0 of all messages: `followed` `[time, agents]`, then `later` `[pieces, agents]`.

    Piece k of the tail holds `number[k]` iterations, none above `later[k]`; what comes after the
    last falls as t**-`fall` (infinite where no tail is left, zero where none is proven).
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

    def __str__(self) -> str:
        """Return the promise in one sentence, with its unit and with what it leaves out."""
        ever = self.iterations == math.inf
        time = "for all time" if ever else f"after {self.iterations:.0f} iterations"
        said = f"delta <= {self.delta.max():.4g} {time}, per arrival of {self.unit}"
        floats = "in exact arithmetic"
        if self.program is not None:
            early = f"for float64 in the first {self.horizon} iterations"
            floats = f"{floats} ({self.program.max():.4g} {early})"
        return f"{said}, {floats}, given private coins and a clock that tells nothing"

    @property
    def mu(self) -> np.ndarray:
        """Return mu of the Gaussian curve with the same affinity: an estimate, not a bound."""
        return np.sqrt(8.0 * self.exponent)

    def profile(self, epsilon) -> np.ndarray:
        """Return bounds of delta(epsilon) `[*epsilon.shape, agents]`; epsilon = 0 gives `delta`."""
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


def certificate(found: Shifts, d_0) -> Certificate:
    """Return the certificate when agent i starts with the step d_0[i]."""
    now, later = exponents(found, d_0)
    with np.errstate(invalid="ignore"):
        tail = np.where(later > 0, np.where(np.isfinite(later), later / (now + later), 1.0), 0.0)
    horizon = len(found.followed)
    delta, unit = hellinger(now + later), found.terms.unit
    program = _program(found, d_0) if horizon else None
    return Certificate(found.iterations, horizon, unit, delta, now + later, tail, program)


def exponents(found: Shifts, d_0) -> tuple[np.ndarray, np.ndarray]:
    """Return bounds of -log of the affinity of the messages followed, and of all later ones."""
    d_0 = per_agent("d_0", d_0, len(found.fall), positive, "be positive and finite (Algorithm 1)")
    with np.errstate(over="ignore", invalid="ignore"):
        now = cost(found.followed / d_0 * UP, found.terms).sum(axis=0) * (1.0 + 1e-9)
        pieces = cost(found.later / d_0 * UP, found.terms) * found.number[:, None]
    return now, pieces.sum(axis=0) * (1.0 + 1e-9) + _rest(found, d_0)


def cost(E: np.ndarray, terms: Terms) -> np.ndarray:
    """Return a bound of -log of the affinity of an iteration's messages whose shift has l2 norm E.

    -log cos(sqrt(I) E / 2) for p >= 2; for p = 1, with a dither, the affinity is at least
    1 - E^2 / 8 (3 + log(32 dim / E^2)) (docs/proofs/promise.md, section 1).
    """
    if terms.degree == 1:
        square = np.minimum(E, 2.0) ** 2
        logarithm = np.log(32.0 * (terms.dim or 1) / np.maximum(square, 1e-300))
        lost = square / 8.0 * (3.0 + logarithm) * UP
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
    bound = [envelope(terms, i, T, theta[T, i], psi[T, i], later[i]) for i in range(len(growth))]
    fall = np.where(np.isfinite(bound), 1.0 - growth, 0.0)
    with np.errstate(invalid="ignore"):
        pieces = np.where(fall > 0.5, bound * fraction * UP, 0.0)
    return Shifts(terms, iterations, followed, pieces, np.diff(starts), fall)


def _rest(found: Shifts, d_0: np.ndarray) -> np.ndarray:
    """Return the exponent of what comes after the last piece, a bound of a sum over octaves j >= 0.

    Octave j has 2^j X iterations, X the end of the last piece, whose E_t^2 is at most E^2 2^(-2
    fall j); each costs at most E_t^2 (cost(E) / E^2 + B j), B = 0 but for p = 1.
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

    `rounding` joins every E_t; a coordinate's law is within `quantizer.precision` of the exact one.
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


def calibrate(found: Shifts, target) -> np.ndarray:
    """Return the smallest d_0^i, to a part in 10^6, whose certified delta is at most the target."""
    if not (found.fall > 0.5).all():
        rule = "2 (1 + nu - varsigma) must exceed 1"
        raise ValueError(f"no d_0 meets the target for all time: {rule}")
    target = targets(target, len(found.fall))
    wanted = -0.5 * np.log1p(-(target**2))
    squares = (found.followed**2).sum(axis=0) + found.number @ found.later**2
    information = quantizer.information(max(2, found.terms.degree), found.terms.dithered)
    # the exponent exceeds I / 8 times the sum of squares: the search begins where that meets it
    least = np.sqrt(np.maximum(information / 8.0 * squares / wanted, 1e-300))

    def is_safe(d_0: np.ndarray) -> np.ndarray:
        now, later = exponents(found, d_0)
        return (hellinger(now + later) <= target) | (squares == 0)

    return smallest_safe(is_safe, least, least * (1.0 + 1e-3), 1e-6)
