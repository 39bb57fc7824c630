"""Notebook 1: the numbers behind the verdicts on convergence; words and rules: claims.yaml."""

from __future__ import annotations

import pandas as pd

from companion.claims import Claim, Table, judge
from companion.convergence import rates
from companion.convergence.tables import growth_without_u, largest_margin  # noqa: F401


def verdicts(difference: dict, slopes: Table, margin: float, nu: float, breaking: dict) -> list[Claim]:
    """Return the rows of notebook 1."""
    quantised, claimed = slopes[slopes["d_0"] > 0], rates.claimed_slopes(nu)
    of = {name: quantised[quantised["measure"] == name] for name in rates.MEASURES}
    broken = [f"weight {w:g}: from d_0 = {d:g}" for w, d in breaking.items() if d is not None]
    graphs = [{"graph": "has a spanning tree", "growth": growth_without_u()}]
    graphs += [{"graph": "is strongly connected", "growth": growth_without_u(back=0.3)}]
    return [
        judge("assumption-1", {"margin": margin}),
        judge("remark-1", graphs, weak=graphs[0]["growth"]),
        _falls("theorem-1-a", pd.concat([of["consensus"], of["tracking"]])),
        *(judge(f"remark-2-{name}", of[name], claimed=claimed[name]) for name in claimed),
        _no_price(slopes[slopes["measure"] == "gap"].set_index("d_0")),
        _falls("theorem-1-b", of["gap"]),
        judge("figure-2", difference, exceptions=broken),
    ]


def ours(difference: dict, dithered: Table, slopes: Table) -> list[Claim]:
    """Return our row on a public dither; `dithered` holds the slopes at one d_0 of `slopes`."""
    both = dithered.merge(slopes, on=["d_0", "measure"], suffixes=("", "_plain"))
    slower = pd.DataFrame({"case": both["measure"], **_apart(both, both, "_plain")})
    accuracy = {f"accuracy_{end}": difference[end] for end in ("low", "high")}
    found = [{"case": "accuracy", **accuracy}, *slower.to_dict("records")]
    gap = both[both["measure"] == "gap"].iloc[0]
    return [judge("ours-dither-converges", found, **difference, gap=gap)]


def _falls(key: str, own: Table) -> Claim:
    return judge(key, own, least=own["low"].min(), most=own["high"].max())


def _no_price(gap: Table) -> Claim:
    without, largest = gap.loc[rates.UNQUANTISED], gap.loc[gap.index.max()]
    numbers = {"without": without, "largest": largest, "d_0": gap.index.max()}
    return judge("remark-2-no-price", _apart(largest, without), **numbers)


def _apart(one: Table, other: Table, end: str = "") -> dict:
    """Return the ends of the difference of two exponents, from their intervals."""
    low, high = one["low"] - other[f"high{end}"], one["high"] - other[f"low{end}"]
    return {"slower_low": low, "slower_high": high}
