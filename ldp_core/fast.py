"""Compiled loops over runs (numba): the steps and the coins of `optimizer`, to the last bit.

    >>> uniforms = np.empty((1, 2))
    >>> fill_uniforms(np.uint64(1), np.uint64(1), np.array([7], np.uint64), np.uint64(3), uniforms)
    >>> uniforms.round(6).tolist()  # of seed 1, purpose 1, run 7, t = 3
    [[0.122435, 0.462696]]

Each run is computed by one thread, with the operations of the plain one in the same order (no fused
or reassociated arithmetic): results depend neither on the batch nor on the number of threads.
"""

from __future__ import annotations

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from ldp_core import quantizer
from ldp_core.checks import layout

STATE = "runs agents dim"


@layout(
    theta=STATE,
    psi=STATE,
    gradients=STATE,
    coins="runs 2 agents dim",
    dither="runs 2 agents dim",
    d="agents",
    lam=float,
    mz="agents",
    R="agents agents",
    C="agents agents",
    theta_levels=STATE,
    psi_levels=STATE,
    next_theta=STATE,
    next_psi=STATE,
)
@numba.njit(parallel=True, cache=True)
def step(
    theta,
    psi,
    gradients,
    coins,
    dither,
    d,
    lam,
    mz,
    R,
    C,
    theta_levels,
    psi_levels,
    next_theta,
    next_psi,
):
    """Write messages and next states; return whether levels (|y| / d <= 2**52) and draws fit."""
    runs, agents, dim = theta.shape
    fits = np.ones(runs, dtype=np.bool_)
    for run in numba.prange(runs):
        sent_theta, sent_psi = np.empty((agents, dim)), np.empty((agents, dim))
        for i in range(agents):
            U, V = dither[run, 0, i], dither[run, 1, i]
            one, two = theta_levels[run, i], psi_levels[run, i]
            fits[run] &= _send(theta[run, i], d[i], coins[run, 0, i], U, one, sent_theta[i])
            fits[run] &= _send(psi[run, i], d[i], coins[run, 1, i], V, two, sent_psi[i])
        for i in range(agents):
            _mix(C, i, psi[run, i], sent_psi, next_psi[run, i])
            _mix(R, i, theta[run, i], sent_theta, next_theta[run, i])
            for c in range(dim):
                next_psi[run, i, c] += lam * gradients[run, i, c]
                next_theta[run, i, c] -= (next_psi[run, i, c] - psi[run, i, c]) / mz[i]
    return fits.all()


@numba.njit(inline="always")
def _send(y, d, coins, dither, levels, sent):
    """Write the level of each coordinate (eq. (3)) and its value; return whether all fit.

    The grid is moved by dither * d; a dither of zero changes no bit.
    """
    fits = True
    for c in range(len(y)):
        ratio, U = y[c] / d, dither[c]
        fits &= (abs(ratio) <= quantizer.LARGEST_LEVEL) & (coins[c] >= 0.0) & (coins[c] < 1.0)
        fits &= (U >= 0.0) & (U < 1.0)  # false for NaN too
        lower = np.floor(ratio)
        moved = (ratio - lower) - U
        below = np.floor(moved)
        lower += below
        level = lower + 1.0 if coins[c] < moved - below else lower
        levels[c] = np.int64(level)
        sent[c] = (level + U) * d
    return fits


@numba.njit(inline="always")
def _mix(matrix, i, own, sent, mixed):
    """Write (1 + M_ii) own + sum_j M_ij sent^j, neighbours in ascending order as in `optimizer`."""
    for c in range(len(own)):
        mixed[c] = (1.0 + matrix[i, i]) * own[c]
    for j in range(len(matrix)):
        if matrix[i, j] > 0:
            for c in range(len(own)):
                mixed[c] += matrix[i, j] * sent[j, c]


MULTIPLIERS = np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157)  # Philox-4x64-10
WEYL = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B)  # Salmon et al. 2011


@layout(seed=float, purpose=float, runs="runs", t=float, uniforms="runs count")
@numba.njit(parallel=True, cache=True)
def fill_uniforms(seed, purpose, runs, t, uniforms):
    """Fill row r with 53-bit uniforms: Philox, key (seed, runs[r]), counter (1 ...; t, 0, purpose).

    numpy adds one to the counter before it makes the first block of four words.
    """
    count = uniforms.shape[1]
    for row in numba.prange(len(runs)):
        for block in range((count + 3) // 4):
            words = _philox(np.uint64(block + 1), t, np.uint64(0), purpose, seed, runs[row])
            for k in range(min(4, count - 4 * block)):
                uniforms[row, 4 * block + k] = np.float64(words[k] >> np.uint64(11)) * 2.0**-53


@numba.njit(inline="always")
def _philox(c0, c1, c2, c3, k0, k1):
    """Return the four 64-bit words of one counter: ten rounds of multiply, swap, exclusive or."""
    for _ in range(10):
        high0, low0 = _high_product(MULTIPLIERS[0], c0), MULTIPLIERS[0] * c0
        high1, low1 = _high_product(MULTIPLIERS[1], c2), MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = k0 + WEYL[0], k1 + WEYL[1]
    return c0, c1, c2, c3


@intrinsic
def _high_product(typing_context, a, b):
    """Return the upper 64 bits of the 128-bit product of two uint64 numbers."""

    def generate(context, builder, signature, arguments):
        wide = ir.IntType(128)
        product = builder.mul(*(builder.zext(argument, wide) for argument in arguments))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), generate
