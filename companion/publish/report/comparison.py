"""A run beside the committed results, as a page: numbers, verdicts, picture beside picture."""

from __future__ import annotations

from companion.publish import reproduce
from companion.publish.report import markup, pictures
from companion.publish.report.gather import Figure, Found

WIDTH, PICTURE_BYTES = 720, 2_000_000  # pixels, and characters of all pictures
OUTCOMES = {reproduce.AGREES: "yes", reproduce.DIFFERS: "no", reproduce.CANNOT: "open"}


def render(compared: reproduce.Comparison) -> str:
    """Return the page, which carries everything that it shows."""
    return markup.environment.get_template("comparison.html").render(
        title="Did I reproduce it?",
        menu=[("report.html", "Report of this run"), ("../report.html", "The committed report")],
        compared=compared,
        outcomes=OUTCOMES,
        profiles=[_profile(found) for found in (compared.here, compared.committed)],
        pairs=_pairs(compared),
    )


def _profile(found: Found) -> str:
    return reproduce.profile_of({figure.name: figure for figure in found.figures})


def _pairs(compared: reproduce.Comparison) -> list[tuple[str, str, str, str]]:
    """Return label, caption and both pictures of every figure that both have."""
    theirs = {figure.name: figure for figure in compared.committed.figures}
    both = [
        (figure, theirs[figure.name]) for figure in compared.here.figures if figure.name in theirs
    ]
    mine, old = (_embedded([pair[side] for pair in both]) for side in (0, 1))
    texts = ((figure.label, figure.caption) for figure, _ in both)
    return [(*text, *shown) for text, shown in zip(texts, zip(mine, old, strict=True), strict=True)]


def _embedded(figures: list[Figure]) -> list[str]:
    return pictures.embed([figure.path for figure in figures], WIDTH, PICTURE_BYTES // 2)
