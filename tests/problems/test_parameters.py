"""Flat parameters and initial values."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from companion.problems import parameters
from companion.problems.cnn import CNN

FALSE_ALARM = 1e-6  # of each statistical test below, were its seed drawn at random


def small():
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, 3))


def test_views_take_a_flat_vector_apart():
    module = parameters.make(small)
    layout = parameters.layout(module)
    views = layout.views(nn.utils.parameters_to_vector(module.parameters()))
    assert list(views) == [name for name, _ in module.named_parameters()]
    for name, parameter in module.named_parameters():
        assert torch.equal(views[name], parameter)
    assert layout.dim == sum(p.numel() for p in module.parameters())


def test_views_share_the_memory_of_the_vector():
    layout = parameters.layout(parameters.make(small))
    vector = torch.zeros(layout.dim)
    layout.views(vector)["3.bias"].fill_(1.0)
    assert vector.sum() == 3 and vector[-3:].sum() == 3


def test_a_module_without_parameters_is_refused():
    with pytest.raises(ValueError, match="no parameters"):
        parameters.layout(nn.Flatten())


def test_torch_global_generator_is_left_alone():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    parameters.make(small)
    parameters.initial(CNN, "he", seed=1)
    parameters.initial_states(small, "pytorch", seed=1, runs=[0], agents=2)
    assert torch.equal(torch.get_rng_state(), before)


def test_initial_values_ignore_torch_global_generator():
    torch.manual_seed(3)
    first = parameters.initial(small, seed=1)
    torch.manual_seed(4)
    assert np.array_equal(first, parameters.initial(small, seed=1))


@pytest.mark.parametrize("kind", ["he", "pytorch", "uniform"])
def test_initial_values_depend_on_seed_run_and_agent_alone(kind):
    base = parameters.initial(CNN, kind, seed=1, run=2, agent=3)
    assert np.array_equal(base, parameters.initial(CNN, kind, seed=1, run=2, agent=3))
    for other in ({"seed": 5}, {"run": 5}, {"agent": 5}):
        assert not np.array_equal(
            base, parameters.initial(CNN, kind, **{"seed": 1, "run": 2, "agent": 3} | other)
        )


def test_he_weights_have_variance_two_over_fan_in_and_biases_are_zero():
    module = parameters.make(CNN)
    views = parameters.layout(module).views(
        torch.from_numpy(parameters.initial(module, "he", seed=7))
    )
    fan_in = {
        "conv1": 9,
        "conv2": 9 * 32,
        "conv3": 9 * 32,
        "conv4": 9 * 64,
        "dense": 64,
        "output": 256,
    }
    for layer, inputs in fan_in.items():
        assert not views[f"{layer}.bias"].any()
        weights = views[f"{layer}.weight"].numpy().ravel()
        # sum w^2 / (2 / fan_in) is chi-squared with as many degrees of freedom as weights: an exact
        # test, two-sided.
        low, high = stats.chi2.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], len(weights))
        assert low < (weights**2).sum() * inputs / 2 < high
        assert stats.kstest(weights * (inputs / 2) ** 0.5, "norm").pvalue > FALSE_ALARM


def test_pytorch_kind_has_the_law_of_torch_default():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = CNN()
    ours = parameters.layout(module).views(
        torch.from_numpy(parameters.initial(module, "pytorch", seed=7))
    )
    for name, default in module.named_parameters():
        # A two-sample Kolmogorov-Smirnov test (exact or asymptotic p-value).
        assert (
            stats.ks_2samp(ours[name].numpy().ravel(), default.detach().numpy().ravel()).pvalue
            > FALSE_ALARM
        )


def test_uniform_kind_fills_minus_half_to_half():
    values = parameters.initial(CNN, "uniform", seed=7)
    assert np.abs(values).max() <= 0.5
    assert stats.kstest(values + 0.5, "uniform").pvalue > FALSE_ALARM


def test_normalisation_layers_start_as_the_identity():
    module = parameters.make(small)
    for kind in ("he", "pytorch"):
        views = parameters.layout(module).views(
            torch.from_numpy(parameters.initial(module, kind, seed=1))
        )
        assert (views["1.weight"] == 1).all() and (views["1.bias"] == 0).all()


def test_agents_start_together_unless_told_otherwise():
    together = parameters.initial_states(small, seed=1, runs=[4, 9], agents=3)
    assert together.shape == (2, 3, parameters.layout(parameters.make(small)).dim)
    assert (together == together[:, :1]).all() and not np.array_equal(together[0], together[1])
    assert np.array_equal(together[1, 2], parameters.initial(small, seed=1, run=9))
    apart = parameters.initial_states(small, seed=1, runs=[4, 9], agents=3, same=False)
    assert np.array_equal(apart[1, 2], parameters.initial(small, seed=1, run=9, agent=2))
    assert not np.array_equal(apart[0, 0], apart[0, 1])


def test_unknown_kinds_and_layers_are_refused():
    with pytest.raises(ValueError, match="kind = 'lecun' must be"):
        parameters.initial(small, "lecun", seed=1)
    with pytest.raises(ValueError, match="parameter 'weight' of a Embedding"):
        parameters.initial(lambda: nn.Embedding(3, 2), seed=1)
