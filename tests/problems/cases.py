"""A small network, data and histories that the neural oracle's tests share."""

import torch
from torch import nn

from companion.problems import parameters
from ldp_core.randomness import Purpose, generator

ROWS, FEATURES, CLASSES = 30, 6, 3


def mlp():
    return nn.Sequential(nn.Linear(FEATURES, 5), nn.Tanh(), nn.Linear(5, CLASSES))


def problem(runs=2, agents=3, points=5, samples=4, images=False, seed=1):
    """Return x, y and a history of row numbers drawn with replacement."""
    draw = generator(seed, Purpose.SYNTHETIC)
    x = draw.normal(size=(ROWS, 1, 4, 4) if images else (ROWS, FEATURES))
    return (
        x,
        draw.integers(CLASSES, size=ROWS),
        draw.integers(ROWS, size=(runs, agents, points, samples)),
    )


def states(module, runs=2, agents=3, seed=1):
    return parameters.initial_states(
        module, "pytorch", seed=seed, runs=range(runs), agents=agents, same=False
    )


def double(module):
    """Return the module in double precision, in which the oracle then computes."""
    return parameters.make(module).double()


def calibrated(network, x):
    """Return EEGNet with "fixed" normalisations set to the statistics of these trials."""
    with torch.no_grad():
        found = network.statistics(network.prepare_for_statistics(x))
        for layer, (mean, variance) in zip(network._norms, found, strict=True):
            layer.running_mean.copy_(mean.flatten())
            layer.running_var.copy_(variance.flatten())
    return network
