"""The worst modification: which replacement of one data point an agent's messages give away most.

    >>> adjacent(np.array([[5], [6], [7]]), k=[1], point=[[9]])[0, 0, :, 0].tolist()
    [5, 9, 7]

Data are row numbers: `history` `[data points, samples]` says which rows of a data set an agent
acquired, and an adjacent history (Definition 2) has another data point at one index k.

The paper modifies a data point at random; the promise is about the worst one. `search` looks for it
by the paper's own measure, the sum of delta_t, which needs no sampling. It does not try all
combinations of rows: what it finds is a lower bound on the worst case.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

FINALISTS = 4  # modifications that are followed to the end of the run


def adjacent(history: np.ndarray, k, point) -> np.ndarray:
    """Return histories `[batch, 1, data points, samples]` in which data point k became `point`.

    k is `[batch]`, point `[batch, samples]`.
    """
    history, k, point = np.asarray(history), np.atleast_1d(k), np.asarray(point)
    if history.ndim != 2 or point.shape != (len(k), history.shape[1]):
        rule = f"it must be [{len(k)} modifications, {history.shape[-1]} samples]"
        raise ValueError(f"point has shape {point.shape}: {rule}")
    wrong = (k < 0) | (k >= len(history))
    if wrong.any():
        rule = f"[0, {len(history)}), the data points of the history (Definition 2)"
        raise ValueError(f"k = {k[wrong][0]} must lie in {rule}")
    modified = np.repeat(history[None, None], len(k), axis=0)
    modified[np.arange(len(k)), 0, k] = point
    return modified


def search(
    score: Callable[[np.ndarray, int | None], np.ndarray],
    point: np.ndarray,
    rows: np.ndarray,
    window: int | None,
) -> np.ndarray:
    """Return the data point `[samples]` of the largest score found in place of `point`.

    `score(points [n, samples], until)` is the paper's sum over the first `until` iterations, or all
    (None). Every one of `rows` is tried in every sample, one sample after the other, until none
    improves the best (coordinate ascent). So far `window` decides; the FINALISTS best are then
    compared over the whole run.
    """
    rows, best, highest, improving = np.unique(rows), point, -np.inf, True
    found, scores = [], []
    while improving:
        base, improving = best, False
        for sample in range(len(point)):
            candidates = np.repeat(base[None], len(rows), axis=0)
            candidates[:, sample] = rows
            found.append(candidates)
            scores.append(score(candidates, window))
            if scores[-1].max() > highest:
                best, highest = candidates[np.argmax(scores[-1])], scores[-1].max()
                improving = len(point) > 1
    every, first = np.unique(np.concatenate(found), axis=0, return_index=True)
    last = every[np.argsort(-np.concatenate(scores)[first], kind="stable")[:FINALISTS]]
    return last[np.argmax(score(last, None))]
