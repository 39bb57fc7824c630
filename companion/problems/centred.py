"""One-hot rows centred by public constants, and their clipped logistic regression.

    >>> rows = OneHot(np.array([[0, 1], [1, 2]]), (2, 3))
    >>> np.sum((rows.dense() @ matrix(rows.sizes).T) ** 2, axis=1).round(12).tolist()
    [1.0, 1.0]

From the entry of every value its mean over all values of the attribute is subtracted, 1 / (their
number), and a constant 1 is added as one more feature; then all is divided by the norm, which is
the same for every row. So the schema alone decides, and no row is looked at.
"""

from __future__ import annotations

import numpy as np

from companion.problems import logistic
from companion.problems.onehot import OneHot


def matrix(sizes: tuple[int, ...]) -> np.ndarray:
    """Return M `[dim + 1, dim]`: the centred row is M times the one-hot row, and has norm one."""
    first = np.arange(sum(sizes)) < sizes[0]  # a row has one 1 among these: the constant
    mean = np.repeat(1.0 / np.asarray(sizes), sizes)
    centred = np.vstack([np.eye(len(mean)) - np.outer(mean, first), first])
    return centred / np.sqrt(np.sum(1.0 - 1.0 / np.asarray(sizes)) + 1.0)


class Centred:
    """The oracle of centred rows; arguments as in `logistic.Logistic`, whose rows are one-hot.

    It says what `accountant.promise` counts on: every sample's gradient has norm at most `clip`.
    """

    cone = True  # a sample's gradient is a positive number times a fixed row

    def __init__(self, features: OneHot, labels, history, clip: float, warm_up: int = 0):
        if features.normalise is not None:
            raise ValueError(
                f"normalise = {features.normalise!r} must be None: centred rows have norm 1"
            )
        self.matrix, self.clip = matrix(features.sizes), float(clip)
        self.plain = logistic.Logistic(features, labels, history, warm_up=warm_up, most=clip)
        self.warm_up, self.samples = self.plain.warm_up, self.plain.samples

    def __call__(self, theta: np.ndarray, t: int) -> np.ndarray:
        """Return the mean of the clipped gradients at theta over the history up to time t."""
        return self.plain(theta @ self.matrix, t) @ self.matrix.T


def accuracy(features: OneHot, labels, theta: np.ndarray, rows) -> np.ndarray:
    """Return the share of `rows` that theta `[..., dim + 1]` predicts; see `logistic.accuracy`."""
    return logistic.accuracy(features, labels, theta @ matrix(features.sizes), rows)
