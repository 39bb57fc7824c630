"""EEGNet as a gradient oracle over everything an agent has seen, batch normalisation included (Algorithm 1, step a).

An agent holds a few hundred different trials at most, so its whole history is one weighted batch: every trial once, counted as
often as it was drawn. With batch statistics the loss is a function of that weighted batch, exactly as if trials were repeated.
Trials are kept in the order in which they first come, so that what has been seen by a time is the beginning of an array, and
those still to come cost nothing.
"""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import nn

from companion.problems.eegnet import EEGNet, Prepared, Statistics
from companion.problems.eegnet_fast import Loss
from companion.problems.parameters import Module, initial, layout, make

PIECE = 128  # trials prepared at once, in double precision


class EEGHistory:
    """The gradient oracle of a batch of runs: `oracle(theta [runs, agents, dim], t)` -> gradients of the same shape.

    `history [runs, agents, data points, samples]` holds row numbers of `x [rows, channels, samples]` and `y`, as in
    `neural.FullHistory`. The network's `batch_norm` decides about statistics: "batch" takes them from the history at every
    evaluation; "fixed" keeps those that `calibrate` took; "none" has none. theta and gradients are float64. `x` may also be
    what `prepare` made of it: several histories of the same trials then prepare them once.
    """

    def __init__(self, network: Module, x, y, history, *, dtype: torch.dtype = torch.float32):
        self.network: EEGNet = copy.deepcopy(make(network)).to(dtype)
        self.layout, self.dtype = layout(self.network), dtype
        self.history = np.asarray(history)
        if self.history.ndim != 4 or 0 in self.history.shape:
            raise ValueError(
                f"history has shape {self.history.shape}: it must be [runs, agents, data points, samples], none empty"
            )
        trials = len(x.spectrum if isinstance(x, Prepared) else x)
        if not 0 <= self.history.min() <= self.history.max() < trials == len(y):
            raise ValueError(f"history must hold row numbers of x and y, which have {trials} and {len(y)} rows")
        self.labels = torch.as_tensor(np.asarray(y), dtype=torch.long)
        self.prepared = x if isinstance(x, Prepared) else prepare(self.network, x)
        self._fast = Loss(self.network) if self.network.batch_norm == "batch" else None
        pairs = list(np.ndindex(*self.history.shape[:2]))
        self._rows = {pair: torch.from_numpy(_in_order_of_arrival(self.history[pair])) for pair in pairs}
        self._held = {pair: self.prepared.select(rows) for pair, rows in self._rows.items()}
        self._trials = {
            pair: self._fast.trials(self._held[pair], self.labels[rows], torch.ones(len(rows)))
            for pair, rows in self._rows.items()
            if self._fast
        }
        self._fixed: dict[tuple[int, ...], Statistics] = {}

    @property
    def iterations(self) -> int:
        """Return for how many iterations there are data."""
        return self.history.shape[2]

    @property
    def dim(self) -> int:
        """Return the number of parameters."""
        return self.layout.dim

    def __call__(self, theta: np.ndarray, t: int) -> np.ndarray:
        """Return the gradients at theta over the history up to time t."""
        gradients = np.empty((*self.history.shape[:2], self.dim))
        for pair in np.ndindex(*self.history.shape[:2]):
            vector = torch.tensor(theta[pair], dtype=self.dtype, requires_grad=True)
            with torch.enable_grad():
                (gradient,) = torch.autograd.grad(self._loss(pair, vector, t), vector)
            if not torch.isfinite(gradient).all():
                raise FloatingPointError(
                    f"run {pair[0]} of this batch, agent {pair[1]}: the gradient at t = {t} is infinite or NaN"
                )
            gradients[pair] = gradient.numpy()
        return gradients

    def loss(self, theta: np.ndarray, t: int) -> np.ndarray:
        """Return every agent's mean loss `[runs, agents]` over its history up to time t."""
        losses = np.empty(self.history.shape[:2])
        with torch.no_grad():
            for pair in np.ndindex(*losses.shape):
                losses[pair] = self._loss(pair, torch.tensor(theta[pair], dtype=self.dtype), t).item()
        return losses

    def outputs(self, theta: np.ndarray, rows, t: int) -> np.ndarray:
        """Return every agent's outputs `[runs, agents, rows, classes]` on rows of x that nobody needs to have seen.

        They are normalised with the statistics of the agent's own history up to time t (or its fixed ones): the rows do not
        influence each other, so the network could decide on one trial alone.
        """
        trials = self.prepared.select(torch.as_tensor(np.asarray(rows), dtype=torch.long))
        found = []
        with torch.no_grad():
            for pair in np.ndindex(*self.history.shape[:2]):
                network = self._at(theta[pair])
                statistics = self._fixed.get(pair)
                if self.network.batch_norm == "batch":
                    counts = self._counts(pair, t)
                    statistics = network.statistics(self._held[pair].head(len(counts)), counts)
                found.append(network(trials, statistics=statistics).double().numpy())
        return np.reshape(found, (*self.history.shape[:2], *found[0].shape))

    def accuracy(self, theta: np.ndarray, rows, t: int) -> np.ndarray:
        """Return the share of rows `[runs, agents]` whose largest output is at the label; see `outputs`."""
        rows = np.asarray(rows)
        return (self.outputs(theta, rows, t).argmax(-1) == self.labels[torch.from_numpy(rows)].numpy()).mean(-1)

    def calibrate(self, theta: np.ndarray) -> None:
        """Fix every agent's statistics at those of all its trials, each once, at theta."""
        if self.network.batch_norm != "fixed":
            raise ValueError(f"batch_norm = {self.network.batch_norm!r} must be 'fixed': only fixed statistics can be set")
        with torch.no_grad():
            for pair, held in self._held.items():
                self._fixed[pair] = self._at(theta[pair]).statistics(held)

    def _loss(self, pair: tuple[int, ...], vector: torch.Tensor, t: int) -> torch.Tensor:
        """Return the mean loss over one agent's history up to time t."""
        views, counts = self.layout.views(vector), self._counts(pair, t)
        held = self._held[pair].head(len(counts))
        if self._fast:
            return self._fast(views, self._fast.counted(self._trials[pair], held, counts))
        labels = self.labels[self._rows[pair][: len(counts)]]
        outputs = torch.func.functional_call(self.network, views, (held, None, self._fixed.get(pair)))
        losses = nn.functional.cross_entropy(outputs, labels, reduction="none")
        return losses @ (counts / counts.sum()).to(self.dtype)

    def _counts(self, pair: tuple[int, ...], t: int) -> torch.Tensor:
        """Return how often each of an agent's trials that have come up to time t has been drawn, in their order."""
        if not 0 <= t < self.iterations:
            raise ValueError(f"t = {t} must lie in [0, {self.iterations}): there are no data beyond")
        rows = self._rows[pair].numpy()
        order = np.argsort(rows)
        places = order[np.searchsorted(rows, self.history[pair][: t + 1].ravel(), sorter=order)]
        return torch.from_numpy(np.bincount(places)).double()

    def _at(self, vector: np.ndarray) -> EEGNet:
        """Return the network with these parameters."""
        nn.utils.vector_to_parameters(torch.tensor(vector, dtype=self.dtype), self.network.parameters())
        return self.network.eval()


