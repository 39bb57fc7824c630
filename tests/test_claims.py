"""Rows of the table of verdicts, the rules that decide, and the paper's words."""

import os
import re
from pathlib import Path

import pandas as pd
import pytest

from companion import claims
from companion.claims import Claim
from companion.data.store import Provenance
from companion.intervals import median_interval
from tests.reference import latex

ROW = {
    "key": "a",
    "where": "Theorem 1",
    "words": "x < y & z",
    "paper": "1",
    "ours": "2",
    "reason": "so",
    "notebook": "01",
}
REQUIRED = {"where", "words", "paper", "rule", "why", "ours", "reason", "notebook"}
OPTIONAL = {
    "key",
    "figure",
    "apart",
    "case",
    "lists",
    "only",
    "assumed",
    "some",
    "remark",
    "about",
    "ours_to_prove",
}


def test_rows_survive_the_disk(tmp_path):
    rows = [
        Claim(**ROW, verdict="holds"),
        Claim(**{**ROW, "key": "b"}, verdict="holds if", condition="d_0 > 1"),
    ]
    claims.save(rows, "01", tmp_path)
    assert claims.load(tmp_path) == rows


def test_nothing_is_written_without_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    claims.save([Claim(**ROW, verdict="holds")], "01", "")
    assert not list(tmp_path.iterdir())


def test_the_table_is_escaped_and_complete():
    shown = claims.as_html(
        [Claim(**ROW, verdict="holds if", condition="d < 1", ours_to_prove=True)]
    )
    assert "x &lt; y &amp; z" in shown and "<b>holds if d &lt; 1</b>" in shown and "(ours)" in shown


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"verdict": "maybe"}, "claim a: verdict = 'maybe' must be one of holds, holds if"),
        ({"verdict": "holds if"}, "claim a: a condition belongs to the verdict 'holds if'"),
        (
            {"verdict": "holds", "condition": "x"},
            "claim a: a condition belongs to the verdict 'holds if'",
        ),
    ],
)
def test_impossible_rows_are_refused(change, sentence):
    with pytest.raises(ValueError, match=sentence):
        Claim(**{**ROW, **change})


def test_a_key_is_used_once(tmp_path):
    with pytest.raises(ValueError, match="every key must be used once"):
        claims.save([Claim(**ROW, verdict="holds")] * 2, "01", tmp_path)


def test_the_interval_of_a_median_lies_between_two_values():
    """Of 50 the 18th and the 33rd: fewer than 18 fall below the median with probability 0.016."""
    assert median_interval([float(k) for k in range(1, 51)]) == (18.0, 33.0)
    assert all(end != end for end in median_interval([1.0, 2.0, 3.0]))


# What a rule says of three intervals: one that confirms, one that refutes, one that does neither.
INTERVALS = {
    "at_most": (1.0, (0.5, 1.0), (1.1, 2.0), (0.9, 1.1)),
    "at_least": (1.0, (1.0, 2.0), (0.5, 0.9), (0.9, 1.1)),
    "below": (1.0, (0.5, 0.9), (1.0, 2.0), (0.9, 1.0)),
    "above": (1.0, (1.1, 2.0), (0.5, 1.0), (1.0, 1.1)),
    "equals": ([1.0, 0.5], (0.5, 1.5), (1.1, 1.2), (0.4, 1.5)),
    "not_above": ([1.0, 2.0], (0.5, 1.9), (1.1, 1.5), (0.9, 2.0)),
}


@pytest.fixture
def made_up(monkeypatch):
    """Return a function that judges intervals by a rule, in a row that can say "holds if"."""

    def judge(rule, limit, *intervals, **options):
        row = ROW | {
            "rule": {"x": {rule: limit}},
            "why": "-",
            "case": "case {name}",
            "only": "{yes}",
        }
        monkeypatch.setattr(claims, "rows", lambda: {"a": row})
        found = [
            {"x_low": low, "x_high": high, "name": k} for k, (low, high) in enumerate(intervals)
        ]
        return claims.judge("a", found, **options)

    return judge


