"""Adam (Kingma and Ba 2015) as torch computes it: its function, not its class.

The class imports torch's compiler, which nobody here uses: a second in every process.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch.optim.adam import adam

DEFAULTS: dict = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.0}
DEFAULTS |= {"amsgrad": False, "maximize": False}


class Adam:
    """The moments of some parameters, which are moved in place."""

    def __init__(self, parameters: Iterable[torch.Tensor]):
        self.parameters = list(parameters)
        self.first, self.second = ([torch.zeros_like(p) for p in self.parameters] for _ in range(2))
        self.steps = [torch.tensor(0.0) for _ in self.parameters]

    @torch.no_grad()
    def step(self, gradients: Sequence[torch.Tensor], rate: float) -> None:
        """Take one step along the gradients."""
        moments = self.first, self.second
        adam(self.parameters, list(gradients), *moments, [], self.steps, lr=rate, **DEFAULTS)

    def descend(self, loss: torch.Tensor, rate: float) -> None:
        """Take one step down a loss; what it does not depend on stays where it is."""
        self.step(torch.autograd.grad(loss, self.parameters, materialize_grads=True), rate)
