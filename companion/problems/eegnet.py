"""EEGNet (Lawhern et al. 2018, doi:10.1088/1741-2552/aace8c), computed in the cheap order: electrodes first, then time.

As published, a temporal filter of half a second runs over every electrode, a batch normalisation follows, and only then are the
electrodes added up. Filter and sum are both linear and the normalisation between them is one scale and one shift a filter, so

    sum_c s_c BN(w * x_c) = (gamma / sigma) (w * sum_c s_c x_c) + (beta - gamma mu / sigma) sum_c s_c,

and the filter runs over one signal instead of one an electrode, here as a product of spectra. What remains are mu and sigma^2,
the mean and variance of w * x over trials, electrodes and time, which are w . m and w' A w - mu^2: m and A (`moments`) are sums
over trials that depend on no parameter. With 'same' padding all this is exact, not only in the middle of a trial.

A weighted batch counts trial b `counts[b]` times; every statistic and every loss is that of the batch with the trial repeated.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from scipy.fft import next_fast_len
from torch import nn

from companion.problems.parameters import BATCH_NORM

BATCH_NORMS = ("batch", "fixed", "none")
EPS = 1e-3  # of all normalisations, as in the authors' code (Keras's default)
POOLS = (4, 8)
SPATIAL_NORM, OUTPUT_NORM = 1.0, 0.25  # the authors' max-norm constraints

Statistics = list[tuple[torch.Tensor, torch.Tensor]]  # (mean, variance) per filter, of the three normalisations in order


class Prepared(NamedTuple):
    """What EEGNet needs to know of trials, and what no parameter changes: can be computed once and kept."""

    spectrum: torch.Tensor  # [trials, channels, frequencies], complex, of the trials followed by zeros
    first: torch.Tensor | None = None  # m [trials, kernel]
    second: torch.Tensor | None = None  # A [trials, kernel, kernel]

    def select(self, rows: torch.Tensor) -> Prepared:
        """Return some of the trials."""
        return Prepared(*(None if part is None else part.index_select(0, rows) for part in self))

    def head(self, count: int) -> Prepared:
        """Return the first `count` trials, without a copy."""
        return Prepared(*(None if part is None else part[:count] for part in self))


class EEGNet(nn.Module):
    """The outputs [trials, classes] of EEG trials [trials, channels, samples] at `fs` samples a second.

    F1 temporal filters of fs/2 samples, D spatial filters each, pooling by 4; separable filters of fs/8 samples, F2 of them,
    pooling by 8; ELU; one linear layer. `batch_norm` says where normalisation takes its statistics from:

    "batch": from the weighted batch itself, which makes its samples influence each other
    "fixed": from its buffers, set by `calibrate` (zero and one before): then samples are independent
    "none":  nowhere, there is no normalisation

    `dropout` acts in training mode alone and draws from torch's generator. `max_norm` is enforced by `constrain`, after a step.
    """

    def __init__(
        self,
        channels: int,
        samples: int,
        fs: float,
        classes: int,
        *,
        F1: int = 8,
        D: int = 2,
        F2: int = 16,
        batch_norm: str = "batch",
        dropout: float = 0.0,
        max_norm: bool = False,
    ):
        super().__init__()
        for name, value in (("channels", channels), ("classes", classes), ("F1", F1), ("D", D), ("F2", F2)):
            if value < 1:
                raise ValueError(f"{name} = {value} must be at least 1")
        if batch_norm not in BATCH_NORMS:
            raise ValueError(f"batch_norm = {batch_norm!r} must be one of {', '.join(BATCH_NORMS)}")
        if not fs >= 8:
            raise ValueError(f"fs = {fs} must be at least 8 Hz, so that a filter of fs/8 has a sample")
        if samples < math.prod(POOLS):
            raise ValueError(
                f"samples = {samples} must be at least {math.prod(POOLS)}, what the two poolings make one number of"
            )
        self.channels, self.samples, self.batch_norm, self.max_norm = channels, samples, batch_norm, max_norm
        self.kernel, self.depth = int(fs / 2), D
        self.temporal = nn.Conv2d(1, F1, (1, self.kernel), bias=False)
        self.norm1 = self._norm(F1)
        self.spatial = nn.Conv2d(F1, F1 * D, (channels, 1), groups=F1, bias=False)
        self.norm2 = self._norm(F1 * D)
        self.separable = nn.Conv2d(F1 * D, F1 * D, (1, int(fs / 8)), groups=F1 * D, bias=False)
        self.pointwise = nn.Conv2d(F1 * D, F2, 1, bias=False)
        self.norm3 = self._norm(F2)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(F2 * (samples // POOLS[0] // POOLS[1]), classes)
        self.train(self.training)

    def forward(
        self, x: torch.Tensor | Prepared, counts: torch.Tensor | None = None, statistics: Statistics | None = None
    ) -> torch.Tensor:
        """Return the outputs [trials, classes] of trials [trials, channels, samples], in which trial b counts counts[b] times.

        Trials that are used again may be prepared once; `statistics`, where given, replace those of the batch or the buffers.
        """
        trials = x if isinstance(x, Prepared) else self.prepare(x)
        return self._outputs(trials, _shares(trials, counts), statistics or [])[0]

    def prepare(self, x: torch.Tensor) -> Prepared:
        """Return what can be kept of trials [trials, channels, samples]; differentiable, so that attacks can use it too."""
        if self.batch_norm == "batch":
            return self.prepare_for_statistics(x)
        return Prepared(self._spectrum(x))

    def prepare_for_statistics(self, x: torch.Tensor) -> Prepared:
        """Return what `prepare` does, always with the moments from which `statistics` are taken."""
        return Prepared(self._spectrum(x), *moments(x, self.kernel))

    def statistics(self, trials: Prepared, counts: torch.Tensor | None = None) -> Statistics:
        """Return mean and variance that the three normalisations would take from this weighted batch."""
        return self._outputs(trials, _shares(trials, counts), [], wanted=True)[1]

    @torch.no_grad()
    def calibrate(self, x: torch.Tensor, counts: torch.Tensor | None = None) -> None:
        """Set the buffers of "fixed" normalisations to the statistics of these trials at the present parameters."""
        if self.batch_norm != "fixed":
            raise ValueError(f"batch_norm = {self.batch_norm!r} must be 'fixed': only fixed statistics can be set")
        found = self.statistics(self.prepare_for_statistics(x), counts)
        for layer, (mean, variance) in zip(self._norms, found, strict=True):
            layer.running_mean.copy_(mean)
            layer.running_var.copy_(variance)

    @torch.no_grad()
    def constrain(self) -> None:
        """Shrink spatial filters and output rows that are longer than the authors' limits, if `max_norm`: call after a step."""
        if self.max_norm:
            self.spatial.weight.copy_(torch.renorm(self.spatial.weight, 2, 0, SPATIAL_NORM))
            self.output.weight.copy_(torch.renorm(self.output.weight, 2, 0, OUTPUT_NORM))

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
        return [layer for layer in (self.norm1, self.norm2, self.norm3) if isinstance(layer, BATCH_NORM)]

    @property
    def _padded(self) -> int:
        """Return the length of the Fourier transform: at least signal and filter together, so that nothing wraps around."""
        return next_fast_len(self.samples + self.kernel - 1, real=True)

    def _spectrum(self, x: torch.Tensor) -> torch.Tensor:
        if x.ndim != 3 or x.shape[1:] != (self.channels, self.samples):
            raise ValueError(f"x has shape {tuple(x.shape)}, it must be [trials, {self.channels}, {self.samples}]")
        return torch.fft.rfft(x, self._padded)

    def _outputs(
        self, trials: Prepared, shares: torch.Tensor, given: Statistics, wanted: bool = False
    ) -> tuple[torch.Tensor, Statistics]:
        """Return the outputs, and the statistics used (empty where nothing is normalised)."""
        used = list(given) or self._stored(wanted)
        weights = self.spatial.weight[:, 0, :, 0]
        signals = self._filtered(trials.spectrum, weights)
        if self._norms:
            if not given and len(used) < 1:
                used.append(self._temporal_statistics(trials, shares))
            signals = self._first_norm(signals, weights, *used[0])
        features = self._block(signals, shares, 1, used)
        features = self.dropout(nn.functional.avg_pool1d(features, POOLS[0]))
        features = self.pointwise(self.separable(self._same(features)[:, :, None])).squeeze(2)
        features = self._block(features, shares, 2, used)
        features = self.dropout(nn.functional.avg_pool1d(features, POOLS[1]))
        return self.output(features.flatten(1)), used

    def _same(self, features: torch.Tensor) -> torch.Tensor:
        """Return the features between the zeros of the separable filter's 'same' padding."""
        more = self.separable.kernel_size[1] - 1
        return nn.functional.pad(features, (more // 2, more - more // 2))

    def _stored(self, wanted: bool) -> Statistics:
        """Return the buffers' statistics, or nothing where they are to be taken from the batch."""
        if self.batch_norm != "fixed" or wanted:
            return []
        return [(layer.running_mean, layer.running_var) for layer in self._norms]

    def _filtered(self, spectrum: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """Return w_f * (sum_c s_c x_c) [trials, F1 D, samples]: 'same' correlation, as a product of spectra."""
        trials, channels, frequencies = spectrum.shape
        summed = torch.matmul(weights, torch.view_as_real(spectrum).reshape(trials, channels, -1))
        summed = torch.view_as_complex(summed.view(trials, -1, frequencies, 2))
        filters = torch.fft.rfft(self.temporal.weight[:, 0, 0].flip(-1), self._padded)
        filters = filters.repeat_interleave(self.depth, dim=0)
        start = self.kernel - 1 - (self.kernel - 1) // 2
        return torch.fft.irfft(summed * filters, self._padded)[..., start : start + self.samples]

    def _temporal_statistics(self, trials: Prepared, shares: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return mean and variance of w_f * x over trials, channels and time, from the cached moments."""
        filters = self.temporal.weight[:, 0, 0]
        first = torch.tensordot(shares, trials.first, 1)
        second = torch.tensordot(shares, trials.second, 1)
        mean = filters @ first
        return mean, ((filters @ second) * filters).sum(1) - mean**2

    def _first_norm(self, signals, weights, mean, variance) -> torch.Tensor:
        """Return the signals as if their electrodes had been normalised before they were added up."""
        scale = self.norm1.weight * torch.rsqrt(variance + EPS)
        shift = (self.norm1.bias - scale * mean).repeat_interleave(self.depth) * weights.sum(1)
        return signals * scale.repeat_interleave(self.depth)[:, None] + shift[:, None]

    def _block(self, features: torch.Tensor, shares: torch.Tensor, number: int, used: Statistics) -> torch.Tensor:
        """Return ELU of the normalised features, whose statistics are added to `used` where it has none."""
        if not self._norms:
            return nn.functional.elu(features)
        if len(used) > number:
            mean, variance = used[number]
            centred = features - mean[:, None]
        else:
            mean = shares @ features.mean(-1)
            centred = features - mean[:, None]
            variance = shares @ centred.square().mean(-1)
            used.append((mean, variance))
        layer = self._norms[number]
        return nn.functional.elu(centred * (layer.weight * torch.rsqrt(variance + EPS))[:, None] + layer.bias[:, None])


def moments(x: torch.Tensor, kernel: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return m [trials, kernel] and A [trials, kernel, kernel] of trials [trials, channels, samples].

    With p the trial between the zeros of 'same' padding, m_j is the mean over channels and t < samples of p[t + j], and A_jk
    that of p[t + j] p[t + k]. The first row of A is a correlation; along a diagonal a product leaves and one enters:
    A_{j+1,k+1} = A_jk - p[j] p[k] + p[j + samples] p[k + samples], which makes A as cheap as a few spectra.
    """
    _, channels, samples = x.shape
    left = (kernel - 1) // 2
    padded = nn.functional.pad(x, (left, kernel - 1 - left))
    total = channels * samples
    sums = nn.functional.pad(padded.sum(1).cumsum(-1), (1, 0))
    first = (sums[:, samples:] - sums[:, :kernel]) / total
    return first, _second_moment(padded, samples, kernel) / total


def _second_moment(padded: torch.Tensor, samples: int, kernel: int) -> torch.Tensor:
    length = next_fast_len(padded.shape[-1] + samples, real=True)
    head = torch.fft.rfft(padded[..., :samples], length)
    row = torch.fft.irfft((head.conj() * torch.fft.rfft(padded, length)).sum(1), length)[:, :kernel]
    leaving, entering = padded[..., : kernel - 1], padded[..., samples : samples + kernel - 1]
    change = entering.mT @ entering - leaving.mT @ leaving  # [trials, kernel - 1, kernel - 1]
    j = torch.arange(kernel)
    lag = (j[None] - j[:, None]).abs()  # A_jk lies on diagonal |j - k|, min(j, k) steps from the first row
    steps = torch.minimum(j[None], j[:, None])
    below = torch.clamp(j[: kernel - 1, None] + j[None], max=kernel - 2)
    inside = (j[: kernel - 1, None] + j[None] < kernel - 1).to(padded.dtype)
    diagonals = change[:, j[: kernel - 1, None], below] * inside  # [trials, step, lag]
    along = nn.functional.pad(diagonals.cumsum(1), (0, 0, 1, 0)) + row[:, None]
    return along[:, steps, lag]


def _shares(trials: Prepared, counts: torch.Tensor | None) -> torch.Tensor:
    """Return the share of every trial in the weighted batch."""
    like = trials.spectrum.real
    if counts is None:
        return like.new_full((len(like),), 1 / len(like))
    counts = torch.as_tensor(counts, dtype=like.dtype)
    return counts / counts.sum()
