"""The worst modification: which replacement of one data point an agent's messages give away most.

    >>> adjacent(np.array([[5], [6], [7]]), k=[1], point=[[9]])[0, 0, :, 0].tolist()
    [5, 9, 7]

Data are row numbers: `history` `[data points, samples]` says which rows of a data set an agent
acquired, and an adjacent history (Definition 2) has another data point at one index k. `problem`
turns a batch of histories `[batch, 1, data points, samples]` into an oracle, e.g. `lambda history:
Logistic(features, labels, history)`.

The paper modifies a data point at random; the promise is about the worst one. `search` looks for it
by the paper's own measure, the sum of delta_t, which needs no sampling, and then computes every
measure for the best ones found. Its result says how far it looked (`Search.method`): it is
exhaustive only where it says so, and otherwise a lower bound on the worst case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ldp_core.accountant.trajectory import Budget, Received, budget, delta_t, replay
from ldp_core.optimizer import Algorithm1, Oracle

Problem = Callable[[np.ndarray], Oracle]  # histories [batch, 1, data points, samples] -> oracle

MEASURES = ("paper", "sum", "product", "exact")


@dataclass(frozen=True, eq=False)
class Search:
    """Modifications that give away much, largest first: data point k becomes the rows `point`."""

    agent: int
    k: np.ndarray  # [found]
    point: np.ndarray  # [found, samples]
    paper: np.ndarray  # [found], the paper's sum of each over the whole run
    measured: Callable[[], Budget]
    method: str
    evaluated: int  # modifications compared

    @cached_property
    def budget(self) -> Budget:
        """Return every measure of each against the unmodified history; computed when asked for."""
        return self.measured()

    def worst(self, measure: str = "paper") -> int:
        """Return which modification has the largest final budget, by one of the measures.

        "paper" is the paper's sum, "sum" that of exact total variations, "product" 1 - prod(1 -
        total variation), and "exact" the exact total variation of the whole transcript.
        """
        if measure not in MEASURES:
            names = ", ".join(map(repr, MEASURES))
            raise ValueError(f"measure = {measure!r} must be one of {names}")
        if measure == "paper":
            return int(np.argmax(self.paper))
        if measure != "exact":
            return int(np.argmax(getattr(self.budget, measure)[-1]))
        if self.budget.exact is None:
            needed = "a search with exact='bracket' or 'monte carlo'"
            raise ValueError(f"measure = 'exact' needs {needed}")
        return int(np.argmax(self.budget.exact.estimate))


def adjacent(history: np.ndarray, k, point) -> np.ndarray:
    """Return histories `[batch, 1, data points, samples]` in which data point k became `point`.

    k is `[batch]`, point `[batch, samples]`.
    """
    history, k, point = np.asarray(history), np.atleast_1d(k), np.asarray(point)
    if history.ndim != 2 or point.shape != (len(k), history.shape[1]):
        rule = f"it must be [{len(k)} modifications, {history.shape[-1]} samples]"
        raise ValueError(f"point has shape {point.shape}: {rule}")
    wrong = (k < 0) | (k >= len(history))
    if wrong.any():
        rule = f"[0, {len(history)}), the data points of the history (Definition 2)"
        raise ValueError(f"k = {k[wrong][0]} must lie in {rule}")
    modified = np.repeat(history[None, None], len(k), axis=0)
    modified[np.arange(len(k)), 0, k] = point
    return modified


def random_modifications(
    history: np.ndarray, rows, generator: np.random.Generator, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return (k `[count]`, point `[count, samples]`): a uniform one replaced by uniform rows."""
    k = generator.integers(len(history), size=count)
    return k, generator.choice(np.asarray(rows), size=(count, np.shape(history)[1]))


def search(
    algorithm: Algorithm1,
    agent: int,
    received: Received,
    problem: Problem,
    history: np.ndarray,
    rows,
    theta_0: np.ndarray,
    psi_0: np.ndarray | None = None,
    *,
    points: Sequence[int] = (0,),
    whole: bool = False,
    screening: int | None = None,
    finalists: int = 8,
    warm_up: int = 0,
    batch: int = 1024,
    **options,
) -> Search:
    """Return the `finalists` modifications of largest budget found, with their full budgets.

    Every one of `rows` is tried in every sample of every data point k in `points`, one sample at a
    time. With `whole`, the best data point found so far is searched on until no sample improves it
    (coordinate ascent: not all combinations). A modification is scored by the paper's sum over the
    `screening` iterations after the data point arrives (all by default), replayed from there,
    `batch` modifications at once; the finalists are followed to the end. `options` go to
    `trajectory.budget`, which measures them in every way when asked to (`Search.budget`).

    theta_0 and psi_0 are `[1, dim]`, and the transcript one run. With `warm_up`, data point k
    arrives at time max(0, k - warm_up).
    """
    history, rows = np.asarray(history), np.unique(rows)
    iterations = len(received.theta)
    arrival = [max(0, int(k) - warm_up) for k in points]
    _require(points, arrival, history, finalists, screening, iterations)
    span = iterations if screening is None else screening
    unmodified = problem(history[None, None])
    last = min(iterations, max(arrival) + 1)
    own = replay(algorithm, agent, _first(received, last), unmodified, theta_0, psi_0)
    states = [state[1:] for state in own]
    screen = _Screen(algorithm, agent, received, problem, history, span, warm_up, batch, states)
    found_k, found_point, scores = [], [], []
    for k, start in zip(points, arrival, strict=True):
        for candidates, score in _ascend(screen, int(k), start, rows, whole):
            found_k.append(np.full(len(candidates), k))
            found_point.append(candidates)
            scores.append(score)
    every_k, every_point, score = (
        np.concatenate(parts) for parts in (found_k, found_point, scores)
    )
    distinct = np.unique(np.column_stack([every_k, every_point]), axis=0, return_index=True)[1]
    best = distinct[np.argsort(-score[distinct], kind="stable")][:finalists]
    best_k, best_point = every_k[best], every_point[best]
    followed, paper = replace(screen, span=iterations), np.empty(len(best))
    for k, start in zip(points, arrival, strict=True):
        paper[best_k == k] = followed(int(k), start, best_point[best_k == k])

    def measured() -> Budget:
        both = (
            problem(one) for one in (history[None, None], adjacent(history, best_k, best_point))
        )
        batch = {"modifications": len(best), **options}
        return budget(algorithm, agent, received, *both, theta_0, psi_0, **batch)

    method = _method(points, len(history), len(rows), whole, span, iterations, history.shape[1])
    return Search(agent, best_k, best_point, paper, measured, method, len(every_k))


