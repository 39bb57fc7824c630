"""Notebook 4: its sentences with numbers, and tables for reading."""

from __future__ import annotations

import pandas as pd
from IPython.display import Markdown

from companion.claims import fill
from companion.eeg.claims import RESTORED
from companion.eeg.params import Params
from companion.eeg.promise_tables import needed
from companion.eeg.tables import PAPER_RATES, Learnt, pick, trials_to_tell


def left_out(what: str, name: str) -> Markdown:
    """Return the sentence in place of a part that is not asked for."""
    return Markdown(f"({what} is part of the `paper` profile: `{name}`.)")


def learnt(params: Params, found: Learnt) -> Markdown:
    """Return what Fig. 6 says, in words."""
    mean, apart = found.per_subject.loc["mean"], found.difference
    ends = "." if apart["folds"] < 2 else " (95 % interval {low:+.1p} to {high:+.1p})."
    parts = [
        "After {iterations} iterations the quantised agents are right in **{quantised:.1%}** of the"
        " trials of a stranger, the unquantised ones in **{unquantised:.1%}**; chance is"
        " {chance:.0%}. The difference is {mean:+.1p} points over {folds:.0f} people" + ends
    ]
    if "centralised" in mean:
        parts.append("One computer with all training trials and Adam reaches {centralised:.1%}.")
    if len(found.diverged):
        parts.append(f"{len(found.diverged)} runs diverged.")
    numbers = {"iterations": params.iterations, "chance": 1 / found.classes}
    return Markdown(fill(" ".join(parts), {**mean, **apart, **numbers}))


def seen(table: pd.DataFrame, counted: pd.DataFrame) -> Markdown:
    """Return how the attack works in the clear, and what is left of it under Algorithm 1."""
    clear, rounds = (_curve(table, "D-PSGD", name) for name in ("many models", "one run"))
    noisy, first = _curve(table, "quantised", "many models"), counted.iloc[0]
    works = "the attack works, so if it fails below, the defence did it."
    if clear.iloc[-1] < RESTORED:
        works = "at this profile the attack is cut short before it works."
    more = "."
    if rounds.idxmax() < rounds.index[-1]:
        more = "; more of them say little that is new, the loss gets harder to minimise, and "
        more += "L-BFGS gets stuck."
    return Markdown(
        f"One gradient has {first['equations']:,} numbers for {first['unknowns']:,} unknowns. In "
        f"the clear, one model gives a correlation of **{clear.iloc[0]:.2f}**, {clear.index[-1]} "
        f"models **{clear.iloc[-1]:.2f}**: {works} Rounds of one run help up to {rounds.idxmax()} "
        f"({rounds.max():.2f}){more} Against Algorithm 1 the same attacker goes from "
        f"{noisy.iloc[0]:.2f} to **{noisy.iloc[-1]:.2f}**. With $\\psi_0 = 0$ the very first "
        "message is special: zero lies on every grid and is sent exactly, and "
        "$\\psi_1 = \\lambda_0 g$ is so small that few coordinates move at all; the error is far "
        "below what $d_0$ suggests, and it averages out over restarts."
    )


def _curve(table: pd.DataFrame, defence: str, attacker: str) -> pd.Series:
    own = (table["defence"] == defence) & (table["attacker"] == attacker)
    return table[own].set_index("states")["correlation"]


def heard(params: Params, rounds: dict[str, int]) -> Markdown:
    """Return how many rounds the second attacker uses under each defence."""
    used = ", ".join(f"{number} under {defence}" for defence, number in rounds.items())
    return Markdown(
        f"The second attacker has heard up to {params.attack_rounds} rounds and uses as many as "
        f"gave the most in the calibration above (which favours it): {used}. Means over trials, "
        "correlation with 95 % interval over people (Student):"
    )


def attacked(summary: pd.DataFrame) -> pd.DataFrame:
    """Return the attacks as a table for reading; unaligned where there are both."""
    rows = pick(summary, factor=None)
    interval = "{correlation:.2f} [{correlation_low:.2f}, {correlation_high:.2f}]"
    columns = {
        "defence": [_defence(row) for row in rows.itertuples()],
        "attacker": rows["attacker"],
        "correlation": [fill(interval, row) for row in rows.to_dict("records")],
        "relative error": rows["relative_error"].map("{:.2f}".format),
        "spectrum error (log10)": rows["spectrum_error"].map("{:.2f}".format),
        "label found": rows["label"].map("{:.0%}".format),
        "diverged": rows["diverged"].map("{:.0%}".format),
        "trials": rows["trials"],
    }
    return pd.DataFrame(columns).reset_index(drop=True)