def _in_order_of_arrival(history: np.ndarray) -> np.ndarray:
    """Return the distinct rows of one agent's history, the first to come first."""
    rows, first = np.unique(history, return_index=True)
    return rows[np.argsort(first)].astype(np.int64)


def prepare(network: EEGNet, x) -> Prepared:
    """Return all trials prepared, moments included, from sums in double precision."""
    kind = next(network.parameters()).dtype
    pieces = [
        network.prepare_for_statistics(torch.tensor(np.asarray(x[start : start + PIECE]), dtype=torch.float64))
        for start in range(0, len(x), PIECE)
    ]
    spectrum, first, second = (torch.cat(parts) for parts in zip(*pieces, strict=True))
    return Prepared(
        spectrum.to(torch.complex64 if kind == torch.float32 else torch.complex128), first.to(kind), second.to(kind)
    )


def initial_state(network: Module, scale: float = 1.0, *, seed: int, run: int = 0) -> np.ndarray:
    """Return theta_0 [dim]: torch's default law, with the weights of all convolutions multiplied by `scale`.

    Behind a normalisation the size of a weight changes no output, only how far a step turns it: the effective step grows as
    1 / scale^2.
    """
    network = make(network)
    vector = torch.from_numpy(initial(network, "pytorch", seed=seed, run=run))
    for name, view in layout(network).views(vector).items():
        if isinstance(network.get_submodule(name.rpartition(".")[0]), nn.Conv2d):
            view *= scale
    return vector.numpy()
