"""Notebook 4: what is made of the results: means, intervals, comparisons."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats
from scipy.stats import binom

from companion.attacks import identity, signals
from companion.claims import BROKEN, fill
from companion.data import store
from companion.data.alignment import inverse_square_root
from companion.data.eeg import Recordings
from companion.eeg.overheard import network, unknowns
from companion.eeg.params import Params
from companion.eeg.shards import SHOWN, WAY, Attacks, rate
from companion.eeg.trials import scene
from companion.intervals import exact_ends, student
from companion.params import AGENTS

SMOOTHED = 5  # epochs
MOST_TRIALS = 5000  # that are tried, to tell a rate from chance
SECONDS_SHOWN = 0.5  # of one channel in Fig. 7, as in the paper
COVARIANCES = "bnci2014_001_cov"  # below LDP_DATA: both whole sessions of the paper's own subjects
PAPER_RATES = (0.743, 0.145)  # section 4.3: reduced "from 74.3% to 14.5%"
MEASURES = ["correlation", "relative_error", "spectrum_error", "label", "diverged", "noise"]
STARTS = {
    "quantised": "psi_0 = 0",
    "random start": "psi_0 is random",
    "dithered": "a public dither is used",
}
POINTS = "{mean:+.1p} points [{low:+.1p}, {high:+.1p}], p = {p:.2g}"
AFTER = {"low_after": "after_low", "high_after": "after_high"}


class Learnt(NamedTuple):
    """What Fig. 6 shows: accuracies over time and by person, their difference, what diverged."""

    summary: pd.DataFrame
    per_subject: pd.DataFrame
    difference: dict[str, float]
    diverged: pd.DataFrame
    classes: int

    def numbers(self) -> dict:
        """Return what is kept beside the figure."""
        people, lost = json.loads(self.per_subject.to_json()), len(self.diverged)
        return numbers(summary=self.summary) | {"per_subject": people, "diverged": lost}


def learnt(table: pd.DataFrame, data: Recordings, central: pd.DataFrame | None = None) -> Learnt:
    """Return everything that is made of the trainings on some recordings."""
    classes = len(data.classes)
    people = per_subject(table, classes, central)
    apart, lost = difference(table, classes), diverged(table)
    return Learnt(summary(table, classes), people, apart, lost, classes)


def numbers(**named: pd.DataFrame | None) -> dict[str, list[dict] | None]:
    """Return the rows of tables as plain values, by name: what is kept beside a figure."""
    known = {name: table for name, table in named.items() if table is not None}
    plain = {name: json.loads(table.to_json(orient="records")) for name, table in known.items()}
    return dict.fromkeys(named) | plain


def summary(table: pd.DataFrame, classes: int) -> pd.DataFrame:
    """Return per variant and time: the mean accuracy, and its spread.

    `low` and `high` are the 5 % and 95 % quantiles over subjects and seeds (each the mean of its
    agents). `over_subjects` is the standard deviation of the subjects' means, `over_agents` and
    `over_seeds` the mean standard deviation within a subject. A run that has diverged decides
    nothing: it counts as chance.
    """
    counted = table.assign(accuracy=table["accuracy"].fillna(1.0 / classes))
    keys, own = ["variant", "t"], ["variant", "t", "subject"]
    each = counted.groupby([*own, "run"], sort=True)["accuracy"]
    per_run, of_agents = each.mean(), each.std()
    per_subject = per_run.groupby(own, sort=True).mean()
    grouped = per_run.groupby(keys, sort=True)
    shown = pd.DataFrame({"mean": per_subject.groupby(keys).mean()})
    shown["low"], shown["high"] = grouped.quantile(0.05), grouped.quantile(0.95)
    shown["over_subjects"] = per_subject.groupby(keys).std()
    shown["over_agents"] = of_agents.groupby(keys).mean()
    shown["over_seeds"] = per_run.groupby(own).std().groupby(keys).mean()
    shown["subjects"] = per_subject.groupby(keys).count()
    shown["seeds"] = per_run.groupby(own).count().groupby(keys).max()
    lost = table[table["accuracy"].isna()].groupby(keys)["subject"].count() / AGENTS
    return shown.assign(diverged=lost).fillna({"diverged": 0}).reset_index()


def diverged(table: pd.DataFrame) -> pd.DataFrame:
    """Return variant, subject, run and iteration of every run that diverged."""
    lost = table[table["diverged"] >= 0].groupby(["variant", "subject", "run"], sort=True)
    return lost["diverged"].first().rename("iteration").reset_index()


def final(table: pd.DataFrame, classes: int) -> pd.DataFrame:
    """Return the last accuracy of every left-out subject and seed, one column a variant."""
    last = table[table["t"] == table["t"].max()]
    last = last.assign(accuracy=last["accuracy"].fillna(1.0 / classes))
    return last.groupby(["subject", "run", "variant"])["accuracy"].mean().unstack("variant")


def per_subject(
    table: pd.DataFrame, classes: int, central: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Return the final accuracies of every left-out subject, and their mean in the last row."""
    shown = final(table, classes).groupby("subject").mean()
    shown["difference"] = shown["quantised"] - shown["unquantised"]
    if central is not None:
        shown["centralised"] = stopped(central).groupby("subject")["accuracy"].mean()
    return pd.concat([shown, shown.mean().to_frame("mean").T.rename_axis("subject")])


