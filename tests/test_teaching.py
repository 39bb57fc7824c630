"""The lesson plan: its minutes add up, its numbers are the pages', what it names is there."""

import itertools
import math
import re
from pathlib import Path

import pytest

from companion.exercises import EXERCISES
from companion.publish import environment
from companion.publish.play import build, handout, pages
from companion.publish.play.pages.controls import Control
from companion.publish.play.slides import slides

ROOT = Path(environment.ROOT)
PLAN = (ROOT / "docs" / "teaching.md").read_text(encoding="utf-8")
NUMBERS = re.findall(r"(?m)^\| (The \w+|Learning) \| (.+?) \| (.+?) \| ([\d.]+)( %)? \|$", PLAN)
NAMES = {page.TITLE: name for name, page in pages.PAGES.items()}
SHOWN = re.compile(r'\["([^"]+)", [^\]]*?\b(?:found|all)\.(\w+)')  # a number's words and name
BUTTONS = ("Watch it move", "Next round", "Let the best attacker play 1000 rounds")
BUTTONS += ("The lines behind it", "Back to the original", "Try", "the best anybody can do")
ROWS = (
    "over an infinite number of iterations while maintaining the convergence accuracy",
    "Euclidean alignment hides who it was",
)


def section(title: str) -> str:
    """Return the text of a section."""
    return PLAN.partition(f"\n## {title}")[2].partition("\n## ")[0]


def turned(page: str, words: str) -> list[tuple[Control, float]]:
    """Return the sliders that a row names by a word of their labels, and where they are turned."""
    controls = pages.PAGES[NAMES[page]].CONTROLS
    pairs = (assignment.split(" = ") for assignment in words.split(", "))
    return [(next(c for c in controls if word in c.label), float(value)) for word, value in pairs]


def found(page: str, words: str) -> dict:
    """Return a page's numbers when some controls are turned and the others stand at their start."""
    name = NAMES[page]
    settings = {one.name: one.value(one.start) for one in pages.PAGES[name].CONTROLS}
    for control, value in turned(page, words):
        settings[control.name] = type(settings[control.name])(value)
    return pages.answer(name, settings | ({"seed": 1, "rounds": 1} if name == "game" else {}))


@pytest.mark.parametrize(("page", "words"), [row[:2] for row in NUMBERS])
def test_what_is_to_be_turned_can_be_turned(page, words):
    """A slider stops at the value that the plan asks for."""
    for control, value in turned(page, words):
        place = math.log10(value) if control.power else value
        steps = (place - control.least) / control.step
        assert control.least <= place <= control.most and abs(steps - round(steps)) < 1e-9


def told(page: str, words: str, label: str) -> float:
    """Return a number by the words that the page has for it; of a run, its distance at the end."""
    script = (build.HERE / "static" / f"{NAMES[page]}.js").read_text(encoding="utf-8")
    number = found(page, words)[dict(SHOWN.findall(script))[label]]
    return number["error"][-1] if isinstance(number, dict) else number


@pytest.mark.parametrize(("page", "words", "label", "value", "percent"), NUMBERS)
def test_a_number_is_what_the_page_shows(page, words, label, value, percent):
    """To half a unit of the last digit that is printed."""
    scale, digits = (100 if percent else 1), len(value.partition(".")[2])
    exact = scale * told(page, words, label)
    assert abs(exact - float(value)) <= 0.5001 * 10.0**-digits


def test_who_counts_most_is_who_the_plan_says():
    net = pages.network.network.paper(pages.network.WEIGHT)
    u, v = f"u = {max(net.u):.2f}", f"v = {max(net.v):.2f}"
    assert f"agent 0 with {u}, in C agents 1 and 2 with {v}" in " ".join(PLAN.split())
    assert net.u.argmax() == 0 and set(net.v.argsort()[-2:]) == {1, 2}


def test_what_the_plan_says_of_the_game():
    """The best attacker wins 9 of 10 about every other time, and hears most from the tracker."""
    limit = found("The game", "d₀ = 2.0")["limit"]
    nine = math.comb(10, 9) * limit**9 * (1 - limit) + limit**10
    assert 0.4 < nine < 0.6
    blue, orange, step = pages.game.worlds(2.0, 1.0, 6)
    model, tracker = (
        pages.game.exact.delta(pages.game.exact.pair(blue[:, [k]], orange[:, [k]], step))[0]
        for k in (0, 1)
    )
    assert tracker > 0.95 * (2 * limit - 1) and model < 0.2


