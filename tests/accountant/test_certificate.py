"""The certificate against exact arithmetic, against exact total variations of adversarial problems,
and against Theorem 2.1.
"""

from __future__ import annotations

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldp_core import quantizer
from ldp_core.accountant import certify, course, theorem_2_1
from ldp_core.optimizer import paper_schedules
from ldp_core.randomness import Purpose, generator
from tests.accountant.cases import D_L, L1, PAPER, SCHEDULES, random_case, sensitivity_bound

# ------------------------------------------------------------------ against exact arithmetic


def exact_recursion(graph, schedules, i, d_l, L1, T, warm_up, samples):
    """(e_t, p_t) with 60 digits; the diagonals are minus the exact sums of the weights."""
    m, number = graph.agents, lambda x: Decimal(float(x))
    with localcontext() as context:
        context.prec = 60
        weights = [
            [number(graph.R[a, b]) if a != b else Decimal(0) for b in range(m)] for a in range(m)
        ]
        M = [[weights[a][b] if a != b else 1 - sum(weights[a]) for b in range(m)] for a in range(m)]
        r, c = sum(weights[i]), sum(number(graph.C[j, i]) for j in range(m) if j != i)
        column = [Decimal(int(j == i)) for j in range(m)]
        e, p, es, ps = Decimal(0), Decimal(0), [], []
        for t in range(T):
            es.append(e)
            ps.append(p)
            N = samples * (warm_up + t + 1)
            two = 2 * number(d_l)
            g = min(two, number(L1) * (N - 1) / N * e + two / N)
            push = number(schedules.lam_0) / Decimal(t + 1) ** number(schedules.nu) * g
            e, p = (1 - r) * e + (c * p + push) / (m * column[i]), (1 - c) * p + push
            column = [sum(M[a][b] * column[b] for b in range(m)) for a in range(m)]
        steps = [
            number(schedules.d_0[i]) / Decimal(t + 1) ** number(schedules.varsigma[i])
            for t in range(T)
        ]
        survival, total = Decimal(1), Decimal(0)
        for e, p, d in zip(es, ps, steps, strict=True):
            survival *= max(Decimal(0), 1 - e / d) * max(Decimal(0), 1 - p / d)
            total += (e + p) / d
        return es, ps, total, 1 - survival


@pytest.mark.parametrize("seed", range(12))
def test_the_recursion_is_rounded_upwards_and_by_very_little(seed):
    rng, graph, schedules = random_case(seed)
    T, warm_up, samples = 60, int(rng.integers(0, 3)), int(rng.integers(1, 4))
    d_l, lipschitz = float(np.exp(rng.uniform(-8, 1))), float(np.exp(rng.uniform(-3, 2)))
    options = {"warm_up": warm_up, "samples": samples}
    ours = sensitivity_bound(graph, schedules, d_l, lipschitz, T, **options)
    result = certify(graph, schedules, d_l, lipschitz, T, **options)
    for i in range(graph.agents):
        es, ps, total, product = exact_recursion(graph, schedules, i, d_l, lipschitz, T, **options)
        for t in range(T):
            assert Decimal(ours.theta[t, i]) >= es[t] and Decimal(ours.psi[t, i]) >= ps[t]
            assert (
                ours.theta[t, i] <= float(es[t]) * (1 + 1e-10) + 1e-200
                and ours.psi[t, i] <= float(ps[t]) * (1 + 1e-10) + 1e-200
            )
        assert Decimal(result.sum[i]) >= total and result.sum[i] <= float(total) * (1 + 1e-10)
        assert Decimal(result.product[i]) >= product and result.product[i] <= float(product) * (
            1 + 1e-10
        )


def test_numbers_that_nearly_underflow_or_overflow_stay_on_the_safe_side():
    tiny = certify(PAPER, SCHEDULES, 5e-324, L1, 10)
    assert (tiny.sum > 0).all() and (tiny.product > 0).all() and (tiny.sum < 1e-300).all()
    huge = certify(PAPER, paper_schedules(0.5, 0.71, 1e-300, 0.0, 0.6), 1e300, L1, 10)
    assert np.isinf(huge.sum).all() and (huge.product == 1).all()
    assert (certify(PAPER, SCHEDULES, 1.0, 1e308, 10).product <= 1).all()


# ------------------------------------------------------------------ against exact total variations


