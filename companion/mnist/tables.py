"""Notebook 3: trainings and budgets, as tables and words (those of attacks: `attack_tables`)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from IPython.display import Markdown

from companion import runs
from companion.claims import BROKEN, fill
from companion.data.mnist import MNIST
from companion.intervals import student
from companion.mnist import budget, training
from companion.mnist.budget import MEASURES
from companion.mnist.params import Params, Training
from companion.mnist.training import VARIANTS, Variant

UNKNOWN = re.compile(r" \(nan%? to nan%?\)")  # an interval
CAUSES = ("lam_0", "nu", "d_0")  # of divergence, and three in words


class Trainings(NamedTuple):
    """`curves`: variant, history, repeat, t, kind (train or test), agent, accuracy. `ends`: one row
    a training, with `final` (mean over agents, NaN if it diverged), `spread` (their standard
    deviation), `diverged` (t, or -1), `sentence`, and `guesses` and `right` of `members_told`."""

    curves: pd.DataFrame
    ends: pd.DataFrame

    @property
    def main(self) -> pd.DataFrame:
        """Return the ends of the trainings that all repeats have: the last kind of history."""
        return self.ends[self.ends["history"] == self.ends["history"].iloc[-1]]


def trainings(params: Params, data: MNIST) -> Trainings:
    """Return all trainings of Fig. 4. A shard is a part of one repeat of one variant."""
    jobs = [
        (setting, variant, repeat) for setting, repeat in params.trainings() for variant in VARIANTS
    ]
    results = _trained(jobs, data, f"Fig. 4: {len(jobs)} trainings")
    labels = [
        {"variant": variant, "history": history_words(setting.history_sample), "repeat": repeat}
        for setting, variant, repeat in jobs
    ]
    curves = [
        _curves(result).assign(**label) for label, result in zip(labels, results, strict=True)
    ]
    ends = [
        label | _end(result, setting) | members_told(result["loss"], result["member"])
        for label, result, (setting, *_) in zip(labels, results, jobs, strict=True)
    ]
    return Trainings(pd.concat(curves, ignore_index=True), pd.DataFrame(ends))


def ablation(params: Params, data: MNIST) -> pd.DataFrame:
    """Return short trainings, one open choice made otherwise: choice, variant, and their ends.

    Without quantisation d_0 has no part in a training: those that differ in it alone are one.
    """
    jobs = [(*choice, variant) for choice in params.choices().items() for variant in VARIANTS]
    unused = {"d_0": params.d_0, "d_0_slope": params.d_0_slope}
    asked: list[tuple[Training, Variant, int]] = [
        (setting if variant == "quantised" else setting.at(**unused), variant, 0)
        for _, setting, variant in jobs
    ]
    results = _trained(asked, data, f"ablation: {len(jobs)} short trainings", curves=False)
    rows = [
        {"choice": name, "variant": variant, **_end(result, setting)}
        for (name, setting, variant), result in zip(jobs, results, strict=True)
    ]
    columns = ["choice", "variant", "final", "spread", "diverged", "sentence"]
    return pd.DataFrame(rows, columns=columns)


def _trained(
    jobs: list[tuple[Training, Variant, int]], data: MNIST, words: str, **options
) -> list[dict]:
    """Return the trainings, those cut into as many parts side by side."""
    parts = [len(training.cuts(setting)) - 1 for setting, _, _ in jobs]
    pieces = [
        _shard(setting, data, repeat, variant=variant, **options)
        for setting, variant, repeat in jobs
    ]
    found = {}
    for number in sorted(set(parts), reverse=True):
        places = [place for place, own in enumerate(parts) if own == number]
        together = [pieces[place] for place in places]
        results = runs.chain(training.compute, together, number, description=words)
        found |= {
            place: training.joined(result) for place, result in zip(places, results, strict=True)
        }
    return [found[place] for place in range(len(jobs))]


def _shard(setting: Training, data: MNIST, repeat: int, **more) -> dict:
    sha256 = data.provenance.sha256
    return {"params": setting.model_dump(), "data": sha256, "repeat": repeat, **more}


def _curves(result: dict[str, np.ndarray]) -> pd.DataFrame:
    agents = range(len(result["final"]))
    index = pd.MultiIndex.from_product([result["t"], agents], names=["t", "agent"])
    tables = [
        pd.DataFrame({"accuracy": result[kind].ravel()}, index=index).assign(kind=kind)
        for kind in ("train", "test")
    ]
    return pd.concat(tables).reset_index()


def _end(result: dict[str, np.ndarray], setting: Training) -> dict:
    diverged, final, words = int(result["diverged"]), result["final"], ""
    if diverged >= 0:  # and what decides about that
        numbers = ", ".join(f"{name} = {getattr(setting, name):g}" for name in CAUSES)
        choices = f"initial values {setting.initialisation}, activation {setting.activation}"
        words = f"diverged at iteration {diverged}: {numbers}, edge weights {setting.weight:g}, "
        words += choices
    end = {"final": float(final.mean()), "spread": float(final.std())}
    return {**end, "diverged": diverged, "sentence": words}


def members_told(score: np.ndarray, member: np.ndarray) -> dict[str, int]:
    """Return how many of so many `guesses` are `right`: the lower half are taken for members."""
    right = (score < np.median(score)) == member if len(score) else member
    return {"guesses": len(right), "right": int(right.sum())}


def summary(curves: pd.DataFrame) -> pd.DataFrame:
    """Return per variant, history, kind and t, over agents and repeats: mean, deviation,
    repeats."""
    grouped = curves.groupby(["variant", "history", "kind", "t"], sort=True)
    table = grouped["accuracy"].agg(mean="mean", standard_deviation=lambda one: one.std(ddof=0))
    return table.assign(repeats=grouped["repeat"].nunique()).reset_index()


def paired_difference(ends: pd.DataFrame) -> dict[str, float | int | None]:
    """Return final accuracy, quantised minus unquantised: mean, 95 % Student interval, repeats.

    Every number is None where there is none: a repeat of which a variant diverged has no
    difference, a single one no interval.
    """
    wide = ends.pivot_table(index="repeat", columns="variant", values="final", dropna=False)
    wide = wide.reindex(columns=VARIANTS)
    difference = (wide["quantised"] - wide["unquantised"]).dropna()
    count, mean = len(difference), float(difference.mean())
    if count < 2:
        return {"mean": mean if count else None, "low": None, "high": None, "repeats": count}
    half = float(student(difference.std(), count))
    return {"mean": mean, "low": mean - half, "high": mean + half, "repeats": count}


def history_words(history_sample: int) -> str:
    """Return what gradients are taken over, in words."""
    return f"{history_sample} draws from the history" if history_sample else "whole history"


def difference_words(difference: dict) -> str:
    """Return a difference of accuracies in points, with its interval where there is one."""
    if difference["mean"] is None:
        return "no repeat in which both variants stayed finite"
    mean, repeats = f"{100 * difference['mean']:+.2f} points", difference["repeats"]
    if difference["low"] is None:
        return f"{mean} (one repeat, so no interval)"
    ends = f"{100 * difference['low']:+.2f} to {100 * difference['high']:+.2f}"
    return f"{mean} (95 % interval {ends}, Student, {repeats} repeats)"


def training_words(trained: Trainings, params: Params) -> Markdown:
    """Return what Fig. 4 says, in words: the two accuracies, their difference, what diverged."""
    final = trained.main.groupby("variant")["final"].mean()
    apart = difference_words(paired_difference(trained.main))
    diverged = [
        f"**Training {row.sentence}** ({row.variant}, repeat {row.repeat})."
        for row in trained.ends.query("diverged >= 0").itertuples()
    ]
    sentences = (
        f"After {params.iterations} iterations the agents read **{final['quantised']:.1%}** of "
        f"{params.final_test} unseen digits with quantisation and **{final['unquantised']:.1%}** "
        f"without (means over agents and repeats). The difference, repeat by repeat: {apart}. "
        f"{against_whole_history(trained.curves)}"
    )
    return Markdown("\n\n".join([sentences, *diverged]))


def against_whole_history(curves: pd.DataFrame) -> str:
    """Return how far the sampled history is from the whole one, in a sentence; or nothing.

    Compared are accuracies on test images at the last time that both have.
    """
    keys = ["variant", "repeat", "t"]
    wide = curves[curves["kind"] == "test"].pivot_table(
        index=keys, columns="history", values="accuracy"
    )
    if len(wide.columns) < 2:
        return ""
    wide = wide.dropna().reset_index()
    last, whole = wide[wide["t"] == wide["t"].max()], history_words(0)
    (sampled,) = (name for name in wide.columns if name not in (*keys, whole))
    apart = (last[sampled] - last[whole]).groupby(last["variant"]).mean()
    words = ", ".join(f"{100 * value:+.2f} points {variant}" for variant, value in apart.items())
    start = f"The approximation by {sampled} differs from the whole history at"
    return f"{start} t = {last['t'].iloc[0]} by {words}, on the repeats that have both."


def broken(table: pd.DataFrame) -> list[str]:
    """Return, in words, the choices that cost more than BROKEN accuracy or diverge."""
    if table.empty:
        return []
    first = table["choice"] == table["choice"].iloc[0]
    usual = table[first].set_index("variant")["final"]
    words = []
    for row in table[~first].itertuples():
        who = f"{row.choice}: {row.variant}"
        if row.diverged >= 0:
            words.append(f"{who} diverged at t = {row.diverged}")
        elif row.final < usual[row.variant] - BROKEN:
            words.append(f"{who} {row.final:.0%} instead of {usual[row.variant]:.0%}")
    return words


def ablation_words(table: pd.DataFrame) -> Markdown:
    """Return the choices that break training, as a list."""
    lines = "\n".join(f"- {words}" for words in broken(table))
    return Markdown(lines or "No choice costs more than ten points here.")


def budgets(params: Params, data: MNIST) -> pd.DataFrame:
    """Return what one replaced image costs: samples, scale, d_0, repeat, agent, T, the MEASURES,
    diverged (-1, or when). A network that diverged has one row, T its last iteration, no measures.
    """
    repeats = range(params.budget_repeats)
    cases = [(setting, repeat) for setting in params.budgets() for repeat in repeats]
    pieces = [_shard(setting, data, repeat) for setting, repeat in cases]
    words = f"budgets of {len(pieces)} replaced images"
    results = runs.run(budget.compute, pieces, description=words)
    tables = [pd.DataFrame(columns=["samples", "scale", "T", "diverged", *MEASURES])][: not cases]
    for (setting, repeat), result in zip(cases, results, strict=True):
        named = {"samples": setting.samples, "scale": setting.d_0 / params.d_0, "d_0": setting.d_0}
        named |= {"repeat": repeat, "agent": int(result["agent"])}
        tables.append(counted(result).assign(**named))
    return pd.concat(tables, ignore_index=True)


def counted(result: dict[str, np.ndarray]) -> pd.DataFrame:
    """Return the budget of one replaced image after T = 0, 1, ... iterations."""
    diverged = int(result["diverged"])
    if diverged >= 0:
        nothing = dict.fromkeys(MEASURES, np.nan)
        return pd.DataFrame([nothing | {"T": diverged, "diverged": diverged}])
    series = {name: result[name] for name in MEASURES}
    return pd.DataFrame({**series, "T": np.arange(len(result["paper"])), "diverged": diverged})


def spent(found: pd.DataFrame) -> pd.DataFrame:
    """Return budgets after all iterations, medians over repeats: samples, scale, the MEASURES,
    `diverged` (how many)."""
    final = found[(found["T"] == found["T"].max()) | (found["diverged"] >= 0)]
    grouped = final.groupby(["samples", "scale"])
    table = grouped[list(MEASURES)].median()
    table["diverged"] = grouped["diverged"].apply(lambda when: int((when >= 0).sum()))
    return table.reset_index()


def budget_table(table: pd.DataFrame) -> pd.DataFrame:
    """Return `spent` as the notebook shows it."""
    return readable(table.dropna(), {
        "images at a time": "{samples}",
        "multiple of the paper's d₀": "{scale:g}",
        "the paper's sum": "{paper:.3g}",
        "exact total variation": "{lower:.3f} to {upper:.3f}",
    })  # fmt: skip


def delta_curve(table: pd.DataFrame, samples: int, scales: Sequence[float]) -> pd.DataFrame:
    """Return delta against the scale, for figures of attacks: scale, delta, label."""
    own = table[(table["samples"] == samples) & table["scale"].isin(scales)]
    own = own.dropna(subset=["paper"])
    middle = own.assign(delta=(own["lower"] + own["upper"]) / 2)
    middle = middle.assign(label="exact total variation of one image")
    paper = own.assign(delta=own["paper"], label="the paper's sum")
    return pd.concat([paper, middle])[["scale", "delta", "label"]]


def plain(table: pd.DataFrame) -> dict[str, list]:
    """Return a table as columns of plain values, None where there is no number, for a record."""
    columns = table.to_dict("list").items()
    return {
        name: [None if pd.isna(value) else value for value in column] for name, column in columns
    }


def tabled(function, pieces: list[dict], names: Sequence[str], words: str) -> pd.DataFrame:
    """Return the results of all shards one below the other, beside the arguments called `names`."""
    results = runs.run(function, pieces, description=words)
    tables = [
        pd.DataFrame({name: piece[name] for name in names} | dict(result))
        for piece, result in zip(pieces, results, strict=True)
    ]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def between(name: str, digits: str) -> str:
    """Return the template of a number with its interval, from columns name, name_low, name_high."""
    return f"{{{name}:{digits}}} ({{{name}_low:{digits}}} to {{{name}_high:{digits}}})"


def readable(table: pd.DataFrame, heads: dict[str, str]) -> pd.DataFrame:
    """Return a table for reading: by head a template, filled row by row; an empty one as it is.

    An interval that is not known is left out.
    """
    rows = table.to_dict("records")
    columns = {
        head: [UNKNOWN.sub("", fill(template, row)) for row in rows]
        for head, template in heads.items()
    }
    return pd.DataFrame(columns) if rows else table