def stopped(central: pd.DataFrame) -> pd.DataFrame:
    """Return the rows after which each centralised training stops.

    That is where the kept subject's accuracy, averaged over SMOOTHED epochs, is largest; the
    left-out one has no say.
    """
    own = [central["subject"], central["run"]]
    smooth = central.groupby(["subject", "run"])["validation"].transform(
        lambda values: values.rolling(SMOOTHED, center=True, min_periods=1).mean()
    )
    return central.loc[smooth.groupby(own).idxmax()]


def difference(table: pd.DataFrame, classes: int) -> dict[str, float]:
    """Return quantised minus unquantised final accuracy, paired over folds: mean, interval, p.

    A fold's difference is the mean over its seeds, which share its test subject and are no
    independent folds. The 95 % interval is Student's t over the folds; `p` is two-sided, from the
    sign-flip test over the folds (exact up to 13 of them): under "no difference" the sign of a
    fold's difference is a fair coin.
    """
    values = final(table, classes)
    apart = (values["quantised"] - values["unquantised"]).groupby("subject").mean().to_numpy()
    mean, folds = float(apart.mean()), len(apart)
    if folds < 2:
        return {"mean": mean, "low": np.nan, "high": np.nan, "p": np.nan, "folds": folds}
    half = student(apart.std(ddof=1), folds)
    options = {"permutation_type": "samples", "n_resamples": 10_000}
    test = stats.permutation_test((apart,), np.mean, rng=np.random.default_rng(0), **options)
    ends = {"low": mean - half, "high": mean + half}
    return {"mean": mean, **ends, "p": float(test.pvalue), "folds": folds}


def settings(ablation: pd.DataFrame | None, classes: int) -> pd.DataFrame | None:
    """Return setting, variant, mean final accuracy, its standard error over folds, divergences."""
    if ablation is None:
        return None
    rows = []
    for (label, variant), part in ablation.groupby(["setting", "variant"], sort=False):
        last = final(part, classes)[variant].groupby("subject").mean()
        error = last.std() / np.sqrt(len(last)) if len(last) > 1 else np.nan
        found = {"accuracy": last.mean(), "standard_error": error, "diverged": len(diverged(part))}
        rows.append({"setting": label, "variant": variant} | found)
    return pd.DataFrame(rows)


def head_power(params: Params) -> np.ndarray:
    """Return where the power of each subject lies [subjects, channels]: log10, against its mean."""
    trials = scene(params, False)
    own = [trials.known[trials.known_who == person] for person in params.subjects]
    power = np.log10(np.stack([(x**2).mean(axis=(0, 2)) for x in own]))
    return power - power.mean(axis=1, keepdims=True)


def attacked(attacks: pd.DataFrame) -> pd.DataFrame:
    """Return means over trials with 95 % intervals over people, a row a way to attack.

    Trials of one person are alike, so an interval is Student's over the means of people; it is
    infinite for a single one.
    """
    grouped = attacks.groupby(WAY, sort=False)[MEASURES]
    people = attacks.groupby([*WAY, "subject"], sort=False)[MEASURES].mean()
    people, table = people.groupby(WAY, sort=False), grouped.mean()
    half = student(people.std(ddof=1), people.count())
    for name in MEASURES[:4]:
        middle, spread = table[name], half[name]
        table[f"{name}_low"], table[f"{name}_high"] = middle - spread, middle + spread
    return table.assign(trials=grouped.size()).reset_index()


