"""Did I reproduce it? A run's key numbers and verdicts beside the committed ones.

A number agrees when the 95 % intervals of both touch, or, being exact, when it is the same to
EXACT. Two runs of the same experiment miss each other so in at most 5 % of the numbers, and in
0.6 % where both intervals are equally wide. A number measured with other settings or on other data
is of another quantity: it cannot agree, and the row says which setting differs.
"""

from __future__ import annotations

import itertools
import math
import textwrap
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from companion import files
from companion.claims import Claim
from companion.publish import columns
from companion.publish.report import markup, pictures
from companion.publish.report.gather import Figure, Found, Table, rows
from companion.publish.report.page import PICTURE_BYTES, WIDTH

SOURCE = Path(__file__).with_name("key_numbers.yaml")
EXACT = 1e-6  # of a number
NORMAL = 1.96  # standard errors on either side of a mean are its 95 % interval
AGREES, DIFFERS, CANNOT = "agrees", "differs", "cannot agree"
MARKS = {AGREES: "=", DIFFERS: "!", CANNOT: " "}
WIDEST = 57  # letters of a cell in a terminal
LONGEST = 3  # settings that a reason names; the rest are counted


class Measured(NamedTuple):
    """A number with the ends of its interval, which are itself when it is exact."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Row:
    """One thing compared: in words, ours beside the committed, and what is to be said of it."""

    what: str
    name: str
    here: str
    committed: str
    outcome: str
    reason: str = ""


@dataclass(frozen=True)
class Comparison:
    """Everything compared between two folders of figures."""

    here: Found
    committed: Found
    numbers: list[Row]
    verdicts: list[Row]

    @property
    def sentence(self) -> str:
        """Return the answer in one sentence."""
        numbers, verdicts = _tally(self.numbers), _tally(self.verdicts)
        if not numbers and not verdicts:
            return "Nothing was run that could be compared."
        wrong = sum(row.outcome == DIFFERS for row in (*self.numbers, *self.verdicts))
        opening = "Not everything" if wrong else "Nothing differs, as far as this size can tell"
        if not wrong and all(row.outcome == AGREES for row in (*self.numbers, *self.verdicts)):
            opening = "Yes"
        return f"{opening}: of the key numbers {numbers}; of the verdicts {verdicts}."


def compare(here: Found, committed: Found) -> Comparison:
    """Return what a run came to, beside what is committed, for the notebooks that it ran."""
    both = figures_of_both(here, committed)
    keys = {name: entry["numbers"] for name, entry in key_numbers().items()}
    numbers = [_number(key, *pair) for pair in both for key in keys.get(pair[0].name, [])]
    before = {claim.key: claim for claim in committed.claims}
    pairs = [(claim, before[claim.key]) for claim in here.claims if claim.key in before]
    verdicts = [_verdict(*pair, here, committed) for pair in pairs]
    return Comparison(here, committed, numbers, verdicts)


def figures_of_both(here: Found, committed: Found) -> list[tuple[Figure, Figure]]:
    """Return every figure that both have: ours and the committed one."""
    theirs = {figure.name: figure for figure in committed.figures}
    return [(mine, theirs[mine.name]) for mine in here.figures if mine.name in theirs]


@cache
def key_numbers() -> dict[str, dict]:
    """Return each figure's key numbers, and the parameters that settle what they measure."""
    figures = yaml.safe_load(SOURCE.read_text(encoding="utf-8"))["figures"]
    for entry in figures.values():  # *algorithm is a list in a list
        lists = (name if isinstance(name, list) else [name] for name in entry["settled_by"])
        entry["settled_by"] = list(itertools.chain(*lists))
    return figures


def _number(key: Mapping, here: Figure, committed: Figure) -> Row:
    """Return a key number of one figure, compared."""
    mine, old = measured(here.numbers, key), measured(committed.numbers, key)
    outcome, reason = _judged(mine, old, other_settings(here, committed))
    mine_shown, old_shown = (shown(number, bool(key.get("percent"))) for number in (mine, old))
    return Row(here.label, key["name"], mine_shown, old_shown, outcome, reason)


def _judged(mine: Measured | None, old: Measured | None, settings: str) -> tuple[str, str]:
    """Return whether two numbers agree, and why they cannot."""
    if mine is None or old is None:
        return CANNOT, settings or f"not computed {'here' if mine is None else 'there'}"
    if settings:
        return CANNOT, settings
    if any(math.isnan(end) for end in (*mine, *old)):
        return CANNOT, "too few runs for an interval"
    return (AGREES if touch(mine, old) else DIFFERS), ""


def touch(one: Measured, other: Measured) -> bool:
    """Return whether two intervals have a number in common; exact ones may differ by rounding."""
    room = EXACT * max(abs(one.value), abs(other.value))
    return one.low <= other.high + room and other.low <= one.high + room


def measured(numbers: Mapping, key: Mapping) -> Measured | None:
    """Return a key number with its interval out of a figure's record, or None without it."""
    table: Any = numbers
    for name in key.get("table", "").split("."):
        table = table.get(name) if name and isinstance(table, Mapping) else table
    row = _row(table, key)
    if row is None or not isinstance(row.get(key["value"]), int | float):
        return None
    value = float(row[key["value"]])
    return Measured(value, *_ends(row, key, value))


def _row(table: Table | None, key: Mapping) -> Mapping | None:
    """Return the one row that a key means, the last of several where it says so."""
    if table is None or "where" not in key:
        return table if isinstance(table, Mapping) else None
    chosen = [row for row in rows(table) if key["where"].items() <= row.items()]
    return max(chosen, key=lambda row: row[key["last"]] if "last" in key else 0, default=None)


