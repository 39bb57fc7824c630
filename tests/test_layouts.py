"""Compiled loops read where they are told to: every one of them has a layout in front of it, and no
layout is too wide.

The functions are found, not listed: who adds a compiled function without a layout fails here.
"""

import ast
import importlib
import inspect
import os
import pkgutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numba.core.registry import CPUDispatcher

import companion
import ldp_core
from companion.problems import logistic, onehot
from ldp_core import checks, engine, network, optimizer
from ldp_core.checks import layout

ROOT = Path(__file__).parents[1]
COMPILERS = {
    "njit",
    "jit",
    "vectorize",
    "guvectorize",
    "cfunc",
    "stencil",
    "generated_jit",
    "jitclass",
}
PRIMES = (2, 3, 5, 7, 11, 13, 17, 19)


@cache
def modules() -> dict:
    """Return every module of the two packages, by name."""
    found = [
        name
        for package in (ldp_core, companion)
        for _, name, _ in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    ]
    return {name: importlib.import_module(name) for name in found if not name.endswith("__main__")}


@cache
def tree(name: str) -> ast.Module:
    return ast.parse(Path(modules()[name].__file__).read_text(encoding="utf-8"))


def guarded_functions() -> dict:
    """Return the compiled functions that have a layout, by module and name."""
    return {
        f"{name}.{key}": value
        for name, module in modules().items()
        for key, value in vars(module).items()
        if inspect.isfunction(value) and hasattr(value, "layout") and value.__module__ == name
    }


def unguarded() -> set[tuple[str, str]]:
    """Return module and name of the compiled functions that have none: loops that other compiled
    functions call.
    """
    return {
        (value.__module__, key)
        for module in modules().values()
        for key, value in vars(module).items()
        if isinstance(value, CPUDispatcher)
    }


GUARDED = guarded_functions()


def test_the_compiled_functions_are_found():
    assert len(GUARDED) >= 5 and len(unguarded()) >= 7
    assert all(isinstance(function.__wrapped__, CPUDispatcher) for function in GUARDED.values())


@pytest.mark.parametrize("name", modules())
def test_what_has_no_layout_is_called_by_compiled_functions_alone(name):
    """Outside of the bodies of compiled functions the name of an unguarded one must not occur."""
    compiled = {key for module, key in unguarded() if module == name} | {
        function.__name__ for function in GUARDED.values() if function.__module__ == name
    }
    loops = {key for _, key in unguarded()}
    for node in tree(name).body:
        if isinstance(node, ast.FunctionDef) and node.name in compiled:
            continue
        used = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        used |= {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}
        own = {
            key for key in used & loops if isinstance(vars(modules()[name]).get(key), CPUDispatcher)
        }
        assert not own, (
            f"{name}: {own} may read beyond its arrays and needs a layout (ldp_core.checks)"
        )


