"""What an eavesdropper hears around one image: real messages of Algorithm 1 and D-PSGD, and the gradients it makes of them.

Every agent holds a single image and computes its gradient at every iteration: the most exposed data set there is, and the one
that iDLG attacks. A gradient over a batch of 20 images, as in the paper's training, is far harder to invert.
"""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import nn

from companion.attacks import eavesdropper, matching
from companion.params import public_seed
from companion.problems import parameters
from ldp_core.optimizer import DPSGD, Algorithm, Algorithm1, Messages, State, metropolis
from ldp_core.randomness import Purpose, generator

AGENTS = 5
Sender = Literal["D-PSGD", "quantised", "dithered", "random psi_0"]
"""Who is overheard. "quantised" is the paper's Algorithm 1; "dithered" moves its grid by a public offset; "random psi_0" starts
it from trackers drawn uniformly from one cell instead of from zero, which lies on the grid."""


class Heard(NamedTuple):
    """What was heard of one run, and the truth: gradient and estimate `[agents, dim]`, theta `[agents, dim]` at that time."""

    theta: np.ndarray
    gradient: np.ndarray
    estimate: np.ndarray
    predicted: np.ndarray


def algorithm_of(algorithm: Algorithm1, sender: Sender, scale: float, seed: int) -> Algorithm:
    """Return who is overheard, with every d_0^i multiplied by `scale`; scale 0 is the unquantised twin."""
    network, schedules = algorithm.network, algorithm.schedules
    if sender == "D-PSGD":
        return DPSGD(metropolis(network), schedules)
    if scale == 0:
        return Algorithm1(network, schedules, quantised=False)
    scaled = dataclasses.replace(schedules, d_0=tuple(scale * np.asarray(schedules.d_0)))
    return Algorithm1(network, scaled, dither=public_seed(seed) if sender == "dithered" else None)


def first_state(algorithm: Algorithm, sender: Sender, theta_0: np.ndarray, seed: int, run: int) -> State:
    """Return the state at t = 0 of one run: theta_0 `[dim]` at all agents, psi_0 zero unless the sender draws it."""
    theta = np.repeat(theta_0[None, None], AGENTS, axis=1)
    psi_0 = None
    if sender == "random psi_0":
        draw = generator(seed, Purpose.INITIAL, run, t=1)
        psi_0 = draw.random(theta.shape) * algorithm.schedules.step(0)[:, None]
    return algorithm.init(theta, psi_0)


def listen(
    algorithm: Algorithm,
    module: nn.Module,
    state: State,
    images: torch.Tensor,
    labels: torch.Tensor,
    rounds: int,
    seed: int,
    run: int,
) -> tuple[list[Messages], np.ndarray]:
    """Return the messages of `rounds` + 1 iterations from `state`, and the gradients `[agents, dim]` of the first one.

    Agent i holds images[i] alone. The coins are those of run number `run`.
    """
    coins, heard, first = algorithm.coins(seed), [], None
    for k in range(rounds + 1):
        gradients = np.zeros_like(state.theta)  # of the last iteration only the messages are heard
        if k < rounds:
            theta = torch.tensor(state.theta[0], dtype=torch.float32)
            gradients = matching.gradients(module, theta, images, labels).double().numpy()[None]
        first = gradients[0] if first is None else first
        state, messages = algorithm.step(state, gradients, coins([run], state.t, state.theta.shape[2]))
        heard.append(messages)
    return heard, first


def overhear(
    algorithm: Algorithm,
    module: nn.Module,
    state: State,
    images: torch.Tensor,
    labels: torch.Tensor,
    rounds: int,
    seed: int,
    run: int,
) -> Heard:
    """Return the eavesdropper's estimate, from `rounds` rounds, of the gradients at `state`."""
    messages, gradient = listen(algorithm, module, state, images, labels, rounds, seed, run)
    found = eavesdropper.gradients(algorithm, messages, drift=None, parts=layers(module))
    return Heard(state.theta[0], gradient, found.gradient[0, 0], found.variance[0, 0])


def layers(module: nn.Module) -> list[slice]:
    """Return where each layer's parameters, weights and biases together, lie in the flat vector.

    How noisy messages are, and how fast a gradient changes, differs by orders of magnitude from layer to layer.
    """
    layout = parameters.layout(module)
    owner = np.repeat([name.rpartition(".")[0] for name in layout.names], layout.sizes)
    edges = [0, *(np.flatnonzero(owner[1:] != owner[:-1]) + 1), len(owner)]
    return [slice(int(first), int(last)) for first, last in pairwise(edges)]
