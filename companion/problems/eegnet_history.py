"""EEGNet as a gradient oracle over everything an agent has seen (Algorithm 1, step a).

An agent holds a few hundred different trials at most, so its whole history is one weighted batch:
every trial once, counted as often as it was drawn. With batch statistics the loss is a function of
that weighted batch, exactly as if trials were repeated. Trials are kept in the order in which they
first come, so that what has been seen by a time is the beginning of an array, and those still to
come cost nothing.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from companion.problems.eegnet import EEGNet, Prepared, Statistics, of_batch, shares
from companion.problems.parameters import Module, initial, layout, make

PIECE = 128  # trials prepared at once, in double precision
Pair = tuple[int, ...]  # a run of the batch, and an agent


class EEGHistory:
    """The gradient oracle of a batch of runs: `oracle(theta [runs, agents, dim], t)` -> gradients.

    `history [runs, agents, data points, samples]` holds row numbers of trials, as `prepare` made
    them, and `y`, as in `neural.FullHistory`. The network's `batch_norm` decides about statistics:
    "batch" takes them from the history at every evaluation; "fixed" keeps those that `calibrate`
    took; "none" has none. theta and gradients are float64.
    """

    def __init__(self, network: EEGNet, prepared: Prepared, y, history: np.ndarray):
        self.network, self.prepared, self.history = network, prepared, history
        self.layout, self.dtype = layout(network), next(network.parameters()).dtype
        self.labels = torch.as_tensor(np.asarray(y), dtype=torch.long)
        self._rows = {
            pair: torch.from_numpy(_in_order_of_arrival(self.history[pair])) for pair in self._pairs
        }
        self._held = {pair: self.prepared.select(rows) for pair, rows in self._rows.items()}
        self._fixed: dict[Pair, Statistics] = {}

    @property
    def dim(self) -> int:
        """Return the number of parameters."""
        return self.layout.dim

    def __call__(self, theta: np.ndarray, t: int) -> np.ndarray:
        """Return the gradients at theta over the history up to time t."""
        gradients = np.empty((*self.history.shape[:2], self.dim))
        for pair in self._pairs:
            vector = torch.tensor(theta[pair], dtype=self.dtype, requires_grad=True)
            with torch.enable_grad():
                (gradient,) = torch.autograd.grad(self._loss(pair, vector, t), vector)
            if not torch.isfinite(gradient).all():
                where = f"run {pair[0]} of this batch, agent {pair[1]}"
                raise FloatingPointError(f"{where}: the gradient at t = {t} is infinite or NaN")
            gradients[pair] = gradient.numpy()
        return gradients

    @torch.no_grad()
    def outputs(self, theta: np.ndarray, rows, t: int) -> np.ndarray:
        """Return every agent's outputs `[runs, agents, rows, classes]` on rows that may be new.

        They are normalised with the statistics of the agent's own history up to time t (or its
        fixed ones): the rows do not influence each other, so the network could decide on one alone.
        """
        trials = self.prepared.select(torch.as_tensor(np.asarray(rows), dtype=torch.long))
        vectors = torch.as_tensor(theta, dtype=self.dtype)
        found = []
        for pair in self._pairs:
            statistics = self._fixed.get(pair, ())
            if self.network.batch_norm == "batch":
                statistics = self._evaluated(vectors[pair], *self._seen(pair, t))[1]
            outputs, _ = self._evaluated(vectors[pair], trials, None, statistics)
            found.append(outputs.double().numpy())
        return np.reshape(found, (*self.history.shape[:2], *found[0].shape))

    def accuracy(self, theta: np.ndarray, rows, t: int) -> np.ndarray:
        """Return the share of rows `[runs, agents]` whose largest output is at the label.

        It is NaN where an output is infinite or NaN: such a network decides nothing.
        """
        outputs, labels = self.outputs(theta, rows, t), self.labels.numpy()[np.asarray(rows)]
        right = (outputs.argmax(-1) == labels).mean(-1)
        return np.where(np.isfinite(outputs).all((-2, -1)), right, np.nan)

    @torch.no_grad()
    def calibrate(self, theta: np.ndarray) -> None:
        """Fix every agent's statistics at those of all its trials, each once, at theta."""
        vectors = torch.as_tensor(theta, dtype=self.dtype)
        for pair, held in self._held.items():
            self._fixed[pair] = self._evaluated(vectors[pair], held, None)[1]

    @property
    def _pairs(self) -> list[Pair]:
        return list(np.ndindex(*self.history.shape[:2]))

    def _loss(self, pair: Pair, vector: torch.Tensor, t: int) -> torch.Tensor:
        """Return the mean loss over one agent's history up to time t."""
        held, counts = self._seen(pair, t)
        statistics = self._fixed.get(pair) or self.network.stored()
        outputs, _ = self._evaluated(vector, held, counts, statistics)
        labels = self.labels[self._rows[pair][: len(counts)]]
        losses = nn.functional.cross_entropy(outputs, labels, reduction="none")
        return losses @ shares(held, counts)

    def _evaluated(self, vector, trials: Prepared, counts, statistics: Statistics = ()):
        """Return the outputs `[trials, classes]` at these parameters, and the statistics used."""
        average = of_batch(shares(trials, counts))
        own = self.layout.views(vector[None, None])
        outputs, used = self.network.outputs(own, trials, average, statistics)
        return outputs[:, 0], used

    def _seen(self, pair: Pair, t: int) -> tuple[Prepared, torch.Tensor]:
        """Return the trials that have come up to time t, and how often each has been drawn."""
        rows = self._rows[pair].numpy()
        order = np.argsort(rows)
        drawn = self.history[pair][: t + 1].ravel()
        counts = np.bincount(order[np.searchsorted(rows, drawn, sorter=order)])
        return self._held[pair].head(len(counts)), torch.from_numpy(counts)


def _in_order_of_arrival(history: np.ndarray) -> np.ndarray:
    """Return the distinct rows of one agent's history, the first to come first."""
    rows, first = np.unique(history, return_index=True)
    return rows[np.argsort(first)].astype(np.int64)


def prepare(network: EEGNet, x) -> Prepared:
    """Return all trials prepared, moments included, from sums in double precision."""
    kind = next(network.parameters()).dtype
    pieces = [
        network.prepare_for_statistics(torch.tensor(x[start : start + PIECE], dtype=torch.float64))
        for start in range(0, len(x), PIECE)
    ]
    spectrum, first, second = (torch.cat(parts) for parts in zip(*pieces, strict=True))
    return Prepared(spectrum.to(kind.to_complex()), first.to(kind), second.to(kind))


def initial_state(network: Module, scale: float = 1.0, *, seed: int, run: int = 0) -> np.ndarray:
    """Return theta_0 [dim]: torch's law, with the weights of convolutions multiplied by `scale`.

    Behind a normalisation the size of a weight changes no output, only how far a step turns it: the
    effective step grows as 1 / scale^2.
    """
    network = make(network)
    vector = torch.from_numpy(initial(network, "pytorch", seed=seed, run=run))
    for name, view in layout(network).views(vector).items():
        if isinstance(network.get_submodule(name.rpartition(".")[0]), nn.Conv2d):
            view *= scale
    return vector.numpy()
