"""Clipped gradients, fast, against torch's own derivative of every single sample."""

import numpy as np
import pytest
import torch
from torch import nn

from companion.problems import clipped, convolution, scattering
from companion.problems.clipped import Batch, History, Perceptron, PerSample, Softmax
from companion.problems.convolution import Convolution
from ldp_core import clipping, network
from ldp_core.accountant import promise, promise_plan
from ldp_core.optimizer import Schedules
from ldp_core.randomness import Purpose, generator


def draw(shape):
    return generator(3, Purpose.DATA).normal(size=shape)


def one_by_one(model, theta, x, y, clip):
    """Return the sum of clipped gradients, each by torch's autograd in float64."""
    total = np.zeros(model.dim)
    for sample, label in zip(torch.tensor(x).double(), torch.tensor(y), strict=True):
        at = torch.tensor(theta).requires_grad_()
        outputs = outputs_of(model, at, sample[None])
        (gradient,) = torch.autograd.grad(nn.functional.cross_entropy(outputs, label[None]), at)
        total += clipping.clipped(gradient.numpy(), clip)
    return total


def outputs_of(model, theta, x):
    if isinstance(model, Softmax):
        return x @ theta.view(model.features, model.classes)
    first, second = theta.split([model.features * model.hidden, (model.hidden + 1) * model.classes])
    hidden = torch.tanh(x @ first.view(model.features, -1))
    return torch.cat([hidden, torch.ones(len(x), 1)], dim=1) @ second.view(-1, model.classes)


X, Y = draw((7, 6)).astype(np.float32), np.array([0, 1, 2, 3, 0, 1, 2])


@pytest.mark.parametrize("model", [Softmax(6, 4), Perceptron(6, 5, 4)], ids=["softmax", "network"])
@pytest.mark.parametrize("clip", [0.2, 100.0])
def test_closed_forms_are_sums_of_clipped_gradients(model, clip):
    theta = draw((model.dim,))
    ours = model.clipped(theta, Batch.of(X, Y), clip)
    assert ours.dtype == np.float64
    np.testing.assert_allclose(ours, one_by_one(model, theta, X, Y, clip), atol=1e-5, rtol=1e-4)


def test_any_module_sample_by_sample():
    """A module with the perceptron's layers has its gradients, in another order of parameters."""
    module = nn.Sequential(nn.Linear(6, 5, bias=False), nn.Tanh(), nn.Linear(5, 4))
    model, ours = Perceptron(6, 5, 4), PerSample(module)
    theta = draw((model.dim,))

    def reordered(vector):
        first, second = model.layers(vector)
        return np.concatenate([first.T.ravel(), second[:-1].T.ravel(), second[-1]])

    assert ours.dim == model.dim
    expected = reordered(model.clipped(theta, Batch.of(X, Y), 0.2))
    found = ours.clipped(reordered(theta), Batch.of(X, Y), 0.2)
    np.testing.assert_allclose(found, expected, atol=1e-5, rtol=1e-4)
    outputs = ours.outputs(reordered(theta), X)
    np.testing.assert_allclose(outputs, model.outputs(theta, X), atol=1e-5)


class Small(nn.Module):
    """The network of `problems.convolution` in torch's words, its parameters in the same order."""

    def __init__(self, filters, classes):
        super().__init__()
        self.known = [torch.tensor(part) for part in convolution.public(filters)]
        self.changes = nn.Parameter(torch.zeros(37, filters))
        self.dense = nn.Parameter(torch.zeros(16 * filters + 1, classes))

    def forward(self, x):
        first, mean, mixture = self.known
        weights = first + convolution.SCALE * self.changes
        kernels = weights[:-1].T.reshape(-1, 1, 6, 6)
        maps = torch.tanh(nn.functional.conv2d(x[:, None], kernels, weights[-1], stride=2))
        cells = nn.functional.avg_pool2d(maps, 3).flatten(2).mT
        white = ((cells - mean) @ mixture).flatten(1)
        constant = torch.full((len(x), 1), convolution.CONSTANT)
        return torch.cat([white, constant], dim=1) @ self.dense


def pictures(count):
    random = generator(4, Purpose.DATA)
    return random.uniform(size=(count, 28, 28)).astype(np.float32), random.integers(3, size=count)


