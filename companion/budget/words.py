"""Notebook 2: sentences and small tables that state its numbers."""

from __future__ import annotations

import math

import pandas as pd
from IPython.display import Markdown

from companion.budget.bounds import CERTIFICATE, EARLY, LATE, LATEST
from companion.budget.params import NORMALISATIONS, Params
from companion.budget.promise import RISK, Plan, planned
from companion.budget.tables import span
from companion.data.mushrooms import Mushrooms
from companion.promises import FOR_EVER, Promise, record
from ldp_core.accountant import meaning

PAPER_D_0 = 2.0  # the smallest of section 4.1


def spent(summary: pd.DataFrame, params: Params) -> Markdown:
    """Return what data points have cost after all iterations, at the ends of the steps."""
    last = summary[summary["t"] == params.iterations].set_index(["arrival", "d_0"])
    ends = min(params.budget_d_0), max(params.budget_d_0)
    (few, many), (first, later) = (
        [last.loc[(arrival, d_0), "median"] for d_0 in ends] for arrival in ("uniform", "first")
    )
    low, high = (last.loc[("uniform", d_0), "vacuous"] for d_0 in ends)
    return Markdown(
        f"After {params.iterations} iterations a data point of the whole run has cost a median of "
        f"**{few:.3g}** at $d_0 = {ends[0]:g}$ and {many:.3g} at $d_0 = {ends[1]:g}$; the first "
        f"data point **{first:.3g}** and {later:.3g}. Above 1 the sum says nothing: that is so for "
        f"{low:.0%} of all modifications at $d_0 = {ends[0]:g}$ and for {high:.0%} at "
        f"$d_0 = {ends[1]:g}$."
    )


def arrivals(table: pd.DataFrame, params: Params) -> Markdown:
    """Return how the sum and the exact number fall with the time of arrival."""
    middle = table.groupby(["normalise", "d_0", "asked_k"])[["paper", "exact"]].median()
    early, late = min(params.arrivals), max(params.arrivals)
    fine, coarse = min(params.case_d_0), max(params.case_d_0)
    first, last = (middle.loc[("none", fine, k)] for k in (early, late))
    scaled = middle.loc[("l1", coarse, late)]
    return Markdown(
        f"Unnormalised, $d_0 = {fine:g}$: from $k = {early}$ to $k = {late}$ the sum falls from "
        f"{first['paper']:.3g} to {last['paper']:.3g}, the exact number from {first['exact']:.3g} "
        f"to {last['exact']:.3g}. With rows of L1 norm 1 and $d_0 = {coarse:g}$ they end at "
        f"{scaled['paper']:.2g} and {scaled['exact']:.2g}. Whether Fig. 3 lies within the valid "
        "range is decided by these choices, and the paper does not state them."
    )


def sandwich(measured: pd.DataFrame) -> Markdown:
    """Return the case in which adding up deltas exaggerates most, and whether an audit refutes."""
    vacuous = measured[measured["paper"] >= 1]
    vacuous = vacuous if len(vacuous) else measured
    telling = vacuous.loc[vacuous["exact"].idxmin()]
    refuted = int((measured["audit"] > measured["upper"]).sum())
    ending = "**the accountant is refuted**" if refuted else "the accountant is not refuted"
    right = float(meaning.accuracy(telling["exact"]))
    return Markdown(
        f"Look at rows: {telling['normalise']}, $k = {telling['k']}$. The paper's sum is "
        f"**{telling['paper']:.3g}** and says nothing; the exact total variation is "
        f"**{telling['exact']:.3g}**: an attacker who sees everything is right in {right:.0%} of "
        f"cases, and ours has proven {telling['audit']:.3g}. Adding up deltas is what makes Fig. 3 "
        "so large: thousands of coins that fall nearly the same way under both data sets do not "
        f"add up, they average out. The audit exceeds the exact number in {refuted} of "
        f"{len(measured)} cases: {ending}."
    )


def bounds(promises: pd.DataFrame, params: Params) -> Markdown:
    """Return what each bound promises, and the steps that a target would need."""
    own = promises[promises["normalise"] == params.normalise].set_index("bound")
    power, needed = own["log10_delta"], own["log10_d_0"]
    empty = "Every one of these promises is empty here. " if (power >= 0).all() else ""
    return Markdown(
        f"Feature rows: {params.normalise}. Theorem 2.1 promises $\\delta \\le$ "
        f"**{10 ** power['theorem 2.1']:.3g}** for {params.iterations} iterations, Theorem 2.2 "
        f"$\\delta \\le 10^{{{power['theorem 2.2']:.1f}}}$ for all time, our certificate's sum is "
        f"{10 ** power['certificate']:.3g} and {10 ** power[CERTIFICATE]:.3g}. A $\\delta$ of "
        f"{params.target:g} would need $d_0 = 10^{{{needed['theorem 2.1']:.1f}}}$, "
        f"$10^{{{needed['theorem 2.2']:.1f}}}$, {10 ** needed['certificate']:.3g} and "
        f"{10 ** needed[CERTIFICATE]:.3g}; the paper uses {PAPER_D_0:g}. {empty}"
        "That is a statement about bounds: the exact numbers above are what is really given away."
    )


