"""From messages to gradients: what somebody makes of them who hears all and knows the protocol.

The eavesdropper knows the network, the schedules and z, and hears what every agent sends. What
agent i *received* it therefore knows exactly; only agent i's own state is hidden, behind the
quantisation errors of its own messages:

    heard psi_t = psi_t + e_t,    heard theta_t = theta_t + f_t,    E e = E f = 0,

all independent given the states. Agent i's update (eq. (4)), with C = C_ii, R = R_ii,
mz = m [z_t^i]_i and the known sums c_t = sum_j C_ij heard psi_t^j and r_t = sum_j R_ij heard
theta_t^j, gives two measurements of the same gradient:

    A = heard psi_{t+1} - (1 + C) heard psi_t - c_t
      = lam g + e_{t+1} - (1 + C) e_t
    B = mz ((1 + R) heard theta_t + r_t - heard theta_{t+1}) - C heard psi_t - c_t
      = lam g + mz (1 + R) f_t - mz f_{t+1} - C e_t

The four messages have three unknowns (theta_t, psi_t, g), so every linear unbiased estimate is
w A + (1 - w) B, and the best one has w = (var B - cov) / (var A + var B - 2 cov) with
cov = C (1 + C) var e_t. Several rounds are the same calculation with more rows (`rounds`); with two
messages it is the estimate above, whatever is assumed of the gradient's changes.

Variances of the errors. Over the public dither they are d^2 / 6 exactly. Without it they are
a (1 - a) d^2, which depends on the hidden position a in the cell: at most d^2 / 4 (`BOUND`). An
eavesdropper does better by looking: a coordinate |y| < d is sent as level 0 unless its coin says
otherwise, which has probability |y| / d >= a (1 - a), so the mean variance over the coordinates of
a message is at most d^2 times the expected share of non-zero levels. That matters at the start:
psi_0 = 0 lies on the grid and is sent exactly, and psi_1 = lam g is far below d, so that hardly any
coordinate moves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from companion.attacks.rounds import Fit, coefficients, fitted
from ldp_core.optimizer import DPSGD, Algorithm, Algorithm1, Messages

BOUND = 1 / 4  # of the variance a (1 - a) of a message, in squared steps
DITHERED = 1 / 6  # its mean over the public dither
SMALLEST = 1e-12  # of variances, in squared steps: a weight must be finite


class Estimate(NamedTuple):
    """Gradients `[rounds, runs, agents, dim]`, and their predicted variance per coordinate.

    `variance [rounds, runs, agents]` follows from the variances assumed for the messages (zero
    where all is sent in the clear).
    """

    gradient: np.ndarray
    variance: np.ndarray


def gradients(
    algorithm: Algorithm,
    messages: Sequence[Messages],
    *,
    drift: float | None = np.inf,
    message_variance: np.ndarray | None = None,
    parts: Sequence[slice] | None = None,
    models: Callable[..., list[Fit]] = fitted,
) -> Estimate:
    """Return estimates of g_t for every t of consecutive messages but the last.

    D-PSGD and the unquantised twin give the gradients themselves, from any two consecutive
    messages. For Algorithm 1 it is the best linear unbiased estimate under the model of the
    module's docstring, from all messages given; `drift` is the standard deviation of g_{s+1} - g_s
    per coordinate (decay = 0), or None: then the model is found in the messages, agent by agent, by
    `models` (`rounds.fitted`, or `choice.kept`). `message_variance [messages, 2, runs, agents]` are
    the variances (theta's, psi's) of the messages' errors; by default those of `message_variances`.
    `parts` cut the coordinates into those that have a noise and a drift of their own, such as the
    layers of a network; their variances are then those of `message_variances` in each, and none can
    be given.
    """
    times = [message.t for message in messages]
    if len(times) < 2 or np.any(np.diff(times) != 1):
        raise ValueError(
            f"messages are of t = {times}: they must be two or more of consecutive iterations"
        )
    if drift is not None and not drift >= 0:
        raise ValueError(f"drift = {drift} must not be negative")
    if isinstance(algorithm, DPSGD):
        return _exact([_from_clear_theta(algorithm, *pair) for pair in pairwise(messages)])
    if not isinstance(algorithm, Algorithm1):
        raise ValueError(
            f"algorithm is a {type(algorithm).__name__}: it must be Algorithm1 or DPSGD"
        )
    if not algorithm.quantised:
        return _exact([_from_clear_psi(algorithm, *pair) for pair in pairwise(messages)])
    dim = messages[0].theta.shape[-1]
    if parts is None:
        assumed = (
            message_variances(messages)
            if message_variance is None
            else np.asarray(message_variance, dtype=np.float64)
        )
        return _smoothed(algorithm, messages, [slice(0, dim)], [assumed], drift, models)
    if message_variance is not None:
        raise ValueError(
            "message_variance and parts cannot both be given: the variances of parts are observed"
        )
    if [part.start for part in parts] + [dim] != [0] + [part.stop for part in parts]:
        raise ValueError(
            f"parts = {list(parts)} must cover the {dim} coordinates one after the other"
        )
    return _smoothed(
        algorithm, messages, parts, [_of_part(messages, part) for part in parts], drift, models
    )


def message_variances(messages: Sequence[Messages], share: float | None = None) -> np.ndarray:
    """Return the variances `[messages, 2, runs, agents]` that an eavesdropper assumes of theta's
    and psi's messages.

    `share` d^2 when it is given (BOUND: the worst case). Otherwise d^2 / 6 with a dither, and
    without one d^2 times the smaller of 1/4 and the observed share of non-zero levels.
    """
    return np.stack([_variances(message, share) for message in messages])


def _known(algorithm: Algorithm1, messages: Sequence[Messages]) -> tuple[np.ndarray, np.ndarray]:
    """Return what received messages contribute to theta_s and psi_s, `[messages, runs, agents,
    dim]`, zero at the first.
    """
    network, times = algorithm.network, [message.t for message in messages]
    mz = network.agents * network.z(times[-1] + 1)
    R, C = np.diag(network.R)[:, None], np.diag(network.C)[:, None]
    off_R, off_C = network.R - np.diag(np.diag(network.R)), network.C - np.diag(np.diag(network.C))
    theta = psi = np.zeros(messages[0].theta.shape)
    known = [(theta, psi)]
    for message in messages[:-1]:
        sent_theta, sent_psi = message.values()
        change = C * psi + np.matmul(off_C, sent_psi)
        theta = (1.0 + R) * theta + np.matmul(off_R, sent_theta) - change / mz[message.t][:, None]
        psi = psi + change
        known.append((theta, psi))
    of_theta, of_psi = zip(*known, strict=True)
    return np.stack(of_theta), np.stack(of_psi)


def _smoothed(
    algorithm: Algorithm1,
    messages: Sequence[Messages],
    parts: Sequence[slice],
    variances: Sequence[np.ndarray],
    drift: float | None,
    models: Callable[..., list[Fit]],
) -> Estimate:
    heard = [
        np.stack(part) for part in zip(*(message.values() for message in messages), strict=True)
    ]
    unexplained = np.concatenate(
        [part - known for part, known in zip(heard, _known(algorithm, messages), strict=True)]
    )
    times, (_, runs, agents, dim) = [message.t for message in messages], heard[0].shape
    for variance in variances:
        if variance.shape != (len(times), 2, runs, agents):
            wanted = (len(times), 2, runs, agents)
            raise ValueError(f"message_variance has shape {variance.shape}, it must be {wanted}")
    gradient, predicted = (
        np.empty((len(times) - 1, runs, agents, dim)),
        np.zeros((len(times) - 1, runs, agents)),
    )
    for run, agent in np.ndindex(runs, agents):
        floor = SMALLEST * algorithm.schedules.step(times[0])[agent] ** 2
        own = [np.maximum(variance[:, :, run, agent], floor) for variance in variances]
        residuals = [unexplained[:, run, agent, part] for part in parts]
        fits = (
            [Fit(drift)] * len(parts)
            if drift is not None
            else models(algorithm, times, agent, own, residuals)
        )
        for part, fit, variance, residual in zip(parts, fits, own, residuals, strict=True):
            weights, covariance = coefficients(
                algorithm, times, agent, fit.factor * variance, fit.drift, fit.decay
            )
            gradient[:, run, agent, part] = weights @ residual
            predicted[:, run, agent] += np.diagonal(covariance) * residual.shape[1] / dim
    return Estimate(gradient, predicted)


def _of_part(messages: Sequence[Messages], part: slice) -> np.ndarray:
    """Return the variances that an eavesdropper assumes of some coordinates of the messages.

    That none of n coordinates moved shows no more than a share of moves below about 1/n. Only psi_0
    is known better: if none of it moved, it is the zero of the protocol.
    """
    variance = message_variances([cut(message, part) for message in messages])
    least = np.stack([_steps(message) ** 2 for message in messages]) * min(
        BOUND, 1.0 / (part.stop - part.start)
    )
    floor = np.repeat(least[:, None, None], 2, axis=1)
    if messages[0].t == 0:
        floor[0, 1] = 0.0
    return np.maximum(variance, floor)


def cut(message: Messages, part: slice) -> Messages:
    """Return some coordinates of a message."""
    arrays = {name: getattr(message, name) for name in ("theta", "psi", "dither")}
    own = {name: None if array is None else array[..., part] for name, array in arrays.items()}
    return message._replace(**own)


def _variances(message: Messages, share: float | None) -> np.ndarray:
    levels = np.stack([message.theta, message.psi])
    if share is None and message.dither is None:
        shares = np.minimum(BOUND, np.mean(levels != 0, axis=-1))
    else:
        shares = np.full(levels.shape[:3], DITHERED if share is None else share)
    return shares * _steps(message) ** 2


def _steps(message: Messages) -> np.ndarray:
    if message.step is None:
        raise ValueError(
            f"message of t = {message.t} holds values, not levels: its errors have no variance"
        )
    return message.step


def _from_clear_theta(algorithm: DPSGD, now: Messages, following: Messages) -> np.ndarray:
    """Return g_t = (W theta_t - theta_{t+1}) / lam_t."""
    return (np.matmul(algorithm.W, now.theta) - following.theta) / algorithm.schedules.lam(now.t)


def _from_clear_psi(algorithm: Algorithm1, now: Messages, following: Messages) -> np.ndarray:
    """Return g_t = (psi_{t+1} - (I + C) psi_t) / lam_t."""
    mixed = now.psi + np.matmul(algorithm.network.C, now.psi)
    return (following.psi - mixed) / algorithm.schedules.lam(now.t)


def _exact(found: list[np.ndarray]) -> Estimate:
    gradient = np.stack(found)
    return Estimate(gradient, np.zeros(gradient.shape[:3]))
