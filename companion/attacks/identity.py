"""Who was it? Subject classifiers of an attacker who owns identity-labelled EEG, from a session or runs that are not attacked.

Three classifiers, of different eyes: where the power lies on the head (log-covariance), at which frequencies it lies at every
electrode (log-spectrum), and whatever a network finds (EEGNet with subjects in place of classes). All of them are fitted on the
attacker's own trials alone; nothing of the trials they are judged on reaches them, not even a mean (`known_and_attacked`). One
number, SHRINKAGE, was chosen by looking at undefended reconstructions of those, in the attacker's favour.
Every trial is brought to unit variance first: a network with normalisation does not see how loud its input is, so the loudness
of a reconstruction means nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from companion.attacks.trials import known_and_attacked, log_spectrum

__all__ = ["CLASSIFIERS", "Linear", "Network", "Rate", "classifier", "half", "log_covariance", "rate"]
__all__ += ["known_and_attacked", "log_spectrum"]

# Of a trial's covariance towards its mean variance: a reconstruction's weakest directions are noise. The best of five values
# for undefended reconstructions.
SHRINKAGE = 0.2
INVERSE_PENALTY = 0.1  # sklearn's C on standardised features: hundreds of them and some hundred trials ask for a firm hand
PASSES, BATCH, LEARNING_RATE, DROPOUT = 30, 32, 3e-3, 0.25  # of the network; fixed beforehand, tuned on no trial


class Rate(NamedTuple):
    """A share of hits with its 95 % Wilson interval."""

    hits: int
    trials: int
    share: float
    low: float
    high: float


class Classifier(Protocol):
    """What knows the subjects after `fit`, and names one for every trial in `predict`."""

    def fit(self, X: np.ndarray, who: np.ndarray) -> Classifier: ...

    def predict(self, X: np.ndarray) -> np.ndarray: ...


def rate(who: np.ndarray, guessed: np.ndarray) -> Rate:
    """Return the share of trials whose subject was guessed, with its 95 % Wilson interval."""
    from scipy.stats import binomtest

    hits, trials = int(np.sum(np.asarray(who) == np.asarray(guessed))), len(who)
    interval = binomtest(hits, trials).proportion_ci(0.95, method="wilson")
    return Rate(hits, trials, hits / trials, float(interval.low), float(interval.high))


def log_covariance(X: np.ndarray) -> np.ndarray:
    """Return the matrix logarithm of every trial's covariance `[trials, channels (channels + 1) / 2]`, as `half` rows.

    So the Euclidean distance of two rows is the log-Euclidean distance of the two covariances (Arsigny et al. 2006).
    """
    X = np.asarray(X, dtype=np.float64)
    covariance = X @ X.transpose(0, 2, 1) / X.shape[2]
    variance = np.trace(covariance, axis1=1, axis2=2)[:, None, None] / X.shape[1]
    values, vectors = np.linalg.eigh((1 - SHRINKAGE) * covariance + SHRINKAGE * variance * np.eye(X.shape[1]))
    return half((vectors * np.log(values)[:, None, :]) @ vectors.transpose(0, 2, 1))


def half(matrices: np.ndarray) -> np.ndarray:
    """Return the upper triangles of symmetric matrices `[n, k, k]` as rows that keep the Frobenius norm."""
    rows, columns = np.triu_indices(matrices.shape[-1])
    return matrices[:, rows, columns] * np.where(rows == columns, 1.0, np.sqrt(2.0))


class Linear:
    """Logistic regression on standardised features of a trial; scaling and weights come from the trials of `fit` alone."""

    def __init__(self, features: Callable[[np.ndarray], np.ndarray]):
        self.features = features

    def fit(self, X: np.ndarray, who: np.ndarray) -> Linear:
        """Return the classifier fitted to trials whose subjects are known."""
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        self.model = make_pipeline(StandardScaler(), LogisticRegression(C=INVERSE_PENALTY, max_iter=2000))
        self.model.fit(self.features(X), who)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the subject guessed for every trial."""
        return self.model.predict(self.features(X))


class Network:
    """EEGNet with one output per subject, trained by Adam in a fixed number of passes; deterministic in `seed`.

    Its normalisations keep the statistics of the attacker's own trials, so that it decides on one trial alone.
    """

    def __init__(self, fs: float, seed: int, passes: int = PASSES):
        self.fs, self.seed, self.passes = fs, seed, passes

    def fit(self, X: np.ndarray, who: np.ndarray) -> Network:
        """Return the network trained on trials whose subjects are known."""
        import torch

        from companion.problems.eegnet import EEGNet

        self.subjects = np.unique(who)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            self.model = EEGNet(X.shape[1], X.shape[2], self.fs, len(self.subjects), dropout=DROPOUT)
            signals, targets = torch.tensor(_unit(X)), torch.tensor(np.searchsorted(self.subjects, who))
            prepared = self.model.prepare(signals)
            adam = torch.optim.Adam(self.model.parameters(), lr=LEARNING_RATE)
            self.model.train()
            for _ in range(self.passes):
                for rows in torch.randperm(len(signals)).split(BATCH):
                    adam.zero_grad()
                    outputs = self.model(prepared.select(rows))
                    torch.nn.functional.cross_entropy(outputs, targets[rows]).backward()
                    adam.step()
            self.model.eval()
            with torch.no_grad():
                self.statistics = self.model.statistics(prepared)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the subject guessed for every trial."""
        import torch

        with torch.no_grad():
            outputs = self.model(torch.tensor(_unit(X)), statistics=self.statistics)
            return self.subjects[outputs.argmax(dim=1).numpy()]


CLASSIFIERS = ("log-covariance", "log-spectrum", "EEGNet")


def classifier(kind: str, fs: float, band: tuple[float, float], seed: int) -> Classifier:
    """Return an unfitted classifier of trials `[trials, channels, samples]` by its name in CLASSIFIERS."""
    if kind == "log-covariance":
        return Linear(lambda X: log_covariance(_unit(X)))
    if kind == "log-spectrum":
        return Linear(lambda X: log_spectrum(_unit(X), fs, band))
    if kind == "EEGNet":
        return Network(fs, seed)
    raise ValueError(f"kind = {kind!r} must be one of {', '.join(CLASSIFIERS)}")


def _unit(X: np.ndarray) -> np.ndarray:
    return (X / X.std(axis=(1, 2), keepdims=True)).astype(np.float32)