@dataclass(frozen=True, eq=False)
class _Screen:
    """The paper's sum over a window after a data point arrives, for a batch of replacements."""

    algorithm: Algorithm1
    agent: int
    received: Received
    problem: Problem
    history: np.ndarray
    span: int
    warm_up: int
    batch: int
    states: list[tuple[np.ndarray, np.ndarray]]

    def __call__(self, k: int, start: int, point: np.ndarray) -> np.ndarray:
        stop = min(len(self.received.theta), start + 1 + self.span)
        history = self.history[: max(stop + self.warm_up, k + 1)]
        unmodified = list(self._replay(history[None, None], start, stop))
        pieces = np.split(point, range(self.batch, len(point), self.batch))
        changed = (adjacent(history, np.full(len(piece), k), piece) for piece in pieces)
        return np.concatenate([self._sum(one, start, stop, unmodified) for one in changed])

    def _replay(self, histories: np.ndarray, start: int, stop: int) -> Iterator:
        theta, psi = (np.repeat(state, len(histories), axis=0) for state in self.states[start])
        oracle = self.problem(histories)
        heard = _first(self.received, stop)
        return replay(self.algorithm, self.agent, heard, oracle, theta, psi, start)

    def _sum(self, histories: np.ndarray, start: int, stop: int, unmodified: list) -> np.ndarray:
        total = np.zeros(len(histories))
        states = zip(self._replay(histories, start, stop), unmodified, strict=True)
        for (t, theta, psi), (_, own_theta, own_psi) in states:
            step = self.algorithm.schedules.step(t)[self.agent]
            total += delta_t(theta, own_theta, psi, own_psi, step)
        return total


def _ascend(screen: _Screen, k: int, start: int, rows: np.ndarray, whole: bool) -> Iterator:
    """Yield candidates for data point k, and scores: one sample replaced, with `whole` others."""
    base = best = screen.history[k]
    highest, improving = -np.inf, True
    while improving:
        improving = False
        for sample in range(len(base)):
            candidates = np.repeat(base[None], len(rows), axis=0)
            candidates[:, sample] = rows
            scores = screen(k, start, candidates)
            yield candidates, scores
            if scores.max() > highest:
                best, highest = candidates[np.argmax(scores)], scores.max()
                improving = whole and len(base) > 1
        base = best


def _first(received: Received, iterations: int) -> Received:
    return Received(received.theta[:iterations], received.psi[:iterations])


def _method(points, data_points: int, rows: int, whole: bool, span, iterations, samples) -> str:
    """Return in words how far the search looked."""
    all_points = len(set(points)) == data_points
    where = "every data point" if all_points else f"data points {', '.join(map(str, points))}"
    one = f"each of the {samples} samples of {where}" if samples > 1 else where
    window = "the whole run" if span >= iterations else f"the {span} iterations after arrival"
    kind = "one sample after the other (coordinate ascent)" if whole and samples > 1 else ""
    scope = "exhaustive" if span >= iterations and not kind and all_points else "bounded"
    how = f", {kind}" if kind else ""
    return f"{scope}: all {rows} rows in {one}{how}, by the paper's sum over {window}"


def _require(points, arrival, history, finalists, screening, iterations) -> None:
    if not iterations:
        raise ValueError("received is empty: nothing was sent, and no modification is the worst")
    if not len(points):
        raise ValueError("points is empty: name at least one index k of a data point to modify")
    for k, start in zip(points, arrival, strict=True):
        if not 0 <= k < len(history) or start >= iterations:
            rule = f"[0, {len(history)}), and arrive before iteration {iterations} (Definition 2)"
            raise ValueError(f"k = {k} must lie in {rule}")
    if finalists < 1:
        raise ValueError(f"finalists = {finalists} must be at least 1")
    if screening is not None and screening < 1:
        raise ValueError(f"screening = {screening} must be at least 1 iteration")
