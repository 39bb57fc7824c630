"""Notebooks are lessons: short cells, narrow lines, parameters taken in one line; nobody loops in
a cell."""

import ast
import itertools
from pathlib import Path

import nbformat
import pytest

from companion.publish import environment

COLUMNS, LINES, SETUP_LINES = 100, 10, 8
NOTEBOOKS = sorted(Path(environment.ROOT, "notebooks").glob("*.ipynb"))
every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def cells(path: Path, kind: str = "code") -> list:
    """Return a notebook's cells of one kind; the parameters cell, a list with comments, is none of
    them."""
    found = nbformat.read(path, 4).cells
    tagged = lambda cell: "parameters" in cell.metadata.get("tags", [])  # noqa: E731
    return [cell for cell in found if cell.cell_type == kind and not tagged(cell)]


def statements(cell) -> list[ast.AST]:
    """Return everything in a cell as Python reads it."""
    return list(ast.walk(ast.parse(cell.source)))


@every_notebook
def test_no_line_is_too_wide(path):
    sources = (cell.source for cell in nbformat.read(path, 4).cells)
    lines = itertools.chain.from_iterable(source.splitlines() for source in sources)
    assert [line for line in lines if len(line) > COLUMNS] == []


@every_notebook
def test_a_cell_fits_a_glance(path):
    assert [cell.source for cell in cells(path) if len(cell.source.splitlines()) > LINES] == []


@every_notebook
def test_the_first_cell_sets_up_in_a_few_lines_and_takes_the_parameters_at_once(path):
    setup = cells(path)[0].source
    assert len(setup.splitlines()) <= SETUP_LINES
    assert "Params.take(globals())" in setup


@every_notebook
def test_cells_do_not_loop_or_build_strings(path):
    loops = (ast.For, ast.While, ast.JoinedStr)
    found = [
        cell.source
        for cell in cells(path)
        if any(isinstance(node, loops) for node in statements(cell))
    ]
    assert found == []
