"""What a dithered message gives away: triangular noise, with every distance between two shifts of it in closed form.

The dithered quantizer (`quantizer`) sends V = (level + U) d with a public U uniform on [0, 1). With a the fractional part of
y/d - U, the level is y/d - U - a or one more, so

    (V - y) / d = -a  with probability 1 - a,      1 - a  with probability a.

Whatever y is, a is uniform on [0, 1) because U is. So the error x = (V - y) / d has density 1 - a = 1 - |x| at x = -a, and
a = 1 - |x| at x = 1 - a:

    f(x) = 1 - |x|  on (-1, 1),  the same for every y:      E x = 0,  E x^2 = E[a (1 - a)] = 1/6.

V reveals the dither (U = V/d mod 1) and with it the level, so whoever knows U and sees the level sees V, no more and no less:
the mechanism *is* y plus independent triangular noise. Two inputs differ by the shift eps = |y - y'| / d, and what their
messages give away, f against f(. - eps), is a function of eps alone.

**A smaller shift gives away less.** log f is concave, so f(x - eps) / f(x) is non-decreasing in x: a monotone likelihood
ratio. By Neyman and Pearson the best test of f against f(. - eps) at any level is a threshold "x > c", with the same c for
every eps, and its power P(x + eps > c) increases with eps. By Blackwell's theorem the pair (f, f(. - eps)) is therefore a
randomised image of (f, f(. - eps')) for every eps' > eps, and every measure that such an image cannot increase (total
variation, one minus any affinity, any f-divergence) is non-decreasing in eps (Dong, Roth and Su 2019 for log-concave noise).
"""

from __future__ import annotations

import math

import numpy as np

from ldp_core import quantizer
from ldp_core.checks import broadcast, reals

RELATIVE_ERROR = (
    1e-13  # of the complements while eps >= 1e-150: fewer than 200 roundings of terms that are at most 4 times the sum
)
_TERMS = 40  # of each power series; what is left out is below 1e-16 of the sum (see `chernoff_complement`)
_SERIES_UP_TO = 2.0 / 3.0  # eps beyond which the series in 1 - eps is the faster one


def density(x) -> np.ndarray:
    """Return f(x) = max(0, 1 - |x|), the density of x = (V - y) / d."""
    return np.maximum(0.0, 1.0 - np.abs(np.asarray(x, dtype=np.float64)))


def cdf(x) -> np.ndarray:
    """Return P((V - y) / d <= x): (1 + x)^2 / 2 below zero, 1 - (1 - x)^2 / 2 above."""
    x = np.clip(np.asarray(x, dtype=np.float64), -1.0, 1.0)
    return np.where(x < 0, 0.5 * (1.0 + x) ** 2, 1.0 - 0.5 * (1.0 - x) ** 2)


def total_variation(eps) -> np.ndarray:
    """Return the total variation between f and f(. - eps): eps - eps^2 / 4 up to eps = 2, then 1.

    Proof. By the monotone likelihood ratio the best test is a threshold, by symmetry at eps/2:
    TV = F(eps/2) - F(-eps/2) = 1 - 2 F(-eps/2) = 1 - (1 - eps/2)^2.
    """
    eps = np.minimum(_shift(eps), 2.0)
    return eps * (1.0 - 0.25 * eps)


def affinity(eps) -> np.ndarray:
    """Return the Bhattacharyya affinity, the integral of sqrt(f(x) f(x - eps)); 1 - `affinity_complement`.

    With c = 1 - eps/2, e = eps/2 (so that c + e = 1 and c^2 - e^2 = 1 - eps):

        eps <= 1        sqrt(1 - eps) + c^2 arcsin(e / c) - e^2 arcosh(c / e)
        1 <= eps <= 2   pi c^2 / 2
        eps >= 2        0

    Proof. With s = x - eps/2 the two densities are 1 - |s + e| and 1 - |s - e|. Between the peaks, |s| <= min(e, c), their
    product is (c - s)(c + s), under whose root lies a half disc of radius c: all there is if eps >= 1, with area pi c^2 / 2;
    otherwise its part |s| <= e has area c^2 arcsin(e/c) + e sqrt(c^2 - e^2). On each side of the peaks (eps <= 1) the product
    is w^2 - e^2, where w = 1 - |s| runs from e to c; twice the integral of its root is c sqrt(c^2 - e^2) - e^2 arcosh(c/e).
    Add, with c + e = 1.

    Differentiating, d affinity / d eps = -(c arcsin(e/c) + e arcosh(c/e)) on (0, 1] and -pi c / 2 on [1, 2].
    """
    eps = _shift(eps)
    return np.where(eps <= 1.0, 1.0 - affinity_complement(np.minimum(eps, 1.0)), math.pi / 8.0 * _gap(eps) ** 2)


