"""`make verify`: runs the smallest profile from nothing and compares it with a reference.

Nothing that lies on this machine can help or disturb: results are computed anew in a scratch
folder, and neither LDP_DATA nor the cache is looked at, so the data are the shipped ones and the
same everywhere. figures/ is not touched. `tolerances` says what must agree, and how nearly.
"""

from __future__ import annotations

import json
import math
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from companion import claims, files
from companion.publish import batch, processors
from companion.publish.tolerances import (
    ABSENT,
    ADVICE,
    DATA,
    DECIDED,
    DEPENDENT,
    EXACT,
    FAILED,
    VERDICT,
    tolerance,
)

REFERENCE = batch.ROOT / "tests" / "reference" / "smoke.json"
SHOWN = 20  # differences printed; the rest are counted
DIGITS = 12  # of a number in the reference
OTHER_SEEDS = (1, 2)
MARGIN = 2  # an interval reaches so many times as far as what was seen

Numbers = dict[str, dict]


class Difference(NamedTuple):
    """What is not as the reference says: its kind (a key of ADVICE) and a sentence."""

    kind: str
    sentence: str


def run(number: str | None = None, update: bool = False) -> int:
    """Run the smoke profile and compare, or write the reference; return 0 when all agrees."""
    if update:
        return _update(number)
    measured, wrong = _measure(number, "native")
    reference = load()
    for name, entry in measured.items():
        wrong += differences(name, entry, reference.get(name))
    _say(wrong)
    if not wrong:
        compared = sum(_count(reference[name]) for name in measured)
        notebooks = f"{len(measured)} notebooks"
        print(f"verify: {compared} numbers and verdicts of {notebooks} are as they were")
    return 1 if wrong else 0


def _say(wrong: list[Difference]) -> None:
    """Print the differences, and for each kind of them how many there are and what to do."""
    if not wrong:
        return
    print("\n".join(f"{kind}: {sentence}" for kind, sentence in wrong[:SHOWN]))
    above = f", the first {SHOWN} above" if len(wrong) > SHOWN else ""
    print(f"verify: {len(wrong)} differences{above}")
    counted = Counter(kind for kind, _ in wrong)
    for kind in filter(counted.get, ADVICE):
        print(f"  {counted[kind]} of kind {kind}: {ADVICE[kind]}")


def _update(number: str | None) -> int:
    """Write value and interval of every number; return 0 when all ran and what is exact is."""
    measured, wrong = _measure(number, "native")
    others, seeds = [], []
    for name in processors.playable():
        print(f"verify: once more as processor {name}", flush=True)
        others.append(_measure(number, name, processors.variables(name, batch.CACHE)))
    for seed in OTHER_SEEDS:
        print(f"verify: once more with seed {seed}", flush=True)
        seeds.append(_measure(number, f"seed {seed}", seed=seed))
    wrong += [problem for _, problems in others + seeds for problem in problems]
    found = [result for result, _ in others], [result for result, _ in seeds]
    wrong += [line for name, entry in measured.items() for line in derive(name, entry, *found)]
    known = {path.stem for path in batch.notebooks()}
    _write({name: entry for name, entry in {**load(), **measured}.items() if name in known})
    _say(wrong)
    seen = f"as {len(others) + 1} processors and {len(OTHER_SEEDS) + 1} seeds gave them"
    names, place = ", ".join(measured) or "no notebook", REFERENCE.relative_to(batch.ROOT)
    print(f"verify: wrote the numbers of {names} {seen} to {place}")
    return 1 if wrong else 0


def _measure(
    number: str | None,
    name: str,
    variables: Mapping[str, str] | None = None,
    seed: int | None = None,
) -> tuple[Numbers, list[Difference]]:
    """Return what the notebooks came to from nothing, and those that failed."""
    chosen = [path.stem for path in batch.notebooks(number)]
    scratch = batch.CACHE / "verify" / name.replace(" ", "-")
    shutil.rmtree(scratch, ignore_errors=True)
    # notebooks see neither the reader's data nor earlier results
    alone = {"LDP_DATA": None, "LDP_CACHE": str(scratch / "cache"), **(variables or {})}
    with files.variables(alone):
        batch.run("smoke", number, seed, scratch / "figures")
    finished = {path.stem for path in (scratch / "figures" / "notebooks").glob("*.ipynb")}
    sentence = f"{{}} ({name}): its numbers were not compared"
    failed = [Difference(FAILED, sentence.format(nb)) for nb in chosen if nb not in finished]
    collected = collect(scratch / "figures")
    return {nb: collected.get(nb, _nothing()) for nb in chosen if nb in finished}, failed


