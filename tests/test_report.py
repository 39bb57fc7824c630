"""The report: shows every claim and figure, asks nothing of the network, and is up to date."""

import argparse
import base64
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest
from PIL import Image

from companion import __main__, claims
from companion.publish import environment, report
from companion.publish.report import gather, markdown, mathml, notebooks, page, pictures, provenance

ROOT = Path(environment.ROOT)
FIGURES = ROOT / "figures"
WRITTEN = sorted([*ROOT.glob("docs/*.md"), *ROOT.glob("notebooks/*.ipynb"), *FIGURES.glob("notebooks/*.ipynb")])
REAL = [FIGURES / "report.html", *sorted((FIGURES / "notebooks").glob("*.html"))]


def picture(width=900, height=300) -> bytes:
    buffer = io.BytesIO()
    Image.linear_gradient("L").resize((width, height)).convert("RGBA").save(buffer, "png")
    return buffer.getvalue()


def claim(key, verdict="holds", **changes):
    base = {"where": "Fig. 2", "words": "a < b | c", "paper": "1", "ours": "0.9 [0.8, 1.0]; 0.7", "reason": "So & so."}
    condition = "the moon is full" if verdict == "holds if" else ""
    return claims.Claim(
        key, **{**base, "notebook": "01_good", "figure": "fig2", **changes}, verdict=verdict, condition=condition
    )


@pytest.fixture
def house(tmp_path):
    """Return a small project: two notebooks, of which one has run, three figures, four claims."""
    (tmp_path / "notebooks").mkdir()
    cells = [
        nbformat.v4.new_markdown_cell("# 1. Is $x^2$ good?\n\nWe ask, for $\\delta \\le 1$: [docs](../docs/silent_choices.md)"),
        nbformat.v4.new_code_cell('figures.save(fig2, "fig2", output)'),
        nbformat.v4.new_markdown_cell("## How fast?"),
        nbformat.v4.new_code_cell('figures.save(fig_rates, "fig2_rates", output)'),
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "notebooks" / "01_good.ipynb")
    nbformat.write(nbformat.v4.new_notebook(), tmp_path / "notebooks" / "03_later.ipynb")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "silent_choices.md").write_text("# Silent\n\n| on | chosen |\n|---|---|\n| $\\theta_0$ | zero |\n")
    folder = tmp_path / "figures"
    data = {"kind": "synthetic", "name": "Made up", "sha256": "ab" * 32, "source": "a seed", "licence": "MIT", "version": "1"}
    for name in ("fig2", "fig2_rates", "fig10"):
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.png").write_bytes(picture())
        (folder / f"{name}.svg").write_text("<svg/>")
        record = {"figure": name, "notebook": "01_good", "params": {"profile": "paper"}, "data": [data], "numbers": {}}
        (folder / f"{name}.json").write_text(json.dumps(record))
    rows = [claim(f"key-{number}", verdict) for number, verdict in enumerate(claims.VERDICTS)]
    claims.save([*rows, claim("own", ours_to_prove=True)], "01_good", folder)
    shown = nbformat.v4.new_output("display_data", {"image/png": base64.b64encode(picture(2000, 800)).decode()})
    hidden = nbformat.v4.new_output("display_data", {"application/javascript": "alert(1)"})
    cells[1].outputs = [shown, hidden]
    (folder / "notebooks").mkdir()
    nbformat.write(nbformat.v4.new_notebook(cells=cells), folder / "notebooks" / "01_good.ipynb")
    entry = provenance.record(ROOT, profile="paper", seed=3, seconds=754.2, shards=12, reused=5)
    provenance.keep(folder, "01_good", entry)
    names = ("times", "gallery", "verdicts", "notebooks")
    marks = "\n".join(f"<!-- {name}: written by make report -->\nstale\n<!-- end of {name} -->" for name in names)
    (tmp_path / "README.md").write_text(f"Before\n{marks}\nAfter\n")
    return tmp_path


