"""The recursion in two norms: never below what two adjacent runs can do, and k = 0 the worst."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from companion.problems.constants import GradientConstants
from ldp_core.accountant import drift_kernel, sensitivity_bound
from ldp_core.accountant.drift import DriftSetting, drift, envelopes
from tests.accountant.cases import PAPER, SCHEDULES, random_case
from tests.reference.dither_enumeration import Agent

FIELDS = ("theta_l1", "theta_linf", "psi_l1", "psi_linf")


def random_setting(seed: int, **options):
    rng, graph, schedules = random_case(seed)
    linf = float(np.exp(rng.uniform(-1, 1)))
    constants = GradientConstants(linf * float(rng.uniform(1, 4)), linf, l2=float(rng.choice([0.0, 0.05])))
    options = {"warm_up": int(rng.choice([0, 3, 200])), "samples": int(rng.integers(1, 3)), **options}
    return rng, DriftSetting.of(graph, schedules, constants, **options)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**40), st.booleans())
def test_two_adjacent_runs_stay_within_the_bounds(seed, wild):
    """Logistic gradients, any rows within the norms, anything received, whichever sample is replaced."""
    rng, setting = random_setting(seed, warm_up=int(seed % 3))
    T, dim = 25, int(rng.integers(1, 4))
    bounds, constants = drift(setting, T), setting.constants[0]
    z, i = setting.network.z(T), int(rng.integers(setting.network.agents))
    R, C = (-float(np.diag(matrix)[i]) for matrix in (setting.network.R, setting.network.C))
    agent = Agent(R, C, setting.network.agents, z[:, i], setting.schedules.lam(np.arange(T)), [], constants.l2)
    points = setting.samples * (setting.warm_up + T + 1)
    rows, labels = _rows(rng, (points, dim), constants), rng.choice([-1, 1], points)
    other_rows, other_labels = rows.copy(), labels.copy()
    k = int(rng.integers(0, points // 2 + 1)) if rng.random() < 0.5 else 0
    other_rows[k], other_labels[k] = _rows(rng, (1, dim), constants)[0], rng.choice([-1, 1])
    ours = theirs = (rng.normal(size=dim) * 30, np.zeros(dim))
    for t in range(T + 1):
        for field, difference in zip(FIELDS, _norms(ours, theirs), strict=True):
            assert difference <= getattr(bounds, field)[t, i] * (1 + 1e-9) + 1e-12
        if t < T:
            arriving = rng.normal(size=(2, dim)) * (100 if wild else 1)
            seen = setting.samples * (setting.warm_up + t + 1)
            ours = agent.next(t, *ours, rows[:seen], labels[:seen], arriving)
            theirs = agent.next(t, *theirs, other_rows[:seen], other_labels[:seen], arriving)


def _rows(rng, shape, constants: GradientConstants) -> np.ndarray:
    rows = rng.choice([-1.0, 1.0], shape) * constants.linf * rng.choice([0.0, 0.3, 1.0], shape)
    return rows * np.minimum(1.0, constants.l1 / np.maximum(1e-9, np.abs(rows).sum(axis=1, keepdims=True)))


def _norms(ours, theirs):
    return [f(a - b) for a, b in zip(ours, theirs, strict=True) for f in (lambda x: np.abs(x).sum(), lambda x: np.abs(x).max())]


def test_both_signs_are_nearly_reached_by_a_gradient_that_switches():
    """A gradient that is on while the response has one sign, and off otherwise, moves theta by max(K+, K-): nothing is lost."""
    setting = DriftSetting.of(PAPER, SCHEDULES, GradientConstants(1.0, 1.0, slope=0.0), warm_up=50)
    T, i = 60, 2
    r, c = -PAPER.R[i, i], -PAPER.C[i, i]
    lam, inverse = SCHEDULES.lam(np.arange(T)), 1.0 / (PAPER.agents * PAPER.z(T)[:, i])
    kappa = np.zeros(T)  # response of theta_T to a push at s
    for s in range(T):
        theta, psi = -inverse[s], 1.0
        for t in range(s + 1, T):
            theta, psi = (1 - r) * theta + c * psi * inverse[t], (1 - c) * psi
        kappa[s] = theta
    pushes = kappa * lam / (50 + np.arange(T) + 1.0)
    reached = 2.0 * max(pushes[pushes > 0].sum(), -pushes[pushes < 0].sum())
    assert drift(setting, T).theta_l1[T, i] == pytest.approx(reached, rel=1e-6)
    both = DriftSetting.of(PAPER, SCHEDULES, GradientConstants(1.0, 1.0, slope=0.0), warm_up=50, one_signed=False)
    assert drift(both, T).theta_l1[T, i] == pytest.approx(2.0 * np.abs(pushes).sum(), rel=1e-6)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**40))
def test_signs_only_help_and_k_zero_is_the_worst(seed):
    rng, setting = random_setting(seed)
    T, constants = 80, setting.constants[0]
    signed, unsigned = drift(setting, T), drift(setting, T, signed=False)
    later = DriftSetting.of(
        setting.network,
        setting.schedules,
        constants,
        warm_up=setting.warm_up,
        samples=setting.samples,
        k=int(rng.integers(1, 60)),
    )
    arriving_later = drift(later, T)
    two_signs = DriftSetting.of(
        setting.network, setting.schedules, constants, warm_up=setting.warm_up, samples=setting.samples, one_signed=False
    )
    for field in FIELDS:
        assert (getattr(signed, field) <= getattr(unsigned, field) * (1 + 1e-12)).all()
        assert (getattr(arriving_later, field) <= getattr(signed, field) * (1 + 1e-9)).all()
        assert (getattr(signed, field) <= getattr(drift(two_signs, T), field) * (1 + 1e-9)).all()
    assert (signed.theta_linf <= signed.theta_l1 * (1 + 1e-9)).all() and (signed.psi_linf <= signed.psi_l1 * (1 + 1e-9)).all()


def test_without_signs_it_is_the_recursion_of_sensitivity():
    constants = GradientConstants(2.0, 0.5)
    ours = drift(DriftSetting.of(PAPER, SCHEDULES, constants, warm_up=20), 500, signed=False)
    theirs = sensitivity_bound(PAPER, SCHEDULES, 2.0, constants.lipschitz, 501, warm_up=20)
    assert np.allclose(ours.theta_l1, theirs.theta, rtol=1e-9) and np.allclose(ours.psi_l1, theirs.psi, rtol=1e-9)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**40), st.integers(1, 300))
def test_the_envelopes_hold_from_the_horizon_on(seed, H):
    _, setting = random_setting(seed)
    i = int(seed % setting.network.agents)
    short, long = drift(setting, H), drift(setting, H + 600)
    times = H + np.array([0.0, 5.0, 50.0, 300.0])
    found = envelopes(setting, i, short, times)
    if found is None:
        return
    t = np.arange(H + 601)
    w = (t + 1.0) ** -setting.schedules.nu / (setting.warm_up + t + 1)
    for envelope, names in zip(found, (("theta_l1", "psi_l1"), ("theta_linf", "psi_linf")), strict=True):
        theta, psi = (getattr(long, name)[:, i] / w for name in names)
        assert (psi[H:] <= envelope.psi * (1 + 1e-6)).all()  # a longer drift is charged a little more for rounding
        for start, bound in zip(times.astype(int), envelope.theta, strict=True):
            assert (theta[start:] <= bound * (1 + 1e-6)).all()


def test_the_envelope_loses_nothing_in_the_end():
    setting = DriftSetting.of(PAPER, SCHEDULES, GradientConstants(4.6, 0.22), warm_up=300)
    found, T = drift(setting, 20_000), 20_000
    w = (T + 1.0) ** -SCHEDULES.nu / (300 + T + 1)
    for i in range(5):
        (l1, _) = envelopes(setting, i, found, np.array([T + 800.0]))
        assert l1.theta[0] == pytest.approx(found.theta_l1[T, i] / w, rel=5e-3)
        assert l1.psi == pytest.approx(found.psi_l1[T, i] / w, rel=5e-3)


def test_compiled_and_plain_loop_agree_to_the_last_bit(monkeypatch):
    setting = DriftSetting.of(PAPER, SCHEDULES, GradientConstants(4.6, 0.22, l2=0.01), warm_up=3)
    compiled = drift(setting, 300)
    monkeypatch.setattr("ldp_core.accountant.drift.follow", lambda: drift_kernel._follow)
    plain = drift(setting, 300)
    assert all(np.array_equal(getattr(compiled, field), getattr(plain, field)) for field in FIELDS)


def test_one_coordinate_of_a_penalty_is_not_capped():
    """With l2 > 0 the gradients of far states differ by more than 2 l1: the bound must follow."""
    graph, schedules = PAPER, SCHEDULES
    with_penalty = drift(DriftSetting.of(graph, schedules, GradientConstants(1.0, 1.0, l2=50.0)), 6)
    without = drift(DriftSetting.of(graph, schedules, GradientConstants(1.0, 1.0)), 6)
    assert (with_penalty.theta_l1[3:] > 5 * without.theta_l1[3:]).all() and math.isfinite(with_penalty.theta_l1.max())
