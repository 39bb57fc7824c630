"""Public features of small pictures: nothing in them was learnt from anybody's data.

    scattering      |picture * wavelet|, and once more, each smoothed: 81 maps (Bruna, Mallat 2013)
    group norm      every group of maps gets mean zero and variance one, picture by picture
    low DCT         of each map the lowest frequencies of a cosine transform
    whitening       by mean and covariance of the features of *random strokes*, drawn here, in the
                    600 directions in which these vary most

and unit length, with a constant feature. So a softmax on them has per-sample gradients of bounded
length, and a promise about its data (`accountant.promise`) needs nothing else: no public data set,
no download.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import torch

from companion.problems.neural import one_thread
from ldp_core.randomness import Purpose, generator

SIDE, PADDED, MAPS = 28, 32, 7  # pixels a side: of a picture, with its margin, of a smoothed map
ANGLES = 8  # directions of wavelets, at two scales
CHANNELS, GROUPS = 1 + 2 * ANGLES + ANGLES**2, 27  # maps, and groups that are normalised together
CHUNK = 50  # pictures that are transformed together: more are slower, fewer too
LOWEST = 4  # frequencies of each map, in either direction
KEPT = 600  # directions in which the features of random strokes vary most
FEATURES = KEPT + 1
STROKES, PUBLIC = 5000, 0  # pictures behind the whitening, and their public seed
RIDGE = 1e-2  # added to the covariance, as a share of its largest eigenvalue
CONSTANT = 0.3  # the feature that stands for a bias, before the length is made one


class Whitening(NamedTuple):
    """Mean and matrix that make the features of random strokes white: (x - mean) matrix."""

    mean: np.ndarray
    matrix: np.ndarray


def features(images: np.ndarray, whitening: Whitening) -> np.ndarray:
    """Return the public features `[n, FEATURES]` of pictures `[n, 28, 28]` with pixels in [0,
    1]."""
    mean, matrix = (torch.tensor(part) for part in whitening)
    found = []
    for pictures in torch.as_tensor(images, dtype=torch.float32).split(CHUNK):
        white = torch.nn.functional.normalize((_raw(pictures) - mean) @ matrix)
        found.append(torch.nn.functional.pad(white, (0, 1), value=CONSTANT))
    return (torch.cat(found) / (1.0 + CONSTANT**2) ** 0.5).numpy()


@one_thread()
def whitening() -> Whitening:
    """Return the public whitening, the same for all pictures: it takes as long as 8,000 of them."""
    drawn = torch.as_tensor(strokes(STROKES, PUBLIC), dtype=torch.float32).split(CHUNK)
    found = torch.cat([_raw(piece) for piece in drawn]).double()
    mean = found.mean(dim=0)
    values, vectors = torch.linalg.eigh((found - mean).T @ (found - mean) / len(found))
    matrix = vectors * (values + RIDGE * values[-1]).rsqrt()
    return Whitening(mean.float().numpy(), matrix[:, -KEPT:].float().numpy())


def _raw(pictures: torch.Tensor) -> torch.Tensor:
    """Return the features before whitening, `[n, 81 LOWEST^2]`."""
    return cosines(torch.nn.functional.group_norm(scattering(pictures), GROUPS), LOWEST)


def scattering(images: torch.Tensor) -> torch.Tensor:
    """Return the 81 smoothed maps `[n, 81, 7, 7]` of pictures `[n, 28, 28]` with pixels in [0, 1].

    Order 0 is the smoothed picture, order 1 the 16 smoothed |picture * wavelet|, order 2 the 64
    smoothed ||picture * fine wavelet| * coarse wavelet|. Coarse maps keep every second pixel.
    """
    fine, coarse = (_wavelets(scale) for scale in (1, 2))
    margin = (PADDED - SIDE) // 2
    picture = torch.nn.functional.pad(images[:, None], (margin,) * 4, mode="reflect")
    spectrum = torch.fft.fft2(picture)
    once = torch.fft.ifft2(spectrum * fine).abs()
    larger = torch.fft.ifft2(_halved(spectrum * coarse)).abs()
    twice = torch.fft.fft2(once)[:, :, None] * coarse
    twice = torch.fft.ifft2(_halved(twice)).abs().flatten(1, 2)
    return torch.cat([_smoothed(maps) for maps in (picture, once, larger, twice)], dim=1)


@cache
def _wavelets(scale: int) -> torch.Tensor:
    """Return the Fourier transforms of the Morlet wavelets of one scale, `[angles, 32, 32]`."""
    shifts = 2.0 * np.pi * np.arange(-1, 2)
    grid = 2.0 * np.pi * np.fft.fftfreq(PADDED)[:, None] + shifts  # frequencies and their aliases
    y, x = grid[:, None, :, None], grid[None, :, None, :]
    return torch.tensor(
        np.stack([_morlet(y, x, scale, np.pi * k / ANGLES) for k in range(ANGLES)]),
        dtype=torch.float32,
    )


def _morlet(y: np.ndarray, x: np.ndarray, scale: int, angle: float) -> np.ndarray:
    """Return a Gaussian around the wavelet's frequency, less what makes its mean zero."""
    along, across = (
        np.cos(angle) * x + np.sin(angle) * y,
        np.cos(angle) * y - np.sin(angle) * x,
    )
    centre, width, slant = 0.75 * np.pi / scale, 0.8 * scale, 4.0 / ANGLES

    def bump(frequency: float) -> np.ndarray:
        square = (along - frequency) ** 2 + (across / slant) ** 2
        return np.exp(-0.5 * width**2 * square).sum(axis=(2, 3))

    moved, still = bump(centre), bump(0.0)
    return moved - moved[0, 0] / still[0, 0] * still