@pytest.mark.parametrize("clip", [0.2, 100.0])
def test_convolutions_layer_by_layer_are_torch_sample_by_sample(monkeypatch, clip):
    monkeypatch.setattr(convolution, "PIECE", 4)
    ours, theirs = Convolution(5, 3), PerSample(Small(5, 3))
    theta, batch = 3.0 * draw((ours.dim,)), Batch.of(*pictures(9))
    assert ours.dim == theirs.dim == 37 * 5 + 81 * 3
    outputs, expected = (one.outputs(theta, batch.x) for one in (ours, theirs))
    np.testing.assert_allclose(outputs, expected, atol=1e-4, rtol=1e-4)
    (none, rows), (_, expected) = (one.factors(theta, batch, clip) for one in (ours, theirs))
    assert rows.dtype == np.float64 and none.shape == (9, 0)
    close = 1e-5 * np.abs(expected).max()
    np.testing.assert_allclose(rows, expected, atol=close, rtol=1e-3)
    total = ours.clipped(theta, batch, clip)
    np.testing.assert_allclose(total, rows.sum(axis=0), atol=close)
    np.testing.assert_allclose(total, theirs.clipped(theta, batch, clip), atol=9 * close)


def test_a_huge_gradient_of_a_convolution_is_cut_to_the_clip():
    """Weights and pixels a thousand times too large: the longest row has length C."""
    model = Convolution(5, 3)
    x, y = pictures(9)
    rows = model.factors(1e3 * draw((model.dim,)), Batch.of(1e3 * x, y), 0.1).rest
    assert np.linalg.norm(rows, axis=1).max() == pytest.approx(0.1, rel=1e-12)
    short = [model.factors(np.zeros(model.dim), Batch.of(x, y), clip).rest for clip in (9.0, 99.0)]
    np.testing.assert_array_equal(*short)  # what is shorter than the clip is left alone


def test_public_constants_centre_and_scale_what_strokes_become():
    model = Convolution(5, 80)  # W hands on its inputs, but for the constant
    theta = np.concatenate([np.zeros(model.first), np.eye(81, 80).ravel()])
    strokes = scattering.strokes(convolution.STROKES, convolution.PUBLIC).astype(np.float32)
    white = model.outputs(theta, strokes)
    assert np.abs(white.mean(axis=0)).max() < 1e-5
    assert np.square(white).sum(axis=1).mean() == pytest.approx(1.0, abs=1e-4)


def test_the_oracle_averages_what_was_seen_whatever_the_chunks(monkeypatch):
    model, x, y = Softmax(3, 2), draw((2, 12, 3)), np.array([[0, 1] * 6] * 2)
    oracle = History(model, x, y, clip=0.5, warm_up=2, samples=3)
    theta = draw((1, 2, 6))
    found = oracle(theta, 1)
    for agent in range(2):
        total = one_by_one(model, theta[0, agent], x[agent], y[agent], 0.5)  # 3 (2 + 2): all twelve
        np.testing.assert_allclose(found[0, agent], total / 12, atol=1e-6)
    monkeypatch.setattr(clipped, "CHUNK", 5)
    np.testing.assert_allclose(oracle(theta, 1), found, atol=1e-12)
    with pytest.raises(ValueError, match="agent 0 has 12 samples, t = 2 needs 15"):
        oracle(theta, 2)
    right = (model.outputs(theta[0, 1], x[1].astype(np.float32)).argmax(axis=1) == y[1]).mean()
    assert oracle.accuracy(theta, x[1].astype(np.float32), y[1])[0, 1] == right


def test_one_sample_moves_the_mean_by_no_more_than_promised():
    """Replaced samples, far away ones too: never more than 2 C / N_t."""
    model = Perceptron(3, 4, 2)
    x, y = draw((1, 9, 3)), np.array([[0, 1, 0] * 3])
    theta, other = draw((1, 1, model.dim)), x.copy()
    other[0, 4] = 1e3 * x[0, 4]
    pair = [History(model, rows, y, clip=0.3, samples=9)(theta, 0) for rows in (x, other)]
    assert 0 < np.linalg.norm(pair[0] - pair[1]) <= 2 * 0.3 / 9


def test_a_plan_takes_the_oracle_as_it_says_what_it_does():
    schedules = Schedules(1.0, 0.9, (1.0,) * 5, (0.51,) * 5)
    terms = promise.Terms(
        network.paper(0.2), schedules, 0.1, warm_up=2, samples=3, cone=True, box=9.0
    )
    plan = promise_plan.Plan(terms, promise.certify(terms, 10), 0.0, 1)
    x, y = [draw((12, 3))] * 5, [np.array([0, 1] * 6)] * 5
    plan.require(plan.algorithm(), History(Softmax(3, 2), x, y, clip=0.1, warm_up=2, samples=3))
    with pytest.raises(ValueError, match="cone"):
        plan.require(plan.algorithm(), History(Perceptron(3, 4, 2), x, y, 0.1, 2, 3))
    with pytest.raises(ValueError, match="clip = nan must be positive"):
        History(Softmax(3, 2), x, y, clip=float("nan"))
