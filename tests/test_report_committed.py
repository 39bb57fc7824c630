"""The committed report: is up to date, and every number of its answer is a result."""

import itertools
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import pytest
from matplotlib.transforms import Bbox

from companion.publish import environment
from companion.publish.report import answer, gather, headline, markdown, markup, page
from tests.pages import Page, assert_offline

ROOT = Path(environment.ROOT)
FIGURES = ROOT / "figures"
REAL = [FIGURES / "report.html", *sorted((FIGURES / "notebooks").glob("*.html"))]


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.name)
def test_the_committed_pages_are_offline_and_small(path):
    assert_offline(path)
    assert path.stat().st_size < (2.5e6 if path.name == "report.html" else 3e6)


def test_the_headline_is_drawn_from_the_committed_records():
    found = gather.gather(FIGURES, ROOT)
    assert headline.draw(found) == headline.draw(found)
    with pytest.raises(KeyError):
        headline.draw(replace(found, figures=[]))


def test_words_in_the_headline_lie_on_nothing():
    """Neither on each other nor on a bar: numbers, and below them whose they are."""
    with mpl.rc_context(headline.STYLE):
        figure = headline.picture(gather.gather(FIGURES, ROOT))
        figure.canvas.draw()
    texts = [text for axes in figure.axes for text in axes.texts]
    bars = [bar for bar in figure.axes[1].patches if bar.get_width()]
    boxes = [one.get_window_extent() for one in [*texts, *bars]]
    pairs = itertools.combinations(boxes, 2)
    assert not [pair for pair in pairs if Bbox.intersection(*pair) is not None]


def test_the_committed_report_and_readme_are_current():
    """Fails after results changed without `make report`."""
    found = gather.gather(FIGURES, ROOT)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert markdown.refresh(readme, found) == readme, "run make report"
    assert markdown.render(found) == (FIGURES / "report.md").read_text(encoding="utf-8"), (
        "run make report"
    )
    shown = Page(FIGURES / "report.html")
    names = {f"claim-{claim.key}" for claim in found.claims} | {
        figure.name for figure in found.figures
    }
    assert names <= shown.names
    row = markup.environment.get_template("macros.html").module.claim
    assert all(row(claim, found, page.brief) in shown.text for claim in found.claims), (
        "run make report"
    )
    assert {path.with_suffix(".html").name for path in found.executed} == {
        path.name for path in REAL[1:]
    }


def test_the_answer_is_complete_and_every_number_of_it_is_a_result():
    """The sentences change with the results, so none of their numbers is typed."""
    found = gather.gather(FIGURES, ROOT)
    given = answer.answer(found)
    assert [question for question, *_ in given] == list(answer.SENTENCES)
    assert all(short != "Not run yet" and rest for _, short, rest in given)
    text = " ".join(" ".join(parts) for parts in given)
    assert (
        f"{100 * found.figure('fig2').numbers['final_difference']['mean']:+.1f} points on mushrooms"
        in text
    )
    power = found.figure("fig3_bounds").numbers["log10_delta"]["theorem 2.1"]
    assert f"{10**power:,.0f}" in text
    assert (
        f"{found.counts(False)['holds']} of {sum(found.counts(False).values())} as written" in text
    )


def changed(found, name, numbers):
    """Return the results with other numbers in one figure."""
    others = [figure for figure in found.figures if figure.name != name]
    return replace(found, figures=[*others, replace(found.figure(name), numbers=numbers)])


def judged(found, **verdicts):
    """Return the results with other verdicts."""
    new = {key.replace("_", "-"): value for key, value in verdicts.items()}
    rows = [replace(found.claim(key), verdict=new[key], condition="") for key in new]
    return replace(found, claims=[*(row for row in found.claims if row.key not in new), *rows])


def test_the_answer_follows_the_results():
    found = gather.gather(FIGURES, ROOT)
    numbers = {"final_difference": {"mean": -0.123}}
    assert "-12.3 points on mushrooms" in answer.converges(changed(found, "fig2", numbers))[1]
    assert answer.converges(judged(found, theorem_1_b="does not hold"))[0] == "No"
    assert answer.private(judged(found, infinite_and_accurate="holds"))[0] == "Yes, by proof"
    no = "does not hold"
    leaky = judged(found, attack_on_algorithm_1=no, identity_protected=no)
    assert answer.attacked(leaky)[0] == "Images and identities and labels leak"
    decided = judged(leaky, identity_protected="cannot be checked")  # by thirty people
    assert answer.attacked(decided)[0] == "Images and identities and labels leak"
    unclear = judged(decided, identity_of_many="cannot be checked")
    assert answer.attacked(unclear)[0] == "Images and labels leak, identities are undecided"
    safe = judged(found, labels_not_protected="holds", identity_protected="holds")
    assert answer.attacked(safe)[0] == "Images and identities and labels stay hidden"
    assert answer.answer(replace(found, figures=[]))[0][1] == "Not run yet"


def test_the_headlines_of_the_readme_exist():
    found = gather.gather(FIGURES, ROOT)
    assert 5 <= len(markdown.HEADLINES) <= 7
    assert set(markdown.HEADLINES) <= {claim.key for claim in found.claims}
