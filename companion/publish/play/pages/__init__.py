"""What the five pages compute: numbers from settings, with numpy alone, here and in a browser.

    >>> numbers = {"y": 0.25, "other": 0.5}
    >>> found = answer("quantizer", numbers | {"step": 1.0, "dither": 0.0, "degree": 1})
    >>> found["mean"], found["delta"]
    (0.25, 0.25)

A page is a module with a question, controls, and `answer`: a function of the controls whose few
lines the page shows and lets its reader change. `run` carries out lines that were changed.
"""

from __future__ import annotations

import inspect
import math
import textwrap
from types import ModuleType
from typing import Any

import numpy as np

from companion import exercises
from companion.publish.play.pages import game, learning, network, promise, quantizer

PAGES: dict[str, ModuleType] = {
    "quantizer": quantizer,
    "network": network,
    "learning": learning,
    "game": game,
    "promise": promise,
}


def answer(name: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Return what a page draws at the given settings: lists and numbers, or one `sentence`."""
    return _told(PAGES[name].answer, settings)


def run(name: str, settings: dict[str, Any], lines: str) -> dict[str, Any]:
    """Return the same when the lines of `answer` are those that a reader has written.

    They know math and numpy (as np), and may also be an exercise:
    `return check("1.4", lambda y, d: ...)`.
    """
    known = vars(PAGES[name]) | {"check": exercises.check, "math": math, "np": np}
    try:
        exec(f"{header(name)}\n{textwrap.indent(textwrap.dedent(lines), '    ')}", known)
    except SyntaxError as error:
        return {"sentence": f"line {(error.lineno or 1) - 1}: {error.msg}"}
    return _told(known["answer"], settings)


def header(name: str) -> str:
    """Return the first line of a page's function, which names what the lines may use."""
    return f"def answer({', '.join(inspect.signature(PAGES[name].answer).parameters)}):"


def lines(name: str) -> str:
    """Return the lines that a page shows: the body of its `answer`, without the docstring."""
    source = inspect.getsource(PAGES[name].answer)
    return textwrap.dedent(source.partition('"""')[2].partition('"""')[2]).strip("\n")


def plain(value: Any) -> Any:
    """Return arrays as lists, numbers as Python's, and None for what is not finite: as JSON has."""
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _told(function, settings: dict[str, Any]) -> dict[str, Any]:
    try:
        found = function(**settings)
        found = {"sentence": str(found)} if isinstance(found, exercises.Reply) else plain(found)
    except Exception as error:  # the reader's own lines may raise anything
        expected = isinstance(error, ValueError | ArithmeticError)
        return {"sentence": str(error) if expected else f"{type(error).__name__}: {error}"}
    rule = "the lines must return what the picture shows, or an exercise: return check(...)"
    return found if isinstance(found, dict) else {"sentence": rule}
