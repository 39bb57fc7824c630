"""Did I reproduce it? What agrees, what differs, what cannot agree, and why."""

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from companion import __main__
from companion.claims import Claim
from companion.publish import environment, reproduce
from companion.publish.report import gather
from companion.publish.reproduce import AGREES, CANNOT, DIFFERS, Measured

ROOT = Path(environment.ROOT)
COMMITTED = gather.gather(ROOT / "figures", ROOT)
FIG2 = COMMITTED.figure("fig2")


def with_figure(changed):
    """Return the committed results with one figure in another's place."""
    figures = [changed if figure.name == changed.name else figure for figure in COMMITTED.figures]
    return replace(COMMITTED, figures=figures)


def moved(figure, by):
    """Return a figure whose final difference is another."""
    difference = {name: value + by for name, value in figure.numbers["final_difference"].items()}
    return replace(figure, numbers={**figure.numbers, "final_difference": difference})


def outcomes(compared, label="Fig. 2"):
    return [row.outcome for row in compared.numbers if row.what == label]


def test_every_key_number_is_in_the_committed_figures():
    for name, entry in reproduce.key_numbers().items():
        figure = COMMITTED.figure(name)
        assert set(entry["settled_by"]) - set(figure.params) <= {"samples", "l2", "d_0_slope"}, name
        for key in entry["numbers"]:
            assert reproduce.measured(figure.numbers, key) is not None, key


def test_the_papers_seven_figures_have_key_numbers():
    assert set(gather.CAPTIONS) <= set(reproduce.key_numbers())


def test_the_committed_results_reproduce_themselves():
    compared = reproduce.compare(COMMITTED, COMMITTED)
    rows = [*compared.numbers, *compared.verdicts]
    assert {row.outcome for row in rows} == {AGREES} and len(compared.verdicts) == len(
        COMMITTED.claims
    )
    assert compared.sentence.startswith("Yes: of the key numbers ")


def test_a_number_whose_interval_is_missed_differs_and_is_said():
    compared = reproduce.compare(with_figure(moved(FIG2, -0.01)), COMMITTED)
    assert outcomes(compared) == [AGREES, AGREES, DIFFERS]
    assert compared.sentence.startswith("Not everything: ") and ", 1 differ" in compared.sentence


def test_a_number_inside_the_interval_agrees():
    assert outcomes(reproduce.compare(with_figure(moved(FIG2, -0.0005)), COMMITTED)) == [AGREES] * 3


def test_another_setting_cannot_agree_and_is_named():
    changed = replace(FIG2, params={**FIG2.params, "iterations": 80, "runs": 10})
    compared = reproduce.compare(with_figure(changed), COMMITTED)
    assert outcomes(compared) == [CANNOT] * 3
    row = next(row for row in compared.numbers if row.what == "Fig. 2")
    assert row.reason == f"iterations 80, not {FIG2.params['iterations']}"


def test_other_data_cannot_agree_and_are_named():
    data = [{**record, "kind": "synthetic", "sha256": "0"} for record in FIG2.data]
    compared = reproduce.compare(with_figure(replace(FIG2, data=data)), COMMITTED)
    assert compared.numbers[2].reason == "synthetic data, not real"


def test_more_runs_alone_are_the_same_quantity():
    changed = replace(FIG2, params={**FIG2.params, "runs": 7, "seed": 3, "profile": "default"})
    assert outcomes(reproduce.compare(with_figure(changed), COMMITTED)) == [AGREES] * 3


CASES = {  # here, committed: the two numbers, and whether they agree
    "exact and equal": (
        Measured(1.0, 1.0, 1.0),
        Measured(1.0 + 1e-9, 1.0 + 1e-9, 1.0 + 1e-9),
        True,
    ),
    "exact and not": (Measured(1.0, 1.0, 1.0), Measured(1.001, 1.001, 1.001), False),
    "inside": (Measured(0.5, 0.4, 0.6), Measured(0.55, 0.54, 0.56), True),
    "ends meet": (Measured(0.5, 0.4, 0.6), Measured(0.7, 0.6, 0.8), True),
    "apart": (Measured(0.5, 0.4, 0.6), Measured(0.71, 0.61, 0.81), False),
}


@pytest.mark.parametrize("name", CASES)
def test_intervals_touch_or_do_not(name):
    one, other, agree = CASES[name]
    assert reproduce.touch(one, other) == reproduce.touch(other, one) == agree


