"""Every random number of the project, addressed by what it is for.

    >>> round(generator(seed=1, purpose=Purpose.COINS, run=7, t=3).random(), 6)
    0.122435

A uniform number is a pure function of its address (seed, purpose, run, t, position): Philox (Salmon
et al. 2011) is a counter-based generator whose key and counter *are* the address. Run r of seed s
is the same to the last bit whatever else is computed beside it, and from whichever t it is resumed.

Each number has 53 random bits. The seed makes experiments repeatable. An agent that must really
keep its data private draws its coins from its operating system instead (`secrets`).
"""

import enum
from collections.abc import Sequence

import numpy as np

from ldp_core.checks import word


class Purpose(enum.IntEnum):
    """What a number is drawn for. Different purposes never share a number."""

    COINS = 1  # the quantizer's coins: private
    DITHER = 2  # the public dither: known to everybody
    DATA = 3  # which data point arrives
    SPLIT = 4  # which samples an agent keeps for testing
    INITIAL = 5  # theta_0, psi_0, initial weights of a network
    HISTORY = 6  # which part of the history estimates its gradient
    MODIFICATION = 7  # how a data set is replaced by an adjacent one
    ATTACK = 8  # restarts and starting points of an attacker
    SYNTHETIC = 9  # made-up data
    MONTE_CARLO = 10  # estimates of the accountant and the audit


def generator(seed: int, purpose: Purpose, run: int = 0, *, agent: int = 0, t: int = 0):
    """Return the numpy generator that starts at one address; addresses do not overlap."""
    counter = np.array([0, word("t", t), word("agent", agent), int(purpose)], dtype=np.uint64)
    key = np.array([word("seed", seed), word("run", run)], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(counter=counter, key=key))


class Uniforms:
    """Uniform numbers in [0, 1) for a batch of runs at any time t.

    `Uniforms(seed, purpose)(runs, t, shape)` has shape `[len(runs), *shape]`; row r equals
    `generator(seed, purpose, runs[r], t=t).random(shape)`, ten times cheaper.
    """

    def __init__(self, seed: int, purpose: Purpose):
        self._bits = np.random.Philox(key=np.array([word("seed", seed), 0], dtype=np.uint64))
        self._generator = np.random.Generator(self._bits)
        self._state = self._bits.state
        self._state["state"]["counter"][3] = int(purpose)

    def __call__(self, runs: Sequence | np.ndarray, t: int, shape: tuple[int, ...]) -> np.ndarray:
        uniforms = np.empty((len(runs), *shape))
        address = self._state["state"]
        address["counter"][1] = word("t", t)
        for row, run in zip(uniforms, runs, strict=True):
            address["key"][1] = word("run", run)
            self._bits.state = self._state
            self._generator.random(out=row)
        return uniforms
