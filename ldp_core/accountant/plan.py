"""From a target delta to settings of the dithered algorithm: the steps d_0^i, the warm-up, or all schedules at once.

What is returned has been put into `dithered` and keeps the promise there: planning may guess, the last step is certified.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from ldp_core.accountant.certificate import HORIZON, targets, with_d_0
from ldp_core.accountant.dithered import Messages, certificate_of, certify_dithered, count_messages
from ldp_core.accountant.drift import DriftSetting, drift
from ldp_core.accountant.sensitivity import inverse_mz
from ldp_core.checks import candidates, instance, whole
from ldp_core.network import Network
from ldp_core.optimizer import Schedules

PRECISION = 1e-5  # relative width at which a search for d_0 stops
LARGEST_WARM_UP = 10**9
LAM_0 = (0.25, 0.5, 1.0, 2.0, 4.0)  # what `plan` tries by default
NU = (0.56, 0.61, 0.66, 0.71, 0.76, 0.81, 0.86, 0.91, 0.96)
VARSIGMA = (0.51, 0.56, 0.61, 0.66, 0.71, 0.76)
SEARCHED = 2000  # iterations that `plan` follows one by one while it compares candidates
CURVATURE = 0.25  # of the Lipschitz constant: how strongly a typical direction is pulled (sigma' is below its largest value)


def calibrate_dithered(
    target,
    network: Network,
    schedules: Schedules,
    constants,
    iterations: float,
    *,
    dim: int,
    warm_up: int = 0,
    samples: int = 1,
    horizon: int = HORIZON,
    one_signed: bool = True,
) -> np.ndarray:
    """Return d_0^i for every agent such that `certify_dithered` after `iterations` (math.inf: all time) is at most `target`.

    `target` is one delta in (0, 1) or one per agent; the d_0 of `schedules` is not used. States do not depend on d_0, and
    shifts are divided by it, so delta falls with d_0. The result is safe, and smaller by a part in 10^5 it was found unsafe.
    Raises ValueError when no tail can be proven, so that delta is 1 for every d_0.
    """
    setting = DriftSetting.of(
        network, schedules, constants, warm_up=warm_up, samples=samples, one_signed=one_signed
    )
    return _calibrated(
        count_messages(setting, iterations, dim, horizon=horizon), targets(target, network.agents)
    )


def _calibrated(messages: Messages, target: np.ndarray) -> np.ndarray:
    if None in messages.later:
        agent = messages.later.index(None)
        raise ValueError(
            f"agent {agent}: no d_0 makes delta at most target = {target[agent]} for all time (no tail is proven)"
        )
    both = zip(messages.followed, messages.later, strict=True)
    largest = np.array(
        [max(float(c.shift.max(initial=0.0)) for c in pair if c is not None) for pair in both]
    )
    silent = largest == 0

    def is_safe(d_0: np.ndarray) -> np.ndarray:
        return (certificate_of(messages, d_0).delta <= target) | silent

    safe = np.where(
        silent, np.finfo(np.float64).tiny, np.maximum(largest, np.finfo(np.float64).tiny)
    )
    while not (good := is_safe(safe)).all():  # delta tends to zero as d_0 grows
        safe = np.where(good, safe, 2.0 * safe)
    unsafe = safe / 2.0
    while (good := is_safe(unsafe) & ~silent).any():
        safe, unsafe = np.where(good, unsafe, safe), np.where(good, unsafe / 2.0, unsafe)
    while ((unsafe < safe * (1.0 - PRECISION)) & ~silent).any():
        middle = np.where(silent, safe, np.sqrt(unsafe) * np.sqrt(safe))
        good = is_safe(middle)
        unsafe, safe = np.where(good, unsafe, middle), np.where(good, middle, safe)
    return safe


def smallest_warm_up(
    target, network: Network, schedules: Schedules, constants, iterations: float, **options
) -> int:
    """Return the smallest warm-up for which `certify_dithered` is at most `target` for every agent; `options` go there.

    Bounds fall when the warm-up grows: N_t is larger at every t. Raises ValueError when 10^9 data points are not enough.
    """
    target = targets(target, network.agents)

    def is_safe(warm_up: int) -> bool:
        return bool(
            (
                certify_dithered(
                    network, schedules, constants, iterations, warm_up=warm_up, **options
                ).delta
                <= target
            ).all()
        )

    unsafe, safe = -1, 0
    while not is_safe(safe):
        if safe >= LARGEST_WARM_UP:
            raise ValueError(
                f"target = {target.min()} is not reached with a warm_up of {LARGEST_WARM_UP} data points"
            )
        unsafe, safe = safe, min(LARGEST_WARM_UP, max(16, 4 * safe))
    while safe - unsafe > 1:
        middle = (unsafe + safe) // 2
        unsafe, safe = (unsafe, middle) if is_safe(middle) else (middle, safe)
    return safe


@dataclasses.dataclass(frozen=True, eq=False)
class Plan:
    """Schedules that keep delta^i <= target: `delta` `[agents]` is certified, `signal_to_noise` is a prediction."""

    schedules: Schedules
    delta: np.ndarray
    signal_to_noise: float
    warm_up: int
    considered: int  # candidates compared


def plan(
    network: Network,
    iterations: float,
    target,
    constants,
    *,
    dim: int,
    warm_up: int = 0,
    samples: int = 1,
    training: int | None = None,
    lam_0: Sequence[float] = LAM_0,
    nu: Sequence[float] = NU,
    varsigma: Sequence[float] = VARSIGMA,
    horizon: int = HORIZON,
    one_signed: bool = True,
) -> Plan:
    """Return the schedules among the candidates with the best predicted `signal_to_noise` at delta <= target.

    `training` is the number of iterations the prediction is made for (default: `iterations`, or 1000 for all time). Every
    candidate gets the d_0^i that meet the target. Candidates are compared with an estimate of those (`_predicted_d_0`); the
    d_0 of the winner is calibrated and certified.
    """
    instance("network", network, Network)
    lam_0, nu, varsigma = (
        candidates("lam_0", lam_0),
        candidates("nu", nu),
        candidates("varsigma", varsigma),
    )
    wanted, for_ever = targets(target, network.agents), iterations == math.inf
    if not for_ever and whole("iterations", iterations, 0) < 2:
        raise ValueError(
            f"iterations = {iterations} must be at least 2: the messages of t = 0 depend on no data"
        )
    training = whole(
        "training", (1000 if for_ever else iterations) if training is None else training, 1
    )
    mixing = inverse_mz(network, int(min(SEARCHED, iterations)))

    def setting_of(step_size: float, decay: float, exponent: float) -> DriftSetting:
        schedules = Schedules(
            step_size, decay, (1.0,) * network.agents, (exponent,) * network.agents
        )
        return DriftSetting.of(
            network, schedules, constants, warm_up=warm_up, samples=samples, one_signed=one_signed
        )

    table = []  # (signal-to-noise, lam_0, nu, varsigma)
    for step_size, decay in itertools.product(lam_0, nu):
        below = np.array([exponent for exponent in varsigma if exponent < decay])
        if len(below):
            setting = setting_of(step_size, decay, float(below[0]))
            ratios = signal_to_noise(
                setting,
                _predicted_d_0(setting, iterations, wanted, below, dim, mixing),
                below,
                training,
            )
            table += [
                (ratio, step_size, decay, exponent)
                for ratio, exponent in zip(ratios, below.tolist(), strict=True)
            ]
    if not table:
        raise ValueError(
            f"nu = {tuple(nu)}, varsigma = {tuple(varsigma)} have no candidate with varsigma < nu (Algorithm 1)"
        )
    setting = setting_of(*max(table)[1:])
    messages = count_messages(setting, iterations, dim, horizon=horizon)
    d_0 = _calibrated(messages, wanted)
    ratio = signal_to_noise(setting, d_0[None], np.array(setting.schedules.varsigma[:1]), training)[
        0
    ]
    return Plan(
        with_d_0(setting.schedules, d_0),
        certificate_of(messages, d_0).delta,
        float(ratio),
        warm_up,
        len(table),
    )


def signal_to_noise(
    setting: DriftSetting, d_0: np.ndarray, varsigma: np.ndarray, iterations: int
) -> np.ndarray:
    """Return how far the mean model has learnt after `iterations`, in standard deviations of its noise, `[candidates]`.

    d_0 is `[candidates, agents]`, varsigma `[candidates]`. The model: a coordinate x of the mean model is pulled by the
    gradient h x - 1, with a curvature h of a quarter of the Lipschitz constant, plus the penalty; messages add noise of
    variance d_t^2 / 6 (`triangular`) times `noise_gain`. With k_t = prod_{s >= t} (1 - h lam_s), the share of what was there
    at t that is left,

        signal = (1 - k_0) / h,     noise^2 = sum_t k_{t+1}^2 sum_j noise_gain_j (d_t^j)^2 / 6,

    which for small h is sum_t lam_t against the accumulated noise. It is meant for comparing schedules, not a statement
    about accuracy.
    """
    t, weight = _sample(iterations, iterations)
    t = t + (weight - 1.0) / 2.0
    h = max(1e-9, *(CURVATURE * entry.lipschitz + entry.l2 for entry in setting.constants))
    logs = np.log1p(-np.minimum(0.9, h * setting.schedules.lam(t))) * weight
    later = np.append(np.cumsum(logs[:0:-1])[::-1], 0.0)
    kept = (t + 1.0) ** (-2.0 * varsigma[:, None]) @ (np.exp(2.0 * later) * weight)
    noise = np.sqrt(np.maximum(d_0**2 @ noise_gain(setting.network) * kept / 6.0, 1e-300))
    return -math.expm1(logs.sum()) / h / noise


def noise_gain(network: Network) -> np.ndarray:
    """Return (u_j^2 R_jj^2 + C_jj^2) / m^2 per agent j: how much of its messages' noise variance the mean model keeps.

    Multiply the update of theta by u^T / m, with m [z_t^i]_i at its limit u_i, and use u^T R = 0, 1^T C = 0. The mean model
    follows

        u^T theta_{t+1} / m = u^T theta_t / m + (sum_j u_j |R_jj| xi_j - sum_j |C_jj| zeta_j - lam_t sum_i g_t^i) / m,

    where xi_j and zeta_j are the errors of the messages theta_t^j and psi_t^j: a random walk beside the gradients.
    """
    return ((network.u * np.diag(network.R)) ** 2 + np.diag(network.C) ** 2) / network.agents**2


def _predicted_d_0(
    setting: DriftSetting,
    iterations: float,
    target: np.ndarray,
    varsigma: np.ndarray,
    dim: int,
    mixing=None,
) -> np.ndarray:
    """Return an estimate of the d_0^i that meet the target, `[candidates, agents]`: 10 to 30 % too large, for all alike.

    Many small shifts are nearly Gaussian: delta = 2 Phi(mu/2) - 1 with mu^2 / 8 = -log BC, and -log BC = sum of eps^2 / 4
    (log(4/eps) + 3/2) over all shifts (`triangular.affinity_complement`); of a message with budgets (l1, linf) there are l1
    / linf (at most `dim`) of size linf. The messages are followed for `SEARCHED` iterations, and then fall like (t+1)**-nu /
    (warm_up + t + 1); later times are sampled geometrically.
    """
    followed = int(min(SEARCHED, iterations))
    found = drift(setting, followed, mixing=mixing)
    times, weight = _sample(iterations, followed)
    w = (times + 1.0) ** -setting.schedules.nu / (setting.warm_up + times + 1.0)
    here = np.minimum(times, followed).astype(np.int64)
    beyond = (
        w / w[np.searchsorted(times, followed)] if times[-1] > followed else np.ones(len(times))
    )[:, None]
    fall = np.where(times[:, None] > followed, beyond, 1.0)
    growth = (times + 1.0) ** varsigma[:, None]  # [candidates, times]
    square, logs = np.zeros((2, len(varsigma), len(target)))
    for l1, linf in ((found.theta_l1, found.theta_linf), (found.psi_l1, found.psi_linf)):
        l1, linf = l1[here] * fall, np.maximum(linf[here] * fall, 1e-300)
        number = np.minimum(l1 / linf, dim) * weight[:, None]
        cost = (number * linf**2)[None] * growth[:, :, None] ** 2
        square += cost.sum(axis=1)
        logs += (cost * (np.log(linf)[None] + np.log(growth)[:, :, None])).sum(axis=1)
    normal = NormalDist()
    exponent = np.array(
        [(2.0 * normal.inv_cdf((1.0 + delta) / 2.0)) ** 2 / 8.0 for delta in target]
    )
    mean = logs / np.maximum(square, 1e-300)  # log of a typical shift for d_0 = 1
    d_0 = np.sqrt(np.maximum(square, 1e-300) / exponent)
    for _ in range(20):
        d_0 = np.sqrt(
            np.maximum(square, 1e-300)
            / (4.0 * exponent)
            * np.maximum(1.0, math.log(4.0) + 1.5 + np.log(d_0) - mean)
        )
    return d_0


def _sample(iterations: float, followed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return times, and how many iterations each stands for: all early ones, then ever fewer."""
    last = 1e9 if iterations == math.inf else float(iterations)
    edges = np.concatenate(
        [np.arange(32.0), np.floor(np.geomspace(1.0, last, 200)), [followed, last]]
    )
    edges = np.unique(edges[edges <= last])
    return edges[:-1], np.diff(edges)
