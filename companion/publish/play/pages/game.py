"""The game: you read every message of one agent, and say which of two data sets it had."""

from __future__ import annotations

import numpy as np

from companion.publish.play.pages import learning
from companion.publish.play.pages.controls import Control
from ldp_core import network, quantizer
from ldp_core.accountant import accuracy, exact, trajectory
from ldp_core.optimizer import Algorithm1, Transcript, paper_schedules, run
from ldp_core.randomness import Purpose, generator

TITLE = "The game"
QUESTION = "Can you hear which data it was?"
TEXT = (
    "You are the eavesdropper. Agent 0 of the network has either the blue data or the orange ones: "
    "its first house is a little farther east; what it hears from the others is the same. You know "
    "both, so you know both lines. What you hear are dots on a grid, drawn by coins around one of "
    "the two lines. Which one?"
)
TRY = (
    "Play ten rounds. Are you better than the best that anybody can do?",
    "Make the first step d₀ larger. What happens to the lines, the dots, and the limit?",
    "Let the best attacker play 1000 rounds, a few times. Does it stay above the limit?",
)
CONTROLS = (
    Control("d_0", "first step d₀ of the grid", 2.0, 0.5, 10.0, 0.5),
    Control("change", "how far east the house moves", 1.0, 0.1, 4.0, 0.1),
    Control("messages", "messages you hear", 6, 2, 9, 1),
)
VARSIGMA, WEIGHT, AGENT = 0.6, 0.2, 0


def answer(d_0, change, messages, seed, rounds):
    """Return rounds of the game, and what the best attacker makes of them."""
    blue, orange, step = worlds(d_0, change, messages)
    delta = exact.delta(exact.pair(blue, orange, step))[0]
    return dealt(blue, orange, step, delta, seed, rounds)


def worlds(d_0: float, change: float, messages: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the agent's states `[messages, 2]` (theta, psi) under both data sets, and the steps.

    What the agent receives is held fixed, so its states are determined (`trajectory.replay`).
    """
    schedules = paper_schedules(learning.LAM_0, learning.NU, d_0, learning.SLOPE, VARSIGMA)
    algorithm = Algorithm1(network.paper(WEIGHT), schedules)
    seen = learning.houses(messages)[:, :, :1]  # east and west alone
    other = seen.copy()
    other[AGENT, 0] += change
    arrived = trajectory.received(algorithm, _transcript(algorithm, seen), AGENT)
    blue, orange = (_states(algorithm, arrived, data) for data in (seen, other))
    return blue, orange, schedules.step(np.arange(messages))[:, AGENT, None]


def _transcript(algorithm: Algorithm1, seen: np.ndarray) -> Transcript:
    """Return what everybody sends in one run, from which the agent's own part is drawn anew."""
    start, heard = np.zeros((1, len(seen), 1)), Transcript()
    oracle = learning.towards(seen)
    run(algorithm, oracle, start, seen.shape[1], seed=learning.SEED, observe=heard)
    return heard


def _states(algorithm: Algorithm1, arrived: trajectory.Received, data: np.ndarray) -> np.ndarray:
    oracle = learning.towards(data[AGENT : AGENT + 1])
    states = trajectory.replay(algorithm, AGENT, arrived, oracle, np.zeros((1, 1)))
    return np.array([[theta[0, 0], psi[0, 0]] for _, theta, psi in states])


def dealt(blue, orange, step, delta: float, seed: int, rounds: int) -> dict:
    """Return the first round's messages and evidence, and the truth and the best guess of all."""
    truth, levels = drawn(blue, orange, step, seed, rounds)
    evidence = weighed(blue, orange, step, levels)
    return {
        "blue": blue,
        "orange": orange,
        "step": step[:, 0],
        "heard": quantizer.value(levels[0], step),
        "evidence": np.clip(evidence[0], -1e9, 1e9),  # a proof is infinite, which JSON has not
        "truth": truth,
        "best": guessed(evidence),
        "delta": delta,
        "limit": float(accuracy(min(delta, 1.0))),
    }


def drawn(blue, orange, step, seed: int, rounds: int) -> tuple[np.ndarray, np.ndarray]:
    """Return which data set it was (0 is blue), by a fair coin, and the levels that were sent."""
    source = generator(seed, Purpose.COINS, agent=AGENT)
    truth = (source.random(rounds) < 0.5).astype(np.int64)
    states = np.stack([blue, orange])[truth]
    return truth, quantizer.quantise(states, step, source.random(states.shape))


def weighed(blue, orange, step, levels) -> np.ndarray:
    """Return log P(orange) / P(blue) of each message `[rounds, messages]`, infinite for a proof."""
    with np.errstate(divide="ignore"):
        for_orange = np.log(quantizer.probability(levels, orange, step)).sum(axis=-1)
        for_blue = np.log(quantizer.probability(levels, blue, step)).sum(axis=-1)
    return for_orange - for_blue


def guessed(evidence: np.ndarray) -> np.ndarray:
    """Return the best guess: orange (1) where all evidence together speaks for it."""
    return (evidence.sum(axis=-1) > 0).astype(np.int64)
