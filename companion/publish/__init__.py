"""From notebooks to pages: papermill runs, report, comparison, site, environment."""

import sys
from collections.abc import Sequence

# jsonschema, of nbformat, compiles the grammar of internet addresses if it can: a second, and no
# notebook has one to be checked
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]


class CommandError(ValueError):
    """A command that cannot be carried out; the message is one sentence."""


def columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return rows as lines, whose cells stand below each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
