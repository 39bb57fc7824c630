"""Which model of a gradient over many rounds is the better one, told from the messages alone.

`rounds` knows a gradient that shrinks and turns (`fitted`), one that is constant (drift = 0), and
one that is free (drift = infinity). Each gives a linear estimate g_M of the first round's gradient;
g_1, made of the first two messages alone, is unbiased whatever the gradient did. So

    E |g_M - g|^2 = E |g_M - g_1|^2 - var g_1 + 2 cov(g_M, g_1),

and all on the right is known: the difference was observed, the covariance follows from the weights
of both estimates and the variances of the messages (an unbiased estimate of risk, as Stein's and
Mallows'). The model with the smallest is kept, part by part. No truth is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from companion.attacks.rounds import Fit, coefficients, fitted
from ldp_core.optimizer import Algorithm1

CONSTANT, FREE = Fit(0.0), Fit(np.inf)


def kept(
    algorithm: Algorithm1,
    times: Sequence[int],
    agent: int,
    variances: Sequence[np.ndarray],
    unexplained: Sequence[np.ndarray],
) -> list[Fit]:
    """Return the model of the smallest estimated risk for every part; arguments as `fitted`'s."""
    shrinking = fitted(algorithm, times, agent, variances, unexplained)
    return [
        min((fit, CONSTANT, FREE), key=partial(risk, algorithm, times, agent, variance, residual))
        for fit, variance, residual in zip(shrinking, variances, unexplained, strict=True)
    ]


def risk(
    algorithm: Algorithm1,
    times: Sequence[int],
    agent: int,
    variance: np.ndarray,
    unexplained: np.ndarray,
    fit: Fit,
) -> float:
    """Return the estimated mean square error a coordinate of a model's first gradient, up to a
    number that is the same for all models."""
    weights, _ = coefficients(algorithm, times, agent, fit.factor * variance, fit.drift, fit.decay)
    first = np.zeros(2 * len(times))
    alone, _ = coefficients(algorithm, times[:2], agent, variance[:2], np.inf)
    first[[0, 1, len(times), len(times) + 1]] = alone[0]
    difference = (weights[0] - first) @ unexplained
    spread = np.concatenate([variance[:, 0], variance[:, 1]])
    return float(np.mean(difference**2) + 2.0 * (weights[0] * spread) @ first)
