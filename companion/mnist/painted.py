"""Notebook 3: painters who have seen other people's digits (`attacks.prior`).

The prior is learned from training images in the middle of the seed's order; attacked are the last
ones. Its size and the steps were chosen on the first ones.
"""

from __future__ import annotations

from functools import lru_cache, partial

import numpy as np
import torch
from torch import nn

from companion.attacks import choice, eavesdropper, features, labels, prior
from companion.attacks.inversion import SHAPE
from companion.attacks.matching import Matching
from companion.mnist import batches, overheard
from companion.mnist.digits import attacked, digits
from companion.mnist.messages import Sender, layers
from companion.mnist.patient import listened
from companion.params import AGENTS
from companion.problems import parameters
from companion.problems.cnn import CNN

Arrays = dict[str, np.ndarray]
OTHERS, DIRECTIONS = 10_000, 200  # images behind the prior, and its size
STEPS = 100  # of L-BFGS
SURE = 0.01  # relative error that is allowed of what is heard exactly


@lru_cache(maxsize=1)
def learned(seed: int, data: str) -> prior.Prior:
    """Return what the digits of others look like."""
    rows = digits(data)[2]
    others = attacked(seed, data, rows // 4, min(rows // 2, OTHERS))[0]
    return prior.learn(others.flatten(1), DIRECTIONS)


def single(
    params: dict, data: str, victim: overheard.Victim, sender: Sender, rounds: int,
    first: int, count: int,
) -> Arrays:  # fmt: skip
    """Return `mse [count]` of single images painted from messages, and `mean`, that of the mean."""
    known, images, found = learned(params["seed"], data), [], []
    told = params, data, victim, sender, 1.0, rounds, first, count
    for scene, theta_0, messages, _ in listened(*told):
        heard, variance = _heard(scene.algorithm, messages, layers(scene.module))
        surprise = _surprise(scene.module, torch.tensor(theta_0).float(), heard, variance)
        found.append(prior.paint(surprise, known, AGENTS, STEPS))
        images.append(scene.images)
    return _errors(torch.cat(images), torch.cat(found), known)


def _heard(algorithm, messages, parts) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the first gradients `[agents, dim]` and the mean square errors to expect of them."""
    pairs = [_part(algorithm, [eavesdropper.cut(one, part) for one in messages]) for part in parts]
    gradient, variance = (np.concatenate(found, axis=1) for found in zip(*pairs, strict=True))
    variance = np.maximum(variance, SURE**2 * np.square(gradient).mean(axis=1, keepdims=True))
    return torch.tensor(gradient).float(), torch.tensor(variance).float()


def _part(algorithm, messages) -> tuple[np.ndarray, np.ndarray]:
    """Return the same of one layer. The kept model may be wrong: its error is estimated from how
    far it is from the first round's (`choice`)."""
    everything = [slice(0, messages[0].theta.shape[-1])]
    free, kept = (
        eavesdropper.gradients(algorithm, messages, parts=everything, **options)
        for options in ({"drift": np.inf}, {"drift": None, "models": choice.kept})
    )
    gradient, sure = kept.gradient[0, 0], kept.variance[0, 0]
    moved = np.square(gradient - free.gradient[0, 0]).mean(axis=1)
    risk = np.maximum(moved - free.variance[0, 0] + 2.0 * sure, sure)
    return gradient, np.repeat(risk[:, None], gradient.shape[1], axis=1)


def _surprise(module: nn.Module, theta: torch.Tensor, heard: torch.Tensor, variance: torch.Tensor):
    """Return chi^2/2 of images: of the CNN's feature map, or of LeNet's whole gradient."""
    layout = parameters.layout(module)
    if isinstance(module, CNN):
        found = features.read(module, heard)
        read_from = torch.stack([layout.views(row)["conv4.bias"][0] for row in variance])
        precision = (found.weights / read_from[:, None, None, None]).expand_as(found.values)
        outputs = features.feature_map(module, theta)
        return prior.of_outputs(lambda x: outputs(x.view(-1, *SHAPE)), found.values, precision)
    return Matching(module, theta, heard, labels.infer(layout, heard), 0.5 / variance)


def whole(
    params: dict, data: str, victim: str, sender: str, size: int, first: int, count: int
) -> Arrays:
    """Return `mse [count x size]` of the images of whole batches, painted from features that
    `batches` read, and `mean`; where nothing was read the mean digit is painted."""
    module, known = parameters.make(batches.VICTIMS[victim]).double(), learned(params["seed"], data)
    known, pictures, originals = prior.Prior(*(part.double() for part in known)), [], []
    for images, theta, found in batches.opened(params, data, module, sender, size, first, count):
        heard = torch.tensor(found)
        precision = torch.ones_like(heard) / (SURE**2 * heard.square().mean(dim=1, keepdim=True))
        inputs = partial(batches.dense_inputs, module, theta)
        surprise = prior.of_outputs(lambda x, f=inputs: f(x.view(-1, *SHAPE)), heard, precision)
        painted = (
            prior.paint(surprise, known, len(heard), STEPS) if len(heard) else known.mean[None]
        )
        apart = (images.flatten(1)[:, None] - painted).square().mean(dim=2)
        pictures.append(painted[apart.argmin(dim=1)])  # the order of a batch is not known
        originals.append(images)
    return _errors(torch.cat(originals), torch.cat(pictures), known)


def _errors(images: torch.Tensor, painted: torch.Tensor, known: prior.Prior) -> Arrays:
    truth = images.flatten(1)
    return {
        name: (truth - guess).square().mean(dim=1).numpy()
        for name, guess in (("mse", painted), ("mean", known.mean))
    }
