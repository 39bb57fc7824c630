"""The fast lane of `optimizer`: the same steps and the same coins, to the last bit, in compiled loops over runs.

    algorithm = engine.Compiled(optimizer.Algorithm1(network, schedules))

takes the place of the plain one everywhere. The plain one is what to read; this one is what long experiments use. Each run is
computed by one thread, with the operations of the plain one in the same order (no fused or reassociated arithmetic), so results
depend neither on the batch nor on the number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from ldp_core import quantizer
from ldp_core.checks import layout
from ldp_core.optimizer import Algorithm1, Coins, Draws, Messages, State
from ldp_core.randomness import Purpose, word


@dataclass(frozen=True)
class Compiled:
    """Algorithm 1 (quantised) with compiled steps and coins; the interface of `optimizer.Algorithm`."""

    plain: Algorithm1

    def __post_init__(self) -> None:
        if not self.plain.quantised:
            raise ValueError("quantised = False needs no engine: the plain algorithm does nothing but add")

    def init(self, theta_0: np.ndarray, psi_0: np.ndarray | None = None) -> State:
        """Return the plain algorithm's state at t = 0."""
        return self.plain.init(theta_0, psi_0)

    def coins(self, seed: int) -> Coins:
        """Return the same coins, and the same dither, as the plain algorithm draws."""
        return self.plain.coins(seed, Uniforms)

    @property
    def at_sent(self) -> bool:
        """Return whether gradients are taken at sent values."""
        return self.plain.at_sent

    def send(self, state: State, coins: Draws) -> Messages:
        """Return what `Algorithm1.send` returns, from the plain one."""
        return self.plain.send(state, coins)

    def move(self, state: State, gradients: np.ndarray, messages: Messages) -> State:
        """Return what `Algorithm1.move` returns, from the plain one."""
        return self.plain.move(state, gradients, messages)

    def step(self, state: State, gradients: np.ndarray, coins: Draws) -> tuple[State, Messages]:
        """Return what `Algorithm1.step` returns; the plain one does smoother coins and a box."""
        if self.plain.degree > 1 or self.plain.box is not None:
            return self.plain.step(state, gradients, coins)
        network, t = self.plain.network, state.t
        private, dither = self.plain.separate(coins)
        d, lam = self.plain.schedules.step(t), float(self.plain.schedules.lam(t))
        theta_levels, psi_levels = np.empty(state.theta.shape, np.int64), np.empty(state.psi.shape, np.int64)
        theta, psi = np.empty(state.theta.shape), np.empty(state.psi.shape)
        fits = _step(
            state.theta, state.psi, gradients, private, dither, d, lam, network.agents * np.diagonal(state.z),
            network.R, network.C, theta_levels, psi_levels, theta, psi,
        )  # fmt: skip
        if not fits:
            return self.plain.step(state, gradients, coins)  # which says what is wrong
        return State(t + 1, theta, psi, state.z + network.R @ state.z), Messages(t, theta_levels, psi_levels, d, dither)


class Uniforms:
    """`randomness.Uniforms`, compiled: the same numbers from the same addresses."""

    def __init__(self, seed: int, purpose: Purpose):
        self._seed, self._purpose = np.uint64(word("seed", seed)), np.uint64(purpose)

    def __call__(self, runs: Sequence[int], t: int, shape: tuple[int, ...]) -> np.ndarray:
        uniforms = np.empty((len(runs), *shape))
        numbers = np.array([word("run", run) for run in runs], dtype=np.uint64)
        _philox_uniforms(self._seed, self._purpose, numbers, np.uint64(word("t", t)), uniforms.reshape(len(runs), -1))
        return uniforms


