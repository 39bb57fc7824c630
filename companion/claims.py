"""Claims of the paper and our verdicts on them, as data.

`notebooks/claims.yaml` holds each claim's words, its place, the paper's number and the rule that
decides, with its threshold. A notebook measures, and `judge` applies the rule and fills the texts:

>>> judge("lemma-6", {"ratio": 0.5}).verdict
'holds'
"""

from __future__ import annotations

import dataclasses
import functools
import html
import json
import math
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd
import yaml
from IPython.display import HTML

from companion import files
from companion.data.store import Provenance

Table: TypeAlias = pd.DataFrame
Found: TypeAlias = Table | pd.Series | Mapping | Sequence[Mapping]
Numbers = dict[str, Any]  # what texts and thresholds can name
VERDICTS = ("holds", "holds if", "does not hold", "cannot be checked")
SOURCE = Path(__file__).parents[1] / "notebooks" / "claims.yaml"
BROKEN = 0.1  # a choice, tried once or twice, that costs more than ten points breaks training
TEMPLATES = ("key", "where", "paper", "ours", "notebook", "figure")  # of a row, filled as they are
RULES: dict[str, Callable[[float, float, Any], tuple[bool, bool]]] = {
    # (low, high, threshold) -> (confirmed, refuted); an end that is NaN gives neither
    "at_most": lambda low, high, most: (high <= most, low > most),
    "at_least": lambda low, high, least: (low >= least, high < least),
    "below": lambda low, high, bound: (high < bound, low >= bound),
    "above": lambda low, high, bound: (low > bound, high <= bound),
    "equals": lambda a, b, x: (x[0] - x[1] <= a <= x[0] <= b <= x[0] + x[1], a > x[0] or b < x[0]),
    "not_above": lambda low, high, ends: (low <= ends[0] and high < ends[1], low > ends[0]),
}


@dataclasses.dataclass(frozen=True)
class Claim:
    """One row of the table of verdicts.

    `words` are the paper's (or ours, when `ours_to_prove` is set), `paper` its number, `ours` what
    we computed, with an interval where there is one; `verdict` is one of VERDICTS, with its
    `condition` when it is "holds if"; `reason` says why, and `rule` what decided; `data` names
    stand-ins, "synthetic" or "embedded", and is empty for the data set itself.
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
    rule: str = ""
    data: str = ""

    def __post_init__(self) -> None:
        wrong = f"verdict = {self.verdict!r} must be one of {', '.join(VERDICTS)}"
        if self.verdict in VERDICTS:
            wrong = "a condition belongs to the verdict 'holds if', and to no other"
        if self.verdict not in VERDICTS or (self.verdict == "holds if") != bool(self.condition):
            raise ValueError(f"claim {self.key}: {wrong}")

    @property
    def sentence(self) -> str:
        """Return the verdict with its condition, and the stand-in data it rests on."""
        stand_in = f"(on {self.data} data)" if self.data else ""
        return " ".join(filter(None, (self.verdict, self.condition, stand_in)))


class _Words(string.Formatter):
    """Fills templates; a format that ends in p shows hundredths, as in {mean:+.2p} points."""

    def format_field(self, value: Any, spec: str) -> str:
        if spec.endswith("p"):
            return super().format_field(100 * value, f"{spec[:-1]}f")
        return super().format_field(value, spec)


@functools.cache
def rows() -> dict[str, dict]:
    """Return the rows of claims.yaml by key, each with its notebook."""
    notebooks = yaml.safe_load(SOURCE.read_text(encoding="utf-8")).items()
    named = [(name, key, row) for name, own in notebooks for key, row in own.items()]
    return {key: {"key": key, "notebook": name, **row} for name, key, row in named}


def threshold(key: str, measure: str) -> Any:
    """Return the threshold of a claim's rule for one measure."""
    return next(iter(rows()[key]["rule"][measure].values()))


