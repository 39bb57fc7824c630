"""The attack that opens the paper's CNN: read a layer's input off its gradient, then invert it.

Max pooling makes gradient matching discontinuous (another pixel wins, another gradient), and direct
matching fails. But the last convolution has an output of 3 x 3 positions, of which pooling keeps
the first 2 x 2, one winner p_k per channel k. So its gradient is a product, for one image,

    db_k = delta_k,    dW_k = delta_k patch(p_k),      patch(p) the 3 x 3 x 64 part of the padded
    input around p,

and dW_k / db_k *is* a part of the input feature map, with no search at all. Every channel shows the
same map at one of four offsets; the best map in the least squares sense is, position by position,
sum_k db_k dW_k / sum_k db_k^2. A patch that hangs over the edge has zeros there, which tells its
offset at first; then offsets and map are improved in turn.

The map has 576 numbers for 784 pixels. It is inverted by signed Adam with a total-variation prior
in the box [0, 1]; the loss that is left tells a restart that found the image from one that is
stuck. This works for the sigmoid, whose layers are nearly linear at the usual initial values. With
ReLU, tanh and ELU the map is read just as exactly, but inverting it stops short: with ReLU at mean
square errors of about 0.02 (a rate of 0.5, 1500 steps), where the mean image of MNIST has 0.06.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from companion.attacks import labels
from companion.attacks.inversion import SHAPE, Inversion, best, signed_adam, starting_points
from companion.problems.cnn import ACTIVATIONS, CNN
from companion.problems.parameters import layout

OFFSETS = ((0, 0), (0, 1), (1, 0), (1, 1))  # outputs of the last convolution that pooling sees
ROUNDS = 4  # of improving offsets and map in turn
DARK = 0.1  # the largest pixel of a starting point
RATE, VARIATION = 0.2, (1e-3, 1e-6)  # of Adam, and the weights of the total variation
LAYERS = ("conv1", "conv2", "conv3")  # before the map
PIECE = 50  # guesses that are looked at together: more leave the cache


class FeatureMap(NamedTuple):
    """The last convolution's input `[problems, 64, 3, 3]`; weights, sum db_k^2: how well known."""

    values: torch.Tensor
    weights: torch.Tensor


def read(module: CNN, heard: torch.Tensor) -> FeatureMap:
    """Return the feature maps behind gradients `[problems, dim]` of single images."""
    views = [layout(module).views(gradient) for gradient in heard]
    dW, db = (torch.stack([view[f"conv4.{part}"] for view in views]) for part in ("weight", "bias"))
    offsets = _first_offsets(dW)
    found = _map(dW, db, offsets)
    for _ in range(ROUNDS):
        offsets = _better_offsets(dW, db, found.values)
        found = _map(dW, db, offsets)
    return found


