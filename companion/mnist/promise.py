"""Notebook 3: promises for pictures, kept on real digits, and attacked.

Five agents are dealt disjoint shares of the training images, so that every image arrives once. They
train a softmax, or one hidden layer, on public features (`problems.scattering`), or a convolutional
network on pixels (`problems.convolution`), with per-image clipping, levels of degree three,
gradients at the sent value and a box: what `accountant.promise` certifies for all time. Published,
and judged here, are *sent* values: an agent's own state is private.

CHOSEN holds the settings. They were chosen on a split of the training images (50,000 to train on,
10,000 to judge by), never on test images, and then left alone. Those of the convolution, and its
shape, were compared with gradients over a thousand images an agent, beside the noise of all, and
confirmed once on all.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Literal, NamedTuple

import numpy as np

from companion.attacks import informed
from companion.data import streams
from companion.mnist.digits import digits
from companion.params import AGENTS
from companion.problems import scattering
from companion.problems.clipped import History, Model, Perceptron, Softmax
from companion.problems.convolution import Convolution
from ldp_core import network, optimizer
from ldp_core.accountant import promise
from ldp_core.accountant.promise_plan import Plan
from ldp_core.optimizer import Algorithm1, Schedules
from ldp_core.randomness import Purpose, generator

Arrays = dict[str, np.ndarray]
Kind = Literal["softmax", "network", "convolution"]
Variant = Literal["promise", "twin", "unprotected"]
SAMPLES = 20  # images of a data point
WEIGHT, NU, VARSIGMA = 0.25, 0.9, 0.51  # of the edges, and the exponents of both schedules
HIDDEN, FILTERS = 33, 104  # of the network's hidden layer, and of the convolution
BOX, MARGIN = 16.0, 0.999  # so small that the float64 program keeps the promise too
LOOKS = 10  # times at which accuracy is judged
GALLERY = 99  # other pictures among which an attacker looks for the true one
CLASSES = 10


class Setting(NamedTuple):
    """What is chosen for one model: the clip, lam_0 = effort (delta N_0)^power, and (lam_0, nu) of
    the learner that promises nothing and clips nothing."""

    clip: float
    effort: float
    power: float
    unprotected: tuple[float, float]


CHOSEN = {
    "softmax": Setting(0.1, 2.6, 0.9, (1500.0, 0.6)),
    "network": Setting(0.3, 0.29, 0.9, (30.0, 0.9)),
    "convolution": Setting(0.1, 1.9, 0.9, (180.0, 0.6)),
}
UNCLIPPED = 1e3  # a clip that no gradient reaches


def whitening() -> Arrays:
    """Return the `mean` and the `matrix` of the public features, once for all pictures."""
    return scattering.whitening()._asdict()


def features(data: str, first: int, count: int, mean: np.ndarray, matrix: np.ndarray) -> Arrays:
    """Return the public features `x [count, FEATURES]` of pictures number first, first + 1, ..."""
    pictures, known = digits(data)[0][first : first + count, 0], scattering.Whitening(mean, matrix)
    return {"x": scattering.features(pictures.numpy(), known).astype(np.float16)}


def model_of(kind: Kind) -> Model:
    """Return the model that is trained."""
    if kind == "convolution":
        return Convolution(FILTERS, CLASSES)
    known = scattering.FEATURES
    return Softmax(known, CLASSES) if kind == "softmax" else Perceptron(known, HIDDEN, CLASSES)


def plan_of(kind: Kind, delta: float, images: int, iterations: int, copies: int = 1) -> Plan:
    """Return the promise of delta for all time when five agents share so many images.

    The unit of privacy is `copies` images of one agent.
    """
    model, chosen = model_of(kind), CHOSEN[kind]
    warm_up = images // (AGENTS * SAMPLES) - iterations
    lam_0 = chosen.effort * (delta * warm_up * SAMPLES) ** chosen.power
    options = {"warm_up": warm_up, "samples": SAMPLES, "cone": model.cone, "dim": model.dim}
    unit = Schedules(lam_0, NU, (1.0,) * AGENTS, (VARSIGMA,) * AGENTS)
    terms = promise.Terms(network.paper(WEIGHT), unit, chosen.clip, **options)
    found = promise.shifts(terms, math.inf)
    d_0 = promise.calibrate(found, np.full(AGENTS, MARGIN * delta))
    schedules = dataclasses.replace(unit, d_0=tuple(d_0))
    box = BOX * (float(d_0.max()) + lam_0 * chosen.clip)
    terms = dataclasses.replace(terms, schedules=schedules, box=box, copies=copies)
    return Plan(terms, promise.certify(terms, math.inf), math.nan, 1)


def train(
    kind: Kind,
    variant: Variant,
    delta: float,
    seed: int,
    images: int,
    iterations: int,
    attacked: int,
    x: np.ndarray,
    y: np.ndarray,
) -> Arrays:
    """Return `t`, `accuracy [times, agents]` of sent values on test images, and what attackers
    read.

    `x`, `y` are features, or pixels, and labels, those of `images` training images first. "twin"
    runs the same without quantisation, "unprotected" also without clipping, with a step chosen for
    it. `labels` and `pictures` are the shares that the informed attacker reads of `attacked` images
    an agent.
    """
    plan, x = plan_of(kind, delta, images, iterations), x.astype(np.float32)
    oracle, algorithm = learners(kind, variant, plan, x, y, seed, images)
    looks = set(np.linspace(0, iterations - 1, LOOKS).astype(int).tolist())
    ear, series = informed.Ear(algorithm.degree), []

    def observe(state: optimizer.State, messages: optimizer.Messages) -> None:
        if variant == "promise" and attacked:
            ear(state, messages)
        if state.t in looks:
            sent = messages.values()[0][0]
            hits = oracle.accuracy(sent, x[images:], y[images:])
            series.append((state.t + 1, *hits))

    optimizer.run(algorithm, oracle, start(kind, seed), iterations, seed=seed, observe=observe)
    table = np.array(series)
    result = {"t": table[:, 0].astype(int), "accuracy": table[:, 1:]}
    result |= {"delta": plan.certificate.delta, "program": plan.certificate.program}
    if variant == "promise" and attacked:
        result |= _read(algorithm, oracle, ear, attacked, x[images:], y[images:])
    return result


def learners(
    kind: Kind, variant: Variant, plan: Plan, x, y, seed: int, images: int
) -> tuple[History, Algorithm1]:
    """Return the oracle of five agents, to whom the seed deals the first `images` pictures, and
    their algorithm: the plan's, or without quantisation, and unprotected without clipping too."""
    shares, terms = streams.shares(seed, 0, images, AGENTS), plan.terms
    own = [x[rows] for rows in shares], [y[rows] for rows in shares]
    oracle = History(model_of(kind), *own, float(terms.clip[0]), terms.warm_up, terms.samples)
    algorithm = plan.algorithm()
    if variant == "promise":
        plan.require(algorithm, oracle)
        return oracle, algorithm
    plain = {"quantised": False, "degree": 1, "at_sent": False, "box": None}
    if variant == "unprotected":
        lam_0, nu = CHOSEN[kind].unprotected
        plain |= {"schedules": dataclasses.replace(algorithm.schedules, lam_0=lam_0, nu=nu)}
        oracle = dataclasses.replace(oracle, clip=UNCLIPPED)
    return oracle, dataclasses.replace(algorithm, **plain)


