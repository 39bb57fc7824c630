"""Inversion of EEGNet's gradients: the batched network against the module, its gradients, and what
is recovered.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from companion.attacks import signals
from companion.problems.eegnet import EEGNet
from companion.problems.parameters import initial, layout
from tests.problems.cases import calibrated

CHANNELS, SAMPLES, FS, CLASSES = 4, 64, 32.0, 3
TRIALS, STATES = 3, 2


def scene(
    batch_norm: str = "batch", states: int = STATES, trials: int = TRIALS, dtype=torch.float64
):
    network = EEGNet(CHANNELS, SAMPLES, FS, CLASSES, batch_norm=batch_norm).to(dtype)
    if batch_norm == "fixed":
        random = torch.Generator().manual_seed(9)
        calibrated(network, torch.randn(5, CHANNELS, SAMPLES, dtype=dtype, generator=random))
    theta = np.stack([initial(network, "pytorch", seed=1, run=run) for run in range(states)])
    theta = np.repeat(theta[None], trials, axis=0)
    random = np.random.default_rng(3)
    shape = signals.fourier(CHANNELS, SAMPLES, FS, (4.0, 12.0))
    coefficients = torch.tensor(random.normal(size=(trials, shape.unknowns)), dtype=torch.float32)
    x = shape.signal(coefficients).double().numpy()
    return network, theta, x, np.arange(trials) % CLASSES, shape


@pytest.mark.parametrize("batch_norm", ["batch", "fixed", "none"])
def test_outputs_are_those_of_the_module_on_each_trial_alone(batch_norm):
    network, theta, x, _, _ = scene(batch_norm)
    theta = theta + 0.1 * np.random.default_rng(0).normal(
        size=theta.shape
    )  # every trial at parameters of its own
    found = signals.outputs(network, torch.tensor(theta), torch.tensor(x))
    for trial, state in np.ndindex(TRIALS, STATES):
        views = layout(network).views(torch.tensor(theta[trial, state]))
        alone = torch.func.functional_call(network, views, (torch.tensor(x[trial : trial + 1]),))
        torch.testing.assert_close(found[trial, state], alone[0], atol=1e-10, rtol=1e-9)


@pytest.mark.parametrize("batch_norm", ["batch", "fixed", "none"])
def test_gradients_are_those_of_the_module_on_each_trial_alone(batch_norm):
    network, theta, x, labels, _ = scene(batch_norm)
    found = signals.trial_gradients(
        network, torch.tensor(theta), torch.tensor(x), torch.tensor(labels)
    )
    for trial, state in np.ndindex(TRIALS, STATES):
        vector = torch.tensor(theta[trial, state], requires_grad=True)
        outputs = torch.func.functional_call(
            network, layout(network).views(vector), (torch.tensor(x[trial : trial + 1]),)
        )
        loss = torch.nn.functional.cross_entropy(outputs, torch.tensor(labels[trial : trial + 1]))
        torch.testing.assert_close(
            found[trial, state], torch.autograd.grad(loss, vector)[0], atol=1e-10, rtol=1e-7
        )


@pytest.mark.parametrize("weighting", signals.WEIGHTINGS)
def test_the_attacks_own_gradient_agrees_with_finite_differences(weighting):
    network, theta, x, labels, shape = scene()
    shape = signals.Shape(*(part.double() for part in shape))
    wanted = signals.trial_gradients(
        network, torch.tensor(theta), torch.tensor(x), torch.tensor(labels)
    )
    weights = signals._weights(network, wanted, weighting)
    function = signals._matching(
        network, torch.tensor(theta), wanted, torch.tensor(labels), weights, shape
    )
    random = torch.Generator().manual_seed(5)
    point = torch.randn(TRIALS, shape.unknowns, dtype=torch.float64, generator=random)
    way = torch.randn(TRIALS, shape.unknowns, dtype=torch.float64, generator=random)
    step = 1e-5
    slope = (function(point + step * way)[0] - function(point - step * way)[0]) / (2 * step)
    torch.testing.assert_close((function(point)[1] * way).sum(1), slope, rtol=1e-5, atol=1e-9)


def overheard(trials):
    """Return a scene of six models, in float32, and what is heard of its trials."""
    network, theta, x, labels, shape = scene("batch", states=6, trials=trials, dtype=torch.float32)
    states, signal = (torch.tensor(part, dtype=torch.float32) for part in (theta, x))
    heard = signals.trial_gradients(network, states, signal, torch.tensor(labels)).numpy()
    return network, theta, x, labels, shape, heard


def test_most_trials_are_recovered_from_several_models():
    """Eight of twelve at least: a search may end elsewhere, and the last bit decides which one
    does.

    Of 240 searches on five emulated processors 232 came to a correlation above 0.9. If each does
    with this probability, 0.967, fewer than eight of twelve do with probability 3e-5; if one in
    fourteen fails, 1e-3.
    """
    network, theta, x, labels, shape, heard = overheard(trials=12)
    np.testing.assert_array_equal(signals.inferred_labels(network, heard), labels)
    found = signals.invert(
        network, theta, heard, labels, shape, steps=150, seed=0, numbers=np.arange(12)
    )
    assert (signals.scores(found.x, x, FS, (4.0, 12.0)).correlation > 0.9).sum() >= 8
    assert not found.diverged.any()


def test_the_path_of_a_trial_is_its_own():
    network, theta, _, labels, shape, heard = overheard(trials=TRIALS)
    short = {"steps": 8, "seed": 0}
    together = signals.invert(
        network, theta, heard, labels, shape, numbers=np.arange(TRIALS), **short
    )
    alone = signals.invert(
        network, theta[1:2], heard[1:2], labels[1:2], shape, numbers=np.array([1]), **short
    )
    np.testing.assert_allclose(
        alone.x[0], together.x[1], rtol=1e-2, atol=1e-3 * np.abs(together.x[1]).max()
    )


def test_one_model_has_fewer_equations_than_unknowns_can_need():
    network, _, _, _, shape = scene()
    one, unknowns = signals.equations(network, 1, shape)
    assert one == sum(parameter.numel() for parameter in network.parameters())
    assert signals.equations(network, 7, shape) == (7 * one, unknowns)
    assert unknowns == CHANNELS * 34  # 4 ... 12 Hz in steps of half a Hertz, cosine and sine


def test_fourier_functions_are_orthonormal_and_all_of_them_hold_everything():
    narrow, everything = (
        signals.fourier(CHANNELS, SAMPLES, FS, band).functions.double()
        for band in ((4.0, 12.0), None)
    )
    torch.testing.assert_close(
        narrow @ narrow.T, torch.eye(len(narrow), dtype=torch.float64), atol=1e-6, rtol=0
    )
    assert len(everything) == SAMPLES
    with pytest.raises(ValueError, match=r"band = .* holds no Fourier frequency"):
        signals.fourier(CHANNELS, SAMPLES, FS, (4.1, 4.2))


def test_a_learned_shape_has_the_covariance_and_spectrum_it_was_shown():
    plain = signals.fourier(CHANNELS, SAMPLES, FS, (4.0, 12.0))
    random = np.random.default_rng(0)
    mixing = np.tril(random.normal(size=(CHANNELS, CHANNELS))) + 2 * np.eye(CHANNELS)
    fall = np.linspace(2.0, 0.5, len(plain.functions))
    X = mixing @ (random.normal(size=(2000, CHANNELS, len(fall))) * fall) @ plain.functions.numpy()
    shape = signals.learned(X, plain)
    spread = np.linalg.norm(shape.functions.numpy(), axis=1)
    np.testing.assert_allclose(spread / spread[0], fall / fall[0], rtol=0.05)
    covariance = shape.mixing.numpy() @ shape.mixing.numpy().T
    expected = mixing @ mixing.T
    np.testing.assert_allclose(
        covariance / np.trace(covariance), expected / np.trace(expected), atol=0.02
    )


def test_scores_know_a_perfect_and_a_scaled_and_an_unrelated_reconstruction():
    random = np.random.default_rng(0)
    x, other = random.normal(size=(2, 5, CHANNELS, SAMPLES))
    perfect, scaled, unrelated = (
        signals.scores(found, x, FS, (4.0, 12.0)) for found in (x, 0.01 * x, other)
    )
    for found in (perfect, scaled):
        np.testing.assert_allclose(found.correlation, 1.0)
        np.testing.assert_allclose(found.relative_error, 0.0, atol=1e-7)
        np.testing.assert_allclose(found.spectrum_error, 0.0, atol=1e-7)
    assert np.abs(unrelated.correlation).max() < 0.3
    assert unrelated.relative_error.min() > 0.95


def test_an_unknown_weighting_is_named():
    network, theta, _, labels, shape = scene()
    with pytest.raises(ValueError, match="weighting = 'loud' must be one of none, state, tensor"):
        signals.invert(
            network, theta, theta, labels, shape, steps=1, seed=0, numbers=labels, weighting="loud"
        )
