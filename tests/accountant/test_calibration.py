"""Calibration: the step returned keeps the promise, and a slightly smaller one does not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldp_core import network
from ldp_core.accountant import calibrate, calibrate_uniform, certify, largest_iterations, theorem_2_1, theorem_2_2, with_d_0
from ldp_core.optimizer import Schedules
from ldp_core.randomness import Purpose, generator
from tests.accountant.cases import D_L, L1, PAPER, SCHEDULES

BOUNDS = ("theorem", "certificate-sum", "certificate-product")


def value(bound, schedules, T, graph=PAPER, d_l=D_L, **options):
    if bound == "theorem":
        return theorem_2_2(graph, schedules, d_l, L1).delta if math.inf == T else theorem_2_1(graph, schedules, d_l, T).delta
    result = certify(graph, schedules, d_l, L1, T, **options)
    return result.sum if bound == "certificate-sum" else result.product


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("T", [2, 300, math.inf])
@pytest.mark.parametrize("target", [1e-6, 0.25, 0.999])
def test_the_promise_is_kept_and_not_by_more_than_needed(bound, T, target):
    d_0 = calibrate(target, PAPER, SCHEDULES, D_L, L1, T, bound=bound)
    assert (value(bound, with_d_0(SCHEDULES, d_0), T) <= target).all()
    assert (value(bound, with_d_0(SCHEDULES, d_0 * (1 - 1e-8)), T) > target).all()


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**40), st.floats(1e-9, 1, exclude_max=True))
def test_the_promise_is_kept_on_random_networks(seed, target):
    rng = generator(seed, Purpose.SYNTHETIC)
    m = int(rng.integers(2, 5))
    graph = network.random_strongly_connected(m, rng, mixing=rng.uniform(0.1, 0.9))
    schedules = Schedules(0.5, 0.8, [1.0] * m, rng.uniform(0.51, 0.79, m))
    d_l, T, options = float(np.exp(rng.uniform(-20, 20))), rng.choice([2, 30, math.inf]), {"warm_up": int(rng.integers(0, 50))}
    T = T if math.inf == T else int(T)
    for bound in BOUNDS[1:]:
        d_0 = calibrate(target, graph, schedules, d_l, L1, T, bound=bound, horizon=400, **options)
        promised = value(bound, with_d_0(schedules, d_0), T, graph, d_l, horizon=400, **options)
        assert (promised <= target).all() and (promised >= target * (1 - 1e-7)).all()


def test_the_better_bound_needs_the_smaller_step():
    theorem, by_sum, by_product = (calibrate(0.3, PAPER, SCHEDULES, D_L, L1, 1000, bound=bound) for bound in BOUNDS)
    assert (by_product < by_sum).all() and (10 * by_sum < theorem).all()


def test_a_target_for_each_agent():
    targets = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
    d_0 = calibrate(targets, PAPER, SCHEDULES, D_L, L1, 200)
    assert (value("certificate-product", with_d_0(SCHEDULES, d_0), 200) <= targets).all()
    assert d_0[2] == pytest.approx(calibrate(0.3, PAPER, SCHEDULES, D_L, L1, 200)[2], rel=1e-8)


def test_one_step_for_all_agents():
    schedules = Schedules(0.5, 0.71, [2.0] * 5, [0.61] * 5)
    d_0 = calibrate_uniform(0.3, PAPER, schedules, D_L, L1, math.inf, horizon=2000)
    delta = value("certificate-product", with_d_0(schedules, d_0), math.inf, horizon=2000)
    assert delta.max() <= 0.3 and delta.max() >= 0.3 * (1 - 1e-7) and delta.min() < 0.3
    with pytest.raises(ValueError, match=r"varsigma = .* must be the same for all agents"):
        calibrate_uniform(0.3, PAPER, SCHEDULES, D_L, L1, 10)
    with pytest.raises(ValueError, match="must be one number"):
        calibrate_uniform([0.3] * 5, PAPER, schedules, D_L, L1, 10)


@pytest.mark.parametrize("bound", BOUNDS)
def test_the_largest_number_of_iterations_is_the_largest(bound):
    schedules = with_d_0(SCHEDULES, 900.0)
    T = largest_iterations(0.3, PAPER, schedules, D_L, L1, bound=bound, limit=3000)
    for i, last in enumerate(T):
        if last < 3000:
            assert value(bound, schedules, int(last))[i] <= 0.3 < value(bound, schedules, int(last) + 1)[i]
        else:
            assert value(bound, schedules, 3000)[i] <= 0.3
    assert (T < 3000).any()


def test_a_budget_may_last_for_ever_or_for_one_message():
    assert np.isinf(largest_iterations(0.3, PAPER, with_d_0(SCHEDULES, 1e5), D_L, L1)).all()
    assert np.isinf(largest_iterations(0.3, PAPER, SCHEDULES, 0.0, L1)).all()
    for bound in BOUNDS:
        assert (largest_iterations(0.3, PAPER, with_d_0(SCHEDULES, 1e-6), D_L, L1, bound=bound, limit=50) == 1).all()
    assert (largest_iterations(0.3, PAPER, with_d_0(SCHEDULES, 1e9), D_L, None, limit=50) == 50).all()
    assert (largest_iterations(0.3, PAPER, with_d_0(SCHEDULES, 1e9), D_L, None, bound="theorem", limit=50) == 50).all()


def test_nothing_to_protect_any_step_will_do():
    for bound in BOUNDS:
        for d_l, T in ((0.0, 100), (D_L, 1), (D_L, 0), (0.0, math.inf)):
            d_0 = calibrate(0.5, PAPER, SCHEDULES, d_l, L1, T, bound=bound)
            assert (d_0 > 0).all() and (d_0 < 1e-300).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": 0.0}, r"target = 0.0 must lie in \(0, 1\)"),
        ({"target": 1.0}, "target = 1.0"),
        ({"target": math.nan}, "target = nan"),
        ({"target": [0.5, 0.5]}, r"target has shape \(2,\)"),
        ({"bound": "sum"}, "bound = 'sum' must be one of theorem, certificate-sum, certificate-product"),
        ({"bound": "theorem", "warm_up": 5}, "warm_up = 5"),
        ({"L1": None, "iterations": math.inf}, "agent 0: no finite d_0"),
        ({"L1": 1e15, "iterations": math.inf, "bound": "theorem"}, "agent 0: no finite d_0"),
        ({"d_l": 1e308}, "agent 0: no finite d_0"),
        ({"iterations": -1}, "iterations = -1"),
    ],
)
def test_errors_name_the_parameter(change, message):
    arguments = {"target": 0.5, "network": PAPER, "schedules": SCHEDULES, "d_l": D_L, "L1": L1, "iterations": 10} | change
    with pytest.raises(ValueError, match=message):
        calibrate(**arguments)
