"""From messages to gradients: what somebody who hears every message and knows the protocol makes of them.

The eavesdropper knows the network, the schedules and z, and hears what every agent sends. What agent i *received* it therefore
knows exactly; only agent i's own state is hidden, behind the quantisation errors of its own messages:

    heard psi_t = psi_t + e_t,    heard theta_t = theta_t + f_t,    E e = E f = 0, all independent given the states.

Agent i's update (eq. (4)), with C = C_ii, R = R_ii, mz = m [z_t^i]_i and the known sums c_t = sum_j C_ij heard psi_t^j and
r_t = sum_j R_ij heard theta_t^j, gives two measurements of the same gradient:

    A = heard psi_{t+1} - (1 + C) heard psi_t - c_t                                       = lam g + e_{t+1} - (1 + C) e_t
    B = mz ((1 + R) heard theta_t + r_t - heard theta_{t+1}) - C heard psi_t - c_t
                                                                  = lam g + mz (1 + R) f_t - mz f_{t+1} - C e_t

The four messages have three unknowns (theta_t, psi_t, g), so every linear unbiased estimate is w A + (1 - w) B, and the best
one has w = (var B - cov) / (var A + var B - 2 cov) with cov = C (1 + C) var e_t.

Several rounds are the same calculation with more rows. Unknowns: theta_t, psi_t and the gradients g_t ... g_{t+k-1}; the two
updates make every later state a linear function of these and of known sums; each message is a measurement. **The model of a
slowly varying gradient**: as a model learns an image, the image's gradient shrinks, at first with the steps taken, and turns,

    g_s = a_s (g_t + u_{t+1} + ... + u_s),     a_s = exp(-decay (lam_t + ... + lam_{s-1})),

with changes u of mean zero and standard deviation `drift`. Weighted least squares (the Kalman smoother of the model, written as
one small system) then gives all gradients; the coefficients are the same for all coordinates. With drift = decay = 0 the
gradient is constant over the rounds, with drift = infinity rounds share nothing but the states; the eavesdropper can also find
both from the messages themselves (`fitted`). With two messages this is the estimate above, whatever they are.

Variances of the errors. Over the public dither they are d^2 / 6 exactly. Without it they are a (1 - a) d^2, which depends on
the hidden position a in the cell: at most d^2 / 4 (`BOUND`). An eavesdropper does better by looking: a coordinate |y| < d is
sent as level 0 unless its coin says otherwise, which has probability |y| / d >= a (1 - a), so the mean variance over the
coordinates of a message is at most d^2 times the expected share of non-zero levels. That matters at the start: psi_0 = 0 lies
on the grid and is sent exactly, and psi_1 = lam g is far below d, so that hardly any coordinate moves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy import linalg, optimize

from ldp_core import quantizer
from ldp_core.optimizer import DPSGD, Algorithm, Algorithm1, Messages, State

BOUND = 1 / 4  # of the variance a (1 - a) of a message, in squared steps
DITHERED = 1 / 6  # its mean over the public dither
SHRINKING = (0.0, 0.03, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 12.0)  # -log of how far a gradient may shrink in all,
LOG_RATIOS = (-15.0, 30.0)  # and of the share of its changes in what was heard: where the eavesdropper looks
SMALLEST = 1e-12  # variances below this are taken as this, in squared steps: a weight must be finite


class Estimate(NamedTuple):
    """Gradients at the rounds asked for, `[rounds, runs, agents, dim]`, and their predicted variance per coordinate.

    `variance [rounds, runs, agents]` follows from the variances assumed for the messages (zero where all is sent in the clear).
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
) -> Estimate:
    """Return estimates of g_t for every t of consecutive messages but the last.

    D-PSGD and the unquantised twin give the gradients themselves, from any two consecutive messages. For Algorithm 1 it is the
    best linear unbiased estimate under the model of the module's docstring, from all messages given; `drift` is the standard
    deviation of g_{s+1} - g_s per coordinate (decay = 0), or None: then the model is `fitted` to the messages, agent by agent.
    `message_variance [messages, 2, runs, agents]` are the variances (theta's, psi's) of the messages' errors; by default those
    of `message_variances`. `parts` cut the coordinates into those that have a noise and a drift of their own, such as the
    layers of a network; their variances are then those of `message_variances` in each, and none can be given.
    """
    times = [message.t for message in messages]
    if len(times) < 2 or np.any(np.diff(times) != 1):
        raise ValueError(f"messages are of t = {times}: they must be two or more of consecutive iterations")
    if drift is not None and not drift >= 0:
        raise ValueError(f"drift = {drift} must not be negative")
    if isinstance(algorithm, DPSGD):
        return _exact([_from_clear_theta(algorithm, *pair) for pair in pairwise(messages)])
    if not isinstance(algorithm, Algorithm1):
        raise ValueError(f"algorithm is a {type(algorithm).__name__}: it must be Algorithm1 or DPSGD")
    if not algorithm.quantised:
        return _exact([_from_clear_psi(algorithm, *pair) for pair in pairwise(messages)])
    dim = messages[0].theta.shape[-1]
    if parts is None:
        assumed = message_variances(messages) if message_variance is None else np.asarray(message_variance, dtype=np.float64)
        return _smoothed(algorithm, messages, [slice(0, dim)], [assumed], drift)
    if message_variance is not None:
        raise ValueError("message_variance and parts cannot both be given: the variances of parts are observed")
    if [part.start for part in parts] + [dim] != [0] + [part.stop for part in parts]:
        raise ValueError(f"parts = {list(parts)} must cover the {dim} coordinates one after the other")
    return _smoothed(algorithm, messages, parts, [_of_part(messages, part) for part in parts], drift)


