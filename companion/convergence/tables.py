"""Notebook 1: what its runs, its data and its graphs come down to, in tables and sentences."""

from __future__ import annotations

import numpy as np
import pandas as pd
from IPython.display import Markdown

from companion.convergence.params import UNQUANTISED, Params
from companion.convergence.shards import MEASURES, Optimum, optimum
from companion.data.mushrooms import Mushrooms
from companion.intervals import NORMAL, student
from companion.mushrooms import SMOOTH, features_of, summary
from companion.problems.onehot import OneHot
from ldp_core.network import Network

Table = pd.DataFrame
FITTED = 1 / 30  # slopes are fitted over t >= T / 30, the last decade and a half
TOLERATED = 0.05  # a loss of accuracy that the map of limits does not frame
LEFT_OUT = "The {part} left out: `{name} = 0`."


def compared(accuracies: Table) -> tuple[Table, Table]:
    """Return Fig. 2's two tables: the summary of every variant, and its differences to the twin.

    These are accuracies minus the unquantised one's, paired over runs, per variant and t: mean, low
    and high, the mean's 95 % interval (normal).
    """
    per_run = accuracies.groupby(["variant", "t", "run"])["accuracy"].mean().unstack("variant")
    others = per_run.drop(columns="unquantised").sub(per_run["unquantised"], axis=0)
    found = others.melt(ignore_index=False, value_name="difference").reset_index()
    shown = found.groupby(["variant", "t"])["difference"].agg(["mean", "std", "count"])
    half = NORMAL * shown["std"] / np.sqrt(shown["count"])
    ends = {"low": shown["mean"] - half, "high": shown["mean"] + half}
    return summary(accuracies), shown.assign(**ends)[["mean", "low", "high"]].reset_index()


def final(paired: Table, variant: str = "quantised") -> dict[str, float]:
    """Return the mean, low and high of a variant's last difference."""
    own = paired[paired["variant"] == variant].iloc[-1]
    return {name: float(own[name]) for name in ("mean", "low", "high")}


def network_numbers(network: Network) -> dict:
    """Return the numbers of Fig. 1: Lemma 3's eigenvectors and how fast disagreement shrinks."""
    vectors = {"u": network.u.tolist(), "v": network.v.tolist()}
    return {**vectors, "rate_R": network.rate_R, "rate_C": network.rate_C}


def fig2_numbers(shown: Table, paired: Table) -> dict:
    """Return the numbers of Fig. 2: both tables, and the last differences."""
    last = {"final_difference": final(paired)}
    last["final_difference_dithered"] = final(paired, "dithered")
    return {"summary": shown.to_dict("list"), "differences": paired.to_dict("list"), **last}


def rate_numbers(slopes: Table, best: Optimum, margin: float) -> dict:
    """Return the numbers of the figure of rates: every slope, the optimum and the margin."""
    names = {"slopes_dithered": "dithered", "slopes_at_sent": "at sent"}
    ours = {name: of_variant(slopes, variant).to_dict("list") for name, variant in names.items()}
    known = {"optimum": best.value, "optimum_gap": best.gap, "margin": margin}
    return {"slopes": of_paper(slopes).to_dict("list"), **ours, **known}


def accuracy_words(shown: Table, paired: Table) -> Markdown:
    """Return what Fig. 2 says in numbers."""
    last = shown[shown["t"] == shown["t"].max()].set_index("variant")
    quantised, twin = last.loc["quantised"], last.loc["unquantised"]
    found, dithered = final(paired), final(paired, "dithered")
    return Markdown(
        f"After {quantised['t']:g} iterations the quantised agents classify "
        f"**{quantised['mean']:.1%}** of unseen mushrooms, the unquantised ones "
        f"**{twin['mean']:.1%}** (means of {quantised['runs']:g} runs). The difference, run by "
        f"run, is {_points(found, '95 % interval ')}. Between runs the standard deviation is "
        f"{100 * quantised['standard_deviation']:.2f} points with quantisation and "
        f"{100 * twin['standard_deviation']:.2f} without. With the public dither the difference to "
        f"the unquantised ones is {_points(dithered)}."
    )


def _points(found: dict[str, float], words: str = "") -> str:
    mean, low, high = (100 * found[name] for name in ("mean", "low", "high"))
    return f"{mean:+.2f} points ({words}{low:+.2f} to {high:+.2f})"


def margin_and_optimum(params: Params, data: Mushrooms) -> tuple[float, Optimum]:
    """Return the largest margin between the classes, and the minimiser of the regularised loss."""
    features = features_of(data, params.normalise)
    return largest_margin(features, data.labels), optimum(features, data.labels, params.l2)