def start(kind: Kind, seed: int) -> np.ndarray:
    """Return theta_0 `[1, agents, dim]`."""
    model = model_of(kind)
    if isinstance(model, Perceptron):
        start = model.start(generator(seed, Purpose.INITIAL))
        return np.repeat(start[None, None], AGENTS, axis=1)
    return np.zeros((1, AGENTS, model.dim))


def _read(algorithm: Algorithm1, oracle: History, ear: informed.Ear, attacked: int, x, y) -> Arrays:
    """Return the shares `[agents]` of labels, and of pictures among 100, that are found."""
    labels, pictures = np.empty((2, AGENTS))
    for agent in range(AGENTS):
        own, true = oracle.x[agent][:attacked], oracle.y[agent][:attacked]
        heard = algorithm, oracle, ear, agent
        digits = (true[:, None] + np.arange(CLASSES)) % CLASSES  # its own label, and the others
        relabelled = informed.Samples(np.repeat(own[:, None], CLASSES, axis=1), digits)
        labels[agent] = _right(informed.likelihoods(*heard, relabelled))
        both = np.concatenate([own, x[:GALLERY]]), np.concatenate([true, y[:GALLERY]])
        together = informed.Samples(*(part[None] for part in both))  # every pair is compared once
        among = informed.likelihoods(*heard, together)[0]
        sets = [[k, *range(attacked, len(among))] for k in range(attacked)]
        pictures[agent] = _right(np.stack([among[np.ix_(rows, rows)] for rows in sets]))
    return {"labels": labels, "pictures": pictures}


def _right(found: np.ndarray) -> float:
    """Return how often the likeliest hypothesis is the true one, each taken for it in turn."""
    return float((found.argmax(axis=2) == np.arange(found.shape[1])).mean())
