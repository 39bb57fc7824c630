"""From gradients to EEG: inversion (iDLG) of EEGNet for a trial seen in one or in many states.

The attacker knows gradients g_s = grad loss(theta_s, x, y) of **one** trial x [channels, samples]
at known parameters theta_s, s = 1 ... S, exactly or with errors, and looks for the trial that
explains them:

    minimise over c   sum_s sum_j w_sj (d loss(theta_s, x(c), y) / d theta_j - g_sj)^2,
    x(c) = M c F.

The unknowns are the coefficients c of a band of Fourier functions (F, `fourier`) at every
electrode; a band-passed trial lies in a slightly wider band up to its cut ends. M may mix
electrodes (`Shape`), for an attacker who knows EEG from elsewhere. L-BFGS starts from a small
random c (`lbfgs`: every trial has a state of its own, so its path does not depend on its
neighbours). One state gives fewer equations than there are unknowns, many give more: `equations`.

Per-trial gradients at per-trial parameters are one autograd call on batched parameters [trials,
states, dim] (`outputs`), in EEGNet's own cheap order of operations; a test holds it against
`problems.eegnet.EEGNet`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from companion.attacks import lbfgs
from companion.attacks.trials import log_spectrum
from companion.problems.eegnet import EEGNet, Prepared, of_each
from companion.problems.parameters import layout
from ldp_core.randomness import Purpose, generator

WEIGHTINGS = ("none", "state", "tensor")
START = 1e-3  # standard deviation of the coefficients at the start, where trials have variance one
NEGLIGIBLE = 1e-4  # the smallest share of a gradient's square that a tensor is given


class Shape(NamedTuple):
    """What a trial is made of: x = mixing @ coefficients `[channels, functions]` @ functions."""

    mixing: torch.Tensor
    functions: torch.Tensor

    @property
    def unknowns(self) -> int:
        return len(self.mixing) * len(self.functions)

    def signal(self, coefficients: torch.Tensor) -> torch.Tensor:
        """Return trials [trials, channels, samples] with coefficients [trials, unknowns]."""
        table = coefficients.view(len(coefficients), len(self.mixing), -1)
        return self.mixing @ (table @ self.functions)


class Inverted(NamedTuple):
    """Rebuilt trials `[trials, channels, samples]`, each one's loss, steps, and if it diverged."""

    x: np.ndarray
    value: np.ndarray
    steps: np.ndarray
    diverged: np.ndarray


class Scores(NamedTuple):
    """How close reconstructions come, one number per trial.

    Correlation over all channels and samples (each channel of zero mean); |x - original| /
    |original| after the best scaling; and the mean absolute difference of log10 power in bins of 2
    Hz, both at unit variance.
    """

    correlation: np.ndarray
    relative_error: np.ndarray
    spectrum_error: np.ndarray


def fourier(channels: int, samples: int, fs: float, band: tuple[float, float] | None) -> Shape:
    """Return orthonormal cosines and sines of a band in Hz (None: all), for all electrodes."""
    frequency, t = np.fft.rfftfreq(samples, 1 / fs), np.arange(samples)
    low, high = (0.0, fs) if band is None else band
    inside = np.flatnonzero((frequency >= low) & (frequency <= high))
    angles = 2 * np.pi * np.outer(inside, t) / samples
    functions = np.concatenate([np.cos(angles), np.sin(angles)])
    norm = np.linalg.norm(functions, axis=1)
    kept = norm > 1e-6  # the sine of frequency zero, and at half the rate
    if not kept.any():
        rule = f"holds no Fourier frequency of {samples} samples at {fs} Hz"
        raise ValueError(f"band = {band} {rule}")
    normed = torch.tensor(functions[kept] / norm[kept, None], dtype=torch.float32)
    return Shape(torch.eye(channels), normed)


def learned(X: np.ndarray, plain: Shape) -> Shape:
    """Return the shape whose unit Gaussian coefficients have trials X's covariance and spectrum.

    An attacker knows these from EEG of its own.
    """
    coefficients = np.asarray(X, dtype=np.float64) @ plain.functions.numpy().T
    spectrum = np.sqrt((coefficients**2).mean(axis=(0, 1)))
    whitened = coefficients / spectrum
    covariance = np.einsum("ncf,ndf->cd", whitened, whitened) / (len(X) * len(spectrum))
    mixing = torch.tensor(np.linalg.cholesky(covariance), dtype=torch.float32)
    return Shape(mixing, plain.functions * torch.tensor(spectrum, dtype=torch.float32)[:, None])


def equations(network: EEGNet, states: int, shape: Shape) -> tuple[int, int]:
    """Return (equations, unknowns): the gradients' coordinates, and a trial's coefficients."""
    return states * layout(network).dim, shape.unknowns


def outputs(network: EEGNet, theta: torch.Tensor, x: torch.Tensor | Prepared) -> torch.Tensor:
    """Return EEGNet's outputs `[trials, states, classes]` with theta `[trials, states, dim]`.

    Each trial of x `[trials, channels, samples]` is a batch of its own: its statistics are its own.
    """
    trials = x if isinstance(x, Prepared) else network.prepare(x)
    return network.outputs(layout(network).views(theta), trials, of_each, network.stored())[0]


