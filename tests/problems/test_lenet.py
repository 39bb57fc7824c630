"""The network that iDLG attacks."""

import pytest
import torch

from companion.problems import parameters
from companion.problems.lenet import LeNet


@pytest.mark.parametrize(
    ("channels", "side", "classes", "features"),
    [(1, 28, 10, 588), (3, 32, 100, 768), (1, 30, 2, 768)],
)
def test_shapes_are_those_of_the_published_code(channels, side, classes, features):
    module = parameters.make(lambda: LeNet(channels, side, classes))
    assert [
        (c.kernel_size, c.stride, c.padding) for c in (module.conv1, module.conv2, module.conv3)
    ] == [
        ((5, 5), (2, 2), (2, 2)),
        ((5, 5), (2, 2), (2, 2)),
        ((5, 5), (1, 1), (2, 2)),
    ]
    assert module.output.in_features == features
    assert module(torch.zeros(4, channels, side, side)).shape == (4, classes)
    expected = (25 * channels * 12 + 12) + 2 * (25 * 12 * 12 + 12) + features * classes + classes
    assert parameters.layout(module).dim == expected


def test_last_layer_gradient_gives_the_label():
    """iDLG's rule: with positive features, the row of the output weights' gradient with a negative
    sum is the label's."""
    module = parameters.make(LeNet)
    torch.nn.utils.vector_to_parameters(
        torch.from_numpy(parameters.initial(module, "uniform", seed=3)).float(), module.parameters()
    )
    image = torch.rand(1, 1, 28, 28, generator=torch.Generator().manual_seed(3))
    for label in range(10):
        loss = torch.nn.functional.cross_entropy(module(image), torch.tensor([label]))
        (gradient,) = torch.autograd.grad(loss, module.output.weight)
        assert gradient.sum(dim=1).argmin() == label


def test_empty_shapes_are_refused():
    with pytest.raises(ValueError, match="side = 0 must be at least 1"):
        LeNet(side=0)
