"""Notebook 3: Algorithm 1 and its neighbours on one bench, reading digits.

A softmax on public features, with the promise's network, clipping and disjoint shares of the images
(`promise`). The bench is that of notebook 2 (`companion.neighbours.bench`), with one difference:
noise is calibrated so that every agent's certificate *for all time*, for one image, is the target.

*The search*, the same for each mechanism and target: a grid of equal size, each candidate trained
once on five sixths of the training images and judged by the last sixth. Gradients are then over
every fifth image, while the noise is what all of them allow. Test images are used after the choice.

All that is trained in a shard goes in step: to look at the images costs most, and one look serves
all.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from companion.data import streams
from companion.mnist.params import SAMPLES, Params, learnt_from
from companion.mnist.promise import CHOSEN, CLASSES, WEIGHT, Arrays, model_of
from companion.neighbours import bench
from companion.neighbours.bench import MEASURES, ONE_VALUE, REFERENCES, Bench, Choice
from companion.params import AGENTS
from companion.problems import scattering
from companion.problems.joint import Joint
from ldp_core import network
from ldp_core.optimizer import Messages

CLIP = CHOSEN["softmax"].clip
THIN = 5  # in the search gradients are over every fifth image
TUNING = 1_000_000  # seeds from this one on are used for the search alone
HORIZON = 20_000  # iterations that certificates follow one by one; more would change little
GRID = {f"neighbour_{name}" for name in ("pushes", "nu", "varsigma", "weakening", "fading")}


@cache
def bench_of(mechanism: str, images: int, iterations: int) -> Bench:
    """Return the bench of digits: one object for all questions.

    A gradient is x e^T, with e = q - e_y: the classes other than y share what y lacks, so the l1
    norm of e is at most that of (-1, 1/9, ..., 1/9) for the same l2 norm; and that of x is largest
    when all features are alike. Where responses have both signs, sqrt(dim) is all that is proven.
    """
    error = np.array([-1.0, *[1.0 / (CLASSES - 1)] * (CLASSES - 1)])
    row = np.kron(np.ones(scattering.FEATURES), error)
    row /= np.linalg.norm(row)
    spread = np.abs(row).sum() * (1.0 + 1e-12) if mechanism in ONE_VALUE else math.sqrt(len(row))
    warm_up = images // (AGENTS * SAMPLES) - iterations
    counted = CLIP, warm_up, SAMPLES, math.inf
    return Bench(network.paper(WEIGHT), *counted, row, float(spread), HORIZON)


def oracle(seed: int, images: int, iterations: int, x, y, thin: int = 1) -> Joint:
    """Return the gradients when the first `images` are dealt to five agents, every thin-th used."""
    parts = [rows[::thin] for rows in streams.shares(seed, 0, images, AGENTS)]
    warm_up = images // (AGENTS * SAMPLES) - iterations
    own = [x[rows] for rows in parts], [y[rows] for rows in parts]
    return Joint(model_of("softmax"), *own, CLIP, warm_up, SAMPLES // thin)


def learnt(algorithms: list, gradients: Joint, iterations: int, seed: int, x, y) -> Arrays:
    """Return accuracies on x, y of every algorithm, `own` and `listener [algorithms]`; and `bits`.

    `own` is the mean over agents of their own models, `listener` that of the mean of everything
    that was sent in the last tenth of the iterations, which anybody can compute.
    """
    dim = gradients.model.dim
    states = [one.init(np.zeros((1, AGENTS, dim))) for one in algorithms]
    coins = [one.coins(seed) for one in algorithms]
    heard, counted, last = np.zeros((len(states), dim)), [], max(1, iterations // 10)
    for t in range(iterations):
        draws = [draw([0], t, dim) for draw in coins]
        pairs = together(algorithms, gradients, states, draws)
        states = [state for state, _ in pairs]
        if t >= iterations - last:
            heard += [messages.values()[0].mean(axis=(0, 1)) for _, messages in pairs]
            counted.append([bench.bits(messages) for _, messages in pairs])
    own = gradients.accuracy(np.concatenate([state.theta for state in states]), x, y).mean(axis=1)
    listener = gradients.accuracy(heard, x, y)
    return {"own": own, "listener": listener, "bits": np.mean(counted, axis=0)}


def together(algorithms: list, gradients: Joint, states: list, draws) -> list:
    """Return (next state, messages) of every algorithm, as `optimizer.run` makes them for one.

    Gradients are taken at what was sent, or at theta where that is sent in the clear.
    """
    sent: list[Messages | None] = [
        one.send(state, draw) if getattr(one, "at_sent", False) else None
        for one, state, draw in zip(algorithms, states, draws, strict=True)
    ]
    at = [
        state.theta if messages is None else messages.values()[0]
        for state, messages in zip(states, sent, strict=True)
    ]
    found = gradients(np.concatenate(at), states[0].t)[:, None]
    return [
        (one.move(*moved, messages), messages) if messages else one.step(*moved, draw)
        for one, *moved, draw, messages in zip(algorithms, states, found, draws, sent, strict=True)
    ]


def tune(params: dict, mechanism: str, targets: list, images: int, x, y) -> Arrays:
    """Return the scores `[targets, candidates]` of a mechanism by measure, on held-out images.

    `x` and `y` are the training images alone.
    """
    settings, part = Params(**params), learnt_from(images)
    T, seed = settings.neighbour_iterations, TUNING + settings.seed
    known = bench_of(mechanism, part, T)
    grid = [
        [bench.build(known, mechanism, choice, d_0.tolist()) for d_0 in scales]
        for choice in bench.candidates(settings, mechanism, CLIP)
        for scales in [bench.calibrated(known, mechanism, choice, targets)]
    ]
    x = x.astype(np.float32)
    gradients = oracle(seed, part, T, x, y, THIN)
    rest = x[part:images], y[part:images]
    found = learnt([one for by_target in grid for one in by_target], gradients, T, seed, *rest)
    return {name: found[name].reshape(len(grid), -1).T for name in MEASURES}


def settle(
    mechanism: str, choice: list, target: float, images: int, iterations: int
) -> dict[str, np.ndarray]:
    """Return the scales `d_0` of a choice, and what is known of its delta (`bench.deltas`)."""
    known = bench_of(mechanism, images, iterations)
    (d_0,) = bench.calibrated(known, mechanism, Choice(*choice), (target,))
    if mechanism in REFERENCES:
        return {"d_0": d_0}
    found = bench.deltas(known, mechanism, Choice(*choice), d_0, iterations)
    return {"d_0": d_0} | {name: np.array(delta) for name, delta in found.items()}


def train(asked: list, images: int, iterations: int, seed: int, x, y) -> Arrays:
    """Return what `learnt` returns on test images, of all that is `asked` for.

    Each is [mechanism, choice, d_0]; `x`, `y` are the training images, then those of the test.
    """
    algorithms = [
        bench.build(bench_of(mechanism, images, iterations), mechanism, Choice(*choice), d_0)
        for mechanism, choice, d_0 in asked
    ]
    x = x.astype(np.float32)
    gradients = oracle(seed, images, iterations, x, y)
    return learnt(algorithms, gradients, iterations, seed, x[images:], y[images:])
