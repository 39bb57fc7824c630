"""docs/slides.md as a deck: a heading begins a slide, `Live:` runs a page, quotes are notes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from companion.publish.play import pages
from companion.publish.report import markup

LIVE = re.compile(r"(?m)^Live: \*(.+)\*$")
NOTES = re.compile(r"(?m)^> ?(.*)$")


class Slide(NamedTuple):
    """A slide: its title, its text and notes as HTML, and the name of the page that runs in it."""

    title: str
    text: str
    notes: str
    page: str


def slides(root: Path) -> list[Slide]:
    """Return all slides in order."""
    source = (root / "docs" / "slides.md").read_text(encoding="utf-8")
    return [_slide(part) for part in source.split("\n## ")[1:]]


def _slide(part: str) -> Slide:
    title, _, body = part.partition("\n")
    notes = "\n".join(NOTES.findall(body))
    live = LIVE.search(body)
    text = LIVE.sub("", NOTES.sub("", body))
    names = {page.TITLE: name for name, page in pages.PAGES.items()}
    page = names[live[1]] if live else ""
    return Slide(title, markup.markdown(text), markup.markdown(notes), page)
