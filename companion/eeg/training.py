"""Notebook 4: five agents train EEGNet without one of the subjects, and are tested on that one. One shard of Fig. 6.

Kept apart from the tables made of it (`eeg`), so that a change to these does not make finished shards stale.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from companion.data import streams
from companion.data.eeg import NINE
from companion.eeg import trials as eeg_trials
from companion.eeg.trials import Alignment, Trials
from companion.params import AgentParams, Count, NotNegative, ParameterError, Positive, Rate
from ldp_core import optimizer

Variant = Literal["quantised", "unquantised"]
VARIANTS: tuple[Variant, ...] = ("quantised", "unquantised")
RUNS_APART = 1000  # run number = RUNS_APART * seed number + left-out subject: no two folds share a coin, a draw or a start
AGENTS = 5


class Params(AgentParams):
    """The paper's third experiment (section 4.3). Schedules, samples and iterations are the paper's; what it leaves open is a
    parameter here: the network's weights, the size of the initial convolution weights, normalisation, sampling rate.
    """

    weight: Positive = 0.05
    lam_0: Positive = 0.2
    nu: float = 0.61
    d_0: Positive = 0.5
    d_0_slope: NotNegative = 0.02
    varsigma: float = 0.5
    data: str = "bnci2014_001"
    subjects: Annotated[tuple[Count, ...], Field(min_length=AGENTS + 1)] = NINE
    folds: tuple[Count, ...] = ()  # the subjects left out in turn; empty: every one
    seeds: Count = 3
    iterations: Count = 400
    samples: Count = 20
    evaluate_every: Count = 20
    fs: Rate = 125.0
    band: Annotated[tuple[Positive, ...], Field(min_length=2, max_length=2)] = (8.0, 30.0)
    window: tuple[NotNegative, ...] = ()  # seconds after the cue; empty: all of each trial
    align: Alignment = "subject"
    batch_norm: Literal["batch", "fixed", "none"] = "batch"
    convolution_scale: Positive = 0.15

    def check(self) -> None:
        """Raise when the parameters contradict each other, before anything is computed."""
        self.algorithm()
        self.deal(0)
        eeg_trials.check_window(self.window)
        if self.evaluate_every > self.iterations:
            raise ParameterError(f"evaluate_every = {self.evaluate_every} must not exceed iterations = {self.iterations}")
        strangers = sorted(set(self.folds) - set(self.subjects))
        if strangers:
            raise ParameterError(
                f"folds = {list(self.folds)}: subject {strangers[0]} is not among subjects = {list(self.subjects)}"
            )

    def deal(self, run: int) -> dict[int, streams.Fold]:
        """Return, for every left-out subject, whose trials each agent holds in this run."""
        try:
            return {fold.test: fold for fold in streams.folds(self.seed, self.subjects, AGENTS, run)}
        except ValueError as error:
            raise ParameterError(str(error)) from None

    @property
    def tests(self) -> tuple[int, ...]:
        """Return the subjects left out in turn."""
        return self.folds or self.subjects


def compute(params: dict, data: str, test: int, run: int, variant: Variant) -> dict[str, np.ndarray]:
    """Return what five agents learn without the left-out subject: `t [times]`, and `accuracy` on that subject and `loss` on the
    agent's own history, `[times, agents]` each. After a divergence they are NaN, and `diverged` is its iteration (else -1).
    """
    import torch

    from companion.problems.eegnet_history import initial_state

    torch.set_num_threads(1)
    settings = Params(**params)
    trials = found(settings, data)
    number = RUNS_APART * run + test
    algorithm = settings.algorithm()
    oracle = oracle_of(settings, trials, test, run)
    theta_0 = initial_state(oracle.network, settings.convolution_scale, seed=settings.seed, run=number)
    theta_0 = np.repeat(theta_0[None, None], AGENTS, axis=1)
    if settings.batch_norm == "fixed":
        oracle.calibrate(theta_0)
    tested = trials.rows([test])
    times = evaluation_times(settings.iterations, settings.evaluate_every)
    accuracy, loss = (np.full((len(times), AGENTS), np.nan) for _ in range(2))

    def evaluate(state: optimizer.State, messages: optimizer.Messages | None = None) -> None:
        if state.t in times:
            here, seen = times.index(state.t), max(state.t - 1, 0)  # theta_t is made from the history up to t - 1
            loss[here] = oracle.loss(state.theta, seen)[0]
            if np.isfinite(loss[here]).all():
                accuracy[here] = oracle.accuracy(state.theta, tested, seen)[0]

    diverged = -1
    twin = optimizer.Algorithm1(algorithm.network, algorithm.schedules, quantised=variant == "quantised")
    progress = _Counted(oracle)
    try:
        evaluate(optimizer.run(
            twin, progress, theta_0, settings.iterations, seed=settings.seed, runs=[number], observe=evaluate
        ))  # fmt: skip
    except ArithmeticError:
        diverged = progress.t
    return {"t": np.array(times), "accuracy": accuracy, "loss": loss, "diverged": np.array(diverged)}


def found(settings: Params, data: str) -> Trials:
    """Return the trials of an experiment, and make sure that they are those meant."""
    trials = eeg_trials.cached(
        settings.data, settings.subjects, settings.band, settings.window, settings.fs, settings.align, settings.seed
    )
    eeg_trials.require(trials, data)
    return trials


def oracle_of(settings: Params, trials: Trials, test: int, run: int):
    """Return the full-history oracle of the agents of one fold: who holds whom, and which trials arrive when."""
    from companion.problems.eegnet_history import EEGHistory

    fold, number = settings.deal(run)[test], RUNS_APART * run + test
    history = [
        streams.stream(settings.seed, number, agent, settings.iterations, settings.samples, trials.rows(hand))
        for agent, hand in enumerate(fold.train)
    ]
    return EEGHistory(lambda: network_of(settings, trials), prepared(trials), trials.y, np.array(history)[None])


@lru_cache(maxsize=1)
def prepared(trials: Trials):
    """Return what EEGNet, however it normalises, needs to know of all trials; made once in each process."""
    from companion.problems.eegnet import EEGNet
    from companion.problems.eegnet_history import prepare

    return prepare(EEGNet(*trials.x.shape[1:], trials.fs, len(trials.classes)), trials.x)


def network_of(settings: Params, trials: Trials, **options):
    """Return EEGNet for these trials."""
    from companion.problems.eegnet import EEGNet

    channels, samples = trials.x.shape[1:]
    return EEGNet(channels, samples, trials.fs, len(trials.classes), batch_norm=settings.batch_norm, **options)


def evaluation_times(iterations: int, every: int) -> list[int]:
    """Return 0, every, 2 every, ... and the last iteration."""
    return sorted({*range(0, iterations, every), iterations})


class _Counted:
    """An oracle that remembers the iteration it was last asked for: it names the one that diverged."""

    def __init__(self, oracle: optimizer.Oracle):
        self.oracle, self.t = oracle, 0

    def __call__(self, theta: np.ndarray, t: int) -> np.ndarray:
        self.t = t
        return self.oracle(theta, t)