def counted(params: Params) -> pd.DataFrame:
    """Return equations against unknowns by number of states: states, equations, unknowns."""
    net, shape = network(params, scene(params, False)), unknowns(params, False)
    numbers = sorted({*params.calibration_states, params.attack_models})
    rows = [(number, *signals.equations(net, number, shape)) for number in numbers]
    return pd.DataFrame(rows, columns=["states", "equations", "unknowns"])


def ceiling(params: Params) -> float:
    """Return the mean correlation of trials with their own part in the attacker's band."""
    trials = scene(params, False)
    shape = signals.fourier(*trials.x.shape[1:], trials.fs, params.attack_band)
    functions = shape.functions.numpy()
    projected = trials.x @ functions.T @ functions
    return float(signals.scores(projected, trials.x, trials.fs, params.band).correlation.mean())


class Trace(NamedTuple):
    """One channel of one attacked trial over half a second, and what was made of it."""

    time: np.ndarray  # seconds
    original: np.ndarray
    found: dict[str, np.ndarray]
    subject: int
    channel: str
    correlation: dict[str, float]  # over the whole trial and all channels


def traces(
    params: Params, attacks: Attacks, data: Recordings, trials: Sequence[int], **where
) -> list[Trace]:
    """Return a `trace` of each of some trials."""
    where = {"aligned": params.attack_aligned[0], "factor": 1.0} | where
    return [trace(params, attacks, data, where | {"trial": trial}) for trial in trials]


def by_number(params: Params, attacks: Attacks, data: Recordings) -> Callable[[int], list[Trace]]:
    """Return a function: from the number of models seen to the traces of two trials."""
    where = {"attacker": "many models", "aligned": False}
    return lambda states: traces(params, attacks, data, (0, 1), **where, states=states)


def trace(params: Params, attacks: Attacks, data: Recordings, where: dict) -> Trace:
    """Return half a second from the middle of a trial at one channel (C3 if there is one).

    `where` names columns of the table. A reconstruction has no loudness of its own: it is scaled to
    fit best.
    """
    table, names = attacks.table, data.ch_names
    channel = names.index("C3") if "C3" in names else 0
    trials = scene(params, where["aligned"])
    original, shown = trials.x[where["trial"]], round(SECONDS_SHOWN * trials.fs)
    start = (original.shape[1] - shown) // 2
    window, found, correlation = slice(start, start + shown), {}, {}
    for defence in SHOWN:
        wanted = {**where, "defence": defence}.items()
        match = np.logical_and.reduce([table[name] == value for name, value in wanted])
        (row,) = np.flatnonzero(match)
        x = attacks.x[row].astype(np.float64)
        found[defence] = (x[channel] * (x * original).sum() / (x * x).sum())[window]
        correlation[defence] = float(table["correlation"].iloc[row])
    time, subject = (np.arange(shown) + start) / trials.fs, int(trials.who[where["trial"]])
    return Trace(time, original[channel][window], found, subject, names[channel], correlation)


def across_sessions(data: str) -> pd.DataFrame:
    """Return how well the paper's nine people are told from one session to the next.

    From covariances of whole sessions, recentred (each session by its own mean, as alignment does)
    or not. Empty when LDP_DATA has no such folder, and for other `data` than the paper's.
    """
    named = store.named_folder() if data == "bnci2014_001" else None
    if named is None or not (path := named / COVARIANCES).is_dir():
        return pd.DataFrame(columns=["recentred", "hits", "trials", "rate", "low", "high"])
    people = {number: np.load(path / f"A{number:02d}.npz") for number in range(1, 10)}
    rows = []
    for recentred in (False, True):
        (known, who), (judged, names) = (_session(people, at, recentred) for at in (0, 1))
        guessed = identity.regression().fit(known, who).predict(judged)
        rows.append({"recentred": recentred, **rate(names, guessed)})
    return pd.DataFrame(rows)