def largest_margin(features: OneHot, labels: np.ndarray) -> float:
    """Return the largest margin min_s b_s a_s.theta over |theta_j| <= 1, exact (scipy's HiGHS).

    A positive margin means that the classes are linearly separable: then theta can be scaled up
    for ever, the plain logistic loss tends to zero without reaching it, and Assumption 1 fails.
    """
    from scipy.optimize import linprog

    rows = labels[:, None] * features.dense()
    cost = np.append(np.zeros(features.dim), -1.0)
    limits = [(-1, 1)] * features.dim + [(None, None)]
    above = np.column_stack([-rows, np.ones(len(rows))])
    solved = linprog(cost, A_ub=above, b_ub=np.zeros(len(rows)), bounds=limits)
    if solved.status != 0:
        raise ArithmeticError(f"the linear program was not solved: {solved.message}")
    return float(solved.x[-1])


def optimum_words(margin: float, best: Optimum, l2: float) -> Markdown:
    """Return whether the plain loss has a minimiser, and what the regularised one's is."""
    separable, has = ("", "no") if margin > 0 else ("not ", "a")
    return Markdown(
        f"The largest margin over $|\\theta_j| \\le 1$ is **{margin:.3f}**: the classes are "
        f"{separable}linearly separable, so the plain loss has {has} minimiser; and because the "
        "columns of each attribute add up to one, it is flat along some directions in any case: "
        "the paper's Assumption 1 (bounded level sets) fails on its own first experiment. We "
        f"therefore measure on the loss plus $\\frac{{{l2:g}}}{{2}}\\|\\theta\\|^2$, whose optimum "
        f"is $F^* = {best.value:.6f}$: the point found is within {best.gap:.0e} of it (a bound "
        f"that does not trust the solver: $F - F^* \\le \\|\\nabla F\\|^2 / (2 \\cdot {l2:g})$)."
    )


def slopes(series: Table) -> Table:
    """Return the fitted exponents: the mean slope of log(measure) over log(t), 95 % interval.

    Columns variant, d_0, measure, slope, low, high, runs. Each run is fitted by least squares over
    t >= FITTED T; the interval is Student's over the runs' slopes.
    """
    columns = ["variant", "d_0", "measure", "slope", "low", "high", "runs"]
    if series.empty:
        return pd.DataFrame(columns=columns)
    late = series[series["t"] >= FITTED * series["t"].max()]
    kinds = late.groupby(["d_0", "variant"])
    rows = [(kind[1], kind[0], name, *_fit(own, name)) for kind, own in kinds for name in MEASURES]
    return pd.DataFrame(rows, columns=columns)


def _fit(own: Table, name: str) -> tuple[float, float, float, int]:
    """Return the mean slope of one measure, the ends of its interval, and the number of runs."""
    logs = [np.log(of_run[["t", name]].clip(lower=1e-300)) for _, of_run in own.groupby("run")]
    fitted = [np.polyfit(of_run["t"], of_run[name], 1)[0] for of_run in logs]
    mean, half = np.mean(fitted), student(np.std(fitted, ddof=1), len(fitted))
    return mean, mean - half, mean + half, len(fitted)


def of_paper(slopes: Table) -> Table:
    """Return the slopes of the paper's algorithm and its twin, without their variant's name."""
    return slopes[slopes["variant"].isin(["quantised", "unquantised"])].drop(columns="variant")


def of_variant(slopes: Table, variant: str) -> Table:
    """Return the slopes of one variant, without its name."""
    return slopes[slopes["variant"] == variant].drop(columns="variant")


def claimed_slopes(nu: float) -> dict[str, float]:
    """Return Remark 2's exponents: decay no slower than 1/t, and 1/t^(1 - nu) for the gradient."""
    return {"consensus": -1.0, "tracking": -1.0, "gradient": nu - 1.0}


def rate_words(slopes: Table) -> Markdown:
    """Return whether quantisation costs a part of the rate, and what our variants change."""
    if slopes.empty:
        return Markdown(LEFT_OUT.format(part="long runs are", name="rate_runs"))
    paper = of_paper(slopes)
    gap = paper[paper["measure"] == "gap"].set_index("d_0")
    errors = paper["measure"].isin(["consensus", "tracking"]) & (paper["d_0"] > 0)
    without, largest = gap.loc[UNQUANTISED], gap.iloc[-1]
    found = PRICE if largest["low"] > without["high"] else NO_PRICE
    return Markdown(
        f"The errors between agents fall with exponents of {paper[errors]['slope'].max():.2f} or "
        "less (claimed: at most -1). The distance to the optimum falls as "
        f"$t^{{{without['slope']:.2f}}}$ without quantisation and as "
        f"$t^{{{largest['slope']:.2f}}}$ at $d_0 = {gap.index[-1]:g}${found}"
    )


