"""Which sample reaches which agent at which time: every draw is a pure function of (seed, run,
agent, t).

All functions return row numbers, never data, so that one data set in memory serves every run. The
rows of iteration t are the numbers t * samples ... (t + 1) * samples - 1 of one counter-based
stream per (seed, run, agent): they depend neither on the horizon nor on the runs and agents
computed beside them, and any t can be reached without drawing what precedes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ldp_core.randomness import Purpose, generator, word

_WORDS_PER_BLOCK = 4  # Philox makes four 64-bit words from one counter


def split(seed: int, run: int, agent: int, rows: int, test: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (test_rows, train_rows) of one agent: a random permutation of all rows, cut after
    `test`.

    Every agent keeps its own test rows ("each agent sequentially receives 2000 random samples to
    serve as its test set"), and never trains on them; another agent may.
    """
    if not 0 <= test < rows:
        raise ValueError(
            f"test = {test} must lie in [0, rows) with rows = {rows}, so that something is left to "
            "train on"
        )
    order = (
        generator(seed, Purpose.SPLIT, run, agent=agent).permutation(rows).astype(_row_type(rows))
    )
    return order[:test], order[test:]


def draw(seed: int, run: int, agent: int, t: int, samples: int, source: np.ndarray) -> np.ndarray:
    """Return the rows that arrive at one agent at iteration t: `samples` of `source`, uniform and
    with replacement."""
    skipped = word("t", t) * samples
    random = generator(seed, Purpose.DATA, run, agent=agent)
    random.bit_generator.advance(skipped // _WORDS_PER_BLOCK)  # type: ignore[attr-defined]
    uniforms = random.random(skipped % _WORDS_PER_BLOCK + samples)
    return _pick(source, uniforms[skipped % _WORDS_PER_BLOCK :])


def stream(
    seed: int, run: int, agent: int, iterations: int, samples: int, source: np.ndarray
) -> np.ndarray:
    """Return `draw` for t = 0 ... iterations - 1 at once, `[iterations, samples]`."""
    return _pick(
        source, generator(seed, Purpose.DATA, run, agent=agent).random((iterations, samples))
    )


def history(
    seed: int,
    runs: int | Sequence[int],
    agents: int,
    iterations: int,
    samples: int,
    rows: int,
    test: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return (train, test) row numbers of every run and agent, as in the paper's mushroom
    experiment.

    train: `[runs, agents, iterations, samples]`, test: `[runs, agents, test]`. `runs` is how many,
    or the numbers of the runs wanted. Entry [r, i, t] equals `draw(seed, runs[r], i, t, samples,
    train_rows)` with the `train_rows` of `split`.
    """
    numbers = range(runs) if isinstance(runs, int) else runs
    for name, value in (("agents", agents), ("iterations", iterations), ("samples", samples)):
        if value < 1:
            raise ValueError(f"{name} = {value} must be at least 1")
    train = np.empty((len(numbers), agents, iterations, samples), dtype=_row_type(rows))
    held_out = np.empty((len(numbers), agents, test), dtype=_row_type(rows))
    for r, run in enumerate(numbers):
        for agent in range(agents):
            held_out[r, agent], source = split(seed, run, agent, rows, test)
            train[r, agent] = stream(seed, run, agent, iterations, samples, source)
    return train, held_out


def shares(seed: int, run: int, rows: int, agents: int) -> list[np.ndarray]:
    """Return a disjoint share of all rows for every agent, as equal as can be: each agent draws
    from its own source."""
    if not 1 <= agents <= rows:
        raise ValueError(f"agents = {agents} must lie in [1, rows] with rows = {rows}")
    order = generator(seed, Purpose.SPLIT, run).permutation(rows).astype(_row_type(rows))
    return np.array_split(order, agents)


@dataclass(frozen=True)
class Fold:
    """One leave-one-subject-out fold: who is tested, and whose trials each agent holds."""

    test: int
    train: tuple[tuple[int, ...], ...]


def folds(seed: int, subjects: Sequence[int], agents: int = 5, run: int = 0) -> list[Fold]:
    """Return one fold per subject: the others are dealt to the agents exhaustively and disjointly,
    one or two to each.

    With nine subjects and five agents, eight training subjects make three agents with two and two
    agents with one. Who gets whom is drawn at (seed, run, left-out subject), so that a fold does
    not depend on which other folds are computed.
    """
    subjects = list(subjects)
    if len(set(subjects)) != len(subjects):
        raise ValueError(f"subjects = {subjects} must be all different")
    if not agents <= len(subjects) - 1 <= 2 * agents:
        raise ValueError(
            f"agents = {agents} cannot hold one or two each of {len(subjects) - 1} training "
            "subjects"
        )
    return [
        Fold(test, _deal(generator(seed, Purpose.SPLIT, run, t=test), subjects, test, agents))
        for test in subjects
    ]


def _deal(
    random: np.random.Generator, subjects: list[int], test: int, agents: int
) -> tuple[tuple[int, ...], ...]:
    others = random.permutation([subject for subject in subjects if subject != test])
    hands = [tuple(sorted(hand.tolist())) for hand in np.array_split(others, agents)]
    return tuple(hands[i] for i in random.permutation(agents))


def _pick(source: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
    """Return source[floor(u n)]; with 53-bit u each of n rows has probability 1/n up to 2**-53."""
    if len(source) == 0:
        raise ValueError("source has no rows to draw from")
    return source[(uniforms * len(source)).astype(np.intp)]


def _row_type(rows: int) -> np.dtype:
    """Return the smallest signed type that can number the rows: histories of many runs are
    large."""
    return np.dtype(np.int16 if rows <= np.iinfo(np.int16).max else np.int32)
