"""The compiled engine gives the bits of the plain one, whatever the batch."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldp_core import engine, network, optimizer
from ldp_core.optimizer import Algorithm1, Dithered, Schedules


def problem(seed):
    rng = np.random.default_rng(seed)
    agents, dim = int(rng.integers(2, 7)), int(rng.integers(1, 9))
    nu = rng.uniform(0.6, 0.99)
    schedules = Schedules(
        rng.uniform(0.05, 1),
        nu,
        tuple(rng.uniform(0.01, 5, agents)),
        tuple(rng.uniform(0.501, nu - 0.001, agents)),
    )
    matrix = rng.normal(size=(dim, dim)) / dim
    start = rng.normal(size=(7, agents, dim)), rng.normal(size=(7, agents, dim))
    return (
        Algorithm1(network.random_strongly_connected(agents, rng), schedules),
        start,
        lambda theta, t: np.tanh(theta) @ matrix,
    )


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_same_bits_as_the_plain_algorithm(seed):
    plain, (theta_0, psi_0), oracle = problem(seed)
    sent, expected = optimizer.Transcript(), optimizer.Transcript()
    fast = optimizer.run(
        engine.Compiled(plain), oracle, theta_0, 15, seed=seed, psi_0=psi_0, observe=sent
    )
    slow = optimizer.run(plain, oracle, theta_0, 15, seed=seed, psi_0=psi_0, observe=expected)
    assert (
        np.array_equal(fast.theta, slow.theta)
        and np.array_equal(fast.psi, slow.psi)
        and np.array_equal(fast.z, slow.z)
    )
    for mine, theirs in zip(sent.messages, expected.messages, strict=True):
        assert np.array_equal(mine.theta, theirs.theta) and np.array_equal(mine.psi, theirs.psi)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2**32, 2**64 - 1))
def test_same_bits_as_the_plain_dithered_algorithm(seed, public):
    plain, (theta_0, psi_0), oracle = problem(seed)
    plain = dataclasses.replace(plain, dither=public)
    sent, expected = optimizer.Transcript(), optimizer.Transcript()
    fast = optimizer.run(
        engine.Compiled(plain), oracle, theta_0, 15, seed=seed, psi_0=psi_0, observe=sent
    )
    slow = optimizer.run(plain, oracle, theta_0, 15, seed=seed, psi_0=psi_0, observe=expected)
    assert (
        np.array_equal(fast.theta, slow.theta)
        and np.array_equal(fast.psi, slow.psi)
        and np.array_equal(fast.z, slow.z)
    )
    for mine, theirs in zip(sent.messages, expected.messages, strict=True):
        assert mine.theta.dtype == np.int64
        assert all(
            np.array_equal(ours, other) for ours, other in zip(mine[1:], theirs[1:], strict=True)
        )


def test_same_bits_alone_and_in_a_batch_of_seven():
    plain, (theta_0, psi_0), oracle = problem(2)
    together = optimizer.run(engine.Compiled(plain), oracle, theta_0, 30, seed=1, psi_0=psi_0)
    for run in (5, 0):
        alone = optimizer.run(
            engine.Compiled(plain),
            oracle,
            theta_0[[run]],
            30,
            seed=1,
            psi_0=psi_0[[run]],
            runs=[run],
        )
        assert np.array_equal(alone.theta[0], together.theta[run])


def test_too_large_a_level_is_the_quantizers_error():
    compiled = engine.Compiled(
        Algorithm1(network.paper(), optimizer.paper_schedules(0.5, 0.71, 2.0, 0.01, 0.6))
    )
    state = compiled.init(np.full((2, 5, 3), 1e18))
    with pytest.raises(ValueError, match=r"must not exceed 2\*\*52"):
        compiled.step(state, np.zeros((2, 5, 3)), np.zeros((2, 2, 5, 3)))
    with pytest.raises(ValueError, match="coins are needed"):
        compiled.step(state, np.zeros((2, 5, 3)), None)


def test_dithered_bits_do_not_depend_on_the_batch():
    plain, (theta_0, psi_0), oracle = problem(3)
    compiled = engine.Compiled(dataclasses.replace(plain, dither=8))
    together = optimizer.run(compiled, oracle, theta_0, 30, seed=1, psi_0=psi_0)
    for run in (5, 0):
        alone = optimizer.run(
            compiled, oracle, theta_0[[run]], 30, seed=1, psi_0=psi_0[[run]], runs=[run]
        )
        assert np.array_equal(alone.theta[0], together.theta[run])


def test_a_dithered_step_refuses_what_the_plain_one_refuses():
    compiled = engine.Compiled(
        Algorithm1(network.paper(), optimizer.paper_schedules(0.5, 0.71, 2.0, 0.01, 0.6), dither=8)
    )
    zeros, draws = np.zeros((2, 5, 3)), np.zeros((2, 2, 5, 3))
    with pytest.raises(ValueError, match=r"must not exceed 2\*\*52"):
        compiled.step(compiled.init(zeros + 1e18), zeros, Dithered(draws, draws))
    with pytest.raises(ValueError, match=r"dither = 1.0 must lie in \[0, 1\)"):
        compiled.step(compiled.init(zeros), zeros, Dithered(draws, draws + 1.0))
    with pytest.raises(ValueError, match="came without it"):
        compiled.step(compiled.init(zeros), zeros, draws)