def _session(people: dict, session: int, recentred: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the logarithms of everybody's covariances in a session, and whose each is."""
    found, who = [], []
    for number, file in people.items():
        covariances = file["cov"][file["session"] == session].astype(np.float64)
        mean = covariances.mean(axis=0)
        root = inverse_square_root(mean) if recentred else np.eye(len(mean))
        found.append(identity.log_matrices(root @ covariances @ root))
        who += [number] * len(covariances)
    return np.concatenate(found), np.array(who)


def pick(table: pd.DataFrame, factor: float | None = 1.0, **where) -> pd.DataFrame:
    """Return the rows of a setting; unaligned where there are both, because they tell more."""
    for name, value in where.items():
        table = table[table[name] == value]
    if factor is not None:
        table = table[table["factor"] == factor]
    return table[~table["aligned"]] if not table["aligned"].all() else table


def as_first(params: Params, table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of trials as they are attacked first: aligned or not."""
    return table[table["aligned"] == params.attack_aligned[0]]


def best(table: pd.DataFrame) -> pd.Series:
    """Return the row with the largest value of `rate`, or of `correlation`."""
    return table.loc[table["rate" if "rate" in table else "correlation"].idxmax()]


def told(table: pd.DataFrame) -> pd.DataFrame:
    """Return attackers with exact ends told_low and told_high, corrected for their number."""
    pairs = zip(table["hits"], table["trials"], strict=True)
    ends = [exact_ends(hits, trials, len(table)) for hits, trials in pairs]
    return table.assign(told_low=[low for low, _ in ends], told_high=[high for _, high in ends])


def trials_to_tell(rate: float, chance: float) -> int:
    """Return how many trials tell a rate from chance: the exact test at 5 %, with a power of 80 %.

    From that number on the power does not fall below again.
    """
    trials = np.arange(1, MOST_TRIALS)
    needed = binom.isf(0.05, trials, chance) + 1  # hits that are called above chance
    return int(trials[binom.sf(needed - 1, trials, rate) < 0.8].max() + 1)


def least_noticed(table: pd.DataFrame, chance: float) -> float:
    """Return the smallest rate that would have been called above chance, as `told` corrects."""
    trials = int(table["trials"].min())
    hits = np.arange(trials + 1)
    noticed = hits[binom.sf(hits - 1, trials, chance) * len(table) < 0.05]
    return float(noticed.min() / trials) if len(noticed) else 1.0


def learned(difference: dict) -> dict:
    """Return a difference of accuracies over people with its words; of one there is no interval."""
    words, low, high = "{mean:+.1p} points (one person, so no interval)", None, None
    if difference["folds"] > 1:
        words, low, high = POINTS, difference["low"], difference["high"]
    ends = {"difference_low": low, "difference_high": high}
    return {**ends, "points": fill(words, difference), "folds": difference["folds"]}


def broken(settings: pd.DataFrame | None) -> list[str]:
    """Return the settings of an ablation in which quantisation costs more than BROKEN."""
    if settings is None:
        return []
    wide = settings.pivot_table(index="setting", columns="variant", values="accuracy", sort=False)
    lost = wide["quantised"] - wide["unquantised"] < -BROKEN
    return [setting for setting in wide.index[lost] if setting != "as chosen"]


def strongest(summary: pd.DataFrame, seen: pd.DataFrame) -> pd.DataFrame:
    """Return the best attack on each start of psi, those by number of models among them."""
    attacks = [pick(summary, defence=name) for name in STARTS]
    attacks.append(pick(seen, defence="quantised", attacker="many models"))
    found = pd.concat(attacks, ignore_index=True)
    found["start"] = found["defence"].map(STARTS)
    return found.loc[found.groupby("start", sort=False)["correlation"].idxmax()]


def before_and_after(rates: pd.DataFrame) -> pd.DataFrame:
    """Return by classifier and attacker the rates in the clear, and _after under Algorithm 1."""
    clear, ours = (pick(rates, defence=name) for name in ("D-PSGD", "quantised"))
    both = clear.merge(ours, on=["classifier", "attacker"], suffixes=("", "_after"))
    return both.assign(before_low=both["low"], before_high=both["high"]).rename(columns=AFTER)


def by_defence(rates: pd.DataFrame, straight: pd.DataFrame, chance: float) -> pd.DataFrame:
    """Return each defence's best attacker, with ends corrected for all that were tried on it."""
    found = []
    for name in STARTS:
        both = [pick(table, defence=name) for table in (rates, straight)]
        every = pd.concat(both, ignore_index=True)
        ends, least = told(every)[["told_low", "told_high"]].max(), least_noticed(every, chance)
        found.append({**best(every), **ends, "looks": len(every), "least": least})
    return pd.DataFrame(found)


def kinds(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return a table whose `kind` says, row by row, whether it is `name`; it may be empty."""
    return table.assign(kind=[name if yes else "plain" for yes in table.get(name, [])])
