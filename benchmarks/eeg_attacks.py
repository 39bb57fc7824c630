"""How many trials a minute are inverted: many at once against one at a time, by the same optimiser
from the same messages?

Both use `attacks.signals`, on one thread.
"""

from __future__ import annotations

import numpy as np
import torch

from benchmarks import seconds
from companion.attacks import signals
from companion.problems.eegnet import EEGNet
from companion.problems.eegnet_history import initial_state
from companion.problems.neural import one_thread

CHANNELS, SAMPLES, FS, CLASSES = 22, 160, 80.0, 4
SIZES, QUICK = (16, 8, 20, 3), (2, 2, 2, 1)  # trials at once, states, steps, trials one at a time


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

    taken = {f"{trials} at once": seconds(lambda: invert(*numbers)) / trials}
    taken["one at a time"] = seconds(lambda: [invert(k) for k in range(few)]) / few
    return {f"trials a minute, {name}": 60 / each for name, each in taken.items()}
