"""EEGNet in the cheap order equals the published one; a weighted batch equals the repeated one; the
oracle is the gradient.
"""

import numpy as np
import pytest
import torch

from companion.problems import parameters
from companion.problems.eegnet import EEGNet, moments, of_batch, shares
from companion.problems.eegnet_history import EEGHistory, initial_state, prepare
from companion.problems.neural import FullHistory
from tests.problems.cases import calibrated
from tests.reference.eegnet_plain import PlainEEGNet

SHAPES = [
    (22, 250, 125.0),
    (5, 77, 40.0),
    (3, 64, 33.0),
    (4, 65, 250.0),
]  # the last filter is longer than the trial
TOLERANCES = {torch.float32: 1e-5, torch.float64: 1e-9}
pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")


def networks(shape, dtype, batch_norm="batch", seed=0):
    """Return our network and the plain one with the same random parameters."""
    channels, samples, fs = shape
    ours = EEGNet(channels, samples, fs, 4, batch_norm=batch_norm).to(dtype)
    plain = PlainEEGNet(channels, samples, fs, 4, normalised=batch_norm != "none").to(dtype)
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in plain.named_parameters():
            parameter.copy_(0.4 * torch.randn(parameter.shape, generator=draw) + ("norm" in name))
    ours.load_state_dict(plain.state_dict(), strict=False)
    return ours, plain


def signals(shape, dtype, trials=12, seed=1):
    """Return smooth trials with an offset, and labels."""
    draw = torch.Generator().manual_seed(seed)
    x = 0.2 * torch.randn(trials, *shape[:2], generator=draw, dtype=torch.float64).cumsum(-1) + 0.5
    return x.to(dtype), torch.randint(4, (trials,), generator=draw)


def loss_and_gradients(network, x, y, **options):
    x = x.clone().requires_grad_()
    outputs = network(x, **options)
    loss = torch.nn.functional.cross_entropy(outputs, y)
    named = dict(network.named_parameters())
    found = torch.autograd.grad(
        loss, [x, *named.values()], allow_unused=True, materialize_grads=True
    )
    return outputs.detach(), dict(zip(["x", *named], found, strict=True))


def assert_close(ours, plain, tolerance):
    for name, value in plain.items():
        assert (ours[name] - value).abs().max() <= tolerance * max(1.0, value.abs().max()), name


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("batch_norm", ["batch", "none"])
def test_the_cheap_order_equals_the_published_one(shape, dtype, batch_norm):
    ours, plain = networks(shape, dtype, batch_norm)
    x, y = signals(shape, dtype)
    (mine, my_gradients), (theirs, their_gradients) = (
        loss_and_gradients(network, x, y) for network in (ours, plain)
    )
    assert_close({"outputs": mine}, {"outputs": theirs}, TOLERANCES[dtype])
    assert_close(my_gradients, their_gradients, TOLERANCES[dtype])


def test_fixed_statistics_equal_the_plain_network_in_evaluation():
    ours, plain = networks(SHAPES[0], torch.float64, "fixed")
    x, _ = signals(SHAPES[0], torch.float64)
    plain(x)  # momentum one: the running mean is that of this batch, the running variance unbiased
    calibrated(ours, x)
    for name in ("norm1", "norm2", "norm3"):
        mine, theirs = ours.get_submodule(name), plain.get_submodule(name)
        assert torch.allclose(mine.running_mean, theirs.running_mean, atol=1e-12)
        theirs.running_var.copy_(mine.running_var)
    other, labels = signals(SHAPES[0], torch.float64, seed=5)
    (mine, my_gradients), (theirs, their_gradients) = (
        loss_and_gradients(network, other, labels) for network in (ours, plain.eval())
    )
    assert_close({"outputs": mine, **my_gradients}, {"outputs": theirs, **their_gradients}, 1e-9)
    assert torch.allclose(ours(other)[:1], ours(other[:1]), atol=1e-12), (
        "with fixed statistics samples are independent"
    )


@pytest.mark.parametrize("kernel", [1, 2, 7, 30])
def test_moments_by_their_definition(kernel):
    x, _ = signals((3, 20, 0), torch.float64, trials=4)
    left = (kernel - 1) // 2
    windows = torch.nn.functional.pad(x, (left, kernel - 1 - left)).unfold(
        -1, kernel, 1
    )  # [trials, channels, 20, kernel]
    first, second = moments(x, kernel)
    assert torch.allclose(first, windows.mean((1, 2)), atol=1e-12)
    assert torch.allclose(second, torch.einsum("bctj,bctk->bjk", windows, windows) / 60, atol=1e-12)


