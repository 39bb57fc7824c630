"""The gradient of EEGNet on a weighted batch with batch statistics, by hand where it is heavy: what full histories need.

The same function as `EEGNet.forward` (see `eegnet`), filters in front: arrays are [filters, trials, time]. Three things make it
fast. (1) The sums over electrodes of all trials are one matrix product, of spectra that are computed once. (2) The first
normalisation is one scale a filter: its shift is taken away again by the second. (3) Normalisation, ELU and pooling are one
step, with the derivative written out: with c = z - mean, v the variance of z, and A = gamma a / sqrt(a^2 v + eps),

    pooled = pool(ELU(A c + beta)),   q = dL/d(A c + beta),
    dL/dz_bt = A q_bt - share_b / T (A sum q) + 2 share_b / T c_bt dL/dv.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
import torch
from scipy.fft import next_fast_len
from torch import nn

from companion.problems.eegnet import EPS, POOLS, EEGNet, Prepared
from ldp_core.checks import layout


class Trials(NamedTuple):
    """Trials of one weighted batch, ready for `loss`."""

    spectrum: torch.Tensor  # [channels, trials * frequencies * 2], real and imaginary parts side by side
    labels: torch.Tensor  # [trials]
    shares: torch.Tensor  # [trials], what part of the weighted batch each is
    first: torch.Tensor  # [kernel], moments of the weighted batch
    second: torch.Tensor  # [kernel, kernel]


class Loss:
    """The mean cross entropy of a weighted batch as a function of EEGNet's parameters; use with autograd."""

    def __init__(self, network: EEGNet):
        if network.batch_norm != "batch":
            raise ValueError(
                f"batch_norm = {network.batch_norm!r} must be 'batch': the other treatments need no hand-made gradient"
            )
        if network.dropout.p > 0:
            raise ValueError(f"dropout = {network.dropout.p} must be 0: the gradient of a history is not random")
        self.samples, self.kernel, self.depth = network.samples, network.kernel, network.depth
        self.padded = next_fast_len(self.samples + self.kernel - 1, real=True)
        self.separable = network.separable.kernel_size[1]

    def trials(self, prepared: Prepared, labels: torch.Tensor, counts: torch.Tensor) -> Trials:
        """Return prepared trials in the order of this module, in which trial b counts counts[b] times."""
        spectrum = torch.view_as_real(prepared.spectrum).transpose(0, 1).reshape(prepared.spectrum.shape[1], -1)
        return self.counted(Trials(spectrum, labels, *(torch.empty(0),) * 3), prepared, counts)

    def counted(self, trials: Trials, prepared: Prepared, counts: torch.Tensor) -> Trials:
        """Return the first of these trials, as many as `counts` and `prepared` have, with these counts."""
        shares = (counts.double() / counts.sum()).to(prepared.first.dtype)
        first, second = (torch.tensordot(shares, part, 1) for part in (prepared.first, prepared.second))
        width = trials.spectrum.shape[1] // len(trials.labels) * len(counts)
        return Trials(trials.spectrum[:, :width], trials.labels[: len(counts)], shares, first, second)

    def __call__(self, parameters: dict[str, torch.Tensor], trials: Trials) -> torch.Tensor:
        """Return the mean loss of the weighted batch."""
        outputs = self.outputs(parameters, trials)
        return trials.shares @ nn.functional.cross_entropy(outputs, trials.labels, reduction="none")

    def outputs(self, parameters: dict[str, torch.Tensor], trials: Trials) -> torch.Tensor:
        """Return the outputs [trials, classes]."""
        filters = parameters["temporal.weight"][:, 0, 0]
        signals = _Filtered.apply(
            parameters["spatial.weight"][:, 0, :, 0],
            self._filter_spectra(filters),
            trials.spectrum,
            len(trials.shares),
            self.padded,
        )
        mean = filters @ trials.first
        variance = ((filters @ trials.second) * filters).sum(1) - mean**2
        scale = (parameters["norm1.weight"] * torch.rsqrt(variance + EPS)).repeat_interleave(self.depth)
        features = _NormEluPool.apply(
            signals, trials.shares, scale, parameters["norm2.weight"], parameters["norm2.bias"], self.samples, POOLS[0]
        )
        features = torch.bmm(features, self._toeplitz(parameters["separable.weight"][:, 0, 0], features.shape[2]))
        pooled, count = features.shape[2], len(trials.shares)
        features = (parameters["pointwise.weight"][:, :, 0, 0] @ features.view(len(features), -1)).view(-1, count, pooled)
        ones = torch.ones_like(parameters["norm3.weight"])
        features = _NormEluPool.apply(
            features, trials.shares, ones, parameters["norm3.weight"], parameters["norm3.bias"], pooled, POOLS[1]
        )
        flat = features.transpose(0, 1).reshape(count, -1)
        return torch.addmm(parameters["output.bias"], flat, parameters["output.weight"].T)

    def _filter_spectra(self, filters: torch.Tensor) -> torch.Tensor:
        """Return the spectra [F1 D, frequencies] whose product with a signal's is that of its 'same' correlation with w."""
        left = (self.kernel - 1) // 2
        placed = nn.functional.pad(filters.flip(-1), (0, self.padded - self.kernel)).roll(left - self.kernel + 1, -1)
        return torch.fft.rfft(placed).repeat_interleave(self.depth, dim=0)

    def _toeplitz(self, filters: torch.Tensor, length: int) -> torch.Tensor:
        """Return matrices [filters, length, length] that correlate a signal (a row, from the left) with a filter, 'same'."""
        left = (self.separable - 1) // 2
        wide = nn.functional.pad(filters.flip(-1), (length, length))
        start = length + self.separable - 1 - left  # row s, column t holds w[s - t + left]
        return wide[:, start - length + 1 : start + length].unfold(1, length, 1).flip(1)


