"""The inner loops of `logistic`: table look-ups, a vectorised sigmoid, scatter-adds.

One (run, agent) pair at a time. Each pair is computed by one thread with the same sequence of
operations whatever its neighbours; a multiplication and an addition may be contracted into one
instruction, but nothing is reassociated. So results depend on neither batch nor threads.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from companion.problems.onehot import GROUPS
from ldp_core.checks import layout

CONTRACT = {"contract"}
LOG2_E = 1.0 / math.log(2.0)
LN2_HIGH = float.fromhex("0x1.62E42FEEp-1")  # ln 2 in two parts (Cody and Waite 1980): exact
LN2_LOW = 1.90821492927058770002e-10
TO_INTEGER = 1.5 * 2.0**52  # adding it leaves the nearest whole number in the low bits
LARGEST = 700.0  # exp stays finite; a sigmoid beyond is 0 or 1 to 300 digits
TAYLOR = tuple(1.0 / math.factorial(k) for k in range(13, -1, -1))  # to 4e-18, |r| <= ln(2) / 2


@layout(
    theta="runs agents dim", entries=f"runs agents >=seen {GROUPS}", labels="runs agents >=seen",
    seen=int, starts=">=2", members="members", scale=float, most=float,
    gradients="runs agents dim",
)  # fmt: skip
@numba.njit(parallel=True, cache=True, fastmath=CONTRACT)
def gradients_of_history(theta, entries, labels, seen, starts, members, scale, most, gradients):
    """Write into `gradients` the mean loss gradient over the first `seen` samples.

    `most` bounds what multiplies a sample's row, 1 - p of its label: infinity does not clip.

    entries [runs, agents, samples, GROUPS] and labels [runs, agents, samples] are those of the
    samples, in order of arrival.
    """
    runs, agents, _ = theta.shape
    for pair in numba.prange(runs * agents):
        run, agent = pair // agents, pair % agents
        table = _tabulate(theta[run, agent], starts, members, scale)
        own, label = entries[run, agent], labels[run, agent]
        residual = np.empty(seen)
        for s in range(seen):
            residual[s] = label[s] * _logit(table, own, s)
        _negative_sigmoid(residual, most)
        sums = np.zeros(len(table))
        for s in range(seen):
            _scatter(sums, own, s, label[s] * residual[s])
        _project(sums, starts, members, -scale / seen, gradients[run, agent])


@layout(
    theta="runs agents dim", counts="runs agents rows", seen=int, entries=f"rows {GROUPS}",
    labels="rows", starts=">=2", members="members", scale=float, most=float,
    gradients="runs agents dim",
)  # fmt: skip
@numba.njit(parallel=True, cache=True, fastmath=CONTRACT)
def gradients_of_counts(
    theta, counts, seen, entries, labels, starts, members, scale, most, gradients
):
    """Write the same from counts [runs, agents, rows]; entries and labels are the rows'."""
    runs, agents, _ = theta.shape
    for pair in numba.prange(runs * agents):
        run, agent = pair // agents, pair % agents
        table = _tabulate(theta[run, agent], starts, members, scale)
        count = counts[run, agent]
        residual = np.empty(len(count))
        for row in range(len(count)):
            residual[row] = labels[row] * _logit(table, entries, row)
        _negative_sigmoid(residual, most)
        sums = np.zeros(len(table))
        for row in range(len(count)):
            _scatter(sums, entries, row, count[row] * labels[row] * residual[row])
        _project(sums, starts, members, -scale / seen, gradients[run, agent])


@layout(
    theta="pairs dim", rows="pairs n", entries=f"rows {GROUPS}",
    starts=">=2", members="members", scale=float, logits="pairs n",
)  # fmt: skip
@numba.njit(parallel=True, cache=True, fastmath=CONTRACT)
def logits_of_rows(theta, rows, entries, starts, members, scale, logits):
    """Write into `logits [pairs, n]` the logit of every row of rows [pairs, n] under theta [pairs,
    dim]."""
    for pair in numba.prange(len(theta)):
        table = _tabulate(theta[pair], starts, members, scale)
        for s in range(rows.shape[1]):
            logits[pair, s] = _logit(table, entries, rows[pair, s])


@numba.njit(inline="always")
def _tabulate(theta, starts, members, scale):
    """Return the table of partial logits: entry e is scale times the sum of theta over the columns
    of e."""
    table = np.empty(len(starts) - 1)
    for entry in range(len(table)):
        total = 0.0
        for place in range(starts[entry], starts[entry + 1]):
            total += theta[members[place]]
        table[entry] = scale * total
    return table


@numba.njit(inline="always")
def _logit(table, entries, row):
    total = 0.0
    for group in range(GROUPS):
        total += table[entries[row, group]]
    return total


@numba.njit(inline="always")
def _scatter(sums, entries, row, weight):
    for group in range(GROUPS):
        sums[entries[row, group]] += weight


@numba.njit(inline="always")
def _project(sums, starts, members, factor, gradient):
    """Write factor times the transpose of `_tabulate`'s sums into gradient."""
    gradient[:] = 0.0
    for entry in range(len(sums)):
        for place in range(starts[entry], starts[entry + 1]):
            gradient[members[place]] += factor * sums[entry]


@numba.njit(inline="always")
def _negative_sigmoid(x, most):
    """Replace x by 1 / (1 + exp(x)), at most `most`, in loops without branches: vector
    instructions.

    x = k ln 2 + r with a whole k and |r| <= ln(2) / 2; exp(r) by its Taylor polynomial; 2**k by
    writing k + 1023 into the exponent bits of a float. The error is a few units in the last place.
    """
    power = np.empty(len(x))
    bits = power.view(np.int64)
    for s in range(len(x)):
        x[s] = min(max(x[s], -LARGEST), LARGEST)
        power[s] = x[s] * LOG2_E + TO_INTEGER
    for s in range(len(x)):
        k = power[s] - TO_INTEGER
        r = (x[s] - k * LN2_HIGH) - k * LN2_LOW
        polynomial = TAYLOR[0]
        for coefficient in TAYLOR[1:]:
            polynomial = polynomial * r + coefficient
        x[s] = polynomial
    for s in range(len(x)):
        bits[s] = (bits[s] + 1023) << 52
    for s in range(len(x)):
        x[s] = min(1.0 / (1.0 + x[s] * power[s]), most)
