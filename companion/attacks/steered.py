"""The pair of worlds that comes closest to a promise: what neighbours who do their worst attain.

Two logistic samples with rows (1, w) and (-1, w), w small, and equal labels stay clipped and
opposite, when neighbours steer the second coordinate to where both are badly wrong
(docs/proofs/promise.md, section 6). `audit.informed` proves what the messages then give away.
"""

from __future__ import annotations

import numpy as np

from ldp_core import quantizer
from ldp_core.accountant.drift import Terms, pushes


def attained(terms: Terms, i: int, iterations: int) -> tuple[np.ndarray, np.ndarray]:
    """Return dtheta_t and dpsi_t `[time]` of agent i, both samples clipped and opposite."""
    network, T = terms.network, iterations
    r, c = -float(network.R[i, i]), -float(network.C[i, i])
    push, scale = pushes(terms, np.arange(T))[i], network.agents * network.z(T)[:, i]
    theta, psi = np.zeros((2, T + 1))
    for t in range(T):
        psi[t + 1] = (1.0 - c) * psi[t] + push[t]
        theta[t + 1] = (1.0 - r) * theta[t] - (psi[t + 1] - psi[t]) / scale[t]
    return theta[:T], psi[:T]


def steered(terms: Terms, i: int, iterations: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (y, other, step) `[2 T]`: agent i's states in the two worlds of `attained`.

    First theta's, then psi's, in the one coordinate that differs, each put by the neighbours where
    a level shows most of it: `audit.informed` proves what these independent messages give away.
    """
    step = np.tile(terms.schedules.step(np.arange(iterations))[:, i], 2)
    apart = np.concatenate(attained(terms, i, iterations))
    middle = quantizer.dearest(terms.degree) * step
    return middle - apart / 2.0, middle + apart / 2.0, step
