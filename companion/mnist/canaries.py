"""Notebook 3: canaries and members. What trainings give away about who was in them.

audit     one training in which many images carry one of two labels, by a fair coin each; then
          every coin is guessed from everything that was sent (`attacks.onerun`)
losses    two trainings on disjoint halves of the images; whose images were they, by the losses
          of the models that were published?
"""

from __future__ import annotations

import dataclasses
from collections import deque

import numpy as np

from companion.attacks import eavesdropper, informed, onerun
from companion.mnist import promise
from companion.params import AGENTS
from companion.problems.clipped import Batch, History
from ldp_core import optimizer
from ldp_core.randomness import Purpose, generator

Arrays = dict[str, np.ndarray]


def audit(
    kind: promise.Kind,
    variant: promise.Variant,
    delta: float,
    seed: int,
    images: int,
    iterations: int,
    canaries: int,
    x: np.ndarray,
    y: np.ndarray,
) -> Arrays:
    """Return `coin` and `score [agents, canaries]` (positive: the guess is True), certified
    `delta`.

    The first `canaries` images of every agent have their own label (True) or the next one. Under a
    promise the score is the likelihood ratio of the two, to first order around agents with half of
    each (`onerun.Halfway`). What is sent unrounded shows the gradient, and the coins solve a linear
    system: those of the last iteration but one are solved for.
    """
    plan, x = promise.plan_of(kind, delta, images, iterations), x.astype(np.float32)
    oracle, algorithm = promise.learners(kind, variant, plan, x, y, seed, images)
    draws = [generator(seed, Purpose.MODIFICATION, agent=agent) for agent in range(AGENTS)]
    coin, about, sown = np.stack([draw.random(canaries) < 0.5 for draw in draws]), [], []
    for own, labels, fell in zip(oracle.x, oracle.y, coin, strict=True):
        pair = np.stack([labels[:canaries], (labels[:canaries] + 1) % promise.CLASSES], axis=1)
        about.append(informed.Samples(np.repeat(own[:canaries, None], 2, axis=1), pair))
        sown.append(np.concatenate([np.where(fell, *pair.T), labels[canaries:]]))
    oracle = dataclasses.replace(oracle, y=sown)
    listen = _rounded if variant == "promise" else _clear
    score = listen(algorithm, oracle, promise.start(kind, seed), iterations, seed, about, coin)
    certified = plan.certificate.delta if variant == "promise" else np.ones(AGENTS)
    return {"coin": coin, "score": score, "delta": certified}


def _rounded(algorithm, oracle: History, theta_0, iterations, seed, about, coin) -> np.ndarray:
    """Return the scores `[agents, canaries]` from everything that quantised agents sent."""
    ear, halfway = informed.Ear(algorithm.degree), onerun.Halfway(algorithm, oracle.model.dim)

    def observe(state: optimizer.State, messages: optimizer.Messages) -> None:
        ear(halfway.beside(state), messages)
        sent = messages.values()[0][0]
        halfway.move(state, np.stack([
            _towards_half(oracle, sent[i], about[i], coin[i], state.t) for i in range(AGENTS)
        ]))  # fmt: skip

    optimizer.run(algorithm, oracle, theta_0, iterations, seed=seed, observe=observe)
    ratios = [informed.likelihoods(algorithm, oracle, ear, i, about[i]) for i in range(AGENTS)]
    return np.stack([(ratio[:, 1, 0] - ratio[:, 0, 1]) / 2.0 for ratio in ratios])


def _towards_half(oracle: History, theta, about: informed.Samples, coin, t: int) -> np.ndarray:
    """Return the gradient with half of each canary minus the one with those that were drawn."""
    rows, drawn = np.arange(len(coin)), np.where(coin, 0, 1)
    other, own = (
        oracle.model.clipped(theta, Batch.of(about.x[rows, k], about.y[rows, k]), oracle.clip)
        for k in (1 - drawn, drawn)
    )
    return (other - own) / (2.0 * oracle.seen(t))


def _clear(algorithm, oracle: History, theta_0, iterations, seed, about, coin) -> np.ndarray:
    """Return the scores `[agents, canaries]` from the last two messages of unquantised agents."""
    heard: deque[optimizer.Messages] = deque(maxlen=2)
    options = {"seed": seed, "observe": lambda state, messages: heard.append(messages)}
    optimizer.run(algorithm, oracle, theta_0, iterations, **options)
    theta, t = heard[0].theta, heard[0].t
    difference = (eavesdropper.gradients(algorithm, heard).gradient[0] - oracle(theta, t))[0]
    for i in range(AGENTS):  # what is heard minus what is known: the half of everything
        difference[i] -= _towards_half(oracle, theta[0, i], about[i], coin[i], t)
    return np.stack([
        _solved(oracle, theta[0, i], difference[i], about[i], t) for i in range(AGENTS)
    ])  # fmt: skip


def _solved(oracle: History, theta, difference, about: informed.Samples, t: int) -> np.ndarray:
    """Return the signs `[canaries]` that explain a gradient's difference from the half of each."""
    own, other = (
        oracle.model.factors(theta, Batch.of(about.x[:, k], about.y[:, k]), oracle.clip)
        for k in (0, 1)
    )
    first = about.x[:, 0, :, None] * (own.u - other.u)[:, None, :]
    columns = np.concatenate([first.reshape(len(first), -1), own.rest - other.rest], axis=1)
    return np.linalg.lstsq(columns.T / (2.0 * oracle.seen(t)), difference, rcond=None)[0]


def losses(
    kind: promise.Kind,
    variant: promise.Variant,
    delta: float,
    seed: int,
    images: int,
    iterations: int,
    half: int,
    x: np.ndarray,
    y: np.ndarray,
) -> Arrays:
    """Return `member` and `loss [images]` of the mean of the last sent models, trained on one half.

    The seed cuts the images into halves 0 and 1; every image is a member of one of them.
    """
    order = generator(seed, Purpose.SPLIT, 1).permutation(images)
    rows = order[half * (images // 2) : (half + 1) * (images // 2)]
    plan, x = promise.plan_of(kind, delta, len(rows), iterations), x[:images].astype(np.float32)
    oracle, algorithm = promise.learners(kind, variant, plan, x[rows], y[rows], seed, len(rows))
    last: deque[optimizer.Messages] = deque(maxlen=1)
    options = {"seed": seed, "runs": [half]}  # each half has its own coins
    options["observe"] = lambda state, messages: last.append(messages)
    optimizer.run(algorithm, oracle, promise.start(kind, seed), iterations, **options)
    outputs = oracle.model.outputs(last[0].values()[0][0].mean(axis=0), x).astype(np.float64)
    own = np.take_along_axis(outputs, y[:images, None], axis=1)[:, 0]
    loss = np.logaddexp.reduce(outputs, axis=1) - own
    return {"member": np.isin(np.arange(images), rows), "loss": loss}
