"""Certain bounds on the privacy curve of a product of many two-point distributions, by a Fourier series.

Characteristic functions multiply under composition, which is what makes Fourier accountants fast (Koskela et al. 2020; Zhu,
Dong and Wang 2022). Here nothing is put on a grid: the series is that of the exact privacy loss, and each of its errors
(period, number of terms, rounding) is bounded in the docstring of the function that makes it. Only numpy is needed.

For a and b in (0, 1), f and g are the laws of independent coins with upper probabilities a and b; see `exact` for where they
come from.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

TAIL = 40.0  # a tail of probability e**-40 is neglected, and charged to the bounds
TAPER = 8.5  # standard deviations of the Gaussian taper of the series that are summed
NODES = 2**17  # largest number of Fourier nodes
NEGLIGIBLE = 1e-13  # a Fourier coefficient below this is dropped, and charged to the bounds
SMALL, ORDER = 0.15, 12  # where a coordinate's transform is replaced by its power series, and up to which power
HEAD, BLOCK = 2048, 1024  # coordinates multiplied out at every node, and coordinates taken together
UNIT = 2.0**-53
ROUNDING = 1e-9  # relative error allowed in a sum of up to 1e7 terms of one sign, each right to a few units in the last place


def bounds(a: np.ndarray, b: np.ndarray, log_p: float, cut: float, resolution: float) -> tuple[float, float]:
    """Return bounds on (1 - p) + integral (p f - e^epsilon q g)_+, with `cut` = c = epsilon + log q - log p.

    1. Let A = sqrt(p q e^epsilon): p = A e^(-c/2) and e^epsilon q = A e^(c/2). As (u - v)_+ = u - min(u, v), the quantity is
       1 - X with

           X = integral min(p f, e^epsilon q g) = A E[k(L - c)],      k(x) = e^(-|x|/2),      E[.] = integral . sqrt(f g).

       E is a measure of mass BC, the affinity. Its transform Psi(s) = E[e^(isL)] is the product over coordinates of
       sqrt(a b) e^(is up) + sqrt((1-a)(1-b)) e^(is down), and |Psi(s)| <= BC <= 1.

    2. Periodise: K(x) = sum_m k(x + m W). With r = e^(-W/2), K(x) = (k(x) + r e^(|x|/2)) / (1 - r) for |x| <= W; beyond, the
       right side is the larger one, by at most r (1 + r) / (1 - r) e^(|x|/2). Since A E[e^(|L-c|/2)] is the integral of
       max(p f, e^epsilon q g), which is 2 A cosh(c/2) - X,

           X = A E[K(L - c)] + A t - 2 A cosh(c/2) r / (1 - r),
           0 <= A t <= r (1 + r) / (1 - r) (p f(L - c > W) + e^epsilon q g(L - c < -W)),

       and W is chosen (`_reach`) such that these two tail probabilities are at most e^-40.

    3. By Poisson's formula, with s_j = 2 pi j / W, E[K(L - c)] = 4 BC / W + Sigma, where
       Sigma = (2/W) sum_{j >= 1} Re(Psi(s_j) e^(-i s_j c)) / (s_j^2 + 1/4). In a form that does not cancel for small W,

           1 - X = (1 - A) + A ( coth(W/4) - 4/W + 4 r / (1 - r) sinh(c/4)^2 + 4 (1 - BC) / W - Sigma - t ).

    4. Sigma is cut off by a Gaussian taper. Let N be normal with deviation sigma <= 1 and m(x) = E k(x + N), whose transform
       has the factor e^(-sigma^2 s^2 / 2). Then, with B = sigma (1/sqrt(2 pi) + (sigma/2) e^(sigma^2/8)),

           e^(-sigma^2/8) m(x)  <=  k(x)  <=  m(x) + B e^(-x^2 / (2 sigma^2)).

       Left: |x + N| >= |x| + sign(x) N, so m(x) <= k(x) E e^(-N/2). Right, for x >= 0: with u = x + N,
       e^(-|u|/2) = e^(-u/2) e^(-u_-) >= e^(-u/2) (1 - u_-), and weighting with e^(-N/2) shifts N by -sigma^2/2, so
       m(x) >= e^(-x/2) e^(sigma^2/8) (1 - sigma G(z)) where z = x/sigma - sigma/2, G(z) = phi(z) - z Phi(-z) is the mean
       negative part of a normal variable with mean z, and sigma G(z) < 1. Hence k(x) - m(x) <= e^(-x/2) sigma G(z). Here
       e^(-x/2) phi(z) <= e^(-x^2/(2 sigma^2)) / sqrt(2 pi), and -z Phi(-z) is negative for z >= 0, while for z < 0 (that is
       x < sigma^2/2) it is at most sigma/2 <= (sigma/2) e^(sigma^2/8) e^(-x^2/(2 sigma^2)). The bounds carry over to the
       periodised sums term by term, and E of those is a tapered Fourier series again.

    5. Rounding: a factor of Psi is at most 1 in modulus and wrong by at most 16 (1 + s |up - down|) 2**-53, a product of such
       factors by at most the sum of that over coordinates. Four times this is charged at every node, which covers sums of
       logarithms (`_suffix_sums`) and the few terms around Sigma too. As factors are at most 1, a node whose product fell below
       1e-13 is dropped and charged 1e-13.
    """
    at_least = -math.expm1(log_p + min(cut, 0.0))  # X is at most p and at most e^epsilon q
    up, down = losses(a, b)
    reach_f, reach_g = _reach(a, up, down) - cut, _reach(b, -up, -down) + cut
    p = math.exp(log_p)
    if reach_f <= 0:  # p f exceeds e^epsilon q g with probability e^-40 at most, under f
        return at_least, -math.expm1(log_p) + p * math.exp(-TAIL)
    if reach_g <= 0:  # and here it is the smaller one with probability e^-40 at most, under g
        return at_least, -math.expm1(log_p + cut) + p * math.exp(cut - TAIL)
    if abs(cut) > 2.0 * TAIL:  # e^(|c|/2) times rounding would swallow the answer
        return at_least, 1.0
    deviation = math.sqrt(float(np.sum(a * (1.0 - a) * (up - down) ** 2)))
    width, tail = max(reach_f, reach_g), math.exp(-TAIL)
    if width > 2.0 * TAIL + 2.0 * abs(cut):  # r alone is small enough
        width, tail = 2.0 * TAIL + 2.0 * abs(cut), 1.0
    sigma = max(resolution * min(deviation, 1.0), TAPER * width / (2.0 * math.pi * NODES))
    series, bump, error = _series(a, b, up, down, cut, width, sigma)
    log_scale, r, affinity = log_p + cut / 2.0, math.exp(-width / 2.0), log_affinity(a, b)
    loss = 4.0 * -math.expm1(affinity) / width
    shrink = -math.expm1(-(sigma**2) / 8.0)
    low_sigma = series * (1.0 - shrink) - shrink * 4.0 * math.exp(affinity) / width - error
    high_sigma = series + sigma * (1.0 / math.sqrt(2.0 * math.pi) + sigma / 2.0 * math.exp(sigma**2 / 8.0)) * bump + error
    missing = 2.0 * math.cosh(cut / 2.0) * r * (1.0 + r) / (1.0 - r) * tail
    known = _coth_minus_pole(width / 4.0) + 4.0 * r / (1.0 - r) * math.sinh(cut / 4.0) ** 2 + loss
    one_minus_scale, scale = -math.expm1(log_scale), math.exp(log_scale)
    lower = one_minus_scale + scale * (known - loss * ROUNDING - high_sigma - missing)
    upper = one_minus_scale + scale * (known + loss * ROUNDING - low_sigma)
    return max(lower, at_least), upper


def _series(a, b, up, down, cut: float, width: float, sigma: float) -> tuple[float, float, float]:
    """Return the tapered Sigma, the expectation of the periodised bump, and a bound on the error of Sigma (step 5)."""
    nodes = math.ceil(TAPER / sigma * width / (2.0 * math.pi))
    s = 2.0 * math.pi / width * np.arange(1, nodes + 1)
    psi, truncated = _transform(s, a, b, up - down)
    real = (psi * np.exp(1j * s * (math.fsum(down) - cut))).real
    taper = np.exp(-((sigma * s) ** 2) / 2.0) * 2.0 / width
    weight, height = taper / (s**2 + 0.25), math.sqrt(2.0 * math.pi) * sigma
    beyond = math.exp(-((sigma * s[-1]) ** 2) / 2.0) / math.pi
    unit = 64.0 * UNIT + len(a) / BLOCK * float(np.finfo(np.longdouble).eps)
    wrong = unit * (len(a) + s * np.abs(up - down).sum()) + truncated + NEGLIGIBLE
    error = float(weight @ wrong) + beyond / s[-1]
    affinity = math.exp(log_affinity(a, b))
    bump = height * (affinity / width + float(taper @ (real + wrong))) + height * beyond / (sigma**2 * s[-1])
    return float(weight @ real), bump, error


def _transform(s: np.ndarray, a: np.ndarray, b: np.ndarray, gap: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the product over coordinates of low + high e^(is gap), `[nodes]`, and a bound on its truncation error.

    Here low = sqrt((1-a)(1-b)) and high = sqrt(a b). Most coordinates have s |gap| far below 1, and their logarithm is a short
    power series whose coefficients can be summed over coordinates once, for all nodes. With pi = high / (low + high),
    v = pi (1 - pi), u = is gap,

        log(low + high e^u) = log(low + high) + h(u),   h(u) = log(1 - pi + pi e^u) = pi u + sum_{k >= 2} kappa_k u^k / k!,

    kappa_k the cumulants of a coin (`_cumulants`). For |u| <= 1, h''(u) = v e^u / (1 - pi + pi e^u)^2 is at most e^3 v in
    modulus, because Re(1 - pi + pi e^u) >= min(1, Re e^u) >= 1/e. So are the coefficients of its power series (Cauchy), and
    what follows u^K in h is at most e^3 v |u|^(K+1) / (K (K+1) (1 - |u|)).

    The 2048 coordinates that weigh most at nodes beyond eight inverse standard deviations are multiplied out first: most nodes
    become negligible there, and are dropped. The others come in blocks, largest |gap| first: a node takes the series for all
    blocks with s |gap| <= 0.15, and multiplies the rest out.
    """
    high, low = np.sqrt(a * b), np.sqrt((1.0 - a) * (1.0 - b))
    cap = math.sqrt(float(np.sum(high * low * gap**2))) / 8.0
    heavy = np.argsort(-high * low * np.minimum(np.abs(gap), cap) ** 2, kind="stable")
    head, tail = heavy[:HEAD], heavy[HEAD:]
    tail = tail[np.argsort(-np.abs(gap[tail]), kind="stable")]
    starts = np.arange(0, len(tail), BLOCK)
    first = np.searchsorted(-np.abs(gap[tail[starts]]), -SMALL / s)  # node by node: the first block that is a series
    psi, error = _small(s, first, _suffix_sums(a[tail], b[tail], gap[tail], starts))
    alive = np.flatnonzero(np.abs(psi) >= NEGLIGIBLE)
    blocks = [(head[start : start + BLOCK // 16], 0) for start in range(0, len(head), BLOCK // 16)]
    blocks += [(tail[start : start + BLOCK], place + 1) for place, start in enumerate(starts)]
    for block, place in blocks:
        nodes = alive[first[alive] >= place]
        if not len(nodes):
            break
        for some in np.split(nodes, range(BLOCK // 4, len(nodes), BLOCK // 4)):
            psi[some] *= _factors(s[some], low[block], high[block], gap[block])
        alive = alive[np.abs(psi[alive]) >= NEGLIGIBLE]
    psi[np.abs(psi) < NEGLIGIBLE] = 0.0
    return psi, error


def _factors(s: np.ndarray, low: np.ndarray, high: np.ndarray, gap: np.ndarray) -> np.ndarray:
    angle = np.multiply.outer(s, gap)
    factors = np.empty(angle.shape, dtype=np.complex128)
    factors.real = low + high * np.cos(angle)
    factors.imag = high * np.sin(angle)
    return factors.prod(axis=1)


def _suffix_sums(a: np.ndarray, b: np.ndarray, gap: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return, from each block to the last (and for none), the coefficients of the series of log Psi in is, and its remainder's.

    Rows: power 0 (the log affinity), 1, ..., ORDER, and the sum of v |gap|^(ORDER+1). Within a block numpy sums pairwise; over
    blocks we sum in extended precision where there is one.
    """
    sums = np.zeros((ORDER + 2, len(starts) + 1), dtype=np.longdouble)
    cumulants = list(_cumulants())
    for place, start in enumerate(starts):
        block = slice(start, start + BLOCK)
        sums[:, place] = _block_terms(a[block], b[block], gap[block], cumulants).sum(axis=1)
    return np.cumsum(sums[:, ::-1], axis=1)[:, ::-1].astype(np.float64)


def _block_terms(a: np.ndarray, b: np.ndarray, gap: np.ndarray, cumulants: list) -> np.ndarray:
    odds = np.sqrt(a * b / ((1.0 - a) * (1.0 - b)))
    share, rest = odds / (1.0 + odds), 1.0 / (1.0 + odds)
    v = share * rest
    terms = np.empty((ORDER + 2, len(gap)))
    terms[0], terms[1], terms[-1] = _log_affinities(a, b), share * gap, v * np.abs(gap) ** (ORDER + 1)
    power = gap
    for k, (in_v, odd) in enumerate(cumulants, start=2):
        power = power * gap / k
        terms[k] = in_v(v) * power * ((rest - share) if odd else 1.0)
    return terms


def _small(s: np.ndarray, first: np.ndarray, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the part of Psi that comes from the blocks from `first` on, and a bound on its truncation error."""
    sums = sums[:, first]
    exponent = np.zeros(len(s), dtype=np.complex128)
    for k in range(ORDER, -1, -1):
        exponent = exponent * (1j * s) + sums[k]
    remainder = math.exp(3.0) / (ORDER * (ORDER + 1) * (1.0 - SMALL)) * s ** (ORDER + 1) * sums[-1]
    psi = np.exp(exponent)
    return psi, np.abs(psi) * np.expm1(remainder)


def _cumulants() -> Iterator[tuple[np.polynomial.Polynomial, bool]]:
    """Yield kappa_2, ..., kappa_ORDER of a coin with probability pi as (polynomial in v, whether to multiply by 1 - 2 pi).

    kappa_{k+1} = v dkappa_k/dpi, dv/dpi = 1 - 2 pi = t and t^2 = 1 - 4 v. So an even one, E(v), is followed by t v E'(v), and
    an odd one, t O(v), by v ((1 - 4 v) O'(v) - 2 O(v)). Polynomials in v <= 1/4 lose no digits for coins near 0 or 1.
    """
    v = np.polynomial.Polynomial([0.0, 1.0])
    kappa = v
    for k in range(2, ORDER + 1):
        yield kappa, bool(k % 2)
        kappa = v * ((1.0 - 4.0 * v) * kappa.deriv() - 2.0 * kappa) if k % 2 else v * kappa.deriv()


def _reach(upper: np.ndarray, up: np.ndarray, down: np.ndarray) -> float:
    """Return x such that the sum of the coordinates' losses exceeds x with probability at most e^-40 (or never).

    Chernoff: log P(L > x) <= log E e^(lam L) - lam x for every lam > 0, and log E e^(lam L) is a sum over coordinates.
    """
    deviation = math.sqrt(float(np.sum(upper * (1.0 - upper) * (up - down) ** 2)))
    certain = float(np.maximum(up, down).sum())
    if deviation == 0:
        return certain
    reach = [certain]
    for lam in math.sqrt(2.0 * TAIL) / deviation * 2.0 ** np.arange(-4, 2):
        with np.errstate(over="ignore"):
            moment = np.log1p(upper * np.expm1(lam * up) + (1.0 - upper) * np.expm1(lam * down)).sum()
        reach.append(float(moment + TAIL) / lam)
    return min(reach)


def _coth_minus_pole(x: float) -> float:
    """Return coth(x) - 1/x for x > 0."""
    if x < 0.05:
        return x / 3.0 - x**3 / 45.0 + 2.0 * x**5 / 945.0
    return 1.0 / math.tanh(x) - 1.0 / x


def log_affinity(a: np.ndarray, b: np.ndarray) -> float:
    """Return log of the Bhattacharyya affinity of the interior coordinates: BC = integral sqrt(f g).

    Affinities multiply, and 1 - BC <= TV <= sqrt(1 - BC**2) (Le Cam). Per coordinate 1 - BC is half of
    (sqrt(a) - sqrt(b))**2 + (sqrt(1-a) - sqrt(1-b))**2, and sqrt(a) - sqrt(b) = (a - b) / (sqrt(a) + sqrt(b)) loses no digits.
    """
    return float(_log_affinities(a, b).sum())


def _log_affinities(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    up = (a - b) / (np.sqrt(a) + np.sqrt(b))
    down = (a - b) / (np.sqrt(1.0 - a) + np.sqrt(1.0 - b))
    return np.log1p(-(up**2 + down**2) / 2.0)


def losses(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the privacy loss log(f/g) of each interior coordinate at its upper and at its lower level."""
    return _log_ratio(a, b, a - b), _log_ratio(1.0 - a, 1.0 - b, b - a)


def _log_ratio(x: np.ndarray, y: np.ndarray, difference: np.ndarray) -> np.ndarray:
    """Return log(x / y), accurate near zero and far from it; difference = x - y."""
    close = np.abs(difference) < y / 2.0
    return np.where(close, np.log1p(np.divide(difference, y, out=np.zeros_like(y), where=close)), np.log(x) - np.log(y))
