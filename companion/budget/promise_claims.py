"""Notebook 2, last section: the numbers behind our own rows; words and rules: claims.yaml."""

from __future__ import annotations

from companion.budget.promise import RISK, Params
from companion.claims import Claim, Table, judge
from ldp_core.accountant import precision_term


def verdicts(frontier: Table, audits: Table, params: Params, dim: int) -> list[Claim]:
    """Return one row a target, one on the dither, and one that says that no attack broke any."""
    by_target, warm_up = frontier.groupby("target", sort=False), params.promise_warm_up
    costs = [_cost(of_target, warm_up, dim) for _, of_target in by_target]
    last = frontier[frontier["t"] == frontier["t"].max()]
    bare = judge("ours-without-dither", last, least=last.min(numeric_only=True))
    return [*costs, bare, _unbroken(last.merge(audits, on="target"), params)]


def _cost(of_target: Table, warm_up: int, dim: int) -> Claim:
    found = of_target.sort_values("t")
    last = found.iloc[-1]
    coins = precision_term(int(last["t"]), dim)
    numbers = {"target": last["target"], "last": last, "warm_up": warm_up, "coins": coins}
    return judge("ours-certified", found, **numbers)


def _unbroken(both: Table, params: Params) -> Claim:
    found = both.assign(beyond=both["audited"] - both["certified"])
    proves = bool(both["audited"].any())
    return judge("ours-audit", found, proves, risk=RISK, rounds=params.audit_iterations)
