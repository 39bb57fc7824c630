"""Notebook 2: what the measurements say about the paper's claims on privacy and communication, row by row."""

from __future__ import annotations

import numpy as np
import pandas as pd

from companion.claims import Claim
from companion.experiments.budget_bits import FLOAT_BITS
from companion.experiments.budget_bounds import EARLY, LATE, LATEST
from ldp_core import quantizer
from ldp_core.accountant import meaning

NOTEBOOK = "02_privacy_budget"
PAPER_D_0 = 2.0  # the smallest of section 4.1
MAINTAINED = 0.01  # an accuracy within one point of the unquantised twin's is called maintained
ARRIVAL_NAMES = {"uniform": "random time", "first": "first data point"}
ROW_NAMES = {"none": "unnormalised", "l2": "L2-normalised", "l1": "L1-normalised"}
SETTLED = 0.1  # growth per iteration after EARLY below a tenth of that before is called no longer rapid


def verdicts(
    summary: pd.DataFrame,
    falls: pd.DataFrame,
    worst: pd.DataFrame,
    promised: pd.DataFrame,
    used: pd.DataFrame,
    kept: pd.DataFrame,
    bits: pd.DataFrame,
    free: bool,
    d_0: float,
    normalise: str,
) -> list[Claim]:
    """Return the rows of notebook 2; the tables are those of `budget`, `budget_cases` and `budget_bounds`."""
    own = promised[promised["normalise"] == normalise].set_index("bound")
    return [
        _lemma_6(),
        _theorem_2_1(own, d_0),
        _theorem_2_2(own, float(kept["target"].iloc[0])),
        _infinite_and_accurate(kept),
        _fifty_steps(summary, used),
        _valid_range(summary),
        _worst_case(worst, normalise),
        _larger_steps(falls),
        _stringent(),
        _free_choice(free),
        _communication(bits),
    ]


def lemma_6_ratio(points: int = 401) -> float:
    """Return the largest total variation of a coordinate over |y - y'| / d, on a grid of inputs up to three cells apart."""
    y = np.linspace(0.0, 1.0, points)[:, None]
    other = y + np.linspace(0.0, 3.0, points)[None, 1:]
    return float((quantizer.total_variation(y, other, 1.0) / (other - y)).max())


def early_share(summary: pd.DataFrame, arrival: str) -> pd.DataFrame:
    """Return per d_0 the share of the last mean budget spent by EARLY, and the rate of growth after it over that before."""
    rows = []
    for d_0, curve in summary[summary["arrival"] == arrival].groupby("d_0"):
        curve = curve.set_index("t")["mean"]
        split = curve.index[curve.index <= EARLY].max()
        before, after, last = curve[split], curve.iloc[-1] - curve[split], curve.index[-1]
        rate = (after / (last - split)) / (before / split) if split and before and last > split else np.nan
        rows.append((d_0, before / curve.iloc[-1] if curve.iloc[-1] else np.nan, rate))
    return pd.DataFrame(rows, columns=["d_0", "share", "rate"])


def _range(shares: pd.Series) -> str:
    return f"{shares.min():.0%} to {shares.max():.0%}"


def _lemma_6() -> Claim:
    ratio = lemma_6_ratio()
    holds = ratio <= 1 + 1e-12
    return Claim(
        key="lemma-6",
        where="Lemma 6",
        words="If |y - y'| < d_t ... |P(q in tau | y) - P(q' in tau | y')| <= |y - y'| / d_t",
        paper="factor 1",
        ours=f"total variation at most {ratio:.3f} |y - y'| / d_t on a grid of inputs up to three cells apart",
        verdict="holds" if holds else "does not hold",
        reason="The case |y - y'| >= d_t is left out. Nothing is lost: the total variation is at most 1, and the right side "
        "then at least 1.",
        notebook=NOTEBOOK,
    )


def _theorem_2_1(own: pd.DataFrame, d_0: float) -> Claim:
    row, ours = own.loc["theorem 2.1"], own.loc["certificate"]
    delta = 10 ** row["log10_delta"]
    return Claim(
        key="theorem-2-1",
        where="Theorem 2.1, section 4.1",
        words="For any finite number of iterations T, Algorithm 1 is (0, delta^i)-LDP if the initial quantization step d_0^i "
        "satisfies ...",
        paper=f"delta <= 1; d_0 = {PAPER_D_0:g} is used",
        ours=f"delta = {delta:.3g} at d_0 = {d_0:g}; our certificate's sum is {10 ** ours['log10_delta']:.3g}",
        verdict="holds" if delta < 1 else "holds if",
        condition="" if delta < 1 else f"d_0 is {delta:,.0f} times larger",
        reason="The condition makes delta at most 1, which every mechanism satisfies, and the experiment does not meet even "
        "that. The first messages, when one data point is the whole gradient, and the adding up of deltas make it so.",
        notebook=NOTEBOOK,
        figure="fig3_bounds",
    )


