"""How far apart one agent's states can be on two adjacent data sets, in the l1 and the l-infinity norm together.

`sensitivity` bounds the l1 norm alone. A dithered message costs about the square of each coordinate's shift, so it matters
over how many coordinates a difference is spread; and a factor two is worth a proof. As there, fix agent i and all it
receives; r = |R_ii|, c = |C_ii|, N_t = samples (warm_up + t + 1). The differences of its two states follow, with no
inequality yet,

    dpsi_{t+1}   = (1 - c) dpsi_t + lam_t dg_t
    dtheta_{t+1} = (1 - r) dtheta_t - (lam_t dg_t - c dpsi_t) / (m [z_t^i]_i).

*Gradients.* A sample's gradient is sigma w: a row w with ||w||_1 <= l1, ||w||_inf <= linf, and a number sigma that depends
on theta and moves by at most slope |w . dtheta| <= slope min(linf ||dtheta||_1, l1 ||dtheta||_inf) (Hoelder); for the
logistic loss w = -b a, slope = 1/4, and sigma lies in [0, 1] (`one_signed`: it never changes sign); otherwise |sigma| <= 1.
An L2 penalty adds l2 theta. So

    dg_t = (sigma_t w - sigma'_t w') / N_t + o_t,      w, w' the replaced sample and its replacement,
    ||o_t|| <= a_t = (1 - 1/N_t) min(cap, moved_t) + l2 ||dtheta_t||,

moved_t = slope l1 min(linf e_t, l1 e_t^inf) in l1 and slope linf min(linf e_t, l1 e_t^inf) in l-infinity, and cap = l1 (or
linf) if one-signed, because |sigma_t - sigma'_t| <= 1, else twice that. (e_t, e_t^inf) are the bounds of ||dtheta_t||, (p_t,
p_t^inf) those of ||dpsi_t||.

*Two bounds of dtheta.* Taking norms term by term, for either norm with l = l1 or linf,

    p_{t+1} = (1 - c) p_t + lam_t (2 l / N_t + a_t)
    e_{t+1} <= (1 - r) e_t + (c p_t + lam_t (2 l / N_t + a_t)) / (m [z_t^i]_i)           (one step).

But the two contributions to dtheta have opposite signs, and a constant push moves psi and leaves theta alone. Solve the
equations: dtheta_t = sum_{s<t} kappa_{t,s} lam_s dg_s with numbers kappa_{t,s} that are the response of theta to one unit
pushed at s, negative first and positive later. For the others' part the norm is at most sum_s |kappa_{t,s}| lam_s a_s. For
the replaced sample, sum_s kappa_{t,s} lam_s sigma_s / N_s lies between minus the sum of the negative and the sum of the
positive kappa_{t,s} lam_s / N_s if 0 <= sigma_s <= 1, whatever sigma does; hence

    e_t <= 2 l max(K+_t, K-_t) + sum_s |kappa_{t,s}| lam_s a_s                           (signed)

where K+_t and K-_t are the sums of kappa+_{t,s} lam_s / N_s and kappa-_{t,s} lam_s / N_s, kappa = kappa+ - kappa-,

with K+ + K- in place of the maximum if sigma may change its sign. e_t is the smaller of the two bounds. Both hold in any
norm.

A response changes its sign once: kappa_{s+1,s} < 0, and every later step adds a positive number to (1 - r) kappa. So its
negative part is short, it is summed directly, and kappa+ = kappa + kappa-, where the sums of kappa itself follow the two
equations above, with their signs.

*The worst time of arrival is k = 0*, as in `sensitivity`: for a sample that arrives at k all sums start at s = k, they have
fewer terms, none of which is negative, and all right sides grow with e and p.

*Rounding.* (one step) and p are rounded up in every step, as in `sensitivity`. In (signed) numbers of both signs are added,
so its error is bounded instead, as a share of the same sums with all signs made positive, which is (one step) iterated.
Every term has one factor 1 / (m [z_t^i]_i), computed by at most T products of I + R rounded down (`inverse_mz`), whose
diagonal 1 + R_jj is known to 2**-43, or settled to a part in 10^12; and factors 1 - r and 1 - c, known to 2**-43, over a
past that is forgotten by 1 - min(r, c) a step. `_charge` is more than all of that, and that share is added.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from ldp_core.accountant.drift_kernel import follow
from ldp_core.accountant.sensitivity import DOWN, UP, Setting, decays, inverse_mz
from ldp_core.accountant.sensitivity import _envelope as envelope
from ldp_core.checks import whole
from ldp_core.network import Network
from ldp_core.optimizer import Schedules

MOST_TERMS = 100_000  # of the responses that are summed one by one; a bound covers the others


class Constants(Protocol):
    """Public bounds of one sample's gradient: ||w||_1, ||w||_inf, slope, and the penalty l2 (`problems.constants`)."""

    l1: float
    linf: float
    slope: float
    l2: float

    @property
    def lipschitz(self) -> float: ...


