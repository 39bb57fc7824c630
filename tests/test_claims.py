"""Rows of the table of verdicts."""

import pytest

from companion import claims
from companion.claims import Claim

ROW = {"key": "a", "where": "Theorem 1", "words": "x < y & z", "paper": "1", "ours": "2", "reason": "so", "notebook": "01"}


def test_rows_survive_the_disk(tmp_path):
    rows = [Claim(**ROW, verdict="holds"), Claim(**{**ROW, "key": "b"}, verdict="holds if", condition="d_0 > 1")]
    claims.save(rows, "01", tmp_path)
    assert claims.load(tmp_path) == rows


def test_nothing_is_written_without_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    claims.save([Claim(**ROW, verdict="holds")], "01", "")
    assert not list(tmp_path.iterdir())


def test_the_table_is_escaped_and_complete():
    shown = claims.as_html([Claim(**ROW, verdict="holds if", condition="d < 1", ours_to_prove=True)])
    assert "x &lt; y &amp; z" in shown and "<b>holds if d &lt; 1</b>" in shown and "(ours)" in shown


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"verdict": "maybe"}, "claim a: verdict = 'maybe' must be one of holds, holds if"),
        ({"verdict": "holds if"}, "claim a: a condition belongs to the verdict 'holds if'"),
        ({"verdict": "holds", "condition": "x"}, "claim a: a condition belongs to the verdict 'holds if'"),
    ],
)
def test_impossible_rows_are_refused(change, sentence):
    with pytest.raises(ValueError, match=sentence):
        Claim(**{**ROW, **change})


def test_a_key_is_used_once(tmp_path):
    with pytest.raises(ValueError, match="every key must be used once"):
        claims.save([Claim(**ROW, verdict="holds")] * 2, "01", tmp_path)


def test_the_interval_of_a_median_lies_between_two_values():
    """Of 50 values the 18th and the 33rd: fewer than 18 fall below the median with probability 0.016, 0.033 on both sides."""
    assert claims.median_interval([float(k) for k in range(1, 51)]) == (18.0, 33.0)
    assert all(end != end for end in claims.median_interval([1.0, 2.0, 3.0]))
