"""The worst split and its total variation: the theorem against enumeration, the numbers against simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldp_core import triangular
from ldp_core.accountant import shifts
from ldp_core.accountant.shifts import SHIFTS, Counts
from ldp_core.randomness import Purpose, generator
from tests.reference.dither_enumeration import cells, joint
from tests.reference.dither_enumeration import total_variation as enumerated


def numbers(shift, number) -> np.ndarray:
    return shifts.on_table(Counts(np.asarray(shift, dtype=float), np.asarray(number, dtype=float)))


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**40))
def test_the_extreme_split_is_the_worst_for_every_test(seed):
    """H_gamma of any split within the budgets is at most that of the extreme one, for every gamma (steps 1 to 3)."""
    rng = generator(seed, Purpose.SYNTHETIC)
    dim = int(rng.integers(1, 4))
    linf = rng.uniform(0.05, 1.2)
    l1 = rng.uniform(linf, dim * linf)
    split = rng.dirichlet(np.ones(dim)) * l1
    while split.max() > linf:  # pour what is too much onto the others
        split = np.minimum(split, linf) + (l1 - np.minimum(split, linf).sum()) / dim
    number, largest, remainder = (float(x) for x in shifts.extreme_split(np.array(l1), np.array(linf), dim))
    extreme = [largest] * int(number) + [remainder] * (int(number) < dim)
    bins = {1: 400, 2: 80, 3: 24}[dim]
    (P, Q), (P_extreme, Q_extreme) = joint(split, bins), joint(extreme, bins)
    for gamma in (0.3, 0.8, 1.0, 1.5, 4.0):
        lower = np.maximum(P - gamma * Q, 0.0).sum()  # cells can only lower H_gamma, so the other side needs a little room
        assert lower <= np.maximum(P_extreme - gamma * Q_extreme, 0.0).sum() + {1: 1e-5, 2: 1e-3, 3: 6e-3}[dim]


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**40))
def test_reactions_do_not_help(seed):
    """Two steps, the second chosen after the first is seen, from a set within its budget: at most the product (step 4)."""
    rng = generator(seed, Purpose.SYNTHETIC)
    first, second = rng.uniform(0.05, 1.5, 2)
    (P,), (Q,) = cells(first, 200)
    choices = list(zip(*cells(np.append(rng.uniform(0, second, 4), second), 200), strict=True))
    adaptive = sum(max(np.maximum(p * R - q * S, 0.0).sum() for R, S in choices) for p, q in zip(P, Q, strict=True))
    assert adaptive <= enumerated([first, second], 200) + 1e-12
    assert adaptive <= shifts.total_variation(numbers([first, second], [1, 1])) + 1e-9


@pytest.mark.parametrize("seed", range(6))
def test_total_variation_is_above_simulation_and_close_to_it(seed):
    """Monte Carlo over the likelihood ratio of the exact pair; five standard errors: false alarm rate 10^-6 a side."""
    rng = generator(seed, Purpose.MONTE_CARLO)
    shift = np.exp(rng.uniform(np.log(0.004), np.log(0.6), 6))
    number = np.maximum(1, np.round(rng.uniform(0.001, 0.04) / shift**2))
    draws, loss = 20_000, np.zeros(20_000)
    for eps, copies in zip(shift, number, strict=True):
        for _ in range(int(copies)):
            x = rng.random(draws) - rng.random(draws)
            with np.errstate(divide="ignore"):
                loss += np.log(np.maximum(0.0, 1.0 - np.abs(x - eps)) / (1.0 - np.abs(x)))
    gain = np.maximum(0.0, -np.expm1(loss))
    estimate, error = gain.mean(), 5 * gain.std() / math.sqrt(draws)
    certified = float(shifts.total_variation(numbers(shift, number)))
    assert estimate - error <= certified <= (estimate + error) * 1.03
    assert certified < shifts.hellinger(shifts.log_affinity(Counts(shift, number)))


def test_one_coordinate_on_the_table_is_the_closed_form():
    one = np.eye(len(SHIFTS))
    exact = triangular.total_variation(SHIFTS)
    certified = shifts.total_variation(one)
    assert (certified >= exact).all() and (certified <= exact + 0.0041).all()  # 0.4 times the taper, when nothing else blurs
    assert (certified[SHIFTS > 0.02] <= exact[SHIFTS > 0.02] * 1.01).all()


def test_dominating_pairs_dominate():
    """Each atom pair has mass one on both sides, and H_gamma at least that of the triangular pair, equal at the nodes."""
    for eps in [*SHIFTS[::7], 0.999999, 1.0, 1.3, 1.9]:
        atoms = shifts._atoms(float(eps))
        if eps == 2.0:
            assert atoms.only == 1.0
            continue
        mass = np.concatenate([atoms.mass, atoms.mass[::-1] * np.exp(-atoms.loss[::-1])])
        loss = np.concatenate([atoms.loss, -atoms.loss[::-1]])
        assert mass.sum() + atoms.only == pytest.approx(1.0, abs=1e-14)
        assert (atoms.mass >= 0).all() and atoms.only >= 0
        for gamma in np.exp(np.concatenate([atoms.loss[::5], [eps / 3, eps, 2 * eps, 0.03, 1.0]])):
            ours = atoms.only + np.maximum(mass - gamma * mass * np.exp(-loss), 0.0).sum()
            assert ours >= _hockey_stick(eps, gamma) * (1 - 1e-9) - 1e-16
        for gamma in np.exp(atoms.loss):
            ours = atoms.only + np.maximum(mass - gamma * mass * np.exp(-loss), 0.0).sum()
            assert ours == pytest.approx(_hockey_stick(eps, gamma), rel=1e-5, abs=1e-15)


def _hockey_stick(eps: float, gamma: float) -> float:
    """Return H_gamma of f against f(. - eps): f >= gamma f(. - eps) exactly left of some x."""
    inside = eps / (gamma - 1.0) if gamma > 1 else math.inf
    u = inside if inside <= 1.0 - eps else (2.0 - eps) / (1.0 + gamma)
    p = (u + eps) ** 2 / 2 if u <= 1 - eps else 1.0 - (2.0 - eps - u) ** 2 / 2
    return p - gamma * u**2 / 2


def test_the_table_is_right_to_a_part_in_2_to_the_36():
    """1 - phi against the same sum in extended precision (64 bits), at nodes near and far."""
    log_phi, negative, _ = shifts._table()
    s = 2.0 * np.pi / shifts.PERIOD * np.arange(log_phi.shape[1])
    for row in range(0, len(SHIFTS) - 1, 9):
        atoms = shifts._atoms(float(SHIFTS[row]))
        loss, mass = atoms.loss.astype(np.longdouble), atoms.mass.astype(np.longdouble)
        for node in (0, 1, 7, 100, 1000, 2503, len(s) - 1):
            angle = loss / 2 * (2 * np.pi / np.longdouble(shifts.PERIOD) * node)
            missing = atoms.only + np.sum(mass * np.expm1(-loss / 2) ** 2 + 4 * mass * np.exp(-loss / 2) * np.sin(angle) ** 2)
            size = float(np.log(np.abs(1 - missing)))
            assert log_phi[row, node] == pytest.approx(size, rel=2.0**-35) or abs(math.exp(size)) < 0.5
            assert abs(math.exp(log_phi[row, node]) - math.exp(size)) < 2.0**-39
            assert bool(negative[row, node]) == bool(missing > 1) or abs(1 - missing) < 2.0**-39


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**40))
def test_counting_on_a_grid_only_adds(seed):
    rng = generator(seed, Purpose.SYNTHETIC)
    shift = np.exp(rng.uniform(-12, 0.6, 40))
    number = np.floor(np.exp(rng.uniform(0, 5, 40)))
    for grid in (SHIFTS, shifts.fine_grid(float(shift.max()))):
        counted = shifts.spread(shift, number, grid)
        assert (counted == np.floor(counted)).all() and (counted >= 0).all() and counted.sum() <= number.sum()
        for point in (0.0, *grid):  # step 5: at every grid point, and in all by less than the widest cell
            before, after = number @ np.maximum(shift - point, 0.0), counted @ np.maximum(grid - point, 0.0)
            assert before * (1 - 1e-12) <= after <= before * (1 + 2.0**-29) + np.diff(grid).max()
        exact, ours = (float(shifts.log_affinity(Counts(*pair))) for pair in ((shift, number), (grid, counted)))
        assert ours >= exact * (1 - 1e-9)
    few = rng.permutation(40)[:2]
    assert shifts.total_variation(numbers(shift[few], [1, 1])) >= enumerated(shift[few], 60) - 1e-9


def test_numbers_beyond_what_a_float_counts_are_raised():
    counted = shifts.spread(np.array([1.0, 1.0]), np.array([2.0**53, 1.0]), SHIFTS)
    assert int(counted.sum()) >= 2**53 + 1 and counted.sum() <= 2.0**53 * (1 + 2.0**-29)


def test_order_one_half_is_the_best_chernoff_order():
    """The bound from order alpha, by the sharp relation on two points, against sqrt(1 - BC^2), on products of shifts."""
    alphas = np.linspace(0.05, 0.95, 19)
    for shift, number in ((0.5, 3), (0.1, 20), (0.01, 400), (1.2, 1)):
        order_half = math.sqrt(1.0 - float(triangular.affinity(shift)) ** (2 * number))
        bounds = [_bound_of_order(float(triangular.chernoff(shift, alpha)) ** number, alpha) for alpha in alphas]
        assert min(bounds) >= order_half - 1e-6 and alphas[int(np.argmin(bounds))] == pytest.approx(0.5)


def _bound_of_order(affinity: float, alpha: float) -> float:
    """Return the largest D such that some pair on two points with total variation D has a C_alpha of at least `affinity`."""
    low, high = 0.0, 1.0
    while high - low > 1e-9:
        D = (low + high) / 2
        x = np.linspace(0.0, 1.0 - D, 20_001)
        largest = np.max((x + D) ** alpha * x ** (1 - alpha) + (1 - x - D) ** alpha * (1 - x) ** (1 - alpha))
        low, high = (D, high) if largest >= affinity else (low, D)
    return high


def test_extremes():
    assert shifts.total_variation(np.zeros(len(SHIFTS))) <= 0.0041
    assert shifts.total_variation(numbers([2.0], [1])) == 1.0 and shifts.total_variation(numbers([7.0], [1])) == 1.0
    assert np.isinf(shifts.log_affinity(Counts(np.array([0.1, 2.5]), np.array([1.0, 1.0]))))
    assert shifts.log_affinity(Counts(np.array([0.1, 2.5]), np.array([0.0, 0.0]))) == 0.0
    number, _, remainder = shifts.extreme_split(np.array([1.0, 0.0, 5.0]), np.array([0.3, 0.0, 1.0]), 4)
    assert number.tolist() == [3.0, 0.0, 4.0] and remainder == pytest.approx([0.1, 0.0, 0.0])
