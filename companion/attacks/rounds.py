"""Several rounds of messages as one small linear system: what an agent's gradients were.

Unknowns: theta_t, psi_t and the gradients g_t ... g_{t+k-1}; the two updates of eq. (4) make every
later state a linear function of these and of known sums; each message is a measurement. **The model
of a slowly varying gradient**: as a model learns an image, the image's gradient shrinks, at first
with the steps taken, and turns,

    g_s = a_s (g_t + u_{t+1} + ... + u_s),     a_s = exp(-decay (lam_t + ... + lam_{s-1})),

with changes u of mean zero and standard deviation `drift`. Weighted least squares (the Kalman
smoother of the model, written as one small system) then gives all gradients; the coefficients are
the same for all coordinates. With drift = decay = 0 the gradient is constant over the rounds, with
drift = infinity rounds share nothing but the states; both can be found from the messages themselves
(`fitted`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy import linalg, optimize

from ldp_core.optimizer import Algorithm1

# Where `fitted` looks: -log of how far a gradient may shrink in all; log of its changes' share
SHRINKING = (0.0, 0.03, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 12.0)
LOG_RATIOS = (-15.0, 30.0)


def coefficients(
    algorithm: Algorithm1,
    times: Sequence[int],
    agent: int,
    variance: np.ndarray,
    drift: float,
    decay: float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Return weights `[..., rounds, 2 messages]` of the best estimates of an agent's gradients, and
    their covariance `[..., rounds, rounds]`.

    A gradient is weights . (message - what the known sums contribute to it), theta's messages
    first, then psi's. `variance [..., messages, 2]` are those of the messages' errors, run by run.
    """
    rounds, spread = len(times) - 1, _spread(variance)
    measured = _measured(algorithm, times, agent)
    system = _system(measured, shrunk(algorithm, times, decay)) / spread[..., None]
    # g_s = a_s (g_t + changes up to s)
    summed = shrunk(algorithm, times, decay)[:, None] * np.tril(np.ones((rounds, rounds)))
    if drift == 0:
        system, summed = system[..., :3], summed[:, :1]
    smooth = np.zeros((*system.shape[:-2], summed.shape[1] - 1, system.shape[-1]))
    if drift > 0 and np.isfinite(drift):
        smooth[..., 3:] = np.eye(smooth.shape[-2]) / drift
    system = np.concatenate([system, smooth], axis=-2)
    scale = np.linalg.norm(system, axis=-2, keepdims=True)
    inverse = summed @ (np.linalg.pinv(system / scale) / scale.mT)[..., 2:, :]
    return inverse[..., : spread.shape[-1]] / spread[..., None, :], inverse @ inverse.mT


def _spread(variance: np.ndarray) -> np.ndarray:
    """Return the standard deviations of theta's messages, then of psi's."""
    return np.sqrt(np.concatenate([variance[..., 0], variance[..., 1]], axis=-1))


def shrunk(algorithm: Algorithm1, times: Sequence[int], decay: float) -> np.ndarray:
    """Return a_s of every round."""
    taken = np.cumsum([0.0, *algorithm.schedules.lam(np.asarray(times[:-2]))])
    return np.exp(-decay * taken)


def _measured(algorithm: Algorithm1, times: Sequence[int], agent: int) -> np.ndarray:
    """Return every message as a linear function of theta_t, psi_t and the gradients, by eq. (4)."""
    network, lam = algorithm.network, algorithm.schedules.lam(np.asarray(times))
    mz = network.agents * network.z(times[-1] + 1)[times, agent]
    R, C = network.R[agent, agent], network.C[agent, agent]
    theta, psi = np.eye(2, 1 + len(times))
    rows = [(theta, psi)]
    for k in range(len(times) - 1):
        change = C * psi + lam[k] * np.eye(1 + len(times))[2 + k]
        theta, psi = (1.0 + R) * theta - change / mz[k], psi + change
        rows.append((theta, psi))
    return np.concatenate(np.array(rows).swapaxes(0, 1))  # theta's messages, then psi's


def _system(measured: np.ndarray, shrunk: np.ndarray) -> np.ndarray:
    """Return every message as a linear function of theta_t, psi_t, g_t and its changes."""
    gradients = measured[:, 2:] * shrunk
    # a change moves the gradients of its round and all after it
    from_then_on = np.cumsum(gradients[:, ::-1], axis=1)[:, ::-1]
    return np.column_stack([measured[:, :2], from_then_on])


