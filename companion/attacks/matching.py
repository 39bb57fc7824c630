"""Gradient matching for many images at once: how far is a guess's gradient from what was heard?

    L(x) = sum over parameters of (g(x) - heard)^2,    g(x) the loss's gradient        (DLG, iDLG)

The victim is LeNet, whose second derivatives are written out (`attacks.twice`). A problem's numbers
do not depend on the others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, vmap

from companion.attacks.twice import Twice
from companion.problems.lenet import LeNet
from companion.problems.parameters import layout

LAYERS = ("conv1", "conv2", "conv3", "output")
PIECE = 12  # problems that are looked at together: more leave the cache


@dataclass(frozen=True, eq=False)
class Matching:
    """The matching loss of some problems, and its derivative, at guesses `[problems, pixels]`.

    `theta` is `[problems, dim]`, or `[dim]` when all share one state; `heard [problems, dim]` are
    the gradients to match, `labels [problems]` the labels, which are known (iDLG). `precision
    [problems, dim]` weighs the squares, when some coordinates are known better than others.
    """

    module: LeNet
    theta: torch.Tensor
    heard: torch.Tensor
    labels: torch.Tensor
    precision: torch.Tensor | None = None

    def narrow(self, rows: torch.Tensor) -> Matching:
        """Return the same loss for these problems alone."""
        theta = self.theta if self.theta.ndim == 1 else self.theta[rows]
        precision = None if self.precision is None else self.precision[rows]
        heard, labels = self.heard[rows], self.labels[rows]
        return replace(self, theta=theta, heard=heard, labels=labels, precision=precision)

    def __call__(self, guess: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return (losses `[problems]`, their derivatives `[problems, pixels]`)."""
        parts = zip(self._pieces, guess.split(PIECE), strict=True)
        with np.errstate(over="ignore", invalid="ignore"):  # a guess may run away
            found = [piece(part.numpy()) for piece, part in parts]
        value, derivative = map(np.concatenate, zip(*found, strict=True))
        return torch.from_numpy(value), torch.from_numpy(derivative)

    @cached_property
    def _pieces(self) -> list[Twice]:
        rows = torch.arange(len(self.heard)).split(PIECE)
        return [self.narrow(part)._piece for part in rows]

    @property
    def _piece(self) -> Twice:
        theta = self.theta.expand(len(self.heard), -1)
        weights, heard = (matrices(self.module, part) for part in (theta, self.heard))
        precision = None if self.precision is None else matrices(self.module, self.precision)
        return Twice(weights, heard, precision, self.labels.numpy())


def matrices(module: LeNet, vectors: torch.Tensor) -> list[np.ndarray]:
    """Return the layers' parts of flat vectors, `[n, inputs + 1, outputs]` each as in `twice`."""
    views, found = layout(module).views(vectors), []
    for name in LAYERS:
        weight, bias = (views[f"{name}.{part}"] for part in ("weight", "bias"))
        channels = module.conv3.out_channels if name == "output" else weight.shape[2]
        by_place = weight.reshape(*bias.shape, channels, -1).permute(0, 3, 2, 1).flatten(1, 2)
        found.append(torch.cat([by_place, bias[:, None]], dim=1).numpy())
    return found


def gradients(
    module: nn.Module, theta: torch.Tensor, images: torch.Tensor, labels: torch.Tensor
) -> torch.Tensor:
    """Return the agents' gradients `[problems, dim]` at theta `[dim]` or `[problems, dim]`.

    Each of `images` is an image, or a batch of them when each of `labels` is one.
    """
    size, views = labels[0].numel(), layout(module).views
    own = theta.expand(len(images), -1).clone().requires_grad_()
    batches = images.view(len(images), size, *images.shape[-3:])
    outputs = vmap(lambda theta, batch: functional_call(module, views(theta), batch))(own, batches)
    loss = nn.functional.cross_entropy(outputs.flatten(0, 1), labels.flatten(), reduction="sum")
    (found,) = torch.autograd.grad(loss / size, own)
    return found
