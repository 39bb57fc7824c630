"""The loops of `monte_carlo`, compiled where there is numba; without it they run as they stand.

    >>> loss = np.empty(OUTCOMES)
    >>> joint_loss(np.full(8, 0.5), np.full(8, 0.25), loss)
    >>> loss[[0, 255]].round(3).tolist()  # all coins down, all up: 8 log(0.5 / 0.75), 8 log(2)
    [-3.244, 5.545]

Eight independent two-point coordinates have 256 joint outcomes. Walker's alias method (Vose 1991)
draws one of them from a single 64-bit word: the low 8 bits choose a column, the high 53 bits are
the uniform number compared with the column's threshold. Each part of the groups has a xoshiro256++
stream of its own (Blackman and Vigna 2021). Compiled or not, the result is the same.
"""

from types import SimpleNamespace

import numpy as np

from ldp_core.checks import layout

try:
    import numba
except ImportError:
    stand_in = SimpleNamespace(njit=lambda **_: lambda function: function)
    numba = stand_in  # type: ignore[assignment]

GROUP = 8  # coordinates drawn at once
OUTCOMES = 2**GROUP
TO_UNIT = 2.0**-53

_U = np.uint64


@layout(
    a=f"groups {GROUP}", b=f"groups {GROUP}", streams="parts 4", first=int, totals="parts samples"
)
@numba.njit(cache=True)
def draw(a, b, streams, first, totals):
    """Add to `totals` `[parts, samples]` the losses log(dP/dP') of one draw of all groups a, b.

    Part p takes the groups p, p + parts, ...; a sample's loss is the sum over parts. The `first`
    samples are drawn from P (upper probabilities a), the others from P' (b). `streams` move on.
    """
    for part in range(len(totals)):
        _part(a[part :: len(totals)], b[part :: len(totals)], streams[part], first, totals[part])


@numba.njit(cache=True)
def _part(a, b, stream, first, total):
    threshold, loss = np.empty(OUTCOMES), np.empty(OUTCOMES)
    alias = np.empty(OUTCOMES, dtype=np.uint8)
    for g in range(len(a)):
        joint_loss(a[g], b[g], loss)
        _alias_table(a[g], threshold, alias)
        _sample(threshold, alias, loss, stream, total[:first])
        _alias_table(b[g], threshold, alias)
        _sample(threshold, alias, loss, stream, total[first:])


@numba.njit(cache=True)
def joint_loss(a, b, loss):
    loss[0] = 0.0
    for j in range(GROUP):
        up = _log_ratio(a[j], b[j], a[j] - b[j])
        down = _log_ratio(1.0 - a[j], 1.0 - b[j], b[j] - a[j])
        size = 1 << j  # a power would be computed anew for every k
        for k in range(size):
            loss[k + size] = loss[k] + up
            loss[k] += down


@numba.njit(cache=True)
def _log_ratio(x, y, difference):
    """Return log(x / y), accurate near zero and far from it; difference = x - y."""
    return np.log1p(difference / y) if abs(difference) < y / 2.0 else np.log(x) - np.log(y)


@numba.njit(cache=True)
def _alias_table(upper, threshold, alias):
    """Fill an alias table: column k gives alias[k] when uniform >= threshold[k], else itself."""
    threshold[0] = OUTCOMES
    for j in range(GROUP):
        size, up, down = 1 << j, upper[j], 1.0 - upper[j]
        for k in range(size):
            threshold[k + size] = threshold[k] * up
            threshold[k] *= down
    small, large = np.empty((2, OUTCOMES), dtype=np.uint8)
    smalls = larges = 0
    for k in range(OUTCOMES):  # no branches: which way they go cannot be foreseen
        alias[k] = small[smalls] = large[larges] = k
        smalls += threshold[k] < 1.0
        larges += threshold[k] >= 1.0
    k, rich = small[smalls - 1], large[larges - 1]
    missing, rest = 1.0 - threshold[k], threshold[rich]  # in registers: memory would be waited for
    while smalls and larges:
        alias[k], rest = rich, rest - missing
        threshold[rich] = rest
        if rest < 1.0:
            k, missing, larges = rich, 1.0 - rest, larges - 1
            small[smalls - 1], rich = k, large[larges - 1]
            rest = threshold[rich]
        else:
            k, smalls = small[smalls - 2], smalls - 1
            missing = 1.0 - threshold[k]
    for k in small[:smalls]:  # left over by rounding only: their weight is one
        threshold[k] = 1.0


@numba.njit(cache=True)
def _sample(threshold, alias, loss, stream, total):
    s0, s1, s2, s3 = stream[0], stream[1], stream[2], stream[3]
    for s in range(len(total)):
        word = s0 + s3  # xoshiro256++
        word = ((word << _U(23)) | (word >> _U(41))) + s0
        shifted = s1 << _U(17)
        s2 ^= s0
        s3 ^= s1
        s1 ^= s2
        s0 ^= s3
        s2 ^= shifted
        s3 = (s3 << _U(45)) | (s3 >> _U(19))
        column = np.uint8(word)
        uniform = np.float64(word >> _U(11)) * TO_UNIT
        other = np.int64(alias[column])
        total[s] += loss[other + np.int64(uniform < threshold[column]) * (np.int64(column) - other)]
    stream[0], stream[1], stream[2], stream[3] = s0, s1, s2, s3
