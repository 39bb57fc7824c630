"""The core as a whole: numpy is all it needs, its examples are true, and it stays small."""

from __future__ import annotations

import ast
import doctest
import importlib
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import ldp_core

ROOT = Path(__file__).parents[1]
TOUR = ROOT / "tests" / "reference" / "tour.py"
MODULES = [name for _, name, _ in pkgutil.walk_packages(ldp_core.__path__, "ldp_core.")]
MOST_LINES = 400


def toured(*options: str) -> list[str]:
    """Return what a walk through all public functions prints."""
    settings = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(TOUR), *options]
    ended = subprocess.run(command, env=settings, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    return ended.stdout.splitlines()


def test_every_public_function_runs_with_numpy_alone_and_gives_the_same_bits():
    """Once with, and once without scipy, numba, torch and pandas."""
    whole, alone = toured(), toured("blocked")
    assert alone[-1] == "not called:", alone[-1]
    assert whole[:-1] == alone[:-1]


@pytest.mark.parametrize("name", MODULES)
def test_the_example_at_the_head_of_a_module_is_true(name):
    module = importlib.import_module(name)
    assert ">>> " in ast.get_docstring(ast.parse(Path(module.__file__).read_text()))
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_short(name):
    text = Path(importlib.import_module(name).__file__).read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MOST_LINES
    assert max(map(len, text.splitlines())) <= 100
