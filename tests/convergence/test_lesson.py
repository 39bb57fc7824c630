"""The lesson's five lines, as they stand in notebook 1's cell, are what the engines do."""

import nbformat
import numpy as np
import pytest

from companion.convergence import lesson
from companion.publish import batch
from ldp_core import engine, optimizer, quantizer

TRANSCRIPT = 12  # rounds, more than the notebook shows


@pytest.fixture(scope="module")
def written():
    """Return the names that the notebook's cell with eqs. (3) and (4) defines."""
    cells = nbformat.read(batch.NOTEBOOKS / "01_convergence.ipynb", 4).cells
    (cell,) = (cell.source for cell in cells if "def Q(y, d, coin)" in cell.source)
    names: dict = {}
    exec(cell, names)
    return names


@pytest.mark.parametrize("fast", [False, True], ids=["optimizer", "engine"])
@pytest.mark.parametrize("rounds", [1, lesson.ROUNDS, TRANSCRIPT])
def test_the_five_lines_are_what_the_engines_do(written, fast, rounds):
    algorithm = optimizer.Algorithm1(lesson.NETWORK, lesson.SCHEDULES)
    found = lesson.engine(engine.Compiled(algorithm) if fast else algorithm, rounds)
    by_hand = lesson.rounds(written["iteration"], rounds)[f"t = {rounds}"]
    assert np.allclose(by_hand, found, rtol=0, atol=1e-12)
    assert not np.allclose(by_hand, lesson.rounds(written["iteration"], rounds + 1).iloc[:, -1])


def test_the_cell_quantises_as_the_core_does(written):
    y, coin = np.linspace(-2.0, 2.0, 81), np.linspace(0.0, 1.0, 81, endpoint=False)
    levels = quantizer.quantise(y, 0.5, coin)
    assert np.array_equal(written["Q"](y, 0.5, coin), 0.5 * levels)


def test_together_they_find_the_mean_of_their_targets(written):
    agents = lesson.m
    theta = lesson.rounds(written["iteration"], 3000).iloc[:agents, -1]
    assert np.allclose(theta, lesson.TARGETS.mean(), atol=0.1)
