"""The table of broken mechanisms: `python -m tests.faults.table` writes
docs/broken_mechanisms.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from tests.faults import algorithms, mechanisms

DOCUMENT = Path(__file__).parents[2] / "docs" / "broken_mechanisms.md"

CAUGHT_BY = {
    algorithms.AlwaysUp: "unbiased coins",
    algorithms.CoinTooOftenUp: "unbiased coins",
    algorithms.CoinReversed: "unbiased coins",
    algorithms.LevelsOfThreeBits: "unbiased coins",
    algorithms.StepDoesNotDecay: "convergence",
    algorithms.LamDoesNotDecay: "convergence",
    algorithms.StaleNeighbours: "mean of the runs",
    algorithms.ReadWithWrongStep: "psi invariant",
    algorithms.LostPsi: "psi invariant",
    algorithms.OwnPsiQuantised: "psi invariant",
    algorithms.OwnThetaQuantised: "theta invariant",
    algorithms.GraphsSwapped: "mean of the runs",
    algorithms.PsiWithoutDifference: "mean of the runs",
    algorithms.AgentsForgotten: "theta invariant",
    algorithms.LimitOfZ: "theta invariant",
    algorithms.ZNotUpdated: "z",
    algorithms.ZOverC: "z",
}
"""The check that is asked to catch a fault of utility; the audit catches those of privacy."""


class Row(NamedTuple):
    fault: str
    what: str
    caught_by: str


def name(fault: type) -> str:
    """Return a class name as words: RawStateOnce -> raw state once."""
    return re.sub(r"(?<!^)(?=[A-Z])", " ", fault.__name__).lower()


def first_sentences(fault: type) -> str:
    """Return the first paragraph of a docstring as one line."""
    return " ".join((fault.__doc__ or "").split("\n\n")[0].split())


def rows() -> list[Row]:
    faults = [(fault, "audit") for fault in mechanisms.Right.__subclasses__()] + list(
        CAUGHT_BY.items()
    )
    return [Row(name(fault), first_sentences(fault), check) for fault, check in faults]


def markdown() -> str:
    lines = [
        "# Broken mechanisms, and the check that catches each",
        "",
        "Written by `python -m tests.faults.table`; a test compares it with the code. "
        "Each mechanism",
        "differs in one place from Algorithm 1, or from what it may claim. The audit shows, with",
        "confidence 1 - 1e-6, that it leaks more than the claim: the exact total variation of the",
        "right mechanism. The other checks are in `tests/faults/checks.py`, "
        "each with the probability",
        "that it accuses a right algorithm. The right mechanism passes them all.",
        "",
        "| | fault | what it does | caught by |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {number} | {row.fault} | {row.what} | {row.caught_by} |"
        for number, row in enumerate(rows(), 1)
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    DOCUMENT.parent.mkdir(exist_ok=True)
    DOCUMENT.write_text(markdown(), encoding="utf-8")
