"""Nonsense for every argument of every public function of the core: one sentence, or an answer.

`tests/reference/tour.py` calls each of them once with arguments that make sense. Here each of these
arguments in turn is replaced by what makes none. The function may take it; if it does not, it must
refuse it by a sentence of ours: no text of numpy or Python reaches whoever calls it.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib
import inspect
import pkgutil
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ldp_core
from ldp_core.optimizer import Diverged
from tests.reference import tour

CORE = str(Path(ldp_core.__file__).parent)
NONSENSE = {
    "nothing": None,
    "a word": "text",
    "an empty list": [],
    "lists of different lengths": [[1.0], [1.0, 2.0]],
    "an object": object(),
    "half": 2.5,
    "minus one": -1,
    "not a number": float("nan"),
    "a complex number": 1j,
    "an array of another shape": np.zeros((7, 7, 7)),
    "an array of words": np.array(["a"]),
    "a dictionary": {},
    "yes": True,
    "zero": 0,
}
# a protocol without code, an error that the core raises, and loops that `checks.layout` guards
# (tests/test_layouts.py gives them wrong shapes)
ASIDE = ("optimizer.Algorithm.", "optimizer.Diverged", "kernels.draw", "kernels.joint_loss")


def doors() -> dict[str, Callable]:
    """Return every function, method and constructor that can be called, by name."""
    found: dict[str, Callable] = {}
    for _, name, _ in pkgutil.walk_packages(ldp_core.__path__, "ldp_core."):
        module, room = importlib.import_module(name), name.removeprefix("ldp_core.")
        for key, value in vars(module).items():
            own = not key.startswith("_") and getattr(value, "__module__", None) == name
            if not own or room == "checks":
                continue
            if inspect.isclass(value):
                found |= {f"{room}.{key}.{part}": method for part, method in _methods(value)}
            elif callable(value):
                found[f"{room}.{key}"] = value
    return {name: one for name, one in found.items() if not any(part in name for part in ASIDE)}


def _methods(one: type) -> Iterator[tuple[str, Callable]]:
    for part, method in vars(one).items():
        written = inspect.isfunction(method) and _code(method).co_filename != "<string>"
        if written and (part in ("__init__", "__call__") or not part.startswith("_")):
            yield part, method


def _code(function: Callable):
    return inspect.unwrap(function).__code__


@functools.cache
def calls() -> dict[str, dict[str, Any]]:
    """Return by name the arguments of the tour's first call of every door."""
    wanted = {_code(function): name for name, function in doors().items()}
    found: dict[str, dict[str, Any]] = {}

    def watch(frame, event, argument) -> None:
        name = wanted.get(frame.f_code) if event == "call" else None
        if name is not None and name not in found:
            given = inspect.getargvalues(frame)
            found[name] = {one: copy.copy(given.locals[one]) for one in given.args}
            found[name] |= dict(given.locals[given.keywords]) if given.keywords else {}

    sys.setprofile(watch)
    try:
        tour.walk()
    finally:
        sys.setprofile(None)
    return found


def complaint(function: Callable, arguments: dict[str, Any]) -> str:
    """Return what is wrong with how a function takes its arguments, or nothing."""
    given = dict(arguments)
    own = [given.pop("self")] if "self" in given else []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            warnings.simplefilter("error", np.exceptions.ComplexWarning)
            answer = function(*own, **given)
            if inspect.isgenerator(answer):
                list(answer)
    except Diverged:
        return ""
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        ours = last.filename.startswith(CORE) and (last.line or "").startswith("raise")
        if isinstance(error, ValueError) and ours and "\n" not in str(error):
            return ""
        return f"{type(error).__name__}: {error} ({last.name})"
    return ""


def _fresh(arguments: dict[str, Any], name: str) -> dict[str, Any]:
    """Return copies, so that no call spoils the next one; a constructor gets a new object."""
    copies = {}
    for one, value in arguments.items():
        copies[one] = value
        with contextlib.suppress(TypeError):  # generators of random numbers hold a lock
            copies[one] = copy.deepcopy(value)
    if name.endswith("__init__"):
        copies["self"] = object.__new__(type(arguments["self"]))
    return copies


@pytest.mark.parametrize("name", sorted(doors()))
def test_nonsense_is_refused_in_one_sentence_of_ours(name):
    arguments, wrong = calls()[name], []
    for one in arguments.keys() - {"self"}:
        for what, nonsense in NONSENSE.items():
            found = complaint(doors()[name], {**_fresh(arguments, name), one: nonsense})
            wrong += [f"{one} = {what}: {found}"] if found else []
    assert not wrong, "\n".join(wrong)


def test_a_function_without_questions_answers_in_words_of_numpy():
    bare, found = inspect.unwrap(doors()["quantizer.bits_entropy"]), doors()["optimizer.resume"]
    assert complaint(bare, {"levels": [[1.0], [1.0, 2.0]]}).startswith("ValueError: setting an")
    arguments = {**_fresh(calls()["optimizer.resume"], "optimizer.resume"), "oracle": None}
    assert complaint(inspect.unwrap(found), arguments).startswith("TypeError: 'NoneType'")
    assert complaint(found, arguments) == ""
