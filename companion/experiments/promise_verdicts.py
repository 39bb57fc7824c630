"""Notebook 2, last section: rows of our own among the verdicts."""

from __future__ import annotations

import pandas as pd

from companion.claims import Claim
from companion.experiments.promise import RISK, Params
from ldp_core.accountant import precision_term

NOTEBOOK = "02_privacy_budget"
TOLERATED = 0.01  # accuracy that a promise may cost and still be called free


def verdicts(frontier: pd.DataFrame, audits: pd.DataFrame, params: Params, dim: int) -> list[Claim]:
    """Return one row a target, judged at the last t, and one that says that no attack broke any of them."""
    warm_up, rounds = params.promise_warm_up, params.audit_iterations
    rows = [_cost(of_target, warm_up, dim) for _, of_target in frontier.groupby("target", sort=False)]
    last = frontier[frontier["t"] == frontier["t"].max()]
    return [*rows, _without_dither(last), _unbroken(last.merge(audits, on="target"), rounds)]


def _cost(of_target: pd.DataFrame, warm_up: int, dim: int) -> Claim:
    row = of_target.sort_values("t").iloc[-1]
    free, dear = row.lost_low >= -TOLERATED, row.lost_high < -TOLERATED
    always = bool((of_target["lost_low"] >= -TOLERATED).all())
    costs = "; ".join(
        f"{100 * at.lost:+.2f} points [{100 * at.lost_low:+.2f}, {100 * at.lost_high:+.2f}] after {at.t} iterations"
        for at in of_target.sort_values("t").itertuples()
    )
    return Claim(
        key=f"ours-certified-{row.target:g}",
        where="Beyond the paper",
        words=f"delta <= {row.target:g} for ever costs at most one point of accuracy",
        paper="-",
        ours=f"certified {row.certified:.3f}; against the twin {costs}; {int(row.runs)} paired runs",
        verdict="holds" if free and always else "holds if" if free else "does not hold" if dear else "cannot be checked",
        condition=f"training lasts {int(row.t)} iterations" if free and not always else "",
        reason=f"Public dither and {warm_up} data points of warm-up, schedules chosen by `plan`; the twin learns from the same "
        "L2-normalised mushrooms, without a quantizer. Neighbours may react as they like, but must not know a dither before it "
        "is used. The certificate is for exact coins and dithers; those of 53 bits add at most "
        f"{precision_term(int(row.t), dim):.0e} in {int(row.t)} iterations.",
        notebook=NOTEBOOK,
        figure="fig3_promise",
        ours_to_prove=True,
    )


def _without_dither(frontier: pd.DataFrame) -> Claim:
    empty = (frontier["without_dither"] >= 1.0).all()
    return Claim(
        key="ours-without-dither",
        where="Beyond the paper",
        words="the same settings certify nothing without the dither",
        paper="-",
        ours=f"certified {frontier['without_dither'].min():.3g}; summed as in the paper "
        f"{frontier['sum_without_dither'].min():.3g} or more",
        verdict="holds" if empty else "does not hold",
        reason="An input near a grid point is sent almost without noise, and the worst case must allow for it every time.",
        notebook=NOTEBOOK,
        figure="fig3_ladder",
        ours_to_prove=True,
    )


def _unbroken(both: pd.DataFrame, rounds: int) -> Claim:
    broken = both[both["audited"] > both["certified"]]
    shown = "; ".join(f"{row.audited:.3f} against {row.certified:.3f}" for row in both.itertuples())
    return Claim(
        key="ours-audit",
        where="Beyond the paper",
        words="no attack that we tried proves more than the certificate allows",
        paper="-",
        ours=f"proven by the audit against certified: {shown} (confidence 1 - {RISK:g})",
        verdict="does not hold" if len(broken) else "holds" if both["audited"].any() else "cannot be checked",
        reason="The attacker knows both trajectories of the worst modification found, and looks at the most telling "
        f"coordinates of the first {rounds} rounds."
        + (" It proves nothing at this size, so it could not have refuted a certificate." if not both["audited"].any() else ""),
        notebook=NOTEBOOK,
        figure="fig3_ladder",
        ours_to_prove=True,
    )
