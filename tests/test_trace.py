"""docs/trace.md: every line it names is there, and leads to the next."""

import ast
import re
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "trace.md"
TEXT = DOCUMENT.read_text(encoding="utf-8")
TRACES = dict(re.findall(r"(?ms)^## (.+?)\n(.+?)(?=^## |\Z)", TEXT))
CELL = re.compile(r"`notebooks/(?P<name>\w+)\.ipynb`: `(?P<code>[^`]+)`")
LINE = re.compile(
    r"\[`(?P<path>[\w/]+\.py)`, line (?P<line>\d+)\]\(\.\./(?P<link>\S+)\):\s+`(?P<code>[^`]+)`"
)
HOPS = 3  # from file to file, from the cell to the equation


def lines(name: str) -> list[dict[str, str]]:
    """Return the lines of code that a trace goes through, in order."""
    return [found.groupdict() for found in LINE.finditer(TRACES[name])]


def places(line: dict[str, str]) -> list[int]:
    """Return the numbers of the lines in which the code is."""
    text = (ROOT / line["path"]).read_text(encoding="utf-8").splitlines()
    return [number for number, own in enumerate(text, 1) if line["code"] in own]


def numbered_anew(found: re.Match) -> str:
    """Return a line of the document with the number that its code has now, if it is one."""
    line, now = found.groupdict(), places(found.groupdict())
    if len(now) != 1:
        return found[0]
    return re.sub(rf"(line |#L){line['line']}\b", rf"\g<1>{now[0]}", found[0])


def around(path: str, line: int) -> set[str]:
    """Return the names of the functions and classes that a line stands in."""
    kinds = ast.FunctionDef | ast.ClassDef
    tree = ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8")))
    return {n.name for n in tree if isinstance(n, kinds) and n.lineno <= line <= n.end_lineno}


@pytest.mark.parametrize("name", TRACES)
def test_a_trace_begins_in_its_notebook_and_has_at_most_three_hops(name):
    (cell,) = CELL.finditer(TRACES[name])
    cells = nbformat.read(ROOT / "notebooks" / f"{cell['name']}.ipynb", 4).cells
    assert any(cell["code"] in own.source for own in cells if own.cell_type == "code")
    files = [line["path"] for line in lines(name)]
    moves = [file for file, before in zip(files, ["", *files], strict=False) if file != before]
    assert moves[-1].startswith("ldp_core/") and len(moves) <= HOPS


@pytest.mark.parametrize("name", TRACES)
def test_every_line_is_where_the_trace_says(name):
    for line in lines(name):
        assert int(line["line"]) in places(line), f"{line['code']} is in lines {places(line)}"
        assert line["link"] == f"{line['path']}#L{line['line']}"


@pytest.mark.parametrize("name", TRACES)
def test_every_line_stands_in_what_one_before_it_names(name):
    (cell,) = CELL.finditer(TRACES[name])
    named = set(re.findall(r"\w+", cell["code"]))
    for line in lines(name):
        assert named & around(line["path"], int(line["line"])), line
        named |= set(re.findall(r"\w+", line["code"]))


def test_there_is_one_trace_of_each_figure():
    assert [name.split(":")[0] for name in TRACES] == ["Fig. 3", "Fig. 6"]


if __name__ == "__main__":
    DOCUMENT.write_text(LINE.sub(numbered_anew, TEXT), encoding="utf-8")
