"""Notebook 4: five agents train EEGNet without one of the subjects. Shards of Fig. 6 and budgets.

No certificate exists for EEGNet: it needs a bound on all gradients (Assumption 3), and nobody knows
one. What can be computed is the budget of a trajectory (`spent`): one agent's data point (twenty
trials) replaced by another, what it receives held fixed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
import torch

from companion.data import streams
from companion.eeg.params import Training
from companion.eeg.trials import Trials, found
from companion.params import AGENTS
from companion.problems.adam import Adam
from companion.problems.eegnet import EEGNet, Prepared
from companion.problems.eegnet_history import EEGHistory, initial_state, prepare
from ldp_core import optimizer
from ldp_core.accountant import trajectory
from ldp_core.randomness import Purpose, generator

Variant = Literal["quantised", "unquantised"]
RUNS_APART = 1000  # run number = RUNS_APART * seed number + left-out subject: no two share a coin
DRAWS, CONFIDENCE = 2000, 0.99  # of the exact total variation's estimate
BATCH, RATE = 64, 1e-3  # of Adam, on one computer
Result = dict[str, np.ndarray]


class Fold(NamedTuple):
    """One training, ready to run: who holds which trials, and what nobody else shares."""

    settings: Training
    trials: Trials
    oracle: EEGHistory
    number: int
    first: int  # number of the initial value, which all folds of a run share


def fold(params: dict, data: str, test: int, run: int) -> Fold:
    """Return the training of the agents who share out all subjects but one."""
    torch.set_num_threads(1)
    settings, number = Training(**params), RUNS_APART * run + test
    trials = found(settings, data)
    size = settings.iterations, settings.samples
    history = [
        streams.stream(settings.seed, number, agent, *size, trials.rows(hand))
        for agent, hand in enumerate(settings.deal(run)[test])
    ]
    network = network_of(trials, settings.batch_norm)
    oracle = EEGHistory(network, prepared(trials), trials.y, np.array(history)[None])
    return Fold(settings, trials, oracle, number, RUNS_APART * run)


def network_of(trials: Trials, batch_norm: str) -> EEGNet:
    """Return EEGNet for these trials."""
    shape = (*trials.x.shape[1:], trials.fs, len(trials.classes))
    return EEGNet(*shape, batch_norm=batch_norm)


@lru_cache(maxsize=1)
def prepared(trials: Trials) -> Prepared:
    """Return what EEGNet, however it normalises, needs of all trials; made once in a process."""
    return prepare(network_of(trials, "batch"), trials.x)


def start(here: Fold) -> np.ndarray:
    """Return theta_0 [1, agents, dim], the same at all agents; fixed statistics are taken there.

    All folds of a run start alike, as from a public value: what differs between their models is
    who took part.
    """
    settings, oracle = here.settings, here.oracle
    scale = settings.convolution_scale
    theta_0 = initial_state(oracle.network, scale, seed=settings.seed, run=here.first)
    theta_0 = np.repeat(theta_0[None, None], AGENTS, axis=1)
    if settings.batch_norm == "fixed":
        oracle.calibrate(theta_0)
    return theta_0


def train(here: Fold, theta_0, variant: Variant, oracle=None, observe=None) -> optimizer.State:
    """Return the last state of Algorithm 1, or of its twin that sends real numbers."""
    settings, full = here.settings, here.settings.algorithm()
    algorithm = dataclasses.replace(full, quantised=variant == "quantised")
    options = {"seed": settings.seed, "runs": [here.number], "observe": observe}
    return optimizer.run(algorithm, oracle or here.oracle, theta_0, settings.iterations, **options)


def learnt(params: dict, data: str, test: int, run: int, variant: Variant) -> Result:
    """Return what agents learn without a subject: `t [times]` and `accuracy [times, agents]` on it.

    And the mean `loss` of the last models on every subject's trials, who took part or not. After a
    divergence accuracies and losses are NaN, and `diverged` is its iteration (else -1).
    """
    here = fold(params, data, test, run)
    settings, tested = here.settings, here.trials.rows([test])
    times = evaluation_times(settings.iterations, settings.evaluate_every)
    accuracy, progress, diverged = np.full((len(times), AGENTS), np.nan), _Counted(here.oracle), -1
    loss = np.full(len(settings.subjects), np.nan)

    def evaluate(state: optimizer.State, messages: optimizer.Messages | None = None) -> None:
        if state.t in times:
            seen = max(state.t - 1, 0)  # theta_t is made from the history up to t - 1
            accuracy[times.index(state.t)] = here.oracle.accuracy(state.theta, tested, seen)[0]

    try:
        last = train(here, start(here), variant, progress, evaluate)
        evaluate(last)
        loss = losses(here, last)
    except ArithmeticError:
        diverged = progress.t
    named = {"t": np.array(times), "accuracy": accuracy, "loss": loss}
    return {**named, "diverged": np.array(diverged)}


def losses(here: Fold, last: optimizer.State) -> np.ndarray:
    """Return the mean loss of all agents' models on the trials of every subject."""
    y = here.trials.y
    outputs = here.oracle.outputs(last.theta, np.arange(len(y)), here.settings.iterations - 1)[0]
    outputs = outputs - outputs.max(axis=-1, keepdims=True)
    of_label = np.take_along_axis(outputs, y[None, :, None], axis=-1)[..., 0]
    loss = (np.log(np.exp(outputs).sum(axis=-1)) - of_label).mean(axis=0)
    people = [here.trials.rows([subject]) for subject in here.settings.subjects]
    return np.array([loss[own].mean() for own in people])


