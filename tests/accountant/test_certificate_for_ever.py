"""The certificate for all time: finite, above everything finite, and tight as the horizon grows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldp_core.accountant import certify, theorem_2_1
from ldp_core.accountant.certificate import compose_product
from ldp_core.accountant.drift import Setting, UnitBudget, _envelope, integral, inverse_mz
from ldp_core.optimizer import Schedules, TheoremWarning
from tests.accountant.cases import D_L, L1, PAPER, SCHEDULES, random_case


def test_finite_at_infinite_time_where_theorem_2_1_diverges():
    for_ever = certify(PAPER, SCHEDULES, D_L, L1, math.inf)
    assert np.isfinite(for_ever.sum).all() and (for_ever.product <= 1).all()
    T = np.array([1000, 10_000, 100_000])
    theorem = np.array([theorem_2_1(PAPER, SCHEDULES, D_L, int(t)).delta for t in T])
    growth = np.log(theorem[2] / theorem[1]) / math.log(10)
    assert np.allclose(
        growth, 1 + np.array(SCHEDULES.varsigma) - SCHEDULES.nu, atol=0.01
    )  # the exponent of divergence
    assert (for_ever.sum < theorem[0]).all()


def test_the_tail_is_above_every_finite_certificate_and_shrinks_to_the_truth():
    horizons = [50, 200, 1000, 5000, 20_000]
    bounds = np.array(
        [certify(PAPER, SCHEDULES, D_L, L1, math.inf, horizon=h).sum for h in horizons]
    )
    assert (np.diff(bounds, axis=0) < 0).all()
    followed = certify(PAPER, SCHEDULES, D_L, L1, 20_000).sum
    assert (bounds > followed).all()
    # the truth lies between the bound at the longest horizon and what was followed; the bounds
    # approach it from above
    assert (bounds[3] / bounds[4] < 1.002).all() and (bounds[1] / bounds[4] < 1.1).all()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**40))
def test_a_short_horizon_never_promises_more_than_a_long_one_delivers(seed):
    rng, graph, schedules = random_case(seed)
    d_l, lipschitz, warm_up = (
        float(np.exp(rng.uniform(-6, 0))),
        float(np.exp(rng.uniform(-3, 1))),
        int(rng.choice([0, 30, 1000])),
    )
    long = certify(graph, schedules, d_l, lipschitz, 4000, warm_up=warm_up)
    for horizon in (1, 10, 100, 1000):
        short = certify(
            graph, schedules, d_l, lipschitz, math.inf, warm_up=warm_up, horizon=horizon
        )
        assert (short.sum >= long.sum).all() and (short.product >= long.product).all()
        assert ((short.tail >= 0) & (short.tail <= 1)).all() and not np.isnan(short.product).any()


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**40), st.integers(1, 300))
def test_the_envelope_holds_from_the_horizon_on(seed, H):
    """e_t <= E w_t and p_t <= P w_t, whatever the states at H: only theta apart, only psi apart,
    both or none.
    """
    rng, graph, schedules = random_case(seed)
    lipschitz, warm_up, i = (
        float(np.exp(rng.uniform(-3, 3))),
        int(rng.choice([0, 50])),
        int(rng.integers(graph.agents)),
    )
    setting = Setting(graph, schedules, 0.5, lipschitz, warm_up=warm_up)  # 2 d_l = 1
    w = [(t + 1.0) ** -schedules.nu / (warm_up + t + 1) for t in range(H + 400)]
    e, p = np.exp(rng.uniform(-3, 6, 2)) * rng.integers(0, 2, 2) * w[H]
    envelope = _envelope(setting, i, H, e, p, inverse_mz(graph, H)[1][i])
    if envelope is None:
        return
    mz, r, c = graph.agents * graph.z(H + 400)[:, i], -graph.R[i, i], -graph.C[i, i]
    for t in range(H, H + 400):
        assert e <= envelope[0] * w[t] * (1 + 1e-9) and p <= envelope[1] * w[t] * (1 + 1e-9)
        push = schedules.lam(t) * (lipschitz * e + 1 / (warm_up + t + 1))
        e, p = (1 - r) * e + (c * p + push) / mz[t], (1 - c) * p + push


@pytest.mark.parametrize("seed", range(10))
def test_the_bounds_of_z_hold_at_their_time_and_for_ever(seed):
    _, graph, _ = random_case(seed, largest=6)
    truth = 1 / (graph.agents * graph.z(3000))
    for H in (1, 3, 10, 100, 2000):
        until, later = inverse_mz(graph, H)
        assert (until >= truth[:H] * (1 - 1e-12)).all() and (
            later >= truth[H:].max(axis=0) * (1 - 1e-12)
        ).all()
    assert np.allclose(until[:100], truth[:100], rtol=1e-9) and np.allclose(
        later, 1 / graph.u, rtol=1e-8
    )


def test_the_tail_of_the_product_pays_for_its_dearest_iteration():
    """One later message of cost 0.9 loses 0.9, not 1 - exp(-0.9); many small ones lose 1 -
    exp(-sum).
    """
    zero = np.zeros((1, 1))
    for peak, loss in ((0.9, 0.9), (1e-9, -math.expm1(-0.9)), (1.0, 0.9), (2.0, 0.9)):
        unit = UnitBudget(zero, zero, np.array([0.9]), np.array([peak]))
        assert compose_product(unit, np.ones(1))[0] == pytest.approx(loss, rel=1e-8)
    assert (
        compose_product(UnitBudget(zero, zero, np.array([5.0]), np.array([1.0])), np.ones(1))[0]
        == 1.0
    )


def test_warm_up_tail_has_the_right_size():
    """With a warm-up the tail's integral has no closed form: compare it with a long sum."""
    short = certify(PAPER, SCHEDULES, D_L, L1, math.inf, warm_up=300, horizon=2000)
    long = certify(PAPER, SCHEDULES, D_L, L1, math.inf, warm_up=300, horizon=40_000)
    assert (long.sum <= short.sum).all() and (short.sum <= 1.03 * long.sum).all()


def test_no_promise_for_all_time_without_a_lipschitz_constant_or_with_a_step_that_decays_too_fast():
    unknown = certify(PAPER, SCHEDULES, D_L, None, math.inf, horizon=100)
    assert (
        np.isinf(unknown.sum).all() and (unknown.product == 1).all() and (unknown.tail == 1).all()
    )
    with pytest.warns(TheoremWarning):
        fast = Schedules(0.5, 0.6, [2.0] * 5, [0.7] * 5, explore=True)
    assert np.isinf(certify(PAPER, fast, D_L, L1, math.inf, horizon=1000).sum).all()


@pytest.mark.parametrize("shift", [0.0, 3.0, 1000.0, 1e7])
@pytest.mark.parametrize("a", [0.06, 0.3])
def test_the_integral_is_an_upper_bound_and_close(shift, a):
    from scipy.integrate import quad

    start = 20.5
    exact = quad(
        lambda y: math.exp(-a * y) / (1 + shift * math.exp(-y)), math.log(start), 600, limit=500
    )[0]  # x = exp(y)
    assert exact * (1 - 1e-7) <= integral(start, a, shift) <= exact * 1.02
