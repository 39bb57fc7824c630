"""Adam (Kingma and Ba 2015), with the numbers of `torch.optim.Adam` bit by bit.

That one imports torch's compiler for graphs, which nobody here uses: a second in every process.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

FIRST, SECOND, EPSILON = 0.9, 0.999, 1e-8  # how much of each moment stays; below the root


class Adam:
    """The moments of some tensors' gradients, and the steps that follow from them."""

    def __init__(self, tensors: Iterable[torch.Tensor]):
        self.tensors = list(tensors)
        self.means = [torch.zeros_like(tensor) for tensor in self.tensors]
        self.squares = [torch.zeros_like(tensor) for tensor in self.tensors]
        self.taken = 0

    def descend(self, loss: torch.Tensor, rate: float) -> None:
        """Move the tensors a step down a loss; one that it does not depend on stays."""
        self.step(torch.autograd.grad(loss, self.tensors, materialize_grads=True), rate)

    @torch.no_grad()
    def step(self, gradients: Iterable[torch.Tensor], rate: float) -> None:
        """Move the tensors against these gradients."""
        self.taken += 1
        length = rate / (1 - FIRST**self.taken)
        root = (1 - SECOND**self.taken) ** 0.5
        moments = zip(self.tensors, self.means, self.squares, gradients, strict=True)
        for tensor, mean, square, gradient in moments:
            mean.lerp_(gradient, 1 - FIRST)
            square.mul_(SECOND).addcmul_(gradient, gradient, value=1 - SECOND)
            tensor.addcdiv_(mean, (square.sqrt() / root).add_(EPSILON), value=-length)