@pytest.mark.parametrize("rule", claims.RULES)
def test_every_rule_reaches_every_verdict(made_up, rule):
    limit, yes, no, neither = INTERVALS[rule]
    assert made_up(rule, limit, yes, yes).sentence == "holds"
    assert made_up(rule, limit, yes, no).sentence == "holds if case 0"
    assert made_up(rule, limit, neither, yes).sentence == "holds if case 1"
    assert made_up(rule, limit, no, neither).sentence == "does not hold"
    assert made_up(rule, limit, neither).sentence == "cannot be checked"
    assert made_up(rule, limit, (float("nan"), float("nan"))).sentence == "cannot be checked"


def test_what_is_not_known_confirms_nothing_and_may_refute(made_up):
    assert made_up("at_most", 1.0, (0.0, 0.5), known=False).sentence == "cannot be checked"
    assert made_up("at_most", 1.0, (2.0, 3.0), known=False).sentence == "does not hold"
    assert made_up("at_most", 1.0).sentence == "cannot be checked"


def test_exceptions_and_assumptions_make_a_condition(made_up):
    assert made_up("at_most", 1.0, (0.0, 0.5), exceptions=["d_0 = 8"]).sentence == "holds if case 0"
    assert claims.decide({"assumed": "x"}, [True]) == ("holds if", False)
    assert claims.decide({}, [True, False]) == ("does not hold", False), (
        "a claim about all cases together"
    )


@pytest.mark.parametrize(
    ("answers", "verdict"),
    [
        ([True, True], "holds"),
        ([True, False], "holds if"),
        ([False, False], "does not hold"),
        ([None, False], "cannot be checked"),
        ([], "cannot be checked"),
    ],
)
def test_a_claim_that_some_case_proves_is_refuted_by_all(answers, verdict):
    assert claims.decide({"some": True, "only": "{yes}"}, answers)[0] == verdict


def test_a_case_needs_all_of_its_measures(made_up, monkeypatch):
    rule = {"x": {"at_most": 1.0}, "y": {"above": 0.0}}
    row = ROW | {"rule": rule, "paper": "{limit:+.1p}"}
    monkeypatch.setattr(claims, "rows", lambda: {"a": row})
    judged = [
        claims.judge("a", {"x": 0.5, "y_low": low, "y_high": 2.0}, limit=0.5) for low in (1.0, -1.0)
    ]
    assert [claim.verdict for claim in judged] == ["holds", "cannot be checked"]
    assert judged[0].paper == "+50.0" and judged[0].rule == "x at_most 1.0; y above 0.0"


@pytest.mark.parametrize(
    ("key", "kind", "sentence"),
    [
        ("figure-4", "real", "holds"),
        ("figure-4", "embedded", "holds (on embedded data)"),
        ("figure-4", "synthetic", "holds (on synthetic data)"),
        ("figure-6", "embedded", "holds (on embedded data)"),
        ("figure-6", "synthetic", "cannot be checked (on synthetic data)"),
        ("lemma-6", "synthetic", "holds"),
    ],
)
def test_stand_in_data_are_named_in_the_verdict_and_cannot_speak_about_people(key, kind, sentence):
    provenance = Provenance("x", kind, "here", "1", "0" * 64, "none")
    (claim,) = claims.on(provenance, [Claim(**{**ROW, "key": key}, verdict="holds")])
    assert claim.sentence == sentence and f"<b>{sentence}</b>" in claims.as_html([claim])
    assert ("On them: holds." in claim.reason) == ("cannot" in sentence)


def test_the_ends_of_a_measure_are_found_in_this_order():
    record = {"x": 2.0, "x_low": 1.0, "x_high": 3.0, "y": 4.0, "low": 0.0, "high": None}
    assert claims.interval(record, "x") == (1.0, 3.0) and claims.interval(record, "y") == (4.0, 4.0)
    low, high = claims.interval(record, "z")
    assert low == 0.0 and high != high
    assert claims.interval({"y": 1.0}, "z") is None