class Fit(NamedTuple):
    """How a gradient changes over the rounds, and a factor on the variances of the messages."""

    drift: float
    decay: float = 0.0
    factor: float = 1.0


def fitted(
    algorithm: Algorithm1,
    times: Sequence[int],
    agent: int,
    variances: Sequence[np.ndarray],
    unexplained: Sequence[np.ndarray],
) -> list[Fit]:
    """Return what makes the messages of one agent most likely, part by part; all parts share the
    decay. `unexplained [2 messages, dim]` are the messages of a part without what the known sums
    contribute, `variances [messages, 2]` their errors'.

    For a given decay the messages, in units of their assumed errors, are y = X b + Z u + e: b are
    theta_t, psi_t and g_t, of which nothing is known, u the changes, of variance drift^2, and e the
    errors, of variance `factor`. What is judged are the contrasts: y turned so that X disappears.
    Along the singular directions of what is left of Z their (restricted) likelihood falls apart:
    y_j has variance factor (1 + ratio l_j), with l_j the squared singular values and ratio =
    drift^2 / factor. For a given ratio the best factor is the mean of y_j^2 / (1 + ratio l_j). So
    two lines are searched, one inside the other. Another decay leaves other contrasts; as many of
    them, and pure noise favours none. All coordinates of a part share the answer, so that second
    moments are all that is needed of them. Between two messages nothing can be seen of a change: it
    may be anything.
    """
    if len(times) < 3:
        return [Fit(np.inf)] * len(variances)
    spreads = [_spread(variance) for variance in variances]
    measured = _measured(algorithm, times, agent)
    states = measured[:, :2]  # theta_t and psi_t, whatever the decay
    turned = [_contrasts(states / spread[:, None]).T / spread for spread in spreads]
    contrasts = [turn @ heard for turn, heard in zip(turned, unexplained, strict=True)]
    moments = [y @ y.T / y.shape[1] for y in contrasts]
    sizes = [y.shape[1] for y in contrasts]

    def given(decay: float) -> list[tuple[float, Fit]]:
        system = _system(measured, shrunk(algorithm, times, decay))[:, 2:]
        pairs = zip(turned, moments, strict=True)
        return [_profile(turn @ system, moment, decay) for turn, moment in pairs]

    def surprise(decay: float) -> float:
        return sum(size * part for size, (part, _) in zip(sizes, given(decay), strict=True))

    taken = algorithm.schedules.lam(np.asarray(times[:-2])).sum()
    grid = np.array(SHRINKING) / taken
    return [fit for _, fit in given(_minimum(surprise, grid, [surprise(decay) for decay in grid]))]


def _profile(system: np.ndarray, moments: np.ndarray, decay: float) -> tuple[float, Fit]:
    """Return -2 log likelihood of a coordinate's contrasts at one decay, and drift and factor.

    The first column of `system` is g_t's, the others are those of its changes; `moments` are the
    messages' in the same turn.
    """
    free = _contrasts(system[:, :1])
    directions, singular, _ = np.linalg.svd(free.T @ system[:, 1:])
    turned = free @ directions
    power = np.maximum((turned * (moments @ turned)).sum(axis=0), 0.0)
    if power.sum() == 0.0:  # nothing was heard at all
        return 0.0, Fit(0.0, decay)
    squared = np.zeros(len(power))
    squared[: len(singular)] = singular**2

    def surprise(log_ratio):
        total = 1.0 + np.exp(log_ratio)[..., None] * squared
        mean = (power / total).sum(axis=-1) / len(power)
        return len(power) * np.log(mean) + np.log(total).sum(axis=-1)

    grid = np.linspace(*LOG_RATIOS, 25) - np.log(squared.max())
    best = _minimum(surprise, grid, surprise(grid))
    factor = float(np.mean(power / (1.0 + np.exp(best) * squared)))
    return float(surprise(best)), Fit(float(np.sqrt(np.exp(best) * factor)), decay, factor)


def _contrasts(columns: np.ndarray) -> np.ndarray:
    """Return an orthonormal basis, in columns, of what is orthogonal to some columns."""
    return linalg.null_space((columns / np.linalg.norm(columns, axis=0)).T)


def _minimum(function: Callable[[float], float], grid: np.ndarray, values) -> float:
    """Return where a function is smallest: between the neighbours of the best point of a grid, on
    which its values are known."""
    best = int(np.argmin(values))
    bounds = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    return float(optimize.minimize_scalar(function, bounds=bounds, method="bounded").x)
