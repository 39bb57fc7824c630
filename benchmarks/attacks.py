"""How many more iDLG attacks a minute does one core do when images share a batch and hopeless ones
are stopped early?

The same images, networks and starting points for all: the literal reference (plain autograd,
`torch.optim.LBFGS`, one image at a time, to the end or until it converges), and the batched L-BFGS
with the same steps (`line_search=False`) and with a line search, which also stop an image that has
diverged. Seconds are those of the processor, on one thread.
"""

from __future__ import annotations

import time

import numpy as np
import torch

from benchmarks import seconds
from companion.attacks import inversion, matching
from companion.data import mnist
from companion.problems import parameters
from companion.problems.lenet import LeNet
from companion.problems.neural import one_thread
from ldp_core.randomness import Purpose, generator
from tests.reference import idlg as reference

SEED = 0


@one_thread()
def main(quick: bool = False) -> dict[str, float]:
    """Return the measurements; `quick` makes them small enough for a test."""
    images, alone, calls = (2, 1, 2) if quick else (24, 12, reference.CALLS)
    data, module = mnist.embedded(), parameters.make(LeNet)
    rows = generator(SEED, Purpose.ATTACK, t=2).permutation(len(data.train_labels))[:images]
    states = [parameters.initial(module, "uniform", seed=SEED, run=k) for k in range(images)]
    theta = torch.tensor(np.array(states)).float()
    x = torch.tensor(data.train_images[rows][:, None] / 255.0).float()
    y = torch.tensor(data.train_labels[rows])
    start = inversion.starting_points(SEED, range(images), 1, 784).view(-1, *inversion.SHAPE)
    heard = matching.gradients(module, theta, x, y)

    def one_by_one() -> None:
        for k in range(alone):
            module.load_state_dict(parameters.layout(module).views(theta[k]))
            original = reference.gradient_of(module, x[k : k + 1], y[k : k + 1])
            reference.idlg(module, original, start[k : k + 1], calls=calls)

    def batched(steps: int, line_search: bool):
        options = {"seed": SEED, "steps": steps, "line_search": line_search}
        options["numbers"] = range(images)
        return lambda: inversion.idlg(module, theta, heard, **options)

    plain = seconds(one_by_one, time.process_time) / alone
    ways = {"the same steps": batched(20 * calls, False)}
    ways["line search"] = batched(min(600, 20 * calls), True)
    taken = {name: seconds(way, time.process_time) / images for name, way in ways.items()}
    ratios = {f"batched, {name} / one at a time": plain / each for name, each in taken.items()}
    return ratios | {"attacks a minute": 60 / taken["line search"]}
