"""Claims of the paper and our verdicts on them, as data: written by experiments, shown by notebooks and the report."""

from __future__ import annotations

import dataclasses
import html
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from scipy import stats

from companion import files

VERDICTS = ("holds", "holds if", "does not hold", "cannot be checked")


@dataclasses.dataclass(frozen=True)
class Claim:
    """One row of the table of verdicts.

    `words` are the paper's (or ours, when `ours_to_prove` is set), `paper` its number, `ours` what we computed, with an
    interval where there is one; `verdict` is one of VERDICTS, with its `condition` when it is "holds if"; `reason` says why.
    """

    key: str
    where: str
    words: str
    paper: str
    ours: str
    verdict: str
    reason: str
    notebook: str
    figure: str = ""
    condition: str = ""
    ours_to_prove: bool = False

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ValueError(f"claim {self.key}: verdict = {self.verdict!r} must be one of {', '.join(VERDICTS)}")
        if (self.verdict == "holds if") != bool(self.condition):
            raise ValueError(f"claim {self.key}: a condition belongs to the verdict 'holds if', and to no other")

    @property
    def sentence(self) -> str:
        """Return the verdict with its condition."""
        return f"{self.verdict} {self.condition}".strip()


def wilson(hits: int, trials: int) -> tuple[float, float]:
    """Return the 95 % Wilson interval of a share."""
    interval = stats.binomtest(int(hits), int(trials)).proportion_ci(method="wilson")
    return float(interval.low), float(interval.high)


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of a median, between two of the values, whatever their law; NaN for fewer than six values."""
    interval = stats.quantile_test(values, p=0.5).confidence_interval()
    return float(interval.low), float(interval.high)


def save(claims: Sequence[Claim], notebook: str, output: str | Path) -> None:
    """Write the claims of one notebook to claims_<notebook>.json in `output`; nothing when output is empty."""
    if not str(output):
        return
    keys = [claim.key for claim in claims]
    if len(set(keys)) != len(keys):
        raise ValueError(f"claims of {notebook}: every key must be used once")
    text = json.dumps([dataclasses.asdict(claim) for claim in claims], indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    files.write(Path(output) / f"claims_{notebook}.json", lambda file: file.write(text.encode()))


def load(folder: Path) -> list[Claim]:
    """Return all claims saved in a folder, notebook by notebook."""
    return [
        Claim(**row) for path in sorted(folder.glob("claims_*.json")) for row in json.loads(path.read_text(encoding="utf-8"))
    ]


def as_html(claims: Iterable[Claim]) -> str:
    """Return the claims as an HTML table, as notebooks show them."""
    head = "".join(
        f"<th style='text-align:left'>{title}</th>" for title in ("where", "claim", "paper", "ours", "verdict", "why")
    )
    rows = "".join(
        "<tr>" + "".join(f"<td style='text-align:left;vertical-align:top'>{cell}</td>" for cell in _cells(claim)) + "</tr>"
        for claim in claims
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _cells(claim: Claim) -> list[str]:
    words = claim.words if claim.ours_to_prove else f"“{claim.words}”"
    texts = [claim.where + (" (ours)" if claim.ours_to_prove else ""), words, claim.paper, claim.ours]
    return [*map(html.escape, texts), f"<b>{html.escape(claim.sentence)}</b>", html.escape(claim.reason)]
