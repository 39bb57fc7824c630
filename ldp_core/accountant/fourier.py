"""Certain bounds on the privacy curve of a product of many two-point distributions.

    >>> a, b = np.full(100, 0.5), np.full(100, 0.52)
    >>> [round(float(bound), 3) for bound in bounds(a, b, log_p=0.0, cut=0.0, resolution=1 / 64)]
    [0.158, 0.158]

Characteristic functions multiply under composition, which is what makes Fourier accountants fast
(Koskela et al. 2020; Zhu, Dong and Wang 2022). Here nothing is put on a grid: the series is that of
the exact privacy loss, and each of its errors (period, number of terms, rounding) is bounded in
docs/proofs/exact.md, section 2, whose five steps the comments number. f and g are the laws of
independent coins with upper probabilities a and b.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

TAIL = 40.0  # a tail of probability e**-40 is neglected, and charged
TAPER = 8.5  # standard deviations of the Gaussian taper of the series that are summed
NODES = 2**17  # largest number of Fourier nodes
NEGLIGIBLE = 1e-13  # a Fourier coefficient below this is dropped, and charged to the bounds
SMALL, ORDER = 0.15, 12  # where a transform is replaced by its power series, and up to which power
HEAD, BLOCK = 2048, 1024  # coordinates multiplied out at every node, and taken together
UNIT = 2.0**-53
ROUNDING = 1e-9  # relative error allowed in a sum of up to 1e7 terms of one sign


def bounds(
    a: np.ndarray, b: np.ndarray, log_p: float, cut: float, resolution: float
) -> tuple[float, float]:
    """Return bounds on (1 - p) + integral (p f - e^epsilon q g)_+; `cut` is epsilon + log q/p."""
    at_least = -math.expm1(log_p + min(cut, 0.0))  # X is at most p and at most e^epsilon q
    up, down = losses(a, b)
    reach_f, reach_g = _reach(a, up, down) - cut, _reach(b, -up, -down) + cut  # step 2
    p = math.exp(log_p)
    if reach_f <= 0:  # p f is the larger one with probability e^-40 at most, under f
        return at_least, -math.expm1(log_p) + p * math.exp(-TAIL)
    if reach_g <= 0:  # and here the smaller one, under g
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
    rise = 1.0 / math.sqrt(2.0 * math.pi) + sigma / 2.0 * math.exp(sigma**2 / 8.0)  # step 4
    high_sigma = series + sigma * rise * bump + error
    missing = 2.0 * math.cosh(cut / 2.0) * r * (1.0 + r) / (1.0 - r) * tail
    known = (
        _coth_minus_pole(width / 4.0) + 4.0 * r / (1.0 - r) * math.sinh(cut / 4.0) ** 2 + loss
    )  # 3
    one_minus_scale, scale = -math.expm1(log_scale), math.exp(log_scale)
    lower = one_minus_scale + scale * (known - loss * ROUNDING - high_sigma - missing)
    upper = one_minus_scale + scale * (known + loss * ROUNDING - low_sigma)
    return max(lower, at_least), upper


def _series(a, b, up, down, cut: float, width: float, sigma: float) -> tuple[float, float, float]:
    """Return the tapered Sigma, the mean of the periodised bump, and the error of Sigma."""
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
    bump = height * (affinity / width + float(taper @ (real + wrong))) + height * beyond / (
        sigma**2 * s[-1]
    )
    return float(weight @ real), bump, error


def _transform(
    s: np.ndarray, a: np.ndarray, b: np.ndarray, gap: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the product over coordinates of low + high e^(is gap), `[nodes]`, and its error.

    Here low = sqrt((1-a)(1-b)) and high = sqrt(a b). The 2048 coordinates that weigh most at nodes
    beyond eight inverse standard deviations are multiplied out first: most nodes become negligible
    there, and are dropped. The others come in blocks, largest |gap| first: a node takes the power
    series for all blocks with s |gap| <= 0.15, summed over coordinates once, and multiplies the
    rest out.
    """
    high, low = np.sqrt(a * b), np.sqrt((1.0 - a) * (1.0 - b))
    cap = math.sqrt(float(np.sum(high * low * gap**2))) / 8.0
    heavy = np.argsort(-high * low * np.minimum(np.abs(gap), cap) ** 2, kind="stable")
    head, tail = heavy[:HEAD], heavy[HEAD:]
    tail = tail[np.argsort(-np.abs(gap[tail]), kind="stable")]
    starts = np.arange(0, len(tail), BLOCK)
    first = np.searchsorted(-np.abs(gap[tail[starts]]), -SMALL / s)  # block that is a series
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
    """Return, from each block on, the coefficients of the series of log Psi and its remainder's.

    Rows: power 0 (the log affinity), 1, ..., ORDER, and the sum of v |gap|^(ORDER+1), in extended
    precision where there is one.
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
    terms[0], terms[1], terms[-1] = (
        _log_affinities(a, b),
        share * gap,
        v * np.abs(gap) ** (ORDER + 1),
    )
    power = gap
    for k, (in_v, odd) in enumerate(cumulants, start=2):
        power = power * gap / k
        terms[k] = in_v(v) * power * ((rest - share) if odd else 1.0)
    return terms


def _small(s: np.ndarray, first: np.ndarray, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the part of Psi that comes from the blocks from `first` on, and its error."""
    sums = sums[:, first]
    exponent = np.zeros(len(s), dtype=np.complex128)
    for k in range(ORDER, -1, -1):
        exponent = exponent * (1j * s) + sums[k]
    remainder = math.exp(3.0) / (ORDER * (ORDER + 1) * (1.0 - SMALL)) * s ** (ORDER + 1) * sums[-1]
    psi = np.exp(exponent)
    return psi, np.abs(psi) * np.expm1(remainder)


