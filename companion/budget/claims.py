"""Notebook 2: the numbers behind the verdicts; words and rules: claims.yaml."""

from __future__ import annotations

import numpy as np
import pandas as pd
from IPython.display import HTML

from companion.budget import tables
from companion.budget.bounds import EARLY, FOR_EVER, LATE, LATEST
from companion.budget.params import Params
from companion.claims import Claim, Numbers, Table, as_html, judge, on, save, threshold
from companion.data.mushrooms import Mushrooms
from ldp_core.accountant import meaning


def verdicts(
    params: Params,
    budgets: Table,
    arrivals: Table,
    worst: Table,
    promised: Table,
    used: Table,
    tried: Table,
    kept: Table,
    bits: Table,
    free: bool,
) -> list[Claim]:
    """Return the rows about the paper; tables of `tables`, `cases` and `bounds`."""
    summary, normalise = tables.summary(budgets), params.normalise
    bounds = promised[promised["normalise"] == normalise].set_index("bound")
    cases, own = tables.valid_range(summary, arrivals, normalise)
    error = (worst["exact"] - worst["lower"]).max()
    share = "the same to the last bit" if free else "not the same"
    return [
        judge("lemma-6", {"ratio": tables.lemma_6_ratio()}),
        _theorem_2_1(10 ** bounds["log10_delta"], params.d_0),
        _theorem_2_2(bounds, params.target),
        _infinite_and_accurate(tables.both_at_once(tried, kept, error)),
        _fifty_steps(summary, used),
        judge("figure-3-valid-range", cases, own=own),
        judge("figure-3-worst-case", tables.worst_ratio(worst[worst["normalise"] == normalise])),
        _larger_steps(tables.falls(budgets)),
        _stringent(),
        judge("free-choice", {"apart": 0.0 if free else 1.0}, same=share),
        *([_communication(bits)] if len(bits) else []),
    ]


def _theorem_2_1(delta: pd.Series, d_0: float) -> Claim:
    printed = delta["theorem 2.1"]
    found = [{"times": 1.0, "delta": printed}, {"times": printed, "delta": min(printed, 1.0)}]
    return judge("theorem-2-1", found, d_0=d_0, printed=printed, certificate=delta["certificate"])


def _theorem_2_2(bounds: Table, target: float) -> Claim:
    row, ours = bounds.loc["theorem 2.2"], bounds.loc[FOR_EVER]
    slack = row["log10_d_0"] - ours["log10_d_0"]  # our own condition need not be the weakest
    found = {"slack_low": slack, "slack_high": np.inf}
    return judge("theorem-2-2", found, row=row, certificate=ours, target=target)


def _infinite_and_accurate(found: Table) -> Claim:
    certified = found["step"] == "certified"
    accurate = found["lost"] <= threshold("infinite-and-accurate", "lost")
    lists = {"accurate": found[accurate & ~certified], "certified": found[certified]}
    numbers = found.iloc[0][["target", "iterations"]]
    return judge("infinite-and-accurate", found, **lists, **numbers)


def _fifty_steps(summary: Table, used: Table) -> Claim:
    shares = {arrival: tables.early_share(summary, arrival) for arrival in ("first", "uniform")}
    found = pd.concat([table.assign(arrival=arrival) for arrival, table in shares.items()])
    late = {t: tables.span(1 - used[used["t"] == t]["share"]) for t in (EARLY, LATE, LATEST)}
    after = ", ".join(f"{share} comes after t = {t}" for t, share in late.items())
    spent = {arrival: tables.span(table["share"]) for arrival, table in shares.items()}
    numbers: Numbers = {"early": EARLY, "last": int(summary["t"].max()), "after": after, **spent}
    return judge("figure-3-fifty-steps", tables.named(found), **numbers)


def _larger_steps(falls: Table) -> Claim:
    spread = 1.96 * falls["standard_error"]
    ends = {"fall_low": falls["fall"] - spread, "fall_high": falls["fall"] + spread}
    return judge("figure-3-larger-steps", tables.named(falls.assign(spread=spread, **ends)))


def _stringent(delta: float = 0.5) -> Claim:
    posterior = meaning.posterior(0.5, delta, 0.0)
    return judge("stringent", tables.stringency(delta), delta=delta, posterior=posterior)


def _communication(bits: Table) -> Claim:
    smallest = bits["d_0"].min()
    means = bits[bits["d_0"] == smallest].groupby("t")[["fixed", "entropy"]].mean()
    numbers = {
        "mean": means.mean(),
        "end": means["fixed"].iloc[-1],
        "float_bits": tables.FLOAT_BITS,
    }
    return judge("communication", {"bits": bits["fixed"].max()}, smallest=smallest, **numbers)


def promises(found: Table, params: Params) -> list[Claim]:
    """Return one row a promise; `found` is `tables.promises`."""
    records = found.assign(warm_up=params.promise_warm_up, samples=params.samples).to_dict(
        "records"
    )
    return [judge("ours-certified", row) for row in records]


def show(rows: list[Claim], data: Mushrooms, output: str) -> HTML:
    """Save the rows, each with the data it rests on, and return them as a table."""
    rows = on(data.provenance, rows)
    save(rows, "02_privacy_budget", output)
    return HTML(as_html(rows))
