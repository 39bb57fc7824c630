"""Any torch module as a gradient oracle on flat parameters (Algorithm 1, step a).

    g_t^i = 1/n sum_{k < n} 1/N sum_{s <= N} grad loss(theta_t^i, sample s of data point k),

n = t + 1, the loss the cross-entropy: gradients over everything an agent has seen. A sample that
the history holds c times is evaluated once and counts c times. Samples are evaluated in chunks,
each by torch with one thread, and added up in float64 in a fixed order: the bits depend neither on
the number of threads (torch's own would cut the sums themselves) nor on what else is computed in
the same batch.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn

from companion.problems.parameters import BATCH_NORM, Module, layout, make
from ldp_core.quantizer import NotFinite
from ldp_core.randomness import Purpose, generator

# Fixed, not measured when a run begins: the bits of a sum depend on its chunks, and must not depend
# on how busy a machine is. Of 16, 32, ..., 512 it is within 3 % of the best for the CNN with SSE
# 4.1, AVX2 and AVX-512: benchmarks/cnn_gradients.py
CHUNK = 128


class FullHistory:
    """The gradient oracle of a batch of runs: (theta `[runs, agents, dim]`, t) -> gradients alike.

    `history [runs, agents, data points, samples]` holds row numbers of the shared `x` and `y`; data
    point k of an agent is what it acquires at time k. The network is computed in its own precision;
    theta and the gradients are float64. Samples must not influence each other: batch normalisation
    in training mode is refused.
    """

    chunk = CHUNK

    def __init__(self, module: Module, x, y, history):
        self.module = copy.deepcopy(make(module))
        self.layout = layout(self.module)
        self.dtype = next(self.module.parameters()).dtype
        self.x, labels = _tensor(x).to(self.dtype), _tensor(y)
        self.y = labels if labels.is_floating_point() else labels.long()  # torch refuses real ones
        if len(self.x) != len(self.y):
            raise ValueError(f"x has {len(self.x)} rows and y {len(self.y)}: they must agree")
        self.history = _checked_history(history, len(self.x))
        _require_independent_samples(self.module)

    @property
    def iterations(self) -> int:
        """Return for how many iterations there are data."""
        return self.history.shape[2]

    @property
    def dim(self) -> int:
        """Return the number of parameters."""
        return self.layout.dim

    def seen(self, t: int) -> np.ndarray:
        """Return the rows seen at time t, `[runs, agents, samples so far]`, in order of arrival."""
        if not 0 <= t < self.iterations:
            raise ValueError(
                f"t = {t} must lie in [0, {self.iterations}): there are no data beyond"
            )
        return self.history[:, :, : t + 1].reshape(*self.history.shape[:2], -1)

    def __call__(self, theta: np.ndarray, t: int) -> np.ndarray:
        """Return the gradients at theta over the history up to time t."""
        return self._mean(theta, self._rows(t), self._gradient, self.dim)

    def loss(self, theta: np.ndarray, rows) -> np.ndarray:
        """Return every agent's mean loss `[runs, agents]` on rows of x and y.

        The rows are `[k]`, `[agents, k]` or `[runs, agents, k]`.
        """
        return self._mean(theta, rows, self._total_loss, 1)[..., 0]

    def losses(self, theta: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return the loss of every one of some rows at one theta `[dim]`."""
        vector = torch.tensor(theta, dtype=self.dtype)
        parts = [rows[start : start + self.chunk] for start in range(0, len(rows), self.chunk)]
        with one_thread(), torch.no_grad():
            found = [self._losses(vector, part) for part in parts]
        return torch.cat(found).double().numpy() if found else np.zeros(0)

    def accuracy(self, theta: np.ndarray, rows) -> np.ndarray:
        """Return the share of rows whose largest output is at the label; rows as in `loss`.

        Raises NotFinite when an output is infinite or NaN.
        """
        return self._mean(theta, rows, self._hits, 1)[..., 0]

    def _rows(self, t: int) -> np.ndarray:
        return self.seen(t)

    def _mean(self, theta: np.ndarray, rows, evaluate: Callable, width: int) -> np.ndarray:
        """Return the mean over rows of what `evaluate` sums over a chunk, `[runs, agents,
        width]`."""
        theta, rows = self._checked_theta(theta), self._checked_rows(rows)
        sums = np.zeros((*theta.shape[:2], width))
        with one_thread():
            for pair in np.ndindex(*theta.shape[:2]):
                distinct, counts = np.unique(rows[pair], return_counts=True)
                for start in range(0, len(distinct), self.chunk):
                    part = slice(start, start + self.chunk)
                    with _named(*pair):
                        sums[pair] += evaluate(theta[pair], distinct[part], counts[part])
        return sums / rows.shape[2]

    def _outputs(self, vector: torch.Tensor, rows: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        chosen, views = torch.tensor(rows), self.layout.views(vector)
        parameters = {name: _channels_last(view) for name, view in views.items()}
        images = _channels_last(self.x.index_select(0, chosen))
        outputs = torch.func.functional_call(self.module, parameters, (images,))
        return outputs, self.y.index_select(0, chosen)

    def _losses(self, vector: torch.Tensor, rows: np.ndarray) -> torch.Tensor:
        return nn.functional.cross_entropy(*self._outputs(vector, rows), reduction="none")

    def _weighted_loss(self, vector: torch.Tensor, rows, counts) -> torch.Tensor:
        total = self._losses(vector, rows) @ torch.as_tensor(counts, dtype=self.dtype)
        if not torch.isfinite(total):
            raise NotFinite("the loss is infinite or NaN: the network has diverged")
        return total

    def _gradient(self, theta: np.ndarray, rows, counts) -> np.ndarray:
        with torch.enable_grad():
            vector = torch.tensor(theta, dtype=self.dtype, requires_grad=True)
            (found,) = torch.autograd.grad(self._weighted_loss(vector, rows, counts), vector)
        gradient = found.numpy()
        if not np.isfinite(gradient).all():  # torch's takes twenty times as long
            raise NotFinite("the gradient is infinite or NaN at a finite loss")
        return gradient

    def _total_loss(self, theta: np.ndarray, rows, counts) -> np.ndarray:
        with torch.no_grad():
            return self._weighted_loss(torch.tensor(theta, dtype=self.dtype), rows, counts).numpy()

    def _hits(self, theta: np.ndarray, rows, counts) -> np.ndarray:
        with torch.no_grad():
            outputs, labels = self._outputs(torch.tensor(theta, dtype=self.dtype), rows)
        if not torch.isfinite(outputs).all():
            raise NotFinite("an output is infinite or NaN: the network has diverged")
        return np.asarray((outputs.argmax(dim=1) == labels).numpy() @ counts)

    def _checked_theta(self, theta) -> np.ndarray:
        theta, shape = np.asarray(theta, dtype=np.float64), (*self.history.shape[:2], self.dim)
        if theta.shape != shape:
            raise ValueError(f"theta has shape {theta.shape}, it must be {shape}")
        for run, agent in np.argwhere(~np.isfinite(theta).all(axis=2)):
            raise NotFinite(f"run {run} of this batch, agent {agent}: theta must be finite")
        return theta

    def _checked_rows(self, rows) -> np.ndarray:
        rows, pairs = np.asarray(rows), self.history.shape[:2]
        fits = 1 <= rows.ndim <= 3 and rows.shape[-1] and rows.shape[:-1] == pairs[3 - rows.ndim :]
        if not fits:
            rule = "[k], [agents, k] or [runs, agents, k] with k > 0"
            raise ValueError(f"rows has shape {rows.shape}: it must be {rule}")
        indices = _checked_indices("rows", rows, len(self.x))
        return np.broadcast_to(indices, (*pairs, rows.shape[-1]))


class SampledHistory(FullHistory):
    """An APPROXIMATION of `FullHistory`: the gradient over `sample` draws from the history.

    Each draw is an entry of the history with probability 1/(n N), with replacement, so the
    expectation over the draws is exactly the gradient over the full history, and the variance is
    that of one entry's gradient divided by `sample`. While the history has no more than `sample`
    entries it is taken as it is. The draws of a run depend on (seed, its number, agent, t) alone;
    `runs` are the numbers of the runs in this batch (0, 1, 2, ... by default).
    """

    def __init__(
        self,
        module: Module,
        x,
        y,
        history,
        *,
        sample: int,
        seed: int,
        runs: Iterable[int] | None = None,
    ):
        super().__init__(module, x, y, history)
        if sample < 1:
            raise ValueError(f"sample = {sample} must be at least 1")
        self.sample, self.seed = sample, seed
        self.runs = list(range(len(self.history)) if runs is None else runs)
        if len(self.runs) != (there := len(self.history)):
            raise ValueError(
                f"runs has {len(self.runs)} numbers for the {there} runs of the history"
            )

    def _rows(self, t: int) -> np.ndarray:
        seen = self.seen(t)
        if seen.shape[2] <= self.sample:
            return seen
        rows = np.empty((*seen.shape[:2], self.sample), dtype=seen.dtype)
        for position, agent in np.ndindex(*seen.shape[:2]):
            draw = generator(self.seed, Purpose.HISTORY, self.runs[position], agent=agent, t=t)
            chosen = draw.integers(seen.shape[2], size=self.sample)
            rows[position, agent] = seen[position, agent, chosen]
        return rows


def _channels_last(tensor: torch.Tensor) -> torch.Tensor:
    """Return images and kernels with their channels last."""
    return tensor.to(memory_format=torch.channels_last) if tensor.ndim == 4 else tensor


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch compute with one thread, and give its threads back afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _named(run: int, agent: int) -> Iterator[None]:
    """Say in one sentence at which run and agent a computation failed."""
    where = f"run {run} of this batch, agent {agent}"
    try:
        yield
    except ValueError as error:
        kind = NotFinite if isinstance(error, NotFinite) else ValueError
        raise kind(f"{where}: {error}") from error
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise RuntimeError(f"{where}: the module failed: {reason}") from error


def _require_independent_samples(module: nn.Module) -> None:
    for name, layer in module.named_modules():
        if isinstance(layer, nn.modules.dropout._DropoutNd) and layer.training and layer.p > 0:
            why = "dropout draws from torch's global generator; use module.eval()"
            raise ValueError(f"layer {name!r}: {why}")
        if isinstance(layer, BATCH_NORM) and (layer.training or layer.running_mean is None):
            why = "batch statistics make samples influence each other; use module.eval()"
            raise ValueError(f"layer {name!r}: {why}")


def _tensor(array) -> torch.Tensor:
    """Return a tensor, or an array as one; torch warns of read-only arrays, so these are copied."""
    return (
        array
        if isinstance(array, torch.Tensor)
        else torch.as_tensor(np.require(array, requirements="W"))
    )


def _checked_history(history, rows: int) -> np.ndarray:
    history = np.asarray(history)
    if history.ndim != 4 or 0 in history.shape:
        rule = "it must be [runs, agents, data points, samples], none empty"
        raise ValueError(f"history has shape {history.shape}: {rule}")
    return _checked_indices("history", history, rows)


def _checked_indices(name: str, indices: np.ndarray, rows: int) -> np.ndarray:
    if not np.issubdtype(indices.dtype, np.integer):
        raise ValueError(f"{name} has type {indices.dtype}: it must hold row numbers")
    low, high = int(indices.min()), int(indices.max())
    if low < 0 or high >= rows:
        raise ValueError(
            f"{name} holds {low if low < 0 else high}: row numbers must lie in [0, {rows})"
        )
    return indices.astype(np.int64, copy=False)
