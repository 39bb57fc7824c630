"""Notebook 4: what a promise for EEG costs, and how many trials it would need. One shard.

Softmax regression on public features: the logarithm of a trial's own covariance (`looks`), scaled
to length one. Nothing is learned from anybody, no mean over trials is taken, and people are not
aligned, because a mean over somebody's trials would tell of each. Five agents hold the trials of
all people but one, each draws N of them before its first message and one more an iteration, with
replacement: beyond the trials there are, N is what as many more from these people would give.
Published, and judged here, are *sent* values. The unit of privacy is one arrival of one trial.
"""

from __future__ import annotations

import dataclasses
from functools import cache, lru_cache

import numpy as np
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from companion.attacks.identity import log_covariance
from companion.data import streams
from companion.data.eeg import Recordings
from companion.eeg.params import Training
from companion.eeg.trials import quietly
from companion.params import AGENTS
from ldp_core import network, optimizer
from ldp_core.accountant import promise_plan

WEIGHT, CLIP, DISTANCE = 0.2, 0.3, 2.0  # the best of twelve on the synthetic stand-in
PENALTIES = (1.0, 10.0, 100.0)  # sklearn's C, for the learner that promises nothing
Result = dict[str, np.ndarray]


def looks(x: np.ndarray) -> np.ndarray:
    """Return the features of trials [trials, channels, samples], each from itself, of length 1."""
    rows = log_covariance(x / x.std(axis=(1, 2), keepdims=True))
    rows = np.pad(rows - rows.mean(axis=1, keepdims=True), ((0, 0), (0, 1)), constant_values=1.0)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def dim_of(recordings: Recordings) -> int:
    """Return the number of parameters: a weight a feature and class."""
    channels = len(recordings.ch_names)
    return (channels * (channels + 1) // 2 + 1) * len(recordings.classes)


class Drawn:
    """The mean gradient of what every agent has drawn so far, each trial's clipped."""

    samples, cone = 1, True

    def __init__(self, x, y: np.ndarray, classes: int, rows: np.ndarray, first: int):
        self.x, self.wanted, self.rows = x, np.eye(classes)[y], rows  # rows [agents, draws]
        self.clip, self.warm_up, self.dim = CLIP, first - 1, x.shape[1] * classes
        self._hands = [_Hand(x, self.wanted, drawn) for drawn in rows]

    def __call__(self, theta: np.ndarray, t: int) -> np.ndarray:
        """Return the gradients [1, agents, dim] at theta."""
        until, pairs = self.warm_up + t + 1, zip(self._hands, theta[0], strict=True)
        return np.array([hand.mean(vector, until, self.clip) for hand, vector in pairs])[None]


class _Hand:
    """What one agent draws: its trials, each once, and which of them comes when."""

    def __init__(self, x: np.ndarray, wanted: np.ndarray, drawn: np.ndarray):
        rows, self.order = np.unique(drawn, return_inverse=True)
        self.x, self.wanted = x[rows], wanted[rows]
        self.lengths = np.linalg.norm(self.x, axis=1)

    def mean(self, vector: np.ndarray, until: int, clip: float) -> np.ndarray:
        """Return the mean of the clipped gradients of the first draws."""
        counts = np.bincount(self.order[:until], minlength=len(self.x))
        error = softmax(self.x @ vector.reshape(self.x.shape[1], -1), axis=1) - self.wanted
        length = self.lengths * np.linalg.norm(error, axis=1)
        share = counts * clip / np.maximum(length, clip)
        return (self.x.T @ (error * share[:, None])).ravel() / until


@cache
def planned(delta: float, trials: int, iterations: int, dim: int) -> promise_plan.Plan:
    """Return the promise of delta for all time when every agent has so many trials at first."""
    options = {"clip": CLIP, "dim": dim, "warm_up": trials - 1, "samples": 1, "cone": True}
    options |= {"distance": DISTANCE}
    return promise_plan.plan(network.paper(WEIGHT), iterations, delta, **options)


def kept(params: dict, data: str, tests: list[int], trials: int, deltas: list[float]) -> Result:
    """Return accuracies on each left-out person for each delta, `promise` and `twin`, and the
    deltas that are `certified`, one after the other: all deltas of the first person, of the next.

    People share a shard, as their plans are the same.
    """
    settings = Training(**params)
    x, y, who, classes = _features(settings, data)
    found = []
    for test in tests:
        size, tested = settings.iterations + trials, who == test
        drawn = [
            streams.stream(settings.seed, test, agent, size, 1, np.flatnonzero(np.isin(who, hand)))
            for agent, hand in enumerate(settings.deal(0)[test])
        ]
        oracle = Drawn(x, y, classes, np.array(drawn)[..., 0], trials)
        found += [_run(oracle, settings, delta, x[tested], y[tested]) for delta in deltas]
    return dict(zip(("promise", "twin", "certified"), np.array(found).T, strict=True))


def unprotected(params: dict, data: str, test: int) -> Result:
    """Return the `accuracy` of logistic regression on the same features, on one computer.

    Its penalty is chosen on half of the people it learns from, after learning from the others.
    """
    settings = Training(**params)
    x, y, who, _ = _features(settings, data)
    learnt = who != test
    judged = np.isin(who, [one for one in settings.subjects if one != test][::2])
    scores = {C: _score(x, y, learnt & ~judged, learnt & judged, C) for C in PENALTIES}
    best = max(scores, key=scores.__getitem__)
    return {"accuracy": np.array(_score(x, y, learnt, ~learnt, best))}


def _score(x: np.ndarray, y: np.ndarray, learnt, judged, C: float) -> float:
    fitted = LogisticRegression(C=C, max_iter=1000).fit(x[learnt], y[learnt])
    return fitted.score(x[judged], y[judged])


def _features(settings: Training, data: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    recordings = quietly(settings)
    recordings.provenance.require(data)
    return _looks(recordings)


@lru_cache(maxsize=1)
def _looks(recordings: Recordings) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Return features, labels and subject of all trials, and the number of classes."""
    x, y, who = recordings.stacked()
    return looks(x.astype(np.float64)), y.astype(np.int64), who, len(recordings.classes)


def _run(oracle: Drawn, settings: Training, delta: float, x, y) -> tuple:
    """Return the accuracies of what agents have sent last, and of the twin; and delta as kept."""
    plan = planned(delta, oracle.warm_up + 1, settings.iterations, oracle.dim)
    theta_0, sent = np.zeros((1, AGENTS, oracle.dim)), optimizer.Transcript()
    plan.run(oracle, theta_0, settings.iterations, seed=settings.seed, observe=sent)
    plain = {"quantised": False, "degree": 1, "at_sent": False, "box": None}
    twin = dataclasses.replace(plan.algorithm(), **plain)
    last = optimizer.run(twin, oracle, theta_0, settings.iterations, seed=settings.seed)
    states = sent.messages[-1].values()[0][0], last.theta[0]
    shares = [np.mean([_share(x, y, state) for state in own]) for own in states]
    return *shares, plan.certificate.delta.max()


def _share(x: np.ndarray, y: np.ndarray, theta: np.ndarray) -> float:
    return float(np.mean((x @ theta.reshape(x.shape[1], -1)).argmax(axis=1) == y))
