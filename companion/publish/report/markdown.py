"""The report as Markdown, and the one part of the README that is made from results."""

from __future__ import annotations

import re
import textwrap

from companion.claims import Claim
from companion.publish.report import markup, page
from companion.publish.report.answer import answer
from companion.publish.report.gather import Found

HEADLINES = (  # the verdicts that the README shows; all others are in the report
    "theorem-1-b",
    "remark-2-no-price",
    "infinite-and-accurate",
    "attack-on-algorithm-1",
    "labels-not-protected",
    "reidentification-rates",
    "ours-certified-0.1",
)
MARKS = "<!-- {0}: written by make report -->\n", "<!-- end of {0} -->"


def render(found: Found) -> str:
    """Return report.md."""
    text = markup.environment.get_template("report.md").render(**page.context(found))
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def refresh(readme: str, found: Found) -> str:
    """Return the README with its answers and headline verdicts renewed, where it has a place."""
    for name, text in {"answer": answers(found), "headlines": headlines(found)}.items():
        begin, end = (mark.format(name) for mark in MARKS)
        before, mark, rest = readme.partition(begin)
        if mark and end in rest:
            readme = f"{before}{mark}{text}\n{end}{rest.partition(end)[2]}"
    return readme


def answers(found: Found) -> str:
    """Return the answer in five sentences, as a list."""
    parts = (f"- **{question} {opening}**: {rest}" for question, opening, rest in answer(found))
    return "\n".join(textwrap.fill(part, 100, subsequent_indent="  ") for part in parts)


def headlines(found: Found) -> str:
    """Return the README's table: where, what is claimed, our verdict."""
    rows = [claim for claim in found.claims if claim.key in HEADLINES]
    lines = (
        f"| {cell(row.where)} | {cell(quoted(row))} | **{cell(found.verdict(row))}** |"
        for row in rows
    )
    return "\n".join(["| where | claim | verdict |", "| --- | --- | --- |", *lines])


def quoted(claim: Claim) -> str:
    """Return the paper's words in quotation marks, and ours without."""
    return f"(ours) {claim.words}" if claim.ours_to_prove else f"“{claim.words}”"


def cell(text: str) -> str:
    """Return words for a table: bars and stars mean themselves, formulas and code stay."""
    parts = re.split(r"(`[^`]+`|\$[^$]+\$)", re.sub(r"\s+", " ", text))
    plain = (part if number % 2 else _escaped(part) for number, part in enumerate(parts))
    return "".join(plain).replace("|", "\\|")


def _escaped(text: str) -> str:
    text = text.replace("\\", "\\\\").replace("<", "&lt;")
    return re.sub(r"([*$]|(?<!\w)_|_(?!\w))", r"\\\1", text)


markup.environment.filters |= {"cell": cell, "quoted": quoted}
