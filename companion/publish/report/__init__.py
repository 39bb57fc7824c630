"""The report: every claim with its verdict, every figure, and what made them.

`build` writes report.html, report.md and the executed notebooks as pages, from the files in a
folder of figures alone; for the project's own figures/ it also renews the headline verdicts of the
README. Nothing is computed here and no notebook is executed.
"""

from __future__ import annotations

from pathlib import Path

from companion import files


def build(folder: Path, root: Path) -> list[Path]:
    """Write the report of a folder of figures, and return the files written."""
    from companion.publish.report import gather, markdown, notebooks, page

    found = gather.gather(folder, root)
    texts = {path.with_suffix(".html"): notebooks.render(path, found) for path in found.executed}
    texts |= {
        folder / "report.html": page.render(found),
        folder / "report.md": markdown.render(found),
    }
    readme = root / "README.md"
    if readme.exists() and folder.resolve() == (root / "figures").resolve():
        texts[readme] = markdown.refresh(readme.read_text(encoding="utf-8"), found)
    for path, text in texts.items():
        _write(path, text)
    return list(texts)


def _write(path: Path, text: str) -> None:
    files.write(path, lambda file: file.write(text.encode()))
