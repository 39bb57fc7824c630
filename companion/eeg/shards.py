"""Notebook 4: which trainings, attacks and guesses are computed, and their results as tables.

What one of them does is in `training` and `overheard`; a change here makes none of them stale.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd

from companion import runs
from companion.attacks import signals
from companion.data.eeg import Recordings
from companion.eeg import overheard, promise, training
from companion.eeg.overheard import ATTACKERS, CLEAR
from companion.eeg.params import DEFENCES, Attack, Attacking, Params, Training
from companion.eeg.trials import scene
from companion.intervals import wilson
from companion.params import ParameterError

VARIANTS: tuple[training.Variant, ...] = ("quantised", "unquantised")
SHOWN = ("D-PSGD", "quantised")  # whose attacks are shown by number of states
TRIALS_PER_SHARD = 27
TOGETHER = 8 * TRIALS_PER_SHARD  # trials times states that a search looks at: more leave the cache
WAY = ["aligned", "defence", "factor", "attacker", "states"]


class Attacks(NamedTuple):
    """One row per attacked trial and setting, and its reconstruction [rows, channels, samples].

    `results` are those of `overheard.rebuilt` by what was attacked: WAY as told, first, count.
    """

    table: pd.DataFrame
    x: np.ndarray
    results: Mapping[tuple, Mapping[str, np.ndarray]]


class Trained(NamedTuple):
    """All trainings: rows of accuracies, and whom their models call the one who is not in it."""

    accuracies: pd.DataFrame
    members: pd.DataFrame


def trained(params: Params, data: Recordings) -> Trained:
    """Return variant, subject, run, t, agent, accuracy, diverged of all folds, and `members`."""
    folds = f"{len(params.tests)} folds x {params.seeds} seeds x {len(VARIANTS)} variants"
    pieces = trainings(params, data, params.tests, params.seeds)
    results = runs.run(training.learnt, pieces, description=folds)
    tables = [learnt(piece, result) for piece, result in zip(pieces, results, strict=True)]
    return Trained(pd.concat(tables, ignore_index=True), members(params, pieces, results))


def trainings(
    params: Training, data: Recordings, tests: Iterable[int], seeds: int = 1
) -> list[dict]:
    """Return the arguments of `training.learnt`: a left-out subject, a seed, a variant each."""
    common = _common(params.into(Training), data)
    return [
        {**common, "test": test, "run": run, "variant": variant}
        for run in range(seeds)
        for test in tests
        for variant in VARIANTS
    ]


def _common(params: Training | Attack, data: Recordings) -> dict:
    return {"params": params.model_dump(mode="json"), "data": data.provenance.sha256}


def learnt(piece: Mapping, result: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """Return one training as rows t, agent, accuracy, diverged, beside variant, subject and run."""
    times, agents = result["accuracy"].shape
    named = {"variant": piece["variant"], "subject": piece["test"], "run": piece["run"]}
    values = {"t": np.repeat(result["t"], agents), "agent": np.tile(np.arange(agents), times)}
    values |= {"accuracy": result["accuracy"].ravel(), "diverged": int(result["diverged"])}
    return pd.DataFrame(values | named)


def centralised(params: Params, data: Recordings) -> pd.DataFrame | None:
    """Return subject, run, epoch, accuracy, validation of EEGNet trained on one computer."""
    if not params.central_epochs:
        return None
    common = _common(params.into(Training), data) | {"epochs": params.central_epochs}
    pairs = [(test, run) for run in range(params.seeds) for test in params.tests]
    pieces = [{**common, "test": test, "run": run} for test, run in pairs]
    words = f"{len(params.tests)} folds, centralised"
    results = zip(pairs, runs.run(training.centralised, pieces, description=words), strict=True)
    tables = [
        pd.DataFrame({**result, "subject": test, "run": run}) for (test, run), result in results
    ]
    return pd.concat(tables, ignore_index=True)


def ablation(params: Params, data: Recordings) -> pd.DataFrame | None:
    """Return what `accuracies` does for every setting of what the paper leaves open."""
    settings = params.ablations()
    if not settings:
        return None
    named = [
        (label, piece)
        for label, setting in settings.items()
        for piece in trainings(setting, data, params.ablation_folds)
    ]
    pieces = [piece for _, piece in named]
    results = runs.run(training.learnt, pieces, description=f"{len(settings)} settings")
    tables = [
        learnt(piece, result).assign(setting=label)
        for (label, piece), result in zip(named, results, strict=True)
    ]
    return pd.concat(tables, ignore_index=True)


def spent(params: Params, data: Recordings) -> pd.DataFrame:
    """Return agent, k, iterations, paper, sum, product, exact and its 99 % interval at the end."""
    iterations, arrivals = params.budget_iterations, list(params.budget_arrivals)
    common = _common(params.lasting(iterations), data)
    common |= {"test": params.tests[0], "arrivals": arrivals}
    pieces = [{**common, "agent": agent} for agent in range(params.budget_agents)]
    results = runs.run(training.spent, pieces, description="the accountant's count")
    tables = []
    for agent, result in enumerate(results):
        named = {"agent": agent, "k": arrivals, "iterations": iterations}
        lower, exact, upper = result["exact"].T
        sums = {name: result[name] for name in ("paper", "sum", "product")}
        tables.append(pd.DataFrame(named | sums | {"lower": lower, "exact": exact, "upper": upper}))
    return pd.concat(tables, ignore_index=True)


def members(params: Params, pieces: list[dict], results: list) -> pd.DataFrame:
    """Return how often the model names the person who did not take part, by variant.

    One model per left-out subject. The attacker compares everybody's loss with that person's mean
    loss under the other models, and names the one whose loss stands out most. Of several seeds the
    first is looked at: others are of the same people.
    """
    rows, places = [], {subject: place for place, subject in enumerate(params.subjects)}
    for variant in VARIANTS[::-1]:
        own = [
            (places[piece["test"]], result["loss"])
            for piece, result in zip(pieces, results, strict=True)
            if piece["variant"] == variant and piece["run"] == 0
        ]
        who, loss = (np.array(part) for part in zip(*own, strict=True))
        others = (loss.sum(axis=0) - loss) / max(len(loss) - 1, 1)
        guessed = np.nan_to_num(loss - others).argmax(axis=1)  # who has diverged says nothing
        rows.append({"variant": variant, **rate(who, guessed)})
    return pd.DataFrame(rows)


def promised(params: Params, data: Recordings) -> pd.DataFrame | None:
    """Return accuracies by trials, delta and left-out subject: promise, twin, unprotected."""
    if not (params.promise_trials and params.promise_deltas):
        return None
    common = _common(params.lasting(params.promise_iterations), data)
    alone = [{**common, "test": test} for test in params.tests]
    best = runs.run(promise.unprotected, alone, description="logistic regression")
    every = common | {"tests": list(params.tests), "deltas": list(params.promise_deltas)}
    pieces = [every | {"trials": trials} for trials in params.promise_trials]
    results = runs.run(promise.kept, pieces, description="promises")
    known = {test: float(found["accuracy"]) for test, found in zip(params.tests, best, strict=True)}
    both = pd.MultiIndex.from_product([every["tests"], every["deltas"]], names=["subject", "delta"])
    tables = [
        pd.DataFrame(dict(result), index=both).reset_index().assign(trials=piece["trials"])
        for piece, result in zip(pieces, results, strict=True)
    ]
    table = pd.concat(tables, ignore_index=True)
    return table.assign(unprotected=table["subject"].map(known))


def rate(who: np.ndarray, guessed: np.ndarray) -> dict[str, float]:
    """Return hits, trials and rate of guesses, with its 95 % Wilson interval (low, high)."""
    hits, trials = int(np.sum(np.asarray(who) == np.asarray(guessed))), len(who)
    low, high = wilson(hits, trials)
    return {"hits": hits, "trials": trials, "rate": hits / trials, "low": low, "high": high}


def by_states(params: Attacking, data: Recordings) -> Attacks:
    """Return attacks by the number of states: rounds for every defence, models for two (SHOWN).

    Of the other defences only the rounds that the second attacker has heard are looked at, to find
    out how many help (`helpful_rounds`). Raises when somebody has too few trials to attack.
    """
    there = len(scene(params, params.attack_aligned[0]).x) // len(params.subjects)
    for name in ("attack_trials", "calibration_trials"):
        if (wanted := getattr(params, name)) > there:
            rule = f"must not exceed {there}, the trials of a subject that can be attacked"
            raise ParameterError(f"{name} = {wanted} {rule}")
    words = "attacks by number of states"
    return _attacked(params, data, calibrating(params), params.calibration_trials, words, {})


def calibrating(params: Attacking) -> list[tuple]:
    """Return the ways, in the order of WAY, that are attacked by the number of states."""
    return [
        (False, defence, 1.0, attacker, states)
        for attacker, defences in zip(ATTACKERS[1:], (DEFENCES, SHOWN), strict=True)
        for defence in defences
        for states in params.calibration_states
        if defence in SHOWN or states <= params.attack_rounds
    ]


def helpful_rounds(params: Attacking, seen: pd.DataFrame) -> dict[str, int]:
    """Return after how many rounds of one run, at most `attack_rounds`, trials come back best.

    `seen` is the table of `by_states`. Its trials are among those attacked, so the choice favours
    the attacker.
    """
    heard = (seen["attacker"] == "one run") & (seen["states"] <= params.attack_rounds)
    means = seen[heard].groupby(["defence", "states"])["correlation"].mean()
    return {defence: int(means[defence].idxmax()) for defence in DEFENCES}


def attacks(params: Attacking, data: Recordings, seen: Attacks) -> Attacks:
    """Return every attack on every trial, given those by number of states."""
    rounds = helpful_rounds(params, seen.table)
    ways = [
        (aligned, defence, factor, *heard)
        for aligned in params.attack_aligned
        for defence, factor in params.settings(aligned)
        for heard in zip(ATTACKERS, (1, rounds[defence], params.attack_models), strict=True)
    ]
    return _attacked(params, data, ways, params.attack_trials, "attacks on EEG", seen.results)


def _attacked(
    params: Attacking, data: Recordings, ways: list, trials: int, words: str, before: Mapping
) -> Attacks:
    """Return the attacks on so many trials of everybody, in each of some ways, given some results
    of `before`."""
    common = _common(params.into(Attack), data)
    calibrated = [_told_once(_named(way)) for way in calibrating(params)]
    asked = [
        (way, block)
        for way in map(_named, ways)
        for block in blocks(params, trials, _told_once(way) in calibrated)
    ]
    keys = [tuple((_told_once(way) | block).values()) for way, block in asked]
    pieces = together(key for key in dict.fromkeys(keys) if key not in before)
    found = runs.run(overheard.rebuilt, [common | piece for piece in pieces], description=words)
    results = dict(before)
    for piece, result in zip(pieces, found, strict=True):
        aligned, states, first, count, several = piece.values()
        for k, way in enumerate(several):
            key = (aligned, *way, states, first, count)
            results[key] = {name: part[k] for name, part in result.items()}
    own = [results[key] for key in keys]
    tables = [_scored(params, *pair, result) for pair, result in zip(asked, own, strict=True)]
    x = np.concatenate([result["x"] for result in own])
    return Attacks(pd.concat(tables, ignore_index=True), x, results)


def together(keys: Iterable[tuple]) -> list[dict]:
    """Return shards of `overheard.rebuilt`: several ways on the same trials and as many states."""
    groups: dict[tuple, list] = defaultdict(list)
    for aligned, *way, states, first, count in keys:
        groups[aligned, states, first, count].append(way)
    names, pieces = ("aligned", "states", "first", "count", "ways"), []
    for (aligned, states, first, count), ways in groups.items():
        size = max(1, TOGETHER // (states * count))
        for start in range(0, len(ways), size):
            some = aligned, states, first, count, ways[start : start + size]
            pieces.append(dict(zip(names, some, strict=True)))
    return pieces


def _named(way: tuple) -> dict:
    return dict(zip(WAY, way, strict=True))


def _told_once(way: dict) -> dict:
    """Return the attack that is computed: what tells the same is overheard once.

    Of one state all attackers hear the same. Of t = 0 alone, whatever is sent in the clear tells
    the same gradient.
    """
    if way["states"] == 1:
        way = way | {"attacker": ATTACKERS[0]}
    clear_at_once = way["defence"] in CLEAR and way["attacker"] != "one run"
    return way | {"defence": CLEAR[0]} if clear_at_once else way


def blocks(params: Attacking, per_subject: int, calibrated: bool) -> list[dict]:
    """Return blocks of trials (first, count), those of a calibration by themselves.

    A way that is calibrated attacks these for both, and so once.
    """
    everything = len(params.subjects) * per_subject
    own = len(params.subjects) * params.calibration_trials if calibrated else 0
    apart = min(own, everything)
    cuts = sorted({*_even(0, apart), *_even(apart, everything)})
    return [{"first": first, "count": last - first} for first, last in pairwise(cuts)]


def _even(first: int, last: int) -> list[int]:
    """Return where to cut trials first ... last - 1 into blocks of one size, the ends included."""
    ends = 1 + -(-(last - first) // TRIALS_PER_SHARD)
    return np.linspace(first, last, ends).round().astype(int).tolist()


def _scored(params: Attacking, way: dict, block: dict, result: Mapping) -> pd.DataFrame:
    trials = scene(params, way["aligned"])
    rows = np.arange(block["first"], block["first"] + block["count"])
    x = result["x"].astype(np.float64)
    scores = signals.scores(x, trials.x[rows], trials.fs, params.band)
    named = way | {"trial": rows, "subject": trials.who[rows]}
    search = {name: result[name] for name in ("value", "steps", "diverged")}
    told = {"label": result["guessed"] == trials.y[rows]}
    told |= {"noise": result["error"] / result["gradient"]}
    return pd.DataFrame(named | told | scores._asdict() | search)


def rates(params: Attacking, data: Recordings, attacked: Attacks) -> pd.DataFrame:
    """Return how often people are named, by classifier and attack, with 95 % Wilson intervals.

    The rows with defence "raw" are the attacked trials themselves, all of them.
    """
    named = [(a, kind) for a in params.attack_aligned for kind in params.identity_classifiers]
    common = _common(params.into(Attack), data)
    pieces = [{**common, "aligned": aligned, "kind": kind} for aligned, kind in named]
    own = {aligned: attacked.table["aligned"] == aligned for aligned in params.attack_aligned}
    given = [{"rebuilt": attacked.x[own[aligned]]} for aligned, _ in named]
    results = runs.run(overheard.named_by_looks, pieces, description="who was it", given=given)
    rows = []
    for (aligned, kind), result in zip(named, results, strict=True):
        first = {"classifier": kind, "aligned": aligned}
        who = scene(params, aligned).who
        raw = {"defence": "raw", "factor": 1.0, "attacker": "none"}
        rows.append(first | raw | rate(who, result["raw"]))
        table = attacked.table[own[aligned]].assign(guessed=result["rebuilt"])
        for way, part in table.groupby(WAY[1:4], sort=False):
            found = rate(part["subject"], part["guessed"])
            rows.append(first | dict(zip(WAY[1:4], way, strict=True)) | found)
    return pd.DataFrame(rows)


def straight(params: Attacking, data: Recordings) -> pd.DataFrame:
    """Return how often people are named by estimates of gradients alone, by way and alignment."""
    judged = params.identity_trials * len(params.subjects)
    common = _common(params.into(Attack), data) | {"own": params.identity_known, "judged": judged}
    ways = [  # one state is "one round", more are rounds of a run, or models
        {"aligned": aligned, "defence": defence, "attacker": attacker, "states": states}
        for aligned in params.attack_aligned
        for defence in DEFENCES
        for attacker in ATTACKERS
        for states in params.identity_states
        if (states == 1) == (attacker == ATTACKERS[0])
    ]
    told = [tuple(_told_once(way).values()) for way in ways]
    groups: dict[tuple, list] = defaultdict(list)
    for aligned, defence, *heard in dict.fromkeys(told):
        groups[aligned, *heard].append(defence)
    names = ("aligned", "attacker", "states", "defences")
    pieces = [dict(zip(names, (*group, own), strict=True)) for group, own in groups.items()]
    words = "who was it, from gradients alone"
    named = runs.run(overheard.named_by_gradients, [common | p for p in pieces], description=words)
    guessed = {
        (aligned, defence, *heard): row
        for (aligned, *heard), result in zip(groups, named, strict=True)
        for defence, row in zip(groups[aligned, *heard], result["guessed"], strict=True)
    }
    who = {aligned: scene(params, aligned).who[:judged] for aligned in params.attack_aligned}
    return pd.DataFrame([
        {"factor": 1.0, **way, **rate(who[way["aligned"]], guessed[each])}
        for way, each in zip(ways, told, strict=True)
    ])  # fmt: skip
