"""How much faster is EEGNet's gradient in the cheap order than in the published one?"""

from __future__ import annotations

import time

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from benchmarks import medians
from companion.problems.eegnet import EEGNet
from companion.problems.neural import one_thread
from ldp_core.randomness import Purpose, generator
from tests.reference.eegnet_plain import PlainEEGNet

SEED, BATCH = 0, 200
CHANNELS, SAMPLES, FS, CLASSES = 22, 250, 125.0, 4  # two seconds of BNCI2014_001, resampled


@one_thread()
def main(quick: bool = False) -> dict[str, float]:
    """Return the measurements, forward and backward; `quick` makes them small enough for a test."""
    draw = generator(SEED, Purpose.SYNTHETIC)
    x = torch.from_numpy(draw.standard_normal((BATCH, CHANNELS, SAMPLES), dtype=np.float32))
    y = torch.from_numpy(draw.integers(CLASSES, size=BATCH))
    network, published = (kind(CHANNELS, SAMPLES, FS, CLASSES) for kind in (EEGNet, PlainEEGNet))
    prepared = network.prepare(x)

    def gradient(module: torch.nn.Module, trials) -> None:
        module.zero_grad()
        cross_entropy(module(trials), y).backward()

    ways = {
        "published": lambda: gradient(published, x),
        "cheap": lambda: gradient(network, x),
        "prepared": lambda: gradient(network, prepared),
    }
    taken = medians(ways, 2 if quick else 15, time.process_time)
    return {
        "cheap order / published order": taken["published"] / taken["cheap"],
        "prepared trials / published order": taken["published"] / taken["prepared"],
    }
