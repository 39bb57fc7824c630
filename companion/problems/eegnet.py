"""EEGNet (Lawhern et al. 2018, doi:10.1088/1741-2552/aace8c), in the cheap order: electrodes first.

As published, a temporal filter of half a second runs over every electrode, a batch normalisation
follows, and only then are the electrodes added up. Filter and sum are both linear and the
normalisation between them is one scale and one shift a filter, so

    sum_c s_c BN(w * x_c)
        = (gamma / sigma) (w * sum_c s_c x_c) + (beta - gamma mu / sigma) sum_c s_c,

and the filter runs over one signal instead of one an electrode, here as a product of spectra. What
remains are mu and sigma^2, the mean and variance of w * x over trials, electrodes and time, which
are w . m and w' A w - mu^2: m and A (`moments`) are sums over trials that depend on no parameter.
With 'same' padding all this is exact, not only in the middle of a trial.

There is one forward pass (`EEGNet.outputs`), for one set of parameters or for one a trial and
state. What a normalisation takes the mean over is handed to it (`of_batch`, `of_each`): a weighted
batch counts trial b `counts[b]` times, so that every statistic is that of the batch with the trial
repeated; an attacker sees every trial as a batch of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch
from scipy.fft import next_fast_len
from torch import nn

from companion.problems.parameters import BATCH_NORM

F1, DEPTH, F2 = 8, 2, 16  # temporal filters, spatial filters of each; those of the second block
EPS = 1e-3  # of all normalisations, as in the authors' code (Keras's default)
POOLS = (4, 8)
SPATIAL_NORM, OUTPUT_NORM = 1.0, 0.25  # the authors' max-norm constraints

Statistics = Sequence[tuple[torch.Tensor, torch.Tensor]]  # (mean, variance) of three normalisations
Average = Callable[[torch.Tensor], torch.Tensor]  # values [trials, ...] -> means over a batch


class Prepared(NamedTuple):
    """What EEGNet needs to know of trials and no parameter changes: can be computed once."""

    spectrum: torch.Tensor  # [trials, channels, frequencies], of the trials followed by zeros
    first: torch.Tensor | None = None  # m [trials, kernel]
    second: torch.Tensor | None = None  # A [trials, kernel, kernel]

    def select(self, rows: torch.Tensor) -> Prepared:
        """Return some of the trials."""
        return Prepared(*(None if part is None else part.index_select(0, rows) for part in self))

    def head(self, count: int) -> Prepared:
        """Return the first `count` trials, without a copy."""
        return Prepared(*(None if part is None else part[:count] for part in self))


def of_batch(shares: torch.Tensor) -> Average:
    """Return the mean over a batch in which each trial has its share."""
    return lambda values: torch.tensordot(shares, values, 1)[None]


def of_each(values: torch.Tensor) -> torch.Tensor:
    """Return the means of trials that are a batch of their own each: the values themselves."""
    return values


class EEGNet(nn.Module):
    """The outputs [trials, classes] of trials [trials, channels, samples] at `fs` samples a second.

    Temporal filters of fs/2 samples, two spatial filters each, pooling by 4; separable filters of
    fs/8 samples, pooling by 8; ELU; one linear layer. `batch_norm` says where normalisation takes
    its statistics from:

    "batch": from the weighted batch itself, which makes its samples influence each other
    "fixed": from its buffers, zero and one unless they are set: samples are independent
    "none":  nowhere, there is no normalisation

    `dropout` acts in training mode alone and draws from torch's generator.
    """

    def __init__(
        self,
        channels: int,
        samples: int,
        fs: float,
        classes: int,
        *,
        batch_norm: str = "batch",
        dropout: float = 0.0,
    ):
        super().__init__()
        if not fs >= 8:
            rule = "must be at least 8 Hz, so that a filter of fs/8 has a sample"
            raise ValueError(f"fs = {fs} {rule}")
        if samples < (fewest := math.prod(POOLS)):
            rule = f"must be at least {fewest}, the product of the pools"
            raise ValueError(f"samples = {samples} {rule}")
        self.channels, self.samples, self.batch_norm = channels, samples, batch_norm
        self.kernel, both = int(fs / 2), F1 * DEPTH
        self.temporal = nn.Conv2d(1, F1, (1, self.kernel), bias=False)
        self.norm1 = self._norm(F1)
        self.spatial = nn.Conv2d(F1, both, (channels, 1), groups=F1, bias=False)
        self.norm2 = self._norm(both)
        self.separable = nn.Conv2d(both, both, (1, int(fs / 8)), groups=both, bias=False)
        self.pointwise = nn.Conv2d(both, F2, 1, bias=False)
        self.norm3 = self._norm(F2)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(F2 * (samples // POOLS[0] // POOLS[1]), classes)
        self.train(self.training)

    def forward(self, x: torch.Tensor | Prepared, statistics: Statistics = ()) -> torch.Tensor:
        """Return the outputs [trials, classes] of trials.

        Trials that are used again may be prepared once; `statistics`, where given, replace those of
        the batch or the buffers.
        """
        trials = x if isinstance(x, Prepared) else self.prepare(x)
        average = of_batch(shares(trials))
        return self.outputs(self._own(), trials, average, statistics or self.stored())[0][:, 0]

    def outputs(
        self,
        own: Mapping[str, torch.Tensor],
        trials: Prepared,
        average: Average,
        statistics: Statistics = (),
    ) -> tuple[torch.Tensor, Statistics]:
        """Return the outputs [trials, states, classes], and the statistics used (maybe none).

        `own` are the parameters by name, with [trials or 1, states] in front of each shape.
        """
        used, given = list(statistics), bool(statistics)
        spatial = own["spatial.weight"][..., 0, :, 0]
        temporal = own["temporal.weight"][..., 0, 0, :]
        if self.batch_norm != "none":
            if not given:
                used.append(_temporal_statistics(temporal, trials, average))
            mean, variance = used[0]
            scale = own["norm1.weight"] * torch.rsqrt(variance + EPS)
            temporal = temporal * scale[..., None]
        features = self._filtered(trials.spectrum, spatial, temporal)
        if self.batch_norm == "fixed":  # from a batch, the second normalisation takes it away
            shift = (own["norm1.bias"] - scale * mean).repeat_interleave(DEPTH, dim=2)
            features = features + (shift * spatial.sum(-1))[..., None]
        features = self._block(own, features, 1, average, used, given)
        features = _same(features, own["separable.weight"][..., 0, 0, :])
        features = torch.matmul(own["pointwise.weight"][..., 0, 0], features)
        features = self._block(own, features, 2, average, used, given).flatten(2)
        outputs = torch.matmul(own["output.weight"], features[..., None])[..., 0]
        return outputs + own["output.bias"], used

    def prepare(self, x: torch.Tensor) -> Prepared:
        """Return what can be kept of trials; differentiable, so that attacks can use it too."""
        if self.batch_norm == "batch":
            return self.prepare_for_statistics(x)
        return Prepared(self._spectrum(x))

    def prepare_for_statistics(self, x: torch.Tensor) -> Prepared:
        """Return what `prepare` does, always with the moments from which `statistics` are taken."""
        return Prepared(self._spectrum(x), *moments(x, self.kernel))

    def statistics(self, trials: Prepared) -> Statistics:
        """Return mean and variance that the normalisations would take from this batch."""
        return self.outputs(self._own(), trials, of_batch(shares(trials)))[1]

    @torch.no_grad()
    def constrain(self) -> None:
        """Shrink spatial filters and output rows beyond the authors' limits: call after a step."""
        for weight, most in (
            (self.spatial.weight, SPATIAL_NORM),
            (self.output.weight, OUTPUT_NORM),
        ):
            weight.copy_(torch.renorm(weight, 2, 0, most))

    def train(self, mode: bool = True) -> EEGNet:
        """Set training mode; normalisations with fixed statistics stay as they are."""
        super().train(mode)
        for layer in self._norms:
            layer.train(mode and self.batch_norm == "batch")
        return self

    def _norm(self, filters: int) -> nn.Module:
        if self.batch_norm == "none":
            return nn.Identity()
        return nn.BatchNorm2d(filters, eps=EPS, track_running_stats=self.batch_norm == "fixed")

    @property
    def _norms(self) -> list[nn.Module]:
        layers = (self.norm1, self.norm2, self.norm3)
        return [layer for layer in layers if isinstance(layer, BATCH_NORM)]

    def _own(self) -> dict[str, torch.Tensor]:
        """Return the module's own parameters, of one state for all trials."""
        return {name: value[None, None] for name, value in self.named_parameters()}

    def stored(self) -> Statistics:
        """Return the buffers' statistics, or nothing where they are to be taken from the batch."""
        if self.batch_norm != "fixed":
            return ()
        return [(layer.running_mean, layer.running_var) for layer in self._norms]

    def _spectrum(self, x: torch.Tensor) -> torch.Tensor:
        if x.ndim != 3 or x.shape[1:] != (self.channels, self.samples):
            raise ValueError(
                f"x has shape {tuple(x.shape)}, it must be [trials, {self.channels}, "
                f"{self.samples}]"
            )
        return torch.fft.rfft(x, _long_enough(self.samples, self.kernel))

    def _filtered(self, spectrum, spatial, temporal) -> torch.Tensor:
        """Return w_f * (sum_c s_c x_c) [trials, states, filters, samples], from spectra."""
        trials, channels, frequencies = spectrum.shape
        rows = torch.view_as_real(spectrum).reshape(trials, channels, -1)
        summed = torch.bmm(spatial.flatten(1, 2).expand(trials, -1, -1), rows)
        shape = (trials, *spatial.shape[1:3], frequencies, 2)
        summed = torch.view_as_complex(summed.view(shape))
        length = _long_enough(self.samples, self.kernel)
        kernels = torch.fft.rfft(temporal.flip(-1), length).repeat_interleave(DEPTH, dim=2)
        start = self.kernel - 1 - (self.kernel - 1) // 2
        return torch.fft.irfft(summed * kernels, length)[..., start : start + self.samples]

    def _block(self, own, features, number: int, average, used: list, given: bool) -> torch.Tensor:
        """Return the pooled ELU of normalised features; their statistics are added to `used`."""
        if self.batch_norm != "none":
            if not given:
                used.append(_moments_of(features, average))
            name, (mean, variance) = f"norm{number + 1}", used[number]
            scale = own[f"{name}.weight"] * torch.rsqrt(variance + EPS)
            shift = own[f"{name}.bias"] - scale * mean
            features = torch.addcmul(shift[..., None], features, scale[..., None])
        return self.dropout(_pooled(nn.functional.elu(features), POOLS[number - 1]))


