"""The worst modification: which replacement of one data point an agent's messages give away most.

Data are row numbers: `history` `[data points, samples]` says which rows of a data set an agent acquired, and an adjacent
history (Definition 2) has another data point at one index k. `problem` turns a batch of histories
`[batch, 1, data points, samples]` into an oracle, e.g. `lambda history: Logistic(features, labels, history)`.

The paper modifies a data point at random; the promise is about the worst one. `search` looks for it by the paper's own
measure, the sum of delta_t, which needs no sampling, and then computes every measure for the best ones found. Its result says
how far it looked (`Search.method`): it is exhaustive only where it says so, and otherwise a lower bound on the worst case.
The certificate is the upper bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ldp_core.accountant.trajectory import Budget, Received, budget, replay
from ldp_core.optimizer import Algorithm1, Oracle

Problem = Callable[[np.ndarray], Oracle]  # histories [batch, 1, data points, samples] -> oracle of that batch and one agent

MEASURES = ("paper", "sum", "product", "exact")


@dataclass(frozen=True, eq=False)
class Search:
    """Modifications that give away much, largest paper's sum first: data point k becomes the rows `point`."""

    agent: int
    k: np.ndarray  # [found]
    point: np.ndarray  # [found, samples]
    budget: Budget  # of each against the unmodified history
    method: str
    evaluated: int  # modifications compared

    def worst(self, measure: str = "paper") -> int:
        """Return which modification has the largest final budget, by one of the measures.

        "paper" is the paper's sum, "sum" that of exact total variations, "product" 1 - prod(1 - total variation), and "exact"
        the exact total variation of the whole transcript.
        """
        if measure not in MEASURES:
            raise ValueError(f"measure = {measure!r} must be one of {', '.join(map(repr, MEASURES))}")
        if measure != "exact":
            return int(np.argmax(getattr(self.budget, measure)[-1]))
        if self.budget.total_variation is None:
            raise ValueError("measure = 'exact' needs a search with exact='bracket' or 'monte carlo', and epsilon = 0")
        return int(np.argmax(self.budget.total_variation.estimate[-1]))


def adjacent(history: np.ndarray, k, point) -> np.ndarray:
    """Return histories `[batch, 1, data points, samples]` in which data point k `[batch]` became `point` `[batch, samples]`."""
    history, k, point = np.asarray(history), np.atleast_1d(k), np.asarray(point)
    if history.ndim != 2 or point.shape != (len(k), history.shape[1]):
        raise ValueError(f"point has shape {point.shape}: it must be [{len(k)} modifications, {history.shape[-1]} samples]")
    wrong = (k < 0) | (k >= len(history))
    if wrong.any():
        raise ValueError(f"k = {k[wrong][0]} must lie in [0, {len(history)}), the data points of the history (Definition 2)")
    modified = np.repeat(history[None, None], len(k), axis=0)
    modified[np.arange(len(k)), 0, k] = point
    return modified


