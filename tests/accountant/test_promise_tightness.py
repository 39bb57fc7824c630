"""How much of the promise can be reached: adjacent data sets and neighbours that keep both samples
clipped.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from companion.attacks.steered import attained, steered
from ldp_core import audit, clipping, network, quantizer
from ldp_core.accountant.certificate import with_d_0
from ldp_core.accountant.promise import Terms, calibrate, certificate, drift, shifts
from ldp_core.accountant.promise_plan import plan
from ldp_core.optimizer import Algorithm1, Schedules

SCHEDULES = Schedules(30.0, 0.9, (1.5,) * 5, (0.51,) * 5)
TERMS = Terms(network.paper(0.2), SCHEDULES, clip=0.1, warm_up=1000, cone=True)
DEAREST = quantizer.dearest(3)


def test_the_program_is_where_steering_neighbours_want_it():
    """Logistic loss, one sample replaced, neighbours that send what they like: in both worlds the
    program's states are those of `steered`, but for the share w^2 / 2 of the gradients.
    """
    T, warm_up, w = 20, 3, 1e-3
    schedules = Schedules(0.5, 0.9, (5.0,) * 5, (0.51,) * 5)
    terms = dataclasses.replace(TERMS, warm_up=warm_up, schedules=schedules)
    algorithm = Algorithm1(terms.network, schedules, degree=3, at_sent=True, box=1e6)
    start = np.zeros((1, 5, 2))
    start[0, 0] = quantizer.dearest(3) * 5.0, -50.0 / w
    states = [algorithm.init(start, np.where(start > 0, start, 0.0)) for _ in (0, 1)]
    y, other, step = (x.reshape(2, T) for x in steered(terms, 0, T))
    coins = algorithm.coins(3)
    for t in range(T):
        for state, wanted in zip(states, (y, other), strict=True):
            apart = [x[0, 0, 0] for x in (state.theta, state.psi)] - wanted[:, t]
            assert np.abs(apart).max() < 1e-5 * step[0, t]
        messages = _steering(algorithm, states[0], coins([0], t, 2), t)
        point = messages.values()[0]
        states = [
            algorithm.move(state, _gradients(point, sign, w, warm_up + t + 1), messages)
            for state, sign in zip(states, (1.0, -1.0), strict=True)
        ]


def _gradients(theta, sign: float, w: float, seen: int):
    """Return the clipped gradients: agent 0 has a sample (sign, w) of label 1, and empty ones."""
    row = np.array([sign, w])
    own = -row / (1.0 + np.exp(theta[:, :1] @ row))[..., None]
    gradients = np.zeros_like(theta)
    gradients[:, :1] = clipping.clipped(own, 0.1) / seen
    return gradients


def _steering(algorithm: Algorithm1, state, coins, t: int):
    """Return the messages of t, where neighbours of agent 0 send what moves it to its next place.

    They know both worlds, so the middle of the two: theirs is the state without the sample.
    """
    net, schedules = algorithm.network, algorithm.schedules
    place = [quantizer.dearest(3) * schedules.step(x)[0] for x in (t, t + 1)]
    r, c = -net.R[0, 0], -net.C[0, 0]
    scale = net.agents * state.z[0, 0]
    arriving = {"theta": place[1] - (1 - r) * place[0] + (place[1] - place[0]) / scale}
    arriving["psi"] = place[1] - (1 - c) * place[0]
    sent = algorithm.send(state, coins)
    second = r * state.theta[0, 0, 1]  # keeps the second coordinate where it is
    levels = {}
    for name, matrix in (("theta", net.R), ("psi", net.C)):
        values = np.zeros((1, 5, 2))
        j = int(np.argmax(np.where(np.arange(5) > 0, matrix[0], 0.0)))
        values[0, j] = arriving[name] / matrix[0, j], second / matrix[0, j] * (name == "theta")
        levels[name] = values / sent.step[:, None]
        levels[name][:, 0] = getattr(sent, name)[:, 0]
    return sent._replace(**levels)


def trials_needed(delta: float, proven: float, confidence: float) -> int:
    """Return how many transcripts prove `proven` where `delta` is true, but for 1 - confidence.

    By Hoeffding's inequality the share of right guesses among 2 n is within sqrt(log(1 / alpha) /
    (4 n)) of its mean, and so is the bound of what was seen; a total variation is twice a share.
    """
    return math.ceil(4.0 * -math.log1p(-confidence) / (delta - proven) ** 2)


@pytest.mark.parametrize("agent", [0, 1, 4])
def test_seventy_percent_are_reached(agent):
    """T = 100, delta = 0.5: proven from transcripts, at a false alarm rate of 1e-6."""
    found = shifts(TERMS, 100)
    d_0 = calibrate(found, np.full(5, 0.5))
    promised = float(certificate(found, d_0).delta[agent])
    terms = dataclasses.replace(TERMS, schedules=with_d_0(SCHEDULES, d_0))
    trials = trials_needed(0.74 * promised, 0.7 * promised, 1 - 1e-6)
    proven = audit.informed(
        *steered(terms, agent, 100), trials, seed=2, confidence=1 - 1e-6, degree=3
    )
    assert 0.7 * promised < proven.lower < promised


def test_half_of_a_promise_for_all_time_is_proven():
    """A promise of 0.25 for ever, spent in the first 300 iterations; false alarms: 1e-6."""
    found = plan(network.paper(0.2), 300, 0.25, clip=0.1, dim=117, warm_up=1000, cone=True)
    trials = trials_needed(0.16, 0.125, 1 - 1e-6)
    states = steered(found.terms, 1, 300)
    proven = audit.informed(*states, trials, seed=3, confidence=1 - 1e-6, degree=3)
    assert 0.125 < proven.lower < float(found.certificate.delta[1])


def test_an_informed_audit_never_proves_more_than_the_truth():
    """A hundred audits of a total variation of 0.3 at 90 %: more than 25 wrong is a chance of 1e-5
    (binomial).
    """
    y, other = np.array([0.35]), np.array([0.65])
    found = [audit.informed(y, other, 1.0, 500, seed=k, confidence=0.9).lower for k in range(100)]
    assert sum(lower > 0.3 for lower in found) <= 25 and np.mean(found) > 0.2


def test_what_is_attained_is_within_the_drift():
    theta, psi, _ = drift(TERMS, 300)
    for agent in range(5):
        reached = attained(TERMS, agent, 300)
        assert (np.abs(reached[0]) <= theta[:300, agent]).all() and (
            reached[1] <= psi[:300, agent]
        ).all()
        assert reached[1][-1] == pytest.approx(psi[299, agent], rel=1e-6)


def test_messages_are_those_of_the_algorithm():
    """The law that is counted is the one that `optimizer` draws from: a hundred thousand messages,
    1e-7 (Hoeffding).
    """
    algorithm = Algorithm1(TERMS.network, SCHEDULES, degree=3)
    state = algorithm.init(np.full((1, 5, 20_000), DEAREST * 1.5))
    sent = algorithm.send(state, algorithm.coins(4)([0], 0, 20_000)).theta
    for level in range(-1, 3):
        share = (sent == level).mean()
        expected = quantizer.probability(level, DEAREST, 1.0, None, 3)
        assert abs(share - expected) < math.sqrt(math.log(2 / 1e-7) / (2 * sent.size))
