"""How large a sample's gradient can be and how fast it can turn: public bounds, never from data.

The privacy of an agent is argued with these, so they may depend only on what everybody knows before
the first sample arrives: the number of attributes, the normalisation of rows, the penalty. For the
logistic loss with label b = +-1 and row a,

    grad log(1 + exp(-b a.theta)) = -b sigma(-b a.theta) a,      0 < sigma < 1,  |sigma'| <= 1/4.

So one sample's gradient is a number in (-1, 1) times its row, and at theta and theta' it differs by
at most |a . dtheta| / 4 times the row, where |a . dtheta| <= min(||a||_inf ||dtheta||_1, ||a||_1
||dtheta||_inf) (Hoelder). Means over samples and over the history obey the same bounds.

**The penalty.** l2/2 ||theta||^2 adds l2 theta to every gradient, which no constant bounds. But it
is the same function of the state under both data sets: when one of n data points is replaced, the
gradients differ by

    g - g' = 1/n sum_{others} (grad_k(theta) - grad_k(theta'))
             + 1/n (grad(theta) - grad'(theta')) + l2 (theta - theta'),

at most (n-1)/n of `GradientConstants.change_l1` plus 2 l1 / n plus l2 ||dtheta||_1 (the same with
linf). The penalty enters through dtheta alone, never through the 2 l1 of the replaced point; where
2 l1 is used for the whole of the first two terms, l2 ||dtheta|| must be added to it. In eq. (4) l2
theta may also join the other linear terms in theta, with its sign.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from companion.problems.onehot import OneHot
from ldp_core.checks import real
from ldp_core.randomness import word

SLOPE = 0.25  # the largest |sigma'| of the logistic function, at zero


@dataclass(frozen=True)
class GradientConstants:
    """Public bounds of one sample's gradient, penalty left out: its norms, and their change.

    `l1` and `linf` bound the norms of the gradient (l1 is the paper's d_l of Assumption 3) and of
    the direction `a` in which it lies; `slope` bounds the change of its length per unit of |a .
    dtheta|; `l2` is the penalty, kept apart (see the module).
    """

    l1: float
    linf: float
    slope: float = SLOPE
    l2: float = 0.0

    def __post_init__(self) -> None:
        for name in ("l1", "linf", "slope", "l2"):
            real(name, getattr(self, name))
        for name in ("l1", "linf"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise ValueError(
                    f"{name} = {getattr(self, name)} must be positive and finite (Assumption 3)"
                )
        for name in ("slope", "l2"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise ValueError(f"{name} = {getattr(self, name)} must be finite and not negative")
        if self.linf > self.l1:
            raise ValueError(
                f"linf = {self.linf} must not exceed l1 = {self.l1}: no vector has such norms"
            )

    @property
    def lipschitz(self) -> float:
        """Return the Lipschitz constant of a sample's gradient, penalty left out.

        From l1 to l1 and from linf to linf alike: both are slope ||a||_inf ||a||_1: the derivative
        is sigma' a a^T, and the l1 norm of its largest column is that of its largest row.
        """
        return _round_up(Fraction(self.slope) * Fraction(self.l1) * Fraction(self.linf))

    def change_l1(self, dtheta_l1, dtheta_linf=np.inf) -> np.ndarray:
        """Return slope l1 min(linf dtheta_l1, l1 dtheta_linf) >= ||grad(theta) -
        grad(theta')||_1."""
        return self.slope * self.l1 * self._inner(dtheta_l1, dtheta_linf)

    def change_linf(self, dtheta_l1, dtheta_linf=np.inf) -> np.ndarray:
        """Return slope linf min(linf dtheta_l1, l1 dtheta_linf), a bound on the largest entry."""
        return self.slope * self.linf * self._inner(dtheta_l1, dtheta_linf)

    def _inner(self, dtheta_l1, dtheta_linf) -> np.ndarray:
        return np.minimum(self.linf * np.asarray(dtheta_l1), self.l1 * np.asarray(dtheta_linf))


def logistic(attributes: int, normalise: str | None = None, l2: float = 0.0) -> GradientConstants:
    """Return the constants of the logistic problem on one-hot rows, from the schema alone.

    l1 = attributes scale, linf = scale. A row has one entry `scale` per attribute: 1 for raw rows,
    1/attributes for normalise="l1", 1/sqrt(attributes) for "l2" (`OneHot`). So lipschitz =
    attributes scale^2 / 4: attributes/4, 1/(4 attributes) and 1/4. All bounds are attained, in the
    limit of a confidently wrong logit for the norms, at a logit of zero for the slope. Rounded up
    to the next float64, so that they bound the rows as stored.
    """
    if word("attributes", attributes) < 1:
        raise ValueError(
            f"attributes = {attributes} must be at least 1, the number of ones in a row"
        )
    scale = OneHot(
        np.empty((0, attributes)), (1,) * attributes, normalise
    ).scale  # a table without rows: no data can enter
    return GradientConstants(_round_up(attributes * Fraction(scale)), scale, SLOPE, l2)


def _round_up(number: Fraction) -> float:
    nearest = float(number)
    return nearest if Fraction(nearest) >= number else math.nextafter(nearest, math.inf)
