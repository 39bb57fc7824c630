"""Learning: Algorithm 1 on a small problem, rounded beside unrounded."""

from __future__ import annotations

import dataclasses

import numpy as np

from companion.publish.play.pages.controls import Control
from ldp_core import network
from ldp_core.optimizer import Algorithm1, Oracle, paper_schedules, run
from ldp_core.randomness import Purpose, generator

TITLE = "Learning"
QUESTION = "Does learning survive the rounding?"
TEXT = (
    "Five towns on a map; each agent sees houses of its own town only, one more at every step. "
    "Together they look for the middle of all houses, and send each other nothing but rounded "
    "numbers. Orange is rounded; blue are the same agents when nothing is."
)
TRY = (
    "Find the largest first step d₀ with which the agents end within 0.1 of the middle.",
    "Which helps more at the end: a smaller d₀, or a faster fall?",
    "Move the weight from 0.05 to 0.45. What does it trade for what?",
)
CONTROLS = (
    Control("d_0", "first step d₀ of the grid", 2.0, 0.1, 10.0, 0.1),
    Control("varsigma", "how fast the step falls, ς", 0.6, 0.51, 0.7, 0.01),
    Control("weight", "weight of every arrow", 0.2, 0.05, 0.55, 0.05),
    Control("iterations", "iterations", 200, 20, 300, 20),
)
LAM_0, NU, SLOPE = 0.5, 0.71, 0.01  # the paper's, as in notebook 1
SEED, RUNS = 0, 8  # the map shows the first run, distances are over all of them
TOWNS = np.array([[-3.0, 2.0], [2.5, 3.0], [3.5, -1.0], [0.5, -3.5], [-3.5, -2.5]])  # a map


def answer(d_0, varsigma, weight, iterations):
    """Return the paths of all agents, rounded and not, and how far they are from the middle."""
    steps = paper_schedules(LAM_0, NU, d_0, SLOPE, varsigma)
    rounded = Algorithm1(network.paper(weight), steps)
    return followed(rounded, iterations)


def houses(iterations: int) -> np.ndarray:
    """Return what the agents see, `[agents, iterations, 2]`: houses in the square of their town."""
    shape = (len(TOWNS), iterations, 2)
    return TOWNS[:, None, :] + 2.0 * generator(SEED, Purpose.SYNTHETIC).random(shape) - 1.0


def towards(seen: np.ndarray) -> Oracle:
    """Return the oracle: theta minus the mean of the houses seen so far."""
    means = np.cumsum(seen, axis=1) / np.arange(1, seen.shape[1] + 1)[:, None]
    return lambda theta, t: theta - means[:, t]


def followed(rounded: Algorithm1, iterations: int) -> dict:
    """Return a run, the same without rounding, and the middle of all houses."""
    twin = dataclasses.replace(rounded, quantised=False)
    seen = houses(iterations)
    middle = seen.mean(axis=(0, 1))
    return {
        "middle": middle,
        "towns": TOWNS,
        "step": rounded.schedules.step(np.arange(iterations))[:, 0],
        "rounded": _run(rounded, seen, middle),
        "twin": _run(twin, seen, middle),
    }


def _run(algorithm: Algorithm1, seen: np.ndarray, middle: np.ndarray) -> dict[str, np.ndarray]:
    """Return the first run's paths, and the root mean square distance from the middle over time."""
    states: list[np.ndarray] = []
    start = np.zeros((RUNS if algorithm.quantised else 1, *TOWNS.shape)) + TOWNS  # all at home
    keep = lambda state, messages: states.append(state.theta)  # noqa: E731
    last = run(algorithm, towards(seen), start, seen.shape[1], seed=SEED, observe=keep)
    path = np.array([*states, last.theta])
    square = ((path - middle) ** 2).sum(axis=-1)
    return {"path": path[:, 0], "error": np.sqrt(square.mean(axis=(1, 2)))}
