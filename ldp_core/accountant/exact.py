"""The exact delta(epsilon), and total variation, of a product of two-point distributions.

    >>> laws = pair(y=np.full(1000, 0.3), other=np.full(1000, 0.31), step=1.0)
    >>> [round(bound, 4) for bound in delta(laws)]  # a certain lower and upper bound
    [0.2686, 0.2688]

P is the law of an agent's transcript under its data, P' under adjacent data. What the best attacker
can gain is

    delta(epsilon) = max( sup_S P(S) - e^epsilon P'(S),  sup_S P'(S) - e^epsilon P(S) ).

Characteristic functions multiply under composition (Koskela et al. 2020; Zhu, Dong and Wang 2022);
here the series is that of the exact privacy loss, on no grid, and each of its errors is bounded. A
coordinate is *interior* if both laws have the same two levels. Proofs: docs/proofs/exact.md.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ldp_core import quantizer
from ldp_core.checks import every, instance, whole

ENUMERATED = 16  # so many interior coordinates are enumerated: 65536 outcomes
TAIL = 40.0  # a tail of probability e**-40 is neglected, and charged
TAPER = 8.5  # standard deviations of the Gaussian taper of the series that are summed
NODES = 2**17  # largest number of Fourier nodes
NEGLIGIBLE = 1e-13  # a Fourier coefficient below this is dropped, and charged to the bounds
SMALL, ORDER = 0.15, 12  # where a transform is replaced by its power series, and up to which power
HEAD, BLOCK = 2048, 1024  # coordinates multiplied out at every node, and taken together
FINE = 16  # neighbouring nodes whose factors differ by one of so many rotations
UNIT = 2.0**-53
ROUNDING = 1e-9  # relative error allowed in a sum of up to 1e7 terms of one sign


class Interval(NamedTuple):
    """lower <= truth <= upper with probability at least `confidence` (1 where none is involved)."""

    lower: np.ndarray
    estimate: np.ndarray
    upper: np.ndarray
    confidence: float


class Pair(NamedTuple):
    """Two product laws: log p, log q, and the interior upper probabilities a and b (of P')."""

    log_p: float
    log_q: float
    a: np.ndarray
    b: np.ndarray


def pair(y, other, step) -> Pair:
    """Return the reduced pair of laws of the messages of y and of `other`, one coin per entry.

    In the same cell both laws live on n and n + 1, and n alone is shared when a or b is 0. In
    neighbouring cells they share one level; farther apart nothing: p = q = 0.
    """
    y, other, step = np.broadcast_arrays(y, other, step)
    differ = y != other
    first, second = (quantizer.pmf(x[differ], step[differ]) for x in (y, other))
    (n, a), (other_n, b) = _below_one(first), _below_one(second)
    apart = other_n - n
    same = (apart == 0) & (a != b)
    interior = same & (a > 0) & (b > 0)
    shared_p = np.select([same, apart == 1, apart == -1], [1.0 - a, a, 1.0 - a])
    shared_q = np.select([same, apart == 1, apart == -1], [1.0 - b, 1.0 - b, b])
    one_level = (same | (apart != 0)) & ~interior
    with np.errstate(divide="ignore"):
        log_p, log_q = (float(np.log(x[one_level]).sum()) for x in (shared_p, shared_q))
    return Pair(log_p, log_q, a[interior], b[interior])


def _below_one(law: quantizer.Pmf) -> tuple[np.ndarray, np.ndarray]:
    """Return (n, a) with a in [0, 1): a fraction that rounded up to 1 is the next grid point."""
    full = law.upper_probability == 1.0
    return law.lower + full, np.where(full, 0.0, law.upper_probability)


def joined(pairs: list[Pair]) -> Pair:
    """Return the pair of laws of several independent parts seen together."""
    if not pairs:
        return Pair(0.0, 0.0, np.empty(0), np.empty(0))
    log_p, log_q, a, b = zip(*(instance("a pair", one, Pair) for one in pairs), strict=True)
    return Pair(math.fsum(log_p), math.fsum(log_q), np.concatenate(a), np.concatenate(b))


class Bracket:
    """The total variation of a batch of pairs of transcripts, fed piece by piece: certain bounds.

    Keeps 16 bytes for every interior coordinate; `monte_carlo.MonteCarlo` keeps none.
    """

    def __init__(self, batch: int):
        self._parts: list[list[Pair]] = [[] for _ in range(whole("batch", batch))]

    def add(self, y, other, step) -> None:
        """Append coordinates: y and other `[batch, coordinates]`, or one row for all."""
        for parts, laws in zip(self._parts, pairs(len(self._parts), y, other, step), strict=True):
            parts.append(laws)

    def delta(self) -> Interval:
        """Return the total variation `[batch]` of everything added so far."""
        bounds = [delta(joined(parts)) for parts in self._parts]
        lower, upper = np.array(bounds, dtype=np.float64).reshape(-1, 2).T
        return Interval(lower, (lower + upper) / 2.0, upper, 1.0)


def pairs(batch: int, y, other, step) -> list[Pair]:
    """Return the pair of each row of y and other `[batch, coordinates]`; one row serves all."""
    y, other, step = np.broadcast_arrays(y, other, step)
    if y.ndim not in (1, 2) or (y.ndim == 2 and len(y) not in (1, batch)):
        rule = f"it must be [{batch} rows, coordinates]"
        raise ValueError(f"y, other and step have shape {y.shape} together: {rule}")
    rows = (np.broadcast_to(x, (batch, y.shape[-1])) for x in (y, other, step))
    return [pair(*row) for row in zip(*rows, strict=True)]


def delta(laws: Pair, epsilon: float = 0.0, resolution: float = 1 / 64) -> tuple[float, float]:
    """Return (lower, upper) with lower <= delta(epsilon) <= upper: certain, rounding is charged.

    Up to 16 interior coordinates are enumerated, and the two bounds are equal. More go through
    Fourier series, which are apart by about `resolution`**2 times the standard deviation of the
    privacy loss when coordinates are many, `resolution` times it when a few large ones dominate.
    """
    every("epsilon", epsilon, lambda x: x >= 0, "not be negative")
    every("resolution", resolution, lambda x: (x > 0) & (x <= 1), "lie in (0, 1]")
    if -math.inf in (laws.log_p, laws.log_q):
        return 1.0, 1.0
    directions = [laws] if epsilon == 0 else [laws, Pair(laws.log_q, laws.log_p, laws.b, laws.a)]
    bounds = [_one_direction(direction, epsilon, resolution) for direction in directions]
    lower, upper = (max(bound) for bound in zip(*bounds, strict=True))
    if len(laws.a) > ENUMERATED:
        affinity, overlap = log_affinity(laws.a, laws.b), log_overlap(laws.a, laws.b)
        floor, ceiling = certain_bounds(*laws[:2], affinity, overlap)
        lower, upper = max(lower, floor if epsilon == 0 else 0.0), min(upper, ceiling)
    return float(min(lower, upper)), float(upper)


def certain_bounds(
    log_p: float, log_q: float, log_affinity: float, log_overlap: float
) -> tuple[float, float]:
    """Return cheap bounds on the total variation; the upper one holds for every epsilon.

    1 - BC <= TV <= sqrt(1 - BC**2) (Le Cam), and TV <= 1 - min(p, q) prod (1 - |a - b|).
    """
    affinity = (log_p + log_q) / 2.0 + log_affinity
    every("log affinity", affinity, lambda x: x <= 0, "not be positive")
    hellinger = math.sqrt(-math.expm1(2.0 * affinity))
    product = -math.expm1(min(log_p, log_q) + log_overlap)
    upper = min(1.0, min(hellinger, product) * (1.0 + ROUNDING))
    return -math.expm1(affinity) * (1.0 - ROUNDING), upper


def log_overlap(a: np.ndarray, b: np.ndarray) -> float:
    """Return log of the product over interior coordinates of one minus |a - b|."""
    return float(np.log1p(-np.abs(a - b)).sum())


def _one_direction(laws: Pair, epsilon: float, resolution: float) -> tuple[float, float]:
    """Return bounds on (1 - p) + integral (p f - e^epsilon q g)_+ for p, q > 0."""
    cut = epsilon + laws.log_q - laws.log_p  # p f > e^epsilon q g exactly when L > cut
    if len(laws.a) <= ENUMERATED:
        probability, loss = enumerated(laws.a, laws.b)
        inside = float(np.sum(probability * -np.expm1(np.minimum(cut - loss, 0.0))))
        exact = -math.expm1(laws.log_p) + math.exp(laws.log_p) * inside
        return exact, exact
    return _bounds(laws.a, laws.b, laws.log_p, cut, resolution)


def enumerated(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (probability under f, privacy loss) of all 2**n outcomes of n coordinates."""
    probability, loss = np.ones(1), np.zeros(1)
    for chance, up, down in zip(a, *losses(a, b), strict=True):
        probability = np.concatenate([probability * (1.0 - chance), probability * chance])
        loss = np.concatenate([loss + down, loss + up])
    return probability, loss


def _bounds(a: np.ndarray, b: np.ndarray, log_p: float, cut: float, resolution: float) -> tuple:
    """Return bounds on (1 - p) + integral (p f - e^epsilon q g)_+; `cut` is epsilon + log q/p.

    The comments number the steps of docs/proofs/exact.md, section 2.
    """
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
    aliased = 4.0 * r / (1.0 - r) * math.sinh(cut / 4.0) ** 2
    known = _coth_minus_pole(width / 4.0) + aliased + loss  # step 3
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
    bump = height * (affinity / width + float(taper @ (real + wrong)))
    bump += height * beyond / (sigma**2 * s[-1])
    return float(weight @ real), bump, error


def _transform(s: np.ndarray, a: np.ndarray, b: np.ndarray, gap: np.ndarray) -> tuple:
    """Return the product over coordinates of low + high e^(is gap), `[nodes]`, and its error.

    s are whole multiples of the first. low = sqrt((1-a)(1-b)), high = sqrt(a b). The coordinates
    that weigh most come first: most nodes become negligible there, and are dropped. The others come
    in blocks, largest |gap| first: where s |gap| <= 0.15 a node takes their power series.
    """
    high, low = np.sqrt(a * b), np.sqrt((1.0 - a) * (1.0 - b))
    cap = math.sqrt(float(np.sum(high * low * gap**2))) / 8.0
    heavy = np.argsort(-high * low * np.minimum(np.abs(gap), cap) ** 2, kind="stable")
    head, tail = heavy[:HEAD], heavy[HEAD:]
    tail = tail[np.argsort(-np.abs(gap[tail]), kind="stable")]
    starts = np.arange(0, len(tail), BLOCK)
    first = np.searchsorted(-np.abs(gap[tail[starts]]), -SMALL / s)  # block that is a series
    psi, error = _small(s, first, _suffix_sums(a[tail], b[tail], gap[tail], starts))
    alive, multiple = np.flatnonzero(np.abs(psi) >= NEGLIGIBLE), np.rint(s / s[0]).astype(np.int64)
    blocks = [(head[start : start + BLOCK // 16], 0) for start in range(0, len(head), BLOCK // 16)]
    blocks += [(tail[start : start + BLOCK], place + 1) for place, start in enumerate(starts)]
    for block, place in blocks:
        nodes = alive[first[alive] >= place]
        if not len(nodes):
            break
        for some in np.split(nodes, range(BLOCK // 4, len(nodes), BLOCK // 4)):
            psi[some] *= _factors(multiple[some], low[block], high[block], s[0] * gap[block])
        alive = alive[np.abs(psi[alive]) >= NEGLIGIBLE]
    psi[np.abs(psi) < NEGLIGIBLE] = 0.0
    return psi, error


def _factors(k: np.ndarray, low: np.ndarray, high: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """Return the product over coordinates of low + high e^(i k angle): a turn by FINE * (k // FINE)
    and one by what is left."""
    coarse, place = np.unique(k // FINE, return_inverse=True)
    turn, rest = (
        np.exp(1j * np.multiply.outer(angle, n)) for n in (FINE * coarse, np.arange(FINE))
    )
    factors = turn[:, :, None] * (high[:, None] * rest)[:, None]
    factors += low[:, None, None]
    return factors.prod(axis=0)[place, k % FINE]


def _suffix_sums(a: np.ndarray, b: np.ndarray, gap: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return, from each block on, the coefficients of log Psi (power 0, 1, ...) and its rest's."""
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
    terms[0], terms[1] = _log_affinities(a, b), share * gap
    terms[-1] = v * np.abs(gap) ** (ORDER + 1)
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
    """Yield kappa_2, ... of a coin as (polynomial in v, whether to multiply by t = 1 - 2 pi).

    An even one, E(v), is followed by t v E'(v), and an odd one, t O(v), by v ((1 - 4 v) O'(v) - 2
    O(v)). Polynomials in v <= 1/4 lose no digits for coins near 0 or 1.
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
            moments = upper * np.expm1(lam * up) + (1.0 - upper) * np.expm1(lam * down)
            moment = np.log1p(moments).sum()
        reach.append(float(moment + TAIL) / lam)
    return min(reach)


def _coth_minus_pole(x: float) -> float:
    """Return coth(x) - 1/x for x > 0."""
    if x < 0.05:
        return x / 3.0 - x**3 / 45.0 + 2.0 * x**5 / 945.0
    return 1.0 / math.tanh(x) - 1.0 / x


def log_affinity(a: np.ndarray, b: np.ndarray) -> float:
    """Return log BC of the interior coordinates, BC = integral sqrt(f g); no digits are lost."""
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
