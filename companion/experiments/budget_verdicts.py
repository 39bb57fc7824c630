"""Notebook 2: the numbers behind the verdicts on privacy and bits; words and rules: claims.yaml."""

from __future__ import annotations

import numpy as np
import pandas as pd

from companion.claims import Claim, Table, judge, threshold
from companion.experiments.budget_bits import FLOAT_BITS
from companion.experiments.budget_bounds import EARLY, LATE, LATEST
from companion.experiments.budget_tables import early_share, lemma_6_ratio
from ldp_core.accountant import meaning

PAPER_D_0 = 2.0  # the smallest of section 4.1
ARRIVAL_NAMES = {"uniform": "random time", "first": "first data point"}
ROW_NAMES = {"none": "unnormalised", "l2": "L2-normalised", "l1": "L1-normalised"}


def verdicts(
    summary: Table, falls: Table, arrivals: Table, worst: Table, promised: Table, used: Table,
    tried: Table, kept: Table, bits: Table, free: bool, d_0: float, normalise: str,
) -> list[Claim]:  # fmt: skip
    """Return the rows of notebook 2; tables of `budget`, `budget_cases` and `budget_bounds`."""
    bounds = promised[promised["normalise"] == normalise].set_index("bound")
    share = "the same to the last bit" if free else "not the same"
    return [
        judge("lemma-6", {"ratio": lemma_6_ratio()}),
        _theorem_2_1(10 ** bounds["log10_delta"], d_0),
        _theorem_2_2(bounds, float(kept["target"].iloc[0])),
        _infinite_and_accurate(tried, kept, (worst["exact"] - worst["lower"]).max()),
        _fifty_steps(summary, used),
        _valid_range(summary, arrivals, normalise),
        _worst_case(worst[worst["normalise"] == normalise]),
        _larger_steps(falls),
        _stringent(),
        judge("free-choice", {"apart": 0.0 if free else 1.0}, same=share),
        _communication(bits),
    ]


def _theorem_2_1(delta: pd.Series, d_0: float) -> Claim:
    printed = delta["theorem 2.1"]
    found = [{"times": 1.0, "delta": printed}, {"times": printed, "delta": min(printed, 1.0)}]
    return judge("theorem-2-1", found, d_0=d_0, printed=printed, certificate=delta["certificate"])


def _theorem_2_2(bounds: Table, target: float) -> Claim:
    row, ours = bounds.loc["theorem 2.2"], bounds.loc["certificate, all time"]
    slack = row["log10_d_0"] - ours["log10_d_0"]  # our own condition need not be the weakest
    found = {"slack_low": slack, "slack_high": np.inf}
    return judge("theorem-2-2", found, row=row, certificate=ours, target=target)


def _infinite_and_accurate(tried: Table, kept: Table, error: float) -> Claim:
    """Judge every step tried: certified ones by what they lose, others by what they give away.

    `error` is that of the exact counts; what a first data point gives away by the last iteration
    is a lower bound of every valid delta.
    """
    columns = ["normalise", "unquantised", "target", "iterations"]
    own = tried[(tried["arrival"] == "first") & (tried["weight"] == kept["weight"].iloc[0])]
    own = own.merge(kept[columns], on="normalise")
    own = own.assign(step="tried", delta_low=own["delta"] - error, delta_high=np.inf)
    certified = kept.assign(step="certified", delta_low=0.0, delta_high=kept["target"])
    found = pd.concat([own, certified], ignore_index=True)
    lost, spread = found["unquantised"] - found["accuracy"], 1.96 * 2**0.5 * found["standard_error"]
    found = found.assign(lost=lost, lost_low=lost - spread, lost_high=lost + spread)
    found["rows"] = found["normalise"].map(ROW_NAMES)
    tolerated = threshold("infinite-and-accurate", "lost")
    accurate = found[(found["step"] == "tried") & (found["lost"] <= tolerated)]
    lists = {"accurate": accurate, "certified": found[found["step"] == "certified"]}
    return judge("infinite-and-accurate", found, **lists, **kept.iloc[0][columns[2:]])


