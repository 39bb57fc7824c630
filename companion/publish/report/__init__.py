"""The report: every claim with its verdict, every figure, and what made them.

`build` writes report.html, report.md, a page of the seven figures to print, and the executed
notebooks as pages, from the files in a folder of figures alone; for the project's own figures/ it
also renews the README's picture, answers and verdicts. No notebook is executed.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from companion import files


def build(folder: Path, root: Path) -> list[Path]:
    """Write the report of a folder of figures, and return the files written."""
    from companion.publish.report import gather, headline, markdown, notebooks, page, sheet

    found = gather.gather(folder, root)
    pages = {path.with_suffix(".html"): notebooks.render(path, found) for path in found.executed}
    texts: dict[Path, str | bytes] = {**pages, folder / "report.html": page.render(found)}
    texts[folder / "report.md"] = markdown.render(found)
    readme = root / "README.md"
    if readme.exists() and folder.resolve() == (root / "figures").resolve():
        texts[readme] = markdown.refresh(readme.read_text(encoding="utf-8"), found)
        with contextlib.suppress(KeyError, ValueError):  # a result that it shows is not here
            texts[folder / headline.NAME] = headline.draw(found)
    texts[folder / sheet.NAME] = sheet.draw(found)
    for path, content in texts.items():
        files.put(path, content)
    return list(texts)