def evaluation_times(iterations: int, every: int) -> list[int]:
    """Return 0, every, 2 every, ... and the last iteration."""
    return sorted({*range(0, iterations, every), iterations})


class _Counted:
    """An oracle that remembers the iteration it was last asked for: it names what diverged."""

    def __init__(self, oracle: optimizer.Oracle):
        self.oracle, self.t = oracle, 0

    def __call__(self, theta: np.ndarray, t: int) -> np.ndarray:
        self.t = t
        return self.oracle(theta, t)


def centralised(params: dict, data: str, test: int, run: int, epochs: int) -> Result:
    """Return `epoch`, `accuracy` on the left-out subject and `validation` on a kept one.

    EEGNet is trained by Adam on all others, on one computer. The one kept is the next in the list
    of subjects, the first after the last; it says after which epoch to stop. Max-norm constraints
    as EEGNet's authors use them, no dropout. At the test normalisation takes the statistics of all
    training trials, as it does for the agents.
    """
    torch.set_num_threads(1)
    settings, number = Training(**params), RUNS_APART * run + test
    trials = found(settings, data)
    network, labels = network_of(trials, "batch"), torch.from_numpy(trials.y)
    first = torch.tensor(initial_state(network, seed=settings.seed, run=number))
    torch.nn.utils.vector_to_parameters(first.float(), network.parameters())
    known, kept = prepared(trials), following(test, settings.subjects)
    judged = [torch.from_numpy(trials.rows([subject])) for subject in (test, kept)]
    trained = torch.from_numpy(trials.rows(sorted({*settings.subjects} - {test, kept})))
    adam = Adam(network.parameters())
    reached = [_judged(network, known, labels, trained, judged)]
    for epoch in range(epochs):
        draw = generator(settings.seed, Purpose.DATA, number, agent=1000, t=epoch)
        order = torch.from_numpy(draw.permutation(len(trained)))
        for rows in trained[order].split(BATCH):
            outputs = network(known.select(rows))
            adam.descend(torch.nn.functional.cross_entropy(outputs, labels[rows]), RATE)
            network.constrain()
        reached.append(_judged(network, known, labels, trained, judged))
    accuracy, validation = np.array(reached).T
    return {"epoch": np.arange(epochs + 1), "accuracy": accuracy, "validation": validation}


@torch.no_grad()
def _judged(network: EEGNet, known: Prepared, labels, trained, judged) -> list[float]:
    """Return the share of right answers on each of some rows."""
    statistics = network.statistics(known.select(trained))
    outputs = [network(known.select(rows), statistics=statistics) for rows in judged]
    right = [o.argmax(1) == labels[rows] for o, rows in zip(outputs, judged, strict=True)]
    return [float(share.double().mean()) for share in right]


def following(subject: int, subjects: Sequence[int]) -> int:
    """Return the subject that comes next in the list, the first after the last."""
    return subjects[(list(subjects).index(subject) + 1) % len(subjects)]


def spent(params: dict, data: str, test: int, agent: int, arrivals: list[int]) -> Result:
    """Return what replacing a data point changes, for each time k of its arrival.

    The paper's sum, the sum of TVs and 1 - prod(1 - TV) at the end, `paper`, `sum`, `product`
    `[arrivals]`, and the total variation of all messages, `exact [arrivals, (low, mid, high)]`.
    """
    here = fold(params, data, test, 0)
    theta_0, transcript = start(here), optimizer.Transcript()
    train(here, theta_0, "quantised", observe=transcript)
    algorithm = here.settings.algorithm()
    received = trajectory.received(algorithm, transcript, agent)
    own = algorithm, agent, received, theta_0[0, agent][None]
    found = [_replaced(here, own, k) for k in arrivals]
    sums = {
        name: [getattr(one, name)[-1, 0] for one in found] for name in ("paper", "sum", "product")
    }
    exact = [[float(part[0]) for part in one.exact[:3]] for one in found]
    return {name: np.array(values) for name, values in {**sums, "exact": exact}.items()}


def _replaced(here: Fold, own: tuple, k: int):
    """Return the budget of an agent's trajectory when data point k is replaced."""
    (algorithm, agent, received, theta_0), settings = own, here.settings
    history = here.oracle.history[:, agent : agent + 1]
    modified = history.copy()
    draw = generator(settings.seed, Purpose.MODIFICATION, here.number, agent=agent, t=k)
    modified[0, 0, k] = draw.choice(np.unique(history), settings.samples)
    known = here.oracle.network, here.oracle.prepared, here.trials.y
    worlds = [EEGHistory(*known, rows) for rows in (history, modified)]
    options = {"samples": DRAWS, "seed": settings.seed, "confidence": CONFIDENCE}
    return trajectory.budget(
        algorithm, agent, received, *worlds, theta_0, exact="monte carlo", **options
    )