def affinity_complement(eps) -> np.ndarray:
    """Return h(eps) = 1 - affinity(eps), with a relative error below `RELATIVE_ERROR` however small eps is.

    In r = e / c = eps / (2 - eps) the formula of `affinity` for eps <= 1 becomes, without cancellation,

        h = eps^2 / 4 [ 1 + (1 + r) / (1 + s) + log((1 + s) / r) - (arcsin r - r) / r^2 ],     s = sqrt(1 - r^2),

    because c = 1/(1 + r), e = r/(1 + r), sqrt(1 - eps) = s/(1 + r) and 1 - s = r^2/(1 + s). The last term
    is at most pi/2 - 1, the others at least 2 in all. As eps -> 0:  h = eps^2 / 4 (log(4 / eps) + 3/2) + O(eps^3).
    """
    eps = _shift(eps)
    near = np.minimum(eps, 1.0)
    r = near / (2.0 - near)
    s = (1.0 + r) * np.sqrt(1.0 - near)
    bracket = 1.0 + (1.0 + r) / (1.0 + s) + np.log1p(s) - _log(r) - _arcsin_excess(r, s)
    return np.where(eps <= 1.0, 0.25 * near * near * bracket, 1.0 - math.pi / 8.0 * _gap(eps) ** 2)


def chernoff(eps, alpha) -> np.ndarray:
    """Return the Chernoff affinity of order alpha in (0, 1), the integral of f(x)^alpha f(x - eps)^(1 - alpha).

    It is 1 - `chernoff_complement` for eps <= 1, and (2 - eps)^2 a pi / (2 sin(pi alpha)) with a = alpha (1 - alpha) for eps in
    [1, 2]. Absolute error below 1e-13. Symmetric in alpha <-> 1 - alpha (reflect x at eps/2); order 1/2 is `affinity`.
    """
    eps, alpha = _shift(eps), _order(alpha)
    return np.where(eps <= 1.0, 1.0 - _chernoff_complement(np.minimum(eps, 1.0), alpha), _gap(eps) ** 2 * _half_beta(alpha))


