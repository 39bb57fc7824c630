"""Notebook 3: the numbers behind the verdicts on training and budgets; words: claims.yaml."""

from __future__ import annotations

import numpy as np

from companion.claims import Claim, Table, judge
from companion.intervals import excess
from companion.mnist import shards as mnist
from companion.mnist.tables import broken, difference_words

CHANCE = 0.1  # ten digits


def verdicts(params: mnist.Params, difference: dict, ends: Table, ablation: Table, budgets: Table, T: int) -> list[Claim]:
    """Return the rows of training and budgets, from tables of `mnist` and `mnist_budget.last`."""
    rows = [_comparable(difference, ends, ablation)]
    if len(ablation):
        rows.append(_open_choices(params, ablation))
    at_paper = budgets[(budgets["scale"] == 1.0)].dropna(subset=["paper"]).sort_values("samples")
    found = excess(at_paper["lower"].iloc[-1]) if len(at_paper) else []
    return [*rows, judge("network-budget", found, measured=at_paper[-1:].assign(T=T))]


def _comparable(difference: dict, ends: Table, ablation: Table) -> Claim:
    diverged = ends[(ends["diverged"] >= 0) & (ends["variant"] == "quantised")]["sentence"]
    lost = diverged.iloc[0] if len(diverged) else "The quantised agents read fewer digits."
    found = {"low": difference["low"], "high": difference["high"], "diverged": len(diverged)}
    only_quantised = [words for words in broken(ablation) if ": quantised" in words]
    words = difference_words(difference)
    return judge("figure-4", found, exceptions=only_quantised, words=words, lost=lost)


def _open_choices(params: mnist.Params, ablation: Table) -> Claim:
    steps = params.algorithm().schedules.lam(np.arange(params.iterations)).sum()
    decisive = [words for words in broken(ablation) if "₀" not in words]  # these are printed
    learned = bool(ablation["final"].iloc[:2].min() > 2 * CHANCE)
    choices = "; ".join(decisive) or "no choice tried costs more than ten points"
    found = [{"decisive": len(decisive)}] * learned
    return judge("figure-4-open-choices", found, choices=choices, params=params, steps=steps)
