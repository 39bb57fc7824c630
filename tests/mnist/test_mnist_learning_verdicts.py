"""What notebook 3 makes of its training and budgets: tables by hand, verdicts, figures."""

import numpy as np
import pandas as pd
import pytest

from companion.data import mnist as images
from companion.mnist import claims, figures, tables, training
from companion.mnist.params import Params


def ends(*finals):
    return pd.DataFrame(
        [(variant, repeat, value, -1 if np.isfinite(value) else 7,
          "" if np.isfinite(value) else "diverged at iteration 7: x")
         for repeat, pair in enumerate(finals)
         for variant, value in zip(training.VARIANTS, pair, strict=True)],
        columns=["variant", "repeat", "final", "diverged", "sentence"],
    )  # fmt: skip


def test_paired_difference_by_hand():
    found = tables.paired_difference(ends((0.90, 0.91), (0.88, 0.91)))
    assert found["mean"] == pytest.approx(-0.02)
    assert found["high"] - found["mean"] == pytest.approx(
        12.706 * np.std([-0.01, -0.03], ddof=1) / np.sqrt(2), rel=1e-4
    )
    assert tables.paired_difference(ends((0.90, 0.91)))["low"] is None
    assert tables.paired_difference(ends((np.nan, 0.91)))["mean"] is None


def test_summary_is_over_agents_and_repeats():
    rows = [
        ("quantised", "whole history", repeat, t, "test", agent, 0.1 * agent + 0.2 * repeat)
        for repeat in (0, 1)
        for t in (0, 10)
        for agent in (0, 1)
    ]
    table = tables.summary(
        pd.DataFrame(
            rows, columns=["variant", "history", "repeat", "t", "kind", "agent", "accuracy"]
        )
    )
    assert table["mean"].tolist() == pytest.approx([0.15, 0.15]) and table["repeats"].tolist() == [
        2,
        2,
    ]
    assert table["standard_deviation"].tolist() == pytest.approx([np.std([0, 0.1, 0.2, 0.3])] * 2)


ABLATION = pd.DataFrame(
    [("as in Fig. 4", "quantised", 0.5, 0.01, -1), ("as in Fig. 4", "unquantised", 0.5, 0.01, -1),
     ("edge weights 0.2", "quantised", 0.1, 0.01, -1),
     ("edge weights 0.2", "unquantised", 0.5, 0.01, -1),
     ("λ₀ a hundred times larger", "quantised", np.nan, np.nan, 3)],
    columns=["choice", "variant", "final", "spread", "diverged"],
)  # fmt: skip
LAST = pd.DataFrame(
    [(1, 1.0, 600.0, 1.0, 1.0, 0), (20, 1.0, 300.0, 0.99, 1.0, 0)],
    columns=["samples", "scale", "paper", "lower", "upper", "diverged"],
)


def trained(table):
    return tables.Trainings(pd.DataFrame(), table.assign(history="whole history"))


def verdict_of(key, finals, budgets=LAST):
    table = ends(*finals)
    rows = claims.of_training(Params(), trained(table), ABLATION, budgets)
    return next(row for row in rows if row.key == key)


def test_verdicts_follow_the_numbers():
    close, far = [(0.9, 0.9), (0.9, 0.9), (0.901, 0.9)], [(0.8, 0.9), (0.8, 0.9), (0.801, 0.9)]
    assert verdict_of("figure-4", close).verdict == "holds if"
    assert "edge weights 0.2: quantised 10% instead of 50%" in verdict_of("figure-4", close).reason
    assert verdict_of("figure-4", far).verdict == "does not hold"
    assert verdict_of("figure-4", [(0.9, 0.9)]).verdict == "cannot be checked"
    assert verdict_of("figure-4", [(0.9, 0.9), (0.8, 0.9)]).verdict == "cannot be checked"
    diverged = verdict_of("figure-4", [(np.nan, 0.9), (0.9, 0.9)])
    assert diverged.verdict == "does not hold" and diverged.reason.startswith(
        "diverged at iteration 7"
    )
    assert claims._open_choices(Params(), ABLATION.assign(final=0.1)).verdict == "cannot be checked"
    assert verdict_of("figure-4-open-choices", close).ours.endswith(
        ": edge weights 0.2: quantised 10% instead of 50%"
    )
    assert "δ may be 0.990 or more" in verdict_of("network-budget", close).condition
    assert (
        verdict_of("network-budget", close, LAST.assign(lower=0.1)).verdict == "cannot be checked"
    )
    assert (
        verdict_of("network-budget", close, LAST.assign(scale=2.0)).verdict == "cannot be checked"
    )


