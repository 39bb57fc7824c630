"""Euclidean alignment (He and Wu 2020): make the mean covariance of every subject the identity.

With the reference R = mean of X_k X_k^T / samples over a subject's trials, each trial becomes
R^(-1/2) X_k; then the mean of X_k X_k^T / samples is the identity, for every subject alike. He and
Wu (doi:10.1109/TBME.2019.2913914) do not divide by the number of samples; that changes all trials
by one common factor, and leaves ours with unit variance. No label is used: no function here takes
one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from companion.data.epochs import Epochs

CONDITION = 1e10  # above this ratio of eigenvalues the inverse square root is noise


def align(X: np.ndarray) -> np.ndarray:
    """Return all trials `[trials, channels, samples]` of one subject, aligned by their own mean."""
    reference = covariances(X).sum(axis=0) / len(X)
    return (inverse_square_root(reference) @ X).astype(X.dtype)


def align_subjects(subjects: Iterable[Epochs]) -> list[Epochs]:
    """Return every subject aligned by itself."""
    return [replace(subject, X=align(subject.X), unit="1") for subject in subjects]


def covariances(X: np.ndarray) -> np.ndarray:
    """Return X_k X_k^T / samples of every trial, `[trials, channels, channels]`, in float64."""
    if X.ndim != 3 or not len(X):
        rule = "it must be [trials, channels, samples] with at least one trial"
        raise ValueError(f"X has shape {X.shape}, {rule}")
    double = np.asarray(X, dtype=np.float64)
    return double @ double.transpose(0, 2, 1) / X.shape[2]


def inverse_square_root(covariance: np.ndarray) -> np.ndarray:
    """Return C^(-1/2) of symmetric positive definite matrices `[..., channels, channels]`."""
    values, vectors = np.linalg.eigh(covariance)
    if not (values[..., 0] * CONDITION > values[..., -1]).all():
        dependent = "channels depend on each other (a flat one, or an average reference)"
        few = "the trials seen have fewer samples than channels"
        raise ValueError(f"the mean covariance is singular: {dependent}, or {few}")
    return (vectors / np.sqrt(values)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
