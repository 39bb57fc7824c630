"""Random numbers and arithmetic with the same bits on every machine, for data named by its hash.

Randomness is Philox's raw words, which no version of numpy may change. Numbers are made of them by
+, -, *, / and square roots of single elements, which IEEE 754 rounds in one way only. Sums, whose
order is the machine's, are of whole numbers below 2**53 (`product`), which float64 adds exactly in
any order; whoever needs another sum takes `math.fsum`.
"""

from __future__ import annotations

import math

import numpy as np

SPREAD = math.sqrt(8 * (256**2 - 1) / 12)  # of the sum of eight bytes


def exp(x: np.ndarray) -> np.ndarray:
    """Return (1 + x / 1024)^1024, which is e^x to about a share of x^2 / 2048."""
    power = 1.0 + x / 2**10
    for _ in range(10):
        power = power * power
    return power


def words(random: np.random.Generator, *shape: int) -> np.ndarray:
    """Return Philox's own 64-bit words."""
    return random.bit_generator.random_raw(math.prod(shape)).reshape(shape)


def uniform(random: np.random.Generator, low: float, high: float, *shape: int) -> np.ndarray:
    """Return numbers between low and high, each with 53 random bits."""
    return low + (high - low) * ((words(random, *shape) >> np.uint64(11)) * 2.0**-53)


def bell(random: np.random.Generator, *shape: int) -> np.ndarray:
    """Return nearly normal whole numbers, of spread SPREAD: sums of eight bytes less the mean."""
    return words(random, *shape, 1).view(np.uint8).sum(axis=-1, dtype=np.int16) - 8 * 255 / 2


def normal(random: np.random.Generator, spread: float, *shape: int) -> np.ndarray:
    """Return nearly normal numbers of mean 0; none is larger than 4.9 times the spread."""
    return spread * (bell(random, *shape) / SPREAD)


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the product of matrices of whole numbers: exact, in whatever order they are summed."""
    largest = np.abs(a).max() * np.abs(b).max() * a.shape[-1]
    if largest >= 2**53:
        raise ValueError(f"sums up to {largest:g} must stay below 2**53 to be exact")
    return a @ b


def unit(vectors: np.ndarray) -> np.ndarray:
    """Return the vectors `[..., 3]` at length 1."""
    return vectors / np.sqrt(dot(vectors, vectors))[..., None]


def dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a . b over the last axis, of three elements, added in this order."""
    terms = a * b
    return terms[..., 0] + terms[..., 1] + terms[..., 2]
