"""How many trials a minute are inverted: many at once against one at a time, by the same optimiser
from the same messages?

Both use `attacks.signals`, one thread. "Plain autograd" is the same attack through
`problems.eegnet.EEGNet` itself, one trial and one state after the other, as published
gradient-inversion code is written.
"""

from __future__ import annotations

import numpy as np
import torch

from benchmarks import seconds
from companion.attacks import lbfgs, signals
from companion.problems.eegnet import EEGNet
from companion.problems.eegnet_history import initial_state
from companion.problems.neural import one_thread
from companion.problems.parameters import layout

CHANNELS, SAMPLES, FS, CLASSES = 22, 160, 80.0, 4
SIZES, QUICK = (16, 8, 20, 3), (2, 2, 2, 1)  # trials at once, states, steps, trials one at a time


def plain(network: EEGNet, theta, gradients, label: int, shape: signals.Shape, steps: int) -> None:
    """Invert one trial through the module itself, one state after the other."""
    where, target = layout(network), torch.tensor([label])
    wanted, vectors = (torch.tensor(each, dtype=torch.float32) for each in (gradients, theta))

    def function(coefficients: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        leaf = coefficients.detach().requires_grad_(True)
        value, x = torch.zeros(()), shape.signal(leaf)
        for vector, goal in zip(vectors, wanted, strict=True):
            parameters = vector.clone().requires_grad_(True)
            outputs = torch.func.functional_call(network, where.views(parameters), (x,))
            loss = torch.nn.functional.cross_entropy(outputs, target)
            (found,) = torch.autograd.grad(loss, parameters, create_graph=True)
            value = value + (found - goal).square().sum()
        (gradient,) = torch.autograd.grad(value, leaf)
        return value.detach()[None], gradient

    start = 1e-3 * torch.randn(1, shape.unknowns, generator=torch.Generator().manual_seed(1))
    lbfgs.minimise(function, start, steps=steps, memory=signals.MEMORY)


@one_thread()
def main(quick: bool = False) -> dict[str, float]:
    """Return trials a minute of made-up ones; `quick` makes them few enough for a test."""
    trials, states, steps, few = QUICK if quick else SIZES
    network, numbers = EEGNet(CHANNELS, SAMPLES, FS, CLASSES), np.arange(trials)
    theta = np.stack([initial_state(network, 0.15, seed=0, run=state) for state in range(states)])
    theta = np.repeat(theta[None], trials, axis=0)
    shape = signals.fourier(CHANNELS, SAMPLES, FS, (6.0, 34.0))
    random = torch.Generator().manual_seed(0)
    x = shape.signal(torch.randn(trials, shape.unknowns, generator=random))
    labels, vectors = numbers % CLASSES, torch.tensor(theta, dtype=torch.float32)
    gradients = signals.trial_gradients(network, vectors, x, torch.tensor(labels)).numpy()

    def invert(*chosen: int) -> None:
        rows = list(chosen)
        heard, options = (theta[rows], gradients[rows], labels[rows]), {"steps": steps, "seed": 0}
        signals.invert(network, *heard, shape, numbers=numbers[rows], **options)

    def autograd(k: int) -> None:
        plain(network, theta[k], gradients[k], int(labels[k]), shape, steps)

    taken = {f"{trials} at once": seconds(lambda: invert(*numbers)) / trials}
    for name, one in (("one at a time", invert), ("plain autograd", autograd)):
        taken[name] = seconds(lambda one=one: [one(k) for k in range(few)]) / few
    return {f"trials a minute, {name}": 60 / each for name, each in taken.items()}
