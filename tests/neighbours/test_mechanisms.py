"""The neighbours of Algorithm 1: what they compute, and that no certificate is below the truth."""

from __future__ import annotations

import doctest
import math
import warnings

import numpy as np
import pytest
from scipy import stats

from companion.neighbours import mechanisms
from companion.neighbours.mechanisms import Gaussian, Laplace, NoisyGradients, Ternary
from ldp_core import network, optimizer
from ldp_core.accountant.promise import Terms
from ldp_core.optimizer import Algorithm1, Schedules
from ldp_core.randomness import Purpose, generator
from tests.reference import neighbours as reference

MECHANISMS = {
    "gaussian": Gaussian,
    "noisy gradients": NoisyGradients,
    "laplace": Laplace,
    "ternary": Ternary,
    "eq. (3)": Algorithm1,
}
EXACT = 1e-12


def certify(algorithm, terms, iterations, spread=1.0, horizon=100_000):
    """Return the bounds of a mechanism with the scales of its own schedules."""
    found = mechanisms.shifts(algorithm, terms, iterations, horizon=horizon)
    return mechanisms.bounds(algorithm, found, np.array(terms.schedules.d_0), spread)


def schedules(lam_0, nu, d_0, varsigma) -> Schedules:
    """Return schedules of any exponents, without a word."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optimizer.TheoremWarning)
        return Schedules(lam_0, nu, d_0, varsigma, explore=True)


def test_the_example_of_the_module():
    assert doctest.testmod(mechanisms).failed == 0


@pytest.mark.parametrize("name", [name for name in MECHANISMS if name != "eq. (3)"])
def test_equals_its_transcription(name):
    """Twelve random networks of 2 to 6 agents, two runs each, agents with scales of their own."""
    for seed in range(12):
        rng = generator(seed, Purpose.SYNTHETIC)
        agents, dim, T = int(rng.integers(2, 7)), 3, 15
        graph = network.random_strongly_connected(agents, rng, mixing=0.6)
        d_0, varsigma = rng.uniform(0.2, 2.0, agents), rng.uniform(0.0, 0.9, agents)
        chosen = schedules(float(rng.uniform(0.1, 1)), 0.8, tuple(d_0), tuple(varsigma))
        algorithm, centres = MECHANISMS[name](graph, chosen), rng.normal(size=(agents, dim))
        found, start = [], rng.normal(size=(2, agents, dim))

        def oracle(theta, t, centres=centres):
            return np.tanh(theta - centres) / (t + 1)

        def observe(state, messages, found=found):
            found.append(state.theta)

        last = optimizer.run(algorithm, oracle, start, T, seed=seed, observe=observe)
        expected = _transcribed(name, algorithm, start, centres, T, seed)
        assert np.abs(np.stack([*found, last.theta]) - expected).max() < EXACT


def _transcribed(name, algorithm, start, centres, T, seed):
    graph, s, coins = algorithm.network, algorithm.schedules, algorithm.coins(seed)
    draws = [coins([0, 1], t, start.shape[2]) for t in range(T)]

    def gradient(i, theta, t):
        return np.tanh(theta - centres[i]) / (t + 1)

    common = (s.lam_0, s.nu, s.d_0, s.varsigma)
    runs = []
    for run in (0, 1):
        more = (start[run], gradient, [draw[run] for draw in draws], T)
        if name in reference.SENDERS:
            of_run = reference.weakened(graph.R, *common, algorithm.weakening, *more, name)
        else:
            where = "messages" if name == "gaussian" else "gradients"
            of_run = reference.tracked(graph.R, graph.C, *common, *more, where)
        runs.append(of_run)
    return np.stack(runs, axis=1)


SHAPES = ((1, 2), (1, 3), (2, 2))  # (dim, iterations)


@pytest.mark.parametrize("name", MECHANISMS)
def test_no_certificate_is_below_the_exact_total_variation(name):
    """750 instances: random settings, samples and reactions, chosen anew after each outcome."""
    largest = 0.0
    for setting in range(125):
        rng = generator(setting, Purpose.SYNTHETIC)
        for dim, T in SHAPES:
            algorithm, terms = _setting(rng, name)
            agent, start = _agent(name, algorithm, terms, T)
            certified = certify(algorithm, terms, T, spread=math.sqrt(dim))
            for _ in range(2):
                truth = _truth(rng, agent, start, terms, dim, T + (name == "noisy gradients"))
                for bound in certified.values():
                    assert truth <= bound[0] + 1e-12
                if certified["delta"][0] < 0.95:
                    largest = max(largest, truth / certified["delta"][0])
    assert largest > 0.5, "the instances must be able to reveal a certificate that is too small"


def _setting(rng, name: str):
    graph = network.ring(2, float(rng.uniform(0.05, 0.9)))
    lam_0, d_0 = float(rng.uniform(0.1, 1.5)), float(rng.uniform(0.4, 8))
    chosen = schedules(lam_0, 0.8, (d_0,) * 2, (float(rng.uniform(0, 0.7)),) * 2)
    clip = float(rng.uniform(0.2, 1.5))
    terms = Terms(graph, chosen, clip, warm_up=int(rng.integers(0, 3)), dithered=False, degree=2)
    weak = {"weakening": float(rng.uniform(0, 0.9))} if name in reference.SENDERS else {}
    return MECHANISMS[name](graph, chosen, **weak), terms


def _agent(name: str, algorithm, terms: Terms, T: int):
    """Return agent 0 of a ring of two, and a function of a starting point that makes its state."""
    t, graph = np.arange(T), terms.network
    share = terms.schedules.lam(t) / (terms.warm_up + t + 1)
    r, c = -float(graph.R[0, 0]), -float(graph.C[0, 0])
    inverse, scale = 1.0 / (2 * graph.z(T)[:, 0]), terms.schedules.step(t)[:, 0]

    def tracked(t, state, v, arriving):
        theta, psi = state
        new_psi = (1 - c) * psi + arriving + share[t] * v
        return (1 - r) * theta + arriving - (new_psi - psi) * inverse[t], new_psi

    def weakened(t, state, v, arriving):
        gamma = (t + 1.0) ** -getattr(algorithm, "weakening", 0.0)
        return ((1 - gamma * r) * state[0] + gamma * arriving - share[t] * v * inverse[t],)

    def clear(t, state, v, arriving):
        return (np.zeros_like(state[0]) + v / (terms.warm_up + t + 1),)

    def both(t, state):
        return np.concatenate(state, axis=1)

    def own(t, state):
        return state[0]

    if name in ("gaussian", "eq. (3)"):
        law, scale = ("normal", scale / 2) if name == "gaussian" else ("eq. (3)", scale)
        agent = reference.Agent(reference.LAWS[law], tracked, both, scale)
        return agent, lambda theta: (theta, np.zeros_like(theta))
    if name == "noisy gradients":  # what is sent at t + 1 shows the gradient at t
        scale = np.concatenate([scale[:1], scale])
        return reference.Agent(reference.LAWS["normal"], clear, own, scale), lambda theta: (theta,)
    return reference.Agent(reference.LAWS[name], weakened, own, scale), lambda theta: (theta,)


def _truth(rng, agent, start, terms: Terms, dim: int, T: int) -> float:
    """Return the exact total variation for one pair of samples, often opposite, and reactions."""
    C, row = float(terms.clip[0]), _unit(rng, dim)
    other = -row if rng.random() < 0.8 else _unit(rng, dim)
    gradients = [(C * row, C * other), (-C * row, -C * other)][: 1 + (T == 3)]
    scale = float(agent.scale[0])
    reactions = [np.zeros(dim), rng.uniform(-scale, scale, dim)][: 1 + (T == 3)]
    at = rng.choice([0.0, 1.0]) * rng.uniform(-scale, scale, (1, dim))  # ternary: best near 0
    return reference.total_variation(agent, start(at), T, gradients, reactions)


def _unit(rng, dim: int) -> np.ndarray:
    row = rng.normal(size=dim)
    return row / np.sqrt(row @ row)


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_scale_ten_times_smaller_breaks_the_certificate(name):
    """The instances above can tell: with less noise than certified the truth exceeds the bound."""
    rng = generator(5, Purpose.SYNTHETIC)
    algorithm, terms = _setting(rng, name)
    agent, start = _agent(name, algorithm, terms, 2)
    careless = reference.Agent(agent.law, agent.follow, agent.shown, agent.scale / 10)
    found = [
        _truth(rng, careless, start, terms, 1, 2 + (name == "noisy gradients")) for _ in range(5)
    ]
    assert max(found) > certify(algorithm, terms, 2)["delta"][0]


@pytest.mark.parametrize("name", MECHANISMS)
def test_for_ever_is_above_every_horizon_and_near_a_long_one(name):
    """lam_0 / d_0 is small, so nothing is near one; all time is bounded from 1000 iterations on."""
    graph, weak = network.paper(0.2), {"weakening": 0.3} if name in reference.SENDERS else {}
    static = 0.0 if name in ("laplace", "ternary", "noisy gradients") else 0.51
    chosen = schedules(1.0, 0.9, (3.0,) * 5, (static,) * 5)
    algorithm = MECHANISMS[name](graph, chosen, **weak)
    terms = Terms(graph, chosen, 0.01, warm_up=100, cone=True)
    finite = [certify(algorithm, terms, T)["delta"] for T in (10, 1000, 20_000)]
    for_ever = certify(algorithm, terms, math.inf, horizon=1000)["delta"]
    later = certify(algorithm, terms, math.inf, horizon=20_000)["delta"]
    assert (finite[0] < finite[1]).all() and (finite[1] <= finite[2]).all()
    assert (finite[2] < for_ever).all() and (later < for_ever * 1.01).all()
    assert (for_ever < 0.5).all(), "a bound that exists"


def test_what_does_not_fade_is_not_certified_for_ever():
    """Noise that falls as fast as shifts, or agents that hardly mix: no sum has a bound."""
    graph = network.paper(0.2)
    cases = [("ternary", 0.5, 0.3), ("laplace", 0.9, 0.3), ("noisy gradients", 0.6, 0.3)]
    for name, varsigma, u in [*cases, ("ternary", 0.0, 0.95), ("laplace", 0.0, 0.95)]:
        chosen = schedules(1.0, 0.6, (3.0,) * 5, (varsigma,) * 5)
        weak = {"weakening": u} if name in reference.SENDERS else {}
        algorithm = MECHANISMS[name](graph, chosen, **weak)
        found = certify(algorithm, Terms(graph, chosen, 0.01, warm_up=100), math.inf, horizon=1000)
        assert (found["delta"] == 1.0).all()


def test_pure_epsilon_is_what_randomised_response_reaches():
    """P = (p, 1 - p), P' = (1 - p, p): epsilon = log(p / (1 - p)), total variation 2 p - 1."""
    p = np.linspace(0.51, 0.99, 49)
    assert np.tanh(np.log(p / (1 - p)) / 2) == pytest.approx(2 * p - 1, abs=EXACT)


