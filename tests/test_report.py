"""The report: shows every claim, figure and gap, and asks nothing of the network."""

import base64
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest
from PIL import Image

from companion import __main__, claims, promises
from companion.publish import environment, report
from companion.publish.report import (
    answer,
    gather,
    markdown,
    markup,
    notebooks,
    page,
    pictures,
    provenance,
    sheet,
)
from tests import test_promises
from tests.pages import Page, assert_offline, size

ROOT = Path(environment.ROOT)
BEGIN, END = (mark.format("headlines") for mark in markdown.MARKS)


def picture(width=900, height=300) -> bytes:
    buffer = io.BytesIO()
    Image.linear_gradient("L").resize((width, height)).convert("RGBA").save(buffer, "png")
    return buffer.getvalue()


def claim(key, verdict="holds", **changes):
    base = {
        "where": "Fig. 2",
        "words": "a < b | c",
        "paper": "1",
        "ours": "0.9 [0.8, 1.0]; 0.7",
        "reason": "So & so.",
    }
    condition = "the moon is full" if verdict == "holds if" else ""
    return claims.Claim(
        key,
        **{**base, "notebook": "01_good", "figure": "fig2", **changes},
        verdict=verdict,
        condition=condition,
    )


@pytest.fixture
def house(tmp_path):
    """Return a small project: two notebooks, of which one has run, three figures, four claims."""
    (tmp_path / "notebooks").mkdir()
    cells = [
        nbformat.v4.new_markdown_cell(
            "# 1. Is $x^2$ good?\n\nWe ask, for $\\delta \\le 1$: [docs](../docs/silent_choices.md)"
        ),
        nbformat.v4.new_code_cell('figures.save(fig2, "fig2", output)'),
        nbformat.v4.new_markdown_cell("## How fast?"),
        nbformat.v4.new_code_cell('figures.save(fig_rates, "fig2_rates", output)'),
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "notebooks" / "01_good.ipynb")
    nbformat.write(nbformat.v4.new_notebook(), tmp_path / "notebooks" / "03_later.ipynb")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "silent_choices.md").write_text(
        "# Silent\n\n| on | chosen |\n|---|---|\n| $\\theta_0$ | zero |\n"
    )
    folder = tmp_path / "figures"
    data = {
        "kind": "synthetic",
        "name": "Made up",
        "sha256": "ab" * 32,
        "source": "a seed",
        "licence": "MIT",
        "version": "1",
    }
    for name in ("fig2", "fig2_rates", "fig8"):
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.png").write_bytes(picture())
        (folder / f"{name}.svg").write_text("<svg></svg>")
        record = {
            "figure": name,
            "notebook": "01_good",
            "params": {"profile": "paper"},
            "data": [data],
            "numbers": {},
        }
        (folder / f"{name}.json").write_text(json.dumps(record))
    rows = [claim(f"key-{number}", verdict) for number, verdict in enumerate(claims.VERDICTS)]
    claims.save([*rows, claim("own", ours_to_prove=True)], "01_good", folder)
    shown = nbformat.v4.new_output(
        "display_data", {"image/png": base64.b64encode(picture(2000, 800)).decode()}
    )
    hidden = nbformat.v4.new_output("display_data", {"application/javascript": "alert(1)"})
    cells[1].outputs = [shown, hidden]
    (folder / "notebooks").mkdir()
    nbformat.write(nbformat.v4.new_notebook(cells=cells), folder / "notebooks" / "01_good.ipynb")
    run = {"profile": "paper", "seed": 3, "shards": 12, "reused": 5}
    run |= {"seconds": 754.2, "cold": 1508.0, "cpu": 2500.0, "memory": 1.5, "disk": 0.2}
    entry = run | provenance.made_here(ROOT)
    provenance.keep(folder, "01_good", entry)
    (tmp_path / "README.md").write_text(f"Before\n{BEGIN}stale\n{END}\nAfter\n")
    return tmp_path


