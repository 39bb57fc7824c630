"""Theorem 2 against its literal transcription, and the places where the printed proof does not hold
as written.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldp_core import network, quantizer
from ldp_core.accountant import l1_lipschitz, theorem_2_1, theorem_2_2
from ldp_core.accountant.theorems import _Agent, _best_choice, _weigh, power_sum
from ldp_core.optimizer import Schedules, paper_schedules
from ldp_core.randomness import Purpose, generator
from tests.accountant.cases import PAPER, SCHEDULES
from tests.reference import theorem2 as reference


def arguments(graph, i):
    C_z, P_z = graph.lemma_4
    return {"R_ii": graph.R[i, i], "C_ii": graph.C[i, i], "u_i": graph.u[i], "C_z": C_z, "P_z": P_z}


def agents_of(graph, schedules):
    """Return what Theorem 2.2 knows of each agent."""
    own = zip(-np.diag(graph.R), -np.diag(graph.C), graph.u, strict=True)
    return [_Agent(*map(float, numbers), *graph.lemma_4, schedules) for numbers in own]


def largest_C_1(agent):
    return min(agent.r, agent.c) / 2


def smallest_C_0(agent, C_1):
    return (4 - 2 * C_1) / (agent.u * (agent.c - 2 * C_1))


def random_case(seed):
    rng = generator(seed, Purpose.SYNTHETIC)
    agents = int(rng.integers(2, 5))
    graph = network.random_strongly_connected(
        agents, rng, density=rng.random(), mixing=rng.uniform(0.2, 0.95)
    )
    nu = rng.uniform(0.55, 0.99)
    return (
        rng,
        graph,
        Schedules(
            rng.uniform(0.1, 1),
            nu,
            rng.uniform(0.5, 5, agents),
            rng.uniform(0.501, nu - 0.01, agents),
        ),
    )


# ------------------------------------------------------------------ Theorem 2.1


@pytest.mark.parametrize("seed", range(8))
def test_theorem_2_1_equals_the_printed_sums(seed):
    rng, graph, schedules = random_case(seed)
    d_l, T = float(rng.uniform(0.1, 30)), 25
    ours = theorem_2_1(graph, schedules, d_l, T)
    common = {"d_l": d_l, "lam_0": schedules.lam_0, "nu": schedules.nu}
    for i in range(graph.agents):
        for t in range(T):
            psi = reference.varrho_psi(t, graph.C[i, i], **common)
            theta = reference.varrho_theta(t, **arguments(graph, i), **common)
            assert ours.rho_psi[t, i] == pytest.approx(psi, rel=1e-12) and ours.rho_theta[
                t, i
            ] == pytest.approx(theta, rel=1e-12)
        d_0 = reference.smallest_d_0(T, schedules.varsigma[i], **arguments(graph, i), **common)
        assert ours.smallest_d_0[i] == pytest.approx(d_0, rel=1e-12)
        assert ours.delta[i] == pytest.approx(d_0 / schedules.d_0[i], rel=1e-12)


def test_theorem_2_1_is_proportional_to_d_l_and_inverse_to_d_0():
    base, loud = (theorem_2_1(PAPER, SCHEDULES, d_l, 100).delta for d_l in (1.0, 3.0))
    wide = theorem_2_1(PAPER, paper_schedules(0.5, 0.71, 20.0, 0.1, 0.6), 1.0, 100).delta
    assert np.allclose(loud, 3 * base, rtol=1e-13) and np.allclose(wide, base / 10, rtol=1e-13)


def test_no_messages_or_no_gradients_no_loss():
    for T in (0, 1):
        assert (
            theorem_2_1(PAPER, SCHEDULES, 9.0, T).delta == 0
        ).all()  # nothing has changed before the first message
    assert (theorem_2_1(PAPER, SCHEDULES, 0.0, 100).delta == 0).all()
    assert (theorem_2_2(PAPER, SCHEDULES, 0.0, 1.0).log10_delta == -math.inf).all()
    with pytest.raises(ValueError, match="iterations = -1"):
        theorem_2_1(PAPER, SCHEDULES, 1.0, -1)
    with pytest.raises(ValueError, match="d_l = nan"):
        theorem_2_1(PAPER, SCHEDULES, math.nan, 1)


def test_the_smallest_d_0_as_printed_only_promises_delta_one():
    first, second = theorem_2_1(PAPER, SCHEDULES, 2.0, 50), theorem_2_2(PAPER, SCHEDULES, 2.0, 0.1)
    d_0 = np.array(SCHEDULES.d_0)
    assert np.allclose(first.delta * d_0 / first.smallest_d_0, 1.0, rtol=1e-9)
    assert np.allclose(second.log10_delta + np.log10(d_0), second.log10_smallest_d_0, atol=1e-9)


# ------------------------------------------------------------------ Theorem 2.2


@pytest.mark.parametrize("seed", range(6))
def test_theorem_2_2_equals_the_printed_constants(seed):
    rng, graph, schedules = random_case(seed)
    d_l, L1 = float(rng.uniform(0.1, 5)), float(rng.uniform(0.001, 0.02))
    ours = theorem_2_2(graph, schedules, d_l, L1)
    common = {"lam_0": schedules.lam_0, "nu": schedules.nu}
    C_z, _ = graph.lemma_4
    C_2 = []
    for i in range(graph.agents):
        chosen = (ours.C_1[i], ours.C_0[i], int(ours.T_0[i]))
        assert reference.is_admissible(
            *chosen, **arguments(graph, i), L1=L1, **common, until=chosen[2] + 300
        )
        C_2.append(reference.C_2_of_agent(*chosen, **arguments(graph, i), d_l=d_l, **common))
    assert np.allclose(ours.log10_C_2, math.log10(max(C_2)), rtol=1e-9)
    for i in range(graph.agents):
        C_3 = reference.C_3(max(C_2), ours.C_0[i], graph.u[i], d_l, schedules.lam_0)
        d_0 = C_3 * (C_z + ours.C_0[i]) * power_sum(1 + schedules.nu - schedules.varsigma[i])
        assert 10 ** ours.log10_C_3[i] == pytest.approx(C_3, rel=1e-9)
        assert 10 ** ours.log10_smallest_d_0[i] == pytest.approx(d_0, rel=1e-9)


def test_the_smallest_T_0_is_the_smallest():
    _, graph, schedules = random_case(3)
    for L1 in (0.0, 0.01, 0.1, 1.0):
        for i, agent in enumerate(agents_of(graph, schedules)):
            C_1 = 0.3 * largest_C_1(agent)
            C_0 = smallest_C_0(agent, C_1)
            T_0 = agent.smallest_T_0(C_0, L1)
            checks = {
                "L1": L1,
                "lam_0": schedules.lam_0,
                "nu": schedules.nu,
                "until": T_0 + 500,
            } | arguments(graph, i)
            assert reference.is_admissible(C_1, C_0, T_0, **checks)
            assert T_0 == 1 or not reference.is_admissible(C_1, C_0, T_0 - 1, **checks)


def test_the_search_beats_every_admissible_choice_of_a_random_sample():
    rng = generator(1, Purpose.SYNTHETIC)
    for agent in agents_of(PAPER, SCHEDULES):
        best = _best_choice(agent, 0.25)
        for _ in range(20):
            C_1 = largest_C_1(agent) * math.exp(-rng.uniform(0.01, 6))
            C_0 = smallest_C_0(agent, C_1) * math.exp(rng.exponential(0.5))
            T_0 = math.ceil(agent.smallest_T_0(C_0, 0.25) * math.exp(rng.exponential(0.3)))
            (some,) = _weigh(agent, [(C_1, C_0, T_0)])
            assert best.ln_objective <= some.ln_objective + 1e-3 * math.log(10)


def test_a_lipschitz_constant_is_a_number():
    with pytest.raises(ValueError, match="L1 = nan"):
        theorem_2_2(PAPER, SCHEDULES, 1.0, math.nan)


def test_what_does_not_fit_a_float_is_infinite_and_its_logarithm_is_not():
    far = theorem_2_2(PAPER, SCHEDULES, 1e305, 5.0)
    assert np.isfinite(far.log10_delta).all() and (far.log10_delta > 308).all()
    hopeless = theorem_2_2(PAPER, SCHEDULES, 1.0, 1e15)  # no T_0 below 2**53
    assert np.isinf(hopeless.log10_delta).all() and (hopeless.T_0 == 0).all()


def test_a_long_memory_is_cut_without_a_trace():
    series = theorem_2_1(PAPER, SCHEDULES, 0.5, 3001)  # 2 d_l = 1
    times = np.array([1, 7, 499, 500, 501, 3000])  # around the 500 steps that are followed
    psi, theta = agents_of(PAPER, SCHEDULES)[2].rho(times.astype(float))
    assert psi == pytest.approx(series.rho_psi[times, 2], rel=1e-14)
    assert theta == pytest.approx(series.rho_theta[times, 2], rel=1e-14)


def test_power_sum():
    assert (
        power_sum(2.0) == pytest.approx(math.pi**2 / 6, rel=1e-9)
        and power_sum(2.0) >= math.pi**2 / 6
    )
    assert power_sum(1.0) == power_sum(0.5) == math.inf


def test_power_sum_is_zeta():
    from scipy.special import zeta

    for exponent in (1.06, 1.1, 1.4):
        assert zeta(exponent) * (1 - 1e-14) <= power_sum(exponent) <= zeta(exponent) * (1 + 1e-9)


def test_the_dimension_turns_l2_into_l1():
    rng = generator(2, Purpose.SYNTHETIC)
    A = rng.normal(size=(7, 7))
    assert np.abs(A).sum(axis=0).max() <= l1_lipschitz(
        np.linalg.norm(A, 2), 7
    )  # the norm of A from l1 to l1
    with pytest.raises(ValueError, match="dim = 0"):
        l1_lipschitz(1.0, 0)


# ------------------------------------------------------------------ where the printed text needs
# care


def lemma_5(v, eta_0, n, kappa, T_1):
    return (4 * n / (math.e * math.log(2 / (2 - kappa)))) ** n * (
        v * (1 - kappa) ** (1 - T_1) / eta_0 + 2 / kappa
    )


def test_lemma_5_is_false_as_printed_for_small_exponents():
    v, n, kappa, T_1 = 1e6, 0.1, 0.99, 1
    assert v > lemma_5(v, 1.0, n, kappa, T_1) / (T_1 + 1) ** n  # at t = T_1 already


@settings(max_examples=200, deadline=None)
@given(
    st.floats(1.5, 2.0),
    st.floats(1e-3, 0.5),
    st.integers(1, 30),
    st.floats(-9, 9),
    st.floats(-9, 9),
)
def test_lemma_5_holds_in_the_range_of_theorem_2_2(n, kappa, T_1, log_v, log_eta):
    v, eta_0 = math.exp(log_v), math.exp(log_eta)
    Xi = lemma_5(v, eta_0, n, kappa, T_1)
    for t in range(T_1, T_1 + 300):
        assert v <= Xi * eta_0 / (t + 1) ** n * (1 + 1e-12)
        v = (1 - kappa) * v + eta_0 / (t + 1) ** n


@settings(max_examples=200, deadline=None)
@given(st.floats(-50, 50), st.floats(-50, 50), st.floats(0.1, 10))
def test_lemma_6_holds_beyond_a_step_too(y, other, step):
    assert quantizer.total_variation(y, other, step) <= min(1.0, abs(y - other) / step) + 1e-12


def test_the_inequality_for_delta_theta_lacks_a_factor_t():
    """Put the largest Delta_psi into the bound of Delta_theta: it exceeds the printed inequality,
    and equals the one with t.
    """
    r, c, u, C_z, P_z, L1, d_l, t = 0.2, 0.4, 1.3, 2.0, 0.9, 1.0, 1.0, 5
    theta, psi, lam_t = 0.7, 0.3, reference.lam(0.5, 0.71, t)
    next_psi = (1 - c) * psi + L1 * t * lam_t * theta / (t + 1) + 2 * d_l * lam_t / (t + 1)
    largest = (C_z * P_z**t + 1 / u) * (next_psi + psi) + (1 - r) * theta

    def right_side(factor):
        own = (1 - r + factor * L1 * C_z * P_z**t * lam_t / (t + 1)) * theta
        return (
            own
            + (2 - c) * C_z * P_z**t * psi
            + psi / u
            + 2 * d_l * C_z * P_z**t * lam_t / (t + 1)
            + next_psi / u
        )

    assert largest > right_side(1) * 1.01 and largest == pytest.approx(right_side(t), rel=1e-12)


def test_the_second_member_of_C_2_does_not_cover_the_time_before_T_0():
    """varrho_t (t+1)**(1+nu) need not be largest at T_0: here it is nearly twice that earlier."""
    R_edges = [
        (0, 1, 0.5),
        (1, 0, 0.5),
        (0, 2, 0.5),
        (2, 0, 0.001),
    ]  # hardly anybody listens to agent 2: u_2 is small, C_z large
    graph = network.from_edges(3, R_edges, [(0, 1), (1, 2), (2, 0)], 0.6)
    schedules = Schedules(0.5, 0.71, [2.0] * 3, [0.6] * 3)
    chosen = theorem_2_2(graph, schedules, 1.0, 0.01)
    ratios = []
    for i, agent in enumerate(agents_of(graph, schedules)):
        T_0 = int(chosen.T_0[i])
        series = theorem_2_1(graph, schedules, 0.5, T_0 + 1)  # 2 d_l = 1
        psi, theta = series.rho_psi[:, i], series.rho_theta[:, i]
        weighted = (theta + (chosen.C_0[i] - 1 / agent.u) * psi) * (np.arange(T_0 + 1) + 1.0) ** (
            1 + schedules.nu
        )
        ratios.append(weighted.max() / weighted[-1])
        # C_2 is large enough all the same, thanks to its first member
        assert (
            math.log10(weighted.max() / (schedules.lam_0 * (agent.C_z + chosen.C_0[i])))
            <= chosen.log10_C_2[i]
        )
    assert max(ratios) > 1.5