def _halved(spectrum: torch.Tensor) -> torch.Tensor:
    """Return the spectrum of every second pixel, in both directions."""
    half = PADDED // 2
    folded = spectrum[..., :half] + spectrum[..., half:]
    return (folded[..., :half, :] + folded[..., half:, :]) / 4


def _smoothed(maps: torch.Tensor) -> torch.Tensor:
    """Return the maps `[n, maps, side, side]` smoothed by a Gaussian, at 7 x 7 places."""
    rows = _smoothing(maps.shape[-1])
    return rows @ maps @ rows.T


def _smoothing(side: int) -> torch.Tensor:
    """Return the weights `[7, side]` that smooth one direction of a map."""
    places = (PADDED - SIDE) / 2 + SIDE / MAPS * (np.arange(MAPS) + 0.5) - 0.5
    pixels = (np.arange(side) + 0.5) * PADDED / side - 0.5
    weights = np.exp(-0.5 * ((places[:, None] - pixels) / (0.8 * SIDE / MAPS)) ** 2)
    return torch.tensor(weights / weights.sum(axis=1, keepdims=True), dtype=torch.float32)


def cosines(maps: torch.Tensor, lowest: int) -> torch.Tensor:
    """Return the `lowest` x `lowest` first coefficients of each map's cosine transform, flat."""
    k, places = np.arange(lowest)[:, None], np.arange(MAPS) + 0.5
    rows = torch.tensor(np.cos(np.pi * k * places / MAPS), dtype=torch.float32)
    rows /= rows.norm(dim=1, keepdim=True)
    return (rows @ maps @ rows.T).flatten(1)


def strokes(count: int, seed: int) -> np.ndarray:
    """Return `count` pictures `[count, 28, 28]` of random strokes: made up, from a seed, no data.

    A stroke is a bent line (a quadratic curve through random points) with a soft edge; a picture
    has one to three.
    """
    random = generator(seed, Purpose.SYNTHETIC)
    points = random.uniform(3.0, 25.0, (count, 3, 3, 2))  # [pictures, strokes, corners, x and y]
    drawn = random.integers(1, 4, count)[:, None] > np.arange(3)
    width = random.uniform(0.8, 1.8, (count, 1, 1))
    s = np.linspace(0.0, 1.0, 24)[:, None]
    curve = (1 - s) ** 2 * points[:, :, None, 0] + 2 * s * (1 - s) * points[:, :, None, 1]
    curve = curve + s**2 * points[:, :, None, 2]
    curve = np.where(drawn[:, :, None, None], curve, 1e3).reshape(count, -1, 2)
    return np.stack([_ink(path, thick) for path, thick in zip(curve, width, strict=True)])


def _ink(path: np.ndarray, width: np.ndarray) -> np.ndarray:
    """Return the picture of a path `[points, 2]`: ink where a pixel is nearer than `width`."""
    pixels = np.arange(SIDE) + 0.5
    far = (pixels[None, :, None] - path[:, 0]) ** 2 + (pixels[:, None, None] - path[:, 1]) ** 2
    return np.clip(width + 0.5 - np.sqrt(far.min(axis=2)), 0.0, 1.0)
