"""Tiny instances by enumeration: the certificate is never below the truth, unless an ingredient is broken on purpose."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from companion.problems.constants import GradientConstants
from ldp_core import network, quantizer
from ldp_core.accountant import shifts
from ldp_core.accountant.dithered import certify_dithered
from ldp_core.accountant.drift import drift
from ldp_core.accountant.shifts import Counts
from ldp_core.optimizer import Schedules
from ldp_core.randomness import Purpose, generator
from tests.reference.dither_enumeration import Agent, adaptive_total_variation
from tests.reference.dither_enumeration import total_variation as enumerated

CASES = 50  # data sets tried in every setting: 200 settings make 10^4 cases
SHAPES = ((1, 2, 12), (1, 3, 7), (1, 4, 4), (2, 2, 6), (2, 3, 3), (3, 2, 4))  # dim, iterations, cells of a coordinate


def test_never_below_the_exact_total_variation(capsys):
    """10^4 cases: random settings, data sets that try to be the worst, neighbours that react in the worst of several ways."""
    cases, ratios = [0], [math.inf]

    @settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.integers(0, 2**40))
    def check(seed):
        for truth, certified in _cases(seed):
            assert truth <= certified + 1e-12  # the enumeration adds up to 10^5 probabilities
            cases[0] += 1
            if 0.01 < truth < 0.95:
                ratios[0] = min(ratios[0], certified / truth)

    check()
    with capsys.disabled():
        print(f"\n  {cases[0]} brute-force cases; the smallest certificate / exact total variation was {ratios[0]:.3f}")
    assert cases[0] >= 10_000 and ratios[0] < 1.5


def _cases(seed: int):
    """Yield the exact total variation and the certificate of the data sets tried in one random setting."""
    rng = generator(seed, Purpose.SYNTHETIC)
    dim, T, bins = SHAPES[int(rng.integers(len(SHAPES)))]
    graph = network.ring(2, float(rng.uniform(0.05, 0.9)))
    warm_up, samples = int(rng.integers(0, 3)), int(rng.integers(1, 3))
    linf = float(rng.uniform(0.2, 1.5))
    constants = GradientConstants(linf * float(rng.uniform(1, dim)), linf, l2=float(rng.choice([0.0, 0.1])))
    schedules = Schedules(float(rng.uniform(0.1, 1.0)), 0.8, [float(rng.uniform(0.4, 8))] * 2, [0.6] * 2)
    certified = certify_dithered(graph, schedules, constants, T, dim=dim, warm_up=warm_up, samples=samples).delta[0]
    agent = _agent(graph, schedules, T, constants.l2)
    for _ in range(CASES):
        data, other, theta_0 = _adjacent(rng, dim, constants, samples * (warm_up + T), samples * (warm_up + 1))
        push = rng.normal(size=dim) * 10 ** rng.uniform(0, 4)
        reactions = [(np.zeros(dim), np.zeros(dim)), (push, np.zeros(dim)), (-push, rng.normal(size=dim))][: 3 if T < 4 else 2]
        yield adaptive_total_variation(agent, theta_0, data, other, samples, warm_up, T, reactions, bins), certified


def test_a_pair_built_to_be_the_worst_comes_close():
    graph, schedules, constants, agent = _tight(2)
    data, other, theta_0 = _worst_pair()
    truth = adaptive_total_variation(agent, theta_0, data, other, 1, 0, 2, [(np.zeros(2), np.zeros(2))], 32)
    assert truth <= certify_dithered(graph, schedules, constants, 2, dim=2).delta[0] <= 1.06 * truth


def _agent(graph, schedules, T: int, l2: float = 0.0) -> Agent:
    t = np.arange(T)
    r, c = -float(graph.R[0, 0]), -float(graph.C[0, 0])
    return Agent(r, c, graph.agents, graph.z(T)[:, 0], schedules.lam(t), schedules.step(t)[:, 0], l2)


def _adjacent(rng, dim: int, constants: GradientConstants, points: int, early: int):
    """Return two data sets that differ in one early sample, and a start at which both its gradients are often large."""
    rows, labels, k = _rows(rng, (points, dim), constants), rng.choice([-1, 1], points), int(rng.integers(early))
    other_rows, other_labels = rows.copy(), labels.copy()
    if rng.random() < 0.5:
        other_rows[k] *= -1.0
    else:
        other_rows[k], other_labels[k] = _rows(rng, (1, dim), constants)[0], rng.choice([-1, 1])
    wrong = labels[k] * rows[k] + other_labels[k] * other_rows[k] + 0.1 * rng.normal(size=dim)
    return (rows, labels), (other_rows, other_labels), -wrong * 10 ** rng.uniform(-1, 3)


def _rows(rng, shape, constants: GradientConstants) -> np.ndarray:
    rows = rng.choice([-1.0, 1.0], shape) * constants.linf * np.where(rng.random(shape) < 0.8, 1.0, rng.random(shape))
    return rows * np.minimum(1.0, constants.l1 / np.abs(rows).sum(axis=1, keepdims=True))


def _tight(T: int):
    graph, schedules = network.ring(2, 0.3), Schedules(0.5, 0.71, [2.0] * 2, [0.61] * 2)
    return graph, schedules, GradientConstants(1.0, 1.0), _agent(graph, schedules, T)


def _worst_pair():
    """A sample and its replacement, almost opposite, both confidently wrong: gradients (1, 0) and (-0.99, 0.01)."""
    rows, labels = np.zeros((5, 2)), np.ones(5)
    other = rows.copy()
    rows[0], other[0] = (-1.0, 0.0), (0.99, -0.01)
    return (rows, labels), (other, labels), np.array([400.0, 400_000.0])


def _certified(shift: float, number: float) -> float:
    counts = Counts(np.array([shift]), np.array([number]))
    return float(min(shifts.total_variation(shifts.on_table(counts)), shifts.hellinger(shifts.log_affinity(counts))))


# Six ingredients, each broken on purpose: the broken mechanism, or count, must violate the certificate.


def test_caught_a_dither_reused_over_time():
    """Neighbours that know the next dither steer the input onto a grid point, where a shift eps costs eps in every round."""
    eps, rounds = 0.02, 50
    steered = [float(quantizer.total_variation(n, n + eps, 1.0)) for n in range(rounds)]  # y - U d = n
    broken = -math.expm1(sum(math.log1p(-variation) for variation in steered))  # a level above n gives the data set away
    assert broken > 2 * _certified(eps, rounds)
    assert enumerated([eps] * 2, 100) <= _certified(eps, 2)


def test_caught_a_dither_shared_over_coordinates():
    """Two coordinates at the same place that move in opposite directions: a common dither lets their errors cancel."""
    eps, grid, total = 0.5, 400, 0.0
    levels = np.arange(-2, 4)
    for U in (np.arange(grid) + 0.5) / grid:
        P, Q = (
            np.multiply.outer(
                quantizer.probability(levels, 0.3 + move, 1.0, U), quantizer.probability(levels, 0.3 - move, 1.0, U)
            )
            for move in (0.0, eps)
        )
        total += np.maximum(P - Q, 0.0).sum() / grid
    assert total > _certified(eps, 2) + 0.03
    assert enumerated([eps, -eps], 200) <= _certified(eps, 2)


def test_caught_a_dither_that_depends_on_the_data():
    """U = y/d mod 1 sends the state itself: two states a thousandth of a step apart are told apart for sure."""
    y, other = 0.3, 0.301
    levels = np.arange(-3, 4)
    values = [
        {round(float(level + x % 1.0), 12) for level in levels if quantizer.probability(level, x, 1.0, x % 1.0) > 0}
        for x in (y, other)
    ]
    assert values[0] == {y} and values[1] == {other} and not values[0] & values[1]  # total variation 1
    assert _certified(0.001, 1) < 0.01


def test_caught_a_dither_of_8_bits():
    """Inputs on the coarse dither grid meet a grid point once in 256 messages; `precision_term` for 8 bits would exceed one."""
    eps, messages = 1e-5, 4e6
    hit = float(quantizer.probability(1, 0.25 + eps, 1.0, 0.25))  # with U = 64/256 the level 1 is impossible from y = 0.25
    assert hit > 0 and quantizer.probability(1, 0.25, 1.0, 0.25) == 0
    broken = -math.expm1(messages * math.log1p(-hit / 256))
    assert broken > 2 * _certified(eps, messages)
    assert messages * quantizer.DITHERED_ERROR < 1e-8 and messages * 2.0 ** (51 - 53 + 2 - 8) > 1


def test_caught_a_theta_message_left_out(monkeypatch):
    T = 2
    graph, schedules, constants, agent = _tight(T)
    data, other, theta_0 = _worst_pair()
    truth = adaptive_total_variation(agent, theta_0, data, other, 1, 0, T, [(np.zeros(2), np.zeros(2))], 32)
    assert truth <= certify_dithered(graph, schedules, constants, T, dim=2).delta[0]

    def psi_alone(*arguments, **options):
        found = drift(*arguments, **options)
        return dataclasses.replace(found, theta_l1=0 * found.theta_l1, theta_linf=0 * found.theta_linf)

    monkeypatch.setattr("ldp_core.accountant.dithered.drift", psi_alone)
    assert certify_dithered(graph, schedules, constants, T, dim=2).delta[0] < truth


def test_caught_a_warm_up_counted_one_too_many():
    T = 2
    graph, schedules, constants, agent = _tight(T)
    data, other, theta_0 = _worst_pair()
    for warm_up in (0, 1, 2):
        truth = adaptive_total_variation(agent, theta_0, data, other, 1, warm_up, T, [(np.zeros(2), np.zeros(2))], 24)
        right, wrong = (
            certify_dithered(graph, schedules, constants, T, dim=2, warm_up=warm_up + extra).delta[0] for extra in (0, 1)
        )
        assert wrong < truth <= right
