"""A whole batch, exactly, from the gradient of a linear layer (after SPEAR, Dimitrov et al. 2024).

Inputs x_k enter z = W x + b, then ReLU. For a batch of B inputs the layer's gradient is

    dL/dW = sum_k a_k x_k^T,    dL/db = sum_k a_k,    a_k = dL/dz_k, zero where the ReLU is shut.

So dL/dW has rank B: with U its left singular vectors, a_k = U m_k for some m_k in R^B. The a_k are
the *sparse* vectors of that space: where B - 1 units are shut for input k, the kernel of these rows
of U is m_k, and U m_k is zero at many units more. SPEAR (arXiv:2403.03945) draws B - 1 rows at
random, and needs about 2^B draws. Here a direction m that makes few u_j . m differ from zero is
searched for, by weighing row j with 1 / ((u_j . m)^2 + e^2) and letting e fall: one start in two to
one in twenty ends in an m_k, for batches up to 20. With all B directions their lengths follow from
dL/db, and the inputs from dL/dW: nothing is guessed, nothing approximate.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

ZERO = 1e-6  # of the largest entry: what counts as zero among numbers of float64
MORE = 3  # zeros beyond B - 1 that a direction must have: B - 1 of them any kernel has
STARTS, PATIENCE = 100, 8  # searches made together; times that nothing sparser must be found
FALLING = np.geomspace(0.3, 1e-8, 40)  # e of the weights


class Batch(NamedTuple):
    """What was found: inputs `[B, inputs]` in some order, and whether all B directions were."""

    inputs: np.ndarray
    whole: bool


def read(
    weight: np.ndarray,
    bias: np.ndarray,
    size: int,
    random: np.random.Generator,
    starts: int = 10_000,
) -> Batch:
    """Return the inputs behind the gradients of a layer's weight `[units, inputs]` and bias.

    `size` is B; at most `starts` searches are made. Sums of two a_k are zero at many units as well,
    but at fewer: the B sparsest independent directions are taken, when no sparser ones are found
    any more. Without B of them nothing is returned; where none shows itself the search ends early.
    """
    U, singular, V = np.linalg.svd(weight, full_matrices=False)
    U, scaled = U[:, :size], singular[:size, None] * V[:size]
    lengths = np.linalg.norm(U, axis=1)
    alive = U[lengths > ZERO * lengths.max()]  # units that are shut for all inputs tell nothing
    found, same = np.zeros((0, size)), 0
    for _ in range(0, starts, STARTS):
        better = _sparsest(np.concatenate([found, _candidates(alive, random)]), alive)
        same = same + 1 if _zeros(better, alive).sum() == _zeros(found, alive).sum() else 0
        found = better
        if len(found) in (0, size) and same == PATIENCE:
            break
    lengths = np.linalg.lstsq(U @ found.T, bias, rcond=None)[0] if len(found) else np.zeros(1)
    if len(found) < size or np.abs(lengths).min() <= ZERO * np.abs(lengths).max():
        return Batch(np.zeros((0, weight.shape[1])), False)
    return Batch(np.linalg.solve(found.T * lengths, scaled), True)


def _candidates(U: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return directions m, from random starts, for which U m is zero at more units than B - 1."""
    size, rows = U.shape[1], U / np.linalg.norm(U, axis=1, keepdims=True)
    directions = random.normal(size=(STARTS, size))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    for small in FALLING:
        weights = 1.0 / (np.square(directions @ rows.T) + small**2)
        weights /= weights.max(axis=1, keepdims=True)
        forms = (weights[:, :, None] * rows).swapaxes(1, 2) @ rows
        directions = np.linalg.eigh(forms)[1][:, :, 0]
    wanted = size - 1 + MORE * (size > 1)
    return directions[_zeros(directions, U) >= wanted]


def _zeros(directions: np.ndarray, U: np.ndarray) -> np.ndarray:
    """Return at how many units each direction is zero."""
    values = np.abs(directions @ U.T)
    return (values < ZERO * values.max(axis=1, keepdims=True, initial=0.0)).sum(axis=1)


def _sparsest(directions: np.ndarray, U: np.ndarray) -> np.ndarray:
    """Return the sparsest independent directions, at most as many as there are dimensions."""
    basis, kept = np.zeros((0, directions.shape[1])), []
    for place in np.argsort(-_zeros(directions, U), kind="stable"):
        direction = directions[place]
        left = direction - basis.T @ (basis @ direction)
        if np.linalg.norm(left) > 1e-4 * np.linalg.norm(direction):
            basis = np.vstack([basis, left / np.linalg.norm(left)])
            kept.append(direction)
        if len(kept) == directions.shape[1]:
            break
    return np.array(kept).reshape(-1, directions.shape[1])


def matched(inputs: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Return for every true input the mean square error of the nearest that was found."""
    if not len(inputs):
        return np.full(len(truth), np.inf)
    return np.square(truth[:, None] - inputs[None]).mean(axis=2).min(axis=1)
