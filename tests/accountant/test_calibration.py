"""Calibration: the step returned keeps the promise, and a slightly smaller one does not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldp_core import network
from ldp_core.accountant import calibrate, certify, theorem_2_1, with_d_0
from ldp_core.optimizer import Schedules
from ldp_core.randomness import Purpose, generator
from tests.accountant.cases import D_L, L1, PAPER, SCHEDULES


def value(schedules, T, graph=PAPER, d_l=D_L, **options):
    return certify(graph, schedules, d_l, L1, T, **options).product


@pytest.mark.parametrize("T", [2, 300, math.inf])
@pytest.mark.parametrize("target", [1e-6, 0.25, 0.999])
def test_the_promise_is_kept_and_not_by_more_than_needed(T, target):
    d_0 = calibrate(target, PAPER, SCHEDULES, D_L, L1, T)
    assert (value(with_d_0(SCHEDULES, d_0), T) <= target).all()
    assert (value(with_d_0(SCHEDULES, d_0 * (1 - 1e-8)), T) > target).all()


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**40), st.floats(1e-9, 1, exclude_max=True))
def test_the_promise_is_kept_on_random_networks(seed, target):
    rng = generator(seed, Purpose.SYNTHETIC)
    m = int(rng.integers(2, 5))
    graph = network.random_strongly_connected(m, rng, mixing=rng.uniform(0.1, 0.9))
    schedules = Schedules(0.5, 0.8, [1.0] * m, rng.uniform(0.51, 0.79, m))
    d_l, T, options = (
        float(np.exp(rng.uniform(-20, 20))),
        rng.choice([2, 30, math.inf]),
        {"warm_up": int(rng.integers(0, 50))},
    )
    T = T if math.inf == T else int(T)
    d_0 = calibrate(target, graph, schedules, d_l, L1, T, horizon=400, **options)
    promised = value(with_d_0(schedules, d_0), T, graph, d_l, horizon=400, **options)
    assert (promised <= target).all() and (promised >= target * (1 - 1e-7)).all()


def test_much_smaller_than_the_theorem_needs():
    ours = calibrate(0.3, PAPER, SCHEDULES, D_L, L1, 1000)
    assert (10 * ours < theorem_2_1(PAPER, SCHEDULES, D_L, 1000).smallest_d_0 / 0.3).all()


def test_a_target_for_each_agent():
    targets = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
    d_0 = calibrate(targets, PAPER, SCHEDULES, D_L, L1, 200)
    assert (value(with_d_0(SCHEDULES, d_0), 200) <= targets).all()
    assert d_0[2] == pytest.approx(calibrate(0.3, PAPER, SCHEDULES, D_L, L1, 200)[2], rel=1e-8)


def test_nothing_to_protect_any_step_will_do():
    for d_l, T in ((0.0, 100), (D_L, 1), (D_L, 0), (0.0, math.inf)):
        d_0 = calibrate(0.5, PAPER, SCHEDULES, d_l, L1, T)
        assert (d_0 > 0).all() and (d_0 < 1e-300).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": 0.0}, r"target = 0.0 must lie in \(0, 1\)"),
        ({"target": 1.0}, "target = 1.0"),
        ({"target": math.nan}, "target = nan"),
        ({"target": [0.5, 0.5]}, r"target has shape \(2,\)"),
        ({"L1": None, "iterations": math.inf}, "agent 0: no finite d_0"),
        ({"d_l": 1e308}, "agent 0: no finite d_0"),
        ({"iterations": -1}, "iterations = -1"),
    ],
)
def test_errors_name_the_parameter(change, message):
    arguments = {
        "target": 0.5,
        "network": PAPER,
        "schedules": SCHEDULES,
        "d_l": D_L,
        "L1": L1,
        "iterations": 10,
    } | change
    with pytest.raises(ValueError, match=message):
        calibrate(**arguments)
