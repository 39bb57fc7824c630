"""Notebook 1: the numbers behind the verdicts on convergence; words and rules: claims.yaml."""

from __future__ import annotations

import pandas as pd

from companion.claims import BROKEN, Claim, Table, judge, show  # noqa: F401 (show)
from companion.convergence import tables
from companion.convergence.params import UNQUANTISED
from companion.convergence.shards import MEASURES


def verdicts(paired: Table, slopes: Table, margin: float, nu: float, lost: Table) -> list[Claim]:
    """Return the rows of notebook 1; those on rates are left out with the long runs."""
    steps = tables.breaking_steps(lost, BROKEN).items()
    broken = [f"weight {weight:g}: from d_0 = {d_0:g}" for weight, d_0 in steps]
    graphs = [{"graph": "has a spanning tree", "growth": tables.growth_without_u()}]
    graphs += [{"graph": "is strongly connected", "growth": tables.growth_without_u(back=0.3)}]
    return [
        judge("assumption-1", {"margin": margin}),
        judge("remark-1", graphs, weak=graphs[0]["growth"]),
        *([] if slopes.empty else _rates(tables.of_paper(slopes), nu)),
        judge("figure-2", tables.final(paired), exceptions=broken),
        *([] if slopes.empty else _ours(tables.final(paired, "dithered"), slopes)),
    ]


def _rates(slopes: Table, nu: float) -> list[Claim]:
    """Return the rows on Theorem 1 and Remark 2."""
    quantised, claimed = slopes[slopes["d_0"] > 0], tables.claimed_slopes(nu)
    of = {name: quantised[quantised["measure"] == name] for name in MEASURES}
    return [
        _falls("theorem-1-a", pd.concat([of["consensus"], of["tracking"]])),
        *(judge(f"remark-2-{name}", of[name], claimed=claimed[name]) for name in claimed),
        _no_price(slopes[slopes["measure"] == "gap"].set_index("d_0")),
        _falls("theorem-1-b", of["gap"]),
    ]


def _ours(difference: dict, slopes: Table) -> list[Claim]:
    """Return our rows: a public dither, and gradients at sent values with a smoother one."""
    accuracy = {f"accuracy_{end}": difference[end] for end in ("low", "high")}
    dithered, gap = _slower(slopes, "dithered", "quantised")
    sent, sent_gap = _slower(slopes, "at sent", "dithered")
    return [
        judge("ours-dither-converges", [{"case": "accuracy", **accuracy}, *dithered],
              **difference, gap=gap),
        judge("ours-sent-converges", sent, gap=sent_gap),
    ]  # fmt: skip


def _slower(slopes: Table, variant: str, other: str) -> tuple[list[dict], pd.Series]:
    """Return how much slower one variant is in each measure, and both exponents of the gap."""
    both = tables.of_variant(slopes, variant).merge(
        tables.of_variant(slopes, other), on=["d_0", "measure"], suffixes=("", "_plain")
    )
    cases = pd.DataFrame({"case": both["measure"], **_apart(both, both, "_plain")})
    return cases.to_dict("records"), both[both["measure"] == "gap"].iloc[0]


def _falls(key: str, own: Table) -> Claim:
    return judge(key, own, least=own["low"].min(), most=own["high"].max())


def _no_price(gap: Table) -> Claim:
    without, largest = gap.loc[UNQUANTISED], gap.loc[gap.index.max()]
    numbers = {"without": without, "largest": largest, "d_0": gap.index.max()}
    return judge("remark-2-no-price", _apart(largest, without), **numbers)


def _apart(one: Table, other: Table, end: str = "") -> dict:
    """Return the ends of the difference of two exponents, from their intervals."""
    low, high = one["low"] - other[f"high{end}"], one["high"] - other[f"low{end}"]
    return {"slower_low": low, "slower_high": high}