@pytest.mark.parametrize("key", claims.rows())
def test_every_row_names_its_rule_and_has_a_reason_for_every_verdict(key):
    row = claims.rows()[key]
    assert set(row) >= REQUIRED and set(row) <= REQUIRED | OPTIONAL
    assert all(len(rule) == 1 and set(rule) <= set(claims.RULES) for rule in row["rule"].values())
    possible = set(claims.VERDICTS) - (
        {"holds if"} if not {"only", "assumed"} & set(row) else set()
    )
    possible -= {"holds"} if "assumed" in row else set()
    if not isinstance(row["reason"], str) and "else" not in row["reason"]:
        assert possible <= set(row["reason"])


def test_keys_are_used_once_over_all_notebooks():
    text = claims.SOURCE.read_text(encoding="utf-8")
    keys = re.findall(r"^  ([a-z0-9-]+):", text, flags=re.MULTILINE)
    assert sorted(keys) == sorted(claims.rows())


def paper() -> str:
    """Return the paper's LaTeX source: LDP_PAPER, or shared/paper.tex beside the project."""
    beside = [parent / "shared" / "paper.tex" for parent in Path(__file__).parents]
    named = [Path(os.environ["LDP_PAPER"])] if os.environ.get("LDP_PAPER") else beside
    for path in named:
        if path.exists():
            return path.read_text(encoding="utf-8")
    pytest.skip("the paper's text is not here: set LDP_PAPER to its .tex file")


QUOTED = {key: row for key, row in claims.rows().items() if not row.get("ours_to_prove")}


@pytest.mark.parametrize("key", QUOTED)
def test_quotes_are_the_papers_words_at_their_place(key):
    places = latex.places(QUOTED[key]["words"], paper())
    assert places, f"{key}: the paper does not say {QUOTED[key]['words']!r}"
    named = re.search(
        r"(Assumption|Lemma|Theorem|Remark) \d|Section (\d(\.\d)?)", QUOTED[key]["where"]
    )
    assert (named[2] or named[0]) in {name for place in places for name in place}


SOURCE = (
    r"""
\section{One}
\noindent\textbf{Lemma 4 \cite{x}.} We have """
    r"""$\big|\frac{1}{m[z_t^i]_i} -\frac{1}{u_i}\big|\leq C_zP_z^t$ for any $i\in[m]$.

\subsection{Two} Algorithm \ref{algorithm1} falls
from 74.3\% to $\bar{\theta}_t$, a rate $\mathcal{O}(\frac{1}{t^{1-\nu}})$.
"""
)


@pytest.mark.parametrize(
    ("quote", "place"),
    [
        ("|1/(m[z_t^i]_i) - 1/u_i| <= C_z P_z^t", [("1", "Lemma 4")]),
        ("|1/(m[z_t^i]_i) - 1/u_i| <= C_z ... for any i in [m]", [("1", "Lemma 4")]),
        ("Algorithm 1 falls from 74.3% to thetabar_t", [("1.1", "")]),
        ("O(1/t^{1-nu})", [("1.1", "")]),
        ("Algorithm 1 rises from 74.3%", []),
        ("from 74.3% ... Algorithm 1", []),
        ("for any i in [m] ... Algorithm 1", []),
    ],
)
def test_the_reader_of_latex_finds_what_is_there_and_nothing_else(quote, place):
    assert latex.places(quote, SOURCE) == place


def test_committed_results_have_rows_that_are_still_asked():
    folder = claims.SOURCE.parents[1] / "figures"
    known = {row.get("key", key).split("{")[0] for key, row in claims.rows().items()}
    assert all(any(claim.key.startswith(key) for key in known) for claim in claims.load(folder))


def test_tables_and_series_are_records():
    table = pd.DataFrame({"ratio": [0.5]})
    assert (
        claims.judge("lemma-6", table)
        == claims.judge("lemma-6", table.iloc[0])
        == claims.judge("lemma-6", {"ratio": 0.5})
    )
