"""How many trials a minute are inverted: many at once against one at a time, by the same optimiser
from the same messages.

Both use `attacks.signals`, one thread. "Plain autograd" is the same attack through
`problems.eegnet.EEGNet` itself, one trial and one state after the other, as published
gradient-inversion code is written. Ratios are of one run.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from benchmarks import one_thread, seconds
from companion.attacks import lbfgs, signals
from companion.problems.eegnet import EEGNet
from companion.problems.eegnet_history import initial_state
from companion.problems.parameters import layout

CHANNELS, SAMPLES, FS, CLASSES = 22, 160, 80.0, 4
SIZES, QUICK = (16, 8, 20, 3), (2, 2, 2, 1)  # trials at once, states, steps, trials one at a time


def scene(trials: int, states: int):
    """Return network, parameters, gradients, labels and shape of made-up trials."""
    network = EEGNet(CHANNELS, SAMPLES, FS, CLASSES)
    theta = np.stack([initial_state(network, 0.15, seed=0, run=state) for state in range(states)])
    theta = np.repeat(theta[None], trials, axis=0)
    shape = signals.fourier(CHANNELS, SAMPLES, FS, (6.0, 34.0))
    random = torch.Generator().manual_seed(0)
    x = shape.signal(torch.randn(trials, shape.unknowns, generator=random))
    labels, vectors = np.arange(trials) % CLASSES, torch.tensor(theta, dtype=torch.float32)
    gradients = signals.trial_gradients(network, vectors, x, torch.tensor(labels)).numpy()
    return network, theta, gradients, labels, shape


def plain(network: EEGNet, theta, gradients, label: int, shape: signals.Shape, steps: int) -> None:
    """Invert one trial through the module itself, one state after the other."""
    where, target = layout(network), torch.tensor([label])
    wanted = torch.tensor(gradients, dtype=torch.float32)
    vectors = torch.tensor(theta, dtype=torch.float32)

    def function(coefficients: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        leaf = coefficients.detach().requires_grad_(True)
        value = torch.zeros(())
        for vector, goal in zip(vectors, wanted, strict=True):
            parameters = vector.clone().requires_grad_(True)
            outputs = torch.func.functional_call(
                network, where.views(parameters), (shape.signal(leaf),)
            )
            loss = torch.nn.functional.cross_entropy(outputs, target)
            (found,) = torch.autograd.grad(loss, parameters, create_graph=True)
            value = value + (found - goal).square().sum()
        (gradient,) = torch.autograd.grad(value, leaf)
        return value.detach()[None], gradient

    start = 1e-3 * torch.randn(1, shape.unknowns, generator=torch.Generator().manual_seed(1))
    lbfgs.minimise(function, start, steps=steps, memory=signals.MEMORY)


def per_minute(work: Callable[[], None], trials: int) -> float:
    return 60 * trials / seconds(work)


@one_thread()
def main(quick: bool = False) -> dict[str, float]:
    """Print and return the measurements; `quick` makes them small enough for a test."""
    trials, states, steps, few = QUICK if quick else SIZES
    network, theta, gradients, labels, shape = scene(trials, states)

    def invert(rows: slice) -> None:
        chosen = (theta[rows], gradients[rows], labels[rows])
        numbers = np.arange(trials)[rows]
        signals.invert(network, *chosen, shape, numbers=numbers, steps=steps, seed=0)

    def alone() -> None:
        for k in range(few):
            invert(slice(k, k + 1))

    def through_the_module() -> None:
        for k in range(few):
            plain(network, theta[k], gradients[k], int(labels[k]), shape, steps)

    rates = {
        f"{trials} trials at once": per_minute(lambda: invert(slice(trials)), trials),
        "one trial at a time": per_minute(alone, few),
        "plain autograd, one trial and state at a time": per_minute(through_the_module, few),
    }
    print(
        f"EEGNet, {CHANNELS} channels, {SAMPLES} samples, {states} states, {steps} steps of "
        "L-BFGS, one thread"
    )
    slowest = min(rates.values())
    for name, rate in rates.items():
        print(f"{name:48s} {rate:8.1f} trials a minute  {rate / slowest:6.1f} x")
    return rates
