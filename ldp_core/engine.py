"""The fast lane of `optimizer`: the same steps and the same coins, to the last bit.

    >>> from ldp_core import network
    >>> from ldp_core.optimizer import Schedules, run
    >>> plain = Algorithm1(network.paper(), Schedules(0.5, 0.71, (0.5,) * 5, (0.6,) * 5))
    >>> start, oracle = np.zeros((2, 5, 3)), lambda theta, t: theta - 1.0
    >>> ends = [run(a, oracle, start, 50, seed=0).theta for a in (plain, Compiled(plain))]
    >>> bool((ends[0] == ends[1]).all())
    True

`Compiled(algorithm)` takes the place of the plain one everywhere. The plain one is what to read;
this one is what long experiments use. Without numba, or for smoother coins or a box, it is the
plain one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ldp_core import randomness
from ldp_core.optimizer import Algorithm1, Coins, Draws, Messages, State
from ldp_core.randomness import Purpose, word

try:
    from ldp_core import fast
except ImportError:
    fast = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Compiled:
    """Algorithm 1 (quantised) with compiled steps and coins; an `optimizer.Algorithm`."""

    plain: Algorithm1

    def __post_init__(self) -> None:
        if not self.plain.quantised:
            why = "the plain algorithm does nothing but add"
            raise ValueError(f"quantised = False needs no engine: {why}")

    def init(self, theta_0: np.ndarray, psi_0: np.ndarray | None = None) -> State:
        """Return the plain algorithm's state at t = 0."""
        return self.plain.init(theta_0, psi_0)

    def __getattr__(self, name: str):
        """Return `send`, `move`, `at_sent` of the plain algorithm."""
        return getattr(object.__getattribute__(self, "plain"), name)

    def coins(self, seed: int) -> Coins:
        """Return the same coins, and the same dither, as the plain algorithm draws."""
        return self.plain.coins(seed, Uniforms if fast else randomness.Uniforms)

    def step(self, state: State, gradients: np.ndarray, coins: Draws) -> tuple[State, Messages]:
        """Return what `Algorithm1.step` returns."""
        plain, t = self.plain, state.t
        if not fast or plain.degree > 1 or plain.box is not None:
            return plain.step(state, gradients, coins)
        network, (private, dither) = plain.network, plain.separate(coins)
        d, lam = plain.schedules.step(t), float(plain.schedules.lam(t))
        levels = np.empty((2, *state.theta.shape), np.int64)
        theta, psi = np.empty(state.theta.shape), np.empty(state.psi.shape)
        mz = network.agents * np.diagonal(state.z)
        numbers = d, lam, mz, network.R, network.C
        offset = np.zeros(np.shape(private)) if dither is None else dither
        draws = state.theta, state.psi, gradients, private, offset
        if not fast.step(*draws, *numbers, *levels, theta, psi):
            return plain.step(state, gradients, coins)  # which says what is wrong
        following = State(t + 1, theta, psi, state.z + network.R @ state.z)
        return following, Messages(t, levels[0], levels[1], d, dither)


class Uniforms:
    """`randomness.Uniforms`, compiled: the same numbers from the same addresses."""

    def __init__(self, seed: int, purpose: Purpose):
        self._seed, self._purpose = np.uint64(word("seed", seed)), np.uint64(purpose)

    def __call__(self, runs: Sequence[int], t: int, shape: tuple[int, ...]) -> np.ndarray:
        uniforms = np.empty((len(runs), *shape))
        numbers = np.array([word("run", run) for run in runs], dtype=np.uint64)
        rows, time = uniforms.reshape(len(runs), -1), np.uint64(word("t", t))
        fast.fill_uniforms(self._seed, self._purpose, numbers, time, rows)
        return uniforms
