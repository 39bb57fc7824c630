"""The lesson plan: its minutes add up, its numbers are the pages', what it names is there."""

import itertools
import math
import re
from pathlib import Path

import pytest

from companion.exercises import EXERCISES
from companion.publish import environment
from companion.publish.play import handout, pages
from companion.publish.play.slides import slides

ROOT = Path(environment.ROOT)
PLAN = (ROOT / "docs" / "teaching.md").read_text(encoding="utf-8")
NUMBERS = re.findall(r"(?m)^\| (\w+) \| ([\w =.,]+) \| (\w+) \| ([\d.]+)( %)? \|$", PLAN)


def section(title: str) -> str:
    """Return the text of a section."""
    return PLAN.partition(f"\n## {title}")[2].partition("\n## ")[0]


def found(page: str, turned: str) -> dict:
    """Return a page's numbers when some controls are turned and the others stand at their start."""
    controls = pages.PAGES[page].CONTROLS
    settings = {control.name: control.value(control.start) for control in controls}
    more = (assignment.split(" = ") for assignment in turned.split(", "))
    settings |= {name: type(settings[name])(float(value)) for name, value in more}
    return pages.answer(page, settings | ({"seed": 1, "rounds": 1} if page == "game" else {}))


@pytest.mark.parametrize(("page", "turned"), [row[:2] for row in NUMBERS])
def test_what_is_to_be_turned_can_be_turned(page, turned):
    """A slider stops at the value that the plan asks for."""
    controls = {control.name: control for control in pages.PAGES[page].CONTROLS}
    for name, value in (assignment.split(" = ") for assignment in turned.split(", ")):
        control = controls[name]
        place = math.log10(float(value)) if control.power else float(value)
        steps = (place - control.least) / control.step
        assert control.least <= place <= control.most and abs(steps - round(steps)) < 1e-9


def told(numbers: dict, name: str) -> float:
    """Return a number of an answer; of a run, its distance at the end."""
    return numbers[name]["error"][-1] if isinstance(numbers[name], dict) else numbers[name]


@pytest.mark.parametrize(("page", "turned", "name", "value", "percent"), NUMBERS)
def test_a_number_is_what_the_page_shows(page, turned, name, value, percent):
    """To half a unit of the last digit that is printed."""
    scale, digits = (100 if percent else 1), len(value.partition(".")[2])
    exact = scale * told(found(page, turned), name)
    assert abs(exact - float(value)) <= 0.5001 * 10.0**-digits


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
    assert [slide.page for slide in deck if slide.page] == list(pages.PAGES)
    for slide in deck:
        assert slide.notes and (not slide.page or slide.title == pages.PAGES[slide.page].QUESTION)
    assert f"| slide {len(deck)} |" in PLAN and "| slides 1–2 |" in PLAN


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
