"""Every check accepts its solution, rejects usual mistakes, and does not give the answer away."""

import json
import math
import re
from pathlib import Path

import pytest

from companion import exercises
from companion.exercises import EXERCISES, check
from companion.publish import environment

SOLUTIONS = (Path(environment.ROOT) / "docs" / "solutions.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"(?s)```python\n(.*?)```", SOLUTIONS)
MISTAKES = [(name, place) for name, one in EXERCISES.items() for place in range(len(one.mistakes))]


def cells(number: str) -> list[str]:
    """Return the code cells of a notebook."""
    (path,) = (Path(environment.ROOT) / "notebooks").glob(f"0{number}_*.ipynb")
    found = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in found if cell["cell_type"] == "code"]


@pytest.mark.parametrize("name", EXERCISES)
def test_every_exercise_waits_in_its_notebook_once(name):
    asked = [cell for cell in cells(name[0]) if f'check("{name}", ...)' in cell]
    assert len(asked) == 1


def solved(block: str) -> exercises.Reply:
    """Return what the last line of a block, a call of `check`, answers."""
    *lines, last = block.strip().split("\n")
    known = {"check": check, "math": math}
    exec("\n".join(lines), known)
    return eval(last, known)


@pytest.mark.parametrize("name", EXERCISES)
def test_the_solution_is_right(name):
    block = next(block for block in BLOCKS if f'check("{name}"' in block)
    assert solved(block) and repr(solved(block)) == f"{name}: right."


@pytest.mark.parametrize(("name", "place"), MISTAKES)
def test_a_usual_mistake_gets_its_own_sentence(name, place):
    wrong, sentence = EXERCISES[name].mistakes[place]
    reply = check(name, wrong)
    assert not reply
    assert repr(reply) == f"{name}: not yet. {sentence}"


@pytest.mark.parametrize("name", EXERCISES)
def test_there_are_three_mistakes_and_none_gives_the_answer_away(name):
    exercise = EXERCISES[name]
    sentences = [exercise.otherwise, *(sentence for _, sentence in exercise.mistakes)]
    assert len(exercise.mistakes) >= 3 and len(set(sentences)) == len(sentences)
    words = {word.strip(".,;:?!()") for sentence in sentences for word in sentence.split()}
    assert not spelt(exercise.truth) & words


def spelt(truth) -> set[str]:
    """Return how a value might stand in a sentence; a function has no such word."""
    parts = truth if isinstance(truth, tuple) else (truth,)
    return {f"{part:g}" if isinstance(part, float) else str(part) for part in parts} - {"1"}


@pytest.mark.parametrize("name", EXERCISES)
@pytest.mark.parametrize("nonsense", [None, "quantised", [1.0, 2.0, 3.0], 12345.0, lambda: 1])
def test_nonsense_is_answered_in_one_sentence(name, nonsense):
    reply = check(name, nonsense)
    assert not reply and "\n" not in repr(reply) and repr(reply).startswith(f"{name}: not yet. ")


@pytest.mark.parametrize("name", EXERCISES)
def test_dots_ask_for_an_answer(name):
    assert repr(check(name, ...)) == f"{name}: put your answer in place of the dots."
    assert EXERCISES[name].question.endswith((".", "?"))


def test_a_function_of_dots_asks_for_an_answer():
    assert repr(check("1.4", lambda y, d: ...)).endswith("Put your answer in place of the dots.")


@pytest.mark.parametrize(("name", "word"), [("1.1", "160"), ("3.4", "10%"), ("3.4", "01")])
def test_a_word_is_no_number(name, word):
    """Its letters are not compared with those of a number: 16.0 is not "160"."""
    reply = repr(check(name, word))
    assert reply.endswith(EXERCISES[name].otherwise)


def test_an_exercise_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match=r"exercise '9\.9' must be one of 1\.1, 1\.2"):
        check("9.9", 1)
