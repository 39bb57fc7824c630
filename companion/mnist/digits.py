"""The digits of notebook 3 as tensors, read once in each process."""

from __future__ import annotations

import contextlib
import io
from functools import lru_cache

import numpy as np
import torch

from companion.data import mnist
from ldp_core.randomness import Purpose, generator


@lru_cache(maxsize=1)
def digits(sha256: str) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Return (x `[n, 1, 28, 28]` in [0, 1], y `[n]`, how many are for training), those first.

    Read without a word: the notebook has said where the data come from. Raises when they are not
    those meant.
    """
    with contextlib.redirect_stderr(io.StringIO()):
        data = mnist.load()
    if (found := data.provenance.sha256) != sha256:
        raise ValueError(f"the MNIST here has SHA-256 {found[:12]}, the one meant {sha256[:12]}")
    images = np.concatenate([data.train_images, data.test_images])
    labels = np.concatenate([data.train_labels, data.test_labels])
    return (
        torch.from_numpy(images[:, None]).float().div_(255.0),
        torch.from_numpy(labels),
        len(data.train_labels),
    )


def attacked(seed: int, sha256: str, first: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return training images and labels number first ... first + count - 1 as the seed orders
    them."""
    x, y, rows = digits(sha256)
    chosen = generator(seed, Purpose.ATTACK, t=1).permutation(rows)[first : first + count]
    return x[chosen], y[chosen]
