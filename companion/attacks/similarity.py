"""How much a reconstruction looks like the original: square error, PSNR, SSIM of [0, 1] pixels."""

from __future__ import annotations

import numpy as np
from scipy import ndimage

SIGMA, K1, K2 = 1.5, 0.01, 0.03  # of the window and the two constants of SSIM (Wang et al. 2004)


def mse(images: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the mean square error of every pair of images `[..., height, width]`."""
    return np.mean((np.asarray(images, dtype=np.float64) - others) ** 2, axis=(-2, -1))


def psnr(images: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the peak signal-to-noise ratio in decibels, -10 log10(mse): equal images have inf."""
    with np.errstate(divide="ignore"):
        return -10.0 * np.log10(mse(images, others))


def ssim(images: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the mean structural similarity of every pair (Wang et al. 2004, window 11 x 11).

    1 for equal images; near 0 for unrelated ones. Pixels outside [0, 1] are cut off first.
    """
    a, b = (np.clip(np.asarray(part, dtype=np.float64), 0.0, 1.0) for part in (images, others))
    mean_a, mean_b = _smooth(a), _smooth(b)
    var_a, var_b = _smooth(a * a) - mean_a**2, _smooth(b * b) - mean_b**2
    cov = _smooth(a * b) - mean_a * mean_b
    luminance = (2 * mean_a * mean_b + K1**2) / (mean_a**2 + mean_b**2 + K1**2)
    structure = (2 * cov + K2**2) / (var_a + var_b + K2**2)
    return np.mean(luminance * structure, axis=(-2, -1))


def _smooth(images: np.ndarray) -> np.ndarray:
    others = images.ndim - 2
    spread, radius = (0.0,) * others + (SIGMA, SIGMA), (0,) * others + (5, 5)
    return ndimage.gaussian_filter(images, spread, radius=radius, mode="reflect")
