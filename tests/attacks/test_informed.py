"""The attacker who knows all but one sample: its likelihoods are those of the messages."""

import numpy as np
import pytest
from torch import nn

from companion.attacks import informed
from companion.problems.clipped import History, Perceptron, PerSample, Softmax
from companion.problems.convolution import Convolution
from ldp_core import network, optimizer, quantizer
from ldp_core.optimizer import Algorithm1, Schedules
from ldp_core.randomness import Purpose, generator

T, AGENT = 5, 1
MODELS = {
    "softmax": (Softmax(3, 2), (3,)),
    "network": (Perceptron(3, 2, 2), (3,)),
    "convolution": (Convolution(2, 2), (28, 28)),
    "module": (PerSample(nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 2))), (3,)),
}


def heard_run(model, shape):
    """Return algorithm, oracle, ear and transcript of a small run with steps far above the
    shifts."""
    random = generator(5, Purpose.DATA)
    x = random.normal(size=(5, 24, *shape)).astype(np.float32)
    y = random.integers(2, size=(5, 24))
    oracle = History(model, x, y, clip=0.5, warm_up=4, samples=2)
    schedules = Schedules(2.0, 0.9, (20.0,) * 5, (0.51,) * 5)
    algorithm = Algorithm1(network.paper(0.2), schedules, degree=3, at_sent=True, box=100.0)
    ear, transcript = informed.Ear(3), optimizer.Transcript()

    def observe(state, messages):
        ear(state, messages)
        transcript(state, messages)

    start = random.normal(size=(1, 5, model.dim))
    optimizer.run(algorithm, oracle, start, T, seed=0, observe=observe)
    return algorithm, oracle, ear, transcript, start


def exact(algorithm, oracle, transcript, start, x, y):
    """Return log p of what AGENT sent if its first sample were (x, y): eq. (4), step by step."""
    own_x, own_y = oracle.x[AGENT].copy(), oracle.y[AGENT].copy()
    own_x[0], own_y[0] = x, y
    theta, psi, total = start[0, AGENT], np.zeros(start.shape[2]), 0.0
    R, C, agents = algorithm.network.R, algorithm.network.C, algorithm.network.agents
    z = algorithm.network.z(T)[:, AGENT]
    alone = History(oracle.model, [own_x], [own_y], oracle.clip, oracle.warm_up, oracle.samples)
    for messages in transcript.messages:
        t, step = messages.t, messages.step[AGENT]
        for state, levels in ((theta, messages.theta), (psi, messages.psi)):
            laws = quantizer.probability(levels[0, AGENT], state, step, degree=3)
            total += float(np.log(laws).sum())
        sent_theta, sent_psi = (part[0] for part in messages.values())
        gradient = alone(sent_theta[None, AGENT : AGENT + 1], t)[0, 0]
        others = [j for j in range(agents) if j != AGENT]
        new = (1 + C[AGENT, AGENT]) * psi + C[AGENT, others] @ sent_psi[others]
        new = new + algorithm.schedules.lam(t) * gradient
        theta = (1 + R[AGENT, AGENT]) * theta + R[AGENT, others] @ sent_theta[others]
        theta = theta - (new - psi) / (agents * z[t])
        psi = new
    return total


@pytest.mark.parametrize("name", MODELS)
def test_likelihoods_are_those_of_the_messages(name):
    """States move by small parts of a step, so that what is left out is below five per cent."""
    algorithm, oracle, ear, transcript, start = heard_run(*MODELS[name])
    true_x, true_y = oracle.x[AGENT][0], oracle.y[AGENT][0]
    x = np.stack([true_x, true_x, -true_x, oracle.x[0][3]])
    y = np.stack([true_y, 1 - true_y, true_y, oracle.y[0][3]])
    about = informed.Samples(x[None], y[None])
    found = informed.likelihoods(algorithm, oracle, ear, AGENT, about)[0]
    assert np.allclose(np.diagonal(found), 0.0)
    found = found[0]
    logs = [exact(algorithm, oracle, transcript, start, *pair) for pair in zip(x, y, strict=True)]
    expected = np.array(logs) - logs[0]
    assert found[0] == 0.0 and np.abs(expected[1:]).min() > 1e-3
    np.testing.assert_allclose(found, expected, atol=0.05 * np.abs(expected).max())


@pytest.mark.parametrize("degree", [2, 3])
def test_the_score_is_the_derivative_of_the_log_probability(degree):
    x = np.linspace(-0.9, 0.9, 37)
    level, step = np.zeros_like(x), 1e-6
    logs = [np.log(quantizer.density(level - moved, degree)) for moved in (x + step, x - step)]
    np.testing.assert_allclose(
        informed.score(x, level, degree), (logs[0] - logs[1]) / (2 * step), atol=1e-5
    )


def test_no_promise_is_certainty_and_a_full_one_is_guessing():
    assert informed.ceiling(0.0, 10) == pytest.approx(0.1)
    assert informed.ceiling(1.0, 10) == pytest.approx(1.0)
    assert informed.ceiling(0.25, 10) == pytest.approx(0.325)
