"""What many shifted coordinates give away together: the worst split of a budget, and its exact total variation.

A dithered coordinate is its input plus noise of the triangular density f, in units of the step d (`triangular`). Two inputs
eps d apart are the pair of laws f and f(. - eps); a transcript is a product of such pairs, with a shift vector s (one entry
per coordinate of every message). Write p for the product of all the f, and for gamma >= 0

    A_gamma(s) = integral min(p(x), gamma p(x - s)) dx
    H_gamma(s) = 1 - A_gamma(s) = integral (p(x) - gamma p(x - s))_+ dx.

H_1 is the total variation. H_gamma for all gamma is everything a test can do (the hockey-stick curve, or trade-off
function).

1. *-log A_gamma is convex in s.* Move x by s/2: A_gamma(s) is the integral over x of min(p(x + s/2), gamma p(x - s/2)). log
   f is concave (f = 1 - |x|, zero outside), hence so is log p, and p(x + s/2), p(x - s/2) are log-concave in (x, s)
   together, because they are p of a linear map; the minimum of two log-concave functions is log-concave; and integrating out
   x keeps log-concavity (Prekopa 1973).

2. *Larger shifts give away more.* f is even, so A_gamma does not change when an entry of s changes its sign (reflect that
   coordinate of x). A convex function that is even in each entry grows with each |s_j|.

3. *The extreme split is the worst.* By 1 and 2, H_gamma is largest, over all shifts with ||s||_1 <= a and ||s||_inf <= b, at
   an extreme point of this polytope. Those have floor(a / b) entries +-b, one entry +- the remainder a - floor(a/b) b, and
   zeros (if the dimension is below a / b, all entries are +-b). Signs and places do not matter. With several messages, each
   with a budget of its own, the extreme points of the product of polytopes are products of extreme points. One and the same
   point is the worst for every gamma. (-log A_gamma may be infinite, when a shift is 2 or more: it is convex all the same.)

4. *Reacting neighbours cannot do better.* Let the shift s_t of step t depend on everything seen before, within the budget of
   step t, and let (P_t, Q_t) be the extreme pair of that budget. Then the whole transcript has H_gamma <= H_gamma of the
   product of the extreme pairs, for every gamma. Proof for two steps with densities p1(y) p2(x | y) and q1(y) q2(x | y);
   more follow by induction:

       integral (p1 p2 - gamma q1 q2)_+
           =  integral p1(y) H_{gamma q1(y)/p1(y)}(p2(.|y), q2(.|y)) dy
           <= integral p1(y) H_{gamma q1(y)/p1(y)}(P_2, Q_2) dy          = integral (p1 P_2 - gamma q1 Q_2)_+
           =  integral P_2(x) H_{gamma Q_2(x)/P_2(x)}(p1, q1) dx
           <= integral P_2(x) H_{gamma Q_2(x)/P_2(x)}(P_1, Q_1) dx       = integral (P_1 P_2 - gamma Q_1 Q_2)_+ .

   (Where p1 or P_2 vanishes the integrand on the left is zero.) This is the composition of trade-off functions (Dong, Roth
   and Su 2019; Zhu, Dong and Wang 2022). Messages of the other agents, given the history, have the same law in both worlds:
   they change nothing.

5. *Grids.* Shifts t on a grid 0 = g_0 < g_1 < ... dominate shifts s, in the same sense, if F_t >= F_s at every grid point and
   none of s exceeds the last, where F_s(x) = sum_j (s_j - x)_+ and both are padded with zeros to one length. For F_s is convex
   and F_t linear between grid points, so F_t >= F_s everywhere: s is weakly majorised by t (Marshall, Olkin and Arnold 2011,
   chapter 4.B). Then some u >= s is an average of permutations of t (chapters 2 and 5.A), and -log A_gamma, which grows with
   each entry and is convex and symmetric, is at s at most what it is at u, and there at most what it is at t. `spread` finds
   such a t with few shifts.

So delta is at most the total variation of one known product pair, and nothing is lost: the extreme shifts themselves reach
it. `total_variation` computes it, `log_affinity` the simpler bound sqrt(1 - BC^2).

*Why the order 1/2.* A Chernoff affinity of order alpha (C_alpha = integral p^alpha q^(1-alpha)) also multiplies, and its
-log is convex in s by 1's argument, so one could search for the best order. It is 1/2. Given the total variation D, merging
outcomes with p > q and those with p <= q keeps D and does not lower C_alpha, so the largest C_alpha for this D is
M_alpha(D), that of some pair on two points, and order alpha certifies the largest D with M_alpha(D) >= C_alpha. The extreme
pair is symmetric (the reflection at s/2 exchanges its laws), so it is a mixture of two-point pairs ((1 + D_j)/2, (1 -
D_j)/2) and their mirror images; such a pair has affinity b = sqrt(1 - D_j^2) = 1 / cosh(w) and C_alpha = cosh((2 alpha - 1)
w) / cosh(w) = b G(1/b) with G(y) = cosh((2 alpha - 1) arcosh y). G is concave: G'(cosh w) is proportional to sinh((2 alpha -
1) w) / sinh(w), which falls. So b G(1/b) is concave in b (its second derivative is G''(1/b) / b^3), and by Jensen C_alpha of
the mixture is at most that of the single two-point pair of the same affinity BC, whose D is D* = sqrt(1 - BC^2). Hence
M_alpha(D*) >= C_alpha: order alpha cannot certify less than D*.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

from ldp_core import triangular
from ldp_core.accountant.sensitivity import UP

SHIFTS = 2.0 ** (np.arange(-25 * 16, 17) / 16)  # the table, from 3e-8 to 2
FINE = 32  # points an octave has in the grid on which messages are counted first
LOSS_RATIO, LARGEST_LOSS, SMALLEST_LOSS = 1.2, 12.0, 0.05  # nodes of the privacy loss
PERIOD, TAPER, REACH = (
    40.0,
    0.01,
    8.5,
)  # of the Fourier series: period of the loss, deviation of its taper, deviations summed
SERIES_ERROR = (
    2.0**-29
)  # more than all that rounding and the terms left out can change (see `total_variation`)


class Counts(NamedTuple):
    """How many coordinates have which shift: `shift` increases, `number` `[..., shifts]` holds whole numbers (float64)."""

    shift: np.ndarray
    number: np.ndarray


def extreme_split(
    l1: np.ndarray, linf: np.ndarray, dim: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (number, linf, remainder): the worst shifts within the budgets are `number` times linf and once the remainder.

    Rounded upwards: if the quotient is rounded across a whole number, either the remainder is linf all but a part in 2**44
    and is rounded up, or linf is counted once too often.
    """
    linf = np.minimum(linf, l1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        number = np.where(linf > 0, np.floor(l1 / linf), 0.0)
    number = np.minimum(number, float(dim))
    remainder = np.where(
        number < dim, np.clip((l1 - number * linf) + l1 * 2.0**-44, 0.0, linf), 0.0
    )
    return number, linf, remainder


def spread(shift: np.ndarray, number: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Return numbers on `grid` (increasing, positive) whose product pair dominates the given shifts (step 5), `[grid]`.

    No shift may exceed grid[-1]; numbers are whole. From the top down, t gets the least number of shifts above each cell with
    which F_t reaches F_s at the cell's lower end; never more than s has there, because F_s falls no faster than that. What was
    too much at one cell need not be given again at the next, so that in all the shifts sum to less than the widest cell more
    than before.

    Rounding. Sums of n terms, and their difference, are wrong by less than (n + cells) 2**-52 of the sum; twice that, and no
    less than 2**-30, is added to F_s. Numbers that s has above a cell are exact below 2**53, and raised beyond.
    """
    slack = max(2.0**-30, (len(shift) + len(grid)) * 2.0**-51)
    place = np.searchsorted(grid, shift)
    above = np.cumsum(np.bincount(place, number, len(grid))[::-1])[::-1]
    total = np.cumsum(np.bincount(place, number * shift, len(grid))[::-1])[::-1] * (1.0 + slack)
    low = np.concatenate([[0.0], grid[:-1]])
    excess, widths = (total - low * above).tolist(), (grid - low).tolist()
    most = np.where(above < 2.0**53, above, above * (1.0 + slack)).tolist()
    result = [0.0] * len(grid)
    reached, count = 0.0, 0.0
    for cell in range(int(place.max(initial=-1)), -1, -1):
        needed = max(count, min(most[cell], math.ceil((excess[cell] - reached) / widths[cell])))
        result[cell] = needed - count
        reached, count = reached + needed * widths[cell], needed
    return np.array(result, dtype=np.float64)


def fine_grid(largest: float) -> np.ndarray:
    """Return the powers of 2**(1/32) that cover [2**-60 largest, largest]: the same points for every `largest`."""
    top = math.ceil(math.log2(largest) * FINE) + 1
    return 2.0 ** (np.arange(top - 60 * FINE, top + 1) / FINE)


def log_affinity(counts: Counts) -> np.ndarray:
    """Return an upper bound of -log BC of the product pair, `[...]`: infinite when a shift is 2 or more."""
    with np.errstate(divide="ignore"):
        cost = -np.log1p(
            -np.minimum(
                1.0,
                triangular.affinity_complement(np.minimum(counts.shift, 2.0)) * (1.0 + 2.0**-40),
            )
        )
    used = np.where(counts.number > 0, counts.number, 0.0)
    return np.where(used > 0, used * np.where(used > 0, cost, 0.0), 0.0).sum(axis=-1) * (
        1.0 + 2.0**-36
    )


def hellinger(exponent: np.ndarray) -> np.ndarray:
    """Return sqrt(1 - BC^2) for -log BC = `exponent`, rounded upwards: an upper bound of the total variation (Le Cam).

    Proof. TV = 1/2 int |sqrt p - sqrt q| (sqrt p + sqrt q), and by Cauchy and Schwarz TV^2 <= (1 - BC)(1 + BC).
    """
    return np.minimum(1.0, np.sqrt(-np.expm1(-2.0 * np.asarray(exponent) * UP)) * UP)


def on_table(counts: Counts) -> np.ndarray:
    """Return the numbers on `SHIFTS` of a product pair that dominates `counts` (one row); shifts above 2 count as 2."""
    return spread(np.minimum(counts.shift, 2.0), counts.number, SHIFTS)


def total_variation(numbers: np.ndarray) -> np.ndarray:
    """Return an upper bound of the total variation of the product pair with `numbers` `[..., SHIFTS]` coordinates each.

    One coordinate is first replaced by a pair that dominates it and has finitely many privacy losses (`_atoms`). For the
    product P, Q of those, with L = log(P/Q) and E[.] = integral . sqrt(P Q),

        1 - TV = integral min(P, Q) = E[k(L)],      k(x) = e^(-|x|/2) = 1/(2 pi) integral e^(isx) / (s^2 + 1/4) ds,

    where outcomes that only one side has are left out by sqrt(P Q) = 0. E[e^(isL)] = Psi(s) is the product of the
    coordinates' real phi(s) (`_table`). Two steps make the integral a finite sum, both lower bounds of 1 - TV:

    *Period* W. Let K(x) = sum_m k(x + m W), r = e^(-W/2). Then k(x) >= (1 - r) K(x) - r e^(|x|/2): equality for |x| <= W, by
    summing two geometric series; for |x| = W + y, y >= 0, the right side is at most e^(-y/2) + r e^(y/2) - e^(y/2) <= r
    e^(-y/2) = k(x) for y <= W, and negative beyond. Since E[e^(|L|/2)] = integral of max(P, Q) where both are positive <= 2,
    1 - TV >= (1 - r) E[K(L)] - 2 r.

    *Taper* N, normal with deviation sigma: |x + N| >= |x| + sign(x) N, so E k(x + N) <= k(x) e^(sigma^2/8). Hence K(x) is at
    least e^(-sigma^2/8) times the same sum for the smoothed k, whose transform has the factor e^(-sigma^2 s^2/2), and with
    s_j = 2 pi j / W (Poisson's formula)

        1 - TV >= (1 - r) e^(-sigma^2/8) (2/W) [ 2 Psi(0) + sum_{j>=1} Psi(s_j) e^(-sigma^2 s_j^2/2) / (s_j^2 + 1/4) ] - 2 r.

    Terms with sigma s_j > 8.5 are left out: they sum to less than e^-36. Rounding: 1 - phi is a sum of positive terms, known
    to a part in 2**36, and to 2**-39 (most digits are lost in the argument s L < 2**14 of a sine; the tests compare it with
    arithmetic of 64 bits). Where phi >= 1/2 that is an error of at most 2**-35 |log Psi| in log Psi = sum of n log phi, and
    x e^-x < 1/2; for the others, of which there are at most 417, n |phi|^(n-1) <= 1. All together Psi is wrong by less than
    2**-30, and so is the sum, whose weights add up to 1 + O(r): 2**-29 is charged.
    """
    numbers = np.asarray(numbers, dtype=np.float64)
    log_phi, negative, weight = _table()
    used = np.flatnonzero(numbers.reshape(-1, len(SHIFTS)).any(axis=0))
    psi = np.exp(numbers[..., used] @ log_phi[used])
    used = used[negative[used].any(axis=1)]
    odd = np.remainder(np.remainder(numbers[..., used], 2.0) @ negative[used], 2.0)
    overlap = np.where(odd == 1.0, -psi, psi) @ weight
    r = math.exp(-PERIOD / 2.0)
    return np.clip(
        1.0 - ((1.0 - r) * math.exp(-(TAPER**2) / 8.0) * overlap - 2.0 * r) + SERIES_ERROR, 0.0, 1.0
    )


@functools.cache
def _table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (log|phi|, phi < 0, weight): `[SHIFTS, nodes]` twice, and the weights `[nodes]` of Psi in 1 - TV.

    phi(s) = E[cos(s L)] of one coordinate. With the atoms (l, P) of positive loss, their mirror images (-l, P e^-l), and the
    mass `only` that one side has alone,

        1 - phi(s) = only + sum_l P (1 - e^(-l/2))^2 + 4 sum_l P e^(-l/2) sin(s l / 2)^2.
    """
    s = 2.0 * math.pi / PERIOD * np.arange(math.ceil(REACH / TAPER * PERIOD / (2.0 * math.pi)) + 1)
    losses = _losses()
    sines = np.sin(np.multiply.outer(losses, s / 2.0)) ** 2
    log_phi, negative = np.empty((2, len(SHIFTS), len(s)))
    for row, eps in enumerate(SHIFTS):
        atoms = _atoms(float(eps))
        tilted = 4.0 * atoms.mass * np.exp(-atoms.loss / 2.0)
        common = np.zeros(len(losses))
        common[atoms.place[atoms.place >= 0]] = tilted[atoms.place >= 0]
        missing = (
            atoms.only
            + float(np.sum(atoms.mass * np.expm1(-atoms.loss / 2.0) ** 2))
            + common @ sines
        )
        for own in np.flatnonzero((atoms.place < 0) & (atoms.loss > 0)):
            missing += tilted[own] * np.sin(atoms.loss[own] / 2.0 * s) ** 2
        negative[row] = missing > 1.0
        with np.errstate(divide="ignore"):
            size = np.where(
                missing < 0.5, np.log1p(-np.minimum(missing, 0.5)), np.log(np.abs(1.0 - missing))
            )
        log_phi[row] = np.maximum(size, -700.0)
    return log_phi, negative, _weights(s)


def _weights(s: np.ndarray) -> np.ndarray:
    weight = 2.0 / PERIOD * np.exp(-((TAPER * s) ** 2) / 2.0) / (s**2 + 0.25)
    weight[0] /= 2.0
    return weight


class _Atoms(NamedTuple):
    """The P-mass of each loss >= 0 (half of it for 0), its place among `_losses` or -1, what one side has alone."""

    loss: np.ndarray
    mass: np.ndarray
    place: np.ndarray
    only: float


def _losses() -> np.ndarray:
    """Return the privacy losses that all shifts share, increasing."""
    count = math.ceil(math.log(LARGEST_LOSS / float(SHIFTS[0])) / math.log(LOSS_RATIO))
    return LARGEST_LOSS * LOSS_RATIO ** np.arange(-float(count), 1.0)


def _atoms(eps: float) -> _Atoms:
    """Return a pair with few losses that dominates f against f(. - eps).

    Let u be the distance from the edge of f(. - eps), x = u + eps - 1, on the side x < eps/2 where the loss is positive.
    There

        (f, f(. - eps)) = (u + eps, u)        for u <= 1 - eps,   loss = log(1 + eps/u), at least kink = -log(1 - eps)
                          (2 - eps - u, u)    for u >= 1 - eps,   loss = log((2 - eps)/u - 1), down to 0 at u = 1 - eps/2.

    An interval of losses [l, m] (u from v down to w, on one branch, b = eps or 2 - eps) has masses (p, q) with e^l <= p/q <=
    e^m. Split them into an atom of loss l and one of loss m, with the same sums: a mean-preserving spread of the likelihood
    ratio, which can be undone by merging the atoms, so it gives away at least as much. Their P-masses are

        loss l:  (q e^m - p) / (e^(m-l) - 1),   q e^m - p = b (v - w)^2 / (2 w)
        loss m:  (p - q e^l) / (1 - e^(l-m)),   p - q e^l = b (v - w)^2 / (2 v)

    from (u + eps) - u (v + eps)/v = eps (1 - u/v) and (2 - eps - u) - u (2 - eps - v)/v = (2 - eps)(1 - u/v), integrated: no
    digits cancel. Beyond the largest loss m, at u <= w, the masses are (p, w^2/2): all of q goes to the loss m, with P-mass
    q e^m, and what is left of p to the loss infinity.
    """
    if eps >= 2.0:
        return _Atoms(np.empty(0), np.empty(0), np.empty(0, dtype=np.int64), 1.0)
    losses = _losses()
    kink = -math.log1p(-eps) if eps < 1.0 else math.inf
    places = np.flatnonzero(
        (losses > min(kink, SMALLEST_LOSS)) & ~(np.abs(losses / kink - 1.0) < 1e-6)
    )
    loss, place = np.concatenate([[0.0], losses[places]]), np.concatenate([[-1], places])
    if kink < loss[-1]:
        at = int(np.searchsorted(loss, kink))
        loss, place = np.insert(loss, at, kink), np.insert(place, at, -1)
    outer = loss[:-1] >= kink  # the branch of the interval that starts here
    edge, width = _edges(loss, eps, outer)
    b, gap = np.where(outer, eps, 2.0 - eps), np.diff(loss)
    mass = np.zeros(len(loss))
    mass[:-1] += b * width**2 / (2.0 * edge[1]) / np.expm1(gap)
    mass[1:] += b * width**2 / (2.0 * edge[0]) / -np.expm1(-gap)
    last, largest = float(edge[1, -1]), float(loss[-1])
    mass[-1] += last**2 / 2.0 * math.exp(largest)
    only = (last + eps) * eps / 2.0 if outer[-1] else 1.0 - (2.0 - eps) * (2.0 - eps - last) / 2.0
    return _Atoms(loss, mass, place, only)


def _edges(loss: np.ndarray, eps: float, outer: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return u at both ends of each interval of losses `[2, intervals]`, and their difference, without a subtraction."""
    low, high = loss[:-1], loss[1:]
    inner = (2.0 - eps) / (np.exp(loss) + 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        outside = eps / np.expm1(loss)
        width_outside = eps * np.exp(low) * np.expm1(high - low) / (np.expm1(low) * np.expm1(high))
    width_inside = (
        (2.0 - eps)
        * np.exp(low)
        * np.expm1(high - low)
        / ((np.exp(low) + 1.0) * (np.exp(high) + 1.0))
    )
    edges = np.array(
        [np.where(outer, outside[:-1], inner[:-1]), np.where(outer, outside[1:], inner[1:])]
    )
    return edges, np.where(outer, width_outside, width_inside)
