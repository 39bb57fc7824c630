"""The closed forms of triangular noise against quadrature to 1e-12, and against the dithered quantizer itself."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate

from ldp_core import quantizer, triangular
from ldp_core.randomness import Purpose, Uniforms

SHIFTS = np.concatenate([np.linspace(0.0, 3.0, 61), [1e-3, 0.6666, 2 / 3, 0.66667, 1 - 1e-9, 1 + 1e-9, 1.999999]])
ORDERS = (1e-6, 0.01, 0.2, 0.5, 0.65, 0.999)


def exact_complement(eps: float, alpha: float) -> mpmath.mpf:
    """Return 1 - int f^alpha f'^(1-alpha) to 20 digits and more: the integral of a non-negative function, so nothing cancels.

    The integrand alpha f + (1 - alpha) f' - f^alpha f'^(1-alpha) vanishes like (f - f')^2. Its right half is the left one with
    alpha and 1 - alpha exchanged; the left one is cut at the ends of the supports and, in octaves, towards eps - 1.
    """
    with mpmath.workdps(45):
        eps, half, total = mpmath.mpf(eps), mpmath.mpf(eps) / 2, mpmath.mpf(0)
        for order in (mpmath.mpf(alpha), 1 - mpmath.mpf(alpha)):

            def lost(x, order=order):
                mine, theirs = max(0, 1 - abs(x)), max(0, 1 - abs(x - eps))
                return order * mine + (1 - order) * theirs - mine**order * theirs ** (1 - order)

            octaves = [eps - 1 + eps * mpmath.mpf(2) ** k for k in range(-3, 60)] if eps < 1 else []
            cuts = {
                mpmath.mpf(-1),
                half,
                *(cut for cut in (eps - 1, mpmath.mpf(0), mpmath.mpf(1), *octaves) if -1 < cut < half),
            }
            total += mpmath.quad(lost, sorted(cuts), maxdegree=8)
        return total


def double_exponential(f, edges) -> float:
    """Return the integral of f over the pieces between edges, whose ends may be singular (Takahasi and Mori 1974)."""
    t, width = np.linspace(-4.0, 4.0, 1601, retstep=True)
    share = 1.0 / (1.0 + np.exp(-np.pi * np.sinh(t)))
    weight = width * np.pi * np.cosh(t) * share * (1.0 - share)
    return sum((high - low) * np.sum(weight * f(low + (high - low) * share)) for low, high in itertools.pairwise(edges))


@pytest.mark.parametrize("alpha", ORDERS)
def test_chernoff_against_quadrature(alpha):
    for eps in SHIFTS:
        overlap = double_exponential(
            lambda x, eps=eps: triangular.density(x) ** alpha * triangular.density(x - eps) ** (1 - alpha),
            sorted({-1.0, 0.0, eps, 1.0, eps - 1, eps + 1}),
        )
        assert triangular.chernoff(eps, alpha) == pytest.approx(overlap, abs=1e-12)
        assert triangular.chernoff_complement(eps, alpha) == pytest.approx(1 - overlap, abs=1e-12)


@pytest.mark.parametrize("eps", [1e-12, 1e-7, 1e-3, 0.3, 2 / 3, 0.6667, 0.95, 1 - 1e-9, 1.0, 1.7])
@pytest.mark.parametrize("alpha", [0.003, 0.5, 0.8])
def test_complements_have_full_relative_accuracy(eps, alpha):
    exact = exact_complement(eps, alpha)
    assert abs(float(triangular.chernoff_complement(eps, alpha) / exact - 1)) < 1e-12
    if alpha == 0.5:
        assert abs(float(triangular.affinity_complement(eps) / exact - 1)) < 1e-12


def test_order_one_half_is_the_affinity_and_orders_are_symmetric():
    eps = np.concatenate([SHIFTS, np.logspace(-140, 0, 500)])
    h = triangular.affinity_complement(eps)
    assert np.allclose(triangular.chernoff_complement(eps, 0.5), h, rtol=1e-14, atol=0)
    assert np.allclose(triangular.affinity(eps), triangular.chernoff(eps, 0.5), rtol=0, atol=1e-15)
    assert np.allclose(triangular.affinity(eps) + h, 1.0, rtol=0, atol=3e-16)
    for alpha in ORDERS:
        mirrored = triangular.chernoff_complement(eps, 1.0 - alpha)
        assert np.allclose(triangular.chernoff_complement(eps, alpha), mirrored, rtol=1e-13, atol=0)


def test_the_printed_formula_of_the_affinity():
    eps = np.linspace(0.01, 0.99, 99)
    c, e = 1 - eps / 2, eps / 2
    printed = np.sqrt(1 - eps) + c**2 * np.arcsin(e / c) - e**2 * np.arccosh(c / e)
    assert np.allclose(triangular.affinity(eps), printed, rtol=0, atol=1e-14)
    slope = (triangular.affinity(eps + 1e-6) - triangular.affinity(eps - 1e-6)) / 2e-6
    assert np.allclose(slope, -(c * np.arcsin(e / c) + e * np.arccosh(c / e)), rtol=0, atol=1e-8)
    tiny = np.logspace(-12, -4, 9)
    assert np.allclose(triangular.affinity_complement(tiny), tiny**2 / 4 * (np.log(4 / tiny) + 1.5), rtol=1e-4, atol=0)


def test_broadcasting_and_the_ends_of_the_range():
    eps, alpha = np.array([[0.0, 1e-320, 0.3, 0.8]]), np.array([[0.2], [0.5], [0.9]])
    table = triangular.chernoff_complement(eps, alpha)
    assert table.shape == (3, 4) and np.isfinite(table).all() and (table[:, 0] == 0).all()
    for i, j in np.ndindex(3, 4):
        assert table[i, j] == pytest.approx(float(triangular.chernoff_complement(eps[0, j], alpha[i, 0])), rel=1e-15, abs=0)
    for far in (2.0, 3.0, math.inf):
        assert triangular.total_variation(far) == triangular.affinity_complement(far) == 1.0
        assert triangular.affinity(far) == triangular.chernoff(far, 0.3) == 0.0


def test_total_variation_and_cdf_are_integrals_of_the_density():
    x = np.linspace(-1.5, 1.5, 3001)
    grid = integrate.cumulative_simpson(triangular.density(x), x=x, initial=0.0)
    assert np.allclose(triangular.cdf(x), grid, rtol=0, atol=1e-9)  # the grid contains the three corners
    for eps in SHIFTS:
        corners = sorted({-1.0, 0.0, 1.0, eps / 2, eps - 1, eps, eps + 1})
        difference = sum(
            abs(integrate.quad(lambda x, eps=eps: triangular.density(x) - triangular.density(x - eps), low, high)[0])
            for low, high in itertools.pairwise(corners)
        )
        assert triangular.total_variation(eps) == pytest.approx(difference / 2, abs=1e-12)


@settings(max_examples=200, deadline=None)
@given(st.floats(0, 3), st.floats(0, 3), st.floats(0.001, 0.999))
def test_a_larger_shift_gives_away_more(first, second, alpha):
    small, large = sorted((first, second))
    slack = 1 + 2 * triangular.RELATIVE_ERROR
    assert triangular.total_variation(small) <= triangular.total_variation(large)
    assert triangular.affinity_complement(small) <= triangular.affinity_complement(large) * slack
    assert triangular.chernoff_complement(small, alpha) <= triangular.chernoff_complement(large, alpha) * slack


@settings(max_examples=200, deadline=None)
@given(st.floats(0, 2.5), st.floats(0.001, 0.999))
def test_affinities_bracket_the_total_variation(eps, alpha):
    """1 - chernoff <= TV for every order (min(p, q) <= p^alpha q^(1-alpha)), and TV^2 <= 1 - affinity^2."""
    variation, affinity = float(triangular.total_variation(eps)), float(triangular.affinity(eps))
    assert triangular.chernoff_complement(eps, alpha) <= variation + 1e-13
    assert variation**2 <= 1 - affinity**2 + 1e-13


def test_the_likelihood_ratio_is_monotone_and_never_nan():
    x = np.arange(-3072, 3073) / 1024  # exact in float64, and so are the shifts
    for shift in (0.0, 2.0**-40, 0.375, 1.0, 1.25, 2.0, 2.875):
        with np.errstate(all="raise"):
            ratio = triangular.likelihood_ratio(x, 0.0, shift, 1.0)
            loss = triangular.log_likelihood_ratio(x, 0.0, shift, 1.0)
        assert not np.isnan(ratio).any() and not np.isnan(loss).any()
        possible = (triangular.density(x) > 0) | (triangular.density(x - shift) > 0)
        finite = np.isfinite(loss)
        assert np.allclose(np.exp(loss[finite]), ratio[finite], rtol=1e-12, atol=0)
        assert (ratio[possible][1:] <= ratio[possible][:-1] * (1 + 1e-12)).all()  # log-concave: falls in x when y' > y
        assert (ratio[~possible] == 1).all() and (loss[~possible] == 0).all()
        only_mine, only_theirs = (np.abs(x) < 1) & (x <= shift - 1), (np.abs(x - shift) < 1) & (x >= 1)
        assert (ratio[only_mine] == np.inf).all() and (ratio[only_theirs] == 0).all()
        assert (loss[only_mine] == np.inf).all() and (loss[only_theirs] == -np.inf).all()


def dithered_values(y, step, draws, seed):
    private, public = Uniforms(seed, Purpose.COINS), Uniforms(seed + 1, Purpose.DITHER)
    dither = public([0], 0, (draws,))[0]
    return quantizer.value(quantizer.quantise(y, step, private([0], 0, (draws,))[0], dither), step, dither)


def test_the_likelihood_ratio_is_that_of_the_dithered_quantizer():
    """Two inputs, their values counted in cells: the ratio is that of the densities. False alarm 1e-6 (Hoeffding, 80 cells)."""
    draws, step, y, other, edges = 1_000_000, 0.3, 0.11, 0.2, np.linspace(-0.2, 0.5, 41)
    mine = np.histogram(dithered_values(y, step, draws, 11), edges)[0] / draws
    theirs = np.histogram(dithered_values(other, step, draws, 22), edges)[0] / draws
    slack = math.sqrt(math.log(2 * 80 / 1e-6) / (2 * draws))
    centre = (edges[1:] + edges[:-1]) / 2
    corners = np.array([y, other, y - step, y + step, other - step, other + step])
    smooth = ~((edges[:-1, None] < corners) & (corners < edges[1:, None])).any(axis=1)
    frequent = np.minimum(mine, theirs) > 5 * slack
    assert (frequent & smooth).sum() > 12
    for cell in np.flatnonzero(frequent & smooth):  # both densities are linear in the cell: their means are those of its centre
        ratio = float(triangular.likelihood_ratio(centre[cell], y, other, step))
        assert abs(mine[cell] - ratio * theirs[cell]) <= slack * (1 + ratio)
    assert triangular.likelihood_ratio(-0.15, y, other, step) == np.inf and mine[edges[1:] < -0.1].sum() > 0
    assert theirs[edges[1:] <= other - step].sum() == 0


REFUSED = {
    "negative shift": (lambda: triangular.affinity([0.1, -0.2]), "eps = -0.2 must not be negative"),
    "NaN shift": (lambda: triangular.total_variation(math.nan), "eps = nan must not be negative"),
    "order zero": (lambda: triangular.chernoff(0.1, 0.0), r"alpha = 0.0 must lie in \(0, 1\)"),
    "order one": (lambda: triangular.chernoff_complement(0.1, [0.5, 1.0]), r"alpha = 1.0 must lie in \(0, 1\)"),
    "order NaN": (lambda: triangular.chernoff(0.1, math.nan), r"alpha = nan must lie in \(0, 1\)"),
    "step": (lambda: triangular.likelihood_ratio(0.1, 0.0, 0.2, 0.0), "step = 0.0 must be positive and finite"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_one_sentence(name):
    act, sentence = REFUSED[name]
    with pytest.raises(ValueError, match=sentence):
        act()
