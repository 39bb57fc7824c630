"""Who may import whom: the house has one direction, and the first import that breaks it fails
here."""

import ast
from pathlib import Path

import pytest

from companion.publish import environment

ROOT = Path(environment.ROOT)
PACKAGES = ("ldp_core", "companion")
CORE = {
    "checks",
    "network",
    "quantizer",
    "randomness",
    "optimizer",
    "engine",
    "accountant",
    "audit",
    "clipping",
}
CORE |= {"distinguishers", "schedules"}
ROOMS = tuple(f"companion.{name}" for name in ("convergence", "budget", "mnist", "eeg"))
SHARED = ("attacks", "claims", "data", "explore", "files", "house", "intervals", "params")
SHARED += ("neighbours", "problems", "promises", "runs")
STUDY = {f"companion.{name}" for name in SHARED} | {f"ldp_core.{name}" for name in CORE}
MAY = {  # a room of ldp_core or companion, and the rooms that it may import from
    "ldp_core": {"ldp_core.checks"},  # whose guard is put before all rooms
    "ldp_core.checks": set(),
    "ldp_core.clipping": {"ldp_core.checks"},
    "ldp_core.network": {"ldp_core.checks"},
    "ldp_core.quantizer": {"ldp_core.checks"},
    "ldp_core.randomness": {"ldp_core.checks"},
    "ldp_core.schedules": {"ldp_core.checks"},
    "ldp_core.optimizer": {
        f"ldp_core.{name}" for name in ("checks", "network", "quantizer", "randomness", "schedules")
    },
    "ldp_core.engine": {f"ldp_core.{name}" for name in ("checks", "optimizer", "quantizer")},
    "ldp_core.accountant": {
        f"ldp_core.{name}" for name in CORE - {"accountant", "audit", "engine"}
    },
    "ldp_core.distinguishers": {"ldp_core.quantizer"},
    "ldp_core.audit": {
        f"ldp_core.{name}" for name in ("checks", "distinguishers", "quantizer", "randomness")
    },
    "companion.files": set(),
    "companion.intervals": set(),
    "companion.exercises": set(),  # a browser runs them, too
    "companion.explore": {"ldp_core.accountant", "ldp_core.quantizer"},  # and this
    "companion.promises": {"companion.files"},
    "companion.runs": {"companion.files"},  # knows nothing of the paper
    "companion.data": {"companion.files", "ldp_core.checks", "ldp_core.randomness"},
    # not of the optimizer
    "companion.problems": {f"ldp_core.{name}" for name in ("checks", "quantizer", "randomness")},
    "companion.attacks": {"companion.data", "companion.problems"}
    | {f"ldp_core.{name}" for name in ("accountant", "optimizer", "quantizer", "randomness")},
    "companion.claims": {"companion.data", "companion.files", "companion.intervals"},
    "companion.params": {"companion.files"}
    | {f"ldp_core.{name}" for name in ("checks", "network", "optimizer", "randomness")},
    "companion.house": {"companion.files"},
    "companion.neighbours": {"companion.attacks", "companion.intervals", "companion.params"}
    | {f"ldp_core.{name}" for name in ("accountant", "checks", "network", "optimizer")}
    | {f"ldp_core.{name}" for name in ("quantizer", "randomness")},
    "companion.mushrooms": STUDY,
    **{room: STUDY | {"companion.mushrooms"} for room in ROOMS},  # and never each other
    "companion.publish": {
        "ldp_core",
        *(f"ldp_core.{name}" for name in CORE),
    }  # the pages of `make play` compute
    | {f"companion.{name}" for name in ("claims", "exercises", "explore", "files")}
    | {f"companion.{name}" for name in ("params", "promises", "runs")},
    "companion.__main__": {f"companion.{name}" for name in ("data", "publish", "runs")},
}
FILES = sorted(
    path.relative_to(ROOT) for package in PACKAGES for path in (ROOT / package).rglob("*.py")
)
MODULES = {".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in FILES}


def room(module: str) -> str:
    """Return the first two parts of a module's name."""
    return ".".join(module.split(".")[:2])


def imported(tree: ast.AST):
    """Yield the modules of the house that a file imports, inside functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (name if name in MODULES else node.module for name in names)


@pytest.mark.parametrize("path", FILES, ids=str)
def test_imports_go_one_way(path):
    own = room(".".join(path.with_suffix("").parts).removesuffix(".__init__"))
    found = {room(name) for name in imported(ast.parse((ROOT / path).read_text(encoding="utf-8")))}
    foreign = {name for name in found - {own} if name.split(".")[0] in PACKAGES}
    assert foreign <= MAY.get(own, set()), (
        f"{path} may not import {', '.join(sorted(foreign - MAY.get(own, set())))}"
    )


def test_every_room_has_a_rule():
    assert {room(module) for module in MODULES} - set(PACKAGES) == set(MAY) - set(PACKAGES)
