"""How large a sample's gradient can be and how fast it can turn: public bounds, never from data.

The privacy of an agent is argued with these, so they may depend only on what everybody knows before
the first sample arrives: the number of attributes and the normalisation of rows. For the logistic
loss with label b = +-1 and row a,

    grad log(1 + exp(-b a.theta)) = -b sigma(-b a.theta) a,      0 < sigma < 1,  |sigma'| <= 1/4.

So one sample's gradient is a number in (-1, 1) times its row, and its derivative is sigma' a a^T,
whose largest column and largest row both have an l1 norm of ||a||_inf ||a||_1 / 4 at most. Means
over samples and over the history obey the same bounds.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from companion.problems.onehot import OneHot

SLOPE = Fraction(1, 4)  # the largest |sigma'| of the logistic function, at zero


def logistic(attributes: int, normalise: str | None = None) -> tuple[float, float]:
    """Return d_l of Assumption 3, which bounds the gradient's l1 norm, and its Lipschitz constant.

    The constant is one from l1 to l1 and from linf to linf alike. A one-hot row has one entry
    `scale` per attribute: 1 for raw rows, 1/attributes for normalise="l1", 1/sqrt(attributes) for
    "l2" (`OneHot`). So d_l = attributes scale and L = attributes scale^2 / 4. Both are attained, in
    the limit of a confidently wrong logit and at a logit of zero. Rounded up to the next float64,
    so that they bound the rows as stored.
    """
    empty = np.empty((0, attributes))  # a table without rows: no data can enter
    scale = Fraction(OneHot(empty, (1,) * attributes, normalise).scale)
    d_l = _round_up(attributes * scale)
    return d_l, _round_up(SLOPE * Fraction(d_l) * scale)


def _round_up(number: Fraction) -> float:
    nearest = float(number)
    return nearest if Fraction(nearest) >= number else math.nextafter(nearest, math.inf)