def test_the_closed_form_is_that_of_two_normal_laws():
    mu = np.array([0.0, 0.1, 1.0, 5.0, 1e6, np.inf])
    expected = [0.0, *(2 * stats.norm.cdf(mu[1:4] / 2) - 1), 1.0, 1.0]
    assert mechanisms.gaussian(mu) == pytest.approx(expected, abs=EXACT)


@pytest.mark.parametrize("name", ["gaussian", "laplace"])
def test_noise_has_the_law_that_is_certified(name):
    """Kolmogorov and Smirnov, 40,000 numbers each; false alarm 1e-6 a test."""
    graph, chosen = network.paper(0.2), schedules(1.0, 0.9, (2.0,) * 5, (0.0,) * 5)
    algorithm = MECHANISMS[name](graph, chosen)
    state = algorithm.init(np.zeros((40, 5, 200)))
    messages = algorithm.send(state, algorithm.coins(3)(range(40), 0, 200))
    law = stats.norm if name == "gaussian" else stats.laplace(scale=2.0)
    for sent in (messages.theta, messages.psi) if name == "gaussian" else (messages.theta,):
        assert stats.kstest(sent.ravel(), law.cdf).pvalue > 1e-6


def test_ternary_messages_are_unbiased_and_have_three_levels():
    """A mean of 40,000 levels, within five standard errors: false alarm 6e-7 a coordinate."""
    graph, chosen = network.paper(0.2), schedules(1.0, 0.9, (2.0,) * 5, (0.0,) * 5)
    algorithm, y = Ternary(graph, chosen), np.array([-1.5, 0.0, 0.5])
    state = algorithm.init(np.tile(y, (8000, 5, 1)))
    messages = algorithm.send(state, algorithm.coins(1)(range(8000), 0, 3))
    assert set(np.unique(messages.theta)) == {-1, 0, 1}
    sent = messages.values()[0].reshape(-1, 3)
    error = np.sqrt(np.abs(y) * (2.0 - np.abs(y)) / len(sent))
    assert (np.abs(sent.mean(axis=0) - y) <= 5 * error).all()