class Page(HTMLParser):
    """What a page would load, where it leads, and the names it has."""

    def __init__(self, path):
        super().__init__()
        self.loaded, self.links, self.names, self.images, self.tags = [], [], set(), [], set()
        self.text = path.read_text(encoding="utf-8")
        self.feed(self.text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.tags.add(tag)
        self.names.add(given.get("id"))
        self.loaded += [given[name] for name in ("src", "srcset", "data", "poster", "background") if name in given]
        if "href" in given:
            (self.links if tag == "a" else self.loaded).append(given["href"])
        if tag == "img":
            self.images.append(given)


def assert_offline(path):
    """Fail when a page would ask the network for anything, or leads where nothing is."""
    shown = Page(path)
    assert all(address.startswith("data:") for address in shown.loaded), [a[:60] for a in shown.loaded if a[:5] != "data:"]
    assert "script" not in shown.tags and "iframe" not in shown.tags
    styles = "".join(re.findall(r"<style>(.*?)</style>", shown.text, re.S))
    assert "@import" not in styles and "url(" not in styles
    for link in shown.links:
        if link.startswith("#"):
            assert link[1:] in shown.names, link
        elif not re.match(r"https?://", link):
            assert (path.parent / link.partition("#")[0]).exists(), (path.name, link)
    for image in shown.images:
        assert image["alt"].strip() and "No description" not in image["alt"]
        with Image.open(io.BytesIO(base64.b64decode(image["src"].partition(",")[2]))) as opened:
            opened.load()
            assert min(opened.size) > 1
    return shown


def test_every_page_is_whole_without_a_network(house):
    written = report.build(house / "figures", house)
    assert {path.name for path in written} == {"report.html", "report.md", "01_good.html", "README.md"}
    for path in written:
        if path.suffix == ".html":
            assert_offline(path)


def test_report_shows_every_claim_figure_count_and_gap(house):
    report.build(house / "figures", house)
    shown = Page(house / "figures" / "report.html")
    assert {f"claim-key-{number}" for number in range(4)} | {"claim-own", "fig2", "fig2_rates", "fig10"} <= shown.names
    assert "“a &lt; b | c”" in shown.text and "0.9 [0.8, 1.0];<br>0.7" in shown.text and "So &amp; so." in shown.text
    assert "holds if the moon is full" in shown.text
    assert re.findall(r"<b>(\d)</b>. ([a-z ]+)</li>", shown.text)[:4] == [("1", verdict) for verdict in claims.VERDICTS]
    assert (
        "make figures NB=01 PROFILE=paper" in shown.text and "stand-in data: Made up" in shown.text and "ab" * 32 in shown.text
    )
    assert "<b>Fig. 1</b> (Topology" in shown.text and shown.text.count(": not here.") == 6
    assert "make figures NB=03</code> makes it" in shown.text and "not part of this version" in shown.text
    assert "13 min" in shown.text and "12, 5 of them computed earlier" in shown.text and "How fast?" in shown.text
    assert "<mi>θ</mi>" in shown.text and '<td data-name="chosen">zero</td>' in shown.text
    text = (house / "figures" / "report.md").read_text(encoding="utf-8")
    assert text.count("**holds**") == 2 and "a &lt; b \\| c" in text and "| 03_later | not run |" in text


def test_verdicts_have_colour_and_word(house):
    report.build(house / "figures", house)
    text = (house / "figures" / "report.html").read_text(encoding="utf-8")
    for verdict, kind in (("holds", "yes"), ("holds if", "if"), ("does not hold", "no"), ("cannot be checked", "open")):
        assert re.search(rf'class="verdict {kind}">. {verdict}', text)
        assert re.search(rf"\.{kind} {{ color: #", text)


def test_the_same_figures_give_the_same_bytes(house):
    first = {path: path.read_bytes() for path in report.build(house / "figures", house)}
    second = {path: path.read_bytes() for path in report.build(house / "figures", house)}
    assert first == second


def test_readme_parts_are_renewed_and_the_rest_is_kept(house):
    report.build(house / "figures", house)
    text = (house / "README.md").read_text(encoding="utf-8")
    assert text.startswith("Before\n") and text.endswith("\nAfter\n") and "stale" not in text
    assert (
        '<img src="figures/fig2.png" alt="Fig. 2: Comparison' in text
        and "| 01_good | paper | 13 min (5 of 12 shards" in text
        and "5 verdicts" in text
    )


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


def test_a_damaged_record_is_named_in_one_line(house, capsys, monkeypatch):
    (house / "figures" / "fig2.json").write_text('{"figure": ')
    monkeypatch.setattr(__main__, "ROOT", house)
    assert __main__._report(argparse.Namespace(output=house / "figures")) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "fig2.json is not the record of a figure" in line
    assert not (house / "figures" / "report.html").exists()


def test_pictures_shrink_until_they_fit(tmp_path):
    paths = [tmp_path / f"{number}.png" for number in range(3)]
    for path in paths:
        noise = Image.effect_noise((600, 400), 80).convert("RGB")
        noise.save(path)
    free = pictures.embed(paths, [600] * 3, 10**9)
    fitted = pictures.embed(paths, [600] * 3, sum(map(len, free)) // 2)
    assert sum(map(len, fitted)) <= sum(map(len, free)) // 2
    assert pictures.size(base64.b64decode(fitted[0].partition(",")[2]))[0] < 600


def test_notebook_pages_lose_scripts_and_keep_pictures_small(house):
    report.build(house / "figures", house)
    shown = assert_offline(house / "figures" / "notebooks" / "01_good.html")
    assert "alert(1)" not in shown.text and "<msup><mi>x</mi>" in shown.text and "../../docs/silent_choices.md" in shown.links
    (image,) = shown.images
    assert image["alt"] == "Picture of the section “1. Is x^2 good?”"
    assert pictures.size(base64.b64decode(image["src"].partition(",")[2]))[0] == notebooks.WIDTH


FORMULAS = {
    r"\frac12": "<mfrac><mn>1</mn><mn>2</mn></mfrac>",
    r"x_t'^i": "<msubsup><mi>x</mi><mrow><mi>t</mi></mrow><mrow><mo>′</mo><mi>i</mi></mrow></msubsup>",
    r"\log_2 n": '<msub><mo lspace="0.17em" rspace="0.17em">log</mo><mrow><mn>2</mn></mrow></msub><mi>n</mi>',
    r"10^{-3.5}": "<msup><mn>10</mn><mrow><mrow><mo>−</mo><mn>3.5</mn></mrow></mrow></msup>",
    r"a < b": "<mi>a</mi><mo>&lt;</mo><mi>b</mi>",
    r"\text{all $i$ }": "<mtext>all $i$\N{NO-BREAK SPACE}</mtext>",
    r"\mathcal G\mathbb R": "<mi>𝒢</mi><mi>ℝ</mi>",
    r"\begin{cases}1 & x\\0\end{cases}": '<mrow><mo>{</mo><mtable columnalign="left"><mtr><mtd><mn>1</mn></mtd>'
    "<mtd><mi>x</mi></mtd></mtr><mtr><mtd><mn>0</mn></mtd></mtr></mtable></mrow>",
    r"\sum_t": '<munder><mo movablelimits="true">∑</mo><mrow><mi>t</mi></mrow></munder>',
}


@pytest.mark.parametrize("latex", FORMULAS)
def test_formulas(latex):
    assert f"<semantics><mrow>{FORMULAS[latex]}</mrow>" in mathml.convert(latex)


@pytest.mark.parametrize("latex", [r"\nonsense", r"\frac{1", "a}", r"\left( a", r"\begin{figure}x\end{figure}", "x^"])
def test_what_is_no_formula_is_refused_by_name(latex):
    with pytest.raises(mathml.FormulaError, match=re.escape(repr(latex))):
        mathml.convert(latex)


def formulas(text):
    text = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.S)
    return [block or inline for block, inline in re.findall(r"\$\$(.+?)\$\$|\$([^$\n]+?(?:\n[^$\n]+?)?)\$", text, re.S)]


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_formula_of_the_project_converts(path):
    if path.suffix == ".md":
        texts = [path.read_text(encoding="utf-8")]
    else:
        cells = nbformat.read(path, 4).cells
        texts = [cell.source for cell in cells if cell.cell_type == "markdown"]
        outputs = [output for cell in cells if cell.cell_type == "code" for output in cell.outputs]
        texts += [output["data"]["text/markdown"] for output in outputs if "text/markdown" in output.get("data", {})]
    for formula in (formula for text in texts for formula in formulas(text)):
        mathml.convert(formula)


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.name)
def test_the_committed_pages_are_offline_and_small(path):
    assert_offline(path)
    assert path.stat().st_size < (2.5e6 if path.name == "report.html" else 3e6)


def test_the_committed_report_and_readme_are_current():
    """Fails after results changed without `make report`."""
    found = gather.gather(FIGURES, ROOT)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert markdown.refresh(readme, found) == readme, "run make report"
    assert markdown.render(found) == (FIGURES / "report.md").read_text(encoding="utf-8"), "run make report"
    shown = Page(FIGURES / "report.html")
    assert {f"claim-{claim.key}" for claim in found.claims} | {figure.name for figure in found.figures} <= shown.names
    assert all(page._row(claim, figure, found.command(claim.notebook)) in shown.text for claim, figure in rows(found))
    assert {path.with_suffix(".html").name for path in found.executed} == {path.name for path in REAL[1:]}


def rows(found):
    figures = {figure.name: figure for figure in found.figures}
    return [(claim, figures.get(claim.figure)) for claim in found.claims]


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