@dataclasses.dataclass(frozen=True, eq=False)
class Drift:
    """Bounds `[time, agents]` of the differences at t = 0 ... T, in both norms; the state at t is what is sent at t."""

    theta_l1: np.ndarray
    theta_linf: np.ndarray
    psi_l1: np.ndarray
    psi_linf: np.ndarray
    later: np.ndarray  # [agents]: 1 / (m [z_t^i]_i) is at most this for t >= T
    settled: bool  # whether it is this to a part in 10^9, so that (signed) may be used for t >= T


class Envelope(NamedTuple):
    """Bounds of ||dtheta_t|| and ||dpsi_t|| in one norm, divided by w_t = (t+1)**-nu / (warm_up + t + 1).

    `theta[j]` holds from the j-th of the times asked for on, `psi` for all t >= T.
    """

    theta: np.ndarray
    psi: float


@dataclasses.dataclass(frozen=True, eq=False)
class DriftSetting:
    """The public constants of a drift, checked once; `constants` holds one entry per agent."""

    network: Network
    schedules: Schedules
    constants: tuple[Constants, ...]
    warm_up: int
    samples: int
    k: int
    one_signed: bool

    @classmethod
    def of(
        cls, network, schedules, constants, *, warm_up=0, samples=1, k=0, one_signed=True
    ) -> DriftSetting:
        each = (
            tuple(constants) if isinstance(constants, Sequence) else (constants,) * network.agents
        )
        if len(each) != network.agents:
            raise ValueError(
                f"constants has {len(each)} entries: it must be one, or one for each of {network.agents} agents"
            )
        if wrong := [
            entry
            for entry in each
            if not all(hasattr(entry, name) for name in ("l1", "linf", "slope", "l2", "lipschitz"))
        ]:
            raise ValueError(
                f"constants = {wrong[0]!r} must be GradientConstants, with l1, linf, slope and l2"
            )
        checked = Setting.of(
            network, schedules, [entry.l1 for entry in each], warm_up=warm_up, samples=samples, k=k
        )
        return cls(
            network, schedules, each, checked.warm_up, checked.samples, checked.k, bool(one_signed)
        )


def drift(setting: DriftSetting, iterations: int, *, signed: bool = True, mixing=None) -> Drift:
    """Return the bounds for t = 0 ... iterations; with `signed=False` those of (one step) alone.

    `mixing` is `inverse_mz(network, iterations)`, for a caller that needs many drifts on one network.
    """
    iterations = whole("iterations", iterations, 0)
    network, schedules, agents = setting.network, setting.schedules, setting.network.agents
    inverse, later = inverse_mz(network, iterations) if mixing is None else mixing
    first = min(setting.k, iterations)
    t = np.arange(first, iterations)
    lam, seen = schedules.lam(t) * UP, setting.samples * (setting.warm_up + t + 1.0)
    share, rest = 1.0 / seen * UP, (seen - 1.0) / seen * UP
    bounds = np.zeros((4, iterations + 1, agents))
    for i, constants in enumerate(setting.constants):
        keep_theta, keep_psi, c = decays(network, i)
        norms = np.array([constants.l1, constants.linf])
        moved = np.multiply.outer(constants.slope * norms * UP, norms[::-1]).ravel() * UP
        signs = (signed, setting.one_signed and signed, _charge(network, i, iterations))
        bounds[:, first:, i] = follow()(
            keep_theta,
            keep_psi,
            c,
            *signs,
            *norms.tolist(),
            moved,
            float(constants.l2),
            lam,
            share,
            rest,
            inverse[first:, i],
        )
    theta_l1, theta_linf, psi_l1, psi_linf = bounds
    return Drift(
        theta_l1, theta_linf, psi_l1, psi_linf, later, signed and _is_settled(network, iterations)
    )