def message_variances(messages: Sequence[Messages], share: float | None = None) -> np.ndarray:
    """Return the variances `[messages, 2, runs, agents]` that an eavesdropper assumes of theta's and psi's messages.

    `share` d^2 when it is given (BOUND: the worst case). Otherwise d^2 / 6 with a dither, and without one d^2 times the smaller
    of 1/4 and the observed share of non-zero levels.
    """
    return np.stack([_variances(message, share) for message in messages])


def exact_variances(states: Sequence[State], messages: Sequence[Messages]) -> np.ndarray:
    """Return the true variances a (1 - a) d^2 `[messages, 2, runs, agents, dim]`, given the dither: only we know the states."""
    found = []
    for state, message in zip(states, messages, strict=True):
        step = _steps(message)[:, None]
        dither = (None, None) if message.dither is None else (message.dither[:, 0], message.dither[:, 1])
        up = [quantizer.pmf(y, step, u).upper_probability for y, u in zip((state.theta, state.psi), dither, strict=True)]
        found.append([a * (1.0 - a) * step**2 for a in up])
    return np.array(found)


def coefficients(
    algorithm: Algorithm1, times: Sequence[int], agent: int, variance: np.ndarray, drift: float, decay: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Return (weights `[rounds, 2 messages]`, covariance `[rounds, rounds]`) of the best estimates of an agent's gradients.

    A gradient is weights . (message - what the known sums contribute to it), theta's messages first, then psi's. `variance
    [messages, 2]` are those of the messages' errors.
    """
    rounds, spread = len(times) - 1, _spread(variance)
    system = _system(algorithm, times, agent, decay) / spread[:, None]
    summed = _shrunk(algorithm, times, decay)[:, None] * np.tril(np.ones((rounds, rounds)))  # g_s = a_s (g_t + changes up to s)
    if drift == 0:
        system, summed = system[:, :3], summed[:, :1]
    smooth = np.zeros((summed.shape[1] - 1, system.shape[1]))
    if drift > 0 and np.isfinite(drift):
        smooth[:, 3:] = np.eye(len(smooth)) / drift
    system = np.concatenate([system, smooth])
    scale = np.linalg.norm(system, axis=0)
    inverse = summed @ (np.linalg.pinv(system / scale) / scale[:, None])[2:]
    return inverse[:, : len(spread)] / spread, inverse @ inverse.T


def _spread(variance: np.ndarray) -> np.ndarray:
    """Return the standard deviations of theta's messages, then of psi's."""
    return np.sqrt(np.concatenate([variance[:, 0], variance[:, 1]]))


def _shrunk(algorithm: Algorithm1, times: Sequence[int], decay: float) -> np.ndarray:
    """Return a_s of every round."""
    taken = np.cumsum([0.0, *algorithm.schedules.lam(np.asarray(times[:-2]))])
    return np.exp(-decay * taken)


def _system(algorithm: Algorithm1, times: Sequence[int], agent: int, decay: float) -> np.ndarray:
    """Return every message as a linear function of theta_t, psi_t, g_t and the changes of the gradient, a column each."""
    measured = np.concatenate(_design(algorithm, times, agent))
    gradients = measured[:, 2:] * _shrunk(algorithm, times, decay)
    from_then_on = np.cumsum(gradients[:, ::-1], axis=1)[:, ::-1]  # a change moves the gradients of its round and all after it
    return np.column_stack([measured[:, :2], from_then_on])


def _design(algorithm: Algorithm1, times: Sequence[int], agent: int) -> tuple[np.ndarray, np.ndarray]:
    """Return theta_s and psi_s as linear functions of (theta_t, psi_t, g_t, g_{t+1}, ...), one row per time s."""
    network, lam = algorithm.network, algorithm.schedules.lam(np.asarray(times))
    mz = network.agents * network.z(times[-1] + 1)[times, agent]
    R, C = network.R[agent, agent], network.C[agent, agent]
    theta, psi = np.eye(2, 1 + len(times))
    rows = [(theta, psi)]
    for k in range(len(times) - 1):
        change = C * psi + lam[k] * np.eye(1 + len(times))[2 + k]
        theta, psi = (1.0 + R) * theta - change / mz[k], psi + change
        rows.append((theta, psi))
    of_theta, of_psi = zip(*rows, strict=True)
    return np.stack(of_theta), np.stack(of_psi)


def _known(algorithm: Algorithm1, messages: Sequence[Messages]) -> tuple[np.ndarray, np.ndarray]:
    """Return what received messages contribute to theta_s and psi_s, `[messages, runs, agents, dim]`, zero at the first."""
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
) -> Estimate:
    heard = [np.stack(part) for part in zip(*(message.values() for message in messages), strict=True)]
    unexplained = np.concatenate([part - known for part, known in zip(heard, _known(algorithm, messages), strict=True)])
    times, (_, runs, agents, dim) = [message.t for message in messages], heard[0].shape
    for variance in variances:
        if variance.shape != (len(times), 2, runs, agents):
            raise ValueError(f"message_variance has shape {variance.shape}, it must be {(len(times), 2, runs, agents)}")
    gradient, predicted = np.empty((len(times) - 1, runs, agents, dim)), np.zeros((len(times) - 1, runs, agents))
    for run, agent in np.ndindex(runs, agents):
        floor = SMALLEST * algorithm.schedules.step(times[0])[agent] ** 2
        own = [np.maximum(variance[:, :, run, agent], floor) for variance in variances]
        residuals = [unexplained[:, run, agent, part] for part in parts]
        fits = [Fit(drift)] * len(parts) if drift is not None else fitted(algorithm, times, agent, own, residuals)
        for part, fit, variance, residual in zip(parts, fits, own, residuals, strict=True):
            weights, covariance = coefficients(algorithm, times, agent, fit.factor * variance, fit.drift, fit.decay)
            gradient[:, run, agent, part] = weights @ residual
            predicted[:, run, agent] += np.diagonal(covariance) * residual.shape[1] / dim
    return Estimate(gradient, predicted)


def _of_part(messages: Sequence[Messages], part: slice) -> np.ndarray:
    """Return the variances that an eavesdropper assumes of some coordinates of the messages.

    That none of n coordinates moved shows no more than a share of moves below about 1/n. Only psi_0 is known better: if none of
    it moved, it is the zero of the protocol.
    """
    variance = message_variances([cut(message, part) for message in messages])
    least = np.stack([_steps(message) ** 2 for message in messages]) * min(BOUND, 1.0 / (part.stop - part.start))
    floor = np.repeat(least[:, None, None], 2, axis=1)
    if messages[0].t == 0:
        floor[0, 1] = 0.0
    return np.maximum(variance, floor)


def cut(message: Messages, part: slice) -> Messages:
    """Return some coordinates of a message."""
    return message._replace(**{
        name: None if array is None else array[..., part]
        for name, array in (("theta", message.theta), ("psi", message.psi), ("dither", message.dither))
    })  # fmt: skip


class Fit(NamedTuple):
    """How a gradient changes over the rounds (see the module's docstring), and a factor on the variances of the messages."""

    drift: float
    decay: float = 0.0
    factor: float = 1.0


def fitted(
    algorithm: Algorithm1, times: Sequence[int], agent: int, variances: Sequence[np.ndarray], unexplained: Sequence[np.ndarray]
) -> list[Fit]:
    """Return what makes the messages of one agent most likely, part by part; all parts share the decay. `unexplained [2
    messages, dim]` are the messages of a part without what the known sums contribute, `variances [messages, 2]` their errors'.

    For a given decay the messages, in units of their assumed errors, are y = X b + Z u + e: b are theta_t, psi_t and g_t, of
    which nothing is known, u the changes, of variance drift^2, and e the errors, of variance `factor`. What is judged are the
    contrasts: y turned so that X disappears. Along the singular directions of what is left of Z their (restricted) likelihood
    falls apart: y_j has variance factor (1 + ratio l_j), with l_j the squared singular values and ratio = drift^2 / factor. For
    a given ratio the best factor is the mean of y_j^2 / (1 + ratio l_j). So two lines are searched, one inside the other.
    Another decay leaves other contrasts; as many of them, and pure noise favours none. All coordinates of a part share the
    answer, so that second moments are all that is needed of them. Between two messages nothing can be seen of a change: it may
    be anything.
    """
    if len(times) < 3:
        return [Fit(np.inf)] * len(variances)
    spreads = [_spread(variance) for variance in variances]
    states = _system(algorithm, times, agent, 0.0)[:, :2]  # theta_t and psi_t, whatever the decay
    turned = [_contrasts(states / spread[:, None]).T / spread for spread in spreads]
    contrasts = [turn @ heard for turn, heard in zip(turned, unexplained, strict=True)]
    moments = [y @ y.T / y.shape[1] for y in contrasts]
    sizes = [y.shape[1] for y in contrasts]

    def given(decay: float) -> list[tuple[float, Fit]]:
        system = _system(algorithm, times, agent, decay)[:, 2:]
        return [_profile(turn @ system, moment, decay) for turn, moment in zip(turned, moments, strict=True)]

    def surprise(decay: float) -> float:
        return sum(size * part for size, (part, _) in zip(sizes, given(decay), strict=True))

    taken = algorithm.schedules.lam(np.asarray(times[:-2])).sum()
    return [fit for _, fit in given(_minimum(surprise, np.array(SHRINKING) / taken))]


def _profile(system: np.ndarray, moments: np.ndarray, decay: float) -> tuple[float, Fit]:
    """Return (-2 log likelihood of a coordinate's contrasts, up to a constant; drift and factor there) for one decay.

    The first column of `system` is g_t's, the others are those of its changes; `moments` are the messages' in the same turn.
    """
    free = _contrasts(system[:, :1])
    directions, singular, _ = np.linalg.svd(free.T @ system[:, 1:])
    turned = free @ directions
    power = np.maximum((turned * (moments @ turned)).sum(axis=0), 0.0)
    if power.sum() == 0.0:  # nothing was heard at all
        return 0.0, Fit(0.0, decay)
    squared = np.zeros(len(power))
    squared[: len(singular)] = singular**2

    def surprise(log_ratio: float) -> float:
        total = 1.0 + np.exp(log_ratio) * squared
        return float(len(power) * np.log(np.mean(power / total)) + np.log(total).sum())

    best = _minimum(surprise, np.linspace(*LOG_RATIOS, 25) - np.log(squared.max()))
    factor = float(np.mean(power / (1.0 + np.exp(best) * squared)))
    return surprise(best), Fit(float(np.sqrt(np.exp(best) * factor)), decay, factor)


def _contrasts(columns: np.ndarray) -> np.ndarray:
    """Return an orthonormal basis, in columns, of what is orthogonal to some columns."""
    return linalg.null_space((columns / np.linalg.norm(columns, axis=0)).T)


def _minimum(function: Callable[[float], float], grid: np.ndarray) -> float:
    """Return where a function is smallest: near the best point of a grid, between its neighbours."""
    best = int(np.argmin([function(place) for place in grid]))
    bounds = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    return float(optimize.minimize_scalar(function, bounds=bounds, method="bounded").x)


def _variances(message: Messages, share: float | None) -> np.ndarray:
    levels = np.stack([message.theta, message.psi])
    if share is None and message.dither is None:
        shares = np.minimum(BOUND, np.mean(levels != 0, axis=-1))
    else:
        shares = np.full(levels.shape[:3], DITHERED if share is None else share)
    return shares * _steps(message) ** 2


def _steps(message: Messages) -> np.ndarray:
    if message.step is None:
        raise ValueError(f"message of t = {message.t} holds values, not levels: its errors have no variance")
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