def still_to_come(later: pd.DataFrame) -> pd.DataFrame:
    """Return what is still to come, from agent to agent, of the sum over all time."""
    columns = {t: f"after t = {t:,}".replace(",", " ") for t in (EARLY, LATE, LATEST)}
    cells = {
        name: {columns[t]: span(later.loc[(name, t)]) for t in columns} for name in NORMALISATIONS
    }
    return pd.DataFrame(cells).T.rename_axis("rows")


def kept(table: pd.DataFrame) -> pd.DataFrame:
    """Return what it costs to have the first certificate for all time, by rows."""
    cells = {
        "rows": table["normalise"],
        "$d_0$": table["d_0"].map("{:.3g}".format),
        "accuracy": table["accuracy"].map("{:.1%}".format),
        "unquantised": table["unquantised"].map("{:.1%}".format),
        "coordinates sent as zero": table["zeros"].map("{:.2%}".format),
    }
    return pd.DataFrame(cells).set_index("rows")


def promise(promises: pd.DataFrame, params: Params) -> Markdown:
    """Return the promises, each with its unit in the same sentence, and what it costs."""
    sentences = [
        f"- $\\delta \\le$ **{row.certified:.3f}** for one data point of {params.samples} "
        f"mushrooms of one agent, whatever anybody does with all that is ever sent: "
        f"**{row.accuracy:.1%}** "
        f"[{row.accuracy_low:.1%}, {row.accuracy_high:.1%}] after {row.t} iterations, {row.runs} "
        f"runs. Its twin has {row.accuracy_unquantised:.1%}, Fig. 2's unprotected learner "
        f"{row.figure_2:.1%}, a tuned one {row.tuned:.1%}. The float64 program keeps "
        f"{row.program:.3f} for {params.horizon:,} iterations; $\\mu \\approx {row.mu:.2f}$; "
        f"{row.bits:.1f} bits a coordinate."
        for row in promises.itertuples()
    ]
    return Markdown("\n".join(sentences) or "`promise_targets` is empty: this part is left out.")


def proven(table: pd.DataFrame) -> Markdown:
    """Return what an informed attacker proves of a promise."""
    if table.empty:
        return Markdown("No attack was tried (`promise_audit_samples = 0`).")
    row = table.iloc[0]
    return Markdown(
        f"Of the promised $\\delta = {row['certified']:.3f}$ it proves **{row['audited']:.3f}**, "
        f"at confidence $1 - 10^{{{math.log10(RISK):.0f}}}$."
    )


def units(table: pd.DataFrame, params: Params) -> pd.DataFrame:
    """Return the certified delta by unit of privacy, a row, and target, two columns."""
    names = {"delta": f"by t = {params.promise_iterations}", "delta_for_ever": "for ever"}
    wide = table.rename(columns=names).pivot(
        index="unit", columns="target", values=[*names.values()]
    )
    wide = wide.loc[table["unit"].unique()].swaplevel(axis=1).sort_index(axis=1)
    return wide.map("{:.3f}".format).rename_axis(index="unit of privacy", columns=["target", ""])


def chosen(found: Plan) -> str:
    """Return what a plan has chosen."""
    steps, d_0 = found.schedules, found.schedules.d_0
    return (
        f"From public constants alone. Planned: λ₀ = {steps.lam_0:.3g}, ν = {steps.nu:g}, "
        f"ς = {max(steps.varsigma):g}, d₀ = {min(d_0):.3g} to {max(d_0):.3g}, after a warm-up of "
        f"{found.terms.warm_up} data points."
    )


def keep(found: pd.DataFrame, params: Params, data: Mushrooms, output: str) -> None:
    """Put every promise into promises.json, its unit and its price beside it."""
    for row in found.to_dict("records"):
        record(output, _entry(row, params, data))


def _entry(row: dict, params: Params, data: Mushrooms) -> Promise:
    names = ("lam_0", "nu", "varsigma", "d_0_smallest", "d_0_largest", "program", "mu", "bits")
    ends = ("accuracy", "accuracy_low", "accuracy_high")
    terms = planned(params, row["target"]).terms
    settings = {"clip": params.promise_clip, "warm_up": terms.warm_up, "degree": terms.degree}
    return Promise(
        name=f"mushrooms, {row['target']:g} for ever",
        data=data.provenance.name,
        model=f"logistic regression on {terms.dim} centred features, five agents",
        parameters={**settings, **{name: row[name] for name in names}},
        unit=f"one data point of {params.samples} mushrooms of one agent",
        delta=row["certified"],
        horizon=FOR_EVER,
        T=int(row["t"]),
        accuracy=tuple(min(1.0, row[name]) for name in ends),
        runs=int(row["runs"]),
        twin=row["accuracy_unquantised"],
        best_unprotected=max(row["figure_2"], row["tuned"]),
        certified_by="ldp_core.accountant.promise.certify",
        guessing=0.5,
    )