PRICE = (
    ": **there is a price in the rate**. The bound's exponent is the same with and without a "
    "quantizer; the algorithm's is not. The reason is visible in the two upper panels: without "
    "quantisation the agents agree better and better, with it they disagree by about $d_t^2$, and "
    "that noise has to be averaged out by ever smaller steps $\\lambda_t$. Between steps $d_0 > 0$ "
    "it is mainly the level of the error that differs, about as $d_0^2$; what differs in their "
    "fitted exponents still contains the start."
)
NO_PRICE = "; the intervals do not tell them apart over this horizon."


def variant_words(series: Table, slopes: Table) -> Markdown:
    """Return what gradients at sent values and smoother coins change, beside the dither."""
    if slopes.empty:
        return Markdown("")
    gap = slopes[slopes["measure"] == "gap"].set_index("variant")
    sent, dithered = gap.loc["at sent"], gap.loc["dithered"]
    last = series[(series["t"] == series["t"].max()) & (series["d_0"] == sent["d_0"])]
    levels = last.groupby("variant")["gap"].median()
    return Markdown(
        f"At $d_0 = {sent['d_0']:g}$ the distance to the optimum falls as "
        f"$t^{{{sent['slope']:.2f}}}$ [{sent['low']:.2f}, {sent['high']:.2f}] with gradients at "
        f"sent values and as $t^{{{dithered['slope']:.2f}}}$ "
        f"[{dithered['low']:.2f}, {dithered['high']:.2f}] with the plain dither; after "
        f"{series['t'].max()} iterations it is {levels['at sent'] / levels['dithered']:.1f} times "
        f"as large (medians). Coins of degree {SMOOTH} have {(SMOOTH + 1) / 2:g} times the "
        "variance of the plain dither's, and the gradient is taken at a point that is off by as "
        "much."
    )


def lost(tried: Table) -> Table:
    """Return, per topology, weight and d_0, quantised minus unquantised accuracy.

    Paired over runs: mean and standard_error; accuracy is the quantised one.
    """
    keys = ["topology", "weight", "d_0"]
    if tried.empty:
        return pd.DataFrame(columns=[*keys, "mean", "standard_error", "accuracy"])
    wide = tried.pivot_table(index=[*keys, "run"], columns="variant", values="accuracy")
    difference = (wide["quantised"] - wide["unquantised"]).groupby(keys)
    found = difference.agg(mean="mean", standard_error="sem")
    return found.assign(accuracy=wide["quantised"].groupby(keys).mean()).reset_index()


def breaking_steps(lost: Table, tolerated: float) -> dict[float, float]:
    """Return the smallest d_0 that costs more than `tolerated`, for weights that have one.

    On the paper's network, by weight.
    """
    broken = lost[(lost["topology"] == "paper") & (lost["mean"] < -tolerated)]
    return broken.groupby("weight")["d_0"].min().to_dict()


def limit_words(lost: Table) -> Markdown:
    """Return where the map of limits breaks."""
    if lost.empty:
        return Markdown(LEFT_OUT.format(part="map of limits is", name="sweep_runs"))
    steps = breaking_steps(lost, TOLERATED).items()
    shown = "; ".join(f"weight {weight:g}: from $d_0 = {d_0:g}$" for weight, d_0 in steps)
    return Markdown(f"More than five points are lost at {shown or 'no point of the map'}.")


def growth_without_u(back: float = 0.0) -> float:
    """Return by what factor 1 / (m [z_t^i]_i) grows a step at agent 2 of a network.

    Agents 0 and 1 hear each other, 2 and 3 hear them and each other: a spanning tree with root 0,
    as Assumption 4 allows. Without an edge `back` from 3 to 0 it has u_2 = 0; with one it is
    strongly connected.
    """
    R = np.array([[-0.3, 0.3, 0, 0], [0.3, -0.3, 0, 0], [0, 0.3, -0.6, 0.3], [0, 0, 0.3, -0.3]])
    R[0] += [-back, 0, 0, back]
    z = [np.linalg.matrix_power(np.eye(4) + R, t)[2, 2] for t in (100, 101)]
    return float(z[0] / z[1])