def _defence(row) -> str:
    return row.defence if row.factor == 1 else f"{row.defence}, {row.factor:g} d_0"


def recognised(rates: pd.DataFrame, sessions: pd.DataFrame) -> Markdown:
    """Return how true trials are recognised, aligned or not, and across whole sessions."""
    raw = rates[rates["defence"] == "raw"]
    each = [f"{r.classifier} {r.rate:.0%}{' aligned' * r.aligned}" for r in raw.itertuples()]
    text = f"True trials are recognised like this: {'; '.join(each)}."
    if raw["aligned"].any():
        text += (
            " Alignment hides one kind of identity, the covariance, and leaves another, the "
            "spectrum: to look with one classifier only would be to fool oneself."
        )
    if len(sessions):
        plain, recentred = sessions["rate"]
        text += (
            f" With the {sessions['trials'].iloc[0]} left- and right-hand trials of the second "
            f"session, covariances alone name the paper's nine subjects in {plain:.1%} of the "
            f"trials, after recentring in {recentred:.1%}."
        )
    return Markdown(text)


def spent(table: pd.DataFrame) -> pd.DataFrame:
    """Return the accountant's count as a table for reading."""
    exact = "{exact:.3f} [{lower:.3f}, {upper:.3f}]"
    columns = {
        "agent": table["agent"] + 1,
        "replaced at k": table["k"],
        "the paper's sum": table["paper"].map("{:.3g}".format),
        "sum of TVs": table["sum"].map("{:.3g}".format),
        "exact total variation (99 %)": [fill(exact, row) for row in table.to_dict("records")],
        "iterations": table["iterations"],
    }
    return pd.DataFrame(columns).reset_index(drop=True)


def members(table: pd.DataFrame, chance: float) -> Markdown:
    """Return how often the model named the person who did not take part."""
    each = [f"{row.hits} times of {row.trials} ({row.variant})" for row in table.itertuples()]
    trials = table["trials"].iloc[0]
    return Markdown(
        f"The person who did not take part is named correctly {', '.join(each)}; by chance it "
        f"would be {trials * chance:.0f} of {trials}."
    )


def promised(means: pd.DataFrame | None, classes: int) -> Markdown:
    """Return what a promise for EEG costs with few trials, and how many it would need."""
    if means is None:
        return Markdown("(No promise is asked for: `promise_trials`.)")
    fewest = means[means["trials"] == means["trials"].min()]
    each = [fill("δ ≤ {delta:g}: {promise:.1%}", row) for row in fewest.to_dict("records")]
    deltas = sorted(means["delta"].unique())
    enough = [f"{needed(means, delta)} for δ ≤ {delta:g}" for delta in deltas]
    return Markdown(
        f"With {fewest['trials'].iloc[0]} trials an agent, what is sent is right in "
        f"{'; '.join(each)} of the trials of a stranger. Logistic regression on one computer, "
        f"which promises nothing, is right in **{means['unprotected'].mean():.1%}**; chance is "
        f"{1 / classes:.0%}. To come within a point of it, an agent would need "
        f"{'; '.join(enough)} trials. The unit of privacy is one arrival of one trial, the "
        "promise is for all time."
    )


def crowd(params: Params, rates: pd.DataFrame | None) -> Markdown:
    """Return how many trials would tell the paper's rate from chance, and who is told apart."""
    if not params.crowd:
        return Markdown("(No crowd is asked for: `crowd`.)")
    told_at, nine = PAPER_RATES[1], len(params.subjects)
    few, many = (trials_to_tell(told_at, chance) for chance in (params.chance, 1 / params.crowd))
    text = (
        f"To tell a rate of {told_at:.1%} from chance takes {few} trials of {nine} people, and "
        f"{many} of {params.crowd} (exact one-sided test at 5 %, power 80 %)."
    )
    if rates is None:
        return Markdown(f"{text} The recordings of so many people are not here: see LDP_DATA.")
    raw = rates[rates["defence"] == "raw"]
    each = [f"{row.classifier} {row.rate:.0%} of {row.trials}" for row in raw.itertuples()]
    return Markdown(f"{text} True trials are recognised like this: {'; '.join(each)}.")
