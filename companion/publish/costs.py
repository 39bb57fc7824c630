"""What the commands cost, in figures/costs.json: measured from nothing, and read by the README.

    >>> said("make figures", {"seconds": 1200.0, "memory": 3.21, "cores": 2})
    '`make figures` takes 20 minutes on 2 cores, with 3.2 GB of memory'
    >>> said("make figures", {"seconds": 9000.0, "cpu": 14400.0, "disk": 0.5, "cores": 2})
    '`make figures` takes 2.5 hours on 2 cores (4.0 hours of a processor), with 0.5 GB on disk'

`python -m companion report --measured figures/default` takes in what a run wrote of itself, or what
pytest did (`PYTEST_ADDOPTS=--junitxml=tests.xml make test`: on all cores, as `make test` is).
"""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

from companion import files
from companion.publish.report import provenance
from companion.runs.execute import cores

NAME = "costs.json"
OWN = ("cold", "cpu", "memory", "disk")  # what is known of each notebook
SHOWN = ("make figures", "make figures PROFILE=smoke", "make figures PROFILE=paper", "make test")


def measured(place: Path) -> dict[str, dict]:
    """Return what a command cost, from a folder it wrote or a file of pytest's; ValueError if not.

    A folder must hold cold runs of one profile and one commit.
    """
    if place.suffix == ".xml":
        suite = ElementTree.parse(place).getroot().find("testsuite")
        seconds = float(suite.attrib["time"]) if suite is not None else 0.0
        return {"make test": {"seconds": seconds, "cores": cores()}}
    place /= provenance.NAME
    named = json.loads(place.read_text(encoding="utf-8"))
    runs = list(named.values())
    known = all(set(OWN) <= run.keys() for run in runs)
    profiles, commits = ({run[name] for run in runs} for name in ("profile", "commit"))
    if not known or len(profiles) > 1 or len(commits) > 1:
        raise ValueError(f"{place} must hold cold runs of one profile and one commit")
    (profile,), (commit,) = profiles, commits
    command = "make figures" + (f" PROFILE={profile}" if profile != "default" else "")
    most = {name: max(run[name] for run in runs) for name in ("memory", "cores")}
    added = {name: round(sum(run[name] for run in runs), 1) for name in ("cold", "cpu", "disk")}
    each = {name: {column: run[column] for column in OWN} for name, run in named.items()}
    whole = {"seconds": added.pop("cold"), "commit": commit, **most, **added}
    return {command: whole | {"notebooks": each}}


def record(place: Path, figures: Path) -> None:
    """Put what a command cost into costs.json in `figures`, in place of what it cost before."""
    costs = load(figures) | measured(place)
    files.put(figures / NAME, json.dumps(costs, indent=1, sort_keys=True) + "\n")


def load(figures: Path) -> dict[str, dict]:
    """Return the costs by command; none where there is no such file."""
    path = figures / NAME
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def sentence(figures: Path) -> str:
    """Return what every command costs that was measured, in one sentence; nothing without any."""
    costs = load(figures)
    parts = [said(command, costs[command]) for command in SHOWN if command in costs]
    return f"From nothing, {'; '.join(parts)}." if parts else ""


def said(command: str, cost: dict) -> str:
    """Return what one command costs."""
    sizes = {"memory": "of memory", "disk": "on disk"}
    parts = [f"{cost[name]:.1f} GB {where}" for name, where in sizes.items() if cost.get(name)]
    needed = f", with {' and '.join(parts)}" if parts else ""
    work = f" ({duration(cost['cpu'])} of a processor)" if "cpu" in cost else ""
    where = f"on {cost['cores']} core{'s' * (cost['cores'] > 1)}{work}{needed}"
    return f"`{command}` takes {duration(cost['seconds'])} {where}"


def duration(seconds: float) -> str:
    """Return whole minutes, at least one, or hours where they are many."""
    minutes = max(1, round(seconds / 60))
    if minutes > 90:
        return f"{seconds / 3600:.1f} hours"
    return f"{minutes} minute{'s' * (minutes > 1)}"
