"""The two schedules of Algorithm 1: how step sizes and quantisation steps shrink with time.

>>> schedules = Schedules(lam_0=0.5, nu=0.75, d_0=(2.0, 3.0), varsigma=(0.6, 0.6))
>>> schedules.lam(15).item(), schedules.step(1).round(3).tolist()
(0.0625, [1.32, 1.979])
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ldp_core import checks


class TheoremWarning(UserWarning):
    """A schedule outside the paper's range: the warning names what is no longer proven."""


@dataclass(frozen=True)
class Schedules:
    """lam_t = lam_0 / (t+1)**nu, and d_t^i = d_0^i / (t+1)**varsigma^i for every agent i.

    The paper asks for lam_0, d_0^i > 0, nu and varsigma^i in (1/2, 1), and max varsigma^i < nu.
    `explore=True` allows any exponent and warns which theorem is lost.
    """

    lam_0: float
    nu: float
    d_0: tuple[float, ...]
    varsigma: tuple[float, ...]
    explore: bool = False

    def __post_init__(self) -> None:
        for name in ("lam_0", "nu"):
            checks.real(name, getattr(self, name))
        for name in ("d_0", "varsigma"):
            numbers = np.atleast_1d(checks.reals(name, getattr(self, name), "one number per agent"))
            object.__setattr__(self, name, checks.candidates(name, numbers))
        if len(self.d_0) != len(self.varsigma):
            both = f"d_0 has {len(self.d_0)} entries and varsigma {len(self.varsigma)}"
            raise ValueError(f"{both}: one per agent each")
        for name in ("lam_0", "d_0"):
            rule = "be positive and finite (Algorithm 1)"
            checks.every(name, getattr(self, name), checks.positive, rule)
        for rule, theorem in self._lost_theorems():
            if not self.explore:
                raise ValueError(f"{rule}; explore=True allows it, and loses {theorem}")
            warnings.warn(f"{rule}: {theorem} is lost", TheoremWarning, stacklevel=3)

    def _lost_theorems(self) -> Iterator[tuple[str, str]]:
        """Yield each rule that is broken, and the theorem that is lost."""
        first, second = "Theorem 1 (convergence)", "Theorem 2.2 (privacy over infinite time)"
        inside = "must lie in (1/2, 1) (Algorithm 1)"
        if not 0.5 < self.nu < 1:
            yield f"nu = {self.nu} {inside}", f"{first} and {second}"
        for i, varsigma in enumerate(self.varsigma):
            if not 0.5 < varsigma < 1:
                yield f"agent {i}: varsigma = {varsigma} {inside}", first
        if not max(self.varsigma) < self.nu:
            rule = f"must be below nu = {self.nu} (Algorithm 1)"
            yield f"max varsigma = {max(self.varsigma):.6g} {rule}", second

    @property
    def agents(self) -> int:
        return len(self.d_0)

    def lam(self, t):
        """Return the iteration step size lam_t; t may be an array."""
        return self.lam_0 / _from_one(t) ** self.nu

    def step(self, t) -> np.ndarray:
        """Return the quantisation steps d_t^i, shape `[*t.shape, agents]`."""
        return np.asarray(self.d_0) / _from_one(t)[..., None] ** np.asarray(self.varsigma)


def _from_one(t) -> np.ndarray:
    """Return t + 1."""
    return checks.every("t", t, checks.not_negative, "be finite and not negative") + 1.0


def paper_schedules(
    lam_0: float, nu: float, d_0: float, d_0_slope: float, varsigma: float, agents: int = 5
) -> Schedules:
    """Return the paper's pattern, for i = 1 ... agents: d_0 + d_0_slope i, varsigma + 0.01 i."""
    i = np.arange(1, checks.whole("agents", agents, 1) + 1)
    return Schedules(lam_0, nu, tuple(d_0 + d_0_slope * i), tuple(varsigma + 0.01 * i))
