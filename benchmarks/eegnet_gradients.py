"""How much faster is EEGNet's gradient in the cheap order than in the published one?"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch
from torch import nn
from torch.nn.functional import avg_pool2d, cross_entropy, elu

from benchmarks import medians, one_thread
from companion.problems.eegnet import EPS, EEGNet
from ldp_core.randomness import Purpose, generator

SEED, BATCH = 0, 200
CHANNELS, SAMPLES, FS, CLASSES = 22, 250, 125.0, 4  # two seconds of BNCI2014_001, resampled


class Published(nn.Module):
    """EEGNet with torch's own layers in the order of the paper: time first, then electrodes."""

    def __init__(self, network: EEGNet):
        super().__init__()
        filters, both = network.temporal.out_channels, network.spatial.out_channels
        self.temporal = nn.Conv2d(1, filters, (1, network.kernel), padding="same", bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(filters, eps=EPS), nn.BatchNorm2d(both, eps=EPS)
        self.spatial = nn.Conv2d(filters, both, (CHANNELS, 1), groups=filters, bias=False)
        self.separable = nn.Conv2d(
            both, both, network.separable.kernel_size, groups=both, padding="same", bias=False
        )
        self.pointwise = nn.Conv2d(both, network.pointwise.out_channels, 1, bias=False)
        self.norm3 = nn.BatchNorm2d(network.pointwise.out_channels, eps=EPS)
        self.output = nn.Linear(network.output.in_features, CLASSES)
        self.load_state_dict(network.state_dict(), strict=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the outputs of trials [trials, channels, samples]."""
        maps = self.norm2(self.spatial(self.norm1(self.temporal(x[:, None]))))
        maps = avg_pool2d(elu(maps), (1, 4))
        maps = avg_pool2d(elu(self.norm3(self.pointwise(self.separable(maps)))), (1, 8))
        return self.output(maps.flatten(1))


@one_thread()
def main(quick: bool = False) -> dict[str, float]:
    """Print and return the measurements, forward and backward on one thread; `quick` makes them
    small enough for a test.
    """
    rounds = 2 if quick else 15
    ways = _ways()
    seconds = medians(ways, rounds, time.process_time)
    apart = _apart([way() for way in ways.values()])
    print(
        f"EEGNet, {BATCH} trials of {CHANNELS} x {SAMPLES}, forward and backward, CPU time of one "
        f"thread, median of {rounds}:"
    )
    for name, value in seconds.items():
        print(
            f"  {name:>35}: {1e3 * value:6.1f} ms, {seconds['published order'] / value:5.1f} times "
            "as fast"
        )
    print(f"largest difference of a gradient from the published order's: {apart:.1e}")
    return {
        "cheap order / published order": seconds["published order"] / seconds["cheap order"],
        "prepared trials / published order": seconds["published order"]
        / seconds["cheap order, trials prepared"],
        "largest difference of a gradient": apart,
    }


def _ways() -> dict[str, Callable[[], dict[str, torch.Tensor]]]:
    """Return functions that compute the same gradient, by parameter, in different ways."""
    draw = generator(SEED, Purpose.SYNTHETIC)
    x = torch.from_numpy(draw.standard_normal((BATCH, CHANNELS, SAMPLES), dtype=np.float32))
    y = torch.from_numpy(draw.integers(CLASSES, size=BATCH))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        network = EEGNet(CHANNELS, SAMPLES, FS, CLASSES)
        published = Published(network)
    prepared = network.prepare(x)

    def gradient(module: nn.Module, trials: torch.Tensor) -> dict[str, torch.Tensor]:
        loss, parameters = cross_entropy(module(trials), y), dict(module.named_parameters())
        unused = {"allow_unused": True, "materialize_grads": True}
        found = torch.autograd.grad(loss, list(parameters.values()), **unused)
        return dict(zip(parameters, found, strict=True))

    return {
        "published order": lambda: gradient(published, x),
        "cheap order": lambda: gradient(network, x),
        "cheap order, trials prepared": lambda: gradient(network, prepared),
    }


def _apart(gradients: list[dict[str, torch.Tensor]]) -> float:
    """Return the largest difference of a gradient from the first."""
    first, *others = gradients
    return max(float((part[name] - first[name]).abs().max()) for part in others for name in first)
