"""`make verify`: runs the smallest profile from nothing and compares it with a reference.

Nothing that lies on this machine can help or disturb: results are computed anew in a scratch
folder, and neither LDP_DATA nor the cache is looked at, so the data are the shipped ones and the
same everywhere. figures/ is not touched. `tolerances` says what must agree, and how nearly.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
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
    SHARE,  # noqa: F401
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
        compared = sum(1 for name in measured for _ in _leaves_of(reference[name]))
        print(
            f"verify: {compared} numbers and verdicts of {len(measured)} notebooks are as they were"
        )
    return 1 if wrong else 0


def _say(wrong: list[Difference]) -> None:
    """Print the differences, and for each kind of them how many there are and what to do."""
    if not wrong:
        return
    print("\n".join(f"{kind}: {sentence}" for kind, sentence in wrong[:SHOWN]))
    print(
        f"verify: {len(wrong)} differences"
        + (f", the first {SHOWN} above" if len(wrong) > SHOWN else "")
    )
    counted = Counter(kind for kind, _ in wrong)
    print(
        "\n".join(
            f"  {counted[kind]} of kind {kind}: {ADVICE[kind]}" for kind in ADVICE if counted[kind]
        )
    )


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
    print(
        f"verify: wrote the numbers of {', '.join(measured) or 'no notebook'} {seen} "
        f"to {REFERENCE.relative_to(batch.ROOT)}"
    )
    return 1 if wrong else 0


def _measure(
    number: str | None,
    name: str,
    variables: Mapping[str, str] | None = None,
    seed: int | None = None,
) -> tuple[Numbers, list[Difference]]:
    """Return what the notebooks came to from nothing, and those that failed."""
    chosen, scratch = (
        [path.stem for path in batch.notebooks(number)],
        batch.CACHE / "verify" / name.replace(" ", "-"),
    )
    shutil.rmtree(scratch, ignore_errors=True)
    with _alone(scratch / "cache", variables or {}):
        batch.run("smoke", number, seed, scratch / "figures")
    finished = [
        name for name in chosen if (scratch / "figures" / "notebooks" / f"{name}.ipynb").exists()
    ]
    failed = [
        Difference(FAILED, f"{nb} ({name}): its numbers were not compared")
        for nb in chosen
        if nb not in finished
    ]
    collected = collect(scratch / "figures")
    return {name: collected.get(name, _nothing()) for name in finished}, failed


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
    for figure, record in entry["figures"].items():
        record["away"] = {}
        for found in (other["figures"].get(figure, _no_figure()) for other in others):
            if found["data"] == record["data"]:
                yield from _widen(record, figure, found["numbers"], is_seed=False)
            else:
                yield Difference(DATA, f"{notebook}: the data of {figure} depend on the processor")
        for other in (other[notebook] for other in seeds if notebook in other):
            yield from _widen(
                record, figure, other["figures"].get(figure, _no_figure())["numbers"], is_seed=True
            )
    for key, verdict in entry["verdicts"].items():
        given = {other["verdicts"].get(key, verdict) for other in others} - {verdict}
        entry["verdicts"][key] = [verdict, *sorted(given)] if given else verdict


def _no_figure() -> dict:
    return {"data": None, "numbers": {}}


def _widen(record: dict, figure: str, numbers: object, is_seed: bool) -> Iterator[Difference]:
    """Let `away` hold the largest distances of dependent numbers; yield exact ones that moved."""
    found: dict[str, Any] = dict(_leaves(figure, numbers))
    other: Any
    for name, value in _leaves(figure, record["numbers"]):
        allowed, other = tolerance(name), found.get(name)
        if allowed.kind == DEPENDENT:
            if (
                isinstance(value, float)
                and _are_numbers(other)
                and (allowed.searched or not is_seed)
            ):
                key, distance = name if is_seed else _column(name), _rounded_up(abs(value - other))
                if MARGIN * distance > max(
                    allowed.floor(0.0), record["away"].get(key, 0.0) * MARGIN
                ):
                    record["away"][key] = distance
        elif not is_seed and (sentence := _compare(name, other, value, allowed.floor)):
            yield Difference(allowed.kind, f"it depends on the processor: {sentence}")


def _rounded_up(distance: float) -> float:
    """Return a distance with three digits, not less than it is; 0 for what rounding does."""
    return (
        0.0 if distance < 1e-9 or not math.isfinite(distance) else float(f"{1.005 * distance:.3g}")
    )


def differences(
    notebook: str, measured: Mapping, reference: Mapping | None
) -> Iterator[Difference]:
    """Yield every number or verdict of one notebook that is not as the reference says."""
    if reference is None:
        update = f"`make verify UPDATE=1 NB={notebook[:2]}` writes one"
        yield Difference(ABSENT, f"{notebook}: there is no reference; {update}")
        return
    for figure in sorted(measured["figures"].keys() | reference["figures"].keys()):
        for kind, sentence in _of_figure(
            figure, measured["figures"].get(figure), reference["figures"].get(figure)
        ):
            yield Difference(kind, f"{notebook}: {sentence}")
    for kind, sentence in _of_verdicts(measured["verdicts"], reference["verdicts"]):
        yield Difference(kind, f"{notebook}: {sentence}")


def _of_figure(
    figure: str, measured: Mapping | None, reference: Mapping | None
) -> Iterator[Difference]:
    if measured is None or reference is None:
        yield Difference(ABSENT, f"{figure} is {'new' if reference is None else 'missing'}")
    elif measured["data"] != reference["data"]:
        here, there = (
            ", ".join(text[:12] for text in record["data"]) for record in (measured, reference)
        )
        yield Difference(
            DATA,
            f"{figure} is of data {here or 'none'}, the reference of {there or 'none'} (SHA-256)",
        )
    else:
        yield from _of_numbers(figure, measured["numbers"], reference)


def _of_numbers(figure: str, measured: object, reference: Mapping) -> Iterator[Difference]:
    here, there = (dict(_leaves(figure, numbers)) for numbers in (measured, reference["numbers"]))
    for name in sorted(here.keys() | there.keys()):
        if name not in here or name not in there:
            yield Difference(ABSENT, f"{name} is {'new' if name in here else 'missing'}")
        elif sentence := _compare(
            name, here[name], there[name], lambda value, name=name: reach(name, there, reference)
        ):
            yield Difference(_kind(name, there[name]), sentence)


def _of_verdicts(measured: Mapping, reference: Mapping) -> Iterator[Difference]:
    for key in sorted(measured.keys() | reference.keys()):
        if key not in measured or key not in reference:
            yield Difference(ABSENT, f"verdict {key} is {'new' if key in measured else 'missing'}")
            continue
        allowed = reference[key] if isinstance(reference[key], list) else [reference[key]]
        if measured[key] not in allowed:
            yield Difference(
                VERDICT,
                f"{key} is {measured[key]!r}, the reference {' or '.join(map(repr, allowed))}",
            )


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
            ends: list[Any] = [
                reference.get(".".join([*parts[:position], end, *parts[position + 1 :]]))
                for end in (low, high)
            ]
            if _are_numbers(*ends):
                return abs(ends[1] - ends[0]) / 2
    return 0.0


def _compare(name: str, value, reference, reach_of) -> str:
    """Return what is wrong with a number, or nothing."""
    if value == reference or (_is_decided(name, reference) and type(value) is type(reference)):
        return ""
    if not _are_numbers(value, reference):
        return f"{name} is {value!r}, the reference {reference!r}"
    if isinstance(value, int) and isinstance(reference, int):
        return f"{name} is {value}, the reference {reference}; whole numbers must be equal"
    allowed = reach_of(reference)
    if abs(value - reference) <= allowed:
        return ""
    low, high = reference - allowed, reference + allowed
    there = f"the reference {reference:.9g}; allowed: {low:.9g} to {high:.9g}"
    return f"{name} is {value:.9g}, {there} ({tolerance(name).why})"


def _kind(name: str, reference) -> str:
    """Return the kind of a difference: words and whole numbers are exact wherever they stand."""
    return tolerance(name).kind if isinstance(reference, float) or reference is None else EXACT


def _is_decided(name: str, value) -> bool:
    """Return whether this is what one search or training came to, in float32."""
    is_rate = isinstance(value, float)
    return (
        not is_rate
        and tolerance(name).kind == DEPENDENT
        and any(part in DECIDED for part in name.split("."))
    )


def _are_numbers(*values) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _column(name: str) -> str:
    """Return a number's name without its place in lists: all rows of a table's column share it."""
    return ".".join(part for part in name.split(".") if not part.isdigit())


def _leaves_of(entry: Mapping) -> Iterator[tuple[str, Any]]:
    """Yield every number of a notebook with its name, figure.entry.position; verdicts, data."""
    for figure, record in entry["figures"].items():
        yield f"{figure} data", record["data"]
        yield from _leaves(figure, record["numbers"])
    yield from entry["verdicts"].items()


def _leaves(name: str, value) -> Iterator[tuple[str, Any]]:
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
        figures = ",\n".join(
            f'  "{name}": {json.dumps(record, sort_keys=True)}'
            for name, record in sorted(entry["figures"].items())
        )
        verdicts = json.dumps(entry["verdicts"], sort_keys=True)
        parts.append(f'"{notebook}": {{"figures": {{\n{figures}\n }}, "verdicts": {verdicts}}}')
    text = "{\n" + ",\n".join(parts) + "\n}\n"
    files.write(REFERENCE, lambda file: file.write(text.encode()))


@contextlib.contextmanager
def _alone(cache: Path, variables: Mapping[str, str]) -> Iterator[None]:
    """Let notebooks see neither the reader's data nor earlier results; set more variables."""
    changed = {"LDP_DATA": None, "LDP_CACHE": str(cache), **variables}
    before = {name: os.environ.get(name) for name in changed}
    _set(changed)
    try:
        yield
    finally:
        _set(before)


def _set(variables: Mapping[str, str | None]) -> None:
    """Set environment variables, or remove those that have no value."""
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
