"""A painter who has seen other people's digits: images as their mean plus a few learned directions.

    x = mean + u basis,    u ~ N(0, I),

with the principal components of images that belong to nobody here, each as long as its standard
deviation. Painted is the likeliest image: the smallest of chi^2(x)/2 + |u|^2/2, where chi^2 counts
how far what x would have caused is from what was heard, in units of its errors. Where the messages
say nothing the mean is painted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch

from companion.attacks import lbfgs


class Prior(NamedTuple):
    """mean `[pixels]` and basis `[directions, pixels]`."""

    mean: torch.Tensor
    basis: torch.Tensor


def learn(images: torch.Tensor, directions: int) -> Prior:
    """Return the prior of images `[n, pixels]`."""
    mean = images.mean(dim=0)
    values, vectors = torch.linalg.eigh(torch.cov((images - mean).T.double()))
    chosen = vectors[:, -directions:].flip(1) * values[-directions:].flip(0).clamp(min=0).sqrt()
    return Prior(mean, chosen.T.to(images.dtype))


def paint(
    surprise: Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]],
    prior: Prior,
    problems: int,
    steps: int,
) -> torch.Tensor:
    """Return the likeliest images `[problems, pixels]`, clipped to [0, 1].

    `surprise` maps images to chi^2/2 `[problems]` and its derivatives `[problems, pixels]`.
    """

    def function(u: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        value, derivative = surprise(prior.mean + u @ prior.basis)
        return value + 0.5 * u.square().sum(dim=1), derivative @ prior.basis.T + u

    start = prior.basis.new_zeros(problems, len(prior.basis))
    found = lbfgs.minimise(function, start, steps=steps)
    return (prior.mean + found.x @ prior.basis).clamp(0.0, 1.0)


def of_outputs(
    outputs: Callable[[torch.Tensor], torch.Tensor],
    heard: torch.Tensor,
    precision: torch.Tensor,
) -> Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]:
    """Return the surprise of images whose `outputs` were heard with errors of known precision."""

    def surprise(images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.enable_grad():
            images = images.detach().requires_grad_()
            value = 0.5 * (precision * (outputs(images) - heard).square()).flatten(1).sum(dim=1)
            (derivative,) = torch.autograd.grad(value.sum(), images)
        return value.detach(), derivative

    return surprise