def shares(trials: Prepared, counts: torch.Tensor | None = None) -> torch.Tensor:
    """Return the share of every trial in the weighted batch."""
    like = trials.spectrum.real
    counts = torch.ones(len(like)) if counts is None else torch.as_tensor(counts)
    return (counts.double() / counts.sum()).to(like.dtype)


def moments(x: torch.Tensor, kernel: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return m [trials, kernel] and A [trials, kernel, kernel] of trials.

    With p the trial between the zeros of 'same' padding, m_j is the mean over channels and
    t < samples of p[t + j], and A_jk that of p[t + j] p[t + k]. The first row of A is a
    correlation; along a diagonal a product leaves and one enters:
    A_{j+1,k+1} = A_jk - p[j] p[k] + p[j + samples] p[k + samples], which makes A as cheap as a few
    spectra.
    """
    _, channels, samples = x.shape
    left = (kernel - 1) // 2
    padded = nn.functional.pad(x, (left, kernel - 1 - left))
    total = channels * samples
    sums = nn.functional.pad(padded.sum(1).cumsum(-1), (1, 0))
    first = (sums[:, samples:] - sums[:, :kernel]) / total
    return first, _second_moment(padded, samples, kernel) / total


def _second_moment(padded: torch.Tensor, samples: int, kernel: int) -> torch.Tensor:
    length = next_fast_len(padded.shape[-1], real=True)  # no lag below `kernel` wraps around
    head = torch.fft.rfft(padded[..., :samples], length)
    row = torch.fft.irfft((head.conj() * torch.fft.rfft(padded, length)).sum(1), length)[:, :kernel]
    leaving, entering = padded[..., : kernel - 1], padded[..., samples : samples + kernel - 1]
    change = entering.mT @ entering - leaving.mT @ leaving  # [trials, kernel - 1, kernel - 1]
    j = torch.arange(kernel)
    lag = (j[None] - j[:, None]).abs()  # A_jk lies on diagonal |j - k|, min(j, k) steps down
    steps = torch.minimum(j[None], j[:, None])
    below = torch.clamp(j[: kernel - 1, None] + j[None], max=kernel - 2)
    inside = (j[: kernel - 1, None] + j[None] < kernel - 1).to(padded.dtype)
    diagonals = change[:, j[: kernel - 1, None], below] * inside  # [trials, step, lag]
    along = nn.functional.pad(diagonals.cumsum(1), (0, 0, 1, 0)) + row[:, None]
    return along[:, steps, lag]


def _temporal_statistics(temporal: torch.Tensor, trials: Prepared, average: Average):
    """Return mean and variance of w_f * x over trials, channels and time, from the moments."""
    mean = torch.einsum("nsfk,nk->nsf", temporal, average(trials.first))
    square = torch.matmul(temporal.flatten(1, 2), average(trials.second)).view_as(temporal)
    return mean, (square * temporal).sum(-1) - mean**2


def _moments_of(features: torch.Tensor, average: Average) -> tuple[torch.Tensor, torch.Tensor]:
    """Return mean and variance of features over time and the trials of a batch."""
    mean, square = (average(part) for part in _Moments.apply(features))
    return mean, square - mean**2


class _Moments(torch.autograd.Function):
    """Means over time of features, and of their squares; one pass over these goes back."""

    @staticmethod
    def forward(ctx, features):
        ctx.save_for_backward(features)
        return features.mean(-1), torch.linalg.vecdot(features, features) / features.shape[-1]

    @staticmethod
    def backward(ctx, mean, square):
        (features,) = ctx.saved_tensors
        samples = features.shape[-1]
        return torch.addcmul(mean[..., None] / samples, features, square[..., None] * (2 / samples))


def _pooled(features: torch.Tensor, width: int) -> torch.Tensor:
    """Return the means of `width` samples in a row, as a product, several times faster than torch's
    pooling; what is left over at the end is cut."""
    cells = features.shape[-1] // width
    rows = features[..., : cells * width].reshape(-1, width)
    return (rows @ rows.new_full((width,), 1.0 / width)).view(*features.shape[:-1], cells)


def _same(features: torch.Tensor, kernels: torch.Tensor) -> torch.Tensor:
    """Return the 'same' correlation of features [..., samples] with kernels [..., width]."""
    samples, width = features.shape[-1], kernels.shape[-1]
    length, start = _long_enough(samples, width), width - 1 - (width - 1) // 2
    product = torch.fft.rfft(features, length) * torch.fft.rfft(kernels.flip(-1), length)
    return torch.fft.irfft(product, length)[..., start : start + samples]


def _long_enough(samples: int, kernel: int) -> int:
    """Return the length of a transform in which nothing wraps around into what 'same' keeps.

    A filter reaches (kernel - 1) / 2 samples beyond either end; both may share the same zeros.
    """
    return next_fast_len(samples + kernel // 2, real=True)
