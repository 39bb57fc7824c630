"""A run beside the committed results, as a page: numbers, verdicts, picture beside picture."""

from __future__ import annotations

from companion.publish import reproduce
from companion.publish.report import markup, pictures

WIDTH, PICTURE_BYTES = 720, 2_000_000  # pixels, and characters of all pictures
OUTCOMES = {reproduce.AGREES: "yes", reproduce.DIFFERS: "no", reproduce.CANNOT: "open"}


def render(compared: reproduce.Comparison) -> str:
    """Return the page, which carries everything that it shows."""
    return markup.environment.get_template("comparison.html").render(
        title="Did I reproduce it?",
        menu=[("report.html", "Report of this run"), ("../report.html", "The committed report")],
        compared=compared,
        outcomes=OUTCOMES,
        profiles=[compared.here.profile(), compared.committed.profile()],
        pairs=_pairs(compared),
    )


def _pairs(compared: reproduce.Comparison) -> list[tuple[str, str, str, str]]:
    """Return label, caption and both pictures of every figure that both have."""
    both = reproduce.figures_of_both(compared.here, compared.committed)
    paths = ([figure.path for figure in side] for side in zip(*both, strict=True))
    shown = [pictures.embed(side, WIDTH, PICTURE_BYTES // 2) for side in paths]
    named = [figure for figure, _ in both]
    return [(f.label, f.caption, *pair) for f, *pair in zip(named, *shown, strict=True)]
