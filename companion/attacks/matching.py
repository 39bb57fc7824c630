"""Gradient matching for many images at once: how far is a guess's gradient from what was heard?

    sum over parameters of (grad(x) - heard)^2                                  (DLG, iDLG)

One call evaluates every problem with its derivative, by `torch.func.vmap`; a problem's numbers do
not depend on the others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import nn
from torch.func import functional_call, grad, grad_and_value, vmap

from companion.problems.parameters import layout


@dataclass(frozen=True, eq=False)
class Matching:
    """The matching loss of some problems, and its derivative, at guesses `[problems, pixels]`.

    `theta` is `[problems, dim]`, or `[dim]` when all share one state; `heard [problems, dim]` are
    the gradients to match, `labels [problems]` the labels, which are known (iDLG). `precision
    [problems, dim]` weighs the squares, when some coordinates are known better than others.
    """

    module: nn.Module
    theta: torch.Tensor
    heard: torch.Tensor
    shape: tuple[int, ...]
    labels: torch.Tensor
    precision: torch.Tensor | None = None

    @property
    def pixels(self) -> int:
        """Return the number of pixels of a guess."""
        return torch.Size(self.shape).numel()

    def narrow(self, rows: torch.Tensor) -> Matching:
        """Return the same loss for these problems alone."""
        theta = self.theta if self.theta.ndim == 1 else self.theta[rows]
        precision = None if self.precision is None else self.precision[rows]
        heard, labels = self.heard[rows], self.labels[rows]
        return replace(self, theta=theta, heard=heard, labels=labels, precision=precision)

    def __call__(self, guess: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return (losses `[problems]`, their derivatives `[problems, pixels]`)."""
        views, loss = layout(self.module).views, nn.functional.cross_entropy

        def training_loss(theta, image, label):
            image = image.view(1, *self.shape)
            return loss(functional_call(self.module, views(theta), (image,)), label[None])

        def mismatch(image, theta, heard, label, precision):
            return (precision * (grad(training_loss)(theta, image, label) - heard) ** 2).sum()

        in_dims = (0, None if self.theta.ndim == 1 else 0, 0, 0, 0)
        plain = self.heard.new_ones(len(self.heard), 1)
        precision = plain if self.precision is None else self.precision
        every = vmap(grad_and_value(mismatch), in_dims)
        derivative, value = every(guess, self.theta, self.heard, self.labels, precision)
        return value, derivative


def gradients(
    module: nn.Module, theta: torch.Tensor, images: torch.Tensor, labels: torch.Tensor
) -> torch.Tensor:
    """Return the agents' gradients `[problems, dim]` at theta `[dim]` or `[problems, dim]`.

    Each of `images` is an image, or a batch of them when each of `labels` is one.
    """
    views = layout(module).views

    def training_loss(theta, image, label):
        batch = (image, label) if label.ndim else (image[None], label[None])
        outputs = functional_call(module, views(theta), batch[:1])
        return nn.functional.cross_entropy(outputs, batch[1])

    return vmap(grad(training_loss), (None if theta.ndim == 1 else 0, 0, 0))(theta, images, labels)