def _cumulants() -> Iterator[tuple[np.polynomial.Polynomial, bool]]:
    """Yield kappa_2, ... of a coin as (polynomial in v, whether to multiply by 1 - 2 pi).

    An even one, E(v), is followed by t v E'(v), t = 1 - 2 pi, and an odd one, t O(v), by
    v ((1 - 4 v) O'(v) - 2 O(v)). Polynomials in v <= 1/4 lose no digits for coins near 0 or 1.
    """
    v = np.polynomial.Polynomial([0.0, 1.0])
    kappa = v
    for k in range(2, ORDER + 1):
        yield kappa, bool(k % 2)
        kappa = v * ((1.0 - 4.0 * v) * kappa.deriv() - 2.0 * kappa) if k % 2 else v * kappa.deriv()


def _reach(upper: np.ndarray, up: np.ndarray, down: np.ndarray) -> float:
    """Return x which the sum of the losses exceeds with probability at most e^-40: Chernoff."""
    deviation = math.sqrt(float(np.sum(upper * (1.0 - upper) * (up - down) ** 2)))
    certain = float(np.maximum(up, down).sum())
    if deviation == 0:
        return certain
    reach = [certain]
    for lam in math.sqrt(2.0 * TAIL) / deviation * 2.0 ** np.arange(-4, 2):
        with np.errstate(over="ignore"):
            moment = np.log1p(
                upper * np.expm1(lam * up) + (1.0 - upper) * np.expm1(lam * down)
            ).sum()
        reach.append(float(moment + TAIL) / lam)
    return min(reach)


def _coth_minus_pole(x: float) -> float:
    """Return coth(x) - 1/x for x > 0."""
    if x < 0.05:
        return x / 3.0 - x**3 / 45.0 + 2.0 * x**5 / 945.0
    return 1.0 / math.tanh(x) - 1.0 / x


def log_affinity(a: np.ndarray, b: np.ndarray) -> float:
    """Return log BC of the interior coordinates, BC = integral sqrt(f g).

    Per coordinate 1 - BC is half of (sqrt(a) - sqrt(b))**2 + (sqrt(1-a) - sqrt(1-b))**2, and
    sqrt(a) - sqrt(b) = (a - b) / (sqrt(a) + sqrt(b)) loses no digits.
    """
    return float(_log_affinities(a, b).sum())


def _log_affinities(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    up = (a - b) / (np.sqrt(a) + np.sqrt(b))
    down = (a - b) / (np.sqrt(1.0 - a) + np.sqrt(1.0 - b))
    return np.log1p(-(up**2 + down**2) / 2.0)


def losses(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the privacy loss log(f/g) of each coordinate at its upper and its lower level."""
    return _log_ratio(a, b, a - b), _log_ratio(1.0 - a, 1.0 - b, b - a)


def _log_ratio(x: np.ndarray, y: np.ndarray, difference: np.ndarray) -> np.ndarray:
    """Return log(x / y), accurate near zero and far from it; difference = x - y."""
    close = np.abs(difference) < y / 2.0
    ratio = np.divide(difference, y, out=np.zeros_like(y), where=close)
    return np.where(close, np.log1p(ratio), np.log(x) - np.log(y))