def random_modifications(
    history: np.ndarray, rows, generator: np.random.Generator, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return (k `[count]`, point `[count, samples]`): the paper's protocol, a uniform data point replaced by uniform rows."""
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

    Every one of `rows` is tried in every sample of every data point k in `points`, one sample at a time. With `whole`, the best
    data point found so far is searched on, one sample at a time, until no sample improves it, so that the whole data point is
    replaced (coordinate ascent: not all combinations). A modification is scored by the paper's sum over the `screening`
    iterations after the data point arrives (all iterations by default). Only those are replayed, from the unmodified state at
    which the data point arrives, `batch` modifications at once. `options` (exact, times, epsilons, samples, seed, confidence)
    go to `trajectory.budget`, which follows the finalists through the whole run.

    theta_0 and psi_0 are `[1, dim]`, and the transcript one run. With `warm_up`, data point k arrives at time
    max(0, k - warm_up).
    """
    history, rows = np.asarray(history), np.unique(rows)
    iterations = len(received.theta)
    arrival = [max(0, int(k) - warm_up) for k in points]
    _require(points, arrival, history, finalists, screening, iterations)
    span = iterations if screening is None else screening
    unmodified = problem(history[None, None])
    last = min(iterations, max(arrival) + 1)
    states = [state[1:] for state in replay(algorithm, agent, _first(received, last), unmodified, theta_0, psi_0)]
    screen = _Screen(algorithm, agent, received, problem, history, span, warm_up, batch, states)
    found_k, found_point, scores = [], [], []
    for k, start in zip(points, arrival, strict=True):
        for candidates, score in _ascend(screen, int(k), start, rows, whole):
            found_k.append(np.full(len(candidates), k))
            found_point.append(candidates)
            scores.append(score)
    every_k, every_point, score = (np.concatenate(parts) for parts in (found_k, found_point, scores))
    distinct = np.unique(np.column_stack([every_k, every_point]), axis=0, return_index=True)[1]
    best = distinct[np.argsort(-score[distinct], kind="stable")][:finalists]
    oracle = problem(adjacent(history, every_k[best], every_point[best]))
    found = budget(
        algorithm, agent, received, problem(history[None, None]), oracle, theta_0, psi_0, modifications=len(best), **options
    )
    method = _method(points, len(history), len(rows), whole, span, iterations, history.shape[1])
    return Search(agent, every_k[best], every_point[best], found, method, len(every_k))


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
        return np.concatenate(
            [self._sum(adjacent(history, np.full(len(piece), k), piece), start, stop, unmodified) for piece in pieces]
        )

    def _replay(self, histories: np.ndarray, start: int, stop: int) -> Iterator:
        theta, psi = (np.repeat(state, len(histories), axis=0) for state in self.states[start])
        oracle = self.problem(histories)
        return replay(self.algorithm, self.agent, _first(self.received, stop), oracle, theta, psi, start)

    def _sum(self, histories: np.ndarray, start: int, stop: int, unmodified: list) -> np.ndarray:
        total = np.zeros(len(histories))
        for (t, theta, psi), (_, own_theta, own_psi) in zip(self._replay(histories, start, stop), unmodified, strict=True):
            sensitivity = np.abs(theta - own_theta).sum(axis=-1) + np.abs(psi - own_psi).sum(axis=-1)
            total += sensitivity / self.algorithm.schedules.step(t)[self.agent]
        return total


def _ascend(screen: _Screen, k: int, start: int, rows: np.ndarray, whole: bool) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield batches of candidates for data point k with their scores: one sample replaced, then, with `whole`, others too."""
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
                best, highest, improving = candidates[np.argmax(scores)], scores.max(), whole and len(base) > 1
        base = best


def _first(received: Received, iterations: int) -> Received:
    return Received(received.theta[:iterations], received.psi[:iterations])


def _method(points, data_points: int, rows: int, whole: bool, span: int, iterations: int, samples: int) -> str:
    every = "every data point" if len(set(points)) == data_points else f"data points {', '.join(map(str, points))}"
    one = f"all {rows} rows in each of the {samples} samples of {every}" if samples > 1 else f"all {rows} rows in {every}"
    window = "the whole run" if span >= iterations else f"the {span} iterations after arrival"
    kind = "one sample after the other (coordinate ascent)" if whole and samples > 1 else ""
    complete = span >= iterations and not kind and len(set(points)) == data_points
    return f"{'exhaustive' if complete else 'bounded'}: {one}{', ' * bool(kind)}{kind}, by the paper's sum over {window}"


def _require(points, arrival, history, finalists, screening, iterations) -> None:
    if not iterations:
        raise ValueError("received is empty: with no iterations nothing was sent, and no modification is worse than another")
    if not len(points):
        raise ValueError("points is empty: name at least one index k of a data point to modify")
    for k, start in zip(points, arrival, strict=True):
        if not 0 <= k < len(history) or start >= iterations:
            raise ValueError(
                f"k = {k} must lie in [0, {len(history)}), and arrive before iteration {iterations} (Definition 2)"
            )
    if finalists < 1:
        raise ValueError(f"finalists = {finalists} must be at least 1")
    if screening is not None and screening < 1:
        raise ValueError(f"screening = {screening} must be at least 1 iteration")
