"""`make verify`: runs the smallest profile from nothing, on what ships with the code, and compares it with a reference.

Nothing that lies on this machine can help or disturb: results are computed anew in a scratch folder, and neither LDP_DATA nor
the cache is looked at, so the data are the shipped ones and the same everywhere. Words, whole numbers and verdicts must be
equal; other numbers must agree within a tolerance that depends on what they are (TOLERANCES). figures/ is not touched.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from companion import claims, files
from companion.publish import batch

REFERENCE = batch.ROOT / "tests" / "reference" / "smoke.json"
SHOWN = 20  # differences printed; the rest are counted
DIGITS = 12  # of a number in the reference


@dataclass(frozen=True)
class Tolerance:
    """How far a number may be from its reference: absolute + relative * |reference|; `why` says what moves it."""

    why: str
    relative: float = 0.0
    absolute: float = 0.0

    def allows(self, value: float, reference: float) -> bool:
        """Return whether a number is near enough."""
        return abs(value - reference) <= self.absolute + self.relative * abs(reference)


NETWORK = Tolerance("float32 networks are not equal to the last bit on two processors", relative=0.05, absolute=0.05)
FLOWN = Tolerance("how far from the image a search that fails ends up", relative=0.5, absolute=0.05)
DECIBELS = Tolerance("the same on a logarithmic scale", absolute=3.0)
SAMPLED = Tolerance("a share of samples or test points: one that ties may fall to either side", relative=1e-6, absolute=0.01)
ROUNDED = Tolerance("double precision, sums in another order", relative=1e-6, absolute=1e-9)
TOLERANCES = (  # the first pattern that fits a number's name: figure.entry.position
    ("fig5*.mse*", FLOWN),
    ("fig5*.psnr*", DECIBELS),
    *((f"fig{number}*", NETWORK) for number in (4, 5, 6, 7)),
    *(
        (f"*.{name}*", SAMPLED)
        for name in ("audit", "audited", "exact", "lower", "upper", "accuracy", "lost", "final_difference")
    ),
    ("fig2.summary.*", SAMPLED),
    ("fig3_frontier.frontier.delta.*", SAMPLED),
    ("*", ROUNDED),
)

Numbers = dict[str, dict]


def run(number: str | None = None, update: bool = False) -> int:
    """Run the notebooks at the smoke profile and compare, or write the reference; return 0 when all agrees."""
    chosen, scratch = [path.stem for path in batch.notebooks(number)], batch.CACHE / "verify"
    shutil.rmtree(scratch, ignore_errors=True)
    with _alone(scratch / "cache"):
        batch.run("smoke", number, None, scratch / "figures")
    finished = [name for name in chosen if (scratch / "figures" / "notebooks" / f"{name}.ipynb").exists()]
    wrong = [f"{name}: failed, so its numbers were not compared" for name in chosen if name not in finished]
    measured = {name: entry for name, entry in collect(scratch / "figures").items() if name in finished}
    reference = load()
    if update:
        known = {path.stem for path in batch.notebooks()}
        _write({name: entry for name, entry in {**reference, **measured}.items() if name in known})
        said = f"verify: wrote the numbers of {', '.join(measured) or 'no notebook'} to {REFERENCE.relative_to(batch.ROOT)}"
        print("\n".join([*wrong, said]))
        return 1 if wrong else 0
    wrong += [line for name in finished for line in differences(name, measured.get(name), reference.get(name))]
    print("\n".join(wrong[:SHOWN]))
    if wrong:
        print(f"verify: {len(wrong)} differences" + (f", the first {SHOWN} above" if len(wrong) > SHOWN else ""))
        return 1
    compared = sum(1 for name in chosen for _ in _numbers(reference[name]))
    print(f"verify: {compared} numbers and verdicts of {len(chosen)} notebooks are as they were")
    return 0


def collect(folder: Path) -> Numbers:
    """Return what the notebooks left in a folder, by notebook: the numbers of figures, their data, the verdicts."""
    found: Numbers = {}
    for path in sorted(folder.glob("fig*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        data = sorted(entry["sha256"] for entry in record["data"])
        entry = {"data": data, "numbers": _short(record["numbers"])}
        found.setdefault(record["notebook"], {"figures": {}, "verdicts": {}})["figures"][record["figure"]] = entry
    for claim in claims.load(folder):
        found.setdefault(claim.notebook, {"figures": {}, "verdicts": {}})["verdicts"][claim.key] = claim.verdict
    return found


def load() -> Numbers:
    """Return the reference; nothing when there is none."""
    return json.loads(REFERENCE.read_text(encoding="utf-8")) if REFERENCE.exists() else {}


def differences(notebook: str, measured: Mapping | None, reference: Mapping | None) -> Iterator[str]:
    """Yield a line for every number or verdict of one notebook that is not as the reference says."""
    if reference is None:
        yield f"{notebook}: there is no reference; `make verify UPDATE=1 NB={notebook[:2]}` writes one"
        return
    if measured is None:
        yield f"{notebook}: wrote no figures and no verdicts"
        return
    here, there = dict(_numbers(measured)), dict(_numbers(reference))
    for name in sorted(here.keys() | there.keys()):
        if name not in here or name not in there:
            yield f"{notebook}: {name} is " + ("new" if name in here else "missing")
        elif problem := _compare(name, here[name], there[name]):
            yield f"{notebook}: {problem}"


def tolerance(name: str) -> Tolerance:
    """Return how near a number of this name must be."""
    return next(allowed for pattern, allowed in TOLERANCES if fnmatch(name, pattern))


def _compare(name: str, value, reference) -> str:
    """Return what is wrong with a number, or nothing."""
    if value == reference:
        return ""
    if not all(isinstance(number, int | float) and not isinstance(number, bool) for number in (value, reference)):
        return f"{name} is {value!r}, the reference {reference!r}"
    if isinstance(value, int) and isinstance(reference, int):
        return f"{name} is {value}, the reference {reference}; whole numbers must be equal"
    allowed = tolerance(name)
    if allowed.allows(value, reference):
        return ""
    limits = f"{allowed.absolute:g} + {allowed.relative:g} of it"
    return f"{name} is {value:.9g}, the reference {reference:.9g}; allowed: {limits} ({allowed.why})"


def _numbers(entry: Mapping) -> Iterator[tuple[str, object]]:
    """Yield every number of a notebook with its name: figure.entry.position; verdicts and data too."""
    for figure, record in entry["figures"].items():
        yield f"{figure} data", record["data"]
        yield from _leaves(figure, record["numbers"])
    for key, verdict in entry["verdicts"].items():
        yield f"verdict {key}", verdict


def _leaves(name: str, value) -> Iterator[tuple[str, object]]:
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
            f'  "{name}": {json.dumps(record, sort_keys=True)}' for name, record in sorted(entry["figures"].items())
        )
        verdicts = json.dumps(entry["verdicts"], sort_keys=True)
        parts.append(f'"{notebook}": {{"figures": {{\n{figures}\n }}, "verdicts": {verdicts}}}')
    text = "{\n" + ",\n".join(parts) + "\n}\n"
    files.write(REFERENCE, lambda file: file.write(text.encode()))


@contextlib.contextmanager
def _alone(cache: Path) -> Iterator[None]:
    """Let notebooks see neither the reader's data nor earlier results."""
    before = {name: os.environ.get(name) for name in ("LDP_DATA", "LDP_CACHE")}
    os.environ.pop("LDP_DATA", None)
    os.environ["LDP_CACHE"] = str(cache)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
