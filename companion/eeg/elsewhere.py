"""Notebook 4: the same training, attackers and classifiers on other people."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd
from IPython.display import HTML
from matplotlib.figure import Figure

from companion.claims import Claim, as_html, on, save
from companion.data.eeg import Recordings
from companion.eeg import attack_figures, claims, figures, shards, tables, trials
from companion.eeg.params import Attacking, Params


class Study(NamedTuple):
    """What was found on another data set."""

    params: Params
    recordings: Recordings
    learnt: tables.Learnt
    results: pd.DataFrame
    rates: pd.DataFrame


def study(params: Params | None) -> Study | None:
    """Return the study at these parameters; None where there are none.

    Trainings have one seed: what is asked is whether other people learn alike, and people differ
    more than seeds do.
    """
    if params is None:
        return None
    recordings, params = trials.load(params), params.into(Params, seeds=1)
    learnt = tables.learnt(shards.trained(params, recordings).accuracies, recordings)
    attacks = shards.attacks(params, recordings, shards.by_states(params, recordings))
    rates = shards.rates(params, recordings, attacks)
    return Study(params, recordings, learnt, tables.attacked(attacks.table), rates)


class Crowd(NamedTuple):
    """Who of many people is named, by looks and straight from gradients."""

    params: Attacking
    recordings: Recordings
    rates: pd.DataFrame
    straight: pd.DataFrame


def crowd(params: Params) -> Crowd | None:
    """Return who of many people is named; None where they are not asked for, or not there."""
    many = params.crowded()
    recordings = None if many is None else trials.real(many)
    if recordings is None:
        return None
    attacks = shards.Attacks(pd.DataFrame(columns=shards.WAY), np.empty((0, 0, 0)), {})
    if params.crowd_trials:
        attacks = shards.attacks(many, recordings, shards.by_states(many, recordings))
    rates = shards.rates(many, recordings, attacks)
    return Crowd(many, recordings, rates, shards.straight(many, recordings))


def named(many: Crowd | None, profile: str, output: str) -> Figure | None:
    """Return who of many people is named straight from gradients, saved as fig7_crowd."""
    if many is None:
        return None
    draw = partial(attack_figures.straight, many.straight, many.params.chance)
    numbers = tables.numbers(rates=many.rates, direct=many.straight)
    return _saved("fig7_crowd", draw, many, profile, output, numbers)


def show(params: Params, data: Recordings, rows: list[Claim], other, many, output: str) -> HTML:
    """Return the table of verdicts, after saving it: each on the recordings that it rests on.

    Where few people cannot decide about identity, many do.
    """
    every = on(data.provenance, rows)
    if other is not None:
        known = other.recordings.provenance
        found = other.learnt.difference, other.results, other.rates, known.name
        every += on(known, claims.elsewhere(*found))
    if params.crowd:
        row = claims.crowd(many and (many.rates, many.straight), params)
        every = [*(claims.rests_on(one, row) for one in every), row]
    save(every, "04_eeg_reidentification", output)
    return HTML(as_html(every))


def fig6(other: Study | None, profile: str, output: str) -> Figure | None:
    """Return Fig. 6 of other people, saved as fig6_second; None where there is no study."""
    if other is None:
        return None
    draw = partial(figures.fig6, other.learnt, weight=other.params.weight)
    return _saved("fig6_second", draw, other, profile, output, other.learnt.numbers())


def reidentified(other: Study | None, profile: str, output: str) -> Figure | None:
    """Return who of other people is named, saved as fig7_identity_second."""
    if other is None:
        return None
    draw = partial(attack_figures.reidentified, other.rates, other.params.chance)
    numbers = tables.numbers(rates=other.rates, attacks=other.results)
    return _saved("fig7_identity_second", draw, other, profile, output, numbers)


def _saved(name: str, draw, other, profile: str, output: str, numbers: dict) -> Figure:
    """Return a figure of a `Study` or a `Crowd`, drawn with its source, after saving it."""
    figure = draw(source=figures.source_of(profile, other.recordings))
    record = other.params.record("04_eeg_reidentification", profile, other.recordings)
    figures.save(figure, name, output, **record, numbers=numbers)
    return figure