def test_every_page_is_whole_without_a_network(house):
    written = report.build(house / "figures", house)
    assert {path.name for path in written} == {
        "report.html",
        "report.md",
        "01_good.html",
        "README.md",
        "figures.pdf",  # and no headline, for which results are missing
    }
    for path in written:
        if path.suffix == ".html":
            assert_offline(path)


def test_report_shows_every_claim_figure_count_and_gap(house):
    report.build(house / "figures", house)
    shown = Page(house / "figures" / "report.html")
    keys = {f"claim-key-{number}" for number in range(4)} | {"claim-own"}
    assert keys | {"fig2", "fig2_rates", "fig8"} <= shown.names
    assert "“a &lt; b | c”" in shown.text and "So &amp; so." in shown.text
    assert "<li>0.9 [0.8, 1.0]</li><li>0.7</li>" in shown.text
    counted = re.findall(r"<b>(\d)</b> . ([a-z ]+)</li>", shown.text)
    assert counted[:4] == [("1", verdict) for verdict in claims.VERDICTS]
    assert shown.text.count("make figures NB=01 PROFILE=paper") == 1
    assert (
        shown.text.count(": not here.") == 6
        and "Not run yet: <code>make figures NB=03" in shown.text
    )
    cost = "25 min, 42 min of a processor, 1.5 GB of memory, 0.2 GB on disk"
    assert cost in shown.text and "12, 5 of them computed earlier" in shown.text
    assert "How fast?" in shown.text and "ab" * 32 in shown.text
    assert '<td data-name="chosen">zero</td>' in shown.text
    text = (house / "figures" / "report.md").read_text(encoding="utf-8")
    assert (
        text.count("**holds, on") == 2
        and "a &lt; b \\| c" in text
        and "| 03_later | not run |" in text
    )


def test_figures_stand_beside_the_verdicts_they_carry(house):
    found = gather.gather(house / "figures", house)
    (loose, none), *shown = found.carried("01_good")
    assert loose is None and none == []
    assert {figure.name: len(rows) for figure, rows in shown} == {
        "fig2": 5,
        "fig2_rates": 0,
        "fig8": 0,
    }
    claims.save(
        [claim("alone", figure=""), claim("lost", figure="fig99")], "01_good", house / "figures"
    )
    (figure, rows), *_ = gather.gather(house / "figures", house).carried("01_good")
    assert figure.name == "fig2" and [row.key for row in rows] == ["alone", "lost"]


def test_a_verdict_on_stand_in_data_says_so(house):
    report.build(house / "figures", house)
    for name in ("report.html", "report.md"):
        text = (house / "figures" / name).read_text(encoding="utf-8")
        assert text.count(", on stand-in data (Made up)") == 5
    readme = markdown.refresh(f"{BEGIN}{END}", gather.gather(house / "figures", house))
    assert "\n- " not in readme  # none of its headlines is here


def test_verdicts_have_colour_sign_and_word(house):
    report.build(house / "figures", house)
    text = (house / "figures" / "report.html").read_text(encoding="utf-8")
    for verdict, kind in markup.CLASSES.items():
        sign = re.escape(markup.SIGNS[verdict])
        row = rf'class="claim {kind}".*?<p class="verdict"><span[^>]*>{sign}</span> {verdict}'
        assert re.search(row, text, re.S)
        assert text.count(f"--{kind}: #") == 2  # by day and by night


@pytest.mark.parametrize("ours, shown, rest", [("a", ["a"], []), ("a; b", ["a", "b"], [])])
def test_short_numbers_are_shown_whole(ours, shown, rest):
    assert page.brief(ours) == (shown, rest)


def test_of_many_numbers_the_first_are_shown_and_none_is_lost():
    parts = [f"{'x' * 60} {number}" for number in range(5)]
    shown, rest = page.brief("; ".join(parts))
    assert shown == parts[:2] and shown + rest == parts
    assert page.brief("y" * 999) == (["y" * 999], [])


def test_the_same_figures_give_the_same_bytes(house):
    first = {path: path.read_bytes() for path in report.build(house / "figures", house)}
    second = {path: path.read_bytes() for path in report.build(house / "figures", house)}
    assert first == second