@pytest.mark.parametrize("name", modules())
def test_nothing_is_compiled_where_it_is_not_seen(name):
    """A compiler is named in a decorator, or at the top of a module."""
    inside = {
        part.attr
        for node in ast.walk(tree(name))
        if isinstance(node, ast.FunctionDef)
        for statement in node.body
        for part in ast.walk(statement)
        if isinstance(part, ast.Attribute)
    }
    assert not inside & COMPILERS
    imported = {
        alias.name
        for node in ast.walk(tree(name))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert not imported & (COMPILERS | {"ctypes", "cffi", "as_strided"})


def axes(function) -> dict[str, list[str]]:
    """Return the axes of the arrays of a guarded function: `runs`, `2` or `>=seen`."""
    return {name: text.split() for name, text in function.layout.items() if isinstance(text, str)}


def sizes_of(function) -> dict[str, int]:
    """Return a size for every word in a layout: its own for every name, what it says for others."""
    words = [word.removeprefix(">=") for group in axes(function).values() for word in group]
    words += [name for name, text in function.layout.items() if text is int]
    names = dict.fromkeys(word for word in words if not word.isdigit())
    sizes = dict(zip(names, PRIMES, strict=False))
    return sizes | {word: int(word) for word in words if word.isdigit()}


def fitting(function) -> dict:
    """Return arguments that a layout just allows: no array is larger than it must be."""
    sizes, shapes = sizes_of(function), axes(function)
    return {
        name: np.zeros([sizes[word.removeprefix(">=")] for word in shapes[name]])
        if name in shapes
        else sizes.get(name, 1.0)
        for name in function.layout
    }


def wrong_shapes(function, name: str):
    """Yield arrays that must not be accepted in place of a fitting one."""
    good, group = fitting(function)[name], axes(function)[name]
    yield from (good[None], good[0], good.tolist(), "text", 1.0, None)
    others = [word for other in axes(function).values() for word in other]
    for place, word in enumerate(group):
        for change in wrong_changes(word, others):
            yield np.zeros([size + change * (place == at) for at, size in enumerate(good.shape)])


def wrong_changes(word: str, others: list[str]) -> list[int]:
    """Return by how much this axis alone must not change: a size that nothing else names may."""
    if word.startswith(">="):
        return [-1]
    return [-1, 1] if word.isdigit() or others.count(word) > 1 else []


ARRAYS = [(entry, name) for entry, function in GUARDED.items() for name in axes(function)]


@pytest.mark.parametrize(("entry", "name"), ARRAYS, ids=lambda part: part.rpartition(".")[2])
def test_a_compiled_function_refuses_every_wrong_shape_of_every_array(entry, name):
    function, good = GUARDED[entry], fitting(GUARDED[entry])
    for wrong in wrong_shapes(function, name):
        with pytest.raises(ValueError) as refused:
            function(*(good | {name: wrong}).values())
        sentence = str(refused.value)
        assert sentence.partition(" ")[0] in function.layout and "\n" not in sentence, sentence
        assert " must be " in sentence and len(sentence) < 200


@pytest.mark.parametrize("entry", GUARDED)
def test_sizes_that_are_numbers_are_refused_too(entry):
    function, good = GUARDED[entry], fitting(GUARDED[entry])
    for name in (name for name, text in function.layout.items() if text is int):
        for wrong in (-1, 2.5, None, "3", True):
            with pytest.raises(ValueError, match=f"^{name} = "):
                function(*(good | {name: wrong}).values())


def test_a_layout_that_forgets_an_argument_is_none():
    with pytest.raises(TypeError, match="the layout must name each of a, b"):
        layout(a="n")(lambda a, b: a)


IN_PYTHON = """
import sys
import numpy as np
from tests import test_layouts
INTEGERS = {"entries", "rows", "distinct", "places", "found", "winner", "levels"}
LONG = {"streams": np.uint64, "second": np.int64, "first": np.int64}
for entry, function in test_layouts.GUARDED.items():
    given = {}
    for name, value in test_layouts.fitting(function).items():
        if isinstance(value, np.ndarray):
            value = value.astype(LONG.get(name, np.int64 if name in INTEGERS else np.float64))
            value = value + 0.5 if value.dtype.kind == "f" else value
        given[name] = value
    with np.errstate(all="ignore"):
        function(*given.values())
    print(entry)
"""


def test_no_layout_is_too_wide():
    """Without the compiler numpy looks at every index: with the smallest arrays that are allowed
    none is out of bounds.
    """
    settings = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        [sys.executable, "-c", IN_PYTHON], cwd=ROOT, env=settings, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert set(ended.stdout.split()) == set(GUARDED)


def compiled(dither=None):
    schedules = optimizer.paper_schedules(0.5, 0.71, 2.0, 0.01, 0.6)
    return engine.Compiled(optimizer.Algorithm1(network.paper(), schedules, dither=dither))


@pytest.mark.parametrize("fast", [True, False])
def test_an_oracle_of_a_shape_that_would_be_broadcast_is_refused(fast):
    algorithm = compiled() if fast else compiled().plain
    with pytest.raises(
        ValueError, match=r"oracle\(theta, 0\) has shape \(1, 5, 3\): it must be \(200, 5, 3\)"
    ):
        optimizer.run(
            algorithm, lambda theta, t: np.ones((1, 5, 3)), np.zeros((200, 5, 3)), 3, seed=0
        )


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize(
    "shape", [(1, 2, 5, 3), (50, 1, 5, 3), (50, 2, 5, 1), (2, 5, 3), (50, 2, 5, 4)]
)
def test_coins_and_dither_of_other_shapes_are_refused(fast, shape):
    zeros, right = np.zeros((50, 5, 3)), np.zeros((50, 2, 5, 3))
    plain, dithered = (
        algorithm if fast else algorithm.plain for algorithm in (compiled(), compiled(8))
    )
    for algorithm, draws, name in (
        (plain, np.zeros(shape), "coins"),
        (dithered, optimizer.Dithered(np.zeros(shape), right), "coins"),
        (dithered, optimizer.Dithered(right, np.zeros(shape)), "dither"),
    ):
        with pytest.raises(ValueError, match=f"^{name} has shape .*: it must be "):
            algorithm.step(algorithm.init(zeros), zeros, draws)


def features():
    return onehot.OneHot(np.array([[0, 1], [1, 0], [1, 1]]), (2, 2))


@pytest.mark.parametrize(
    ("theta", "rows", "sentence"),
    [
        (np.zeros(5), [0], r"theta has shape \(5,\): its last axis must be 4"),
        (np.zeros(4), [3], r"rows must hold row numbers in \[0, 3\)"),
        (np.zeros(4), [-1], r"rows must hold row numbers in \[0, 3\)"),
        (np.zeros(4), [0.5], r"rows must hold row numbers in \[0, 3\)"),
        (np.zeros(4), 2, r"rows must hold row numbers in \[0, 3\)"),
        (
            np.zeros((2, 4)),
            np.zeros((3, 1), int),
            r"rows has shape \(3, 1\): it must be \[n\] or \[..., n\]",
        ),
    ],
)
def test_rows_and_columns_that_are_not_there_are_not_looked_up(theta, rows, sentence):
    for look in (
        logistic.logits,
        lambda *given: logistic.accuracy(given[0], [1, -1, 1], *given[1:]),
    ):
        with pytest.raises(ValueError, match=sentence):
            look(features(), theta, rows)


@pytest.mark.parametrize("number", [2.5, None, "3", True, np.True_, -1])
def test_whole_numbers_are_whole(number):
    with pytest.raises(ValueError, match=r"^count = .* must be"):
        checks.whole("count", number)
    assert checks.whole("count", np.int32(4)) == 4