def feature_map(module: CNN, theta: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return the function from a batch of images to the input of the last convolution.

    Channel by channel at each position, where pooling is several times faster.
    """
    views, activation = layout(module).views(theta), ACTIVATIONS[module.activation]
    weights = (views[f"{name}.weight"].to(memory_format=torch.channels_last) for name in LAYERS)
    first, *layers = zip(weights, (views[f"{name}.bias"] for name in LAYERS), strict=True)

    def function(images: torch.Tensor) -> torch.Tensor:
        maps = activation(torch.max_pool2d(_first_layer(*first, images), 2))
        for weight, bias in layers:
            found = torch.conv2d(maps, weight, bias, padding=1)
            maps = activation(torch.max_pool2d(found, 2))
        return maps

    return function


def _first_layer(weight: torch.Tensor, bias: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
    """Return the first convolution, as a product: torch's takes five times as long to go back to an
    image of one channel."""
    _, _, rows, columns = images.shape
    padded = torch.nn.functional.pad(images[:, 0], (1, 1, 1, 1))
    shifts = [padded[:, a : a + rows, b : b + columns] for a in range(3) for b in range(3)]
    found = torch.addmm(bias, torch.stack(shifts).flatten(1).T, weight.flatten(1).T)
    return found.view(-1, rows, columns, len(bias)).permute(0, 3, 1, 2)


def invert(
    module: CNN,
    theta: torch.Tensor,
    heard: torch.Tensor,
    *,
    seed: int,
    numbers: Sequence[int],
    restarts: int = 2,
    steps: int = 600,
) -> Inversion:
    """Return single images, from gradients `heard [problems, dim]` at `theta [problems, dim]`.

    The labels are inferred from the last layer's row sums; the images do not depend on them.
    Starting points are nearly black.
    """
    known = FeatureMap(*(part.repeat_interleave(restarts, dim=0) for part in read(module, heard)))
    points = starting_points(seed, numbers, restarts, torch.Size(SHAPE).numel(), "uniform")
    states = theta.repeat_interleave(restarts, dim=0)
    start, distance = DARK * points.flatten(0, 1), _mismatch(module, states, known)
    images, loss = signed_adam(distance, start, steps=steps, rate=RATE, variation=VARIATION)
    guessed = labels.infer(layout(module), heard).repeat_interleave(restarts)
    return best(images, guessed, loss, torch.zeros(len(loss), dtype=torch.bool), restarts)


def _mismatch(module: CNN, theta: torch.Tensor, known: FeatureMap):
    """Return the function of guesses' weighted distances from known maps, and its derivatives.

    Guesses of one state go through the network together, some at a time.
    """
    size = (known.weights * known.values**2).flatten(1).sum(dim=1) + 1e-30
    of_state: dict[bytes, list[int]] = defaultdict(list)
    for row, state in enumerate(theta):
        of_state[state.numpy().tobytes()].append(row)
    pieces = [
        (part, feature_map(module, theta[rows[0]]), known.values[part], known.weights[part])
        for rows in of_state.values()
        for part in torch.tensor(rows).split(PIECE)
    ]

    def function(guess: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        value, derivative = torch.empty_like(size), torch.empty_like(guess)
        for rows, outputs, values, weights in pieces:
            with torch.enable_grad():
                own = guess[rows].requires_grad_()
                difference = outputs(own.view(-1, *SHAPE)) - values
                distance = (weights * difference**2).flatten(1).sum(dim=1) / size[rows]
                (derivative[rows],) = torch.autograd.grad(distance.sum(), own)
            value[rows] = distance.detach()
        return value, derivative

    return function


def _first_offsets(dW: torch.Tensor) -> torch.Tensor:
    """Return each patch's offset `[problems, channels]`: 0 where row (column) one is empty."""
    energy = dW.square().sum(dim=2)
    rows, columns = energy.sum(dim=3), energy.sum(dim=2)
    down, right = (part[..., 0] > 0.25 * part[..., 1:].mean(dim=-1) for part in (rows, columns))
    return 2 * down.long() + right.long()


def _better_offsets(dW: torch.Tensor, db: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Return the offsets at which db_k patch(p) is closest to dW_k."""
    padded = torch.nn.functional.pad(values, (1, 1, 1, 1))
    patches = torch.stack([padded[..., a : a + 3, b : b + 3] for a, b in OFFSETS], dim=1).flatten(2)
    agreement = torch.einsum("pkf,pof->pko", dW.flatten(2), patches) * db[..., None]
    size = patches.square().sum(dim=2)[:, None] * db.square()[..., None]
    return (size - 2 * agreement).argmin(dim=2)


def _map(dW: torch.Tensor, db: torch.Tensor, offsets: torch.Tensor) -> FeatureMap:
    """Return the least squares map for given offsets; what no patch covers has weight zero."""
    products, weights = dW.new_zeros(len(dW), dW.shape[2], 5, 5), dW.new_zeros(len(dW), 1, 5, 5)
    for number, (a, b) in enumerate(OFFSETS):
        here = db * (offsets == number)
        products[..., a : a + 3, b : b + 3] += torch.einsum("pk,pkfij->pfij", here, dW)
        weights[..., a : a + 3, b : b + 3] += here.square().sum(dim=1)[:, None, None, None]
    inner = (..., slice(1, 4), slice(1, 4))
    return FeatureMap(products[inner] / weights[inner].clamp(min=1e-30), weights[inner])
