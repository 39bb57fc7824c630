"""The parameters of a torch module as one flat vector: where each of them lies, and what they are
at the start."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from ldp_core.randomness import Purpose, generator

Module = (
    nn.Module | Callable[[], nn.Module]
)  # a module, or what makes one (then torch's global generator stays as it was)

LAYERS = (nn.Linear, nn.modules.conv._ConvNd)
BATCH_NORM = nn.modules.batchnorm._BatchNorm
NORMALISATIONS = (BATCH_NORM, nn.LayerNorm, nn.GroupNorm, nn.modules.instancenorm._InstanceNorm)


def make(module: Module) -> nn.Module:
    """Return the module itself, or the one its factory makes, without moving torch's global
    generator."""
    if isinstance(module, nn.Module):
        return module
    with torch.random.fork_rng(devices=[]):
        return module()


@dataclass(frozen=True)
class Layout:
    """Where the parameters of a module lie in one flat vector: in the order of `named_parameters`,
    each in row-major order."""

    names: tuple[str, ...]
    shapes: tuple[torch.Size, ...]

    @property
    def sizes(self) -> list[int]:
        return [shape.numel() for shape in self.shapes]

    @property
    def dim(self) -> int:
        return sum(self.sizes)

    def views(self, vector: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the parameters as views of flat vectors `[..., dim]`: gradients are flat as
        well."""
        pieces = zip(self.names, vector.split(self.sizes, dim=-1), self.shapes, strict=True)
        return {name: piece.view(*vector.shape[:-1], *shape) for name, piece, shape in pieces}


def layout(module: nn.Module) -> Layout:
    """Return the layout of a module's parameters."""
    named = dict(module.named_parameters())
    if not named:
        raise ValueError("the module has no parameters: there is nothing to optimise")
    return Layout(tuple(named), tuple(parameter.shape for parameter in named.values()))


def initial(
    module: Module, kind: str = "he", *, seed: int, run: int = 0, agent: int = 0
) -> np.ndarray:
    """Return an initial value [dim] of a module's parameters, a pure function of (kind, seed, run,
    agent).

    "he":      weights of linear and convolutional layers N(0, 2 / fan_in) (He et al. 2015), their
    biases zero "pytorch": weights and biases U(-1/sqrt(fan_in), 1/sqrt(fan_in)), the law of torch's
    default "uniform": every parameter U(-1/2, 1/2), as in the published code of iDLG

    fan_in is the number of inputs of one output. The first two set the scales of normalisation
    layers to one and their shifts to zero. With the paper's step sizes on MNIST the CNN learns from
    "he" and hardly from "pytorch": the step sizes of all 600 iterations add up to about 3, too
    little to leave the plateau there.
    """
    if kind not in ("he", "pytorch", "uniform"):
        raise ValueError(f"kind = {kind!r} must be 'he', 'pytorch' or 'uniform'")
    module = make(module)
    draw = generator(seed, Purpose.INITIAL, run, agent=agent)
    pieces = [_initial_parameter(module, name, kind, draw) for name in layout(module).names]
    return np.concatenate([piece.ravel() for piece in pieces])


def initial_states(
    module: Module,
    kind: str = "he",
    *,
    seed: int,
    runs: Iterable[int],
    agents: int,
    same: bool = True,
) -> np.ndarray:
    """Return theta_0 [runs, agents, dim] for the given run numbers: by default the same value at
    all agents of a run."""
    module, numbers = make(module), range(1 if same else agents)
    values = np.array(
        [
            [initial(module, kind, seed=seed, run=run, agent=agent) for agent in numbers]
            for run in runs
        ]
    )
    return np.repeat(values, agents, axis=1) if same else values


def _initial_parameter(
    module: nn.Module, name: str, kind: str, draw: np.random.Generator
) -> np.ndarray:
    owner, _, role = name.rpartition(".")
    layer = module.get_submodule(owner)
    shape = tuple(module.get_parameter(name).shape)
    if kind == "uniform":
        return draw.uniform(-0.5, 0.5, shape)
    if isinstance(layer, NORMALISATIONS):
        return np.ones(shape) if role == "weight" else np.zeros(shape)
    if not isinstance(layer, LAYERS):
        known = f"kind = {kind!r} knows linear, convolutional and norm layers"
        raise ValueError(f"parameter {name!r} of a {type(layer).__name__}: {known}")
    fan_in = layer.weight[0].numel()
    if kind == "pytorch":
        return draw.uniform(-(fan_in**-0.5), fan_in**-0.5, shape)
    return draw.normal(0.0, (2.0 / fan_in) ** 0.5, shape) if role == "weight" else np.zeros(shape)
