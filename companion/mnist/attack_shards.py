"""Notebook 3: the shards of the attacks on MNIST, pure functions of their arguments; `mnist_attacks` says which are run."""

from __future__ import annotations

import contextlib
import io
from functools import lru_cache, partial
from typing import Literal

import numpy as np
import torch
from torch import nn

from companion.attacks import eavesdropper, features, inversion, labels, matching
from companion.data import mnist, streams
from companion.mnist.messages import AGENTS, Heard, algorithm_of, first_state, listen, overhear
from companion.params import AgentParams
from companion.problems import neural, parameters
from companion.problems.cnn import CNN
from companion.problems.lenet import LeNet
from ldp_core import optimizer
from ldp_core.randomness import Purpose, generator

Victim = Literal["LeNet", "CNN"]
MODULES = {"LeNet": LeNet, "CNN": partial(CNN, "sigmoid")}
INITIAL = {"LeNet": "uniform", "CNN": "he"}
SAMPLES = 20  # images an agent acquires in an iteration of a training, and draws of its history that estimate the gradient


@lru_cache(maxsize=1)
def digits(sha256: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the training images `[n, 1, 28, 28]` in [0, 1] and labels of the MNIST meant; read once in each process."""
    with contextlib.redirect_stderr(io.StringIO()):
        data = mnist.load()
    if data.provenance.sha256 != sha256:
        raise ValueError(f"the MNIST here has SHA-256 {data.provenance.sha256[:12]}, the one meant {sha256[:12]}")
    return torch.tensor(data.train_images[:, None]).float() / 255.0, torch.tensor(data.train_labels)


def chosen(seed: int, data: str, first: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return images and labels number first ... first + count - 1 of those that the seed chooses."""
    x, y = digits(data)
    rows = generator(seed, Purpose.ATTACK, t=1).permutation(len(y))[first : first + count]
    return x[rows], y[rows]


def calibrate(seed: int, data: str, method: str, steps: int, first: int, count: int) -> dict[str, np.ndarray]:
    """Return iDLG's reconstructions of `count` images, each with a LeNet of its own, as in the published experiment."""
    images, truth = chosen(seed, data, first, count)
    module, numbers = parameters.make(LeNet), range(first, first + count)
    theta = _float32([parameters.initial(module, "uniform", seed=seed, run=number) for number in numbers])
    heard = matching.gradients(module, theta, images, truth)
    found = inversion.idlg(module, theta, heard, seed=seed, numbers=numbers, steps=steps, line_search=method == "line search")
    return _result(images, truth, found)


def attack(
    params: dict,
    data: str,
    victim: Victim,
    cases: list[tuple[str, float, int]],
    steps: int,
    restarts: int,
    first: int,
    count: int,
) -> dict[str, np.ndarray]:
    """Return the reconstructions `[cases, count, ...]` of images from real messages of the first iterations.

    Five agents hold five images. A case is a sender, its scale of d_0 and the rounds heard. All cases start from the same
    models and are inverted together: a call of the network costs hardly more for many images than for a few.
    """
    settings, (images, truth) = AgentParams(**params), chosen(params["seed"], data, first, count)
    module, heard = parameters.make(MODULES[victim]), []
    for sender, scale, rounds in cases:
        algorithm = algorithm_of(settings.algorithm(), sender, scale, settings.seed)
        for block in range(0, count, AGENTS):
            run, part = (first + block) // AGENTS, slice(block, block + AGENTS)
            theta_0 = parameters.initial(module, INITIAL[victim], seed=settings.seed, run=run)
            state = first_state(algorithm, sender, theta_0, settings.seed, run)
            heard.append(overhear(algorithm, module, state, images[part], truth[part], rounds, settings.seed, run))
    repeated = [part.repeat(len(cases), *[1] * (part.ndim - 1)) for part in (images, truth)]
    numbers = np.tile(np.arange(first, first + count), len(cases))
    found = _inverted(module, heard, *repeated, settings.seed, numbers, steps, restarts)
    return {name: array.reshape(len(cases), count, *array.shape[1:]) for name, array in found.items()}


def attack_later(
    params: dict, data: str, scale: float, moments: list[int], steps: int, restarts: int, count: int
) -> dict[str, np.ndarray]:
    """Return the reconstructions of `count` images at several moments of one training of the CNN, `[moments, ...]`.

    Five agents train on 20 images an iteration (a sample of 20 of the history estimates its gradient). At each moment the run
    goes on in two ways: the training itself, and one round in which every agent's gradient is that of a single image.
    """
    settings, (images, truth) = AgentParams(**params), chosen(params["seed"], data, 0, count)
    algorithm = algorithm_of(settings.algorithm(), "quantised", scale, settings.seed)
    module, (x, y), found = parameters.make(MODULES["CNN"]), digits(data), []
    history = streams.history(settings.seed, [0], AGENTS, max(moments) + 1, SAMPLES, len(y), 0)[0]
    oracle = neural.SampledHistory(module, x, y, history, sample=SAMPLES, seed=settings.seed)
    theta_0 = parameters.initial_states(module, INITIAL["CNN"], seed=settings.seed, runs=[0], agents=AGENTS)
    accuracies = []

    def observe(state: optimizer.State, messages: optimizer.Messages) -> None:
        if state.t not in moments:
            return
        heard = [
            overhear(algorithm, module, state, images[b : b + AGENTS], truth[b : b + AGENTS], 1, settings.seed, 1 + b // AGENTS)
            for b in range(0, count, AGENTS)
        ]
        accuracies.append(oracle.accuracy(state.theta, np.arange(500)).mean())
        found.append(_inverted(module, heard, images, truth, settings.seed, np.arange(count), steps, restarts))

    optimizer.run(algorithm, oracle, theta_0, max(moments) + 1, seed=settings.seed, observe=observe)
    return {name: np.stack([result[name] for result in found]) for name in found[0]} | {"accuracy": np.array(accuracies)}


def read_labels(params: dict, data: str, sender: str, rounds: list[int], first: int, count: int) -> dict[str, np.ndarray]:
    """Return the labels that an eavesdropper infers from the last layer of the CNN, `[rules, rounds, images]`.

    The activation is ReLU, with which the network is trained. Only the last layer's coordinates of the messages are used.
    """
    settings, (images, truth) = AgentParams(**params), chosen(params["seed"], data, first, count)
    algorithm = algorithm_of(settings.algorithm(), sender, 1.0, settings.seed)
    module = parameters.make(CNN)
    layout = parameters.layout(module)
    last, guesses = slice(layout.dim - sum(layout.sizes[-2:]), layout.dim), []
    for block in range(0, count, AGENTS):
        run, part = (first + block) // AGENTS, slice(block, block + AGENTS)
        state = first_state(
            algorithm, sender, parameters.initial(module, "he", seed=settings.seed, run=run), settings.seed, run
        )
        messages, _ = listen(algorithm, module, state, images[part], truth[part], max(rounds), settings.seed, run)
        heard = [eavesdropper.cut(message, last) for message in messages]
        found = [_first_gradient(algorithm, heard[: k + 1]) for k in rounds]
        guesses.append([[labels.infer(layout, torch.tensor(g), rule).numpy() for g in found] for rule in labels.RULES])
    return {"guessed": np.concatenate(guesses, axis=-1), "label": truth.numpy()}


def _first_gradient(algorithm: optimizer.Algorithm, messages: list[optimizer.Messages]) -> np.ndarray:
    everything = [slice(0, messages[0].theta.shape[-1])]
    return eavesdropper.gradients(algorithm, messages, drift=None, parts=everything).gradient[0, 0]


def _inverted(
    module: nn.Module,
    heard: list[Heard],
    images: torch.Tensor,
    truth: torch.Tensor,
    seed: int,
    numbers: np.ndarray,
    steps: int,
    restarts: int,
) -> dict[str, np.ndarray]:
    """Return the reconstructions of everything heard, with the error of the estimated gradients."""
    theta, gradient, estimate, predicted = (np.concatenate(part) for part in zip(*heard, strict=True))
    if isinstance(module, CNN):
        found = _by_features(module, _float32(theta), _float32(estimate), numbers, seed, steps, restarts)
    else:
        options = {"seed": seed, "numbers": numbers.tolist(), "steps": steps, "restarts": restarts}
        found = inversion.idlg(module, _float32(theta), _float32(estimate), **options)
    error = np.sqrt(np.mean((estimate - gradient) ** 2, axis=1))
    size = np.sqrt(np.mean(gradient**2, axis=1))
    return _result(images, truth, found) | {"error": error, "predicted": np.sqrt(predicted), "size": size}


def _by_features(module: CNN, theta, heard, numbers, seed: int, steps: int, restarts: int) -> inversion.Inversion:
    """Return what the feature attack makes of gradients at several states: those of one state together."""
    _, group = torch.unique(theta, dim=0, return_inverse=True)
    parts: list[inversion.Inversion | None] = [None] * len(theta)
    for number in group.unique():
        rows = torch.nonzero(group == number).flatten()
        options = {"seed": seed, "numbers": numbers[rows.numpy()].tolist(), "steps": steps, "restarts": restarts}
        found = features.invert(module, theta[rows[0]], heard[rows], **options)
        for place, row in enumerate(rows.tolist()):
            parts[row] = inversion.Inversion(*(field[place] for field in found))
    return inversion.Inversion(*(torch.stack(field) for field in zip(*parts, strict=True)))


def _result(images: torch.Tensor, truth: torch.Tensor, found: inversion.Inversion) -> dict[str, np.ndarray]:
    return {
        "original": images[:, 0].numpy(),
        "picture": found.images[:, 0].numpy(),
        "label": truth.numpy(),
        "guessed": found.labels.numpy(),
        "diverged": found.diverged.numpy(),
        "loss": found.loss.numpy(),
        "steps": found.steps.numpy(),
    }


def _float32(array) -> torch.Tensor:
    return torch.tensor(np.asarray(array), dtype=torch.float32)
