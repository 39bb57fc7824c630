"""Notebook 3, Fig. 4: five agents train the paper's convolutional network on MNIST.

A training that diverges is a result too: it ends at the iteration at which a number ceased to be
finite, and says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import numpy as np

from companion.data import streams
from companion.mnist.digits import digits
from companion.mnist.params import Training
from companion.params import AGENTS
from companion.problems import neural, parameters
from companion.problems.cnn import CNN
from ldp_core import optimizer
from ldp_core.randomness import Purpose, generator

Arrays = dict[str, np.ndarray]
Variant = Literal["quantised", "unquantised"]
VARIANTS: tuple[Variant, ...] = ("quantised", "unquantised")
PART = 1e6  # image gradients between two states that are kept: about five minutes
SERIES = ("t", "train", "test")
ASKED = 5000  # images of which members are told, and as many others, at most
_NOTHING = {"member": np.zeros(0, dtype=bool), "loss": np.zeros(0)}


def history(setting: Training, repeat: int, rows: int) -> np.ndarray:
    """Return which of the first `rows` images agents acquire, `[1, agents, iterations,
    samples]`."""
    shape = (AGENTS, setting.iterations, setting.samples)
    return streams.history(setting.seed, [repeat], *shape, rows, 0)[0]


def oracle_of(
    setting: Training, repeat: int, data: str, acquired: np.ndarray
) -> neural.FullHistory:
    """Return the gradients over the whole history, or over a sample of it (an approximation)."""
    x, y, _ = digits(data)
    module = partial(CNN, setting.activation)
    if not setting.history_sample:
        return neural.FullHistory(module, x, y, acquired)
    options = {"sample": setting.history_sample, "seed": setting.seed, "runs": [repeat]}
    return neural.SampledHistory(module, x, y, acquired, **options)


def start(setting: Training, repeat: int) -> np.ndarray:
    """Return theta_0 `[1, agents, dim]`."""
    options = {"seed": setting.seed, "runs": [repeat], "agents": AGENTS, "same": setting.same_start}
    module = partial(CNN, setting.activation)
    return parameters.initial_states(module, setting.initialisation, **options)


def cuts(setting: Training) -> list[int]:
    """Return the iterations at which a training is cut into parts of equal work, from 0 on.

    Over the whole history iteration t costs t + 1 times as much as the first, so parts end at
    multiples of the square root.
    """
    work = 0.0 if setting.history_sample else AGENTS * setting.samples * setting.iterations**2 / 2
    parts = max(1, math.ceil(work / PART))
    return [round(setting.iterations * math.sqrt(part / parts)) for part in range(parts + 1)]


def compute(
    params: dict,
    data: str,
    variant: Variant,
    repeat: int,
    part: int = 0,
    before: Arrays | None = None,
    curves: bool = True,
) -> Arrays:
    """Return one training, or a part of it: `t`, `train`, `test`, `final [agents]`, `diverged`.

    Accuracies are shares of images read rightly: `train [times, agents]` of what the agent has
    collected so far (or of `train_sample` draws of it), `test` of the agent's own test images,
    `final` of `final_test` test images that all agents share. `diverged` is the iteration at which
    a number ceased to be finite, -1 if none did; the series then end before it, and `final` is NaN.
    A training that has come to its end also has `member` and `loss` (see `_Watch.remembered`).
    Without `curves` nothing is asked but how it ended: the series are empty, and so are these two.
    `data` is the SHA-256 of the MNIST meant. A part (see `cuts`) goes on from what the one `before`
    it returned, has `final` NaN unless it is the last, and the state at its end.
    """
    setting = Training(**params)
    if before is not None and before["diverged"] >= 0:
        return {**before, **{name: before[name][:0] for name in SERIES}}
    watch = _watched(setting, repeat, data, curves)
    algorithm = optimizer.Algorithm1(
        setting.network(), setting.algorithm().schedules, quantised=variant == "quantised"
    )
    first, last = cuts(setting)[part : part + 2]
    state = algorithm.init(start(setting, repeat)) if before is None else _state(first, before)
    diverged, final, remembered = -1, np.full(AGENTS, np.nan), _NOTHING
    options = {"seed": setting.seed, "runs": [repeat], "observe": watch.look}
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is looked for
            state = optimizer.resume(algorithm, watch.clock, state, last - first, **options)
        if last == setting.iterations:
            final, remembered = watch.finish(state), watch.remembered()
    except ArithmeticError as error:
        diverged = watch.clock.when(error)
    ended = {"theta": state.theta, "psi": state.psi, "z": state.z}
    goes_on = last < setting.iterations and diverged < 0
    result = {**watch.series(), "final": final, "diverged": np.array(diverged), **remembered}
    return result | (ended if goes_on else {})


def joined(parts: list[Arrays]) -> Arrays:
    """Return a whole training from its parts."""
    series = {name: np.concatenate([part[name] for part in parts]) for name in SERIES}
    return {**series, **{name: parts[-1][name] for name in ("final", "diverged", *_NOTHING)}}


def _state(t: int, part: Arrays) -> optimizer.State:
    return optimizer.State(t, part["theta"], part["psi"], part["z"])


@dataclass
class Clock:
    """An oracle that knows the iteration at which it was asked last."""

    oracle: optimizer.Oracle
    now: int = 0

    def __call__(self, theta: np.ndarray, t: int) -> np.ndarray:
        self.now = t
        return self.oracle(theta, t)

    def when(self, error: ArithmeticError) -> int:
        """Return the iteration at which a number ceased to be finite."""
        return error.t if isinstance(error, optimizer.Diverged) else self.now


def _watched(setting: Training, repeat: int, data: str, curves: bool = True) -> _Watch:
    rows = digits(data)[2]
    oracle = oracle_of(setting, repeat, data, history(setting, repeat, rows))
    return _Watch(setting, repeat, oracle, rows, Clock(oracle), curves)


@dataclass
class _Watch:
    """Watches one training: what time it is, and the accuracies so far."""

    setting: Training
    repeat: int
    oracle: neural.FullHistory
    rows: int
    clock: Clock
    curves: bool
    t: list[int] = field(default_factory=list)
    train: list[np.ndarray] = field(default_factory=list)
    test: list[np.ndarray] = field(default_factory=list)
    messages: optimizer.Messages | None = None

    def look(self, state: optimizer.State, messages: optimizer.Messages | None = None) -> None:
        self.messages = messages or self.messages
        if self.curves and state.t % self.setting.evaluate_every == 0:
            rows = self._collected(state.t), self._own_test
            train, test = (self.oracle.accuracy(state.theta, own)[0] for own in rows)
            self.train.append(train)
            self.test.append(test)
            self.t.append(state.t)

    def series(self) -> Arrays:
        """Return what was seen: `t [times]`, `train` and `test [times, agents]`."""
        train, test = (np.array(seen).reshape(-1, AGENTS) for seen in (self.train, self.test))
        return {"t": np.array(self.t, dtype=np.int64), "train": train, "test": test}

    def finish(self, last: optimizer.State) -> np.ndarray:
        """Return the final accuracy `[agents]`; a last state without finite outputs has
        diverged."""
        self.clock.now = last.t
        self.look(last)
        draw = generator(self.setting.seed, Purpose.SPLIT, self.repeat)
        rows = draw.permutation(np.arange(self.rows, len(self.oracle.y)))
        return self.oracle.accuracy(last.theta, rows[: self.setting.final_test])[0]

    def remembered(self) -> Arrays:
        """Return `member` and `loss` of images at the mean of the models that were sent last.

        Half of them were acquired by an agent, the others are training images that none acquired;
        none where every image was.
        """
        if not self.curves or self.messages is None:
            return _NOTHING
        inside = np.unique(self.oracle.history)
        outside = np.setdiff1d(np.arange(self.rows), inside)
        count = min(ASKED, len(inside), len(outside))
        draw = generator(self.setting.seed, Purpose.MODIFICATION, self.repeat)
        rows = np.concatenate([draw.permutation(part)[:count] for part in (inside, outside)])
        loss = self.oracle.losses(self.messages.values()[0][0].mean(axis=0), rows)
        return {"member": np.arange(len(rows)) < count, "loss": loss}

    @property
    def _own_test(self) -> np.ndarray:
        """Return each agent's own test images `[1, agents, test]`: rows beyond those for
        training."""
        setting, rows = self.setting, len(self.oracle.y) - self.rows
        drawn = [
            streams.split(setting.seed, self.repeat, i, rows, setting.test)[0]
            for i in range(AGENTS)
        ]
        return self.rows + np.array(drawn, dtype=np.int64)[None]

    def _collected(self, t: int) -> np.ndarray:
        """Return what agents have collected before t (at t = 0: first images), or draws from it."""
        seen = self.oracle.seen(max(t - 1, 0))
        draws, seed = self.setting.train_sample, self.setting.seed
        if not draws or seen.shape[2] <= draws:
            return seen
        random = [
            generator(seed, Purpose.MONTE_CARLO, self.repeat, agent=i, t=t) for i in range(AGENTS)
        ]
        places = np.array([draw.integers(seen.shape[2], size=draws) for draw in random])
        return np.take_along_axis(seen, places[None], axis=2)
