"""How much of the promise can be reached: adjacent data sets and neighbours that keep both samples
clipped.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from ldp_core import clipping, network, quantizer
from ldp_core.accountant.promise import Terms, attained, calibrate, certificate, drift, shifts
from ldp_core.optimizer import Algorithm1, Schedules
from ldp_core.randomness import Purpose, generator

SCHEDULES = Schedules(30.0, 0.9, (1.5,) * 5, (0.51,) * 5)
TERMS = Terms(network.paper(0.2), SCHEDULES, clip=0.1, warm_up=1000, cone=True)
DEAREST = 0.2755  # the fraction of a cell at which degree 3 has most information


def test_the_states_of_two_opposite_samples_are_apart_as_said():
    """Logistic loss on two data sets, one sample replaced, all else equal; both worlds hear the
    same messages.
    """
    T, warm_up, rng = 20, 3, generator(1, Purpose.SYNTHETIC)
    terms = dataclasses.replace(TERMS, warm_up=warm_up, schedules=Schedules(0.5, 0.9, (5.0,) * 5, (0.51,) * 5))
    rows = rng.normal(size=(5, warm_up + T, 2)) * 0.1
    rows[0, 0] = (1.0, 0.0)
    other = rows.copy()
    other[0, 0] *= -1.0

    def oracle_of(data):
        def per_sample(theta, t):
            seen = data[:, : warm_up + t + 1]
            sigma = 1.0 / (1.0 + np.exp(np.einsum("rik,ink->rin", theta, seen)))
            return -sigma[..., None] * seen

        return clipping.Clipped(per_sample, 0.1, warm_up)

    algorithm = Algorithm1(terms.network, terms.schedules, degree=3, at_sent=True, box=100.0)
    coins = algorithm.coins(3)
    states = [algorithm.init(np.zeros((1, 5, 2))) for _ in (0, 1)]
    theta, psi = attained(terms, 0, T)
    for t in range(T):
        apart = [np.sqrt(np.sum((getattr(states[0], x) - getattr(states[1], x))[0, 0] ** 2)) for x in ("theta", "psi")]
        assert apart == pytest.approx([theta[t], psi[t]], rel=1e-9, abs=1e-12)
        messages = algorithm.send(states[0], coins([0], t, 2))
        point = np.clip(messages.values()[0], -2.0, 2.0)  # neighbours steer: |row . theta| < log(9)
        states = [
            algorithm.move(state, oracle(point, t), messages)
            for state, oracle in zip(states, map(oracle_of, (rows, other)), strict=True)
        ]


@pytest.mark.parametrize("agent", [0, 1, 4])
def test_seventy_percent_are_reached(agent):
    """One coordinate, T = 100, delta = 0.5; the total variation from below with false alarm 1e-6
    (Hoeffding).

    Neighbours also move the state within its cell, to where it shows most; then messages are
    independent.
    """
    T, samples = 100, 200_000
    found = shifts(TERMS, T)
    d_0 = calibrate(found, np.full(5, 0.5))
    promised = float(certificate(found, d_0).delta[agent])
    step = d_0[agent] / (np.arange(T) + 1.0) ** 0.51
    eps = np.concatenate([x / step for x in attained(TERMS, agent, T)])
    lower = _total_variation(eps, samples, generator(2, Purpose.MONTE_CARLO, run=agent)) - math.sqrt(
        math.log(1e6) / (2 * samples)
    )
    assert 0.7 * promised < lower < promised


def _total_variation(eps, samples: int, rng) -> float:
    """Return the mean of (1 - dP'/dP)_+ under P, for coordinates at the dearest fraction, moved by
    eps.
    """
    loss = np.zeros(samples)
    levels = np.arange(-2, 4)
    for shift in eps:
        P, Q = (quantizer.probability(levels, y, 1.0, None, 3) for y in (DEAREST, DEAREST + shift))
        drawn = np.searchsorted(np.cumsum(P)[:-1], rng.random(samples), side="right")
        with np.errstate(divide="ignore", invalid="ignore"):
            loss += np.log(Q / P)[drawn]
    return float(np.maximum(0.0, -np.expm1(np.minimum(loss, 0.0))).mean())


def test_what_is_attained_is_within_the_drift():
    theta, psi, _ = drift(TERMS, 300)
    for agent in range(5):
        reached = attained(TERMS, agent, 300)
        assert (reached[0] <= theta[:300, agent]).all() and (reached[1] <= psi[:300, agent]).all()
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
