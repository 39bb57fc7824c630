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
from itertools import pairwise, product
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
    parts: Sequence[slice] | None = None,
    models: Callable[..., list[Fit]] = fitted,
) -> Estimate:
    """Return estimates of g_t for every t of consecutive messages but the last.

    D-PSGD and the unquantised twin give the gradients themselves, from any two consecutive
    messages. For Algorithm 1 it is the best linear unbiased estimate under the model of the
    module's docstring, from all messages given; `drift` is the standard deviation of g_{s+1} - g_s
    per coordinate (decay = 0), or None: then the model is found in the messages, agent by agent, by
    `models` (`rounds.fitted`, or `choice.kept`). `parts` cut the coordinates, one after the other,
    into those that have a noise and a drift of their own, such as the layers of a network.
    """
    if isinstance(algorithm, DPSGD) or not algorithm.quantised:
        clear = np.stack([_clear(algorithm, *pair) for pair in pairwise(messages)])
        return Estimate(clear, np.zeros(clear.shape[:3]))
    variances = [_of_part(messages, part) for part in parts or ()] or [message_variances(messages)]
    cuts, times = parts or [slice(None)], [message.t for message in messages]
    left = unexplained(algorithm, messages)
    shape = (len(times) - 1, *left.shape[1:])
    gradient, predicted = np.empty(shape), np.zeros(shape[:3])
    # with a given drift all runs are one calculation, else each has a model of its own
    together = range(shape[1]) if drift is None else [slice(None)]
    for agent, chosen in product(range(shape[2]), together):
        floor = SMALLEST * algorithm.schedules.step(times[0])[agent] ** 2
        of_runs = (np.moveaxis(variance[..., agent], 2, 0)[chosen] for variance in variances)
        own = [np.maximum(variance, floor) for variance in of_runs]
        of_agent = left[:, :, agent].swapaxes(0, 1)[chosen]
        residuals = [of_agent[..., part] for part in cuts]
        fits = (
            models(algorithm, times, agent, own, residuals)
            if drift is None
            else [Fit(drift)] * len(cuts)
        )
        for part, fit, variance, residual in zip(cuts, fits, own, residuals, strict=True):
            weights, covariance = coefficients(
                algorithm, times, agent, fit.factor * variance, fit.drift, fit.decay
            )
            gradient[:, chosen, agent, part] = np.moveaxis(weights @ residual, -2, 0)
            of_rounds = np.moveaxis(np.diagonal(covariance, axis1=-2, axis2=-1), -1, 0)
            predicted[:, chosen, agent] += of_rounds * residual.shape[-1] / shape[3]
    return Estimate(gradient, predicted)


def message_variances(messages: Sequence[Messages]) -> np.ndarray:
    """Return the variances `[messages, 2, runs, agents]` that an eavesdropper assumes of theta's
    and psi's messages.

    d^2 / 6 with a dither, and without one d^2 times the smaller of 1/4 and the observed share of
    non-zero levels.
    """
    moved = [np.mean(np.stack([one.theta, one.psi]) != 0, axis=-1) for one in messages]
    shares = np.minimum(BOUND, moved)
    if messages[0].dither is not None:
        shares = np.full_like(shares, DITHERED)
    return shares * _squares(messages)


def _squares(messages: Sequence[Messages]) -> np.ndarray:
    """Return the squares of the steps, `[messages, 1, 1, agents]`."""
    return np.array([message.step for message in messages])[:, None, None] ** 2


def unexplained(algorithm: Algorithm1, messages: Sequence[Messages]) -> np.ndarray:
    """Return theta's messages and then psi's, `[2 messages, runs, agents, dim]`, without what the
    received ones contribute to theta_s and psi_s (nothing at the first).
    """
    left = np.empty((2, len(messages), *messages[0].theta.shape))
    network, times = algorithm.network, [message.t for message in messages]
    mz = network.agents * network.z(times[-1] + 1)
    R, C = np.diag(network.R)[:, None], np.diag(network.C)[:, None]
    off_R, off_C = network.R - np.diag(np.diag(network.R)), network.C - np.diag(np.diag(network.C))
    theta = psi = np.zeros(messages[0].theta.shape)
    for k, (t, message) in enumerate(zip(times, messages, strict=True)):
        sent_theta, sent_psi = message.values()
        np.subtract(sent_theta, theta, out=left[0, k])
        np.subtract(sent_psi, psi, out=left[1, k])
        if t < times[-1]:
            change = C * psi + np.matmul(off_C, sent_psi)
            theta = (1.0 + R) * theta + np.matmul(off_R, sent_theta) - change / mz[t][:, None]
            psi = psi + change
    return left.reshape(-1, *left.shape[2:])


def _of_part(messages: Sequence[Messages], part: slice) -> np.ndarray:
    """Return the variances that an eavesdropper assumes of some coordinates of the messages.

    That none of n coordinates moved shows no more than a share of moves below about 1/n. Only psi_0
    is known better: if none of it moved, it is the zero of the protocol.
    """
    variance = message_variances([cut(message, part) for message in messages])
    floor = np.repeat(_squares(messages) * min(BOUND, 1.0 / (part.stop - part.start)), 2, axis=1)
    if messages[0].t == 0:
        floor[0, 1] = 0.0
    return np.maximum(variance, floor)


def cut(message: Messages, part: slice) -> Messages:
    """Return some coordinates of a message."""
    arrays = {name: getattr(message, name) for name in ("theta", "psi", "dither")}
    own = {name: None if array is None else array[..., part] for name, array in arrays.items()}
    return message._replace(**own)


def _clear(algorithm: DPSGD | Algorithm1, now: Messages, following: Messages) -> np.ndarray:
    """Return g_t: (W theta_t - theta_{t+1}) / lam_t, or (psi_{t+1} - (I + C) psi_t) / lam_t."""
    lam = algorithm.schedules.lam(now.t)
    if isinstance(algorithm, DPSGD):
        return (np.matmul(algorithm.W, now.theta) - following.theta) / lam
    return (following.psi - (now.psi + np.matmul(algorithm.network.C, now.psi))) / lam
