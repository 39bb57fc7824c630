"""What a shard's result depends on besides its arguments: the code it can reach, and the versions
of what that imports.

A function can only call what its module, or a module imported from there, holds. So we follow the
import statements (those inside functions too) through this package, and hash what the files *do*:
comments, docstrings and layout do not count. Other packages count with their version. A change to a
file outside this closure changes no fingerprint.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

PACKAGES = ("ldp_core", "companion")
DISTRIBUTIONS = {"sklearn": "scikit-learn", "yaml": "PyYAML"}  # where a package is called otherwise


@cache
def of(function: Callable) -> str:
    """Return the fingerprint of everything that a module-level function depends on, in hexadecimal
    digits."""
    digest = hashlib.sha256(f"python {sys.version_info.major}.{sys.version_info.minor}\n".encode())
    foreign = set()
    for name in sorted(closure(function.__module__)):
        what_it_does, imports = _source(name)
        digest.update(f"{name}\n{what_it_does}\n".encode())
        foreign |= {imported.split(".")[0] for imported in imports}
    for name in sorted(foreign - set(PACKAGES)):
        digest.update(f"{name} {_version(name)}\n".encode())
    return digest.hexdigest()


def closure(module: str) -> set[str]:
    """Return the modules of this package, and the given one, that can be reached from it by import
    statements."""
    reached, waiting = set(), [module]
    while waiting:
        name = waiting.pop()
        if name in reached or _path(name) is None:
            continue
        reached.add(name)
        waiting += [imported for imported in _source(name)[1] if imported.split(".")[0] in PACKAGES]
        if name.split(".")[0] in PACKAGES and "." in name:
            # importing a module runs its package's __init__ too
            waiting.append(name.rpartition(".")[0])
    return reached


@cache
def _source(module: str) -> tuple[str, tuple[str, ...]]:
    """Return what matters of one module's file: a digest of what it does, and the full names of
    what it imports."""
    tree = ast.parse(_path(module).read_text(encoding="utf-8"))  # type: ignore[union-attr]
    imports = tuple(_imports(tree, module))
    return hashlib.sha256(ast.dump(_without_docstrings(tree)).encode()).hexdigest(), imports


def _imports(tree: ast.AST, module: str) -> Iterator[str]:
    """Yield the full names of everything a module imports.

    `from a import b` gives a, and a.b in case it is a module.
    """
    path = _path(module)
    package = module if path and path.name == "__init__.py" else module.rpartition(".")[0]
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".")
                base = ".".join([*parts[: len(parts) - node.level + 1], *([base] if base else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


@cache
def _path(module: str) -> Path | None:
    """Return the source file of a module, or None when there is none (a name that is not a module,
    a built-in)."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, AttributeError, ValueError):
        return None
    return Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a tree and all statements in it, without descending into expressions: they hold no
    import and no docstring."""
    yield node
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for child in getattr(node, field, ()):
            yield from _statements(child)


def _without_docstrings(tree: ast.AST) -> ast.AST:
    for node in _statements(tree):
        body = getattr(node, "body", None)
        if (
            isinstance(body, list)
            and body
            and isinstance(body[0], ast.Expr)
            and isinstance(body[0].value, ast.Constant)
        ):
            node.body = body[1:]  # type: ignore[attr-defined]
    return tree


@cache
def _distributions() -> Mapping[str, list[str]]:
    # reads the records of every installed package: a second
    return importlib.metadata.packages_distributions()


@cache
def _version(package: str) -> str:
    """Return the version of an installed package, or nothing for the standard library."""
    if package in sys.stdlib_module_names:
        return ""
    try:
        return f"{package} {importlib.metadata.version(DISTRIBUTIONS.get(package, package))}"
    except importlib.metadata.PackageNotFoundError:
        distributions = _distributions().get(package, [])
        return " ".join(
            sorted(f"{name} {importlib.metadata.version(name)}" for name in set(distributions))
        )