class Adversary:
    """One agent, its data and an adjacent copy, in a world whose messages to it are fixed.

    A sample is (slope, offset) per coordinate, with gradient clip(slope L1 (theta - offset), -d_l
    share, d_l share), shares adding up to one: l1 norm at most d_l, Lipschitz from l1 to l1 with
    constant L1. Slopes of either sign and offsets in the linear part let data push theta and theta'
    apart; far offsets give constant gradients of either sign.
    """

    def __init__(self, rng, graph, schedules, i, dim, d_l, L1, T, warm_up, samples, k):
        self.graph, self.schedules, self.i, self.dim, self.d_l, self.L1 = (
            graph,
            schedules,
            i,
            dim,
            d_l,
            L1,
        )
        self.T, self.warm_up, self.samples = T, warm_up, samples
        self.share = np.full(dim, 1.0 / dim)
        count = samples * (warm_up + T)
        self.slope = rng.choice([-1.0, 1.0], (count, dim))
        self.offset = rng.choice([0.0, 1e9, -1e9], (count, dim), p=[0.8, 0.1, 0.1]) + rng.normal(
            0, 0.1, (count, dim)
        )
        self.changed = 0 if k == 0 else samples * (warm_up + k)
        self.slope_other, self.offset_other = self.slope.copy(), self.offset.copy()
        push = rng.choice([-1.0, 1.0], dim)
        self.slope[self.changed] = self.slope_other[self.changed] = push
        self.offset[self.changed], self.offset_other[self.changed] = 1e9, -1e9
        self.received = rng.normal(0, 0.3, (T, 2, dim))

    def gradient(self, theta, t, other):
        N = self.samples * (self.warm_up + t + 1)
        slope, offset = (
            (self.slope_other, self.offset_other) if other else (self.slope, self.offset)
        )
        bound = self.d_l * self.share
        return np.clip(slope[:N] * self.L1 * (theta - offset[:N]), -bound, bound).mean(axis=0)

    def states(self, other):
        graph, i = self.graph, self.i
        z = graph.z(self.T)[:, i]
        theta, psi, states = np.zeros(self.dim), np.zeros(self.dim), []
        for t in range(self.T):
            states.append((theta, psi))
            following = (
                (1 + graph.C[i, i]) * psi
                + self.received[t, 0]
                + self.schedules.lam(t) * self.gradient(theta, t, other)
            )
            theta = (
                (1 + graph.R[i, i]) * theta
                + self.received[t, 1]
                - (following - psi) / (graph.agents * z[t])
            )
            psi = following
        return np.array(states)  # [T, 2, dim]


def transcript_total_variation(states, other, steps):
    """Exact total variation of independent two-point messages, by enumerating all transcripts."""
    P = P_other = np.ones(1)
    for y, y_other, step in zip(
        states.reshape(len(steps), -1), other.reshape(len(steps), -1), steps, strict=True
    ):
        for a, b in zip(y, y_other, strict=True):
            low = min(quantizer.pmf(a, step).lower, quantizer.pmf(b, step).lower)
            high = max(quantizer.pmf(a, step).lower, quantizer.pmf(b, step).lower) + 1
            levels = np.arange(low, high + 1) if high - low < 4 else None
            if levels is None:
                return 1.0
            P = np.outer(P, quantizer.probability(levels, a, step)).ravel()
            P_other = np.outer(P_other, quantizer.probability(levels, b, step)).ravel()
            kept = (P > 0) | (P_other > 0)
            P, P_other = P[kept], P_other[kept]
    return float(np.abs(P - P_other).sum() / 2)


@settings(max_examples=1200, deadline=None)
@given(st.integers(0, 2**40))
def test_never_below_the_truth_of_adversarial_data(seed):
    rng, graph, schedules = random_case(seed, largest=3)
    i, dim, T = int(rng.integers(graph.agents)), int(rng.integers(1, 3)), int(rng.integers(2, 6))
    T = min(T, 4) if dim == 2 else T
    d_l, lipschitz = float(np.exp(rng.uniform(-1, 2))), float(np.exp(rng.uniform(-1, 2)))
    warm_up, samples, k = (
        int(rng.choice([0, 0, 1, 3])),
        int(rng.choice([1, 1, 2])),
        int(rng.choice([0, 0, 1])),
    )
    world = Adversary(rng, graph, schedules, i, dim, d_l, lipschitz, T, warm_up, samples, k)
    states, other = world.states(False), world.states(True)
    difference = np.abs(states - other).sum(axis=2)  # [T, 2]: theta, psi
    options = {"warm_up": warm_up, "samples": samples}  # a later k is never worse
    bound = sensitivity_bound(graph, schedules, d_l, lipschitz, T, **options)
    rounding = 1e-12 * (1 + np.abs(states).sum() + np.abs(other).sum())  # of the two simulated runs
    assert (difference[:, 0] <= bound.theta[:, i] + rounding).all()
    assert (difference[:, 1] <= bound.psi[:, i] + rounding).all()

    result = certify(graph, schedules, d_l, lipschitz, T, **options)
    truth = transcript_total_variation(states, other, schedules.step(np.arange(T))[:, i])
    assert truth <= result.product[i] + 1e-9 and result.product[i] <= min(1, result.sum[i])