@layout(
    theta="runs agents dim", psi="runs agents dim", gradients="runs agents dim", coins="runs 2 agents dim",
    dither="None or runs 2 agents dim", d="agents", lam=float, mz="agents", R="agents agents", C="agents agents",
    theta_levels="runs agents dim", psi_levels="runs agents dim", next_theta="runs agents dim", next_psi="runs agents dim",
)  # fmt: skip
@numba.njit(parallel=True, cache=True)
def _step(theta, psi, gradients, coins, dither, d, lam, mz, R, C, theta_levels, psi_levels, next_theta, next_psi):
    """Write the messages and the next state of every run; return whether every level (|y| / d <= 2**52) and draw fits."""
    runs, agents, dim = theta.shape
    fits = np.ones(runs, dtype=np.bool_)
    for run in numba.prange(runs):
        sent_theta, sent_psi = np.empty((agents, dim)), np.empty((agents, dim))
        for i in range(agents):
            if dither is None:
                fits[run] &= _send(theta[run, i], d[i], coins[run, 0, i], theta_levels[run, i], sent_theta[i])
                fits[run] &= _send(psi[run, i], d[i], coins[run, 1, i], psi_levels[run, i], sent_psi[i])
            else:
                of_theta, of_psi = dither[run, 0, i], dither[run, 1, i]
                fits[run] &= _send_dithered(
                    theta[run, i], d[i], coins[run, 0, i], of_theta, theta_levels[run, i], sent_theta[i]
                )
                fits[run] &= _send_dithered(psi[run, i], d[i], coins[run, 1, i], of_psi, psi_levels[run, i], sent_psi[i])
        for i in range(agents):
            _mix(C, i, psi[run, i], sent_psi, next_psi[run, i])
            _mix(R, i, theta[run, i], sent_theta, next_theta[run, i])
            for c in range(dim):
                next_psi[run, i, c] += lam * gradients[run, i, c]
                next_theta[run, i, c] -= (next_psi[run, i, c] - psi[run, i, c]) / mz[i]
    return fits.all()


@numba.njit(inline="always")
def _send(y, d, coins, levels, sent):
    """Write the level of each coordinate (eq. (3)) and its value; return whether all levels fit and coins lie in [0, 1)."""
    fits = True
    for c in range(len(y)):
        ratio = y[c] / d
        fits &= (abs(ratio) <= quantizer.LARGEST_LEVEL) & (coins[c] >= 0.0) & (coins[c] < 1.0)  # false for NaN too
        lower = np.floor(ratio)
        level = lower + 1.0 if coins[c] < ratio - lower else lower
        levels[c] = np.int64(level)
        sent[c] = level * d
    return fits


@numba.njit(inline="always")
def _send_dithered(y, d, coins, dither, levels, sent):
    """Write what `_send` writes, on the grid moved by dither * d; return whether levels fit and draws lie in [0, 1)."""
    fits = True
    for c in range(len(y)):
        ratio, U = y[c] / d, dither[c]
        fits &= (abs(ratio) <= quantizer.LARGEST_LEVEL) & (U >= 0.0) & (U < 1.0) & (coins[c] >= 0.0) & (coins[c] < 1.0)
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


MULTIPLIERS = np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157)  # Philox-4x64-10, Salmon et al. 2011
WEYL = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B)


@layout(seed=float, purpose=float, runs="runs", t=float, uniforms="runs count")
@numba.njit(parallel=True, cache=True)
def _philox_uniforms(seed, purpose, runs, t, uniforms):
    """Fill row r with the 53-bit uniforms of Philox at key (seed, runs[r]) and counters (1, 2, ...; t, 0, purpose).

    numpy adds one to the counter before it makes the first block of four words, so the first counter is 1.
    """
    count = uniforms.shape[1]
    for row in numba.prange(len(runs)):
        for block in range((count + 3) // 4):
            words = _philox_block(np.uint64(block + 1), t, np.uint64(0), purpose, seed, runs[row])
            for k in range(min(4, count - 4 * block)):
                uniforms[row, 4 * block + k] = np.float64(words[k] >> np.uint64(11)) * 2.0**-53


@numba.njit(inline="always")
def _philox_block(c0, c1, c2, c3, k0, k1):
    """Return the four 64-bit words of one counter: ten rounds of multiply, swap and exclusive or."""
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
