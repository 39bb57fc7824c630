"""A pooled convolution whose gradient visits the winners alone is the one that torch computes."""

import pytest
import torch
from torch import nn

from companion.problems import parameters
from companion.problems.cnn import ACTIVATIONS, CNN, TrainingCNN
from companion.problems.winners import PooledConvolution


def plain(images, weight, bias):
    """Return what PooledConvolution computes, by torch."""
    return nn.functional.max_pool2d(nn.functional.conv2d(images, weight, bias, padding=1), 2)


def drawn(*shape, seed=0):
    """Return standard normal float64 numbers."""
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def problem(channels, high, wide, outputs=5):
    """Return images (one of them black), weight and bias, all of which want gradients."""
    images = drawn(4, channels, high, wide)
    images[1] = 0.0  # all four numbers under a pool are equal: the first wins
    return [part.requires_grad_() for part in (images, drawn(outputs, channels, 3, 3, seed=1), drawn(outputs, seed=2))]


@pytest.mark.parametrize("images_want_gradients", [True, False])
@pytest.mark.parametrize(("channels", "high", "wide"), [(1, 8, 8), (1, 7, 10), (3, 6, 6), (3, 7, 5), (2, 2, 3)])
def test_values_and_gradients_are_those_of_torch(channels, high, wide, images_want_gradients):
    parts = problem(channels, high, wide)
    parts[0].requires_grad_(images_want_gradients)
    ours, theirs = PooledConvolution.apply(*parts), plain(*parts)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-13)
    behind = drawn(*ours.shape, seed=3) * (drawn(*ours.shape, seed=4) > 0)  # half of the winners have no derivative
    wanted = [part for part in parts if part.requires_grad]
    for own, other in zip(torch.autograd.grad(ours, wanted, behind), torch.autograd.grad(theirs, wanted, behind), strict=True):
        torch.testing.assert_close(own, other, rtol=0, atol=1e-12)
        assert own.abs().max() > 0.1


def test_it_does_not_matter_how_images_lie_in_memory():
    images, weight, bias = problem(3, 6, 6)
    scattered = images.detach().repeat_interleave(2, dim=3)[..., ::2].requires_grad_()
    last = weight.detach().to(memory_format=torch.channels_last).requires_grad_()
    assert not scattered.is_contiguous() and not last.is_contiguous()
    found = [PooledConvolution.apply(scattered, last, bias), PooledConvolution.apply(images, weight, bias)]
    assert torch.equal(*found)
    gradients = [
        torch.autograd.grad(y.square().sum(), parts)
        for y, parts in zip(found, ((scattered, last), (images, weight)), strict=True)
    ]
    assert all(torch.equal(own, other) for own, other in zip(*gradients, strict=True))


@pytest.mark.parametrize("channels", [1, 3])
def test_what_is_not_a_number_is_not_lost_in_a_pool(channels):
    images, weight, bias = problem(channels, 6, 6)
    with torch.no_grad():
        images[0, 0, 2, 3] = float("nan")
        ours, theirs = PooledConvolution.apply(images, weight, bias), plain(images, weight, bias)
    assert torch.equal(ours.isnan(), theirs.isnan()) and ours.isnan().any() and not ours.isnan().all()


def test_second_derivatives_are_refused():
    images, weight, bias = problem(3, 6, 6)
    (first,) = torch.autograd.grad(PooledConvolution.apply(images, weight, bias).square().sum(), weight, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"images": drawn(4, 3, 1, 6)}, r"images have shape \(4, 3, 1, 6\)"),
        ({"weight": drawn(5, 2, 3, 3)}, r"weight has shape \(5, 2, 3, 3\) .* must be \[out, 3, 3, 3\]"),
        ({"weight": drawn(5, 3, 5, 5)}, r"weight has shape \(5, 3, 5, 5\)"),
        ({"bias": drawn(4)}, r"bias \(4,\)"),
        ({"bias": drawn(5).float()}, "they must be of one type"),
    ],
)
def test_shapes_that_do_not_fit_are_refused_in_one_sentence(change, sentence):
    parts = dict(zip(("images", "weight", "bias"), problem(3, 6, 6), strict=True)) | change
    with pytest.raises(ValueError, match=sentence):
        PooledConvolution.apply(*parts.values())


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_network_for_training_is_the_network(activation):
    plain_one, fast = (parameters.make(lambda kind=kind: kind(activation)).double() for kind in (CNN, TrainingCNN))
    images = torch.rand(6, 1, 28, 28, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    images[..., :10] = 0.0  # black, as most of MNIST
    gradients = []
    for module in (plain_one, fast):
        nn.utils.vector_to_parameters(torch.from_numpy(parameters.initial(module, "he", seed=1)), module.parameters())
        loss = nn.functional.cross_entropy(module(images), torch.arange(6))
        gradients.append(torch.cat([g.ravel() for g in torch.autograd.grad(loss, list(module.parameters()))]))
    assert parameters.layout(plain_one) == parameters.layout(fast)
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-13)
    assert gradients[0].abs().max() > 1e-3
