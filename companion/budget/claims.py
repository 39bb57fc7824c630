"""Notebook 2: the numbers behind the verdicts; words and rules: claims.yaml."""

from __future__ import annotations

import numpy as np
import pandas as pd

from companion.budget import tables
from companion.budget.bounds import CERTIFICATE, EARLY, LATE, LATEST
from companion.budget.neighbour_tables import LONG, apart_for_ever
from companion.budget.params import Params
from companion.budget.promise import RISK
from companion.claims import Claim, Numbers, Table, judge, show, threshold  # noqa: F401 (show)
from companion.neighbours.bench import MEASURES
from companion.params import FLOAT_BITS
from ldp_core.accountant import meaning

HALF = 0.5
HALF_MEANS = meaning.posterior(0.5, HALF, 0.0)  # what it allows to make of an even prior


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
    error, same = (worst["exact"] - worst["lower"]).max(), "the same to the last bit"
    return [
        judge("lemma-6", {"ratio": tables.lemma_6_ratio()}),
        _theorem_2_1(10 ** bounds["log10_delta"], params.d_0),
        _theorem_2_2(bounds, params.target),
        _infinite_and_accurate(tables.both_at_once(tried, kept, error)),
        _fifty_steps(summary, used),
        judge("figure-3-valid-range", cases, own=own),
        judge("figure-3-worst-case", tables.worst_ratio(worst[worst["normalise"] == normalise])),
        judge("figure-3-larger-steps", tables.named(tables.falls(budgets))),
        judge("stringent", tables.stringency(HALF), delta=HALF, posterior=HALF_MEANS),
        judge("free-choice", {"apart": 1.0 - free}, same=same if free else "not the same"),
        *([_communication(bits)] if len(bits) else []),
    ]


def _theorem_2_1(delta: pd.Series, d_0: float) -> Claim:
    printed = delta["theorem 2.1"]
    found = [{"times": 1.0, "delta": printed}, {"times": printed, "delta": min(printed, 1.0)}]
    return judge("theorem-2-1", found, d_0=d_0, printed=printed, certificate=delta["certificate"])


def _theorem_2_2(bounds: Table, target: float) -> Claim:
    row, ours = bounds.loc["theorem 2.2"], bounds.loc[CERTIFICATE]
    slack = row["log10_d_0"] - ours["log10_d_0"]  # our own condition need not be the weakest
    found = {"slack_low": slack, "slack_high": np.inf}
    return judge("theorem-2-2", found, row=row, certificate=ours, target=target)


def _infinite_and_accurate(found: Table) -> Claim:
    certified = found["step"] == "certified"
    accurate = found["lost"] <= threshold("infinite-and-accurate", "lost")
    lists = {"accurate": found[accurate & ~certified], "certified": found[certified]}
    return judge("infinite-and-accurate", found, **lists, **found.iloc[0][["target", "iterations"]])


def _fifty_steps(summary: Table, used: Table) -> Claim:
    shares = {arrival: tables.early_share(summary, arrival) for arrival in ("first", "uniform")}
    found = pd.concat([table.assign(arrival=arrival) for arrival, table in shares.items()])
    late = {t: tables.span(1 - used[used["t"] == t]["share"]) for t in (EARLY, LATE, LATEST)}
    after = ", ".join(f"{share} comes after t = {t}" for t, share in late.items())
    spent = {arrival: tables.span(table["share"]) for arrival, table in shares.items()}
    numbers: Numbers = {"early": EARLY, "last": int(summary["t"].max()), "after": after, **spent}
    return judge("figure-3-fifty-steps", tables.named(found), **numbers)


def _communication(bits: Table) -> Claim:
    smallest = bits["d_0"].min()
    means = bits[bits["d_0"] == smallest].groupby("t")[["fixed", "entropy"]].mean()
    numbers = {"mean": means.mean(), "end": means["fixed"].iloc[-1], "float_bits": FLOAT_BITS}
    return judge("communication", {"bits": bits["fixed"].max()}, smallest=smallest, **numbers)


def promises(found: Table, proven: Table, params: Params) -> list[Claim]:
    """Return one row a promise, and one about the audit; of `tables.promises`, `promise.proven`."""
    own = found.assign(warm_up=params.promise_warm_up, samples=params.samples)
    share = proven["audited"] / proven["certified"]
    ends = {"share": share, "share_low": share, "share_high": np.inf}
    tight = proven.assign(**ends, beyond=proven["audited"] - proven["certified"])
    numbers = {"risk": RISK, "rounds": params.promise_iterations}
    rows = [judge("ours-certified", row) for row in own.to_dict("records")]
    return rows + [judge("ours-audit", row, **numbers) for row in tight.to_dict("records")]


def neighbours(found: Table, T: int) -> list[Claim]:
    """Return the rows on the paper's words about its neighbours, compared for T iterations."""
    own = found[found["measure"] == MEASURES[0]].set_index(["mechanism", "target"], drop=False)
    step = float(own["target"].min())
    numbers: Numbers = {"step": step, "long": LONG, "apart": apart_for_ever(step)}
    papers, row = own["mechanism"] == "paper", own.loc["paper", step]
    others = own[~papers & (own["target"] == step)]
    case = {"implied": row["one_iteration"] / row["for_ever"], "composed": numbers["apart"] / step}
    return [
        _degenerates(own.loc["ternary"], {**numbers, "iterations": T}),
        judge("stronger-than-per-iteration", case, row=row, **numbers),
        judge("no-tradeoff", own[papers], others=others, smallest=step),
        _overhead(own),
    ]


def _degenerates(ternary: Table, numbers: Numbers) -> Claim:
    faded = ternary.assign(delta_low=ternary["attained"], delta_high=ternary["for_ever"])
    name = f"one sample is replaced, at delta = {{:g}} over {numbers['iterations']} iterations"
    cases = faded.assign(case=faded["target"].map(name.format)).to_dict("records")
    staying = {"case": "two data sets keep an agent's states apart for ever", "delta_high": 1.0}
    found = [{**staying, "delta_low": numbers["apart"]}, *cases]
    return judge("ternary-degenerates", found, faded=faded, **numbers)


def _overhead(own: Table) -> Claim:
    """Judge Algorithm 1 and ours against noise at each target: all targets make one case."""
    noise = own.loc[["gaussian", "tracking", "laplace"]].add_prefix("other_")
    ours = own.loc[["paper", "spline"]].reset_index(drop=True)
    cases = ours.merge(noise, left_on="target", right_on="other_target")
    bits = own.groupby("name", sort=False)["bits"].mean().reset_index()
    found = cases.assign(ratio=cases["bits"] / cases["other_bits"])
    return judge("less-overhead", found, each=bits)
