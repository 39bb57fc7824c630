"""Gradients over everything an agent has seen, each sample's clipped: oracles that keep a promise.

    g_t^i = 1/N_t sum_{k < N_t} min(1, C / |v_k|) v_k,    v_k = grad loss(theta, sample k),

N_t = samples (warm_up + t + 1), over what agent i has. A *model* knows the clipped gradients of
some samples: a softmax or one hidden layer in closed form, for the length of a sample's gradient
follows from the lengths of its factors; a small convolutional network layer by layer
(`problems.convolution`); any other torch module sample by sample (`PerSample`, `torch.func`).

Outputs are computed in float32, gradients are summed in float64: `accountant.promise` counts on it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from companion.problems.parameters import layout

SMALL = 0.2  # standard deviation of initial hidden weights, for inputs of length one
CHUNK = 1000  # samples that are looked at together: their features fit into the cache


class Batch(NamedTuple):
    """Samples: features `x [n, features]` in float32, labels `y [n]`, squared lengths of x."""

    x: np.ndarray
    y: np.ndarray
    square: np.ndarray

    @classmethod
    def of(cls, x, y) -> Batch:
        """Return a batch; its squares are upper bounds: float32 loses a part in 2^24 a feature."""
        x, y = np.asarray(x, dtype=np.float32), np.asarray(y)
        rounding = 1.0 + x[0].size * 2.0**-23
        flat = x.reshape(len(x), -1)
        return cls(x, y, np.einsum("ij,ij->i", flat, flat).astype(np.float64) * rounding)

    def chunks(self, first: int) -> Iterator[Batch]:
        """Yield the `first` samples, some at a time."""
        for start in range(0, first, CHUNK):
            rows = slice(start, min(start + CHUNK, first))
            yield Batch(self.x[rows], self.y[rows], self.square[rows])


class Factors(NamedTuple):
    """Clipped gradients of n samples: x u^T for the first layer, x the features, `rest` behind
    it. Where the first layer does not multiply x, u has no column and `rest` is all."""

    u: np.ndarray
    rest: np.ndarray


class Model:
    """What is learnt: how many parameters, whether gradients keep to a cone, outputs, gradients."""

    cone = False

    @property
    def dim(self) -> int:
        """Return the number of parameters."""
        raise NotImplementedError

    def outputs(self, theta: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return the outputs `[n, classes]` at theta `[dim]`."""
        raise NotImplementedError

    def factors(self, theta: np.ndarray, batch: Batch, clip: float) -> Factors:
        """Return the clipped gradient of every sample."""
        raise NotImplementedError

    def clipped(self, theta: np.ndarray, batch: Batch, clip: float) -> np.ndarray:
        """Return the sum `[dim]` of the samples' gradients, each clipped."""
        u, rest = self.factors(theta, batch, clip)
        flat = batch.x.reshape(len(batch.x), -1).astype(np.float64)
        first = (np.ascontiguousarray(u.T) @ flat).T
        return np.concatenate([first.ravel(), rest.sum(axis=0)])


