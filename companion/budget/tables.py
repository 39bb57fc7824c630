"""Notebook 2: results gathered into tables, and sentences that state their numbers."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy import stats

from companion import explore, runs
from companion.budget import promise, shards
from companion.budget.bounds import EARLY
from companion.budget.params import Params
from companion.data import mushrooms
from companion.intervals import NORMAL, ends
from companion.params import HEADER_BITS
from ldp_core import quantizer
from ldp_core.accountant import meaning
from ldp_core.accountant.promise import certify

ARRIVAL_NAMES = {"uniform": "random time", "first": "first data point"}
ROW_NAMES = {"none": "unnormalised", "l2": "L2-normalised", "l1": "L1-normalised"}
SUMMED = ["d_0", "arrival", "t"]


def budgets(params: Params, data: mushrooms.Mushrooms) -> pd.DataFrame:
    """Return d_0, arrival, t, run, modification, delta (largest of all agents); shows progress."""
    pieces = shards.shards(params, data)
    words = f"{params.runs} runs x {params.modifications} modifications"
    results = runs.run(shards.compute, pieces, description=words)
    tables = [_budget(piece, result) for piece, result in zip(pieces, results, strict=True)]
    return pd.concat(tables, ignore_index=True)


def _budget(piece: dict, result: dict[str, np.ndarray]) -> pd.DataFrame:
    numbers = range(piece["first_run"], piece["first_run"] + piece["count"])
    axes = {"t": result["t"], "run": numbers, "modification": range(piece["amount"])}
    index = pd.MultiIndex.from_product(axes.values(), names=axes.keys())
    table = pd.DataFrame({"delta": result["delta"].ravel()}, index=index).reset_index()
    return table.assign(d_0=piece["params"]["d_0"], arrival=piece["arrival"])


def summary(budgets: pd.DataFrame) -> pd.DataFrame:
    """Return per d_0, arrival and t: mean, median, 5 % and 95 %, and the share above one.

    The standard error is that of the mean of runs: modifications of one run are not independent.
    """
    grouped = budgets.groupby(SUMMED, sort=True)["delta"]
    table = grouped.agg(mean="mean", median="median", count="count")
    table["low"], table["high"] = grouped.quantile(0.05), grouped.quantile(0.95)
    table["vacuous"] = grouped.apply(lambda delta: float((delta >= 1).mean()))
    per_run = budgets.groupby([*SUMMED, "run"], sort=True)["delta"].mean()
    table["standard_error"] = per_run.groupby(SUMMED).sem()
    return table.reset_index()


def falls(budgets: pd.DataFrame) -> pd.DataFrame:
    """Return by how much the last budget falls from each d_0 to the next, with a 95 % interval.

    Runs and modifications of equal number have the same data and the same replacement, so the
    differences are paired, and the standard error is that of the mean over runs.
    """
    last = budgets[budgets["t"] == budgets["t"].max()]
    per_run = last.groupby(["arrival", "run", "d_0"])["delta"].mean().unstack("d_0")
    fall = per_run.diff(-1, axis=1).iloc[:, :-1].stack().groupby(["arrival", "d_0"])
    table = fall.agg(fall="mean", spread="sem").reset_index()
    mean, table["spread"] = table["fall"], NORMAL * table["spread"]
    table["next"] = table["d_0"].map(dict(zip(per_run, per_run.columns[1:], strict=False)))
    return table.assign(fall_low=mean - table["spread"], fall_high=mean + table["spread"])


def quick(params: Params, data: mushrooms.Mushrooms, *, d_0: float, varsigma: float):
    """Return the summary of a few modifications of two short runs, for a slider."""
    setting = params.at(d_0=d_0, varsigma=varsigma, iterations=min(80, params.iterations))
    setting.check(len(data.labels))
    piece = {**shards.blocks(setting, data, 2)[0], "arrival": "uniform", "amount": 5}
    return summary(_budget(piece, shards.compute(**piece)))


def bits(params: Params, data: mushrooms.Mushrooms) -> pd.DataFrame:
    """Return bits per coordinate of a message over time: d_0, message, t, fixed, entropy.

    `fixed` is the mean over runs and agents of a code of fixed length, with its share of a header
    that says the smallest and the largest level; `entropy` what an ideal code would need that knows
    how often each level occurs at that time.
    """
    settings = params.settings()
    pieces = [piece for one in settings for piece in shards.blocks(one, data, params.bits_runs)]
    results = runs.run(shards.levels, pieces, description="bits")
    both, rows = list(zip(pieces, results, strict=True)), []
    for d_0 in params.budget_d_0 if pieces else ():
        found = [result for piece, result in both if piece["params"]["d_0"] == d_0]
        levels = np.concatenate([result["levels"] for result in found], axis=1)
        for t, sent in zip(found[0]["t"], levels, strict=True):
            rows += [(d_0, *row) for row in _bits(int(t), sent)]
    return pd.DataFrame(rows, columns=["d_0", "message", "t", "fixed", "entropy"])


def _bits(t: int, sent: np.ndarray) -> list[tuple]:
    header = HEADER_BITS / sent.shape[-1]
    fixed = [float(quantizer.bits_fixed_length(sent[:, m]).mean()) + header for m in (0, 1)]
    entropy = [quantizer.bits_entropy(sent[:, m]) for m in (0, 1)]
    return list(zip(("theta", "psi"), (t, t), fixed, entropy, strict=True))


def lemma_6_ratio() -> float:
    """Return the largest total variation over |y - y'| / d, on a grid up to three cells apart."""
    y = np.linspace(0.0, 1.0, 401)[:, None]
    other = y + np.linspace(0.0, 3.0, 401)[None, 1:]
    return float((quantizer.total_variation(y, other, 1.0) / (other - y)).max())


