"""The paper's network."""

import pytest
import torch
from torch import nn

from companion.problems import parameters
from companion.problems.cnn import ACTIVATIONS, CNN


def loaded(activation, seed=1):
    """Return a float64 network with He weights, and images of MNIST's shape."""
    module = parameters.make(lambda: CNN(activation)).double()
    nn.utils.vector_to_parameters(
        torch.from_numpy(parameters.initial(module, "he", seed=seed)), module.parameters()
    )
    images = torch.rand(
        6, 1, 28, 28, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
    )
    images[..., :10] = (
        # black, as most of MNIST: with zero biases all four numbers under a pool are equal there
        0.0
    )
    return module, images


def as_the_paper_draws_it(module, images, activation):
    """Activation first, then pooling, layer by layer."""
    features = images
    for convolution in (module.conv1, module.conv2, module.conv3, module.conv4):
        features = nn.functional.max_pool2d(activation(convolution(features)), 2)
    return module.output(activation(module.dense(features.flatten(1))))


def test_layers_and_parameters():
    module = parameters.make(CNN)
    convolutions = [module.conv1, module.conv2, module.conv3, module.conv4]
    assert [c.out_channels for c in convolutions] == [32, 32, 64, 64]
    assert all(c.kernel_size == (3, 3) and c.padding == (1, 1) for c in convolutions)
    by_hand = (
        (9 * 1 * 32 + 32)
        + (9 * 32 * 32 + 32)
        + (9 * 32 * 64 + 64)
        + (9 * 64 * 64 + 64)
        + (64 * 256 + 256)
        + 256 * 10
        + 10
    )
    assert parameters.layout(module).dim == by_hand == 84_202


def test_sides_of_the_image():
    module, images = loaded("relu")
    sides = []
    for convolution in (module.conv1, module.conv2, module.conv3, module.conv4):
        convolution.register_forward_hook(
            lambda layer, inputs, output: sides.append(output.shape[-1])
        )
    assert module(images).shape == (6, 10)
    assert sides == [28, 14, 7, 3]


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_pooling_before_the_activation_changes_nothing(activation):
    module, images = loaded(activation)
    labels = torch.arange(6)
    gradients = []
    for outputs in (module(images), as_the_paper_draws_it(module, images, ACTIVATIONS[activation])):
        loss = nn.functional.cross_entropy(outputs, labels)
        gradients.append(
            torch.cat([g.ravel() for g in torch.autograd.grad(loss, list(module.parameters()))])
        )
    torch.testing.assert_close(
        module(images),
        as_the_paper_draws_it(module, images, ACTIVATIONS[activation]),
        rtol=0,
        atol=1e-13,
    )
    torch.testing.assert_close(gradients[0], gradients[1], rtol=0, atol=1e-13)
    assert gradients[0].abs().max() > 1e-3


def test_unknown_activation_is_refused():
    with pytest.raises(
        ValueError, match="activation = 'swish' must be one of relu, sigmoid, tanh, elu"
    ):
        CNN("swish")
