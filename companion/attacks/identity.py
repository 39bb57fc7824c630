"""Who was it? Subject classifiers of an attacker who owns EEG with names, from other sessions.

Three classifiers, of different eyes: where the power lies on the head (log-covariance), at which
frequencies it lies at every electrode (log-spectrum), and whatever a network finds (EEGNet with
subjects in place of classes). All of them are fitted on the attacker's own trials alone; nothing of
the trials they are judged on reaches them, not even a mean (`trials.known_and_attacked`). One
number, SHRINKAGE, was chosen by looking at undefended reconstructions of those, in the attacker's
favour. Every trial is brought to unit variance first: a network with normalisation does not see how
loud its input is, so the loudness of a reconstruction means nothing.
"""

from __future__ import annotations

import numpy as np
import torch
from sklearn.decomposition import KernelPCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from companion.attacks.trials import log_spectrum
from companion.problems.adam import Adam
from companion.problems.eegnet import EEGNet

SHRINKAGE = 0.2  # of a covariance towards its mean variance; the best of five on the undefended
INVERSE_PENALTY = 0.1  # sklearn's C on standardised features: some hundred trials ask for little
PASSES, BATCH, LEARNING_RATE, DROPOUT = 30, 32, 3e-3, 0.25  # of the network; tuned on no trial


def log_covariance(X: np.ndarray) -> np.ndarray:
    """Return the logarithm of every trial's covariance, as `half` rows.

    So the Euclidean distance of two rows is the log-Euclidean distance of the two covariances
    (Arsigny et al. 2006).
    """
    X = np.asarray(X, dtype=np.float64)
    covariance = X @ X.transpose(0, 2, 1) / X.shape[2]
    variance = np.trace(covariance, axis1=1, axis2=2)[:, None, None] / X.shape[1]
    return log_matrices((1 - SHRINKAGE) * covariance + SHRINKAGE * variance * np.eye(X.shape[1]))


def log_matrices(matrices: np.ndarray) -> np.ndarray:
    """Return the logarithms of positive matrices `[n, k, k]` as rows that keep the norm."""
    values, vectors = np.linalg.eigh(matrices)
    logarithms = (vectors * np.log(values)[:, None, :]) @ vectors.transpose(0, 2, 1)
    rows, columns = np.triu_indices(matrices.shape[-1])
    return logarithms[:, rows, columns] * np.where(rows == columns, 1.0, np.sqrt(2.0))


def regression(*before) -> Pipeline:
    """Return logistic regression on standardised features, those that the steps `before` make."""
    last = LogisticRegression(C=INVERSE_PENALTY, max_iter=2000)
    return make_pipeline(*before, StandardScaler(), last)


def wide_regression() -> Pipeline:
    """Return the same for many more features than trials.

    The best weights under an L2 penalty lie in the span of the training rows, so these are turned
    onto their own axes first, found in their products: the same classifier from some hundred
    numbers a trial.
    """
    last = LogisticRegression(C=INVERSE_PENALTY, max_iter=2000)
    return make_pipeline(StandardScaler(), KernelPCA(), last)


class Network:
    """EEGNet with one output per subject, trained by Adam; deterministic in `seed`.

    Its normalisations keep the statistics of the attacker's own trials, so that it decides on one
    trial alone.
    """

    def __init__(self, fs: float, seed: int):
        self.fs, self.seed = fs, seed

    def fit(self, X: np.ndarray, who: np.ndarray) -> Network:
        """Return the network trained on trials whose subjects are known."""
        self.subjects = np.unique(who)
        targets = torch.tensor(np.searchsorted(self.subjects, who))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            shape = (*X.shape[1:], self.fs, len(self.subjects))
            self.model = EEGNet(*shape, dropout=DROPOUT)
            prepared = self.model.prepare(torch.tensor(_unit(X)))
            self.model.train()
            adam = Adam(self.model.parameters())
            for _ in range(PASSES):
                for rows in torch.randperm(len(targets)).split(BATCH):
                    outputs = self.model(prepared.select(rows))
                    loss = torch.nn.functional.cross_entropy(outputs, targets[rows])
                    adam.descend(loss, LEARNING_RATE)
        self.model.eval()
        with torch.no_grad():
            self.statistics = self.model.statistics(prepared)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the subject guessed for every trial."""
        with torch.no_grad():
            outputs = self.model(torch.tensor(_unit(X)), statistics=self.statistics)
        return self.subjects[outputs.argmax(dim=1).numpy()]


def classifier(kind: str, fs: float, band: tuple[float, ...], seed: int) -> Pipeline | Network:
    """Return an unfitted classifier of trials `[trials, channels, samples]` by its name."""
    if kind == "EEGNet":
        return Network(fs, seed)
    features = {
        "log-covariance": lambda X: log_covariance(_unit(X)),
        "log-spectrum": lambda X: log_spectrum(_unit(X), fs, (band[0], band[1])),
    }
    return regression(FunctionTransformer(features[kind]))


def _unit(X: np.ndarray) -> np.ndarray:
    return (X / X.std(axis=(1, 2), keepdims=True)).astype(np.float32)
