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

from benchmarks import medians, one_thread
from companion.attacks import inversion, matching
from companion.data import mnist
from companion.problems import parameters
from companion.problems.lenet import LeNet
from ldp_core.randomness import Purpose, generator
from tests.reference import idlg as reference

SEED = 0
RECOVERED = 1e-2


@one_thread()
def main(quick: bool = False) -> dict[str, float]:
    """Print and return the measurements; `quick` makes them small enough for a test."""
    images, alone, calls = (2, 1, 2) if quick else (24, 12, reference.CALLS)
    module, *problem = _problem(images)
    theta, x, y, _ = problem
    heard = matching.gradients(module, theta, x, y)
    one_by_one, evaluation = _reference(module, *(part[:alone] for part in problem), calls)
    steps = {"same steps": 20 * calls, "line search": min(600, 20 * calls)}
    batched = {
        name: _batched(module, theta, heard, x, steps=most, line_search=name == "line search")
        for name, most in steps.items()
    }
    per_evaluation = evaluation / _evaluation(module, theta, heard)
    print(
        "iDLG on LeNet, one thread: attacks a minute, and share recovered (mean square error < "
        f"{RECOVERED:g})"
    )
    print(f"  one at a time, as published  {one_by_one[0]:7.1f}   {one_by_one[1]:4.0%} of {alone}")
    for name, (rate, share) in batched.items():
        print(
            f"  batched, {name:<20}{rate:7.1f}   {share:4.0%} of {images}   "
            f"{rate / one_by_one[0]:.1f} times"
        )
    print(
        f"one evaluation of the loss and its derivative per image: {per_evaluation:.1f} times "
        f"faster in a batch of {images}"
    )
    return {
        "batched / one at a time, the same steps": batched["same steps"][0] / one_by_one[0],
        "batched with line search / one at a time": batched["line search"][0] / one_by_one[0],
        "evaluation in a batch / alone": per_evaluation,
        "attacks a minute": batched["line search"][0],
    }


def _problem(images: int):
    """Return LeNet, a state per image, images, labels, and starting points."""
    data, module = mnist.embedded(), parameters.make(LeNet)
    rows = generator(SEED, Purpose.ATTACK, t=2).permutation(len(data.train_labels))[:images]
    theta = torch.tensor(
        np.array([parameters.initial(module, "uniform", seed=SEED, run=k) for k in range(images)])
    ).float()
    x = torch.tensor(data.train_images[rows][:, None] / 255.0).float()
    start = inversion.starting_points(SEED, range(images), 1, 784).view(-1, *inversion.SHAPE)
    return module, theta, x, torch.tensor(data.train_labels[rows]), start


def _reference(module, theta, x, y, start, calls: int) -> tuple[tuple[float, float], float]:
    """Return ((attacks a minute, share recovered), seconds of one evaluation) of the literal code,
    image after image."""
    recovered, evaluations, began = 0, 0, time.process_time()
    for k in range(len(x)):
        module.load_state_dict(parameters.layout(module).views(theta[k]))
        original = reference.gradient_of(module, x[k : k + 1], y[k : k + 1])
        image, _, _, used = reference.idlg(module, original, start[k : k + 1], calls=calls)
        recovered += float((image - x[k : k + 1]).square().mean()) < RECOVERED
        evaluations += used
    taken = time.process_time() - began
    return (60 * len(x) / taken, recovered / len(x)), taken / evaluations


def _batched(module, theta, heard, x, steps: int, line_search: bool) -> tuple[float, float]:
    """Return (attacks a minute, share recovered) of the batched attack."""
    began = time.process_time()
    found = inversion.idlg(module, theta, heard, seed=SEED, steps=steps, line_search=line_search)
    taken = time.process_time() - began
    errors = (found.images - x).square().flatten(1).mean(dim=1)
    return 60 * len(x) / taken, float((errors < RECOVERED).float().mean())


def _evaluation(module, theta, heard, rounds: int = 5) -> float:
    """Return the median seconds per image of one evaluation of the whole batch."""
    labels = torch.zeros(len(heard), dtype=torch.long)
    loss = matching.Matching(module, theta, heard, inversion.SHAPE, labels)
    guess = torch.full((len(heard), loss.pixels), 0.5)
    taken = medians({"loss": lambda: loss(guess)}, rounds, time.process_time)["loss"]
    return taken / len(heard)