def test_tight_at_two_iterations_no_smaller_certificate_is_true():
    """The states of D on grid points, those of D' above them: the exact total variation is the
    certificate.
    """
    i, T, d_l = 2, 2, 0.7
    schedules = paper_schedules(0.5, 0.71, 4.0, 0.0, 0.6)
    rng = generator(0, Purpose.SYNTHETIC)
    world = Adversary(rng, PAPER, schedules, i, 1, d_l, 1.0, T, 0, 1, 0)
    world.slope[0] = world.slope_other[0] = 1.0
    world.offset[0], world.offset_other[0] = 1e9, -1e9  # gradients -d_l and d_l
    world.received[0, 0] = 0.5 * d_l  # psi_1 = 0 on D
    world.received[0, 1] = 0.0  # theta_1 = 0 on D
    states, other = world.states(False), world.states(True)
    assert np.allclose(states[1], 0, atol=1e-15)
    truth = transcript_total_variation(
        np.zeros_like(states), other, schedules.step(np.arange(T))[:, i]
    )
    assert truth == pytest.approx(certify(PAPER, schedules, d_l, 1.0, T).product[i], rel=1e-12)


@pytest.mark.parametrize("seed", range(40))
def test_never_below_the_truth_when_neighbours_react(seed):
    """The world answers each message: total variation over the whole tree of transcripts, by
    enumeration.
    """
    rng, graph, schedules = random_case(seed, largest=3)
    i, T, d_l, lipschitz = int(rng.integers(graph.agents)), 4, 1.0, 1.0
    world = Adversary(rng, graph, schedules, i, 1, d_l, lipschitz, T, 0, 1, 0)
    answers = rng.normal(0, 2, (T, 2, 3))
    z, steps = graph.z(T)[:, i], schedules.step(np.arange(T))[:, i]

    def advance(state, t, other, answer):
        theta, psi = state
        following = (
            (1 + graph.C[i, i]) * psi
            + answer[0]
            + schedules.lam(t) * world.gradient(np.array([theta]), t, other)[0]
        )
        theta = (1 + graph.R[i, i]) * theta + answer[1] - (following - psi) / (graph.agents * z[t])
        return theta, following

    def distance(t, state, state_other, P, P_other):
        """Sum of |P - P'| over all transcripts below this node; both may be unreachable for one of
        the data sets.
        """
        if t == T or (P == 0 and P_other == 0):
            return abs(P - P_other)
        pmfs = [quantizer.pmf(np.array(s), steps[t]) for s in (state, state_other)]
        supports = [sorted({int(p.lower[x]) + d for p in pmfs for d in (0, 1)}) for x in (0, 1)]
        total = 0.0
        for levels in itertools.product(*supports):
            p, q = (
                float(np.prod(quantizer.probability(np.array(levels), np.array(s), steps[t])))
                for s in (state, state_other)
            )
            if p == q == 0:
                continue
            answer = answers[t, :, sum(levels) % 3]  # the neighbours' reaction
            pair = advance(state, t, False, answer), advance(state_other, t, True, answer)
            total += distance(t + 1, *pair, P * p, P_other * q)
        return total

    truth = distance(0, (0.0, 0.0), (0.0, 0.0), 1.0, 1.0) / 2
    assert 0 < truth <= certify(graph, schedules, d_l, lipschitz, T).product[i] + 1e-9


# ------------------------------------------------------------------ shape: monotone in everything
# it should be


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**40))
def test_monotone_in_time_and_in_every_constant(seed):
    rng, graph, schedules = random_case(seed)
    d_l, lipschitz, T = float(np.exp(rng.uniform(-4, 1))), float(np.exp(rng.uniform(-3, 2))), 50
    base = course(graph, schedules, d_l, lipschitz, T)
    several = [certify(graph, schedules, d_l, lipschitz, t) for t in range(1, T + 1)]
    final, product = several[-1], np.array([one.product for one in several])
    assert (np.diff(base, axis=0) >= 0).all() and (np.diff(product, axis=0) >= 0).all()
    assert (product <= 1).all() and (product <= base).all()
    assert (base == [one.sum for one in several]).all()
    for other in (
        certify(graph, schedules, d_l, lipschitz, T, warm_up=5),
        certify(graph, schedules, d_l, lipschitz, T, samples=3),
        certify(graph, schedules, d_l, 0.5 * lipschitz, T),
        certify(graph, schedules, 0.5 * d_l, lipschitz, T),
    ):
        assert (other.sum <= final.sum).all() and (other.product <= final.product).all()
    assert (certify(graph, schedules, d_l, None, T).sum >= final.sum).all()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**40))
