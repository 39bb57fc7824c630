"""From notebooks to pages: papermill runs, report, comparison, site, environment."""

from collections.abc import Sequence


class CommandError(ValueError):
    """A command that cannot be carried out; the message is one sentence."""


def columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return rows as lines, whose cells stand below each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