def test_without_an_interval_nothing_is_claimed():
    alone = Measured(0.9, math.nan, math.nan)
    assert reproduce._judged(alone, alone, "") == (CANNOT, "too few runs for an interval")
    assert reproduce.shown(alone, percent=True) == "90.0 % (no interval)"
    assert reproduce._judged(None, alone, "") == (CANNOT, "not computed here")


def test_a_changed_verdict_differs_at_the_same_size_only():
    first = COMMITTED.claim("figure-2")
    changed = replace(first, verdict="does not hold", condition="")
    claims = [changed if claim.key == first.key else claim for claim in COMMITTED.claims]
    here = replace(COMMITTED, claims=claims)
    assert [
        row.name for row in reproduce.compare(here, COMMITTED).verdicts if row.outcome == DIFFERS
    ] == ["figure-2"]
    small = replace(FIG2, params={**FIG2.params, "iterations": 80})
    figures = [small if figure.name == "fig2" else figure for figure in COMMITTED.figures]
    (row,) = (
        row
        for row in reproduce.compare(replace(here, figures=figures), COMMITTED).verdicts
        if row.name == "figure-2"
    )
    assert row.outcome == CANNOT and "iterations 80" in row.reason


def test_only_what_was_run_is_compared():
    mine = [figure for figure in COMMITTED.figures if figure.notebook == "01_convergence"]
    claims = [claim for claim in COMMITTED.claims if claim.notebook == "01_convergence"]
    compared = reproduce.compare(replace(COMMITTED, figures=mine, claims=claims), COMMITTED)
    assert {row.what for row in compared.numbers} == {"Fig. 1", "Fig. 2", "Fig. 2, rates"}
    assert len(compared.verdicts) == len(claims)
    nothing = reproduce.compare(replace(COMMITTED, figures=[], claims=[]), COMMITTED)
    assert nothing.sentence == "Nothing was run that could be compared."


def test_in_a_terminal_each_reason_is_said_once():
    changed = replace(FIG2, params={**FIG2.params, "iterations": 80})
    text = reproduce.text(reproduce.compare(with_figure(changed), COMMITTED))
    assert text.count("cannot agree: iterations 80, not") == 1
    assert text.splitlines()[-1].startswith("Nothing differs, as far as this size can tell: ")


def test_the_page_shows_picture_beside_picture(tmp_path):
    here = replace(with_figure(moved(FIG2, -0.01)), folder=tmp_path)
    compared = reproduce.compare(here, COMMITTED)
    page = reproduce.write(compared).read_text(encoding="utf-8")
    assert page.count("<img ") == 2 * len(COMMITTED.figures)
    assert "Not everything" in page and len(page) < 3_500_000
    assert not [part for part in ("http://", "https://") if f'src="{part}' in page]


def test_the_command_ends_with_the_answer(tmp_path, capsys):
    for name in ("fig1.json", "fig1.png", "fig1.svg"):
        shutil.copy(ROOT / "figures" / name, tmp_path)
    __main__._compare(tmp_path)
    said = capsys.readouterr().out
    assert "Yes: of the key numbers 2 agree" in said and "comparison.html" in said
    assert (tmp_path / "comparison.html").exists()


def test_the_committed_results_are_not_compared_with_themselves(capsys, monkeypatch):
    from companion.publish import batch

    monkeypatch.setattr(batch, "run", lambda *options: 0)
    monkeypatch.setattr(__main__, "_write_report", lambda output: 0)
    assert __main__.main(["figures", "--profile", "paper", "--output", "figures"]) == 0
    assert capsys.readouterr().out == "writing the report, and comparing\n"


def test_a_stranger_claim_is_left_out():
    new = Claim("new", "here", "words", "", "", "holds", "", "01_convergence")
    compared = reproduce.compare(replace(COMMITTED, claims=[new]), COMMITTED)
    assert compared.verdicts == []


def test_the_record_of_a_figure_may_lack_the_table():
    record = json.loads((ROOT / "figures" / "fig2.json").read_text(encoding="utf-8"))
    key = reproduce.key_numbers()["fig2"]["numbers"][0]
    assert reproduce.measured({}, key) is None
    assert reproduce.measured(record["numbers"], {**key, "where": {"variant": "none"}}) is None
