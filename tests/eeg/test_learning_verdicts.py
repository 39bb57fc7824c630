"""What notebook 4 makes of its learning: tables by hand, verdicts that follow them, figures."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from companion.eeg import claims, figures, shards, tables


def made_up():
    """Return final accuracies of three subjects, two seeds and two agents, with differences 0.1,
    0.2 and 0.3.
    """
    rows = [
        (
            variant,
            4,
            subject,
            run,
            agent,
            0.5 + 0.1 * subject * (variant == "quantised") + 0.02 * run + 0.01 * agent,
        )
        for variant in shards.VARIANTS
        for subject in (1, 2, 3)
        for run in (0, 1)
        for agent in range(2)
    ]
    return pd.DataFrame(
        rows, columns=["variant", "t", "subject", "run", "agent", "accuracy"]
    ).assign(diverged=-1)


def test_summary_by_hand():
    shown = tables.summary(made_up(), 4).set_index("variant").loc["quantised"]
    assert shown["mean"] == pytest.approx(0.715) and shown["over_subjects"] == pytest.approx(0.1)
    assert shown["over_agents"] == pytest.approx(0.01 / 2**0.5) and shown[
        "over_seeds"
    ] == pytest.approx(0.02 / 2**0.5)
    assert (shown["subjects"], shown["seeds"], shown["diverged"]) == (3, 2, 0)


def test_the_paired_test_by_hand():
    found = tables.difference(made_up(), 4)
    half = 4.302653 * 0.1 / 3**0.5  # Student's t with two degrees of freedom
    assert found["mean"] == pytest.approx(0.2) and found["high"] - found["mean"] == pytest.approx(
        half, rel=1e-6
    )
    assert found["p"] == pytest.approx(2 / 8), "of eight patterns of signs, two are as extreme"
    assert np.isnan(tables.difference(made_up().query("subject == 1"), 4)["low"])


def test_the_table_per_subject_has_a_row_each_and_the_mean():
    central = pd.DataFrame(
        {"subject": [1, 2, 3], "run": 0, "epoch": 5, "accuracy": [0.6, 0.7, 0.8], "validation": 0.5}
    )
    shown = tables.per_subject(made_up(), 4, central)
    assert shown.index.tolist() == [1, 2, 3, "mean"]
    assert shown.loc["mean", "difference"] == pytest.approx(0.2) and shown.loc[
        "mean", "centralised"
    ] == pytest.approx(0.7)


def judged(people, difference, settings=None):
    learnt = tables.Learnt(pd.DataFrame(), people, difference, pd.DataFrame(), 4)
    return claims.learning(learnt, settings, 0.05, "made up")


def test_verdicts_follow_the_numbers():
    people = pd.DataFrame(
        {"quantised": [0.4] * 7, "unquantised": [0.41] * 7}, index=[*range(1, 7), "mean"]
    )
    rows = [("network weight 0.2", "quantised", 0.26), ("network weight 0.2", "unquantised", 0.4)]
    settings = pd.DataFrame(rows, columns=["setting", "variant", "accuracy"])

    def close(low, high, folds=6, ablation=settings):
        difference = {"mean": (low + high) / 2, "low": low, "high": high, "p": 0.5, "folds": folds}
        return judged(people, difference, ablation)[0]

    assert (
        close(-0.01, 0.03).verdict == "holds if"
        and "network weight 0.2" in close(-0.01, 0.03).condition
    )
    assert close(-0.01, 0.03, ablation=None).sentence == "holds"
    assert close(-0.12, -0.05).verdict == "does not hold"
    assert (
        close(-0.02, 0.01).verdict == close(np.nan, np.nan, folds=1).verdict == "cannot be checked"
    )
    difference = {"mean": 0.0, "low": -0.01, "high": 0.01, "p": 1.0, "folds": 6}
    chance = people.assign(quantised=0.2)
    one = people.drop(index=[2, 3, 4, 5, 6])
    for table, verdict in (
        (people, "holds if"),
        (chance, "does not hold"),
        (one, "cannot be checked"),
    ):
        assert judged(table, difference)[1].verdict == verdict


def test_figures_are_drawn_with_and_without_divergence():
    table, central = (
        made_up(),
        pd.DataFrame(
            {"subject": [1, 2, 3], "run": 0, "epoch": 5, "accuracy": 0.6, "validation": 0.5}
        ),
    )
    data = SimpleNamespace(classes=range(4))
    for lost in (table, table.assign(diverged=2, accuracy=np.nan)):
        drawn = figures.fig6(tables.learnt(lost, data, central), "-", 0.05)
        labels = [text.get_text() for text in drawn.legends[0].get_texts()]
        assert any("diverged here" in label for label in labels) == (lost is not table)
        assert "quantised: mean of 3 folds × 2 seeds × 5 agents" in labels
        assert "centralised, Adam" in labels
    settings = pd.DataFrame({"setting": ["a", "a"], "variant": ["quantised", "unquantised"]})
    settings = settings.assign(accuracy=[0.3, 0.4], standard_error=[np.nan, 0.1], diverged=[1, 0])
    drawn = figures.left_open(settings, 4, "-", 100)
    assert any("diverged" in text.get_text() for text in drawn.legends[0].get_texts())
