"""The report: every claim with its verdict, every figure, and what made them, from the files in figures/ alone.

`build` writes report.html, report.md and the executed notebooks as pages that need no network; for the project's own
figures/ it also brings the tables of the README up to date. Nothing is computed here and no notebook is executed.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import BinaryIO

from companion import files


def build(folder: Path, root: Path) -> list[Path]:
    """Write the report of a folder of figures, and return the files written."""
    from companion.publish.report import gather, markdown, notebooks, page

    found = gather.gather(folder, root)
    written = [notebooks.write(path, found) for path in found.executed]
    texts = {folder / "report.html": page.render(found), folder / "report.md": markdown.render(found)}
    readme = root / "README.md"
    if readme.exists() and folder.resolve() == (root / "figures").resolve():
        texts[readme] = markdown.refresh(readme.read_text(encoding="utf-8"), found)
    for path, text in texts.items():
        files.write(path, partial(_fill, text))
    return [*written, *texts]


def _fill(text: str, file: BinaryIO) -> None:
    file.write(text.encode())
