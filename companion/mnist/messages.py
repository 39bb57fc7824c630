"""What an eavesdropper hears around one image: real messages, and the gradients it makes of them.

Every agent holds a single image and computes its gradient at every iteration: the most exposed data
set there is, and the one that iDLG attacks. A gradient over a batch of 20 images, as in the paper's
training, is far harder to invert.
"""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import nn

from companion.attacks import eavesdropper, matching
from companion.params import AGENTS, public_seed
from companion.problems import parameters
from ldp_core.optimizer import DPSGD, Algorithm, Algorithm1, Messages, State, metropolis
from ldp_core.randomness import Purpose, generator

Sender = Literal["D-PSGD", "quantised", "dithered", "random psi_0"]
"""Who is overheard. "quantised" is the paper's Algorithm 1; "dithered" moves its grid by a public
offset; "random psi_0" starts it from trackers drawn uniformly from one cell instead of from zero,
which lies on the grid."""


class Scene(NamedTuple):
    """Who is overheard: an algorithm whose agent i holds images[i] alone, in one numbered run."""

    algorithm: Algorithm
    module: nn.Module
    images: torch.Tensor
    labels: torch.Tensor
    seed: int
    run: int


class Heard(NamedTuple):
    """What was heard of one run, `[agents, dim]` each: theta, true gradient, estimate, variance."""

    theta: np.ndarray
    gradient: np.ndarray
    estimate: np.ndarray
    predicted: np.ndarray


def algorithm_of(algorithm: Algorithm1, sender: Sender, scale: float, seed: int) -> Algorithm:
    """Return who is overheard, every d_0^i multiplied by `scale`; 0 is the unquantised twin."""
    network, schedules = algorithm.network, algorithm.schedules
    if sender == "D-PSGD":
        return DPSGD(metropolis(network), schedules)
    if scale == 0:
        return Algorithm1(network, schedules, quantised=False)
    scaled = dataclasses.replace(schedules, d_0=tuple(scale * np.asarray(schedules.d_0)))
    return Algorithm1(network, scaled, dither=public_seed(seed) if sender == "dithered" else None)


def first_state(scene: Scene, sender: Sender, theta_0: np.ndarray) -> State:
    """Return the state at t = 0: theta_0 at all agents, psi_0 zero unless the sender draws it."""
    theta, psi_0 = np.repeat(theta_0[None, None], AGENTS, axis=1), None
    if sender == "random psi_0":
        draw = generator(scene.seed, Purpose.INITIAL, scene.run, t=1)
        step = scene.algorithm.schedules.step(0)[:, None]  # type: ignore[attr-defined]
        psi_0 = draw.random(theta.shape) * step
    return scene.algorithm.init(theta, psi_0)


def listen(scene: Scene, state: State, rounds: int) -> tuple[list[Messages], np.ndarray]:
    """Return the messages of `rounds` + 1 iterations, and the gradients `[agents, dim]` of the
    first."""
    coins, heard, first = scene.algorithm.coins(scene.seed), [], None
    for k in range(rounds + 1):
        gradients = np.zeros_like(state.theta)  # of the last iteration only messages are heard
        if k < rounds:
            theta = torch.tensor(state.theta[0], dtype=scene.images.dtype)
            found = matching.gradients(scene.module, theta, scene.images, scene.labels)
            gradients = found.double().numpy()[None]
        first = gradients[0] if first is None else first
        draws = coins([scene.run], state.t, state.theta.shape[2])
        state, messages = scene.algorithm.step(state, gradients, draws)
        heard.append(messages)
    return heard, first


def overhear(scene: Scene, state: State, rounds: int) -> Heard:
    """Return the eavesdropper's estimate, from `rounds` rounds, of the gradients at `state`."""
    messages, gradient = listen(scene, state, rounds)
    parts = layers(scene.module)
    found = eavesdropper.gradients(scene.algorithm, messages, drift=None, parts=parts)
    return Heard(state.theta[0], gradient, found.gradient[0, 0], found.variance[0, 0])


def layers(module: nn.Module) -> list[slice]:
    """Return where each layer's parameters, weights and biases together, lie in the flat vector.

    How noisy messages are, and how fast a gradient changes, differs by orders of magnitude from
    layer to layer.
    """
    layout = parameters.layout(module)
    owner = np.repeat([name.rpartition(".")[0] for name in layout.names], layout.sizes)
    edges = [0, *(np.flatnonzero(owner[1:] != owner[:-1]) + 1), len(owner)]
    return [slice(int(first), int(last)) for first, last in pairwise(edges)]
