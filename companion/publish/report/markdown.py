"""The report as Markdown, and the one part of the README that is made from results."""

from __future__ import annotations

import re
import textwrap

from companion.claims import Claim
from companion.promises import FOR_EVER, Promise
from companion.publish import costs, environment
from companion.publish.report import markup, page
from companion.publish.report.answer import answer, promised
from companion.publish.report.gather import Found

HEADLINES = (  # the verdicts that the README shows; all others are in the report
    "figure-2",
    "remark-2-no-price",
    "infinite-and-accurate",
    "attack-on-algorithm-1",
    "labels-not-protected",
    "reidentification-rates",
)
MARKS = "<!-- {0}: written by make report -->\n", "<!-- end of {0} -->"


def render(found: Found) -> str:
    """Return report.md."""
    text = markup.environment.get_template("report.md").render(**page.context(found))
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def refresh(readme: str, found: Found) -> str:
    """Return the README with its answers and headline verdicts renewed, where it has a place."""
    for name, text in made(found).items():
        begin, end = (mark.format(name) for mark in MARKS)
        before, mark, rest = readme.partition(begin)
        if mark and end in rest:
            readme = f"{before}{mark}{text}\n{end}{rest.partition(end)[2]}"
    return readme


def made(found: Found) -> dict[str, str]:
    """Return the parts of the README that are made from results."""
    makers = {"answer": answers, "headlines": headlines, "promises": promises, "cost": cost}
    return {name: make(found) for name, make in makers.items()}


def answers(found: Found) -> str:
    """Return the answers to all questions but the last, as a list; `headlines` have that one's."""
    parts = (f"- **{asked} {opening}**: {rest}" for asked, opening, rest in answer(found)[:-1])
    return "\n".join(_filled(part, "  ") for part in parts)


def _filled(text: str, indent: str = "") -> str:
    """Return text in lines of 100 letters that break in no formula and in no command."""
    whole = re.sub(r"\$[^$]+\$|`[^`]+`", lambda found: found[0].replace(" ", "\0"), text)
    return textwrap.fill(whole, 100, subsequent_indent=indent).replace("\0", " ")


def cost(found: Found) -> str:
    """Return what setting up and each command cost, as they were measured."""
    first = f"The first call of either installs the packages into `.venv` ({environment.COST})."
    return _filled(f"{first} {costs.sentence(found.folder)}".strip())


def headlines(found: Found) -> str:
    """Return how many claims hold, and the README's verdicts as a list: verdict, words, place."""
    *_, (_, opening, rest) = answer(found)
    count = _filled(f"How many of the paper's claims hold? **{opening}**: {rest}")
    rows = [claim for claim in found.claims if claim.key in HEADLINES]
    said = ((_verdict(row, found), cell(quoted(row)), cell(row.where)) for row in rows)
    lines = (_filled(f"- **{verdict}**: {words} ({place})", "  ") for verdict, words, place in said)
    return "\n".join([count, "", *lines])


def _verdict(claim: Claim, found: Found) -> str:
    """Return the verdict with its condition, without what stands there in brackets."""
    short = re.sub(r" \(.*\)$", "", claim.condition)
    return cell(found.verdict(claim).replace(claim.condition, short))


def promises(found: Found) -> str:
    """Return a few promises as a list, with the unit of privacy; nothing without any."""
    if not found.promises:
        return ""
    chosen = promised(found.promises)
    rest = len(found.promises) - len(chosen)
    more = f"- {rest} more promises are in the [report](figures/report.html#promises)."
    return "\n".join([*(_filled(_promise(one), "  ") for one in chosen), *[more] * bool(rest)])


def _promise(one: Promise) -> str:
    until = one.horizon if one.horizon == FOR_EVER else f"until round {one.horizon}"
    promise = f"- **{cell(one.name.partition(',')[0])}, $\\delta \\le {one.at_most}$ {until}**, "
    reached = f"{one.accuracy[0]:.1%}{' (no better than guessing)' * one.lost}"
    best = f"the best unprotected learner {one.best_unprotected:.1%}"
    return f"{promise}{cell(one.unit)}: accuracy {reached}, {best}."


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