def test_what_a_sample_of_the_history_costs_is_said_where_both_exist():
    """At the last time that both have: the whole history ends sooner."""
    names = ["history", "variant", "t", "accuracy"]
    sampled = "20 draws from the history"
    rows = [
        ("whole history", "quantised", 300, 0.9),
        ("whole history", "unquantised", 300, 0.9),
        (sampled, "quantised", 300, 0.88),
        (sampled, "unquantised", 300, 0.91),
        (sampled, "quantised", 600, 0.5),
    ]
    curves = pd.DataFrame(rows, columns=names).assign(repeat=0, kind="test")
    words = tables.against_whole_history(curves)
    assert "at t = 300 by -2.00 points quantised, +1.00 points unquantised" in words
    assert tables.against_whole_history(curves[curves["history"] == sampled]) == ""


def test_tables_are_kept_as_json():
    assert tables.plain(pd.DataFrame({"a": [1.0, np.nan], "b": ["x", "y"]})) == {
        "a": [1.0, None],
        "b": ["x", "y"],
    }


def test_delta_against_the_steps_that_are_attacked():
    curve = tables.delta_curve(LAST, 1, (0.1, 1.0))
    assert curve["delta"].tolist() == [600.0, 1.0] and curve["label"].nunique() == 2


def texts(figure):
    return " ".join(
        text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, "get_text"))
    )


RECORD = Params().record("03_mnist_idlg", "x", images.embedded())


def test_fig4_draws_divergence_as_such():
    figures.style()
    rows = [
        (variant, "whole history", repeat, kind, t, 0, 0.5)
        for variant, stop in (("quantised", 20), ("unquantised", 60))
        for repeat in (0, 1)
        for kind in ("train", "test")
        for t in range(0, stop + 1, 10)
    ]
    columns = ["variant", "history", "repeat", "kind", "t", "agent", "accuracy"]
    table = ends((np.nan, 0.5), (0.5, 0.5)).assign(history="whole history")
    found = tables.Trainings(pd.DataFrame(rows, columns=columns), table)
    figure = figures.fig4(found, RECORD, "")
    assert texts(figure).count("1 repeat diverged at t = 7") == 2  # once a panel
    for axes in figure.axes:
        quantised = next(line for line in axes.lines if line.get_label().startswith("quantised"))
        assert quantised.get_xdata().max() == 20  # no curve beyond it
    sound = found._replace(ends=table.assign(diverged=-1))
    assert "diverged" not in texts(figures.fig4(sound, RECORD, ""))


def test_no_ablation_is_no_row():
    table = ends((0.9, 0.9), (0.9, 0.9))
    rows = claims.of_training(Params(), trained(table), ABLATION[:0], LAST)
    assert [row.key for row in rows] == ["figure-4", "network-budget"] and rows[
        0
    ].verdict == "holds"
    figures.ablation(ABLATION[:0], RECORD, "")


def test_the_ablation_names_what_diverged():
    shown = texts(figures.ablation(ABLATION, RECORD, ""))
    assert "diverged at t = 3" in shown and "edge weights 0.2" in shown


def test_no_scale_is_no_budget(data):
    found = tables.budgets(Params(budget_scales=()), data)
    spent = tables.spent(found)
    assert spent.empty and "No budget" in figures.network_budget(found, RECORD, "").data
    row = claims.of_training(Params(), trained(ends((0.9, 0.9))), ABLATION, spent)[-1]
    assert row.key == "network-budget" and row.verdict == "cannot be checked"


def test_the_budget_figure_marks_where_the_network_diverges():
    table = pd.DataFrame(
        [(1, 1.0, T, 0, 10.0 * T, 0.9, 1.0, -1) for T in range(4)]
        + [(1, 1e4, 2, 0, *[np.nan] * 3, 2)],
        columns=["samples", "scale", "T", "repeat", "paper", "lower", "upper", "diverged"],
    )
    shown = texts(figures.network_budget(table, RECORD, ""))
    assert (
        "the network diverges" in shown and "1 image at a time" in shown and "says nothing" in shown
    )
