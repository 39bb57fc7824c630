"""Algorithm 1 with a public dither: its transcription, its receivers, its warm-up."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from companion.data import streams
from companion.problems.logistic import Logistic
from companion.problems.onehot import OneHot
from ldp_core import engine, network, optimizer, quantizer
from ldp_core.accountant import trajectory
from ldp_core.optimizer import Algorithm1, Schedules
from ldp_core.randomness import Purpose, Uniforms, generator
from tests.reference import algorithm1
from tests.test_optimizer import ALGORITHM, DITHERED, quadratic, random_schedules, seeds


@settings(max_examples=40, deadline=None)
@given(seeds, st.integers(0, 2**64 - 1), st.booleans())
def test_dithered_equals_the_literal_transcription(seed, public, compiled):
    rng = np.random.default_rng(seed)
    agents, dim, iterations = (
        int(rng.integers(2, 7)),
        int(rng.integers(1, 6)),
        int(rng.integers(1, 12)),
    )
    net, matrix = network.random_strongly_connected(agents, rng), rng.normal(size=(dim, dim)) / dim
    schedules = random_schedules(rng, agents)
    theta_0, psi_0 = rng.normal(size=(2, agents, dim))
    plain, states = Algorithm1(net, schedules, dither=public), []
    private = (public + 1) % 2**64
    draws = [plain.coins(private)([7], t, dim) for t in range(iterations)]
    last = optimizer.run(
        engine.Compiled(plain) if compiled else plain, lambda theta, t: np.tanh(theta) @ matrix,
        theta_0[None], iterations, seed=private, runs=[7], psi_0=psi_0[None],
        observe=lambda state, messages: states.append(state),
    )  # fmt: skip
    theta, psi, _ = algorithm1.run(
        net.R, net.C, schedules.lam_0, schedules.nu, schedules.d_0, schedules.varsigma,
        theta_0, psi_0,
        lambda i, theta, t: np.tanh(theta) @ matrix, [draw.coins[0] for draw in draws], iterations,
        dither=[draw.dither[0] for draw in draws],
    )  # fmt: skip
    for t, state in enumerate([*states, last]):
        assert np.allclose(state.theta[0], theta[t], rtol=1e-11, atol=1e-11)
        assert np.allclose(state.psi[0], psi[t], rtol=1e-11, atol=1e-11)


def test_a_receiver_makes_the_dither_again_and_reads_the_values():
    """From the levels, the steps and the public seed alone; the transcript's own dither is the
    same, fresh everywhere.
    """
    transcript, states = optimizer.Transcript(), []

    def observe(state, messages):
        states.append(state)
        transcript(state, messages)

    optimizer.run(
        DITHERED, quadratic, np.full((2, 5, 3), 0.3), 6, seed=1, runs=[4, 9], observe=observe
    )
    public, seen = Uniforms(2026, Purpose.DITHER), []
    for t, (state, messages) in enumerate(zip(states, transcript.messages, strict=True)):
        offsets, step = public([4, 9], t, (2, 5, 3)), DITHERED.schedules.step(t)[:, None]
        assert messages.theta.dtype == messages.psi.dtype == np.int64
        assert np.array_equal(messages.dither, offsets)
        for sent, level, of, own in zip(
            messages.values(),
            messages[1:3],
            offsets.swapaxes(0, 1),
            (state.theta, state.psi),
            strict=True,
        ):
            assert np.array_equal(sent, (level + of) * step)
            assert (np.abs(sent - own) < step).all()
        seen.append(offsets)
    assert len(np.unique(seen)) == np.size(
        seen
    )  # no offset is used twice, over messages, coordinates, agents, time or runs


def test_dithered_transcripts_serve_the_accountant():
    """An agent's states can be replayed from what it received: the messages' values carry the
    dither.
    """
    transcript, states = optimizer.Transcript(), []

    def observe(state, messages):
        states.append(state)
        transcript(state, messages)

    start = generator(8, Purpose.INITIAL).normal(size=(2, 5, 3))
    optimizer.run(DITHERED, quadratic, start, 9, seed=1, observe=observe)
    arrived = trajectory.received(DITHERED, transcript, 2)
    replayed = trajectory.replay(DITHERED, 2, arrived, lambda theta, t: theta - 2.0, start[:, 2])
    for (t, theta, psi), state in zip(replayed, states, strict=True):
        assert t == state.t
        assert np.allclose(theta, state.theta[:, 2], atol=1e-12) and np.allclose(
            psi, state.psi[:, 2], atol=1e-12
        )


def test_without_dither_the_coins_and_messages_are_the_papers():
    """The same numbers from the same addresses, and levels of the quantizer without dither, bit for
    bit.
    """
    coins, state = (
        ALGORITHM.coins(3),
        ALGORITHM.init(generator(1, Purpose.INITIAL).normal(size=(2, 5, 4))),
    )
    tosses = coins([5, 0], 0, 4)
    assert np.array_equal(tosses, Uniforms(3, Purpose.COINS)([5, 0], 0, (2, 5, 4)))
    _, messages = ALGORITHM.step(state, np.zeros((2, 5, 4)), tosses)
    step = ALGORITHM.schedules.step(0)[:, None]
    assert messages.dither is None and np.array_equal(
        messages.theta, quantizer.quantise(state.theta, step, tosses[:, 0])
    )
    assert np.array_equal(messages.values()[0], messages.theta * step)
    assert np.array_equal(
        DITHERED.coins(3)([5, 0], 0, 4).coins, tosses
    )  # a dither leaves the private coins alone


def test_dithered_runs_reach_the_optimum_too():
    schedules = Schedules(0.5, 0.75, (0.2,) * 5, (0.7,) * 5)
    algorithm = engine.Compiled(Algorithm1(network.paper(), schedules, dither=1))
    last = optimizer.run(algorithm, quadratic, np.zeros((20, 5, 1)), 2000, seed=5)
    assert np.abs(last.theta.mean(axis=0) - 2.0).max() < 0.1
    assert last.theta.std(axis=1).max() < 0.1


@pytest.mark.parametrize("dither", [None, 11])
def test_a_warm_up_is_a_longer_history_and_nothing_else(dither):
    """Algorithm 1 with warm_up = 4 equals the transcription whose gradient at t is over the first 4
    + t + 1 data points.
    """
    rng, warm_up, iterations = np.random.default_rng(0), 4, 7
    sizes = (3, 4, 2)
    features = OneHot(np.stack([rng.integers(0, size, 60) for size in sizes], axis=1), sizes, "l2")
    labels = rng.choice([-1, 1], 60)
    train, _ = streams.history(3, [6], 5, warm_up + iterations, 2, 60, 20)
    plain = Algorithm1(
        network.paper(), optimizer.paper_schedules(0.5, 0.71, 2.0, 0.01, 0.6), dither=dither
    )
    oracle = Logistic(features, labels, train, warm_up=warm_up)
    assert oracle.iterations == iterations
    longer, _ = streams.history(3, [6], 5, warm_up + iterations + 10, 2, 60, 20)
    assert np.array_equal(
        train, longer[:, :, : warm_up + iterations]
    )  # the data do not depend on the horizon
    last = optimizer.run(
        engine.Compiled(plain), oracle, np.zeros((1, 5, 9)), iterations, seed=3, runs=[6]
    )

    def gradient(i, theta, t):
        points = [
            [(features.dense([row])[0], float(labels[row])) for row in point]
            for point in train[0, i, : warm_up + t + 1]
        ]
        return algorithm1.logistic_gradient(theta, points)

    draws = [plain.separate(plain.coins(3)([6], t, 9)) for t in range(iterations)]
    schedules = plain.schedules
    theta, psi, _ = algorithm1.run(
        plain.network.R, plain.network.C,
        schedules.lam_0, schedules.nu, schedules.d_0, schedules.varsigma,
        np.zeros((5, 9)), np.zeros((5, 9)), gradient, [coins[0] for coins, _ in draws], iterations,
        dither=None if dither is None else [offsets[0] for _, offsets in draws],
    )  # fmt: skip
    assert np.allclose(last.theta[0], theta[-1], rtol=1e-12, atol=1e-12)
    assert np.allclose(last.psi[0], psi[-1], rtol=1e-12, atol=1e-12)
    cold = optimizer.run(
        engine.Compiled(plain),
        Logistic(features, labels, train),
        np.zeros((1, 5, 9)),
        iterations,
        seed=3,
        runs=[6],
    )
    assert np.abs(cold.theta - last.theta).max() > 1e-3  # and it does make a difference
