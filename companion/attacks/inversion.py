"""From one image's gradient back to the image: iDLG, and Adam with a prior.

    idlg         Zhao, Mopuri and Bilen 2020: the label first (`labels`), then the image, by L-BFGS
    signed_adam  Geiping et al. 2020: Adam on the derivative's signs, total variation, pixels in
                 [0, 1]; of any loss

Each attacks many images, and several starting points of each, at once. `line_search=False` is
L-BFGS as in the published code of iDLG (every step has length one and may make things worse, so
that some runs diverge); the default accepts only steps that help. All starting points come from
(seed, problem number, restart): the same whatever is attacked beside.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch

from companion.attacks import labels as label_rules
from companion.attacks import lbfgs
from companion.attacks.matching import Matching
from companion.problems.adam import Adam
from companion.problems.lenet import LeNet
from companion.problems.parameters import layout
from ldp_core.randomness import Purpose, generator

SHAPE = (1, 28, 28)
ESCAPE = 1e3  # pixels are in [0, 1]: a guess with a pixel beyond this will not come back
PUBLISHED_MEMORY, PUBLISHED_LOSS = 100, 1e-6  # pairs kept; stop below this loss
DRAWS = {"normal": "standard_normal", "uniform": "random"}


class Inversion(NamedTuple):
    """The guess with the smallest loss among the restarts of each problem.

    images `[problems, *SHAPE]`, labels `[problems]`, diverged `[problems]` (all restarts of it).
    """

    images: torch.Tensor
    labels: torch.Tensor
    diverged: torch.Tensor


def starting_points(
    seed: int, problems: Iterable[int], restarts: int, size: int, draw: str = "normal"
) -> torch.Tensor:
    """Return points `[problems, restarts, size]`, each drawn at (seed, problem number, restart).

    "normal" is N(0, 1), as published; "uniform" is in [0, 1], where the pixels are.
    """

    def point(number: int, restart: int) -> np.ndarray:
        source = generator(seed, Purpose.ATTACK, number, agent=restart)
        return getattr(source, DRAWS[draw])(size=size)

    points = [[point(number, restart) for restart in range(restarts)] for number in problems]
    return torch.tensor(np.array(points), dtype=torch.float32)


def idlg(
    module: LeNet,
    theta: torch.Tensor,
    heard: torch.Tensor,
    *,
    seed: int,
    numbers: Sequence[int],
    restarts: int = 1,
    steps: int = 300,
    line_search: bool = True,
) -> Inversion:
    """Return iDLG's reconstructions from `heard [problems, dim]` at `theta [(problems,) dim]`.

    `numbers` are the problems' in their starting points' addresses.
    """
    labels = label_rules.infer(layout(module), heard).repeat_interleave(restarts)
    theta = theta if theta.ndim == 1 else theta.repeat_interleave(restarts, dim=0)
    matching = Matching(module, theta, heard.repeat_interleave(restarts, dim=0), labels)
    start = starting_points(seed, numbers, restarts, math.prod(SHAPE)).flatten(0, 1)
    options: dict = {"target": PUBLISHED_LOSS, "escape": ESCAPE, "narrow": matching.narrow}
    if not line_search:
        options |= {"memory": PUBLISHED_MEMORY, "progress_tolerance": 0.0, "evaluations": steps}
    found = lbfgs.minimise(matching, start, steps=steps, line_search=line_search, **options)
    return best(found.x.view(-1, *SHAPE), labels, found.value, found.diverged, restarts)


def signed_adam(
    function: Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]],
    start: torch.Tensor,
    *,
    steps: int,
    rate: float,
    variation: tuple[float, float],
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (images `[problems, *SHAPE]`, losses without the prior) after `steps` of Adam.

    Adam moves on the signs of the derivatives, and the pixels stay in [0, 1]. The rate falls as
    half a cosine, the weight of the total variation geometrically from the first to the second of
    `variation`: the prior leads at first and hardly biases the end. (Geiping et al. 2020 keep the
    weight and cut the rate three times; on the feature maps of `features` that leaves errors a
    hundred times larger.)
    """
    x = start.clone().clamp_(0.0, 1.0)
    adam, (first, last) = Adam([x]), variation
    for step in range(steps):
        done = step / steps
        falling = 0.5 + 0.5 * math.cos(math.pi * done)
        weight = first * (last / first) ** done
        prior = variation_slope(x.view(-1, *SHAPE)).flatten(1)
        signs = (function(x)[1] + weight * prior).sign()
        adam.step([signs], rate * falling + 1e-3 * rate)
        x.clamp_(0.0, 1.0)
    return x.view(-1, *SHAPE), function(x)[0]


def variation_slope(images: torch.Tensor) -> torch.Tensor:
    """Return a subgradient of the mean |difference| of neighbouring pixels of every image."""
    down, right = images.diff(dim=-2).sign(), images.diff(dim=-1).sign()
    change = torch.zeros_like(images)
    change[..., 1:, :] += down
    change[..., :-1, :] -= down
    change[..., :, 1:] += right
    change[..., :, :-1] -= right
    return change / images[0].numel()


def best(images, labels, loss, diverged, restarts: int) -> Inversion:
    """Return for each problem the restart with the smallest loss; those that diverged come last."""
    ranked = torch.where(diverged | ~torch.isfinite(loss), torch.inf, loss).view(-1, restarts)
    rows = torch.arange(len(ranked)) * restarts + ranked.argmin(dim=1)
    return Inversion(images[rows], labels[rows], diverged.view(-1, restarts).all(dim=1))