class _Filtered(torch.autograd.Function):
    """irfft(filter * sum_c s_c spectrum_c) [filters, trials, padded]; what lies beyond the samples is not to be used."""

    @staticmethod
    def forward(ctx, weights, filters, spectrum, trials, padded):
        summed = (weights @ spectrum).view(len(weights), trials, -1, 2)
        product = torch.empty_like(summed)
        _multiply(summed.numpy(), torch.view_as_real(filters).contiguous().numpy(), product.numpy())
        ctx.save_for_backward(filters, spectrum, summed)
        ctx.padded = padded
        return torch.fft.irfft(torch.view_as_complex(product), padded)

    @staticmethod
    def backward(ctx, gradient):
        filters, spectrum, summed = ctx.saved_tensors
        gradient = torch.view_as_real(torch.fft.rfft(gradient))
        of_filters = np.zeros((*filters.shape, 2))
        twice = np.full(filters.shape[1], 2.0 / ctx.padded)  # all frequencies but the ends stand for two
        twice[0] = 1.0 / ctx.padded
        if ctx.padded % 2 == 0:
            twice[-1] = 1.0 / ctx.padded
        kind = summed.numpy().dtype
        of_summed = torch.empty_like(summed)
        _multiply_back(
            gradient.numpy(),
            summed.numpy(),
            torch.view_as_real(filters).numpy(),
            twice.astype(kind),
            of_summed.numpy(),
            of_filters,
        )
        of_weights = of_summed.view(len(of_summed), -1) @ spectrum.T
        return of_weights, torch.view_as_complex(torch.from_numpy(of_filters)).to(filters.dtype), None, None, None


