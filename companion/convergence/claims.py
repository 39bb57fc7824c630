"""Notebook 1: the numbers behind the verdicts on convergence; words and rules: claims.yaml."""

from __future__ import annotations

import pandas as pd

from companion.claims import BROKEN, Claim, Table, judge, show  # noqa: F401 (show)
from companion.convergence import tables
from companion.convergence.params import UNQUANTISED
from companion.convergence.shards import MEASURES

KEYS = ["d_0", "measure"]


def verdicts(paired: Table, slopes: Table, margin: float, nu: float, lost: Table) -> list[Claim]:
    """Return the rows of notebook 1; those on rates are left out with the long runs."""
    steps = tables.breaking_steps(lost, BROKEN).items()
    broken = [f"weight {weight:g}: from d_0 = {d_0:g}" for weight, d_0 in steps]
    weak, strong = tables.growth_without_u(), tables.growth_without_u(back=0.3)
    graphs = [{"graph": "has a spanning tree", "growth": weak}]
    graphs += [{"graph": "is strongly connected", "growth": strong}]
    return [
        judge("assumption-1", {"margin": margin}),
        judge("remark-1", graphs, weak=weak),
        *([] if slopes.empty else _rates(tables.of_paper(slopes), nu)),
        judge("figure-2", tables.final(paired), exceptions=broken),
        *([] if slopes.empty else _ours(tables.final(paired, "dithered"), slopes)),
    ]


def _rates(slopes: Table, nu: float) -> list[Claim]:
    """Return the rows on Theorem 1 and Remark 2."""
    quantised, claimed = slopes[slopes["d_0"] > 0], tables.claimed_slopes(nu)
    of = {name: quantised[quantised["measure"] == name] for name in MEASURES}
    plain = slopes[(slopes["measure"] == "gap") & (slopes["d_0"] == UNQUANTISED)].iloc[0]
    largest = of["gap"].loc[of["gap"]["d_0"].idxmax()]
    return [
        _falls("theorem-1-a", pd.concat([of["consensus"], of["tracking"]])),
        *(judge(f"remark-2-{name}", of[name], claimed=claimed[name]) for name in claimed),
        judge("remark-2-no-price", {**largest, **plain.add_prefix("plain_")}),
        _falls("theorem-1-b", of["gap"]),
    ]


def _falls(key: str, own: Table) -> Claim:
    return judge(key, own, least=own["low"].min(), most=own["high"].max())


def _ours(accuracy: dict, slopes: Table) -> list[Claim]:
    """Return our rows: a public dither, and gradients at sent values with a smoother one."""
    dithered = _beside(slopes, "dithered", "quantised")
    sent = _beside(slopes, "at sent", "dithered")
    ends = {f"accuracy_{end}": accuracy[end] for end in ("low", "high")}
    cases = [{"measure": "accuracy", **ends}, *dithered.to_dict("records")]
    gap, sent_gap = (own[own["measure"] == "gap"].iloc[0] for own in (dithered, sent))
    return [
        judge("ours-dither-converges", cases, **accuracy, **gap),
        judge("ours-sent-converges", sent, **sent_gap),
    ]


def _beside(slopes: Table, variant: str, other: str) -> Table:
    """Return the exponents of a variant by measure, as ours_, and beside them another's, plain_."""
    both = {"ours_": variant, "plain_": other}
    own = [tables.of_variant(slopes, both[name]).set_index(KEYS).add_prefix(name) for name in both]
    return pd.concat(own, axis=1, join="inner").reset_index()