def test_a_batch_may_be_cut_anywhere():
    graph, chosen = network.paper(0.2), schedules(1.0, 0.9, (2.0,) * 5, (0.51,) * 5)
    for mechanism in (Gaussian, NoisyGradients, Laplace, Ternary):
        algorithm, start = mechanism(graph, chosen), np.zeros((4, 5, 3))

        def oracle(theta, t):
            return theta - 1.0

        whole = optimizer.run(algorithm, oracle, start, 9, seed=1)
        part = optimizer.run(algorithm, oracle, start[:2], 9, seed=1, runs=[2, 3])
        assert np.array_equal(whole.theta[2:], part.theta)


def test_refusals():
    graph, chosen = network.paper(0.2), schedules(1.0, 0.9, (2.0,) * 5, (0.51,) * 5)
    with pytest.raises(ValueError, match=r"weakening = 1.0 must lie in \[0, 1\)"):
        Laplace(graph, chosen, weakening=1.0)
    with pytest.raises(ValueError, match="the network has 3 agents and the schedules 5"):
        Ternary(network.ring(3, 0.2), chosen)
    with pytest.raises(ValueError, match="coins has shape"):
        algorithm = Laplace(graph, chosen)
        algorithm.send(algorithm.init(np.zeros((1, 5, 2))), np.zeros((1, 5, 3)))
