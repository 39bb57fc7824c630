"""Notebook 4: all attacks on EEG (Fig. 7): calibrated without defence, then the same under every one. See `eeg_overheard`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from companion import runs
from companion.data.eeg import Recordings
from companion.eeg.overheard import AGENTS, ATTACKERS, DEFENCES, Params, compute, load, network, scene, unknowns
from companion.params import ParameterError

__all__ = ["AGENTS", "ATTACKERS", "Attacks", "Params", "Trace"]
__all__ += ["calibration", "ceiling", "check_trials", "counting", "head_power", "load", "run", "scene", "summary", "trace"]

TRIALS_PER_SHARD = 18
SHOWN = ("D-PSGD", "quantised")  # of which notebook 4 shows the attack by number of states
SECONDS_SHOWN = 0.5  # of one channel in Fig. 7, as in the paper


class Attacks(NamedTuple):
    """One row per attacked trial and setting, and the reconstruction of each row `[rows, channels, samples]`."""

    table: pd.DataFrame
    x: np.ndarray


def shards(params: Params, data: Recordings, rounds: dict[str, int]) -> list[dict]:
    """Return the arguments of `compute` for every setting, attacker and block of trials; `rounds` as of `helpful_rounds`."""
    return [
        piece
        for aligned in params.attack_aligned
        for defence, factor in params.settings(aligned)
        for attacker, states in zip(ATTACKERS, (1, rounds[defence], params.attack_models), strict=True)
        for piece in _blocks(params, data, aligned, defence, factor, attacker, states, params.attack_trials)
    ]


def helpful_rounds(params: Params, calibrated: pd.DataFrame) -> dict[str, int]:
    """Return after how many rounds of one run, at most `attack_rounds`, trials come back best: {defence: rounds}.

    `calibrated` is the table of `calibration`. Its trials are among those attacked, so the choice favours the attacker.
    """
    of_one_run = calibrated[(calibrated["attacker"] == "one run") & (calibrated["states"] <= params.attack_rounds)]
    means = of_one_run.groupby(["defence", "states"])["correlation"].mean()
    return {defence: int(means[defence].idxmax()) for defence in DEFENCES}


def check_trials(params: Params) -> None:
    """Raise when somebody has fewer trials to attack than are asked for."""
    trials = scene(params, params.attack_aligned[0])
    available = len(trials.x) // len(params.subjects)
    for name in ("attack_trials", "calibration_trials"):
        wanted = getattr(params, name)
        if wanted > available:
            raise ParameterError(f"{name} = {wanted} must not exceed {available}, the trials of a subject that can be attacked")


def run(params: Params, data: Recordings, **options) -> Attacks:
    """Return every attack on every trial. Shows progress, can be interrupted; `options` are those of `runs.run`."""
    rounds = helpful_rounds(params, calibration(params, data, **options).table)
    return _run(params, shards(params, data, rounds), description="attacks on EEG", **options)


def calibration(params: Params, data: Recordings, **options) -> Attacks:
    """Return attacks by the number of states seen: rounds of one run for every defence, models for the two of `SHOWN`.

    Of the other defences only the rounds that the second attacker has heard are looked at (`helpful_rounds`).
    """
    params.check()
    check_trials(params)
    pieces = [
        piece
        for attacker, defences in zip(ATTACKERS[1:], (DEFENCES, SHOWN), strict=True)
        for defence in defences
        for states in params.calibration_states
        if defence in SHOWN or states <= params.attack_rounds
        for piece in _blocks(params, data, False, defence, 1.0, attacker, states, params.calibration_trials)
    ]
    return _run(params, pieces, description="attacks by number of states", **options)


def head_power(params: Params) -> np.ndarray:
    """Return where the power of every subject lies `[subjects, channels]`: log10, relative to the subject's mean."""
    trials = scene(params, False)
    power = np.stack([(trials.known[trials.known_who == person] ** 2).mean(axis=(0, 2)) for person in params.subjects])
    return np.log10(power) - np.log10(power).mean(axis=1, keepdims=True)


class Trace(NamedTuple):
    """One channel of one attacked trial over half a second: time in seconds, the original, and reconstructions by defence."""

    time: np.ndarray
    original: np.ndarray
    found: dict[str, np.ndarray]
    subject: int
    channel: str
    correlation: dict[str, float]  # over the whole trial and all channels


def trace(
    params: Params, attacks: Attacks, data: Recordings, trial: int, attacker: str, defences: Sequence[str], **where
) -> Trace:
    """Return half a second from the middle of a trial at one channel (C3 if there is one), reconstructions scaled to fit best.

    `where` names further columns of the table (aligned, factor, states). A reconstruction has no loudness of its own.
    """
    table = attacks.table
    names = data.ch_names
    channel = names.index("C3") if "C3" in names else 0
    where = {"aligned": False, "factor": 1.0, "attacker": attacker, "trial": trial} | where
    trials = scene(params, bool(where["aligned"]))
    original, shown = trials.x[trial], round(SECONDS_SHOWN * trials.fs)
    start = (original.shape[1] - shown) // 2
    window = slice(start, start + shown)
    found, correlation = {}, {}
    for defence in defences:
        match = np.logical_and.reduce([table[name] == value for name, value in (where | {"defence": defence}).items()])
        (row,) = np.flatnonzero(match)
        x = attacks.x[row].astype(np.float64)
        found[defence] = (x[channel] * (x * original).sum() / (x * x).sum())[window]
        correlation[defence] = float(table["correlation"].iloc[row])
    time = (np.arange(shown) + start) / trials.fs
    return Trace(time, original[channel][window], found, int(trials.who[trial]), names[channel], correlation)