def test_readme_headlines_are_renewed_and_the_rest_is_kept(house, monkeypatch):
    monkeypatch.setattr(markdown, "HEADLINES", ("key-1", "own"))
    report.build(house / "figures", house)
    text = (house / "README.md").read_text(encoding="utf-8")
    assert text.startswith("Before\n") and text.endswith("\nAfter\n") and "stale" not in text
    shown = re.findall(r"(?m)^- (\*\*.*?\*\*):", text.partition(BEGIN)[2].partition(END)[0])
    assert shown == [
        "**holds if the moon is full, on stand-in data (Made up)**",
        "**holds, on stand-in data (Made up)**",
    ]


def test_a_readme_without_the_mark_is_left_alone(house):
    assert markdown.refresh("Before", gather.gather(house / "figures", house)) == "Before"


def test_another_folder_leaves_the_readme_alone(house, tmp_path):
    before = (house / "README.md").read_text()
    (house / "figures").rename(house / "elsewhere")
    report.build(house / "elsewhere", house)
    assert (house / "README.md").read_text() == before


def test_an_empty_folder_gives_a_report_that_says_so(house):
    (house / "nothing").mkdir()
    report.build(house / "nothing", house)
    shown = assert_offline(house / "nothing" / "report.html")
    assert shown.text.count(": not here.") == 7 and "Not run yet" in shown.text


@pytest.mark.parametrize("text", ['{"figure": ', '{"figure": "fig2", "data": []}', "[]"])
def test_a_damaged_record_is_named_in_one_line(house, capsys, monkeypatch, text):
    (house / "figures" / "fig2.json").write_text(text)
    monkeypatch.setattr(__main__, "ROOT", house)
    assert __main__._write_report(house / "figures") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "fig2.json is not the record of a figure" in line
    assert not (house / "figures" / "report.html").exists()