def judge(
    key: str, found: Found, known: bool = True, exceptions: Sequence[str] = (), **numbers: Any
) -> Claim:
    """Return the row of a claim: its rule applied to what was found, its texts filled in.

    `found` has one record a case. The ends of a measure's interval are its columns <measure>_low
    and <measure>_high, or <measure> itself when it is known exactly, or low and high. `known` says
    whether a confirmation would mean something, `exceptions` where else the claim is known to fail.
    """
    row, records = rows()[key], _records(found)
    every = [(measure, *pair) for measure, only in row["rule"].items() for pair in only.items()]
    rules = [(measure, name, _resolved(limit, numbers)) for measure, name, limit in every]
    answers = _answers(row, rules, records)
    if not known:  # what is confirmed then means nothing
        answers = {name: answer and None for name, answer in answers.items()}
    verdict, partly = decide(row, list(answers.values()), exceptions)
    texts = _texts(row, records, numbers) | {"exceptions": "; ".join(exceptions)}
    texts["yes"] = " or ".join(name for name, answer in answers.items() if answer)
    conditions = [row.get("only")] * partly + [row.get("assumed")] * (verdict == "holds if")
    templates = {name: row[name] for name in TEMPLATES if name in row}
    templates["condition"] = ", and ".join(filter(None, conditions))
    templates["reason"] = _reason(row, verdict, known)
    filled = {name: fill(template, texts) for name, template in templates.items()}
    ours = row.get("ours_to_prove", False)
    words = fill(row["words"], texts) if ours else row["words"]  # the paper's have braces
    rule = "; ".join(f"{measure} {name} {limit}" for measure, name, limit in rules)
    return Claim(**filled, words=words, verdict=verdict, ours_to_prove=ours, rule=rule)


def _texts(row: Mapping, records: list, numbers: Mapping) -> dict:
    """Return what templates can name: the only case's columns, the numbers, the lists."""
    texts = {**(records[0] if len(records) == 1 else {}), **numbers}
    for name, template in row.get("lists", {}).items():
        listed = _records(numbers.get(name, records))
        texts[name] = "; ".join(fill(template, record) for record in listed)
    return texts


def on(provenance: Provenance, claims: Iterable[Claim]) -> list[Claim]:
    """Return claims that name the data they rest on, unless it is the data set itself.

    What is said about people cannot be checked on made-up recordings, whatever was found there.
    """
    kind, named = "" if provenance.kind == "real" else provenance.kind, []
    for claim in claims:
        about = rows().get(claim.key, {}).get("about")
        changes: Numbers = {"data": "" if about == "mathematics" else kind}
        if about == "people" and kind == "synthetic":
            start = f"Made-up recordings say nothing about people. On them: {claim.sentence}."
            changes |= {"verdict": "cannot be checked", "condition": ""}
            changes["reason"] = f"{start} {claim.reason}"
        named.append(dataclasses.replace(claim, **changes))
    return named


def decide(
    row: Mapping, answers: list[bool | None], exceptions: Sequence[str] = ()
) -> tuple[str, bool]:
    """Return the verdict on cases that are confirmed, refuted or neither (True, False, None).

    All confirmed: it holds, or holds if something is `assumed`. Some, or all with `exceptions`, and
    the row can name them (`only`): it holds if. One refuted, or every one where `some` case would
    do: it does not hold. Else it cannot be checked. The second value says whether only a part of
    the cases is meant.
    """
    everywhere = bool(answers) and all(answers)
    if "only" in row and any(answers) and (exceptions or not everywhere):
        return "holds if", True
    if everywhere:
        return ("holds if" if "assumed" in row else "holds"), False
    refuted = set(answers) == {False} if row.get("some") else False in answers
    return ("does not hold" if refuted else "cannot be checked"), False


def interval(record: Mapping, measure: str) -> tuple[float, float] | None:
    """Return the ends of a measure in a record, NaN where there is no number; None without it."""
    for names in ((f"{measure}_low", f"{measure}_high"), (measure, measure), ("low", "high")):
        if names[0] in record:
            low, high = (math.nan if record[name] is None else record[name] for name in names)
            return float(low), float(high)
    return None