def _ends(row: Mapping, key: Mapping, value: float) -> tuple[float, float]:
    if "ends" in key:
        low, high = (row.get(name) for name in key["ends"])
        return (math.nan if low is None else low, math.nan if high is None else high)
    half = row.get(key["error"]) if "error" in key else 0.0
    if "spread" in key:
        deviation, count = (row.get(name) for name in key["spread"])
        half = None if deviation is None or not count else deviation / math.sqrt(count)
    half = math.nan if half is None else NORMAL * half
    return value - half, value + half


def shown(number: Measured | None, percent: bool = False) -> str:
    """Return a number with its interval in words."""
    if number is None:
        return "-"
    value, *ends = (f"{100 * one:.1f} %" if percent else f"{one:.3g}" for one in number)
    if number.low == number.high:
        return value
    return f"{value} (no interval)" if math.isnan(number.low) else f"{value} [{', '.join(ends)}]"


def other_settings(here: Figure, committed: Figure) -> str:
    """Return which data and settings make a figure's numbers those of something else, in words."""
    names = key_numbers().get(here.name, {"settled_by": []})["settled_by"]
    changed = [name for name in names if here.params.get(name) != committed.params.get(name)]
    texts = [f"{name} {_plain(here, name)}, not {_plain(committed, name)}" for name in changed]
    more = len(texts) - LONGEST
    listed = [*texts[:LONGEST], *([f"and {more} more"] if more > 0 else [])]
    return "; ".join([*_other_data(here, committed), *listed])


def _plain(figure: Figure, name: str) -> str:
    value = figure.params.get(name, "nothing")
    long = isinstance(value, list) and len(str(value)) > 20
    return f"{len(value)} values" if long else str(value)


def _other_data(here: Figure, committed: Figure) -> list[str]:
    """Return how the data of two figures differ, in words."""
    digests = [sorted(record["sha256"] for record in figure.data) for figure in (here, committed)]
    if digests[0] == digests[1]:
        return []
    both = ({one["kind"] for one in figure.data} for figure in (here, committed))
    kinds = [" and ".join(sorted(each)) for each in both]
    return [f"{kinds[0]} data, not {kinds[1]}" if kinds[0] != kinds[1] else "other data"]


def _verdict(mine: Claim, old: Claim, here: Found, committed: Found) -> Row:
    """Return a verdict, compared."""
    texts = (mine.key, mine.sentence, old.sentence)
    if mine.verdict == old.verdict:
        return Row(mine.where, *texts, AGREES)
    own = (pair for pair in figures_of_both(here, committed) if pair[0].name == mine.figure)
    settings = "".join(other_settings(*pair) for pair in own)
    if not settings and here.profile() != committed.profile():
        settings = f"made at profile {here.profile()}, not {committed.profile()}"
    return Row(mine.where, *texts, CANNOT if settings else DIFFERS, settings)


def _tally(rows: list[Row]) -> str:
    """Return how many rows agree, differ and cannot agree, in words; nothing without rows."""
    words = {AGREES: "agree", DIFFERS: "differ", CANNOT: "cannot agree at this size"}
    counted = Counter(row.outcome for row in rows)
    return ", ".join(f"{counted[one]} {words[one]}" for one in words if counted[one])


def text(comparison: Comparison) -> str:
    """Return the comparison for a terminal: every key number, the verdicts that changed."""
    changed = [row for row in comparison.verdicts if row.outcome != AGREES]
    lines = ["Did I reproduce it? Yours beside the committed", *_lines(comparison.numbers)]
    if comparison.verdicts:
        same = len(comparison.verdicts) - len(changed)
        lines += [f"{same} of {len(comparison.verdicts)} verdicts are the same", *_lines(changed)]
    return "\n".join([*lines, comparison.sentence])


def _lines(rows: list[Row]) -> list[str]:
    """Return rows in columns, each reason once: below the rows that share it."""
    lines: list[str] = []
    texts = [(row.what, row.name, row.here, row.committed) for row in rows]
    short = [[textwrap.shorten(text, WIDEST, placeholder="...") for text in each] for each in texts]
    cells = [(MARKS[row.outcome], *each) for row, each in zip(rows, short, strict=True)]
    for row, line, following in zip(rows, columns(cells), [*rows[1:], None], strict=False):
        lines.append(f"  {line}")
        last = following is None or (following.what, following.reason) != (row.what, row.reason)
        if row.reason and last:
            lines.append(f"      {row.outcome}: {row.reason}")
    return lines


def write(compared: Comparison) -> Path:
    """Write a page that carries everything it shows beside the run's figures; return its path."""
    both = figures_of_both(compared.here, compared.committed)
    paths = ([figure.path for figure in side] for side in zip(*both, strict=True))
    shown = [pictures.embed(side, WIDTH, PICTURE_BYTES) for side in paths]
    named = [figure for figure, _ in both]
    path = compared.here.folder / "comparison.html"
    page = markup.environment.get_template("comparison.html").render(
        title="Did I reproduce it?",
        menu=[("report.html", "Report of this run"), ("../report.html", "The committed report")],
        compared=compared,
        outcomes={AGREES: "yes", DIFFERS: "no", CANNOT: "open"},
        profiles=[compared.here.profile(), compared.committed.profile()],
        pairs=[(f.label, f.caption, *pair) for f, *pair in zip(named, *shown, strict=True)],
    )
    files.put(path, page)
    return path
