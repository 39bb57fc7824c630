"""The fast lane of `optimizer`: the same steps, to the last bit.

    >>> from ldp_core import network
    >>> from ldp_core.optimizer import Schedules, run
    >>> plain = Algorithm1(network.paper(), Schedules(0.5, 0.71, (0.5,) * 5, (0.6,) * 5))
    >>> start, oracle = np.zeros((2, 5, 3)), lambda theta, t: theta - 1.0
    >>> ends = [run(a, oracle, start, 50, seed=0).theta for a in (plain, Compiled(plain))]
    >>> bool((ends[0] == ends[1]).all())
    True

`Compiled(algorithm)` takes the place of the plain one, which is what to read, in long experiments.
Without numba, or for smoother coins or a box, it is the plain one. Operations come in the order of
the plain one: results do not depend on the batch.
"""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from ldp_core import quantizer
from ldp_core.checks import guard, layout
from ldp_core.optimizer import Algorithm1, Coins, Draws, Messages, State

try:
    import numba
except ImportError:  # the loop is then not used
    stand_in = SimpleNamespace(njit=lambda **_: lambda function: function)
    numba = stand_in  # type: ignore[assignment]

COMPILED = not isinstance(numba, SimpleNamespace)

STATE, DRAWS, PAIR = "runs agents dim", "runs 2 agents dim", "2 runs agents dim"
STATES = dict.fromkeys(("theta", "psi", "gradients"), STATE)
NETWORK = {"d": "agents", "mz": "agents", "R": "agents agents", "C": "agents agents"}


@dataclass(frozen=True)
class Compiled:
    """Algorithm 1 with compiled steps; an `optimizer.Algorithm`."""

    plain: Algorithm1

    def init(self, theta_0, psi_0=None) -> State:
        """Return the plain algorithm's state at t = 0."""
        return self.plain.init(theta_0, psi_0)

    def __getattr__(self, name: str):
        """Return `send`, `move`, `at_sent` of the plain algorithm."""
        return getattr(object.__getattribute__(self, "plain"), name)

    def coins(self, seed: int) -> Coins:
        """Return the plain algorithm's coins."""
        return self.plain.coins(seed)

    def step(self, state: State, gradients: np.ndarray, coins: Draws) -> tuple[State, Messages]:
        """Return what `Algorithm1.step` returns."""
        plain, t = self.plain, state.t
        if not (COMPILED and plain.quantised) or plain.degree > 1 or plain.box is not None:
            return plain.step(state, gradients, coins)
        network, (private, dither) = plain.network, plain.separate(coins)
        d, lam = plain.schedules.step(t), float(plain.schedules.lam(t))
        levels = np.empty((2, *state.theta.shape), np.int64)
        following = np.empty(levels.shape)
        mz = network.agents * np.diagonal(state.z)
        offset = np.zeros(np.shape(private)) if dither is None else dither
        given = state.theta, state.psi, gradients, private, offset, d, lam, mz
        if not _compiled_step(*given, network.R, network.C, levels, following):
            return plain.step(state, gradients, coins)  # which says what is wrong
        z = state.z + network.R @ state.z
        messages = Messages(t, levels[0], levels[1], d, dither)
        return State(t + 1, following[0], following[1], z), messages


@layout(**STATES, coins=DRAWS, dither=DRAWS, **NETWORK, lam=float, levels=PAIR, following=PAIR)
@numba.njit(cache=True, error_model="numpy")
def _compiled_step(theta, psi, gradients, coins, dither, d, lam, mz, R, C, levels, following):
    """Write messages and next states, theta's and psi's; return whether levels and draws fit."""
    runs, agents, dim = theta.shape
    fits = True
    for run in range(runs):
        sent_theta, sent_psi = np.empty((agents, dim)), np.empty((agents, dim))
        for i in range(agents):
            own, U, V = coins[run], dither[run, 0, i], dither[run, 1, i]
            out = levels[:, run]
            fits &= _send(theta[run, i], d[i], own[0, i], U, out[0, i], sent_theta[i])
            fits &= _send(psi[run, i], d[i], own[1, i], V, out[1, i], sent_psi[i])
        next_theta, next_psi = following[0, run], following[1, run]
        for i in range(agents):
            _mix(C, i, psi[run, i], sent_psi, next_psi[i])
            _mix(R, i, theta[run, i], sent_theta, next_theta[i])
            for c in range(dim):
                next_psi[i, c] += lam * gradients[run, i, c]
                next_theta[i, c] -= (next_psi[i, c] - psi[run, i, c]) / mz[i]
    return fits


@numba.njit(inline="always")
def _send(y, d, coins, dither, levels, sent):
    """Write levels (eq. (3)) and values, the grid moved by dither * d; return whether all fit."""
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


guard("ldp_core", "engine")
