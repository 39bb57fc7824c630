"""Every benchmark runs, in its small size, through the command that `make bench` uses, and measures
something."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from companion.__main__ import main

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("[a-z]*.py")))
def test_a_benchmark_runs_quickly_and_prints_its_measurements(name, capsys):
    assert main(["bench", "--quick", "--only", name]) == 0
    lines = capsys.readouterr().out.splitlines()
    found = [float(line.split()[0]) for line in lines if not line.startswith("==")]
    assert f"== {name}" in lines
    assert found and all(math.isfinite(value) and value > 0 for value in found)
