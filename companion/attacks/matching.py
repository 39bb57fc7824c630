"""Gradient matching for many images at once: how far is the gradient of a guess from the one that was heard?

    squared:  sum over parameters of (grad(x) - heard)^2                               (DLG, iDLG)
    cosine:   1 - grad(x) . heard / (|grad(x)| |heard|)                                (Geiping et al. 2020)

One call evaluates every problem with its derivative, by `torch.func.vmap`; a problem's numbers do not depend on the others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import nn
from torch.func import functional_call, grad, grad_and_value, vmap

from companion.problems.parameters import layout

DISTANCES = ("squared", "cosine")


@dataclass(frozen=True, eq=False)
class Matching:
    """The matching loss of a batch of problems, and its derivative, as a function of flat guesses `[problems, unknowns]`.

    `theta` is `[problems, dim]`, or `[dim]` when all share one state; `heard [problems, dim]` are the gradients to match. With
    `labels [problems]` the unknowns are the pixels (iDLG); without, the logits of the label follow them (DLG).
    """

    module: nn.Module
    theta: torch.Tensor
    heard: torch.Tensor
    shape: tuple[int, ...]
    labels: torch.Tensor | None = None
    distance: str = "squared"

    def __post_init__(self) -> None:
        if self.distance not in DISTANCES:
            raise ValueError(f"distance = {self.distance!r} must be one of {', '.join(DISTANCES)}")
        dim = layout(self.module).dim
        if self.heard.ndim != 2 or self.heard.shape[1] != dim or self.theta.shape not in {(dim,), self.heard.shape}:
            raise ValueError(
                f"theta {tuple(self.theta.shape)} and heard {tuple(self.heard.shape)} must be [{dim}] or "
                f"[problems, {dim}], and [problems, {dim}]"
            )

    @property
    def pixels(self) -> int:
        """Return the number of pixels of a guess."""
        return torch.Size(self.shape).numel()

    def narrow(self, rows: torch.Tensor) -> Matching:
        """Return the same loss for these problems alone."""
        theta = self.theta if self.theta.ndim == 1 else self.theta[rows]
        labels = None if self.labels is None else self.labels[rows]
        return replace(self, theta=theta, heard=self.heard[rows], labels=labels)

    def __call__(self, guess: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return (losses `[problems]`, their derivatives `[problems, unknowns]`)."""
        views, loss = layout(self.module).views, nn.functional.cross_entropy

        def training_loss(theta, image, target):
            return loss(functional_call(self.module, views(theta), (image.view(1, *self.shape),)), target)

        def mismatch(unknowns, theta, heard, label):
            image = unknowns[: self.pixels]
            target = unknowns[self.pixels :].softmax(dim=0)[None] if label is None else label[None]
            return self._distance(grad(training_loss)(theta, image, target), heard)

        in_dims = (0, None if self.theta.ndim == 1 else 0, 0, None if self.labels is None else 0)
        derivative, value = vmap(grad_and_value(mismatch), in_dims)(guess, self.theta, self.heard, self.labels)
        return value, derivative

    def _distance(self, gradient: torch.Tensor, heard: torch.Tensor) -> torch.Tensor:
        if self.distance == "squared":
            return ((gradient - heard) ** 2).sum()
        return 1.0 - (gradient @ heard) / (gradient.norm() * heard.norm() + 1e-30)


def gradients(module: nn.Module, theta: torch.Tensor, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return every single image's gradient `[problems, dim]` at theta `[dim]` or `[problems, dim]`: what the agents compute."""
    views = layout(module).views

    def training_loss(theta, image, label):
        return nn.functional.cross_entropy(functional_call(module, views(theta), (image[None],)), label[None])

    return vmap(grad(training_loss), (None if theta.ndim == 1 else 0, 0, 0))(theta, images, labels)