def test_pictures_shrink_until_they_fit(tmp_path):
    paths = [tmp_path / f"{number}.png" for number in range(3)]
    for path in paths:
        noise = Image.effect_noise((600, 400), 80).convert("RGB")
        noise.save(path)
    free = pictures.embed(paths, 600, 10**9)
    fitted = pictures.embed(paths, 600, sum(map(len, free)) // 2)
    assert sum(map(len, fitted)) <= sum(map(len, free)) // 2
    assert size(fitted[0])[0] < 600


def test_notebook_pages_lose_scripts_and_keep_pictures_small(house):
    report.build(house / "figures", house)
    shown = assert_offline(house / "figures" / "notebooks" / "01_good.html")
    assert "alert(1)" not in shown.text and "<msup><mi>x</mi>" in shown.text
    assert "../../docs/silent_choices.md" in shown.links
    assert shown.text.count('<details class="code">') == 2 and "<details open" not in shown.text
    (image,) = shown.images
    assert image["alt"] == "Picture of the section “1. Is x^2 good?”"
    assert size(image["src"])[0] == notebooks.WIDTH


def test_tables_in_notebooks_fit():
    head = "<table><thead><tr><th>where</th></tr></thead>"
    rows = f"{head}<tbody><tr><td>d_0 &lt; 1</td></tr></tbody></table>"
    assert 'class="cards"' in notebooks._table(
        rows
    ) and "</msub></mrow></math> &lt; 1" in notebooks._table(rows)
    counted = rows.replace("<td>d_0", "<th>0</th><td>d_0")
    assert notebooks._table(f"<style>th {{}}</style>{counted}<script>alert(1)</script>") == (
        f'<div class="scroll" tabindex="0" role="group" aria-label="Table">{counted}</div>\n'
    )


def test_the_sheet_is_one_page_of_a4_and_always_the_same(house):
    found = gather.gather(house / "figures", house)
    pdf = sheet.draw(found)
    assert pdf == sheet.draw(found) and pdf.startswith(b"%PDF")
    assert re.findall(rb"/Count (\d+)", pdf) == [b"1"]
    (box,) = re.findall(rb"/MediaBox \[ ?0 0 ([\d.]+) ([\d.]+) ?\]", pdf)
    assert [round(float(side)) for side in box] == [595, 842]  # points


OTHER = {"data": "MNIST", "model": "softmax | public features", "unit": "one image of one agent"}
OTHER |= {"accuracy": (0.959, 0.957, 0.961), "twin": 0.972, "best_unprotected": 0.981}
MADE = replace(test_promises.MADE, name="digits, 0.1", **OTHER)


def test_promises_are_shown_with_their_unit_where_there_are_any(house):
    folder = house / "figures"
    found = gather.gather(folder, house)
    assert markdown.promises(found) == "" and 'id="promises"' not in page.render(found)
    promises.record(folder, MADE)
    promises.record(folder, replace(MADE, name="later", horizon=300, delta=0.25))
    found = gather.gather(folder, house)
    first, *_, last = markdown.promises(found).replace("\n  ", " ").splitlines()
    assert first == (
        "- **digits, $\\delta \\le 0.1$ for ever**, one image of one agent: accuracy 95.9%, "
        "the best unprotected learner 98.1%."
    )
    assert last.startswith("- 1 more promises are in the [report]")
    shown = page.render(found)
    assert "One image of one agent changes all that is ever sent by at most 0.1" in shown
    assert "95.9 % [95.7, 96.1]" in shown and "softmax | public features" in shown
    assert "softmax \\| public features" in markdown.render(found)
    opening, rest = answer.added(found)
    assert opening == "A promise that holds" and "one image of one agent" in rest
    assert "95.9% on digits" in rest and "0.25" not in rest


def test_the_promise_of_a_sentence_is_the_nearest_to_a_tenth_or_the_strictest():
    def chosen(*deltas):
        made = [replace(MADE, name=f"{delta}", delta=delta) for delta in deltas]
        return [one.delta for one in answer.promised(made)]

    assert chosen(0.25, 0.05, 0.1) == [0.1] and chosen(0.5, 0.25) == [0.25] and chosen() == []
    assert answer.promised([replace(MADE, horizon=300)]) == []


def test_a_promise_that_is_no_better_than_guessing_says_so(house):
    folder = house / "figures"
    promises.record(folder, replace(MADE, guessing=0.1))
    promises.record(folder, replace(MADE, name="waves, 0.1", data="EEG", guessing=0.958))
    found = gather.gather(folder, house)
    assert "95.9% on digits (98.1% without" in answer.added(found)[1]
    assert "95.9% on waves, no better than guessing (98.1% without" in answer.added(found)[1]
    assert " ".join(markdown.promises(found).split()).count("(no better than guessing)") == 1


def test_a_figure_of_ours_has_a_heading_of_its_notebook():
    committed = gather.gather(ROOT / "figures", ROOT)
    drawn = {figure.name: figure.notebook for figure in committed.figures}
    assert gather.CAPTIONS.keys() | gather.OURS.keys() == drawn.keys()
    for name, heading in gather.OURS.items():
        text = (ROOT / "notebooks" / f"{drawn[name]}.ipynb").read_text(encoding="utf-8")
        assert f"# {heading}" in re.sub(r"[$`*]", "", text), name


def test_a_run_is_recorded_beside_the_others(tmp_path):
    provenance.keep(tmp_path, "02_b", {"seconds": 1})
    provenance.keep(tmp_path, "01_a", {"seconds": 2})
    provenance.keep(tmp_path, "02_b", {"seconds": 3})
    assert provenance.load(tmp_path) == {"01_a": {"seconds": 2}, "02_b": {"seconds": 3}}


def test_a_damaged_record_of_runs_is_begun_anew(tmp_path):
    (tmp_path / "runs.json").write_text('{"01_a": {')
    assert provenance.load(tmp_path) == {}
    provenance.keep(tmp_path, "02_b", {"seconds": 1})
    assert provenance.load(tmp_path) == {"02_b": {"seconds": 1}}


def test_a_folder_that_is_no_checkout_has_no_commit(tmp_path):
    assert provenance.source(tmp_path) == ("", False)