def weighted(network, x, counts):
    """Return the outputs of trials in which trial b counts counts[b] times."""
    trials = network.prepare(x)
    return network.outputs(network._own(), trials, of_batch(shares(trials, counts)))[0][:, 0]


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_weighted_batch_equals_the_repeated_one(shape, dtype):
    ours, plain = networks(shape, dtype)
    x, y = signals(shape, dtype)
    counts = torch.arange(len(x)) % 4  # zero is allowed: a trial that is still to come
    repeated = torch.arange(len(x)).repeat_interleave(counts)
    names, values = zip(*ours.named_parameters(), strict=True)
    expected = torch.nn.functional.cross_entropy(plain(x[repeated]), y[repeated])
    gradients = dict(
        zip(
            names,
            torch.autograd.grad(expected, dict(plain.named_parameters()).values()),
            strict=True,
        )
    )
    share = counts.to(dtype) / counts.sum()
    loss = torch.nn.functional.cross_entropy(weighted(ours, x, counts), y, reduction="none") @ share
    assert abs(loss.item() - expected.item()) <= TOLERANCES[dtype]
    found = torch.autograd.grad(loss, values, allow_unused=True, materialize_grads=True)
    assert_close(dict(zip(names, found, strict=True)), gradients, TOLERANCES[dtype])


def test_weights_that_are_ignored_would_be_noticed():
    ours, _ = networks(SHAPES[0], torch.float64)
    x, _ = signals(SHAPES[0], torch.float64)
    assert not torch.allclose(ours(x), weighted(ours, x, torch.arange(len(x))), atol=1e-3)


def test_attacks_can_differentiate_twice():
    ours, _ = networks((3, 64, 32.0), torch.float64)
    x, y = signals((3, 64, 32.0), torch.float64, trials=2)
    parameters_ = list(ours.parameters())
    options = {"create_graph": True, "allow_unused": True, "materialize_grads": True}

    def matched(z):
        loss = torch.nn.functional.cross_entropy(ours(z), y)
        return sum(g.square().sum() for g in torch.autograd.grad(loss, parameters_, **options))

    assert torch.autograd.gradcheck(
        matched, x.requires_grad_(), atol=1e-6, rtol=1e-4, fast_mode=True
    )


def history_problem(batch_norm="batch", dtype=torch.float64):
    shape = (3, 64, 32.0)
    x, y = signals(shape, dtype, trials=15)
    history = np.random.default_rng(3).integers(15, size=(2, 2, 4, 5))
    network = EEGNet(*shape, 4, batch_norm=batch_norm).to(dtype)
    oracle = EEGHistory(network, prepare(network, x.numpy()), y.numpy(), history)
    theta = np.array(
        [
            [initial_state(oracle.network, 0.5, seed=0, run=10 * r + a) for a in range(2)]
            for r in range(2)
        ]
    )
    return oracle, theta, x, y, history


def mean_loss(oracle, theta, t):
    """Return every agent's mean loss `[runs, agents]` over its history up to time t."""
    vectors = torch.tensor(theta, dtype=oracle.dtype)
    losses = [[oracle._loss((r, a), vectors[r, a], t).item() for a in range(2)] for r in range(2)]
    return np.array(losses)


@pytest.mark.parametrize("t", [0, 3])
def test_the_oracle_is_the_gradient_over_the_repeated_history(t):
    oracle, theta, x, y, history = history_problem()
    plain = PlainEEGNet(3, 64, 32.0, 4).double()
    gradients, losses = oracle(theta, t), mean_loss(oracle, theta, t)
    for pair in np.ndindex(2, 2):
        torch.nn.utils.vector_to_parameters(torch.tensor(theta[pair]), plain.parameters())
        rows = history[pair][: t + 1].ravel()
        loss = torch.nn.functional.cross_entropy(plain(x[rows]), y[rows])
        expected = torch.cat(
            [g.ravel() for g in torch.autograd.grad(loss, list(plain.parameters()))]
        )
        assert losses[pair] == pytest.approx(loss.item(), abs=1e-9)
        assert np.abs(gradients[pair] - expected.numpy()).max() <= 1e-9


