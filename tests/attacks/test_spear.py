"""Batches out of one linear layer: exact without noise, nothing with it."""

import numpy as np
import pytest
import torch

from companion.attacks import spear
from ldp_core.randomness import Purpose, generator

INPUTS, UNITS, CLASSES = 30, 60, 5


def layer_gradient(size, seed):
    """Return (inputs, dL/dW, dL/db) of the first layer of a small ReLU network, in float64."""
    random = generator(seed, Purpose.SYNTHETIC)
    x = torch.tensor(random.random((size, INPUTS)))
    weights = [
        torch.tensor(random.normal(size=shape)) for shape in ((UNITS, INPUTS), (CLASSES, UNITS))
    ]
    bias = torch.zeros(UNITS, dtype=torch.float64)
    leaves = [weights[0].requires_grad_(), bias.requires_grad_()]
    outputs = (
        torch.relu(x @ leaves[0].T - 0.5 * leaves[0].sum(dim=1).detach() + leaves[1]) @ weights[1].T
    )
    loss = torch.nn.functional.cross_entropy(
        outputs / 10, torch.tensor(random.integers(CLASSES, size=size))
    )
    weight, of_bias = torch.autograd.grad(loss, leaves)
    return x.numpy(), weight.numpy(), of_bias.numpy()


@pytest.mark.parametrize("size", [1, 2, 4, 6])
def test_a_batch_comes_back_to_the_last_digits(size):
    x, weight, bias = layer_gradient(size, seed=size)
    found = spear.read(weight, bias, size, generator(0, Purpose.ATTACK))
    assert found.shape == x.shape and spear.matched(found, x).max() < 1e-12


def test_noise_of_full_rank_leaves_nothing():
    """A thousandth of the gradient's size in noise: no unit looks shut, and nothing is returned."""
    x, weight, bias = layer_gradient(4, seed=4)
    noise = generator(1, Purpose.SYNTHETIC).normal(size=weight.shape) * 1e-3 * np.abs(weight).max()
    found = spear.read(weight + noise, bias, 4, generator(0, Purpose.ATTACK), starts=400)
    assert not len(found) and np.isinf(spear.matched(found, x)).all()


def test_sparsest_directions_are_independent():
    U = np.eye(3)
    directions = np.array([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0], [-2.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    kept = spear._sparsest(directions, U)
    assert [row.tolist() for row in kept] == [[1, 0, 0], [0, 0, 1], [1, 1, 0]]


def test_units_that_are_open_for_all_show_themselves():
    """Rows of U that are one linear function of known weights: 30 of 60 units."""
    random = generator(3, Purpose.SYNTHETIC)
    behind, function = random.normal(size=(UNITS, CLASSES)), random.normal(size=(CLASSES, 4))
    function -= function.mean(axis=0)
    U = behind @ function
    U[30:] += random.normal(size=(30, 4))
    found = spear.shared(U, behind, generator(0, Purpose.ATTACK))
    assert found.tolist() == [True] * 30 + [False] * 30
    noise = random.normal(size=U.shape)
    assert not spear.shared(noise, behind, generator(0, Purpose.ATTACK)).any()
