"""The network that iDLG attacks."""

import torch

from companion.problems import parameters
from companion.problems.lenet import LeNet


def test_shapes_are_those_of_the_published_code():
    module = parameters.make(LeNet)
    assert [
        (c.kernel_size, c.stride, c.padding) for c in (module.conv1, module.conv2, module.conv3)
    ] == [
        ((5, 5), (2, 2), (2, 2)),
        ((5, 5), (2, 2), (2, 2)),
        ((5, 5), (1, 1), (2, 2)),
    ]
    assert module(torch.zeros(4, 1, 28, 28)).shape == (4, 10)
    assert parameters.layout(module).dim == (25 * 12 + 12) + 2 * (25 * 12 * 12 + 12) + 588 * 10 + 10


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
