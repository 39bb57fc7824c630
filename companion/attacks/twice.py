"""LeNet differentiated twice, for gradient matching: by hand, two to twelve times as fast as torch.

    L(x) = sum of p (g(x) - h)^2,    dL/dx = d<v, g(x)> / dx  with  v = 2 p (g(x) - h)  held fixed,

and <v, g(x)> is the rate at which the loss changes when the parameters move along v. So the network
is run four times: forwards, backwards (which gives g), forwards again for the rates at which its
values change along v, and backwards from these to the pixels.

Maps are `[n, places, channels]` of n problems, each with weights of its own, places row by row in a
square. A convolution is a product of *windows* `[n, places, inputs]` with a matrix `[n, inputs + 1,
outputs]`, whose last row is the bias and meets a constant one; inputs are ordered by place, then
channel. Backwards it is a product of windows too, with the kernel turned round: to add windows up
where they overlap costs more than to cut them out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

KERNEL, STRIDES = 5, (2, 2, 1)  # of LeNet's convolutions
Matrices = Sequence[np.ndarray]  # one of every layer, the output's last


class Forward(NamedTuple):
    """Images on their way: each layer's inputs, with a one; the sigmoids; the labels' chances."""

    inputs: Matrices
    values: Matrices
    chances: np.ndarray


class Twice:
    """L of images `[n, pixels]` and its derivative; `heard` are h, `precision` p (None: one)."""

    def __init__(self, weights: Matrices, heard: Matrices, precision: Matrices | None, labels):
        self.weights, self.heard, self.precision = weights, heard, precision
        self.turned = [turned(*pair) for pair in zip(weights, STRIDES, strict=False)]
        self.truth = np.eye(heard[-1].shape[2], dtype=heard[-1].dtype)[labels][:, None]

    def __call__(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return values `[n]` and derivatives `[n, pixels]`."""
        run = self._forwards(x)
        slopes = [value * (1.0 - value) for value in run.values]
        before, errors = self._backwards(run.chances - self.truth, slopes)
        found = (one.swapaxes(1, 2) @ error for one, error in zip(run.inputs, errors, strict=True))
        apart = weighed = [g - h for g, h in zip(found, self.heard, strict=True)]
        if self.precision is not None:
            weighed = [p * part for p, part in zip(self.precision, apart, strict=True)]
        value = sum(np.einsum("nio,nio->n", *pair) for pair in zip(weighed, apart, strict=True))
        v = [2.0 * part for part in weighed]
        *rates, rate = self._rates(run.inputs, slopes, v)
        bends = [b * (1.0 - 2.0 * a) * r for b, a, r in zip(before, run.values, rates, strict=True)]
        own = run.chances * (rate - (run.chances * rate).sum(axis=2, keepdims=True))
        back = behind(own, self.weights[-1]) + behind(errors[-1], v[-1])
        for k, stride in reversed(list(enumerate(STRIDES))):
            own = slopes[k] * (back.reshape(bends[k].shape) + bends[k])
            back = spread(own, self.turned[k], stride)
            back += spread(errors[k], turned(v[k], stride), stride)
        return value, back.reshape(x.shape)

    def _forwards(self, x: np.ndarray) -> Forward:
        inputs, values, rows = [], [], x[:, :, None]
        for weight, stride in zip(self.weights, STRIDES, strict=False):
            inputs.append(with_one(windows(rows, KERNEL, stride)))
            rows = 1.0 / (1.0 + np.exp(-(inputs[-1] @ weight)))
            values.append(rows)
        inputs.append(with_one(rows.reshape(len(x), 1, -1)))
        outputs = inputs[-1] @ self.weights[-1]
        chances = np.exp(outputs - outputs.max(axis=2, keepdims=True))
        return Forward(inputs, values, chances / chances.sum(axis=2, keepdims=True))

    def _backwards(self, error: np.ndarray, slopes: Matrices) -> tuple[list, list]:
        """Return the loss's derivatives at the sigmoids, and at what enters each activation."""
        before: list[np.ndarray] = []
        errors, back = [error], behind(error, self.weights[-1])
        for k, stride in reversed(list(enumerate(STRIDES))):
            before.insert(0, back.reshape(slopes[k].shape))
            errors.insert(0, before[0] * slopes[k])
            back = spread(errors[0], self.turned[k], stride) if k else back
        return before, errors

    def _rates(self, inputs: Matrices, slopes: Matrices, v: Matrices) -> list[np.ndarray]:
        """Return the rates along v of what enters the sigmoids, and of the outputs."""
        rates = [one @ own for one, own in zip(inputs, v, strict=True)]
        for k, stride in enumerate(STRIDES[1:], 1):
            moved = windows(slopes[k - 1] * rates[k - 1], KERNEL, stride)
            rates[k] += moved @ self.weights[k][:, :-1]
        moved = (slopes[-1] * rates[-2]).reshape(len(v[0]), 1, -1)
        rates[-1] += moved @ self.weights[-1][:, :-1]
        return rates


def with_one(rows: np.ndarray) -> np.ndarray:
    """Return rows of inputs with a constant one at their ends, which the bias multiplies."""
    return np.concatenate([rows, np.ones_like(rows[..., :1])], axis=-1)


def behind(errors: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the derivatives at the inputs of the output layer from those at its outputs."""
    return errors @ weights[:, :-1].swapaxes(1, 2)


def windows(rows: np.ndarray, side: int, stride: int = 1) -> np.ndarray:
    """Return what lies around every `stride`-th place, `[n, places, side^2 channels]`; zeros beyond
    the edge."""
    (n, places, channels), edge = rows.shape, side // 2
    wide = round(places**0.5)
    padded = np.zeros((n, wide + 2 * edge, wide + 2 * edge, channels), rows.dtype)
    padded[:, edge:-edge, edge:-edge] = rows.reshape(n, wide, wide, channels)
    of_problem, of_row, of_place, of_channel = padded.strides
    strides = (of_problem, stride * of_row, stride * of_place, of_row, of_place, of_channel)
    shape = (n, wide // stride, wide // stride, side, side, channels)
    cut = np.ndarray(shape, rows.dtype, padded, strides=strides)  # as numpy, in less time
    return cut.reshape(n, places // stride**2, -1)


def turned(weights: np.ndarray, stride: int) -> np.ndarray:
    """Return the matrix that leads from windows of a convolution's errors to its inputs.

    A place of the errors is that of stride^2 inputs: `[n, taps^2 outputs, stride^2 channels]`.
    """
    n, _, outputs = weights.shape
    kernel = weights[:, :-1].reshape(n, KERNEL, KERNEL, -1, outputs)
    taps = -(-KERNEL // stride)
    filled = np.zeros((n, taps * stride, taps * stride, *kernel.shape[3:]), kernel.dtype)
    filled[:, :KERNEL, :KERNEL] = kernel
    split = filled.reshape(n, taps, stride, taps, stride, *kernel.shape[3:])[:, ::-1, :, ::-1]
    return split.transpose(0, 1, 3, 6, 2, 4, 5).reshape(n, taps**2 * outputs, -1)


def spread(errors: np.ndarray, weights: np.ndarray, stride: int) -> np.ndarray:
    """Return the derivatives at a convolution's inputs, from its errors and its turned weights."""
    n, places, _ = errors.shape
    wide = round(places**0.5)
    parts = windows(errors, -(-KERNEL // stride)) @ weights
    parts = parts.reshape(n, wide, wide, stride, stride, -1).swapaxes(2, 3)
    return parts.reshape(n, places * stride**2, -1)