def _fifty_steps(summary: Table, used: Table) -> Claim:
    shares = {arrival: early_share(summary, arrival) for arrival in ("first", "uniform")}
    found = pd.concat([table.assign(arrival=arrival) for arrival, table in shares.items()])
    late = {t: _range(1 - used[used["t"] == t]["share"]) for t in (EARLY, LATE, LATEST)}
    after = ", ".join(f"{share} comes after t = {t}" for t, share in late.items())
    spent = {arrival: _range(table["share"]) for arrival, table in shares.items()}
    numbers = {"early": EARLY, "last": int(summary["t"].max()), "after": after, **spent}
    return judge("figure-3-fifty-steps", _named(found), **numbers)


def _range(shares: pd.Series) -> str:
    return f"{shares.min():.0%} to {shares.max():.0%}"


def _valid_range(summary: Table, arrivals: Table, normalise: str) -> Claim:
    last = _named(summary[summary["t"] == summary["t"].max()])
    at_last = last.assign(rows=ROW_NAMES[normalise], sum_low=last["low"], sum_high=last["high"])
    late = [_latest(own) for _, own in arrivals.groupby(["normalise", "d_0"])]
    return judge("figure-3-valid-range", [*at_last.to_dict("records"), *late], own=last)


def _latest(own: Table) -> dict:
    """Return the smallest and largest sum of data points from the first k on that stays below 1."""
    by_k = own.groupby("asked_k")["paper"].agg(["min", "max"]).sort_index(ascending=False)
    safe = by_k[(by_k["max"] < 1).cummin()]
    k, ends = (safe.index[-1], safe) if len(safe) else (by_k.index[0], by_k[:1])
    named = {"rows": ROW_NAMES[own["normalise"].iloc[0]], "d_0": own["d_0"].iloc[0]}
    when = f"data points from number {k:.0f} on"
    return {**named, "when": when, "sum_low": ends["min"].min(), "sum_high": ends["max"].max()}


def _named(table: Table) -> Table:
    return table.assign(when=table["arrival"].map(ARRIVAL_NAMES))


def _worst_case(own: Table) -> Claim:
    wide = own.groupby(["asked_k", "kind"])[["paper", "exact"]].median().unstack("kind")
    wide.columns = [f"{measure}_of_{kind}" for measure, kind in wide.columns]
    wide["ratio"] = wide["paper_of_worst"] / wide["paper_of_random"]
    return judge("figure-3-worst-case", wide.reset_index())


def _larger_steps(falls: Table) -> Claim:
    spread = 1.96 * falls["standard_error"]
    ends = {"fall_low": falls["fall"] - spread, "fall_high": falls["fall"] + spread}
    return judge("figure-3-larger-steps", _named(falls.assign(spread=spread, **ends)))


def _stringent(delta: float = 0.5, tiny: float = 1e-5, epsilon: float = 1.0) -> Claim:
    """Judge by the mechanism that sends the data with probability delta, and otherwise nothing.

    Without false alarms it is missed with probability 1 - delta; found is what (epsilon, delta')
    demands beyond that, for delta' = delta and for a tiny one.
    """
    others = {"both have the same delta": delta, "the other delta is tiny": tiny}
    found = [
        {"case": case, "excess": float(meaning.trade_off(0.0, other, epsilon)) - (1 - delta)}
        for case, other in others.items()
    ]
    return judge("stringent", found, delta=delta, posterior=meaning.posterior(0.5, delta, 0.0))


def _communication(bits: Table) -> Claim:
    smallest = bits["d_0"].min()
    means = bits[bits["d_0"] == smallest].groupby("t")[["fixed", "entropy"]].mean()
    numbers = {"mean": means.mean(), "end": means["fixed"].iloc[-1], "float_bits": FLOAT_BITS}
    return judge("communication", {"bits": bits["fixed"].max()}, smallest=smallest, **numbers)
