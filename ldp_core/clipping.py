"""Gradients averaged over samples, each clipped to an l2 norm: what a promise can rely on.

    >>> clipped(np.array([[3.0, 4.0], [0.3, 0.4]]), 1.0).round(6).tolist()
    [[0.6, 0.8], [0.3, 0.4]]

An oracle is a function (theta, t) -> gradients. One that keeps a promise also *says* what it does:
`clip`, the norm no sample's gradient exceeds; `warm_up` and `samples`, so that N_t = samples
(warm_up + t + 1); `cone`, whether gradients of one sample at any two points make an angle of at
most 60 degrees, as for logistic and softmax regression. `accountant.promise` counts on these.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ldp_core import checks


def clipped(gradients, clip: float) -> np.ndarray:
    """Return the gradients `[..., dim]`, those longer than `clip` shortened to it."""
    length = np.sqrt(np.sum(np.square(gradients), axis=-1, keepdims=True))
    return gradients * (clip / np.maximum(length, clip))


@dataclass(frozen=True)
class Clipped:
    """The oracle of per-sample gradients (theta, t) -> `[runs, agents, N_t, dim]`: their mean.

    Raises ValueError when there are not N_t = samples (warm_up + t + 1) gradients at t.
    """

    per_sample: Callable[[np.ndarray, int], np.ndarray]
    clip: float
    warm_up: int = 0
    samples: int = 1
    cone: bool = False

    def __post_init__(self) -> None:
        checks.every("clip", self.clip, checks.positive, "be positive and finite")
        for name, least in (("warm_up", 0), ("samples", 1)):
            checks.whole(name, getattr(self, name), least)

    def __call__(self, theta: np.ndarray, t: int) -> np.ndarray:
        gradients = checks.reals(f"per_sample(theta, {t})", self.per_sample(theta, t))
        seen = self.samples * (self.warm_up + t + 1)
        if gradients.ndim != 4 or gradients.shape[2] != seen:
            found = f"gradients have shape {gradients.shape} at t = {t}"
            rule = f"[runs, agents, {seen} = {self.samples} x ({self.warm_up} + {t} + 1), dim]"
            raise ValueError(f"{found}: they must be {rule}")
        return clipped(gradients, self.clip).mean(axis=2)