def counting(params: Params, data: Recordings) -> pd.DataFrame:
    """Return equations against unknowns by number of states: states, equations, unknowns."""
    from companion.attacks import signals

    trials = scene(params, False, data.provenance.sha256)
    net, shape = network(params, trials), unknowns(params, False)
    rows = [
        (number, *signals.equations(net, number, shape))
        for number in sorted({*params.calibration_states, params.attack_models})
    ]
    return pd.DataFrame(rows, columns=["states", "equations", "unknowns"])


def ceiling(params: Params) -> float:
    """Return the mean correlation of attacked trials with their own projection on the attacker's band: the best it can do."""
    from companion.attacks import signals

    trials = scene(params, False)
    channels, samples = trials.x.shape[1:]
    functions = signals.fourier(channels, samples, trials.fs, _pair(params.attack_band)).functions.numpy()
    projected = trials.x @ functions.T @ functions
    return float(signals.scores(projected, trials.x, trials.fs, _pair(params.band)).correlation.mean())


def summary(attacks: pd.DataFrame) -> pd.DataFrame:
    """Return means over trials with 95 % intervals over people: one row per setting, attacker and number of states.

    Trials of one person are alike, so an interval is Student's over the means of people; it is infinite for a single one.
    """
    keys = ["aligned", "defence", "factor", "attacker", "states"]
    measures = ["correlation", "relative_error", "spectrum_error", "label", "diverged", "noise"]
    grouped = attacks.groupby(keys, sort=False)[measures]
    table = grouped.mean()
    people = attacks.groupby([*keys, "subject"], sort=False)[measures].mean().groupby(keys, sort=False)
    half = stats.t.ppf(0.975, people.count() - 1) * people.std(ddof=1) / np.sqrt(people.count())
    for name in measures[:4]:
        table[f"{name}_low"], table[f"{name}_high"] = table[name] - half[name], table[name] + half[name]
    table["trials"] = grouped.size()
    return table.reset_index()


def _pair(band: Sequence[float]) -> tuple[float, float]:
    return band[0], band[1]


def _blocks(params: Params, data, aligned: bool, defence, factor: float, attacker, states: int, per_subject: int) -> list[dict]:
    exclude = {
        "attack_trials",
        "attack_rounds",
        "attack_models",
        "attack_factors",
        "attack_aligned",
        "calibration_states",
        "calibration_trials",
    }
    common = {"params": params.model_dump(exclude=exclude, mode="json"), "data": data.provenance.sha256, "aligned": aligned}
    common |= {"defence": defence, "factor": factor, "attacker": attacker}
    common["states"] = states
    everything = len(params.subjects) * per_subject
    calibrated = min(len(params.subjects) * params.calibration_trials, everything)  # these are attacked for both
    cuts = sorted({*_even(0, calibrated), *_even(calibrated, everything)})
    return [{**common, "first": first, "count": last - first} for first, last in pairwise(cuts)]


def _even(first: int, last: int) -> list[int]:
    """Return where to cut trials first ... last - 1 into blocks of one size, the ends included."""
    return np.linspace(first, last, 1 + -(-(last - first) // TRIALS_PER_SHARD)).round().astype(int).tolist()


def _run(params: Params, pieces: list[dict], **options) -> Attacks:
    results = runs.run(compute, [_seen_once(piece) for piece in pieces], **options)
    rows = [np.arange(piece["first"], piece["first"] + piece["count"]) for piece in pieces]
    tables = [_table(params, *part) for part in zip(pieces, rows, results, strict=True)]
    return Attacks(pd.concat(tables, ignore_index=True), np.concatenate([result["x"] for result in results]))


def _seen_once(piece: dict) -> dict:
    """Return the attack that is computed: of one state, every attacker hears the same."""
    return piece | {"attacker": ATTACKERS[0]} if piece["states"] == 1 else piece


def _table(params: Params, piece: dict, rows: np.ndarray, result: dict[str, np.ndarray]) -> pd.DataFrame:
    from companion.attacks import signals

    trials = scene(params, piece["aligned"])
    scores = signals.scores(result["x"].astype(np.float64), trials.x[rows], trials.fs, _pair(params.band))
    named = {name: piece[name] for name in ("aligned", "defence", "factor", "attacker", "states")}
    return pd.DataFrame({
        **named,
        "trial": rows,
        "subject": trials.who[rows],
        "label": result["guessed"] == trials.y[rows],
        **scores._asdict(),
        "value": result["value"],
        "steps": result["steps"],
        "diverged": result["diverged"],
        "noise": result["error"] / result["gradient"],
    })  # fmt: skip
