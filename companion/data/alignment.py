"""Euclidean alignment (He and Wu 2020, doi:10.1109/TBME.2019.2913914): make the mean covariance of
every subject the identity.

With the reference R = mean of X_k X_k^T / samples over a subject's trials, each trial becomes
R^(-1/2) X_k; then the mean of X_k X_k^T / samples is the identity, for every subject alike. He and
Wu do not divide by the number of samples; that changes all trials by one common factor, and leaves
ours with unit variance. No label is used: no function here takes one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from companion.data.epochs import Epochs

CONDITION = 1e10  # above this ratio of eigenvalues the inverse square root is noise


@dataclass(frozen=True, eq=False)
class Reference:
    """What is known of a subject so far: how many trials were seen, and their mean covariance
    `[channels, channels]`."""

    trials: int
    covariance: np.ndarray

    def update(self, X: np.ndarray) -> Reference:
        """Return the reference after more trials `[trials, channels, samples]`.

        The order of arrival does not matter.
        """
        total = self.trials + len(X)
        return Reference(
            total, self.covariance + (covariances(X) - self.covariance).sum(axis=0) / total
        )

    def align(self, X: np.ndarray) -> np.ndarray:
        """Return the trials R^(-1/2) X, in the type of X."""
        return (inverse_square_root(self.covariance) @ X).astype(X.dtype)


def nothing_seen(channels: int) -> Reference:
    """Return the reference before the first trial."""
    return Reference(0, np.zeros((channels, channels)))


def fit(X: np.ndarray) -> Reference:
    """Return the reference of all trials `[trials, channels, samples]` of one subject."""
    return nothing_seen(X.shape[1]).update(X)


def align(X: np.ndarray) -> np.ndarray:
    """Return all trials of one subject aligned by their own reference (offline)."""
    return fit(X).align(X)


def align_incrementally(
    X: np.ndarray, reference: Reference | None = None
) -> tuple[np.ndarray, Reference]:
    """Return the trials as they could have been aligned when they arrived, and the reference at the
    end.

    Trial k is aligned with what is known after it has come: earlier trials (and `reference`, if
    given) and itself, nothing later. The reference at the end is that of `fit`, whatever the trials
    were cut into.
    """
    reference = reference or nothing_seen(X.shape[1])
    seen = reference.trials + np.arange(1, len(X) + 1)
    sums = reference.trials * reference.covariance + np.cumsum(covariances(X), axis=0)
    aligned = inverse_square_root(sums / seen[:, None, None]) @ X
    return aligned.astype(X.dtype), reference.update(X)


def align_subjects(subjects: Iterable[Epochs], by_session: bool = False) -> list[Epochs]:
    """Return every subject aligned by itself, or every session of every subject.

    By session, nothing of a later session reaches an earlier one; with both sessions in one
    reference they are tied together.
    """
    return [
        _align_groups(subject, subject.session if by_session else np.zeros(len(subject)))
        for subject in subjects
    ]


def covariances(X: np.ndarray) -> np.ndarray:
    """Return X_k X_k^T / samples of every trial in double precision, `[trials, channels,
    channels]`."""
    if X.ndim != 3 or not len(X):
        raise ValueError(
            f"X has shape {X.shape}, it must be [trials, channels, samples] with at least one trial"
        )
    double = np.asarray(X, dtype=np.float64)
    return double @ double.transpose(0, 2, 1) / X.shape[2]


def inverse_square_root(covariance: np.ndarray) -> np.ndarray:
    """Return C^(-1/2) of symmetric positive definite matrices `[..., channels, channels]`."""
    values, vectors = np.linalg.eigh(covariance)
    if not (values[..., 0] * CONDITION > values[..., -1]).all():
        raise ValueError(
            "the mean covariance is singular: channels depend on each other (a flat one, or an "
            "average reference), "
            "or the trials seen have fewer samples than channels"
        )
    return (vectors / np.sqrt(values)[..., None, :]) @ np.swapaxes(vectors, -1, -2)


def _align_groups(subject: Epochs, groups: np.ndarray) -> Epochs:
    aligned = np.empty_like(subject.X)
    for group in np.unique(groups):
        aligned[groups == group] = align(subject.X[groups == group])
    return replace(subject, X=aligned, unit="1")