def _ends(row: Mapping, record: Mapping, measure: str) -> tuple[float, float] | None:
    """Return the interval of a measure, or of the difference that the row says it is."""
    if measure not in row.get("apart", {}):
        return interval(record, measure)
    one, other = (interval(record, name) for name in row["apart"][measure])
    return (one[0] - other[1], one[1] - other[0]) if one and other else None


def _records(found: Found) -> list[Mapping]:
    if isinstance(found, pd.DataFrame):
        return found.to_dict("records")
    return [dict(found)] if isinstance(found, Mapping | pd.Series) else [dict(one) for one in found]


def _resolved(limit: Any, numbers: Mapping) -> Any:
    """Return a threshold, names in it replaced by their numbers."""
    if isinstance(limit, list):
        return [_resolved(end, numbers) for end in limit]
    return numbers[limit] if isinstance(limit, str) else limit


def _answers(row: Mapping, rules: list, records: list) -> dict[str, bool | None]:
    """Return by name of a case: confirmed by all of its measures, refuted by one, or neither."""
    given: dict[str, list] = {}
    for measure, rule, limit in rules:
        for record in records:
            if ends := _ends(row, record, measure):
                answers = given.setdefault(fill(row.get("case", ""), record), [])
                answers.append(RULES[rule](*ends, limit))
    return {
        case: all(yes for yes, _ in pairs) or (False if any(no for _, no in pairs) else None)
        for case, pairs in given.items()
    }


def _reason(row: Mapping, verdict: str, known: bool) -> str:
    """Return the template of the reason for a verdict, and the remark that every verdict has."""
    reason = row["reason"]
    if not isinstance(reason, str):
        silent = verdict == "cannot be checked" and not known and "not known" in reason
        reason = reason["not known"] if silent else reason.get(verdict) or reason["else"]
    return f"{reason} {row.get('remark', '')}".strip()


def fill(template: str, texts: Mapping) -> str:
    """Return a template with its names replaced by numbers and words."""
    return _Words().vformat(template, (), texts)


def save(claims: Sequence[Claim], notebook: str, output: str | Path) -> None:
    """Write one notebook's claims to claims_<notebook>.json in `output`, unless it is empty."""
    if not str(output):
        return
    keys = [claim.key for claim in claims]
    if len(set(keys)) != len(keys):
        raise ValueError(f"claims of {notebook}: every key must be used once")
    plain = [dataclasses.asdict(claim) for claim in claims]
    text = json.dumps(plain, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    files.put(Path(output) / f"claims_{notebook}.json", text)


def load(folder: Path) -> list[Claim]:
    """Return all claims saved in a folder, notebook by notebook."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(folder.glob("claims_*.json"))]
    return [Claim(**row) for text in texts for row in json.loads(text)]


def show(claims: Iterable[Claim], data, notebook: str, output: str | Path) -> HTML:
    """Save a notebook's claims, each with the data it rests on, and return them as a table."""
    named = on(data.provenance, claims)
    save(named, notebook, output)
    return HTML(as_html(named))


def as_html(claims: Iterable[Claim]) -> str:
    """Return the claims as an HTML table, as notebooks show them."""
    titles = ("where", "claim", "paper", "ours", "verdict", "why")
    head = "".join(f"<th style='text-align:left'>{title}</th>" for title in titles)
    body = "".join(f"<tr>{_cells(claim)}</tr>" for claim in claims)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cells(claim: Claim) -> str:
    words = claim.words if claim.ours_to_prove else f"“{claim.words}”"
    place = claim.where + (" (ours)" if claim.ours_to_prove else "")
    cells = [html.escape(text) for text in (place, words, claim.paper, claim.ours)]
    cells += [f"<b>{html.escape(claim.sentence)}</b>", html.escape(claim.reason)]
    return "".join(f"<td style='text-align:left;vertical-align:top'>{cell}</td>" for cell in cells)