def chernoff_complement(eps, alpha) -> np.ndarray:
    """Return 1 - chernoff(eps, alpha), with a relative error below `RELATIVE_ERROR` however small eps is.

    Let a = alpha (1 - alpha), rho = 1 - eps, r = eps / (2 - eps), w(q) = q^alpha + q^(1 - alpha), and c, e, s as in
    `affinity`. Take the ratio q of the smaller density to the larger as variable: |s| = c (1 - q)/(1 + q) between the peaks
    and 1 - |s| = e (1 + q)/(1 - q) outside them. The two halves of the line (where one or the other density is the larger)
    together give

        chernoff = (1 + rho)^2 int_rho^1 w(q) / (1 + q)^3 dq + (1 - rho)^2 int_0^rho w(q) / (1 - q)^3 dq.

    *eps > 2/3.* int_0^1 w / (1 + q)^3 dq = Beta(1 + alpha, 2 - alpha) = a pi / (2 sin(pi alpha)) (this is the case eps = 1),
    and the powers of 1 + q and 1 - q expand for q <= rho < 1/3:

        chernoff = (1 + rho)^2 a pi / (2 sin(pi alpha)) + sum_{j >= 0} (j+1)(j+2)/2 [(1 - rho)^2 - (-1)^j (1 + rho)^2]
                                                          x [rho^(j+1+alpha) / (j+1+alpha) + rho^(j+2-alpha) / (j+2-alpha)].

    *eps <= 2/3*, so r <= 1/2. With x = (1 - q)/(1 + q) the integral is c^2 (2 int_0^r g dx + 2 r^2 int_r^1 g x^-3 dx), where
    g is the even part of (1 + x)^alpha (1 - x)^(1 - alpha), g = 1 - sum_{k >= 1} p_k x^(2k). All p_k are positive and they
    sum to 1: because t^alpha = sin(pi alpha)/pi int_0^inf t/(t + z) z^(alpha-1) dz, g is a mixture of (1 - x^2)/(1 - sigma^2
    x^2) with |sigma| <= 1, hence p_k one of (1 - sigma^2) sigma^(2k-2); and g(1) = 0. Also p_1 = 2a. Integrating term by
    term,

        complement = eps^2 / 2 [ 1 + 2 a log(1/r) + S + sum_{k>=1} p_k r^(2k-1)/(2k+1) - sum_{k>=2} p_k r^(2k-2)/(2k-2) ],
        S = sum_{k>=2} p_k/(2k-2) = a (3 - 2 gamma - 2 log 2 - digamma(1 + alpha) - digamma(2 - alpha)),

    the last from the finite part of Beta(z, beta + 1) at z = -2, beta = alpha and 1 - alpha. The bracket is at least 1: each
    negative term is a part of its term in S.

    What K = `_TERMS` terms leave out is at most r^(2K) / (2K) in this bracket and 4 (K + 2) rho^(K+1) < 1e-17 in the sum
    above, which is subtracted from 1 to give at least eps^2 / 2 > 0.2. As eps -> 0 it is eps^2 (a log(1/eps) + O(1)).
    """
    eps, alpha = _shift(eps), _order(alpha)
    near = _chernoff_complement(np.minimum(eps, 1.0), alpha)
    return np.where(eps <= 1.0, near, 1.0 - _gap(eps) ** 2 * _half_beta(alpha))


def likelihood_ratio(values, y, other, step) -> np.ndarray:
    """Return the density of an observed value V under input y divided by that under `other`.

    Zero when only `other` could have sent it, infinity when only y could, never NaN: a value that neither could send, which
    does not occur, says nothing, and has ratio one. (Rounding of V itself can push it out of a support only within
    2**-52 |V| / d of its ends, where it lies with probability at most the square of that.)
    """
    mine, theirs = _both_densities(values, y, other, step)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((mine == 0) & (theirs == 0), 1.0, mine / theirs)


def log_likelihood_ratio(values, y, other, step) -> np.ndarray:
    """Return the logarithm of `likelihood_ratio`: minus infinity and infinity are legal, NaN never occurs."""
    mine, theirs = _both_densities(values, y, other, step)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((mine == 0) & (theirs == 0), 0.0, np.log(mine) - np.log(theirs))


def _both_densities(values, y, other, step) -> tuple[np.ndarray, np.ndarray]:
    values, y, other, step = broadcast(values=values, y=y, other=other, step=step)
    quantizer.require_step(step)
    return density((values - y) / step), density((values - other) / step)