def _nothing() -> dict:
    return {"figures": {}, "verdicts": {}}


def collect(folder: Path) -> Numbers:
    """Return what notebooks left in a folder: the numbers of figures, their data, verdicts."""
    found: Numbers = {}
    for path in sorted(folder.glob("fig*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        data = sorted(entry["sha256"] for entry in record["data"])
        entry = {"data": data, "numbers": _short(record["numbers"])}
        found.setdefault(record["notebook"], _nothing())["figures"][record["figure"]] = entry
    for claim in claims.load(folder):
        found.setdefault(claim.notebook, _nothing())["verdicts"][claim.key] = claim.verdict
    return found


def load() -> Numbers:
    """Return the reference; nothing when there is none."""
    return json.loads(REFERENCE.read_text(encoding="utf-8")) if REFERENCE.exists() else {}


def derive(
    notebook: str, entry: dict, emulated: list[Numbers], seeds: list[Numbers]
) -> Iterator[Difference]:
    """Add to a notebook's numbers how far they were seen to move; yield what must not move."""
    others = [other[notebook] for other in emulated if notebook in other]
    nothing: dict = {"data": None, "numbers": {}}
    for figure, record in entry["figures"].items():
        record["away"] = {}
        for found in (other["figures"].get(figure, nothing) for other in others):
            if found["data"] == record["data"]:
                yield from _widen(record, figure, found["numbers"], is_seed=False)
            else:
                yield Difference(DATA, f"{notebook}: the data of {figure} depend on the processor")
        for other in (other[notebook] for other in seeds if notebook in other):
            found = other["figures"].get(figure, nothing)
            yield from _widen(record, figure, found["numbers"], is_seed=True)
    for key, verdict in entry["verdicts"].items():
        given = {other["verdicts"].get(key, verdict) for other in others} - {verdict}
        entry["verdicts"][key] = [verdict, *sorted(given)] if given else verdict


def _widen(record: dict, figure: str, numbers: object, is_seed: bool) -> Iterator[Difference]:
    """Let `away` hold the largest distances of dependent numbers; yield exact ones that moved."""
    found: dict[str, Any] = dict(_leaves(figure, numbers))
    other: Any
    for name, value in _leaves(figure, record["numbers"]):
        allowed, other = tolerance(name), found.get(name)
        if allowed.kind == DEPENDENT:
            moves = isinstance(value, float) and _are_numbers(other)
            if moves and (allowed.searched or not is_seed):
                key, distance = name if is_seed else _column(name), _rounded_up(abs(value - other))
                known = record["away"].get(key, 0.0)
                if distance > known and MARGIN * distance > allowed.floor(0.0):
                    record["away"][key] = distance
            continue
        floor = allowed.floor(value) if _are_numbers(value) else 0.0
        if not is_seed and (sentence := _compare(name, other, value, floor)):
            yield Difference(allowed.kind, f"it depends on the processor: {sentence}")


def _rounded_up(distance: float) -> float:
    """Return a distance with three digits, not less than it is; 0 for what rounding does."""
    nothing = distance < 1e-9 or not math.isfinite(distance)
    return 0.0 if nothing else float(f"{1.005 * distance:.3g}")


def differences(notebook: str, measured: Mapping, reference: Mapping | None) -> list[Difference]:
    """Return every number or verdict of one notebook that is not as the reference says."""
    if reference is None:
        update = f"`make verify UPDATE=1 NB={notebook[:2]}` writes one"
        return [Difference(ABSENT, f"{notebook}: there is no reference; {update}")]
    found: list[Difference] = []
    for figure, here, there in _both(measured["figures"], reference["figures"], found):
        if here["data"] == there["data"]:
            found += _of_numbers(figure, here["numbers"], there)
        else:
            mine, theirs = (", ".join(text[:12] for text in one["data"]) for one in (here, there))
            other = f"data {mine or 'none'}, the reference of {theirs or 'none'} (SHA-256)"
            found.append(Difference(DATA, f"{figure} is of {other}"))
    verdicts = _both(measured["verdicts"], reference["verdicts"], found, "verdict ")
    for key, verdict, given in verdicts:
        allowed = given if isinstance(given, list) else [given]
        if verdict not in allowed:
            there = " or ".join(map(repr, allowed))
            found.append(Difference(VERDICT, f"{key} is {verdict!r}, the reference {there}"))
    return [Difference(kind, f"{notebook}: {sentence}") for kind, sentence in found]


def _both(here: Mapping, there: Mapping, found: list, kind: str = "") -> list[tuple]:
    """Return name and values of what both have, and add what only one has to what is found."""
    for name in sorted(here.keys() ^ there.keys()):
        new = "new" if name in here else "missing"
        found.append(Difference(ABSENT, f"{kind}{name} is {new}"))
    return [(name, here[name], there[name]) for name in sorted(here.keys() & there.keys())]


def _of_numbers(figure: str, measured: object, reference: Mapping) -> list[Difference]:
    found: list[Difference] = []
    here, there = (dict(_leaves(figure, numbers)) for numbers in (measured, reference["numbers"]))
    for name, mine, theirs in _both(here, there, found):
        far = reach(name, there, reference) if _are_numbers(theirs) else 0.0
        if sentence := _compare(name, mine, theirs, far):
            words_or_whole = theirs is not None and not isinstance(theirs, float)
            found.append(Difference(EXACT if words_or_whole else tolerance(name).kind, sentence))
    return found


def reach(name: str, reference: Mapping[str, Any], record: Mapping) -> float:
    """Return how far a number may be off: the largest of floor, what was seen, its interval."""
    allowed, value = tolerance(name), reference[name]
    if allowed.kind != DEPENDENT:
        return allowed.floor(value)
    away = record.get("away", {})
    seen = max(away.get(name, 0.0), away.get(_column(name), 0.0))
    return max(allowed.floor(value), MARGIN * seen, _own_interval(name, reference))


def _own_interval(name: str, reference: Mapping[str, Any]) -> float:
    """Return half the width of the interval beside a number in its record; 0 without one."""
    parts = name.split(".")
    for position, part in enumerate(parts):
        stem = part.removesuffix("_low").removesuffix("_high")
        for low, high in ((f"{stem}_low", f"{stem}_high"), ("low", "high")):
            before, behind = parts[:position], parts[position + 1 :]
            names = (".".join([*before, end, *behind]) for end in (low, high))
            ends: list[Any] = [reference.get(beside) for beside in names]
            if _are_numbers(*ends):
                return abs(ends[1] - ends[0]) / 2
    return 0.0


def _compare(name: str, value, reference, allowed: float) -> str:
    """Return what is wrong with a number that may be so far off, or nothing."""
    if value == reference or (_is_decided(name, reference) and type(value) is type(reference)):
        return ""
    if not _are_numbers(value, reference):
        return f"{name} is {value!r}, the reference {reference!r}"
    if isinstance(value, int) and isinstance(reference, int):
        return f"{name} is {value}, the reference {reference}; whole numbers must be equal"
    if abs(value - reference) <= allowed:
        return ""
    low, high = reference - allowed, reference + allowed
    there = f"the reference {reference:.9g}; allowed: {low:.9g} to {high:.9g}"
    return f"{name} is {value:.9g}, {there} ({tolerance(name).why})"


def _is_decided(name: str, value) -> bool:
    """Return whether this is what one search or training came to, in float32."""
    one = any(part in DECIDED for part in name.split("."))  # and no rate
    return one and not isinstance(value, float) and tolerance(name).kind == DEPENDENT


def _are_numbers(*values) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _column(name: str) -> str:
    """Return a number's name without its place in lists: all rows of a table's column share it."""
    return ".".join(part for part in name.split(".") if not part.isdigit())


def _count(entry: Mapping) -> int:
    """Return how many numbers and verdicts a notebook has, the data of each figure as one."""
    numbers = [record["numbers"] for record in entry["figures"].values()]
    of_figures = sum(1 + sum(1 for _ in _leaves("", each)) for each in numbers)
    return of_figures + len(entry["verdicts"])


def _leaves(name: str, value) -> Iterator[tuple[str, Any]]:
    """Yield every number with its name, figure.entry.position."""
    if isinstance(value, dict | list):
        for key, child in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(f"{name}.{key}", child)
    else:
        yield name, value


def _short(value):
    """Return the same numbers with as many digits as two machines can agree on."""
    if isinstance(value, dict):
        return {key: _short(child) for key, child in value.items()}
    if isinstance(value, list):
        return [_short(child) for child in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def _write(numbers: Numbers) -> None:
    """Write the reference, a figure a line."""
    parts = []
    for notebook, entry in sorted(numbers.items()):
        records = sorted(entry["figures"].items())
        lines = [f'  "{name}": {json.dumps(record, sort_keys=True)}' for name, record in records]
        figures = ",\n".join(lines)
        verdicts = json.dumps(entry["verdicts"], sort_keys=True)
        parts.append(f'"{notebook}": {{"figures": {{\n{figures}\n }}, "verdicts": {verdicts}}}')
    files.put(REFERENCE, "{\n" + ",\n".join(parts) + "\n}\n")
