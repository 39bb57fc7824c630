"""A whole batch, exactly, from the gradient of a linear layer (after SPEAR, Dimitrov et al. 2024).

Inputs x_k enter z = W x + b, then ReLU. For a batch of B inputs the layer's gradient is

    dL/dW = sum_k a_k x_k^T,    dL/db = sum_k a_k,    a_k = dL/dz_k, zero where the ReLU is shut.

So dL/dW has rank B: with U its left singular vectors, a_k = U m_k for some m_k in R^B. The a_k are
the *sparse* vectors of that space: where B - 1 units are shut for input k, the kernel of these rows
of U is m_k, and U m_k is zero at many units more. Three ways to them:

    kernels   of B - 1 rows drawn at random, as in SPEAR (arXiv:2403.03945): about 2^B draws
    searched  a direction m that makes few u_j . m differ from zero, by weighing row j with
              1 / ((u_j . m)^2 + e^2) and letting e fall
    shared    where all inputs are alike, most units are open for all of them and say nothing. But
              they show themselves: a_kj = w_j . (dL/doutputs)_k with w_j the known weights behind
              unit j, so their rows of U are one linear function of w_j. They are left out.

With all B directions their lengths follow from dL/db, and the inputs from dL/dW: nothing is
guessed, nothing approximate.
"""

from __future__ import annotations

import numpy as np

ZERO = 1e-6  # of the largest entry: what counts as zero among numbers of float64
MORE = 3  # zeros beyond B - 1 that a direction must have: B - 1 of them any kernel has
STARTS, PATIENCE = 100, 3  # searches made together; times that nothing sparser must be found
LARGEST, SMALLEST, STEPS = 0.3, 1e-8, 40  # e of the weights, and how often it falls
DRAWN, LARGE, CHUNKS = 2000, 10, 5  # kernels computed together; so many times where B > LARGE
AGREEING = 3000  # draws of units that might be open for all inputs


def read(
    weight: np.ndarray,
    bias: np.ndarray,
    size: int,
    random: np.random.Generator,
    starts: int = 10_000,
    behind: np.ndarray | None = None,
) -> np.ndarray:
    """Return the inputs `[B, inputs]` behind gradients of a layer's weight and bias, in some order.

    `size` is B; at most `starts` searches are made. Sums of two a_k are zero at many units as well,
    but at fewer: the B sparsest independent directions are taken, when no sparser ones are found
    any more. Without B of them nothing is returned; where none shows itself the search ends early.
    `behind [units, outputs]` are the weights behind the layer, when they are known.
    """
    U, singular, V = np.linalg.svd(weight, full_matrices=False)
    U, scaled = U[:, :size], singular[:size, None] * V[:size]
    lengths = np.linalg.norm(U, axis=1)
    telling = lengths > ZERO * lengths.max()  # units that are shut for all inputs tell nothing
    if behind is not None and size > 1:
        telling[telling] = ~shared(U[telling], behind[telling], random)
    alive = U[telling]
    found, same = np.zeros((0, size)), 0
    for _ in range(0, starts, STARTS):
        better = _sparsest(np.concatenate([found, _candidates(alive, random)]), alive)
        same = same + 1 if _zeros(better, alive).sum() == _zeros(found, alive).sum() else 0
        found = better
        if same == (PATIENCE if len(found) in (0, size) else 3 * PATIENCE):
            break
    lengths = np.linalg.lstsq(U @ found.T, bias, rcond=None)[0] if len(found) else np.zeros(1)
    if len(found) < size or np.abs(lengths).min() <= ZERO * np.abs(lengths).max():
        return np.zeros((0, weight.shape[1]))
    return np.linalg.solve(found.T * lengths, scaled)


def shared(U: np.ndarray, behind: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return which units are open for all inputs: the most whose rows are one linear function."""
    weights = behind[:, 1:] - behind[:, :1]  # the derivatives by the outputs add up to zero
    units, unknown = weights.shape
    best, size = np.zeros(units, dtype=bool), np.abs(U).max(axis=1)
    for _ in range(0, AGREEING, STARTS):
        rows = _drawn(units, unknown, STARTS, random)
        try:
            found = np.linalg.solve(weights[rows], U[rows])
        except np.linalg.LinAlgError:
            continue
        agree = np.abs(U - weights @ found).max(axis=2) < ZERO * size
        most = agree[agree.sum(axis=1).argmax()]
        best = most if most.sum() > best.sum() else best
    return best & (best.sum() >= unknown + MORE)


def _drawn(units: int, size: int, draws: int, random: np.random.Generator) -> np.ndarray:
    """Return `draws` sets of `size` different units."""
    keys = random.random((draws, units), dtype=np.float32)
    return keys.argpartition(size, axis=1)[:, :size]


def _candidates(U: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return directions m for which U m is zero at more units than B - 1."""
    units, size = U.shape
    if size == 1:
        return np.ones((1, 1))
    if units < size + MORE:
        return np.zeros((0, size))
    chunks = CHUNKS if size > LARGE else 1
    found = [_searched(U, random), *(_kernels(U, random) for _ in range(chunks))]
    return np.concatenate([part[_zeros(part, U) >= size - 1 + MORE] for part in found])


def _searched(U: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return where the search ends from random starts."""
    rows = U / np.linalg.norm(U, axis=1, keepdims=True)
    directions = random.normal(size=(STARTS, U.shape[1]))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    first = np.geomspace(LARGEST, LARGEST / 30, STARTS)[:, None]
    for done in np.linspace(0.0, 1.0, STEPS):
        small = first ** (1.0 - done) * SMALLEST**done
        weights = 1.0 / (np.square(directions @ rows.T) + small**2)
        weights /= weights.max(axis=1, keepdims=True)
        forms = (weights[:, :, None] * rows).swapaxes(1, 2) @ rows
        directions = np.linalg.eigh(forms)[1][:, :, 0]
    return directions


def _kernels(U: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return the kernels of B - 1 rows drawn at random; the last entry of each is 1."""
    units, size = U.shape
    rows = U[_drawn(units, size - 1, DRAWN, random)]
    try:
        found = np.linalg.solve(rows[:, :, :-1], -rows[:, :, -1:])[:, :, 0]
    except np.linalg.LinAlgError:  # two rows alike: elimination, twenty times faster, cannot do it
        return np.linalg.svd(rows)[2][:, -1]
    return np.concatenate([found, np.ones((len(found), 1))], axis=1)


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