def test_never_larger_than_theorem_2_1_as_printed(seed):
    rng, graph, schedules = random_case(seed)
    d_l, lipschitz = (
        float(np.exp(rng.uniform(-4, 2))),
        rng.choice([None, float(np.exp(rng.uniform(-3, 3)))]),
    )
    ours = course(graph, schedules, d_l, lipschitz, 120)
    theorem = theorem_2_1(graph, schedules, d_l, 120)
    theirs = np.cumsum(
        (theorem.rho_psi + theorem.rho_theta) / schedules.step(np.arange(120)), axis=0
    )
    assert (ours[1:] < theirs[1:]).all() and (ours[0] == 0).all()


def test_ten_times_smaller_than_theorem_2_1_on_l2_normalised_mushrooms():
    assert pytest.approx(0.25) == L1
    ours = certify(PAPER, SCHEDULES, D_L, L1, 1000)
    theirs = theorem_2_1(PAPER, SCHEDULES, D_L, 1000).delta
    assert (theirs >= 10 * ours.sum).all()


# ------------------------------------------------------------------ limits and errors


def test_nothing_is_sent_nothing_is_protected_nothing_is_lost():
    for T in (0, 1):
        result = certify(PAPER, SCHEDULES, D_L, L1, T)
        assert (result.sum == 0).all() and (result.product == 0).all()
    assert course(PAPER, SCHEDULES, D_L, L1, 0).shape == (0, 5)
    for T in (100, math.inf):
        free = certify(PAPER, SCHEDULES, 0.0, L1, T)
        assert (free.sum == 0).all() and (free.product == 0).all() and (free.tail == 0).all()


def test_steps_tiny_and_huge():
    tiny = certify(PAPER, paper_schedules(0.5, 0.71, 1e-200, 0.0, 0.6), D_L, L1, 100)
    assert (tiny.product == 1).all() and (tiny.sum > 1e199).all()
    huge = certify(PAPER, paper_schedules(0.5, 0.71, 1e200, 0.0, 0.6), D_L, L1, math.inf)
    assert (
        (huge.product > 0).all()
        and (huge.product < 1e-190).all()
        and np.allclose(huge.product, huge.sum, rtol=1e-6)
    )


def test_constants_per_agent():
    d_l = np.array([1.0, 0.0, 2.0, 1.0, 1.0])
    mixed = certify(PAPER, SCHEDULES, d_l, L1, 50)
    assert mixed.sum[1] == 0 and mixed.sum[2] == certify(PAPER, SCHEDULES, 2.0, L1, 50).sum[2]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"d_l": -1.0}, "d_l = -1.0 must be finite and not negative"),
        ({"d_l": math.nan}, "d_l = nan"),
        ({"d_l": [1.0, 2.0]}, r"d_l has shape \(2,\)"),
        ({"L1": math.nan}, "L1 = nan"),
        ({"iterations": -1}, "iterations = -1 must be at least 0"),
        ({"iterations": 1.5}, "iterations = 1.5 must be a whole number"),
        ({"iterations": math.nan}, "iterations = nan must be a whole number"),
        ({"warm_up": -1}, "warm_up = -1"),
        ({"samples": 0}, "samples = 0"),
        ({"iterations": math.inf, "horizon": 0}, "horizon = 0"),
        (
            {"schedules": paper_schedules(0.5, 0.71, 2.0, 0.0, 0.6, agents=4)},
            "the network has 5 agents and the schedules 4",
        ),
    ],
)
def test_errors_name_the_parameter(change, message):
    arguments = {
        "network": PAPER,
        "schedules": SCHEDULES,
        "d_l": 1.0,
        "L1": 1.0,
        "iterations": 10,
    } | change
    with pytest.raises(ValueError, match=message):
        certify(**arguments)


# ------------------------------------------------------------------ coins of 53 bits


def test_a_coin_of_53_bits_adds_less_than_its_last_bit():
    """P(k / 2**53 < a), counted exactly, for two probabilities however close."""
    last = Fraction(1, 2**53)
    for a, b in [
        (0.1, 0.1 + 1e-16),
        (1e-17, 3e-17),
        (2.0**-53, np.nextafter(2.0**-53, 1)),
        (0.3, 0.7),
    ]:
        up = [Fraction(math.ceil(Fraction(x) / last)) * last for x in (a, b)]
        assert abs(up[0] - up[1]) < abs(Fraction(a) - Fraction(b)) + last
