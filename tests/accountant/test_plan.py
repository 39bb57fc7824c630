"""Calibration and planning: what comes back keeps the promise, and not by more than needed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from companion.problems.constants import GradientConstants, logistic
from ldp_core import network
from ldp_core.accountant import calibrate_dithered, certify_dithered, plan, smallest_warm_up, with_d_0
from ldp_core.accountant.drift import DriftSetting
from ldp_core.accountant.plan import _predicted_d_0, signal_to_noise
from ldp_core.optimizer import Algorithm1, Schedules, run
from tests.accountant.cases import PAPER

MUSHROOMS, DIM = logistic(21, "l2"), 116
SCHEDULES = Schedules(0.5, 0.71, [1.0] * 5, [0.51] * 5)


@pytest.mark.parametrize("T, horizon", [(2, 500), (300, 500), (math.inf, 500), (math.inf, 40)])
@pytest.mark.parametrize("target", [0.01, 0.25, 0.9])
def test_the_step_keeps_the_promise_and_a_smaller_one_does_not(target, T, horizon):
    options = {"dim": DIM, "warm_up": 100, "horizon": horizon}
    d_0 = calibrate_dithered(target, PAPER, SCHEDULES, MUSHROOMS, T, **options)
    here, smaller = (
        certify_dithered(PAPER, with_d_0(SCHEDULES, factor * d_0), MUSHROOMS, T, **options).delta for factor in (1.0, 0.998)
    )
    assert (here <= target).all() and (smaller > 0.99 * target).all()
    assert (here > 0.9 * target).all()


def test_a_target_for_each_agent_and_one_without_messages():
    targets = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
    d_0 = calibrate_dithered(targets, PAPER, SCHEDULES, MUSHROOMS, 200, dim=DIM, warm_up=50)
    assert (certify_dithered(PAPER, with_d_0(SCHEDULES, d_0), MUSHROOMS, 200, dim=DIM, warm_up=50).delta <= targets).all()
    assert (calibrate_dithered(0.1, PAPER, SCHEDULES, MUSHROOMS, 1, dim=DIM) < 1e-300).all()


def test_the_warm_up_is_the_smallest():
    schedules = with_d_0(SCHEDULES, 3.0)
    for T, target in ((200, 0.1), (math.inf, 0.2)):
        options = {"dim": DIM, "horizon": 1000}
        found = smallest_warm_up(target, PAPER, schedules, MUSHROOMS, T, **options)
        delta = [certify_dithered(PAPER, schedules, MUSHROOMS, T, warm_up=w, **options).delta.max() for w in (found - 1, found)]
        assert delta[1] <= target < delta[0]
    assert smallest_warm_up(0.1, PAPER, with_d_0(SCHEDULES, 1e6), MUSHROOMS, 50, dim=DIM) == 0


def test_a_plan_keeps_its_promise_and_beats_other_candidates():
    made = plan(PAPER, math.inf, 0.1, MUSHROOMS, dim=DIM, warm_up=1000, horizon=2000)
    certified = certify_dithered(PAPER, made.schedules, MUSHROOMS, math.inf, dim=DIM, warm_up=1000, horizon=2000)
    assert np.array_equal(certified.delta, made.delta) and (made.delta <= 0.1).all() and (made.delta > 0.0999).all()
    assert made.considered > 100
    for lam_0, nu, varsigma in ((made.schedules.lam_0, 0.76, 0.71), (made.schedules.lam_0, 0.61, 0.56), (4.0, 0.71, 0.51)):
        other = plan(
            PAPER, math.inf, 0.1, MUSHROOMS, dim=DIM, warm_up=1000, lam_0=[lam_0], nu=[nu], varsigma=[varsigma], horizon=2000
        )
        assert other.signal_to_noise < 1.02 * made.signal_to_noise  # the ranking is by an estimate


def test_a_weaker_promise_and_a_longer_warm_up_give_a_better_signal():
    options = {"dim": DIM, "horizon": 1000, "lam_0": [0.5], "nu": [0.71], "varsigma": [0.51]}
    strict, weak = (plan(PAPER, 1000, target, MUSHROOMS, warm_up=100, **options).signal_to_noise for target in (0.1, 0.3))
    warm = plan(PAPER, 1000, 0.1, MUSHROOMS, warm_up=1000, **options).signal_to_noise
    assert weak > 2 * strict and warm > 2 * strict


def test_candidates_are_ranked_as_calibration_would():
    """The estimate behind the ranking is off by the same factor for all: 195 candidates against 6 calibrations."""
    factors = []
    for nu, varsigma in ((0.61, 0.51), (0.71, 0.51), (0.71, 0.66), (0.91, 0.51), (0.91, 0.76), (0.96, 0.61)):
        schedules = Schedules(0.5, nu, [1.0] * 5, [varsigma] * 5)
        setting = DriftSetting.of(PAPER, schedules, MUSHROOMS, warm_up=300)
        guess = _predicted_d_0(setting, math.inf, np.full(5, 0.1), np.array([varsigma]), DIM)[0]
        factors.append(guess / calibrate_dithered(0.1, PAPER, schedules, MUSHROOMS, math.inf, dim=DIM, warm_up=300))
    assert np.max(factors) / np.min(factors) < 1.1 and (np.array(factors) > 0.9).all() and (np.array(factors) < 1.35).all()


def test_the_predicted_noise_is_what_a_run_without_gradients_has():
    """Zero gradients leave the noise alone: the deviation of the mean model over 4000 coordinates.

    Its relative standard error is 1 / sqrt(8000), so 15 % are 13 of them, and no false alarm; the room is for z_t.
    """
    graph, T, n = network.paper(0.2), 40, 4000
    schedules = Schedules(0.5, 0.71, [1.0, 2.0, 0.5, 1.0, 3.0], [0.6] * 5)
    algorithm = Algorithm1(graph, schedules, dither=7)
    state = run(algorithm, lambda theta, t: np.zeros_like(theta), np.zeros((1, 5, n)), T, seed=1)
    mean = graph.u @ state.theta[0] / 5
    flat = DriftSetting.of(graph, schedules, GradientConstants(1.0, 1.0, slope=0.0))
    ratio = signal_to_noise(flat, np.array([schedules.d_0]), np.array([0.6]), T)[0]
    predicted = schedules.lam(np.arange(T)).sum() / ratio
    assert mean.std() == pytest.approx(predicted, rel=0.15)  # m [z_t^i]_i has not reached its limit in the first steps


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: calibrate_dithered(0.0, PAPER, SCHEDULES, MUSHROOMS, 10, dim=DIM), "target = 0.0 must lie in"),
        (lambda: plan(PAPER, 1, 0.1, MUSHROOMS, dim=DIM), "iterations = 1 must be at least 2"),
        (lambda: plan(PAPER, 10, 0.1, MUSHROOMS, dim=DIM, nu=[0.6], varsigma=[0.7]), "have no candidate with varsigma < nu"),
        (lambda: plan(PAPER, 10, 0.1, MUSHROOMS, dim=DIM, warm_up=-1), "warm_up = -1 must be at least 0"),
        (lambda: smallest_warm_up(2.0, PAPER, SCHEDULES, MUSHROOMS, 10, dim=DIM), "target = 2.0 must lie in"),
    ],
)
def test_bad_input_gets_one_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()