class _NormEluPool(torch.autograd.Function):
    """pool(ELU(A (z - mean) + beta)) of z [filters, trials, at least `samples`], as in the head of this module."""

    @staticmethod
    def forward(ctx, z, shares, scale, gamma, beta, samples, width):
        mean, variance = _statistics(z.numpy(), shares.numpy(), samples)
        root = 1.0 / np.sqrt(scale.numpy().astype(np.float64) ** 2 * variance + EPS)
        slope = gamma.numpy() * scale.numpy() * root
        kind = z.numpy().dtype
        active = torch.empty((*z.shape[:2], samples), dtype=z.dtype)
        _affine(z.numpy(), slope.astype(kind), mean.astype(kind), beta.numpy(), active.numpy())
        nn.functional.elu_(active)
        pooled = torch.empty((*z.shape[:2], samples // width), dtype=z.dtype)
        _pool(active.numpy(), width, pooled.numpy())
        ctx.save_for_backward(z, shares, scale, gamma, active)
        ctx.numbers = mean, root, slope, samples, width
        return pooled

    @staticmethod
    def backward(ctx, gradient):
        z, shares, scale, gamma, active = ctx.saved_tensors
        mean, root, slope, samples, width = ctx.numbers
        kind = z.numpy().dtype
        of_beta, of_slope = _unpool(gradient.contiguous().numpy(), active.numpy(), z.numpy(), mean.astype(kind), width)
        a, g = scale.numpy().astype(np.float64), gamma.numpy().astype(np.float64)
        of_variance = -0.5 * of_slope * g * a**3 * root**3
        of_z = torch.empty_like(z)
        constant, linear = -slope * of_beta / samples, 2.0 * of_variance / samples
        _normalise_back(
            active.numpy(), z.numpy(), shares.numpy(), mean.astype(kind), slope.astype(kind), constant.astype(kind),
            linear.astype(kind), of_z.numpy(),
        )  # fmt: skip
        of_scale, of_gamma = of_slope * g * EPS * root**3, of_slope * a * root
        return of_z, None, *(torch.from_numpy(part).to(z.dtype) for part in (of_scale, of_gamma, of_beta)), None, None


_fast = numba.njit(
    cache=True, fastmath={"reassoc", "contract", "nsz", "arcp"}, nogil=True
)  # NaN and infinity stay what they are


@layout(signals="filters trials frequencies 2", filters="filters frequencies 2", product="filters trials frequencies 2")
@_fast
def _multiply(signals, filters, product):
    for f in range(signals.shape[0]):
        for b in range(signals.shape[1]):
            for k in range(signals.shape[2]):
                x, y, re, im = signals[f, b, k, 0], signals[f, b, k, 1], filters[f, k, 0], filters[f, k, 1]
                product[f, b, k, 0] = x * re - y * im
                product[f, b, k, 1] = x * im + y * re


@layout(
    gradient="filters trials frequencies 2", signals="filters trials frequencies 2", filters="filters frequencies 2",
    twice="frequencies", of_signals="filters trials frequencies 2", of_filters="filters frequencies 2",
)  # fmt: skip
@_fast
def _multiply_back(gradient, signals, filters, twice, of_signals, of_filters):
    """Set the derivatives by both factors of `_multiply`: gradient times the other one's conjugate.

    The sums are copied number by number: to assign them as an array takes numba four seconds more to compile.
    """
    total = np.empty_like(filters[0])
    for f in range(signals.shape[0]):
        total[:] = 0
        for b in range(signals.shape[1]):
            for k in range(signals.shape[2]):
                gx, gy = gradient[f, b, k, 0] * twice[k], gradient[f, b, k, 1] * twice[k]
                x, y, re, im = signals[f, b, k, 0], signals[f, b, k, 1], filters[f, k, 0], filters[f, k, 1]
                of_signals[f, b, k, 0] = gx * re + gy * im
                of_signals[f, b, k, 1] = gy * re - gx * im
                total[k, 0] += gx * x + gy * y
                total[k, 1] += gy * x - gx * y
        for k in range(len(total)):
            of_filters[f, k, 0], of_filters[f, k, 1] = total[k, 0], total[k, 1]


@layout(z="filters trials >=samples", shares="trials", samples=int)
@_fast
def _statistics(z, shares, samples):
    """Return the weighted mean and variance of every filter, in double precision."""
    mean, variance = np.zeros(z.shape[0]), np.zeros(z.shape[0])
    for f in range(z.shape[0]):
        for b in range(z.shape[1]):
            total = z.dtype.type(0)
            for t in range(samples):
                total += z[f, b, t]
            mean[f] += shares[b] * total / samples
        centre = z.dtype.type(mean[f])
        for b in range(z.shape[1]):
            total = z.dtype.type(0)
            for t in range(samples):
                total += (z[f, b, t] - centre) ** 2
            variance[f] += shares[b] * total / samples
    return mean, variance


@layout(
    z="filters trials >=samples", slope="filters", mean="filters", beta="filters", out="filters trials samples",
)  # fmt: skip
@_fast
def _affine(z, slope, mean, beta, out):
    for f in range(out.shape[0]):
        for b in range(out.shape[1]):
            for t in range(out.shape[2]):
                out[f, b, t] = slope[f] * (z[f, b, t] - mean[f]) + beta[f]


@layout(active="filters trials >=width*pooled", width=int, pooled="filters trials pooled")
@_fast
def _pool(active, width, pooled):
    share = active.dtype.type(1 / width)
    for f in range(pooled.shape[0]):
        for b in range(pooled.shape[1]):
            for p in range(pooled.shape[2]):
                total = active.dtype.type(0)
                for k in range(width):
                    total += active[f, b, width * p + k]
                pooled[f, b, p] = total * share


@layout(
    gradient="filters trials pooled", active="filters trials samples>=width*pooled", z="filters trials >=samples",
    mean="filters", width=int,
)  # fmt: skip
@_fast
def _unpool(gradient, active, z, mean, width):
    """Turn the ELU's values into q, the derivative by its argument, in place; return the sums of q and of q (z - mean)."""
    share, one, zero = active.dtype.type(1 / width), active.dtype.type(1), active.dtype.type(0)
    of_beta, of_slope = np.zeros(active.shape[0]), np.zeros(active.shape[0])
    for f in range(active.shape[0]):
        for b in range(active.shape[1]):
            for p in range(gradient.shape[2]):
                g = gradient[f, b, p] * share
                for k in range(width * p, width * p + width):
                    active[f, b, k] = g * (min(active[f, b, k], zero) + one)
            active[f, b, width * gradient.shape[2] :] = 0
            total, moment = zero, zero
            for t in range(active.shape[2]):
                total += active[f, b, t]
                moment += active[f, b, t] * (z[f, b, t] - mean[f])
            of_beta[f] += total
            of_slope[f] += moment
    return of_beta, of_slope


@layout(
    q="filters trials samples", z="filters trials >=samples", shares="trials", mean="filters", slope="filters",
    constant="filters", linear="filters", of_z="filters trials >=samples",
)  # fmt: skip
@_fast
def _normalise_back(q, z, shares, mean, slope, constant, linear, of_z):
    for f in range(q.shape[0]):
        for b in range(q.shape[1]):
            c, k = constant[f] * shares[b], linear[f] * shares[b]
            for t in range(q.shape[2]):
                of_z[f, b, t] = slope[f] * q[f, b, t] + c + k * (z[f, b, t] - mean[f])
            of_z[f, b, q.shape[2] :] = 0
