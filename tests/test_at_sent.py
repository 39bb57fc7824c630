"""Algorithm 1 with smoother coins, gradients at the sent value, and a box for what is received."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldp_core import engine, network, optimizer
from ldp_core.optimizer import Algorithm1, Schedules
from ldp_core.randomness import Purpose, generator
from tests.reference import algorithm1

SCHEDULES = Schedules(0.5, 0.71, (2.0,) * 5, (0.6,) * 5)
ALGORITHM = Algorithm1(network.paper(), SCHEDULES, degree=3, at_sent=True, box=30.0)


def pulled(theta, t):
    """Agent i pulls to the point i, with a force of at most one."""
    return np.clip(theta - np.arange(5.0)[:, None], -1.0, 1.0)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 2, 3, 4]),
    st.booleans(),
    st.sampled_from([None, 5]),
    st.sampled_from([None, 0.7]),
)
def test_equals_the_literal_transcription(seed, degree, at_sent, dither, box):
    rng = generator(seed, Purpose.SYNTHETIC)
    agents, dim, iterations = 4, 3, 8
    net = network.random_strongly_connected(agents, rng)
    schedules = Schedules(0.7, 0.8, tuple(rng.uniform(0.3, 3, agents)), (0.6,) * agents)
    weights = rng.normal(size=(agents, dim))
    theta_0, psi_0 = rng.normal(size=(2, agents, dim))

    def gradient(i, theta, t):
        return np.tanh(theta - weights[i]) / (t + 1)

    def oracle(theta, t):
        return np.stack([[gradient(i, theta[0, i], t) for i in range(agents)]])

    algorithm = Algorithm1(net, schedules, dither=dither, degree=degree, at_sent=at_sent, box=box)
    draws = [algorithm.separate(algorithm.coins(seed + 6)([0], t, dim)) for t in range(iterations)]
    found = optimizer.run(
        algorithm, oracle, theta_0[None], iterations, seed=seed + 6, psi_0=psi_0[None]
    )
    theta, psi, _ = algorithm1.run(
        net.R,
        net.C,
        schedules.lam_0,
        schedules.nu,
        schedules.d_0,
        schedules.varsigma,
        theta_0,
        psi_0,
        gradient,
        [coins[0] for coins, _ in draws],
        iterations,
        dither=None if dither is None else [offsets[0] for _, offsets in draws],
        degree=degree,
        at_sent=at_sent,
        box=math.inf if box is None else box,
    )
    assert np.allclose(found.theta[0], theta[-1], rtol=1e-11, atol=1e-11)
    assert np.allclose(found.psi[0], psi[-1], rtol=1e-11, atol=1e-11)


def test_gradients_are_taken_at_what_was_sent():
    asked, transcript = [], optimizer.Transcript()

    def oracle(theta, t):
        asked.append(theta.copy())
        return np.zeros_like(theta)

    start = np.full((2, 5, 3), 0.3)
    optimizer.run(ALGORITHM, oracle, start, 4, seed=1, observe=transcript)
    for point, messages in zip(asked, transcript.messages, strict=True):
        assert np.array_equal(point, messages.values()[0])
    assert not np.array_equal(asked[0], start)


@pytest.mark.parametrize("dither", [None, 7])
def test_a_run_that_is_cut_and_resumed_ends_in_the_same_bits(dither):
    algorithm, start = dataclasses.replace(ALGORITHM, dither=dither), np.zeros((3, 5, 2))
    whole = optimizer.run(algorithm, pulled, start, 20, seed=3)
    half = optimizer.run(algorithm, pulled, start, 9, seed=3)
    rest = optimizer.resume(algorithm, pulled, half, 11, seed=3)
    assert np.array_equal(whole.theta, rest.theta) and np.array_equal(whole.psi, rest.psi)


@pytest.mark.parametrize("options", [{"at_sent": False}, {}, {"dither": 7}, {"degree": 1}])
def test_the_compiled_engine_gives_the_same_bits(options):
    algorithm, start = dataclasses.replace(ALGORITHM, **options), np.zeros((3, 5, 2))
    plain = optimizer.run(algorithm, pulled, start, 20, seed=3)
    fast = optimizer.run(engine.Compiled(algorithm), pulled, start, 20, seed=3)
    assert np.array_equal(plain.theta, fast.theta) and np.array_equal(plain.psi, fast.psi)


def test_the_box_bounds_every_state():
    """A neighbour that sends 2^50 moves nobody beyond the box."""
    state = ALGORITHM.init(np.zeros((1, 5, 1)))
    coins = ALGORITHM.coins(5)
    for t in range(30):
        state = dataclasses.replace(state, theta=state.theta.copy())
        state.theta[:, 0] = 2.0**50
        messages = ALGORITHM.send(state, coins([0], t, 1))
        state = ALGORITHM.move(state, np.ones((1, 5, 1)), messages)
        assert np.abs(state.theta[:, 2:]).max() < 100


def test_smooth_coins_at_the_sent_value_still_reach_the_optimum():
    """The mean of 0 ... 4 is 2; the mean of 20 runs of 3000 iterations is within 0.2 of it."""
    last = optimizer.run(ALGORITHM, pulled, np.zeros((20, 5, 1)), 3000, seed=8)
    assert np.abs(last.theta.mean(axis=0) - 2.0).max() < 0.2


@pytest.mark.parametrize("box", [0.0, -1.0, math.inf, math.nan])
def test_a_box_that_is_none_is_refused(box):
    with pytest.raises(ValueError, match=r"box = .* must be positive and finite"):
        dataclasses.replace(ALGORITHM, box=box)