def _theorem_2_2(own: pd.DataFrame, target: float) -> Claim:
    row, ours = own.loc["theorem 2.2"], own.loc["certificate, all time"]
    stronger = row["log10_d_0"] >= ours["log10_d_0"]
    return Claim(
        key="theorem-2-2",
        where="Theorem 2.2",
        words="can ensure (0, delta^i)-LDP over infinite iterations if the initial quantization step satisfies ...",
        paper="finite",
        ours=f"delta = 10^{row['log10_delta']:.1f} at the paper's settings, with the best free constants we found; our "
        f"certificate for all time: 10^{ours['log10_delta']:.1f}",
        verdict="holds if" if stronger else "cannot be checked",
        condition=f"d_0 is of the order of 10^{row['log10_d_0']:.0f}, for delta = {target:g} (ours: 10^{ours['log10_d_0']:.1f})"
        if stronger
        else "",
        reason="Finite, as claimed, and empty at any usable step. The printed proof has gaps (Lemma 5 says 'for all' where it "
        "means 'for some'; C_2 needs a maximum over t <= T_0 that is not shown), but a d_0 this large satisfies our own "
        "proven condition."
        if stronger
        else "The printed proof has gaps that we could not close, and our own condition asks for more here.",
        notebook=NOTEBOOK,
        figure="fig3_bounds",
    )


def _infinite_and_accurate(kept: pd.DataFrame) -> Claim:
    lost = kept["unquantised"] - kept["accuracy"]
    fine = lost <= MAINTAINED
    shown = "; ".join(
        f"{ROW_NAMES[row.normalise]} rows: d_0 = {row.d_0:.3g}, accuracy {row.accuracy:.1%} against {row.unquantised:.1%}"
        for row in kept.itertuples()
    )
    return Claim(
        key="infinite-and-accurate",
        where="Contributions 1 and 2",
        words="can achieve (0, delta^i)-LDP over an infinite number of iterations while maintaining the convergence accuracy",
        paper="both at once",
        ours=f"with the steps that certify delta = {kept['target'].iloc[0]:g} for all time, after "
        f"{kept['iterations'].iloc[0]} iterations: {shown}",
        verdict="holds" if fine.all() else "holds if" if fine.any() else "does not hold",
        condition=f"rows are {' or '.join(ROW_NAMES[name] for name in kept[fine]['normalise'])}"
        if fine.any() and not fine.all()
        else "",
        reason="The certified steps cost at most one point of accuracy."
        if fine.all()
        else f"A step that certifies delta = {kept['target'].iloc[0]:g} for all time, by Theorem 2 or by our sharper bound, is "
        f"so coarse that at most {1 - kept['zeros'].min():.1e} of all coordinates are not sent as zero: the agents no longer "
        "hear each other. At the paper's steps accuracy is kept and nothing is promised.",
        notebook=NOTEBOOK,
        figure="fig3_frontier",
    )


def _fifty_steps(summary: pd.DataFrame, used: pd.DataFrame) -> Claim:
    first, uniform = early_share(summary, "first"), early_share(summary, "uniform")
    shares = {t: 1 - used[used["t"] == t]["share"] for t in (EARLY, LATE, LATEST)}
    eye, last = bool((first["rate"] < SETTLED).all()), int(summary["t"].max())
    after = ", ".join(f"{_range(share)} comes after t = {t}" for t, share in shares.items())
    return Claim(
        key="figure-3-fifty-steps",
        where="Fig. 3",
        words="max delta^i no longer changes rapidly after approximately 50 steps",
        paper="50 steps",
        ours=f"spent by t = {EARLY} of what is spent by t = {last}: {_range(first['share'])} for the first data point, "
        f"{_range(uniform['share'])} for one at a random time. Of our certificate's infinite-time sum, {after}",
        verdict="cannot be checked" if last <= EARLY else "holds if" if eye else "does not hold",
        condition="the data point is among the first, and one looks at the curve and not at its limit" if eye else "",
        reason="The terms fall as t^-(1 + nu - varsigma), hardly faster than 1/t: flat to the eye, and much of the limit "
        "is still to come.",
        notebook=NOTEBOOK,
        figure="fig3_tail",
    )


def _valid_range(summary: pd.DataFrame) -> Claim:
    last = summary[summary["t"] == summary["t"].max()]
    shown = "; ".join(
        f"d_0 = {row.d_0:g}, {ARRIVAL_NAMES[row.arrival]}: median {row.median:.3g}, "
        f"90 % of cases {row.low:.3g} to {row.high:.3g}"
        for row in last.itertuples()
    )
    inside = last["high"] < 1
    return Claim(
        key="figure-3-valid-range",
        where="Fig. 3",
        words="stabilizes within the valid range, thereby ensuring a continuous privacy protection",
        paper="delta in [0, 1]",
        ours=shown,
        verdict="holds" if inside.all() else "holds if" if inside.any() else "does not hold",
        condition=" or ".join(f"d_0 = {row.d_0:g}, {ARRIVAL_NAMES[row.arrival]}" for row in last[inside].itertuples())
        if inside.any() and not inside.all()
        else "",
        reason="The sum is the paper's own measure. It falls below 1 for late data points, normalised rows and larger steps; "
        "the network's weights, which are not printed, change it too.",
        notebook=NOTEBOOK,
        figure="fig3",
    )


