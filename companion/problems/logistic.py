"""Online logistic regression on one-hot rows: gradients over all that an agent has seen.

This is step a of Algorithm 1. The loss of section 4.1, with labels b = +-1, and an optional L2 term
(without it the one-hot Mushrooms, which are linearly separable, have no minimiser, and Assumption 1
fails):

    f_t^i(theta) = 1/n sum_{k < n} 1/N sum_{s <= N} log(1 + exp(-b a.theta)) + l2/2 ||theta||^2

with n = warm_up + t + 1.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from companion.problems import logistic_kernels as kernels
from companion.problems.onehot import OneHot


class Logistic:
    """The gradient oracle of a batch of runs: theta [runs, agents, dim] and t -> gradients.

    `history [runs, agents, data points, samples]` holds row numbers of `features`; data point k of
    an agent is what it acquires at time k - warm_up, and at time t it uses the first warm_up + t +
    1. The result for a run depends on that run alone, to the last bit: agents are computed one by
    one.

    A row is looked at once, however often it came: its arrivals are counted.

    `most` clips: a sample's gradient is its row times at most so much, so no longer than `most`
    times the row's norm.
    """

    def __init__(
        self, features: OneHot, labels, history, l2=0.0, warm_up: int = 0, most: float = np.inf
    ):
        labels, history = np.asarray(labels), np.asarray(history)
        if labels.shape != (features.rows,) or not np.isin(labels, (-1, 1)).all():
            raise ValueError(f"labels must hold -1 or 1 for each of the {features.rows} rows")
        if history.ndim != 4 or 0 in history.shape[2:]:
            rule = "it must be [runs, agents, data points, samples], none empty"
            raise ValueError(f"history has shape {history.shape}: {rule}")
        _require_rows("history", history, features.rows)
        if not (np.isfinite(l2) and l2 >= 0):
            raise ValueError(f"l2 = {l2} must be finite and not negative")
        if not 0 <= warm_up < history.shape[2]:
            rule = f"must lie in [0, {history.shape[2]}), the number of data points in the history"
            raise ValueError(f"warm_up = {warm_up} {rule}")
        if not most > 0:
            raise ValueError(f"most = {most} must be positive")
        self.features, self.l2, self.warm_up = features, float(l2), int(warm_up)
        self.labels, self.samples = labels.astype(np.int8), history.shape[3]
        self.most = float(most)
        self._rows = np.ascontiguousarray(history, dtype=np.int32).reshape(*history.shape[:2], -1)
        self._seen = 0

    @property
    def iterations(self) -> int:
        """Return for how many iterations there are data."""
        return self._rows.shape[2] // self.samples - self.warm_up

    @cached_property
    def _arrived(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return table entries and labels of the distinct rows, and the place of each sample."""
        distinct, places = np.empty_like(self._rows), np.empty_like(self._rows)
        kernels.arrivals(self._rows, distinct, places, self.features.rows)
        distinct = distinct[:, :, : places.max() + 1]
        return self.features.joint.entries[distinct], self.labels[distinct], places

    @cached_property
    def _counted(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the labels times how often each distinct row came so far, and how many came."""
        labels = self._arrived[1]
        return np.zeros(labels.shape), np.zeros(labels.shape[:2], np.int64)

    def __call__(self, theta: np.ndarray, t: int) -> np.ndarray:
        """Return the gradients at theta over the history up to time t, plus l2 theta."""
        shape = (*self._rows.shape[:2], self.features.dim)
        if theta.shape != shape:
            raise ValueError(f"theta has shape {theta.shape}, it must be {shape}")
        if not 0 <= t < self.iterations:
            rule = f"must lie in [0, {self.iterations}): there are no data beyond"
            raise ValueError(f"t = {t} {rule}")
        seen = (self.warm_up + t + 1) * self.samples
        gradients = np.empty(theta.shape)
        joint = self.features.joint
        table = (joint.first, joint.second, self.features.scale, self.most)
        theta = np.ascontiguousarray(theta, dtype=np.float64)
        if seen < self._seen:
            self._seen = 0
            for counted in self._counted:
                counted[:] = 0
        known = *self._arrived, self._seen, seen, *self._counted
        kernels.gradients_of_history(theta, *known, *table, gradients)
        self._seen = seen
        return gradients + self.l2 * theta if self.l2 else gradients


def _of_each(theta: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return row numbers `[..., n]` for every theta `[..., dim]`."""
    try:
        return np.broadcast_to(rows, (*theta.shape[:-1], rows.shape[-1]))
    except ValueError:
        rule = f"it must be [n] or [..., n] for theta of shape {theta.shape}"
        raise ValueError(f"rows has shape {rows.shape}: {rule}") from None


def _require_rows(name: str, rows: np.ndarray, count: int) -> None:
    """Refuse what is no row number: the compiled loops look nothing up twice."""
    whole = rows.ndim and np.issubdtype(rows.dtype, np.integer)
    if not whole or rows.min(initial=0) < 0 or rows.max(initial=0) >= count:
        raise ValueError(f"{name} must hold row numbers in [0, {count})")


def loss(features: OneHot, labels, theta: np.ndarray, rows, l2: float = 0.0) -> np.ndarray:
    """Return the mean loss `[...]` of theta `[..., dim]` over `rows`, l2/2 ||theta||^2 included."""
    margins = logits(features, theta, rows) * np.asarray(labels)[rows]
    return np.logaddexp(0.0, -margins).mean(axis=-1) + 0.5 * l2 * np.sum(theta * theta, axis=-1)


def accuracy(features: OneHot, labels, theta: np.ndarray, rows) -> np.ndarray:
    """Return the share `[...]` of `rows` whose label is sign(a.theta); a zero counts one half."""
    margins = logits(features, theta, rows) * np.asarray(labels)[rows]
    return 0.5 * (np.sign(margins) + 1.0).mean(axis=-1)


def logits(features: OneHot, theta: np.ndarray, rows) -> np.ndarray:
    """Return a.theta `[..., n]` for theta `[..., dim]` and row numbers `[n]` or `[..., n]`."""
    theta, rows = np.ascontiguousarray(theta, dtype=np.float64), np.asarray(rows)
    if theta.shape[-1] != features.dim:
        rule = f"its last axis must be {features.dim}, one per column"
        raise ValueError(f"theta has shape {theta.shape}: {rule}")
    _require_rows("rows", rows, features.rows)
    rows = np.ascontiguousarray(_of_each(theta, rows), dtype=np.int32)  # one kind, compiled once
    joint, total = features.joint, np.empty(rows.shape)
    table = joint.entries, joint.first, joint.second, features.scale
    theta, rows, flat = (each.reshape(-1, each.shape[-1]) for each in (theta, rows, total))
    kernels.logits_of_rows(theta, rows, *table, flat)
    return total
