"""Which sample reaches which agent when: each draw is a pure function of (seed, run, agent, t).

All functions return row numbers, never data, so that one data set in memory serves every run. The
rows of iteration t are the numbers t * samples ... (t + 1) * samples - 1 of one counter-based
stream per (seed, run, agent): they depend neither on the horizon nor on the runs and agents
computed beside them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ldp_core.randomness import Purpose, generator


def split(seed: int, run: int, agent: int, rows: int, test: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (test_rows, train_rows) of one agent: all rows, permuted and cut after `test`.

    Every agent keeps its own test rows ("each agent sequentially receives 2000 random samples to
    serve as its test set"), and never trains on them; another agent may.
    """
    if not 0 <= test < rows:
        rule = f"must lie in [0, rows) with rows = {rows}, so that something is left to train on"
        raise ValueError(f"test = {test} {rule}")
    order = generator(seed, Purpose.SPLIT, run, agent=agent).permutation(rows)
    order = order.astype(_row_type(rows))
    return order[:test], order[test:]


def stream(
    seed: int, run: int, agent: int, iterations: int, samples: int, source: np.ndarray
) -> np.ndarray:
    """Return the rows that arrive at one agent, of `source` with replacement, at every iteration.

    `[iterations, samples]`, for t = 0 ... iterations - 1.
    """
    random = generator(seed, Purpose.DATA, run, agent=agent)
    return _pick(source, random.random((iterations, samples)))


def history(
    seed: int,
    runs: Sequence[int],
    agents: int,
    iterations: int,
    samples: int,
    rows: int,
    test: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return (train, test) row numbers of every run and agent, as in the paper's section 4.1.

    train: `[runs, agents, iterations, samples]`, test: `[runs, agents, test]`; `runs` are the
    numbers of the runs wanted.
    """
    train = np.empty((len(runs), agents, iterations, samples), dtype=_row_type(rows))
    held_out = np.empty((len(runs), agents, test), dtype=_row_type(rows))
    for r, run in enumerate(runs):
        for agent in range(agents):
            held_out[r, agent], source = split(seed, run, agent, rows, test)
            train[r, agent] = stream(seed, run, agent, iterations, samples, source)
    return train, held_out


def shares(seed: int, run: int, rows: int, agents: int) -> list[np.ndarray]:
    """Return a disjoint share of all rows for every agent, as equal as can be."""
    order = generator(seed, Purpose.SPLIT, run).permutation(rows).astype(_row_type(rows))
    return np.array_split(order, agents)


def folds(seed: int, subjects: Sequence[int], agents: int = 5, run: int = 0) -> dict[int, list]:
    """Return, for each subject left out, whose trials each agent holds: all others are dealt.

    With nine subjects and five agents, eight training subjects make three agents with two and two
    agents with one. Who gets whom is drawn at (seed, run, left-out subject), so that a fold does
    not depend on which other folds are computed.
    """
    if not agents <= len(subjects) - 1 <= 2 * agents:
        people = f"{len(subjects) - 1} training subjects"
        raise ValueError(f"agents = {agents} cannot hold one or two each of {people}")
    dealt = {}
    for test in subjects:
        random = generator(seed, Purpose.SPLIT, run, t=test)
        others = random.permutation([subject for subject in subjects if subject != test])
        hands = [tuple(sorted(hand.tolist())) for hand in np.array_split(others, agents)]
        dealt[test] = [hands[i] for i in random.permutation(agents)]
    return dealt


def _pick(source: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
    """Return source[floor(u n)]; with 53-bit u each of n rows has probability 1/n up to 2**-53."""
    if len(source) == 0:
        raise ValueError("source has no rows to draw from")
    return source[(uniforms * len(source)).astype(np.intp)]


def _row_type(rows: int) -> np.dtype:
    """Return the smallest signed type that can number the rows: histories are large."""
    return np.dtype(np.int16 if rows <= np.iinfo(np.int16).max else np.int32)