@dataclass(frozen=True)
class Softmax(Model):
    """Softmax regression: outputs x W. A sample's gradient is x (q - e_y)^T."""

    features: int
    classes: int = 10
    cone = True

    @property
    def dim(self) -> int:
        """Return the number of parameters."""
        return self.features * self.classes

    def outputs(self, theta: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return the outputs `[n, classes]` at theta `[dim]`."""
        return x @ theta.reshape(self.features, self.classes).astype(np.float32)

    def factors(self, theta: np.ndarray, batch: Batch, clip: float) -> Factors:
        """Return the clipped gradient of every sample: `u [n, classes]`, and nothing behind it."""
        error = errors(self.outputs(theta, batch.x), batch.y)
        squares = batch.square * np.square(error).sum(axis=1)
        return Factors(error * shares(squares, clip), np.zeros((len(error), 0)))


@dataclass(frozen=True)
class Perceptron(Model):
    """One hidden layer of tanh units: outputs tanh(x V) W + b. theta holds V, then W, then b."""

    features: int
    hidden: int
    classes: int = 10

    @property
    def dim(self) -> int:
        """Return the number of parameters."""
        return self.features * self.hidden + (self.hidden + 1) * self.classes

    def layers(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return V `[features, hidden]`, and W with b below it, `[hidden + 1, classes]`."""
        first, second = np.split(theta, [self.features * self.hidden])
        return first.reshape(self.features, -1), second.reshape(-1, self.classes)

    def _hidden(self, theta: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the hidden units with a constant one, and the weights behind them."""
        first, second = self.layers(theta.astype(np.float32))
        return np.pad(np.tanh(x @ first), ((0, 0), (0, 1)), constant_values=1.0), second

    def outputs(self, theta: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return the outputs `[n, classes]` at theta `[dim]`."""
        hidden, second = self._hidden(theta, x)
        return hidden @ second

    def factors(self, theta: np.ndarray, batch: Batch, clip: float) -> Factors:
        """Return the clipped gradient of every sample: x before^T, and hidden error^T behind it."""
        hidden, second = self._hidden(theta, batch.x)
        error, hidden = errors(hidden @ second, batch.y), hidden.astype(np.float64)
        before = (error @ second[:-1].T.astype(np.float64)) * (1.0 - np.square(hidden[:, :-1]))
        squares = batch.square * np.square(before).sum(axis=1)
        squares += np.square(hidden).sum(axis=1) * np.square(error).sum(axis=1)
        share = shares(squares, clip)
        behind = hidden[:, :, None] * (error * share)[:, None, :]
        return Factors(before * share, behind.reshape(len(behind), -1))

    def start(self, random: np.random.Generator) -> np.ndarray:
        """Return initial parameters: V small, so that tanh begins as a line, W and b zero."""
        first = random.normal(0.0, SMALL, self.features * self.hidden)
        return np.concatenate([first, np.zeros(self.dim - len(first))])


class PerSample(Model):
    """Any torch module: every sample's gradient by itself, by `torch.func`."""

    def __init__(self, module: nn.Module):
        self.module, self.layout = module, layout(module)

    @property
    def dim(self) -> int:
        """Return the number of parameters."""
        return self.layout.dim

    def _outputs(self, theta: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(self.module, self.layout.views(theta), (x,))

    def outputs(self, theta: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return the outputs at theta `[dim]`."""
        with torch.no_grad():
            return self._outputs(torch.as_tensor(theta).float(), torch.as_tensor(x)).numpy()

    def factors(self, theta: np.ndarray, batch: Batch, clip: float) -> Factors:
        """Return the clipped gradient of every sample, all of it in `rest`."""

        def loss(theta: torch.Tensor, sample, label) -> torch.Tensor:
            return nn.functional.cross_entropy(self._outputs(theta, sample[None]), label[None])

        each = torch.func.vmap(torch.func.grad(loss), (None, 0, 0))
        samples = torch.as_tensor(batch.x), torch.as_tensor(batch.y)
        gradient = each(torch.as_tensor(theta).float(), *samples).numpy().astype(np.float64)
        squares = np.square(gradient).sum(axis=1)
        return Factors(gradient[:, :0], gradient * shares(squares, clip))


def errors(outputs: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return softmax(outputs) - e_y `[n, classes]` in float64."""
    error = np.exp(outputs.astype(np.float64) - outputs.max(axis=1, keepdims=True))
    error /= error.sum(axis=1, keepdims=True)
    error[np.arange(len(y)), y] -= 1.0
    return error


def shares(squares: np.ndarray, clip: float) -> np.ndarray:
    """Return what is left of gradients with these squared lengths, `[n, 1]`."""
    return (clip / np.maximum(np.sqrt(squares), clip))[:, None]


@dataclass(frozen=True, eq=False)
class History:
    """The oracle (theta `[runs, agents, dim]`, t) -> mean clipped gradients over what was seen.

    `x[i]` and `y[i]` are what agent i acquires, in order. `clip`, `warm_up`, `samples` and `cone`
    are what a plan asks for (`ldp_core.clipping`).
    """

    model: Model
    x: Sequence[np.ndarray]
    y: Sequence[np.ndarray]
    clip: float
    warm_up: int = 0
    samples: int = 1
    batches: list[Batch] = field(init=False)

    def __post_init__(self) -> None:
        if not (math.isfinite(self.clip) and self.clip > 0):
            raise ValueError(f"clip = {self.clip} must be positive and finite")
        batches = [Batch.of(*pair) for pair in zip(self.x, self.y, strict=True)]
        object.__setattr__(self, "batches", batches)

    @property
    def cone(self) -> bool:
        """Return whether gradients of one sample never make an angle above 60 degrees."""
        return self.model.cone

    def seen(self, t: int) -> int:
        """Return N_t, how many samples an agent has seen at time t."""
        return self.samples * (self.warm_up + t + 1)

    def __call__(self, theta: np.ndarray, t: int) -> np.ndarray:
        """Return the gradients at theta over everything seen up to time t."""
        found = np.empty_like(theta)
        for run, agent in np.ndindex(*theta.shape[:2]):
            found[run, agent] = self._mean(theta[run, agent], agent, t)
        return found

    def _mean(self, theta: np.ndarray, agent: int, t: int) -> np.ndarray:
        batch, seen = self.batches[agent], self.seen(t)
        if len(batch.y) < seen:
            raise ValueError(f"agent {agent} has {len(batch.y)} samples, t = {t} needs {seen}")
        total = np.zeros(self.model.dim)
        for part in batch.chunks(seen):
            total += self.model.clipped(theta, part, self.clip)
        return total / seen

    def accuracy(self, theta: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the share of samples read rightly at theta `[..., dim]`, with its leading axes."""
        flat = theta.reshape(-1, theta.shape[-1])
        right = [(self.model.outputs(at, x).argmax(axis=1) == y).mean() for at in flat]
        return np.array(right).reshape(theta.shape[:-1])
