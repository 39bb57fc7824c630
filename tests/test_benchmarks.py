"""Every benchmark runs, in its small size, through the command that `make bench` uses, and measures
something."""

from __future__ import annotations

import math
import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("[a-z]*.py")))
def test_a_benchmark_runs_quickly_and_returns_its_measurements(name, capsys):
    found = runpy.run_path(str(FOLDER / f"{name}.py"))["main"](quick=True)
    assert (
        found
        and all(math.isfinite(value) and value > 0 for value in found.values())
        and capsys.readouterr().out
    )
