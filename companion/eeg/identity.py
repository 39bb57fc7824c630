"""Notebook 4: whose trial was it? From the trials themselves, from their reconstructions, and straight from gradient estimates.

The attacker owns trials with names from a session (or runs) that is not attacked; see `attacks.identity`. Each half is aligned
by its own mean, so that the attacker's half tells nothing of the attacked one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
from pydantic import Field

from companion import runs
from companion.data import store
from companion.data.eeg import Recordings
from companion.eeg import attacks as eeg_attacks
from companion.eeg import overheard as eeg_overheard
from companion.eeg.attacks import AGENTS, ATTACKERS, Attacks
from companion.params import Count

KNOWN_GROUPS = 100_000  # the attacker's own trials, of which it makes gradients itself, are groups from this number on
COVARIANCES = "bnci2014_001_cov"  # folder below LDP_DATA with covariances of both whole sessions of the paper's own subjects
PAPER_RATES = {"raw or D-PSGD": 0.743, "Algorithm 1": 0.145}  # section 4.3: reduced "from 74.3 % to 14.5 %"


class Params(eeg_attacks.Params):
    """Sizes of the re-identification, beside those of the attacks that it uses."""

    identity_classifiers: Annotated[tuple[str, ...], Field(min_length=1)] = ("log-covariance", "log-spectrum", "EEGNet")
    identity_known: Count = 20  # own trials per subject of which the attacker makes gradients
    identity_trials: Count = 20  # attacked trials per subject whose gradients are judged
    identity_states: tuple[Count, ...] = (1, 8, 32)  # states whose gradients are looked at

    def check(self) -> None:
        """Raise when the parameters contradict each other, before anything is computed."""
        from companion.attacks.identity import CLASSIFIERS
        from companion.params import ParameterError

        super().check()
        for kind in self.identity_classifiers:
            if kind not in CLASSIFIERS:
                raise ParameterError(f"identity_classifiers holds {kind!r}: it must be among {', '.join(CLASSIFIERS)}")

    def attack_params(self) -> eeg_attacks.Params:
        """Return the parameters of the attacks alone."""
        return eeg_attacks.Params(**self.model_dump(include=set(eeg_attacks.Params.model_fields)))


def compute(params: dict, data: str, aligned: bool, kind: str, reconstructions: np.ndarray) -> dict[str, np.ndarray]:
    """Return the guesses of one classifier: `raw` on attacked trials, `reconstructed` on what was made of them.

    `reconstructions [rows, channels, samples]` are handed over: no attack is computed here.
    """
    import torch

    from companion.attacks.identity import classifier

    torch.set_num_threads(1)
    settings = Params(**params)
    trials = eeg_attacks.scene(settings, aligned, data)
    fitted = classifier(kind, trials.fs, (settings.band[0], settings.band[1]), settings.seed).fit(
        trials.known, trials.known_who
    )
    reconstructed = fitted.predict(reconstructions.astype(np.float64))
    return {"raw": fitted.predict(trials.x), "reconstructed": reconstructed}


def run(params: Params, data: Recordings, attacks: Attacks) -> pd.DataFrame:
    """Return re-identification rates with 95 % Wilson intervals, by classifier, aligned, defence, factor and attacker.

    The rows with defence "raw" are the attacked trials themselves, all of them. `attacks` are those of `eeg_attacks.run`.
    """
    params.check()
    common: dict = {
        "params": params.model_dump(mode="json", include=set(eeg_overheard.SCENE)),
        "data": data.provenance.sha256,
    }
    pieces = [
        {**common, "aligned": aligned, "kind": kind}
        for aligned in params.attack_aligned
        for kind in params.identity_classifiers
    ]
    found = {aligned: {"reconstructions": attacks.x[attacks.table["aligned"] == aligned]} for aligned in params.attack_aligned}
    given = [found[piece["aligned"]] for piece in pieces]
    results = runs.run(compute, pieces, description="who was it", given=given)
    rows = []
    for piece, result in zip(pieces, results, strict=True):
        named = {"classifier": piece["kind"], "aligned": piece["aligned"]}
        trials = eeg_attacks.scene(params, piece["aligned"])
        rows.append({**named, "defence": "raw", "factor": 1.0, "attacker": "none", **_rate(trials.who, result["raw"])})
        table = attacks.table[attacks.table["aligned"] == piece["aligned"]].reset_index(drop=True)
        for key, part in table.groupby(["defence", "factor", "attacker"], sort=False):
            rate = _rate(part["subject"].to_numpy(), result["reconstructed"][part.index])
            rows.append({**named, **dict(zip(("defence", "factor", "attacker"), key, strict=True)), **rate})
    return pd.DataFrame(rows)


def compute_straight(
    params: dict, data: str, aligned: bool, defence: str, factor: float, attacker: str, states: int
) -> dict[str, np.ndarray]:
    """Return the guesses `[attacked]` made from gradient estimates alone, without any reconstruction.

    The attacker plays the agents itself with its own named trials, through the same protocol with coins of its own, and learns
    to tell people by the logarithms of the estimates (`log_gradient`).
    """
    import torch

    torch.set_num_threads(1)
    settings = Params(**params)
    trials = eeg_attacks.scene(settings, aligned, data)
    own, judged = _interleaved(trials.known_who, settings.identity_known), _judged(settings)
    features = [
        log_gradient(_estimates(settings, trials, x, y, first, defence, factor, attacker, states))
        for x, y, first in ((trials.known[own], trials.known_y[own], KNOWN_GROUPS), (trials.x[judged], trials.y[judged], 0))
    ]
    fitted = wide_regression().fit(features[0], trials.known_who[own])
    return {"guessed": fitted.predict(features[1])}


def straight(params: Params, data: Recordings) -> pd.DataFrame:
    """Return re-identification rates from gradient estimates, by aligned, defence, factor, attacker and states."""
    params.check()
    exclude = {
        "attack_trials",
        "attack_rounds",
        "attack_models",
        "attack_steps",
        "attack_factors",
        "attack_aligned",
        "attack_shape",
    }
    exclude |= {"attack_weighting", "attack_labels", "calibration_states", "calibration_trials"}
    exclude |= {"identity_classifiers", "identity_states"}
    common: dict = {"params": params.model_dump(mode="json", exclude=exclude), "data": data.provenance.sha256}
    pieces = [
        {**common, "aligned": aligned, "defence": defence, "factor": 1.0, "attacker": attacker, "states": states}
        for aligned in params.attack_aligned
        for defence in eeg_overheard.DEFENCES
        for attacker, states in _observed(params)
    ]
    results = runs.run(compute_straight, pieces, description="who was it, from gradients alone")
    names = ("aligned", "defence", "factor", "attacker", "states")
    return pd.DataFrame([
        {name: piece[name] for name in names} | _judge(params, piece["aligned"], result["guessed"])
        for piece, result in zip(pieces, results, strict=True)
    ])  # fmt: skip


def across_sessions(data: str, folder: str | Path | None = None) -> pd.DataFrame:
    """Return how well the paper's own nine people are told from one session to the next by covariances of whole sessions.

    Rows: recentred (each session by its own mean, as alignment does) or not. Empty when LDP_DATA has no such folder, and for
    other `data` than the paper's.
    """
    from companion.attacks import identity

    named = store.named_folder(folder)
    path = named / COVARIANCES if named is not None and data == "bnci2014_001" else None
    if path is None or not path.is_dir():
        return pd.DataFrame(columns=["recentred", "hits", "trials", "rate", "low", "high"])
    people = {number: np.load(path / f"A{number:02d}.npz") for number in range(1, 10)}
    rows = []
    for recentred in (False, True):
        sides = []
        for session in (0, 1):
            found = {number: file["cov"][file["session"] == session].astype(np.float64) for number, file in people.items()}
            features = [_log_covariances(cov, recentred) for cov in found.values()]
            sides.append((np.concatenate(features), np.repeat(list(found), [len(cov) for cov in found.values()])))
        fitted = identity.Linear(lambda values: values).fit(*sides[0])
        rows.append({"recentred": recentred, **_rate(sides[1][1], fitted.predict(sides[1][0]))})
    return pd.DataFrame(rows)


def log_gradient(gradients: np.ndarray) -> np.ndarray:
    """Return what gradient estimates `[trials, states, dim]` say without any reconstruction, `[trials, (states + 1) dim]`.

    The logarithms of |mean over states| (of states close to each other: noise averages out, the gradient stays), and of the
    estimate in every state (of states far apart: each shows the trial from another side).
    """
    both = np.concatenate([gradients.mean(axis=1, keepdims=True), gradients], axis=1)
    return np.log(np.abs(both) + np.finfo(np.float64).tiny).reshape(len(gradients), -1)


def wide_regression():
    """Return logistic regression for many more features than trials, as of `identity.Linear`.

    The best weights under an L2 penalty lie in the span of the training rows, so these are turned onto their own axes first:
    the same classifier from some hundred numbers a trial instead of tens of thousands.
    """
    from sklearn.decomposition import PCA
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from companion.attacks.identity import INVERSE_PENALTY

    return make_pipeline(StandardScaler(), PCA(svd_solver="full"), LogisticRegression(C=INVERSE_PENALTY, max_iter=2000))


def _log_covariances(covariances: np.ndarray, recentred: bool) -> np.ndarray:
    from companion.attacks.identity import half
    from companion.data.alignment import inverse_square_root

    if recentred:
        root = inverse_square_root(covariances.mean(axis=0))
        covariances = root @ covariances @ root
    values, vectors = np.linalg.eigh(covariances)
    return half((vectors * np.log(values)[:, None, :]) @ vectors.transpose(0, 2, 1))


def _estimates(
    settings: Params, trials, x, y, first: int, defence: str, factor: float, attacker: str, states: int
) -> np.ndarray:
    """Return gradient estimates `[trials, states, dim]`; the last group of five is filled up, and the filling dropped."""
    filled = np.arange(-(-len(x) // AGENTS) * AGENTS) % len(x)
    heard = eeg_overheard.overhear(settings, trials, x[filled], y[filled], first, defence, factor, attacker, states)
    return heard.estimate[: len(x)]


def _observed(params: Params) -> list[tuple[str, int]]:
    """Return (attacker, states): one state is "one round"; more are rounds of one run, or models."""
    several = [states for states in params.identity_states if states > 1]
    first: list[tuple[str, int]] = [(ATTACKERS[0], 1)] if 1 in params.identity_states else []
    return first + [(attacker, states) for attacker in ATTACKERS[1:] for states in several]


def _judged(params: Params) -> slice:
    """Return the first trials in the order of attack: as many of everybody."""
    return slice(0, params.identity_trials * len(params.subjects))


def _judge(params: Params, aligned: bool, guessed: np.ndarray) -> dict[str, float]:
    trials = eeg_attacks.scene(params, aligned)
    return _rate(trials.who[_judged(params)], guessed)


def _interleaved(who: np.ndarray, per_subject: int) -> np.ndarray:
    """Return rows of `per_subject` trials of everybody (or as many as all have), evenly spread, one person after another."""
    rows = [np.flatnonzero(who == person) for person in np.unique(who)]
    count = min(per_subject, *map(len, rows))
    return np.stack([own[np.linspace(0, len(own) - 1, count).astype(int)] for own in rows], axis=1).ravel()


def _rate(who: np.ndarray, guessed: np.ndarray) -> dict[str, float]:
    from companion.attacks.identity import rate

    found = rate(who, guessed)
    return {"hits": found.hits, "trials": found.trials, "rate": found.share, "low": found.low, "high": found.high}