def early_share(summary: pd.DataFrame, arrival: str) -> pd.DataFrame:
    """Return per d_0 the share of the budget spent by EARLY, and growth after it over before."""
    rows = []
    for d_0, curve in summary[summary["arrival"] == arrival].groupby("d_0"):
        curve = curve.set_index("t")["mean"]
        split = curve.index[curve.index <= EARLY].max()
        before, after, last = curve[split], curve.iloc[-1] - curve[split], curve.index[-1]
        known = split and before and last > split
        rate = (after / (last - split)) / (before / split) if known else np.nan
        rows.append((d_0, before / curve.iloc[-1] if curve.iloc[-1] else np.nan, rate))
    return pd.DataFrame(rows, columns=["d_0", "share", "rate"])


def named(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with the names of its arrivals."""
    return table.assign(when=table["arrival"].map(ARRIVAL_NAMES))


def latest(own: pd.DataFrame) -> dict:
    """Return the smallest and largest sum of data points from the first k on that stays below 1."""
    by_k = own.groupby("asked_k")["paper"].agg(["min", "max"]).sort_index(ascending=False)
    safe = by_k[(by_k["max"] < 1).cummin()]
    k, ends = (safe.index[-1], safe) if len(safe) else (by_k.index[0], by_k[:1])
    named = {"rows": ROW_NAMES[own["normalise"].iloc[0]], "d_0": own["d_0"].iloc[0]}
    when = f"data points from number {k:.0f} on"
    return {**named, "when": when, "sum_low": ends["min"].min(), "sum_high": ends["max"].max()}


def both_at_once(tried: pd.DataFrame, kept: pd.DataFrame, error: float) -> pd.DataFrame:
    """Return every step with the ends of the accuracy it loses and of the delta it has.

    Certified steps have delta at most the target; of others what a first data point gives away by
    the last iteration, less the `error` of the exact counts, is a lower bound of every valid delta.
    """
    columns = ["normalise", "unquantised", "target", "iterations"]
    own = tried[(tried["arrival"] == "first") & (tried["weight"] == kept["weight"].iloc[0])]
    own = own.merge(kept[columns], on="normalise")
    own = own.assign(step="tried", delta_low=own["delta"] - error, delta_high=np.inf)
    certified = kept.assign(step="certified", delta_low=0.0, delta_high=kept["target"])
    found = pd.concat([own, certified], ignore_index=True)
    lost = found["unquantised"] - found["accuracy"]
    spread = NORMAL * 2**0.5 * found["standard_error"]
    ends = {"lost_low": lost - spread, "lost_high": lost + spread}
    return found.assign(lost=lost, rows=found["normalise"].map(ROW_NAMES), **ends)


def valid_range(
    summary: pd.DataFrame, arrivals: pd.DataFrame, normalise: str
) -> tuple[list[dict], pd.DataFrame]:
    """Return the paper's sum by rows, step and time of arrival, and this notebook's part of it."""
    last = named(summary[summary["t"] == summary["t"].max()])
    own = last.assign(rows=ROW_NAMES[normalise], sum_low=last["low"], sum_high=last["high"])
    late = [latest(part) for _, part in arrivals.groupby(["normalise", "d_0"])]
    return [*own.to_dict("records"), *late], own


def worst_ratio(own: pd.DataFrame) -> pd.DataFrame:
    """Return by time of arrival the medians of random and worst modifications, and their ratio."""
    wide = own.groupby(["asked_k", "kind"])[["paper", "exact"]].median().unstack("kind")
    wide.columns = [f"{measure}_of_{kind}" for measure, kind in wide.columns]
    return wide.assign(ratio=wide["paper_of_worst"] / wide["paper_of_random"]).reset_index()


def span(shares: pd.Series) -> str:
    """Return the smallest and the largest of some shares in words."""
    return f"{shares.min():.0%} to {shares.max():.0%}"


def stringency(delta: float, tiny: float = 1e-5) -> list[dict]:
    """Return by how much a (0, delta) mechanism breaks (epsilon, delta'), delta' = delta or tiny.

    It is the one that sends the data with probability delta, and otherwise nothing: without false
    alarms it is missed with probability 1 - delta, where the other promise demands 1 - delta',
    whatever its epsilon.
    """
    others = {"both have the same delta": delta, "the other delta is tiny": tiny}
    demanded = {case: float(meaning.trade_off(0.0, d)) for case, d in others.items()}
    return [{"case": case, "excess": miss - (1 - delta)} for case, miss in demanded.items()]


def promises(params: Params, learned: pd.DataFrame) -> pd.DataFrame:
    """Return one row a target: what is certified for one data point, and what it costs.

    `accuracy` is that of what is sent after t iterations; `lost` its difference to the twin and
    `gain` to Fig. 2's unprotected learner, paired over runs, each with a 95 % interval (Student);
    `tuned` is the unprotected learner whose step sizes were chosen on rows that are not tested.
    """
    wide = learned.pivot(index="run", columns=["learner", "target"], values="accuracy")
    bits, rows = learned.groupby("target")["bits"].mean(), []
    for target in params.promise_targets:
        own, twin = wide["promised", target], wide["twin", target]
        plain, tuned = wide["figure 2", 0.0], wide["tuned", 0.0]
        row = {"target": target, "t": params.promise_iterations, "runs": len(own)}
        row |= ends("accuracy", own) | ends("lost", own - twin) | ends("gain", own - plain)
        row |= {"accuracy_unquantised": twin.mean(), "figure_2": plain.mean()}
        row |= {"tuned": tuned.mean(), "bits": bits[target]}
        rows.append(row | _certified(promise.planned(params, target)))
    return pd.DataFrame(rows)


def _certified(found: promise.Plan) -> dict:
    """Return what a plan promises, and the schedules it chose."""
    kept, chosen = found.certificate, found.schedules
    ends = {"d_0_smallest": min(chosen.d_0), "d_0_largest": max(chosen.d_0)}
    steps = {"lam_0": chosen.lam_0, "nu": chosen.nu, "varsigma": max(chosen.varsigma), **ends}
    largest = {"certified": kept.delta, "program": kept.program, "mu": kept.mu}
    return {**{name: value.max() for name, value in largest.items()}, "unit": kept.unit, **steps}


def units(params: Params, learned: pd.DataFrame) -> pd.DataFrame:
    """Return the certified delta of each target for every unit of privacy: by t, and for ever.

    Mushrooms are drawn with replacement, so one may come to an agent several times: as often as in
    these runs at most, and then it counts as often.
    """
    often = int(learned["arrivals"].max())
    copies = {"one mushroom, one arrival": 1}
    copies[f"one data point, {params.samples} mushrooms"] = params.samples
    copies[f"one mushroom that arrives {often} times"] = often
    times, rows = (params.promise_iterations, math.inf), []
    for target in params.promise_targets:
        terms = promise.planned(params, target).terms
        for unit, count in copies.items():
            own = replace(terms, copies=count)
            ends = (certify(own, t, horizon=params.horizon).delta.max() for t in times)
            rows.append((target, unit, count, *map(float, ends)))
    return pd.DataFrame(rows, columns=["target", "unit", "copies", "delta", "delta_for_ever"])


def profiles(params: Params, largest: float = 4.0) -> pd.DataFrame:
    """Return delta(epsilon) of each target, and that of the Gaussian curve with the same
    affinity."""
    epsilon = np.linspace(0.0, largest, 81)
    tables = []
    for target in params.promise_targets:
        found = promise.planned(params, target).certificate
        bound, mu = found.profile(epsilon).max(axis=-1), found.mu.max()
        near, far = (stats.norm.cdf(half - epsilon / mu) for half in (mu / 2, -mu / 2))
        curve = {"epsilon": epsilon, "delta": bound, "gaussian": near - np.exp(epsilon) * far}
        tables.append(pd.DataFrame({"target": target, **curve}))
    return pd.concat(tables, ignore_index=True)


def spending(params: Params, target: float) -> pd.DataFrame:
    """Return the certified delta of the first t iterations for one mushroom and one data point."""
    terms = promise.planned(params, target).terms
    times = np.unique(np.geomspace(1, params.horizon, 25).astype(int)).tolist()
    rows = [
        (count, t, delta)
        for count in sorted({1, params.samples})
        for t, delta in zip(times, explore.spent(replace(terms, copies=count), times), strict=True)
    ]
    return pd.DataFrame(rows, columns=["copies", "t", "delta"])
