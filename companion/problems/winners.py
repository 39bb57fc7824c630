"""A 3x3 convolution followed by 2x2 max pooling whose gradient visits the winners alone.

    y = max_pool2d(conv2d(x, weight, bias, padding=1), 2)

Of the four numbers under a pool only the winner has a derivative, and behind a ReLU many winners have none either: at least
three quarters of the gradient that reaches the convolution are zeros. Libraries multiply by them. Here each winner (position p,
channel k) with derivative g adds g times the 3x3 patch of the input around p to the gradient of weight_k, and g times weight_k
to the gradient of that patch, and the others add nothing: the same sums with at most a quarter of the terms.

Where the side of the image is odd, pooling drops its last row and column; they are not computed. Images lie channel by channel
at each position (torch's channels_last), so that a row of a patch is one stretch of memory. Derivatives of first order only.
Zeros are skipped, not multiplied: where a weight or a pixel is infinite, torch makes a NaN of them and we do not.
"""

from __future__ import annotations

import numba
import numpy as np
import torch
from torch import nn
from torch.autograd.function import once_differentiable

from ldp_core.checks import layout

CONTRACT = {"contract"}  # a multiplication and an addition may become one instruction; nothing is reassociated


class PooledConvolution(torch.autograd.Function):
    """`PooledConvolution.apply(images [batch, in, side, side], weight [out, in, 3, 3], bias [out])` -> what was pooled."""

    @staticmethod
    def forward(ctx, images: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        """Return the largest of every four outputs of the convolution; a number that is not one (NaN) is the largest."""
        _check(images, weight, bias)
        padded, kernel = _padded(images), _channels_last(weight)
        batch, high, wide, channels = padded.shape
        shape = (batch, high // 2 - 1, wide // 2 - 1, len(kernel))
        pooled, winner = padded.new_empty(shape), torch.empty(shape, dtype=torch.uint8)
        if channels == 1:
            by_tap = kernel.flatten(1).T.contiguous()
            _convolve_and_pool(padded[..., 0].numpy(), by_tap.numpy(), bias.numpy(), pooled.numpy(), winner.numpy())
        else:
            sums = nn.functional.conv2d(_channels_first(padded), _channels_first(kernel), bias)
            _pool(_channels_last(sums).numpy(), pooled.numpy(), winner.numpy())
        ctx.save_for_backward(padded, kernel, winner)
        ctx.sides = images.shape[2:]
        return _channels_first(pooled)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: torch.Tensor):
        """Return the gradients of images (where they are wanted), weight and bias."""
        padded, kernel, winner = ctx.saved_tensors
        gradient = _channels_last(gradient)
        if padded.shape[3] == 1 and not ctx.needs_input_grad[0]:
            by_tap = kernel.new_zeros(9, len(kernel))
            _backward_of_one_channel(gradient.numpy(), winner.numpy(), padded[..., 0].numpy(), by_tap.numpy())
            return None, by_tap.T.reshape(-1, 1, 3, 3), gradient.sum(dim=(0, 1, 2))
        d_kernel, d_padded = torch.zeros_like(kernel), torch.zeros_like(padded)
        _backward(*(part.numpy() for part in (gradient, winner, padded, kernel, d_kernel, d_padded)))
        high, wide = ctx.sides
        d_images = d_padded[:, 1 : 1 + high, 1 : 1 + wide]
        return _channels_first(d_images), _channels_first(d_kernel), gradient.sum(dim=(0, 1, 2))


def _check(images: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> None:
    """Raise where the compiled loops would read beyond an array."""
    if images.ndim != 4 or min(images.shape[2:]) < 2:
        raise ValueError(
            f"images have shape {tuple(images.shape)}: it must be [batch, channels, high, wide], both sides 2 or more"
        )
    if weight.shape[1:] != (images.shape[1], 3, 3) or bias.shape != weight.shape[:1]:
        raise ValueError(
            f"weight has shape {tuple(weight.shape)} and bias {tuple(bias.shape)}: they must be [out, {images.shape[1]}, 3, 3] "
            "and [out]"
        )
    if not images.dtype == weight.dtype == bias.dtype:
        raise ValueError(f"images, weight and bias are {images.dtype}, {weight.dtype}, {bias.dtype}: they must be of one type")


def _channels_last(tensor: torch.Tensor) -> torch.Tensor:
    """Return `[batch, channels, high, wide]` as a contiguous `[batch, high, wide, channels]`, a view where it can be one."""
    return tensor.permute(0, 2, 3, 1).contiguous()


def _channels_first(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.permute(0, 3, 1, 2)


def _padded(images: torch.Tensor) -> torch.Tensor:
    """Return images `[batch, high + 2, wide + 2, channels]` with zeros around, without a last row or column nobody looks at."""
    batch, channels, high, wide = images.shape
    padded = images.new_zeros(batch, 2 * (high // 2) + 2, 2 * (wide // 2) + 2, channels)
    padded[:, 1 : 1 + high, 1 : 1 + wide] = images.permute(0, 2, 3, 1)
    return padded


@layout(sums="batch >=2*high >=2*wide channels", pooled="batch high wide channels", winner="batch high wide channels")
@numba.njit(nogil=True, cache=True, fastmath=CONTRACT)
def _pool(sums, pooled, winner):
    """Write the largest of every 2x2 numbers, and which it was: 0 to 3 row by row, the first of equals."""
    batch, high, wide, channels = pooled.shape
    for n in range(batch):
        for i in range(high):
            for j in range(wide):
                best, place = pooled[n, i, j], winner[n, i, j]
                first, second = sums[n, 2 * i, 2 * j], sums[n, 2 * i, 2 * j + 1]
                third, fourth = sums[n, 2 * i + 1, 2 * j], sums[n, 2 * i + 1, 2 * j + 1]
                for k in range(channels):
                    best[k], place[k] = _largest(first[k], second[k], third[k], fourth[k])


@numba.njit(nogil=True, inline="always")
def _largest(first, second, third, fourth):
    """Return the largest of four numbers and its place, the first of equals; one that is not a number wins."""
    best, place = first, numba.uint8(0)
    if second > best or second != second:
        best, place = second, numba.uint8(1)
    if third > best or third != third:
        best, place = third, numba.uint8(2)
    if fourth > best or fourth != fourth:
        best, place = fourth, numba.uint8(3)
    return best, place


@layout(
    padded="batch 2*high+2 2*wide+2", weight="9 channels", bias="channels", pooled="batch high wide channels",
    winner="batch high wide channels",
)  # fmt: skip
@numba.njit(nogil=True, cache=True, fastmath=CONTRACT)
def _convolve_and_pool(padded, weight, bias, pooled, winner):
    """Convolve images of one channel with `weight [9 taps, out]` and pool, without writing down what the pool drops.

    Sixteen pixels give four outputs. They are spelt out, so that the loop over the channels becomes one of vectors.
    """
    batch, high, wide, channels = pooled.shape
    t0, t1, t2 = weight[0], weight[1], weight[2]
    t3, t4, t5 = weight[3], weight[4], weight[5]
    t6, t7, t8 = weight[6], weight[7], weight[8]
    for n in range(batch):
        for i in range(high):
            for j in range(wide):
                above, upper, lower, below = padded[n, 2 * i], padded[n, 2 * i + 1], padded[n, 2 * i + 2], padded[n, 2 * i + 3]
                left = 2 * j
                a0, a1, a2, a3 = above[left], above[left + 1], above[left + 2], above[left + 3]
                b0, b1, b2, b3 = upper[left], upper[left + 1], upper[left + 2], upper[left + 3]
                c0, c1, c2, c3 = lower[left], lower[left + 1], lower[left + 2], lower[left + 3]
                d0, d1, d2, d3 = below[left], below[left + 1], below[left + 2], below[left + 3]
                best, place = pooled[n, i, j], winner[n, i, j]
                for k in range(channels):
                    w0, w1, w2, w3, w4, w5, w6, w7, w8 = t0[k], t1[k], t2[k], t3[k], t4[k], t5[k], t6[k], t7[k], t8[k]
                    best[k], place[k] = _largest(
                        bias[k] + w0 * a0 + w1 * a1 + w2 * a2 + w3 * b0 + w4 * b1 + w5 * b2 + w6 * c0 + w7 * c1 + w8 * c2,
                        bias[k] + w0 * a1 + w1 * a2 + w2 * a3 + w3 * b1 + w4 * b2 + w5 * b3 + w6 * c1 + w7 * c2 + w8 * c3,
                        bias[k] + w0 * b0 + w1 * b1 + w2 * b2 + w3 * c0 + w4 * c1 + w5 * c2 + w6 * d0 + w7 * d1 + w8 * d2,
                        bias[k] + w0 * b1 + w1 * b2 + w2 * b3 + w3 * c1 + w4 * c2 + w5 * c3 + w6 * d1 + w7 * d2 + w8 * d3,
                    )


@layout(
    gradient="batch high wide channels", winner="batch high wide channels", padded="batch 2*high+2 2*wide+2",
    d_weight="9 channels",
)  # fmt: skip
@numba.njit(nogil=True, cache=True, fastmath=CONTRACT)
def _backward_of_one_channel(gradient, winner, padded, d_weight):
    """Add the gradient of the weights `[9 taps, out]` of images of one channel, all outputs at a time; black is skipped."""
    batch, high, wide, channels = gradient.shape
    at = np.empty((4, channels), dtype=gradient.dtype)  # the gradient of each channel at its winner, zero at the other three
    first, second, third, fourth = at[0], at[1], at[2], at[3]
    for n in range(batch):
        for i in range(high):
            for j in range(wide):
                g, place = gradient[n, i, j], winner[n, i, j]
                for number in range(4):
                    own = at[number]
                    for k in range(channels):
                        own[k] = g[k] if place[k] == number else 0 * g[k]
                for tap in range(9):
                    upper, lower, left = padded[n, 2 * i + tap // 3], padded[n, 2 * i + tap // 3 + 1], 2 * j + tap % 3
                    a, b, c, d = upper[left], upper[left + 1], lower[left], lower[left + 1]
                    if a == 0 and b == 0 and c == 0 and d == 0:
                        continue
                    sums = d_weight[tap]
                    for k in range(channels):
                        sums[k] += a * first[k] + b * second[k] + c * third[k] + d * fourth[k]


@layout(
    gradient="batch high wide channels", winner="batch high wide channels",
    padded="batch 2*high+2 2*wide+2 depth", weight="channels 3 3 depth", d_weight="channels 3 3 depth",
    d_padded="batch 2*high+2 2*wide+2 depth",
)  # fmt: skip
@numba.njit(nogil=True, cache=True, fastmath=CONTRACT)
def _backward(gradient, winner, padded, weight, d_weight, d_padded):
    """Add the gradients of weight `[out, 3, 3, in]` and of padded images, winner by winner."""
    batch, high, wide, channels = gradient.shape
    depth = padded.shape[3]
    images, d_images = _rows(padded), _rows(d_padded)
    kernels, d_kernels = weight.reshape(channels, 3, 3 * depth), d_weight.reshape(channels, 3, 3 * depth)
    for n in range(batch):
        for k in range(channels):
            for i in range(high):
                for j in range(wide):
                    g, place = gradient[n, i, j, k], winner[n, i, j, k]
                    if g == 0:
                        continue
                    left = (2 * j + (place & 1)) * depth
                    for a in range(3):
                        row = 2 * i + (place >> 1) + a
                        patch, d_patch = images[n, row, left : left + 3 * depth], d_images[n, row, left : left + 3 * depth]
                        kernel, d_kernel = kernels[k, a], d_kernels[k, a]
                        for q in range(3 * depth):
                            d_kernel[q] += g * patch[q]
                            d_patch[q] += g * kernel[q]


@numba.njit(nogil=True, inline="always")
def _rows(images):
    """Return `[batch, high, wide, channels]` as `[batch, high, wide * channels]`."""
    return images.reshape(images.shape[0], images.shape[1], images.shape[2] * images.shape[3])
