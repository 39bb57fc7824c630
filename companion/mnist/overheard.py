"""Notebook 3, Fig. 5 and beyond: images and labels read out of what the agents send.

    calibrate      iDLG as published, on LeNet: does our attack do what its authors' does?
    attack         real messages around single images -> estimated gradient -> image
    attack_later   the same after a real training, at several moments
    read_labels    the labels alone

Two victims: LeNet attacked by iDLG, and the paper's CNN (sigmoid) attacked through its feature map
(`attacks.features`). Every agent holds one image; the attacker is given the true theta_t of the
agent it attacks, which is public at t = 0 and a gift later.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

import numpy as np
import torch
from torch import nn

from companion.attacks import eavesdropper, features, inversion, labels, matching
from companion.data import streams
from companion.mnist.digits import attacked, digits
from companion.mnist.messages import Heard, Scene, algorithm_of, first_state, listen, overhear
from companion.mnist.params import SAMPLES
from companion.params import AGENTS, AgentParams
from companion.problems import neural, parameters
from companion.problems.cnn import CNN
from companion.problems.lenet import LeNet
from ldp_core import optimizer

Arrays = dict[str, np.ndarray]
Victim = Literal["LeNet", "CNN"]
MODULES = {"LeNet": LeNet, "CNN": partial(CNN, "sigmoid")}
INITIAL = {"LeNet": "uniform", "CNN": "he"}
BEGINNING = 500  # training images on which a network that is attacked later is judged


def calibrate(seed: int, data: str, method: str, steps: int, first: int, count: int) -> Arrays:
    """Return iDLG's reconstructions of `count` images, each with a LeNet of its own, as
    published."""
    images, truth = attacked(seed, data, first, count)
    module, numbers = parameters.make(LeNet), range(first, first + count)
    start = [parameters.initial(module, "uniform", seed=seed, run=number) for number in numbers]
    theta = _float32(start)
    heard = matching.gradients(module, theta, images, truth)
    options = {"seed": seed, "numbers": numbers, "steps": steps}
    careful = method == "line search"
    found = inversion.idlg(module, theta, heard, line_search=careful, **options)
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
) -> Arrays:
    """Return the reconstructions `[cases, count, ...]` from real messages of the first iterations.

    Five agents hold five images. A case is a sender, its scale of d_0 and the rounds heard. All
    cases start from the same models and are inverted together: a call of the network costs hardly
    more for many images than for a few. Cases that tell the same are attacked once.
    """
    asked = [_told_once(*case) for case in cases]
    told = list(dict.fromkeys(asked))
    settings, (images, truth) = AgentParams(**params), attacked(params["seed"], data, first, count)
    module, heard, seed = parameters.make(MODULES[victim]), [], settings.seed
    for sender, scale, rounds in told:
        algorithm = algorithm_of(settings.algorithm(), sender, scale, seed)
        for run, five in _fives(first, images, truth):
            scene = Scene(algorithm, module, *five, seed, run)
            theta_0 = parameters.initial(module, INITIAL[victim], seed=seed, run=run)
            heard.append(overhear(scene, first_state(scene, sender, theta_0), rounds))
    repeated = [part.repeat(len(told), *[1] * (part.ndim - 1)) for part in (images, truth)]
    numbers = np.tile(np.arange(first, first + count), len(told))
    found = _inverted(module, heard, *repeated, seed, numbers, steps, restarts)
    shape, places = (len(told), count), [told.index(case) for case in asked]
    return {name: array.reshape(*shape, *array.shape[1:])[places] for name, array in found.items()}


def _told_once(sender: str, scale: float, rounds: int) -> tuple[str, float, int]:
    """Return the case that is attacked: from one round, all that is sent in the clear tells the
    same gradient."""
    return ("D-PSGD" if scale == 0 and rounds == 1 else sender), scale, rounds


def attack_later(
    params: dict,
    data: str,
    scale: float,
    moments: list[int],
    steps: int,
    restarts: int,
    count: int,
) -> Arrays:
    """Return the reconstructions of `count` images at moments of a training, `[moments, ...]`.

    Five agents train the CNN on 20 images an iteration (a sample of 20 of the history estimates its
    gradient). At each moment the run goes on in two ways: the training itself, and one round in
    which every agent's gradient is that of a single image.
    """
    settings, (images, truth) = AgentParams(**params), attacked(params["seed"], data, 0, count)
    algorithm = algorithm_of(settings.algorithm(), "quantised", scale, settings.seed)
    module, found, seed = parameters.make(MODULES["CNN"]), [], settings.seed
    oracle = _sampled(module, data, seed, max(moments) + 1)
    start = {"seed": seed, "runs": [0], "agents": AGENTS}
    theta_0 = parameters.initial_states(module, INITIAL["CNN"], **start)

    def observe(state: optimizer.State, messages: optimizer.Messages) -> None:
        if state.t in moments:
            heard = [
                overhear(Scene(algorithm, module, *five, seed, 1 + run), state, 1)
                for run, five in _fives(0, images, truth)
            ]
            numbers = np.arange(count)
            result = _inverted(module, heard, images, truth, seed, numbers, steps, restarts)
            accuracy = oracle.accuracy(state.theta, np.arange(BEGINNING)).mean()
            found.append(result | {"accuracy": accuracy})

    optimizer.run(algorithm, oracle, theta_0, max(moments) + 1, seed=seed, observe=observe)
    return {name: np.stack([result[name] for result in found]) for name in found[0]}


def read_labels(
    params: dict, data: str, sender: str, rounds: list[int], first: int, count: int
) -> Arrays:
    """Return the labels inferred from the last layer of the CNN, `guessed [rules, rounds, images]`.

    The activation is ReLU, with which the network is trained. Only the last layer's coordinates of
    the messages are used.
    """
    settings, (images, truth) = AgentParams(**params), attacked(params["seed"], data, first, count)
    algorithm = algorithm_of(settings.algorithm(), sender, 1.0, settings.seed)
    module = parameters.make(CNN)
    layout, guesses = parameters.layout(module), []
    last = slice(layout.dim - sum(layout.sizes[-2:]), layout.dim)
    for run, five in _fives(first, images, truth):
        scene = Scene(algorithm, module, *five, settings.seed, run)
        theta_0 = parameters.initial(module, "he", seed=settings.seed, run=run)
        messages, _ = listen(scene, first_state(scene, sender, theta_0), max(rounds))
        heard = [eavesdropper.cut(message, last) for message in messages]
        found = [_first_gradient(algorithm, heard[: k + 1]) for k in rounds]
        guesses.append(
            [
                [labels.infer(layout, gradient, rule).numpy() for gradient in found]
                for rule in labels.RULES
            ]
        )
    return {"guessed": np.concatenate(guesses, axis=-1), "label": truth.numpy()}


def _fives(first: int, images: torch.Tensor, truth: torch.Tensor):
    """Yield the number of a run, and the five images and labels of its agents."""
    for block in range(0, len(images), AGENTS):
        part = slice(block, block + AGENTS)
        yield (first + block) // AGENTS, (images[part], truth[part])


def _sampled(module: nn.Module, data: str, seed: int, iterations: int) -> neural.SampledHistory:
    x, y, rows = digits(data)
    history = streams.history(seed, [0], AGENTS, iterations, SAMPLES, rows, 0)[0]
    return neural.SampledHistory(module, x, y, history, sample=SAMPLES, seed=seed)


def _first_gradient(algorithm: optimizer.Algorithm, messages: list) -> torch.Tensor:
    everything = [slice(0, messages[0].theta.shape[-1])]
    found = eavesdropper.gradients(algorithm, messages, drift=None, parts=everything)
    return torch.tensor(found.gradient[0, 0])


def _inverted(
    module: nn.Module,
    heard: list[Heard],
    images: torch.Tensor,
    truth: torch.Tensor,
    seed: int,
    numbers: np.ndarray,
    steps: int,
    restarts: int,
) -> Arrays:
    """Return the reconstructions of everything heard, with the error of the estimated gradients."""
    theta, gradient, estimate, predicted = (
        np.concatenate(part) for part in zip(*heard, strict=True)
    )
    options = {"seed": seed, "steps": steps, "restarts": restarts}
    invert = features.invert if isinstance(module, CNN) else inversion.idlg
    found = invert(module, _float32(theta), _float32(estimate), numbers=numbers.tolist(), **options)
    error = np.sqrt(np.mean((estimate - gradient) ** 2, axis=1))
    size = np.sqrt(np.mean(gradient**2, axis=1))
    sizes = {"error": error, "predicted": np.sqrt(predicted), "size": size}
    return _result(images, truth, found) | sizes


def _result(images: torch.Tensor, truth: torch.Tensor, found: inversion.Inversion) -> Arrays:
    pictures = {"original": images[:, 0], "picture": found.images[:, 0]}
    names = {"label": truth, "guessed": found.labels, "diverged": found.diverged}
    return {name: part.numpy() for name, part in (pictures | names).items()}


def _float32(array) -> torch.Tensor:
    return torch.tensor(np.asarray(array), dtype=torch.float32)
