"""Algorithm 1 against its literal transcription, its invariants, its twin and D-PSGD."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldp_core import engine, network, optimizer
from ldp_core.optimizer import DPSGD, Algorithm1, Dithered, Schedules
from ldp_core.randomness import Purpose, generator
from tests.reference import algorithm1

seeds = st.integers(0, 2**32 - 1)


def random_schedules(rng, agents) -> Schedules:
    nu = rng.uniform(0.6, 0.99)
    return Schedules(
        rng.uniform(0.05, 1),
        nu,
        tuple(rng.uniform(0.1, 5, agents)),
        tuple(rng.uniform(0.501, nu - 0.001, agents)),
    )


def random_problem(rng, agents, dim, iterations):
    """Return data points per agent: a list over time of lists of (row, label), with a varying
    number of samples.
    """
    return [
        [
            [(rng.normal(size=dim), rng.choice([-1.0, 1.0])) for _ in range(rng.integers(1, 4))]
            for _ in range(iterations)
        ]
        for _ in range(agents)
    ]


@settings(max_examples=40, deadline=None)
@given(seeds, st.booleans())
def test_equals_the_literal_transcription(seed, quantised):
    rng = np.random.default_rng(seed)
    agents, dim, iterations = (
        int(rng.integers(2, 7)),
        int(rng.integers(1, 6)),
        int(rng.integers(1, 12)),
    )
    net = network.random_strongly_connected(agents, rng)
    schedules, points = random_schedules(rng, agents), random_problem(rng, agents, dim, iterations)
    theta_0, psi_0 = rng.normal(size=(agents, dim)), rng.normal(size=(agents, dim))

    def gradient(i, theta, t):
        return algorithm1.logistic_gradient(theta, points[i][: t + 1])

    def oracle(theta, t):
        return np.stack([[gradient(i, theta[0, i], t) for i in range(agents)]])

    algorithm, states = Algorithm1(net, schedules, quantised), []
    coins = Algorithm1(net, schedules).coins(seed)
    tosses = [coins([7], t, dim)[0] for t in range(iterations)]
    last = optimizer.run(
        algorithm, oracle, theta_0[None], iterations, seed=seed, runs=[7], psi_0=psi_0[None],
        observe=lambda state, messages: states.append(state),
    )  # fmt: skip
    theta, psi, z = algorithm1.run(
        net.R,
        net.C,
        schedules.lam_0,
        schedules.nu,
        schedules.d_0,
        schedules.varsigma,
        theta_0,
        psi_0,
        gradient,
        tosses,
        iterations,
        quantised,
    )
    for t, state in enumerate([*states, last]):
        assert state.t == t
        assert np.allclose(state.theta[0], theta[t], rtol=1e-12, atol=1e-12)
        assert np.allclose(state.psi[0], psi[t], rtol=1e-12, atol=1e-12)
        assert np.allclose(state.z, z[t], rtol=1e-12, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(seeds)
def test_column_sum_invariant_of_psi(seed):
    """sum_i psi_{t+1}^i = sum_i psi_t^i + sum_j |C_jj| (Q(psi_t^j)-psi_t^j) + lam_t sum_i g_t^i, as
    C's columns sum to zero.
    """
    rng = np.random.default_rng(seed)
    net = network.random_strongly_connected(5, rng)
    algorithm = Algorithm1(net, random_schedules(rng, 5))
    state = algorithm.init(rng.normal(size=(3, 5, 4)), rng.normal(size=(3, 5, 4)))
    coins = algorithm.coins(seed)
    for t in range(6):
        gradients = rng.normal(size=state.theta.shape)
        following, messages = algorithm.step(state, gradients, coins(range(3), t, 4))
        _, sent = messages.values()
        leak = np.einsum("j,rjd->rd", -np.diag(net.C), sent - state.psi)
        expected = state.psi.sum(axis=1) + leak + algorithm.schedules.lam(t) * gradients.sum(axis=1)
        assert np.allclose(following.psi.sum(axis=1), expected, atol=1e-12)
        state = following


def test_twin_sums_exactly_the_gradients():
    """Without quantisation the sum of psi is psi_0 plus all lam_t g_t: nothing leaks."""
    rng = np.random.default_rng(3)
    algorithm = Algorithm1(
        network.paper(), optimizer.paper_schedules(0.5, 0.71, 2.0, 0.01, 0.6), quantised=False
    )
    gradients = rng.normal(size=(20, 2, 5, 3))
    last = optimizer.run(
        algorithm, lambda theta, t: gradients[t], rng.normal(size=(2, 5, 3)), 20, seed=0
    )
    total = np.einsum("t,trid->rd", algorithm.schedules.lam(np.arange(20)), gradients)
    assert np.allclose(last.psi.sum(axis=1), total, atol=1e-12)


def quadratic(theta, t):
    """Agent i pulls to the point i: the optimum of the sum is the mean, 2."""
    return theta - np.arange(5.0)[:, None]


def test_a_run_that_is_cut_and_resumed_ends_in_the_same_bits():
    algorithm, start, seen = ALGORITHM, np.linspace(-1, 1, 30).reshape(2, 5, 3), []
    whole = optimizer.run(algorithm, quadratic, start, 12, seed=9, runs=[3, 8])
    half = optimizer.run(algorithm, quadratic, start, 7, seed=9, runs=[3, 8])
    rest = optimizer.resume(
        algorithm,
        quadratic,
        half,
        5,
        seed=9,
        runs=[3, 8],
        observe=lambda state, _: seen.append(state.t),
    )
    assert rest.t == whole.t == 12 and seen == [7, 8, 9, 10, 11]
    assert all(
        np.array_equal(getattr(rest, name), getattr(whole, name)) for name in ("theta", "psi", "z")
    )


def test_quantised_runs_reach_consensus_at_the_optimum():
    schedules = Schedules(0.5, 0.75, (0.2,) * 5, (0.7,) * 5)
    last = optimizer.run(
        engine.Compiled(Algorithm1(network.paper(), schedules)),
        quadratic,
        np.zeros((20, 5, 1)),
        2000,
        seed=5,
    )
    assert np.abs(last.theta.mean(axis=0) - 2.0).max() < 0.1
    assert last.theta.std(axis=1).max() < 0.1


def test_unquantised_twin_reaches_the_optimum():
    schedules = Schedules(0.5, 0.75, (1.0,) * 5, (0.7,) * 5)
    last = optimizer.run(
        Algorithm1(network.paper(), schedules, quantised=False),
        quadratic,
        np.zeros((1, 5, 2)),
        4000,
        seed=0,
    )
    assert np.abs(last.theta - 2.0).max() < 0.02


def test_bit_identity_over_batches_and_order():
    algorithm = Algorithm1(network.paper(), optimizer.paper_schedules(0.5, 0.71, 2.0, 0.01, 0.6))
    start = generator(1, Purpose.INITIAL).normal(size=(7, 5, 6))
    together = optimizer.run(algorithm, quadratic, start, 25, seed=9)
    for run in (6, 2, 0):
        alone = optimizer.run(algorithm, quadratic, start[[run]], 25, seed=9, runs=[run])
        assert np.array_equal(alone.theta[0], together.theta[run]) and np.array_equal(
            alone.psi[0], together.psi[run]
        )


def test_steps_are_pure_and_a_run_can_be_taken_up_anywhere():
    algorithm = Algorithm1(network.paper(), optimizer.paper_schedules(0.5, 0.71, 2.0, 0.01, 0.6))
    states, coins = [], algorithm.coins(4)
    last = optimizer.run(
        algorithm,
        quadratic,
        np.ones((2, 5, 3)),
        12,
        seed=4,
        observe=lambda state, messages: states.append(state),
    )
    state = states[5]
    for t in range(5, 12):
        state, _ = algorithm.step(state, quadratic(state.theta, t), coins([0, 1], t, 3))
    assert np.array_equal(state.theta, last.theta) and np.array_equal(state.z, last.z)


def test_transcript_is_what_was_sent():
    algorithm, transcript = (
        Algorithm1(network.paper(), optimizer.paper_schedules(0.5, 0.71, 2.0, 0.01, 0.6)),
        optimizer.Transcript(),
    )
    optimizer.run(algorithm, quadratic, np.full((2, 5, 3), 0.3), 4, seed=0, observe=transcript)
    assert len(transcript.messages) == 4
    for t, messages in enumerate(transcript.messages):
        assert messages.t == t and messages.theta.dtype == np.int64
        assert np.array_equal(messages.step, algorithm.schedules.step(t))
        assert np.array_equal(messages.values()[0], messages.theta * messages.step[:, None])
    assert (
        np.abs(transcript.messages[0].values()[0] - 0.3).max() <= algorithm.schedules.step(0).max()
    )


def test_dpsgd_is_lians_update_and_shows_everything():
    schedules, transcript = Schedules(0.5, 0.75, (1.0,) * 5, (0.7,) * 5), optimizer.Transcript()
    W = optimizer.metropolis(network.paper())
    assert np.allclose(W, W.T) and np.allclose(W.sum(axis=0), 1) and (W >= 0).all()
    start = generator(0, Purpose.INITIAL).normal(size=(2, 5, 3))
    optimizer.run(DPSGD(W, schedules), quadratic, start, 3, seed=0, observe=transcript)
    first, second = transcript.messages[0].values()[0], transcript.messages[1].values()[0]
    assert np.allclose(
        second,
        np.einsum("ij,rjd->rid", W, first) - schedules.lam(0) * quadratic(first, 0),
        atol=1e-14,
    )
    assert transcript.messages[0].psi is None and transcript.messages[0].step is None


def test_dpsgd_converges():
    schedules = Schedules(0.5, 0.75, (1.0,) * 5, (0.7,) * 5)
    last = optimizer.run(
        DPSGD(optimizer.metropolis(network.paper()), schedules),
        quadratic,
        np.zeros((1, 5, 1)),
        3000,
        seed=0,
    )
    assert np.abs(last.theta.mean(axis=1) - 2.0).max() < 1e-4


def test_schedules_are_the_papers():
    schedules = optimizer.paper_schedules(0.5, 0.71, 2.0, 0.01, 0.6)
    assert schedules.lam(0) == 0.5 and schedules.lam(3) == 0.5 / 4**0.71
    assert np.allclose(
        schedules.step(3), [(2 + 0.01 * i) / 4 ** (0.6 + 0.01 * i) for i in range(1, 6)]
    )
    assert schedules.step(np.arange(7)).shape == (7, 5)


GOOD = {"lam_0": 0.5, "nu": 0.71, "d_0": (1.0, 1.0), "varsigma": (0.6, 0.6)}
BAD = {
    "lam_0": ({"lam_0": 0.0}, r"lam_0 = 0.0 must be positive"),
    "lam_0 nan": ({"lam_0": float("nan")}, "lam_0 = nan must be positive and finite"),
    "d_0": ({"d_0": (1.0, -1.0)}, "d_0 = -1.0 must be positive"),
    "nu": ({"nu": 1.0}, r"nu = 1.0 must lie in \(1/2, 1\).*loses Theorem 1"),
    "varsigma": (
        {"varsigma": (0.6, 0.5)},
        r"agent 1: varsigma = 0.5 must lie in \(1/2, 1\).*Theorem 1",
    ),
    "order": (
        {"varsigma": (0.6, 0.75)},
        r"max varsigma = 0.75 must be below nu = 0.71.*Theorem 2.2",
    ),
    "lengths": ({"d_0": (1.0,)}, "d_0 has 1 entries and varsigma 2"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_schedules_are_refused(name):
    change, sentence = BAD[name]
    with pytest.raises(ValueError, match=sentence):
        Schedules(**{**GOOD, **change})


@pytest.mark.parametrize("name", ["nu", "varsigma", "order"])
def test_exploring_warns_which_theorem_is_lost(name):
    change, _ = BAD[name]
    with pytest.warns(optimizer.TheoremWarning, match="Theorem"):
        Schedules(**{**GOOD, **change}, explore=True)


def test_no_warning_inside_the_range():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Schedules(**GOOD, explore=True)


ALGORITHM = Algorithm1(network.paper(), optimizer.paper_schedules(0.5, 0.71, 2.0, 0.01, 0.6))
DITHERED = Algorithm1(ALGORITHM.network, ALGORITHM.schedules, dither=2026)
REFUSED = {
    "agents": (
        lambda: Algorithm1(network.ring(3), ALGORITHM.schedules),
        "the network has 3 agents and the schedules 5",
    ),
    "theta shape": (
        lambda: ALGORITHM.init(np.zeros((5, 3))),
        r"theta_0 has shape \(5, 3\): it must be \[runs, 5 agents, dim\]",
    ),
    "theta NaN": (
        lambda: ALGORITHM.init(np.full((1, 5, 1), np.nan)),
        "theta_0 = nan must be finite",
    ),
    "psi shape": (
        lambda: ALGORITHM.init(np.zeros((1, 5, 3)), np.zeros((1, 5, 4))),
        "theta_0 of shape .*, psi_0 of shape .* do not fit",
    ),
    "no coins": (
        lambda: ALGORITHM.step(ALGORITHM.init(np.zeros((1, 5, 1))), np.zeros((1, 5, 1)), None),
        "coins are needed",
    ),
    "iterations": (
        lambda: optimizer.run(ALGORITHM, quadratic, np.zeros((1, 5, 1)), -1, seed=0),
        "iterations = -1 must be at least 0",
    ),
    "runs": (
        lambda: optimizer.run(ALGORITHM, quadratic, np.zeros((1, 5, 1)), 1, seed=0, runs=[1, 2]),
        "runs = .* must be a list of run numbers, one for each of 1 runs",
    ),
    "W not symmetric": (
        lambda: DPSGD(np.eye(5)[::-1] * 0 + np.tri(5), ALGORITHM.schedules),
        "W must be square, symmetric",
    ),
    "W not stochastic": (
        lambda: DPSGD(2 * np.eye(5), ALGORITHM.schedules),
        "every row of W must sum to one",
    ),
    "W agents": (
        lambda: DPSGD(np.eye(3), ALGORITHM.schedules),
        "W has 3 agents and the schedules 5",
    ),
    "dither without quantiser": (
        lambda: Algorithm1(ALGORITHM.network, ALGORITHM.schedules, False, dither=7),
        "dither = 7 needs quantised = True",
    ),
    "dither without a public seed": (
        lambda: Algorithm1(ALGORITHM.network, ALGORITHM.schedules, dither=True),
        "dither = True must be a whole number",
    ),
    "negative dither": (
        lambda: Algorithm1(ALGORITHM.network, ALGORITHM.schedules, dither=-1),
        "dither = -1 must be at least 0",
    ),
    "dither not whole": (
        lambda: Algorithm1(ALGORITHM.network, ALGORITHM.schedules, dither=0.5),
        "dither = 0.5 must be a whole number",
    ),
    "public seed for the coins": (
        lambda: DITHERED.coins(2026),
        "seed = 2026 is the public dither's seed too",
    ),
    "coins without dither": (
        lambda: DITHERED.step(
            DITHERED.init(np.zeros((1, 5, 1))), np.zeros((1, 5, 1)), np.zeros((1, 2, 5, 1))
        ),
        "dither = 2026, but the coins came without it",
    ),
    "dither that nobody asked for": (
        lambda: ALGORITHM.step(
            ALGORITHM.init(np.zeros((1, 5, 1))),
            np.zeros((1, 5, 1)),
            Dithered(np.zeros((1, 2, 5, 1)), np.zeros((1, 2, 5, 1))),
        ),
        "dither = None, but the coins came with a dither",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_one_sentence(name):
    act, sentence = REFUSED[name]
    with pytest.raises(ValueError, match=sentence):
        act()


def test_no_iterations_is_the_start():
    assert np.array_equal(
        optimizer.run(ALGORITHM, quadratic, np.ones((1, 5, 2)), 0, seed=0).theta, np.ones((1, 5, 2))
    )


def test_divergence_is_caught_where_it_happens():
    def oracle(theta, t):
        return np.where(
            (t == 3) & (np.arange(theta.shape[1]) == 2)[:, None], np.inf, 0.0
        ) * np.ones_like(theta)

    with (
        np.errstate(invalid="ignore"),
        pytest.raises(
            optimizer.Diverged, match="iteration 3 made theta or psi of agent 2"
        ) as caught,
    ):
        optimizer.run(ALGORITHM, oracle, np.zeros((2, 5, 1)), 10, seed=0)
    assert caught.value.t == 3 and caught.value.runs.tolist() == [0, 1]
