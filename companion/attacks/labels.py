"""The label behind one sample's gradient, from the last layer (iDLG: Zhao, Mopuri, Bilen 2020).

For outputs o = W h + b and cross entropy, with p = softmax(o) and the label y,

    dL/dW_c = (p_c - [c = y]) h,    dL/db_c = p_c - [c = y].

p_c - [c = y] is negative for c = y and for no other class. So the bias' smallest derivative is at
the label, whatever the features h are; and where h >= 0 (sigmoid, ReLU) so is the smallest row sum
of dL/dW, which adds up many more numbers and therefore stands far more noise. Features that can be
negative (tanh) break the second rule.
"""

from __future__ import annotations

import torch

from companion.problems.parameters import Layout

RULES = ("row sums", "bias")


def infer(layout: Layout, gradient: torch.Tensor, rule: str = "row sums") -> torch.Tensor:
    """Return the labels of flat gradients `[..., dim]`, whose last layer is linear, by a rule."""
    weight, bias = layout.shapes[-2:]
    if rule == "bias":
        return gradient[..., -bias.numel() :].argmin(dim=-1)
    rows = gradient[..., -bias.numel() - weight.numel() : -bias.numel()]
    return rows.unflatten(-1, tuple(weight)).sum(dim=-1).argmin(dim=-1)
