"""Notebook 3: whole batches, exactly, out of a network's first dense ReLU layer (`attacks.spear`).

Three victims. "connected" has its 784 pixels in front of that layer, so that the images themselves
come back; in "LeNet" (the convolutions of iDLG's with ReLU, then 120 dense units as in LeNet-5) and
in the paper's "CNN" (ReLU) it is the *features* of each image that do: what the convolutions made
of it, 588 numbers and 64.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

import numpy as np
import torch
from torch import nn
from torch.func import functional_call

from companion.attacks import spear
from companion.mnist.digits import attacked
from companion.mnist.messages import Scene, algorithm_of, first_state, overhear
from companion.params import AGENTS, AgentParams
from companion.problems import parameters
from companion.problems.cnn import CNN
from companion.problems.lenet import LeNet
from ldp_core.randomness import Purpose, generator

Arrays = dict[str, np.ndarray]
PIXELS, UNITS, DENSE = 784, 200, 120  # units of the connected network, and of LeNet's dense layer
STARTS = 2000  # searches a batch


class ReLULeNet(LeNet):
    """iDLG's three convolutions with ReLU for the sigmoid, 120 dense ReLU units, ten outputs."""

    def __init__(self):
        super().__init__()
        self.dense = nn.Linear(self.output.in_features, DENSE)
        self.output = nn.Linear(DENSE, self.output.out_features)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the outputs of images `[batch, 1, 28, 28]`."""
        features = images
        for convolution in (self.conv1, self.conv2, self.conv3):
            features = torch.relu(convolution(features))
        return self.output(torch.relu(self.dense(features.flatten(1))))


def connected() -> nn.Module:
    """Return the fully connected network: 784 pixels, 200 ReLU units."""
    layers = {"flat": nn.Flatten(), "dense": nn.Linear(PIXELS, UNITS)}
    return nn.Sequential(OrderedDict(layers, relu=nn.ReLU(), output=nn.Linear(UNITS, 10)))


VICTIMS = {"connected": connected, "LeNet": ReLULeNet, "CNN": CNN}


def read(
    params: dict, data: str, victim: str, sender: str, size: int, first: int, count: int
) -> Arrays:
    """Return the largest error of an input of the dense layer in each of `count` batches, `error`.

    An error is a mean square error over the mean square of that input, so that 1 is what guessing
    zero has. Five agents hold a batch of `size` images each. One round is heard; all is computed in
    float64, as it is sent.
    """
    module, errors = parameters.make(VICTIMS[victim]).double(), []
    for images, theta, found in opened(params, data, module, sender, size, first, count):
        truth = dense_inputs(module, theta, images).detach().numpy()
        square = spear.matched(found, truth) / np.square(truth).mean(axis=1)
        errors.append(float(square.max()))
    return {"error": np.array(errors)}


def opened(
    params: dict, data: str, module: nn.Module, sender: str, size: int, first: int, count: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor, np.ndarray]]:
    """Yield the images of every batch, theta_0, and what was found of what enters the layer."""
    settings = AgentParams(**params)
    images, labels = attacked(settings.seed, data, first * size, count * size)
    algorithm = algorithm_of(settings.algorithm(), sender, 1.0, settings.seed)
    for block in range(0, count, AGENTS):
        part = slice(block * size, (block + AGENTS) * size)
        x, y = (tensor[part].unflatten(0, (AGENTS, size)) for tensor in (images, labels))
        run = (first + block) // AGENTS
        scene = Scene(algorithm, module, x.double(), y, settings.seed, run)
        theta_0 = parameters.initial(module, "he", seed=settings.seed, run=run)
        heard = overhear(scene, first_state(scene, sender, theta_0), 1)
        theta, views = torch.tensor(theta_0), parameters.layout(module).views
        behind = views(theta)["output.weight"].numpy().T
        for agent, gradient in enumerate(heard.estimate):
            random = generator(settings.seed, Purpose.ATTACK, first + block + agent, t=2)
            given = views(torch.tensor(gradient))
            weight, bias = (given[f"dense.{name}"].numpy() for name in ("weight", "bias"))
            found = spear.read(weight, bias, size, random, STARTS, behind)
            yield scene.images[agent], theta, found


def dense_inputs(module: nn.Module, theta: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
    """Return what enters the dense layer at theta, `[images, inputs]`."""
    kept: list[torch.Tensor] = []
    hook = module.dense.register_forward_pre_hook(lambda _, given: kept.append(given[0]))
    functional_call(module, parameters.layout(module).views(theta), (images,))
    hook.remove()
    return kept[0]