def test_the_oracle_without_normalisation_equals_the_one_of_any_module():
    oracle, theta, x, y, history = history_problem("none")
    module = parameters.make(lambda: PlainEEGNet(3, 64, 32.0, 4, normalised=False)).double()
    plain = FullHistory(module, x, y, history)
    assert np.allclose(oracle(theta, 2), plain(theta, 2), rtol=0, atol=1e-12)


def test_fixed_statistics_stay_while_the_network_moves():
    oracle, theta, *_ = history_problem("fixed")
    before = mean_loss(oracle, theta, 3)
    oracle.calibrate(theta)
    calibrated = mean_loss(oracle, theta, 3)
    assert not np.allclose(before, calibrated)
    moved = mean_loss(oracle, 2 * theta, 3)
    oracle.calibrate(2 * theta)
    assert not np.allclose(moved, mean_loss(oracle, 2 * theta, 3))
    numerical = (mean_loss(oracle, theta + 1e-6, 3) - mean_loss(oracle, theta - 1e-6, 3)) / 2e-6
    assert np.allclose(oracle(theta, 3).sum(-1), numerical, atol=1e-6)


def test_outputs_are_those_of_the_plain_network_with_the_history_statistics():
    oracle, theta, x, y, history = history_problem()
    plain = PlainEEGNet(3, 64, 32.0, 4).double()
    torch.nn.utils.vector_to_parameters(torch.tensor(theta[1, 0]), plain.parameters())
    seen = history[1, 0][:3].ravel()
    both = torch.cat(
        [x[seen], x[seen]]
    )  # the same statistics, and an even number for the correction below
    plain(both)
    for layer in (plain.norm1, plain.norm2, plain.norm3):
        values = {plain.norm1: 3 * 64, plain.norm2: 64, plain.norm3: 16}[layer] * len(both)
        layer.running_var.mul_((values - 1) / values)  # torch keeps the unbiased variance
    expected = plain.eval()(x[[0, 7]])
    assert np.allclose(oracle.outputs(theta, [0, 7], 2)[1, 0], expected.detach().numpy(), atol=1e-9)
    right = (expected.argmax(1) == y[[0, 7]]).double().mean().item()
    assert oracle.accuracy(theta, [0, 7], 2)[1, 0] == right


def test_initial_state_scales_convolutions_alone():
    network = EEGNet(3, 64, 32.0, 4)
    whole, small = (initial_state(network, scale, seed=1, run=2) for scale in (1.0, 0.25))
    names = parameters.layout(network).views(
        torch.from_numpy(small / np.where(whole == 0, 1, whole))
    )
    for name, ratio in names.items():
        expected = (
            0.25 if name.split(".")[0] in ("temporal", "spatial", "separable", "pointwise") else 1.0
        )
        assert torch.allclose(ratio[ratio != 0], torch.tensor(expected, dtype=torch.float64)), name


def test_max_norm_shortens_what_is_too_long():
    network = EEGNet(3, 64, 32.0, 4)
    with torch.no_grad():
        network.spatial.weight.fill_(2.0)
        network.output.weight.fill_(0.001)
    network.constrain()
    length = network.spatial.weight.flatten(1).norm(dim=1)
    assert torch.allclose(length, torch.tensor(1.0), atol=1e-6)
    assert torch.allclose(network.output.weight, torch.tensor(0.001))


def test_dropout_acts_in_training_alone():
    network = EEGNet(3, 64, 32.0, 4, batch_norm="none", dropout=0.5)
    x, _ = signals((3, 64), torch.float32)
    assert not torch.equal(network(x), network(x))
    network.eval()
    assert torch.equal(network(x), network(x))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"samples": 31}, "samples = 31 must be at least 32"),
        ({"fs": 4.0}, "fs = 4.0 must be at least 8 Hz"),
    ],
)
def test_nonsense_is_refused_in_one_sentence(change, words):
    with pytest.raises(ValueError, match=words):
        EEGNet(**({"channels": 3, "samples": 64, "fs": 32.0, "classes": 4} | change))


def test_nan_is_noticed():
    oracle, theta, *_ = history_problem()
    theta[1, 1] = np.nan
    with pytest.raises(
        FloatingPointError,
        match="run 1 of this batch, agent 1: the gradient at t = 0 is infinite or NaN",
    ):
        oracle(theta, 0)
