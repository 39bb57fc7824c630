"""docs/slides.md as a deck: a heading begins a slide, `Live:` runs a page, quotes are notes."""

from __future__ import annotations

import re
from pathlib import Path

from companion.publish.play import pages
from companion.publish.report import markup

LIVE = re.compile(r"(?m)^Live: \*(.+)\*$")
NOTES = re.compile(r"(?m)^> ?(.*)$")


def slides(root: Path) -> list[dict[str, str]]:
    """Return all slides: title, text and notes as HTML, and the name of the page that runs."""
    source = (root / "docs" / "slides.md").read_text(encoding="utf-8")
    names = {page.TITLE: name for name, page in pages.PAGES.items()}
    deck = []
    for part in source.split("\n## ")[1:]:
        title, _, body = part.partition("\n")
        notes, live = "\n".join(NOTES.findall(body)), LIVE.search(body)
        text = markup.markdown(LIVE.sub("", NOTES.sub("", body)))
        page = names[live[1]] if live else ""
        deck.append({"title": title, "text": text, "notes": markup.markdown(notes), "page": page})
    return deck