def _chernoff_complement(eps: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Return the complement for eps in [0, 1]; each entry is computed by the one of the two series that is its own."""
    if alpha.ndim > 0:  # one order for all shifts stays one number: its coefficients are then computed once
        eps, alpha = np.broadcast_arrays(eps, alpha)
    complement, near = np.empty(eps.shape), eps <= _SERIES_UP_TO
    for where, series in ((near, _series_in_r), (~near, _series_in_rho)):
        complement[where] = series(eps[where], alpha if alpha.ndim == 0 else alpha[where])
    return complement


def _series_in_r(eps: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    a, r = alpha * (1.0 - alpha), eps / (2.0 - eps)
    digammas = _digamma(1.0 + alpha) + _digamma(2.0 - alpha)
    bracket = 1.0 + a * (3.0 - 2.0 * _log(r) - 2.0 * np.euler_gamma - 2.0 * math.log(2.0) - digammas)
    kappa, power = 2.0 * alpha - 1.0, np.ones_like(r)  # power = r^(2k-2)
    odd, even = kappa, -2.0 * a  # coefficients of x^(2k-1) and x^(2k) of y = (1 + x)^alpha (1 - x)^(1 - alpha): even = -p_k
    for k in range(1, _terms(r) + 1):
        bracket -= even * power * (r / (2 * k + 1) - (1.0 / (2 * k - 2) if k > 1 else 0.0))
        power = power * r * r
        odd = (kappa * even + (2 * k - 2) * odd) / (2 * k + 1)  # (1 - x^2) y' = (kappa - x) y
        even = (kappa * odd + (2 * k - 1) * even) / (2 * k + 2)
    return 0.5 * eps * eps * bracket


def _series_in_rho(eps: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    rho = 1.0 - eps
    inside, outside = (1.0 + rho) ** 2, (1.0 - rho) ** 2
    total, low, high = inside * _half_beta(alpha), rho ** (1.0 + alpha), rho ** (2.0 - alpha)
    for j in range(_TERMS):
        weight = 0.5 * (j + 1) * (j + 2) * (outside - inside if j % 2 == 0 else outside + inside)
        total = total + weight * (low / (j + 1 + alpha) + high / (j + 2 - alpha))
        low, high = low * rho, high * rho
    return 1.0 - total


def _terms(r: np.ndarray) -> int:
    """Return how many terms leave out less than r^(2K) = 1e-20, at most `_TERMS`: small shifts need few."""
    largest = r.max(initial=1e-20)
    return min(_TERMS, math.ceil(10.0 / -math.log10(largest)))


def _half_beta(alpha: np.ndarray) -> np.ndarray:
    """Return Beta(1 + alpha, 2 - alpha) = alpha (1 - alpha) pi / (2 sin(pi alpha)), by the reflection formula."""
    smaller = np.minimum(alpha, 1.0 - alpha)  # sin(pi alpha) loses its digits near alpha = 1
    return 0.5 * (1.0 - smaller) / np.sinc(smaller)


def _arcsin_excess(r: np.ndarray, s: np.ndarray) -> np.ndarray:
    """Return (arcsin r - r) / r^2 with s = sqrt(1 - r^2): sum_{k>=1} binom(2k, k) / 4^k r^(2k-1) / (2k+1) for r <= 1/2.

    Beyond, arcsin r = arctan(r / s), which keeps its digits near r = 1, where arcsin itself is steep.
    """
    series, small, large = np.zeros_like(r), np.minimum(r, 0.5), np.maximum(r, 0.5)
    for k in range(_terms(small), 0, -1):
        series = series * small * small + math.comb(2 * k, k) / 4**k / (2 * k + 1)
    return np.where(r <= 0.5, series * small, (np.arctan2(r, s) - r) / (large * large))


def _digamma(x: np.ndarray) -> np.ndarray:
    """Return digamma(x) for x in [1, 2]: Stirling's series at x + 12, whose error is below its next term, 1e-18."""
    shifted, moved = x + 12.0, sum(1.0 / (x + k) for k in range(12))
    z = 1.0 / (shifted * shifted)
    tail = z * (1 / 12 - z * (1 / 120 - z * (1 / 252 - z * (1 / 240 - z * (1 / 132 - z * (691 / 32760 - z / 12))))))
    return np.log(shifted) - 0.5 / shifted - tail - moved


def _log(r: np.ndarray) -> np.ndarray:
    """Return log r, and 0 at r = 0, where it is multiplied by zero."""
    return np.log(np.where(r > 0, r, 1.0))


def _gap(eps: np.ndarray) -> np.ndarray:
    """Return 2 - eps where the two supports overlap, else zero."""
    return np.maximum(0.0, 2.0 - eps)


def _shift(eps) -> np.ndarray:
    eps = reals("eps", eps)
    if not (eps >= 0).all():
        raise ValueError(f"eps = {eps[~(eps >= 0)].flat[0]} must not be negative: it is |y - y'| / d")
    return eps


def _order(alpha) -> np.ndarray:
    alpha = reals("alpha", alpha)
    inside = (alpha > 0) & (alpha < 1)
    if not inside.all():
        raise ValueError(f"alpha = {alpha[~inside].flat[0]} must lie in (0, 1), the orders of a Chernoff affinity")
    return alpha
