"""Notebook 4: the same training, attackers and classifiers on other people."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd
from matplotlib.figure import Figure

from companion.claims import Claim, on
from companion.data.eeg import Recordings
from companion.eeg import attack_figures, claims, figures, shards, tables, trials
from companion.eeg.params import Params


class Study(NamedTuple):
    """What was found on another data set."""

    params: Params
    recordings: Recordings
    learnt: tables.Learnt
    results: pd.DataFrame
    rates: pd.DataFrame


def study(params: Params | None) -> Study | None:
    """Return the study at these parameters; None where there are none."""
    if params is None:
        return None
    recordings = trials.load(params)
    learnt = tables.learnt(shards.accuracies(params, recordings), recordings)
    attacks = shards.attacks(params, recordings, shards.by_states(params, recordings))
    rates = shards.rates(params, recordings, attacks)
    return Study(params, recordings, learnt, tables.attacked(attacks.table), rates)


def fig6(other: Study | None, profile: str, output: str) -> Figure | None:
    """Return Fig. 6 of other people, saved as fig6_second; None where there is no study."""
    if other is None:
        return None
    source = figures.source(profile, other.recordings)
    words = f"{source} Network weights {other.params.weight:g}, {other.learnt.classes} classes."
    figure = figures.fig6(other.learnt, words)
    _save(figure, "fig6_second", other, profile, output, other.learnt.numbers())
    return figure


def reidentified(other: Study | None, profile: str, output: str) -> Figure | None:
    """Return who of other people is named, saved as fig7_identity_second."""
    if other is None:
        return None
    source, rebuilt = figures.source(profile, other.recordings), other.results["trials"].iloc[0]
    words = f"{source} Bars: 95 % Wilson intervals; {rebuilt} reconstructions each."
    figure = attack_figures.reidentified(other.rates, other.params.chance, words)
    numbers = tables.numbers(rates=other.rates, attacks=other.results)
    _save(figure, "fig7_identity_second", other, profile, output, numbers)
    return figure


def _save(figure: Figure, name: str, other: Study, profile: str, output: str, numbers) -> None:
    record = other.params.record("04_eeg_reidentification", profile, other.recordings)
    figures.save(figure, name, output, **record, numbers=numbers)


def verdicts(other: Study | None) -> list[Claim]:
    """Return the row on other people, on their data."""
    if other is None:
        return []
    known = other.recordings.provenance
    found = other.learnt.difference, other.results, other.rates
    return on(known, claims.elsewhere(*found, known.name))
