"""The inner loops of `logistic`: table look-ups, a vectorised sigmoid, scatter-adds.

One (run, agent) pair at a time, each with the same sequence of operations whatever its neighbours;
a multiplication and an addition may be contracted into one instruction, but nothing is
reassociated. So results do not depend on the batch. A division by zero would be infinite, as in
numpy: a loop that could raise is not vectorised.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from companion.problems.onehot import GROUPS
from ldp_core.checks import layout

COMPILED: dict = {"cache": True, "fastmath": {"contract"}, "error_model": "numpy"}
LOG2_E = 1.0 / math.log(2.0)
LN2_HIGH = float.fromhex("0x1.62E42FEEp-1")  # ln 2 in two parts (Cody and Waite 1980): exact
LN2_LOW = 1.90821492927058770002e-10
TO_INTEGER = 1.5 * 2.0**52  # adding it leaves the nearest whole number in the low bits
LARGEST = 700.0  # exp stays finite; a sigmoid beyond is 0 or 1 to 300 digits
TAYLOR = tuple(1.0 / math.factorial(k) for k in range(13, -1, -1))  # to 4e-18, |r| <= ln(2) / 2
BLOCK = 64  # rows looked at together


@layout(rows="runs agents samples", distinct="runs agents samples", places="runs agents samples",
        table=int)  # fmt: skip
@numba.njit(**COMPILED)
def arrivals(rows, distinct, places, table):
    """Write which rows of a table of so many arrive, in order, and the place of each sample there.

    Behind the distinct rows the first one is repeated.
    """
    runs, agents, samples = rows.shape
    for pair in range(runs * agents):
        run, agent = pair // agents, pair % agents
        place, found = np.full(table, -1, np.int32), 0
        distinct[run, agent] = rows[run, agent, 0]
        for s in range(samples):
            row = rows[run, agent, s]
            if place[row] < 0:
                place[row] = found
                distinct[run, agent, found] = row
                found += 1
            places[run, agent, s] = place[row]


@layout(
    theta="runs agents dim", entries=f"runs agents distinct {GROUPS}",
    labels="runs agents distinct", places="runs agents samples", before=float, seen=float,
    weights="runs agents distinct", found="runs agents", first="merged", second="merged",
    scale=float, most=float, gradients="runs agents dim",
)  # fmt: skip
@numba.njit(**COMPILED)
def gradients_of_history(
    theta, entries, labels, places, before, seen, weights, found, first, second, scale, most,
    gradients,
):  # fmt: skip
    """Write into `gradients` the mean loss gradient over the first `seen` samples.

    `most` bounds what multiplies a sample's row, 1 - p of its label: infinity does not clip.

    entries [runs, agents, distinct, GROUPS] and labels are those of the distinct rows in order of
    arrival, places [runs, agents, samples] say which of them each sample is. `weights`, the labels
    times how often each came, and `found`, how many came, are of the first `before` samples, and
    are moved on.
    """
    runs, agents, dim = theta.shape
    for pair in range(runs * agents):
        run, agent = pair // agents, pair % agents
        own, label, weight = entries[run, agent], labels[run, agent], weights[run, agent]
        for place in places[run, agent, int(before) : int(seen)]:
            weight[place] += label[place]
            found[run, agent] = max(found[run, agent], place + 1)
        table = _tabulate(theta[run, agent], first, second, scale)
        sums, (residual, power) = np.zeros(len(table)), np.zeros((2, BLOCK))
        for start in range(0, found[run, agent], BLOCK):
            block = slice(start, min(start + BLOCK, found[run, agent]))
            _logits(table, own[block], label[block], residual)
            _negative_sigmoid(residual, power, most)
            _scatter(sums, own[block], weight[block], residual)
        _hand_down(sums[dim + 1 :], sums, first, second)
        for column in range(dim):
            gradients[run, agent, column] = -scale / seen * sums[column]


@layout(
    theta="pairs dim", rows="pairs n", entries=f"rows {GROUPS}",
    first="merged", second="merged", scale=float, logits="pairs n",
)  # fmt: skip
@numba.njit(**COMPILED)
def logits_of_rows(theta, rows, entries, first, second, scale, logits):
    """Write into `logits [pairs, n]` the logit of every row of rows [pairs, n] under theta [pairs,
    dim]."""
    for pair in range(len(theta)):
        table = _tabulate(theta[pair], first, second, scale)
        for s in range(rows.shape[1]):
            logits[pair, s] = _logit(table, entries, rows[pair, s])


@numba.njit(inline="always")
def _tabulate(theta, first, second, scale):
    """Return the table of partial logits (`onehot.Joint`), scale times the sums of theta."""
    dim = len(theta)
    table = np.zeros(dim + 1 + len(first))
    merged = table[dim + 1 :]
    for column in range(dim):
        table[column] = scale * theta[column]
    for i in range(len(first)):
        merged[i] = table[first[i]] + table[second[i]]
    return table


@numba.njit(inline="always")
def _logit(table, entries, row):
    total = 0.0
    for group in range(GROUPS):
        total += table[entries[row, group]]
    return total


@numba.njit(inline="always")
def _logits(table, entries, labels, logits):
    for s in range(len(entries)):
        logits[s] = labels[s] * _logit(table, entries, s)


@numba.njit(inline="always")
def _scatter(sums, entries, weights, residual):
    for s in range(len(entries)):
        weight = weights[s] * residual[s]
        for group in range(GROUPS):
            sums[entries[s, group]] += weight


@numba.njit(inline="always")
def _hand_down(merged, sums, first, second):
    """Add the sums of merged entries to what they were merged from: `_tabulate` transposed."""
    for i in range(len(first) - 1, -1, -1):
        sums[first[i]] += merged[i]
        sums[second[i]] += merged[i]


@numba.njit(inline="always")
def _negative_sigmoid(x, power, most):
    """Replace x `[BLOCK]` by 1 / (1 + exp(x)), at most `most`, in loops without branches: vector
    instructions.

    x = k ln 2 + r with a whole k and |r| <= ln(2) / 2; exp(r) by its Taylor polynomial; 2**k by
    writing k + 1023 into the exponent bits of a float. The error is a few units in the last place.
    No number depends on its neighbours: columns that a replaced row does not touch keep their bits.
    `power` `[BLOCK]` is room to work in.
    """
    bits = power.view(np.int64)
    for s in range(BLOCK):
        x[s] = min(max(x[s], -LARGEST), LARGEST)
        power[s] = x[s] * LOG2_E + TO_INTEGER
    for s in range(BLOCK):
        k = power[s] - TO_INTEGER
        r = (x[s] - k * LN2_HIGH) - k * LN2_LOW
        polynomial = TAYLOR[0]
        for coefficient in TAYLOR[1:]:
            polynomial = polynomial * r + coefficient
        x[s] = polynomial
    for s in range(BLOCK):
        bits[s] = (bits[s] + 1023) << 52
    for s in range(BLOCK):
        x[s] = min(1.0 / (1.0 + x[s] * power[s]), most)