def trial_gradients(
    network: EEGNet,
    theta: torch.Tensor,
    x: torch.Tensor | Prepared,
    labels: torch.Tensor,
    *,
    differentiable: bool = False,
) -> torch.Tensor:
    """Return the cross-entropy's gradient of each trial at each state, `[trials, states, dim]`."""
    leaf = theta.detach().requires_grad_(True)
    logits = outputs(network, leaf, x)
    wanted = labels.repeat_interleave(theta.shape[1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), wanted, reduction="sum")
    return torch.autograd.grad(loss, leaf, create_graph=differentiable)[0]


def inferred_labels(network: EEGNet, gradients: np.ndarray) -> np.ndarray:
    """Return the labels of gradients `[trials, states, dim]` (iDLG): the least mean output bias.

    Its gradient is softmax - one-hot, negative at the true class and nowhere else; errors of the
    gradients can hide that.
    """
    where = layout(network)
    start = sum(where.sizes[: where.names.index("output.bias")])
    return gradients[..., start : start + network.output.out_features].mean(axis=1).argmin(axis=1)


def invert(
    network: EEGNet,
    theta: np.ndarray,
    gradients: np.ndarray,
    labels: np.ndarray,
    shape: Shape,
    *,
    steps: int,
    seed: int,
    numbers: np.ndarray,
    weighting: str = "none",
) -> Inverted:
    """Return the trials that explain gradients `[trials, states, dim]` at theta, of that shape.

    `numbers [trials]` name the trials: the start of each depends on (seed, its number) alone.
    `weighting` "none" counts all coordinates alike, "state" makes all states count alike, "tensor"
    all tensors of all states; the whole is divided so that x = 0 has a loss of about one.
    """
    parameters, wanted = (torch.tensor(part, dtype=torch.float32) for part in (theta, gradients))
    targets, weights = torch.tensor(labels, dtype=torch.long), _weights(network, wanted, weighting)
    sources = (generator(seed, Purpose.ATTACK, int(number)) for number in numbers)
    start = torch.tensor(np.stack([source.normal(0, START, shape.unknowns) for source in sources]))

    def of(rows) -> lbfgs.Function:
        own = parameters[rows], wanted[rows], targets[rows], weights[rows]
        return _matching(network, *own, shape)

    found = lbfgs.minimise(of(slice(None)), start.float(), steps=steps, narrow=of)
    x = shape.signal(found.x).double().numpy()
    return Inverted(x, found.value.double().numpy(), found.steps.numpy(), found.diverged.numpy())


def scores(x: np.ndarray, original: np.ndarray, fs: float, band: tuple[float, float]) -> Scores:
    """Return how close x comes to the originals `[trials, channels, samples]`, trial by trial."""
    centred = (part - part.mean(axis=-1, keepdims=True) for part in (x, original))
    a, b = (part.reshape(len(part), -1) for part in centred)
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    correlation = (a * b).sum(axis=1) / np.maximum(norms, 1e-300)
    error = np.sqrt(np.maximum(0.0, 1.0 - correlation**2))  # |a x - o| / |o| at the best a
    loud = [part / part.std(axis=(1, 2), keepdims=True).clip(1e-300) for part in (x, original)]
    difference = log_spectrum(loud[0], fs, band) - log_spectrum(loud[1], fs, band)
    return Scores(correlation, error, np.abs(difference).mean(axis=1) / np.log(10))


def _matching(network, theta, wanted, labels, weights, shape: Shape) -> lbfgs.Function:
    """Return the function (coefficients) -> (losses, gradients) of some trials."""

    def function(coefficients: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        leaf = coefficients.detach().requires_grad_(True)
        found = trial_gradients(network, theta, shape.signal(leaf), labels, differentiable=True)
        value = ((found - wanted).square() * weights).sum(dim=(1, 2))
        (gradient,) = torch.autograd.grad(value.sum(), leaf)
        return value.detach(), gradient

    return function


def _weights(network: EEGNet, wanted: torch.Tensor, weighting: str) -> torch.Tensor:
    """Return the weight of every coordinate `[trials, states, dim]`, or what broadcasts to it."""
    square = wanted.square()
    if weighting == "none":
        return 1.0 / square.sum(dim=(1, 2), keepdim=True)
    if weighting == "state":
        return 1.0 / square.sum(dim=2, keepdim=True) / wanted.shape[1]
    if weighting == "tensor":
        sizes = layout(network).sizes
        # a shift in front of a normalisation has no gradient at all
        least = NEGLIGIBLE * square.sum(dim=2, keepdim=True)
        sums = ((piece, piece.sum(dim=2, keepdim=True)) for piece in square.split(sizes, dim=2))
        pieces = [(1.0 / (total + least)).expand_as(piece) for piece, total in sums]
        return torch.cat(pieces, dim=2) / (len(sizes) * wanted.shape[1])
    raise ValueError(f"weighting = {weighting!r} must be one of {', '.join(WEIGHTINGS)}")
