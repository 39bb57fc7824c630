"""Notebook 3: an eavesdropper who hears many rounds, and keeps the better model of the gradient.

The images it is judged on are the last ones in the seed's order: no attack was designed on them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from companion.attacks import choice, eavesdropper, features, inversion, similarity
from companion.mnist import overheard
from companion.mnist.digits import attacked
from companion.mnist.messages import Scene, Sender, algorithm_of, first_state, layers, listen
from companion.params import AGENTS, AgentParams
from companion.problems import parameters
from companion.problems.cnn import CNN
from ldp_core.optimizer import Messages

Arrays = dict[str, np.ndarray]
MODELS: dict[str, dict] = {
    "free": {"drift": np.inf},
    "shrinking": {"drift": None},
    "constant": {"drift": 0.0},
    "kept": {"drift": None, "models": choice.kept},
}


def hear(
    params: dict,
    data: str,
    victim: overheard.Victim,
    scale: float,
    rounds: int,
    steps: int,
    restarts: int,
    first: int,
    count: int,
) -> Arrays:
    """Return the errors of the first gradient `[count]` under each of MODELS, relative to its size.

    Root mean squares over the coordinates; `mse` is that of the picture painted from the kept one.
    """
    told, found = (params, data, victim, "quantised", scale, rounds, first, count), []
    for block, (scene, theta_0, messages, truth) in enumerate(listened(*told)):
        module, heard = scene.module, {}
        for name, options in MODELS.items():
            options = {"parts": layers(module), **options}
            heard[name] = eavesdropper.gradients(scene.algorithm, messages, **options).gradient[
                0, 0
            ]
        own = {name: _relative(estimate, truth) for name, estimate in heard.items()}
        theta, gradients = (torch.tensor(part).float() for part in (theta_0, heard["kept"]))
        numbers = list(range(first + AGENTS * block, first + AGENTS * (block + 1)))
        options = {"seed": scene.seed, "steps": steps, "restarts": restarts, "numbers": numbers}
        invert = features.invert if isinstance(module, CNN) else inversion.idlg
        painted = invert(
            module, theta[None].expand(AGENTS, -1), gradients, **options
        ).images.numpy()
        pictures = np.nan_to_num(painted[:, 0], nan=1e6, posinf=1e6, neginf=-1e6)
        found.append(own | {"mse": similarity.mse(scene.images[:, 0].numpy(), pictures)})
    return {name: np.concatenate([part[name] for part in found]) for name in found[0]}


def listened(
    params: dict, data: str, victim: overheard.Victim, sender: Sender, scale: float, rounds: int,
    first: int, count: int,
) -> Iterator[tuple[Scene, np.ndarray, list[Messages], np.ndarray]]:  # fmt: skip
    """Yield, five images at a time, the scene, theta_0, and what `listen` returns."""
    settings, (images, labels) = AgentParams(**params), attacked(params["seed"], data, first, count)
    algorithm = algorithm_of(settings.algorithm(), sender, scale, settings.seed)
    module = parameters.make(overheard.MODULES[victim])
    for block in range(0, count, AGENTS):
        five, run = slice(block, block + AGENTS), (first + block) // AGENTS
        scene = Scene(algorithm, module, images[five], labels[five], settings.seed, run)
        theta_0 = parameters.initial(module, overheard.INITIAL[victim], seed=settings.seed, run=run)
        yield scene, theta_0, *listen(scene, first_state(scene, sender, theta_0), rounds)


def _relative(estimate: np.ndarray, truth: np.ndarray) -> np.ndarray:
    return np.linalg.norm(estimate - truth, axis=1) / np.linalg.norm(truth, axis=1)
