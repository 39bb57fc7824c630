"""How much a reconstruction looks like the original: mean square error, PSNR, SSIM. Pixels are in
[0, 1]."""

from __future__ import annotations

import numpy as np
from scipy import ndimage

SIGMA, K1, K2 = 1.5, 0.01, 0.03  # of the window and the two constants of SSIM (Wang et al. 2004)


def mse(images: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the mean square error of every pair of images `[..., height, width]`."""
    return np.mean((np.asarray(images, dtype=np.float64) - others) ** 2, axis=(-2, -1))


def psnr(images: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the peak signal-to-noise ratio in decibels, -10 log10(mse): infinite for equal
    images."""
    with np.errstate(divide="ignore"):
        return -10.0 * np.log10(mse(images, others))


def ssim(images: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the mean structural similarity (Wang et al. 2004, Gaussian window of 11 x 11 pixels)
    of every pair of images.

    1 for equal images; near 0 for unrelated ones. Pixels outside [0, 1] are cut off first.
    """
    a, b = (np.clip(np.asarray(part, dtype=np.float64), 0.0, 1.0) for part in (images, others))
    mean_a, mean_b = _smooth(a), _smooth(b)
    var_a, var_b, cov = (
        _smooth(a * a) - mean_a**2,
        _smooth(b * b) - mean_b**2,
        _smooth(a * b) - mean_a * mean_b,
    )
    luminance = (2 * mean_a * mean_b + K1**2) / (mean_a**2 + mean_b**2 + K1**2)
    structure = (2 * cov + K2**2) / (var_a + var_b + K2**2)
    return np.mean(luminance * structure, axis=(-2, -1))


def _smooth(images: np.ndarray) -> np.ndarray:
    spread = (0.0,) * (images.ndim - 2) + (SIGMA, SIGMA)
    return ndimage.gaussian_filter(
        images, spread, radius=(0,) * (images.ndim - 2) + (5, 5), mode="reflect"
    )