def envelopes(
    setting: DriftSetting, i: int, found: Drift, times: np.ndarray
) -> tuple[Envelope, Envelope] | None:
    """Return bounds of agent i for all t >= T, in l1 and in l-infinity, from those at T; or None if none can be proven.

    (one step) alone, with l2 beside the Lipschitz constant and without the cap, is the recursion of `sensitivity` for 2 d_l
    = 1 multiplied by 2 l: `sensitivity._envelope` gives e_t <= E w_t and p_t <= P w_t for all t >= T. (signed) improves E.
    From T on dtheta_t consists of what the states at T leave, and of the pushes since. For n = t - T >= n_j, q = max(1 - r,
    1 - c), 1 / (m [z_t^i]_i) <= b, the first is at most

        q^n e_T + n c b q^(n-1) p_T <= R_j w_t,      R_j = (q^n e_T + n c b q^(n-1) p_T) / w_{T+n} at n = n_j,

    if q (1 + 1/n_j) w_{T+n_j} / w_{T+n_j+1} <= 1: then the quotient falls from n_j on. In the second, lam_s / N_s = A w_s, A
    = lam_0 / samples, and w_s <= w_t eta^-(t-s), eta = w_{T+1} / w_T <= w_{s+1} / w_s. Where m [z_t^i]_i has settled,
    kappa_{t,s} = b kappa_(t-1-s) with

        kappa_0 = -1,  kappa_(j+1) = (1 - r) kappa_j + c (1 - c)^j,

    so with S+- = sum_j kappa+-_j eta^-(j+1), it is at most w_t b (2 l A max(S+, S-) + lam_T L E (S+ + S-)), L the Lipschitz
    constant with l2. (S+ + S- for the maximum when sigma may change its sign.) Rounding is charged to E as in
    the module, four times over: z has settled to a part in 10^9 only.
    """
    constants, T, schedules = setting.constants[i], len(found.theta_l1) - 1, setting.schedules
    lipschitz = (constants.lipschitz + constants.l2) * UP
    responses = _responses(setting, i, T) if found.settled else None
    charge = _charge(setting.network, i, T)
    result = []
    for norm, e, p in (
        (constants.l1, found.theta_l1, found.psi_l1),
        (constants.linf, found.theta_linf, found.psi_linf),
    ):
        plain = Setting.of(
            setting.network,
            schedules,
            norm,
            lipschitz,
            warm_up=setting.warm_up,
            samples=setting.samples,
        )
        e_T, p_T, b = float(e[T, i]), float(p[T, i]), float(found.later[i])
        pair = envelope(plain, i, T, e_T / (2.0 * norm) * UP, p_T / (2.0 * norm) * UP, b)
        if pair is None:
            return None
        E, P = (2.0 * norm * x * UP for x in pair)
        theta = np.full(len(times), E)
        if responses is not None:
            plus, minus = responses
            changed = max(plus, minus) if setting.one_signed else plus + minus
            pull = float(schedules.lam(T)) * lipschitz * E * (plus + minus)
            pushes = b * (2.0 * norm * schedules.lam_0 / setting.samples * changed + pull) * UP
            theta = np.minimum(
                theta, pushes + E * (4.0 * charge) + _left(setting, i, found, times, e_T, p_T)
            )
        result.append(Envelope(theta, P))
    return result[0], result[1]


def _responses(setting: DriftSetting, i: int, T: int) -> tuple[float, float] | None:
    """Return (S+, S-) of `envelopes`, with a bound for the terms that are not summed; None when eta is too small."""
    keep_theta, keep_psi, c = decays(setting.network, i)
    q, eta = (
        max(keep_theta, keep_psi),
        float(_weight(setting, T + 1.0) / _weight(setting, T)) * DOWN,
    )
    ratio = q / eta * UP
    if not ratio < 1.0:
        return None
    terms = math.ceil(40.0 / -math.log(ratio)) + 1
    kappa, left, sums, growth = -1.0, 1.0, [0.0, 0.0], 1.0 / eta
    for _ in range(min(terms, MOST_TERMS)):
        sums[int(kappa < 0)] += abs(kappa) * growth
        kappa, left, growth = keep_theta * kappa + c * left, keep_psi * left, growth / eta
    n = min(terms, MOST_TERMS)  # |kappa_j| <= q^j (1 + j c / q)
    rest = ratio**n / eta * ((1.0 + n * c / q) / (1.0 - ratio) + c / q * ratio / (1.0 - ratio) ** 2)
    return sums[0] + rest, sums[1] + rest


def _left(
    setting: DriftSetting, i: int, found: Drift, times: np.ndarray, e_T: float, p_T: float
) -> np.ndarray:
    """Return R_j of `envelopes` for the times t = T + n_j; infinite where its quotient may still grow."""
    keep_theta, keep_psi, c = decays(setting.network, i)
    q, n = max(keep_theta, keep_psi), times - (len(found.theta_l1) - 1.0)
    shrink = (
        q
        * (1.0 + 1.0 / np.maximum(n, 1.0))
        * _weight(setting, times)
        / _weight(setting, times + 1.0)
        * UP
    )
    left = (
        (q**n * e_T + n * c * float(found.later[i]) * q ** (n - 1.0) * p_T)
        / _weight(setting, times)
        * (1.0 + 2.0**-30)
    )
    return np.where((n >= 1) & (shrink <= 1.0), left, np.inf)


def _weight(setting: DriftSetting, t) -> np.ndarray:
    return (t + 1.0) ** -setting.schedules.nu / (setting.warm_up + t + 1.0)


def _charge(network: Network, i: int, T: int) -> float:
    """Return a bound of the relative error of (signed): see the module."""
    slowest = min(abs(float(network.R[i, i])), abs(float(network.C[i, i])))
    smallest = 1.0 + float(np.diag(network.R).min())
    return (
        2.0**-30 + T * ((network.agents + 16) * 2.0**-51 + 2.0**-42 / smallest) + 2.0**-36 / slowest
    )


def _is_settled(network: Network, T: int) -> bool:
    """Return whether every column of (I + R)^T is constant to a part in 10^9.

    The entries of a column of a later power are averages of those of this one (`inverse_mz`), so from T on m [z_t^i]_i stays
    between the smallest and the largest of them.
    """
    power = np.linalg.matrix_power(np.eye(network.agents) + network.R, T)
    return bool((power.max(axis=0) <= power.min(axis=0) * (1.0 + 1e-9)).all())
