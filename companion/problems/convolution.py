"""A small convolutional network on pixels, with the clipped gradient of every single picture, fast.

    outputs = white(pool(tanh(picture * F))) W,      F = F_0 + SCALE theta_F

F are 6 x 6 filters with a bias, at every second pixel. `pool` is the mean over 3 x 3 places;
`white` subtracts a mean and mixes the filters' maps so that they are uncorrelated; W is a dense
layer, with a constant among its inputs. F and W are learnt. F_0, the mean and the mixture are
public constants: smoothed random filters, and what they make of *random strokes*
(`scattering.strokes`). Without these gradients point to where all pictures are alike, and a few
dozen steps do not suffice. Under the noise of a promise most of what is learnt is W: with a tenth
of this SCALE, filters that hardly move, the network read as well.

A picture's gradient is patches^T d for the filters, d the derivative at their outputs, and white
(q - e_y)^T for W. One pass forwards and one backwards give d for all pictures at once; the filters'
part is then made picture by picture, and the length of W's is the product of two lengths. What is
measured in float64 is what is cut and summed: no error of float32 makes a gradient longer than C.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy import ndimage

from companion.problems import scattering
from companion.problems.clipped import Batch, Factors, Model, errors, shares
from ldp_core.randomness import Purpose, generator

SIDE, KERNEL, STRIDE, POOL = scattering.SIDE, 6, 2, 3  # pixels, and places that are averaged
PLACES = (SIDE - KERNEL) // STRIDE + 1  # of a filter, in either direction
CELLS = PLACES // POOL
GAIN, SCALE = 3.0, 0.03  # length of a filter at the start, and of the unit of its parameters
STROKES, PUBLIC, RIDGE = 3000, 0, 1e-2  # pictures behind `white`; seed and ridge as in `scattering`
CONSTANT = 0.3  # the input of W that stands for a bias
PIECE = 50  # pictures that are looked at together: more leave the cache


class Public(NamedTuple):
    """Constants: F_0 `[pixels + 1, filters]`, a mean `[cells, filters]`, a mixture of filters."""

    filters: np.ndarray
    mean: np.ndarray
    mixture: np.ndarray


@dataclass(frozen=True)
class Convolution(Model):
    """Filters, tanh, mean pooling, a dense layer. theta holds the filters' changes, then W."""

    filters: int = 104
    classes: int = 10

    @property
    def dim(self) -> int:
        """Return the number of parameters."""
        return self.first + (CELLS**2 * self.filters + 1) * self.classes

    @property
    def first(self) -> int:
        """Return how many of them are the filters'."""
        return (KERNEL**2 + 1) * self.filters

    def layers(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return F `[pixels + 1, filters]`, its last row the bias, and W, in float32."""
        changes, dense = np.split(theta, [self.first])
        filters = public(self.filters).filters + SCALE * changes.reshape(-1, self.filters)
        return filters.astype(np.float32), dense.reshape(-1, self.classes).astype(np.float32)

    def outputs(self, theta: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return the outputs `[n, classes]` of pictures x `[n, 28, 28]` at theta `[dim]`."""
        layers = self.layers(theta)
        return np.concatenate([self._forward(*layers, piece)[-1] for piece in pieces(x)])

    def clipped(self, theta: np.ndarray, batch: Batch, clip: float) -> np.ndarray:
        """Return the sum `[dim]` of the pictures' gradients, each clipped."""
        layers, total = self.layers(theta), np.zeros(self.dim)
        for x, y in zip(pieces(batch.x), pieces(batch.y), strict=True):
            of_filters, white, error = self._gradients(*layers, x, y, clip)
            total += np.concatenate([of_filters.sum(axis=0), (white.T @ error).ravel()])
        return total

    def factors(self, theta: np.ndarray, batch: Batch, clip: float) -> Factors:
        """Return the clipped gradient of every picture, all of it in `rest`."""
        parts = self._gradients(*self.layers(theta), batch.x, batch.y, clip)
        dense = (parts[1][:, :, None] * parts[2][:, None, :]).reshape(len(batch.y), -1)
        return Factors(dense[:, :0], np.concatenate([parts[0], dense], axis=1))

    def _forward(self, filters: np.ndarray, dense: np.ndarray, x: np.ndarray) -> tuple:
        """Return patches, tanh of the filters, inputs of W, and outputs of pictures, `[n, ...]`."""
        known, cut = public(self.filters), patches(x)
        maps = filtered(cut, filters)
        white = ((pooled(maps) - known.mean) @ known.mixture).reshape(len(x), -1)
        white = np.pad(white, ((0, 0), (0, 1)), constant_values=CONSTANT)
        return cut, maps, white, white @ dense

    def _gradients(self, filters, dense, x, y, clip: float) -> tuple[np.ndarray, ...]:
        """Return clipped gradients in float64: the filters' `[n, first]`, and both factors of
        W's."""
        cut, maps, white, outputs = self._forward(filters, dense, x)
        error, white = errors(outputs, y), white.astype(np.float64)
        cells = (error.astype(np.float32) @ dense[:-1].T).reshape(-1, self.filters)
        before = spread(cells @ public(self.filters).mixture, 1.0 - np.square(maps))
        weights = cut.swapaxes(1, 2) @ before
        both = np.concatenate([weights, before.sum(axis=1, keepdims=True)], axis=1)
        of_filters = (np.float32(SCALE) * both.reshape(len(both), -1)).astype(np.float64)
        share = shares(_squares(white) * _squares(error) + _squares(of_filters), clip)
        return of_filters * share, white, error * share


def pieces(rows: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the rows, some at a time."""
    return (rows[start : start + PIECE] for start in range(0, len(rows), PIECE))


def patches(x: np.ndarray) -> np.ndarray:
    """Return what the filters see of pictures, `[n, places, pixels]`."""
    windows = np.lib.stride_tricks.sliding_window_view(x, (KERNEL, KERNEL), axis=(1, 2))
    return windows[:, ::STRIDE, ::STRIDE].reshape(len(x), PLACES**2, KERNEL**2)


def filtered(cut: np.ndarray, filters: np.ndarray) -> np.ndarray:
    """Return tanh of what the filters make of patches, `[n, places, filters]`."""
    maps = cut.reshape(-1, KERNEL**2) @ filters[:-1]
    maps += filters[-1]
    return np.tanh(maps, out=maps).reshape(*cut.shape[:2], -1)


def pooled(maps: np.ndarray) -> np.ndarray:
    """Return means over POOL x POOL places, `[n, cells, filters]`."""
    rows = maps.reshape(len(maps), CELLS, POOL, -1).sum(axis=2)
    cells = rows.reshape(len(maps), CELLS**2, POOL, -1).sum(axis=2)
    return cells / np.float32(POOL**2)


def spread(cells: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """Return `pooled` backwards, times the slopes `[n, places, filters]`, which are overwritten."""
    places = slopes.reshape(-1, CELLS, POOL, CELLS, POOL, slopes.shape[-1])
    places *= cells.reshape(-1, CELLS, 1, CELLS, 1, slopes.shape[-1]) / np.float32(POOL**2)
    return slopes


def _squares(rows: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->i", rows, rows)


@lru_cache(maxsize=4)
def public(filters: int) -> Public:
    """Return the constants: so scaled that the inputs of W have mean square length one on
    strokes."""
    first = _drawn(filters)
    strokes = scattering.strokes(STROKES, PUBLIC).astype(np.float32)
    seen = [pooled(filtered(patches(x), first)) for x in pieces(strokes)]
    cells = np.concatenate(seen).astype(np.float64)
    mean = cells.mean(axis=0)
    flat = (cells - mean).reshape(-1, filters)
    values, vectors = np.linalg.eigh(flat.T @ flat / len(flat))
    mixture = (vectors / np.sqrt(values + RIDGE * values[-1])) @ vectors.T
    mixture /= np.sqrt(CELLS**2 * np.square(flat @ mixture).sum(axis=1).mean())
    return Public(first, mean.astype(np.float32), mixture.astype(np.float32))


def _drawn(filters: int) -> np.ndarray:
    """Return smoothed random filters of mean zero and length GAIN, with a bias of zero."""
    drawn = generator(PUBLIC, Purpose.INITIAL).normal(size=(filters, KERNEL, KERNEL))
    smooth = ndimage.gaussian_filter(drawn, (0, 1, 1)).reshape(filters, -1).T
    smooth -= smooth.mean(axis=0)
    smooth *= GAIN / np.linalg.norm(smooth, axis=0)
    return np.pad(smooth, ((0, 1), (0, 0))).astype(np.float32)