def _worst_case(worst: pd.DataFrame, normalise: str) -> Claim:
    own = worst[worst["normalise"] == normalise]
    ends = own.groupby(["asked_k", "kind"])["paper"].median().unstack("kind")
    ratio = ends["worst"] / ends["random"]
    exact = own.groupby(["asked_k", "kind"])["exact"].median().unstack("kind")
    return Claim(
        key="figure-3-worst-case",
        where="Section 4.1",
        words="this metric serves as an indicator of the worst-case privacy level",
        paper="a random modification",
        ours="; ".join(
            f"k = {int(k)}: random {ends.loc[k, 'random']:.3g}, worst found {ends.loc[k, 'worst']:.3g} (exact "
            f"{exact.loc[k, 'random']:.2g} and {exact.loc[k, 'worst']:.2g})"
            for k in ends.index
        ),
        verdict="does not hold" if ratio.max() > 1.05 else "holds",
        reason="It is the largest over agents, but typical over modifications and times: a chosen replacement gives away more, "
        "and the first data point far more than a random one. A promise is about the worst.",
        notebook=NOTEBOOK,
        figure="fig3_worst",
    )


def _larger_steps(falls: pd.DataFrame) -> Claim:
    clear = bool(len(falls)) and bool((falls["fall"] > 1.96 * falls["standard_error"]).all())
    shown = "; ".join(
        f"{ARRIVAL_NAMES[row.arrival]}, d_0 from {row.d_0:g} to {row.next:g}: {row.fall:.3g} ± {1.96 * row.standard_error:.2g}"
        for row in falls.itertuples()
    )
    return Claim(
        key="figure-3-larger-steps",
        where="Fig. 3, Theorem 2",
        words="a larger quantization stepsize yields better privacy protection",
        paper="smaller delta",
        ours=f"the mean of max delta^i falls (paired over runs): {shown}",
        verdict="holds" if clear else "cannot be checked",
        reason="The sum falls about as 1 / d_0, as it must: the states' distance hardly depends on d_0, and is divided by it. "
        "What the larger step costs is in the frontier."
        if clear
        else "There is no second step, or the interval of the difference contains zero at this number of runs.",
        notebook=NOTEBOOK,
        figure="fig3",
    )


def _stringent() -> Claim:
    posterior = float(meaning.posterior(0.5, 0.5, 0.0))
    return Claim(
        key="stringent",
        where="Section 2.2",
        words="(0, delta^i)-LDP is more stringent than (epsilon^i, delta^i)-LDP",
        paper="-",
        ours=f"at the same delta, yes; but delta = 0.5 allows a prior of 50 % to become a posterior of {posterior:.0%}",
        verdict="holds if",
        condition="both have the same delta",
        reason="(0, delta) implies (epsilon, delta) for the same delta. But it allows a mechanism that publishes the data with "
        "probability delta; an (epsilon, delta') promise with a tiny delta' forbids that and is not implied.",
        notebook=NOTEBOOK,
    )


def _free_choice(free: bool) -> Claim:
    return Claim(
        key="free-choice",
        where="Contribution 3",
        words="the adopted LDP framework allows each agent to freely choose its required privacy strength",
        paper="-",
        ours="an agent's certificate is "
        + ("the same to the last bit" if free else "not the same")
        + " when all others choose ten times larger steps",
        verdict="holds" if free else "does not hold",
        reason="Given what it receives, an agent's messages depend on its own step alone. Its accuracy depends on all steps.",
        notebook=NOTEBOOK,
    )


def _communication(bits: pd.DataFrame) -> Claim:
    smallest = bits[bits["d_0"] == bits["d_0"].min()].groupby("t")[["fixed", "entropy"]].mean()
    saves = bool((bits["fixed"] < FLOAT_BITS).all())
    return Claim(
        key="communication",
        where="Contribution 3",
        words="the introduced quantizer can save network communication resources",
        paper="-",
        ours=f"d_0 = {bits['d_0'].min():g}: on average {smallest['fixed'].mean():.1f} bits a coordinate with a fixed length, "
        f"{smallest['fixed'].iloc[-1]:.1f} at the end, and {smallest['entropy'].mean():.1f} bits of entropy, "
        f"against {FLOAT_BITS} of a float",
        verdict="holds" if saves else "does not hold",
        reason="The levels grow as the step shrinks, by about varsigma log2(t) bits, so the saving shrinks slowly."
        if saves
        else "Some messages need more bits than floats.",
        notebook=NOTEBOOK,
        figure="fig3_bits",
    )