def test_the_question_of_the_plan_is_not_answered_before_it_is_asked():
    """Slide 1 does not say how often 0.3 is sent as 1, and the handout not what 1.4 asks for."""
    assert "probability" not in slides(ROOT)[0]["text"]
    printed = handout.html(ROOT, dict.fromkeys(pages.PAGES, ""))
    assert "variance" not in printed.partition("<table>")[2].partition("</table>")[0]


def test_a_weight_too_small_keeps_the_agents_apart_without_rounding():
    """Orange ends where it did, and blue as far away: what the plan answers to 'no difference!'"""
    usual, small = (found("Learning", f"weight = {weight}") for weight in (0.2, 0.05))
    ends = [run[kind]["error"][-1] for run in (usual, small) for kind in ("rounded", "twin")]
    assert abs(ends[2] / ends[0] - 1) < 0.2 and abs(ends[3] / ends[2] - 1) < 0.1


def test_every_button_and_row_that_the_plan_names_is_there():
    made = [*(build.HERE / "static").glob("*.js"), *(build.HERE / "templates").glob("*.html")]
    pages_text = " ".join(path.read_text(encoding="utf-8") for path in made)
    plan = " ".join(PLAN.split())
    claimed = " ".join((ROOT / "notebooks" / "claims.yaml").read_text(encoding="utf-8").split())
    for words in BUTTONS:
        assert f"*{words}*" in plan and words in pages_text
    for words in ROWS:
        assert words in plan and words in claimed


def test_every_row_of_the_table_is_read():
    rows = [line for line in section("Numbers to expect").splitlines() if line.startswith("| ")]
    assert len(NUMBERS) == len(rows) - 1


@pytest.mark.parametrize("title", ["Minute by minute", "A second class, with the notebooks"])
def test_ninety_minutes_are_ninety_minutes(title):
    spans = [
        tuple(map(int, span)) for span in re.findall(r"(?m)^\| (\d+)–(\d+) \|", section(title))
    ]
    assert spans[0][0] == 0 and spans[-1][1] == 90
    assert all(first[1] == second[0] for first, second in itertools.pairwise(spans))


def test_every_part_of_the_table_is_told():
    text = section("Minute by minute")
    assert re.findall(r"(?m)^\| (\d+–\d+) \|", text) == re.findall(r"(?m)^### (\d+–\d+):", text)


def test_what_the_plan_names_is_there():
    titles = {page.TITLE for page in pages.PAGES.values()}
    assert set(re.findall(r"page \*(.+?)\*", PLAN)) == titles
    for first, last in re.findall(r"\| (\d\.\d)–(\d\.\d) \|", PLAN):
        assert first in EXERCISES and last in EXERCISES
    named = set(re.findall(r"\]\(([\w./]+)\)", PLAN))
    assert all((ROOT / "docs" / name).is_file() for name in named)


def test_slides_ask_the_questions_of_the_pages_and_have_notes():
    deck = slides(ROOT)
    assert [slide["page"] for slide in deck if slide["page"]] == list(pages.PAGES)
    for slide in deck:
        page = slide["page"]
        assert slide["notes"] and (not page or slide["title"] == pages.PAGES[page].QUESTION)
    assert f"| slide {len(deck)} |" in PLAN and "| slide 2, page *The quantizer* |" in PLAN


def test_the_handout_is_up_to_date_and_has_two_pages():
    """Else: .venv/bin/python -m companion play --handout"""
    printed = (ROOT / handout.PLACE).read_bytes()
    assert printed.splitlines()[-1].decode() == f"%{handout.fingerprint(ROOT)}"
    assert len(re.findall(rb"/Type /Page\b", printed)) == 2
    assert "network.from_edges" in handout.homework(ROOT)


def test_every_task_of_a_page_is_solved():
    solved = " ".join((ROOT / "docs" / "solutions.md").read_text(encoding="utf-8").split())
    for page in pages.PAGES.values():
        assert f"**{page.TITLE}**" in solved
        assert not [task for task in page.TRY if f"- *{task}* " not in solved]
