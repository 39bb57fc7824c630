"""Every test here has a cache of its own, no LDP_DATA unless it asks for it, and no network."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from companion.data import DataError
from tests.data import writers


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return this test's own cache folder, which does not exist yet."""
    monkeypatch.setenv("LDP_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("LDP_DATA", raising=False)
    return tmp_path / "cache"


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail loudly if anything tries to reach a server."""

    def refuse(*_, **__):
        raise AssertionError("a test tried to use the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture(scope="session")
def tiny_recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with nine PhysioNet subjects and two BNCI subjects in the official layouts, a
    few trials each."""
    folder = tmp_path_factory.mktemp("recordings")
    for subject in range(1, 10):
        writers.edf_subject(folder, subject)
    for subject in (1, 2):
        writers.bnci_subject(folder, subject)
    return folder


def cached_files(cache: Path) -> list[Path]:
    """Return the data files in a cache; what matplotlib keeps there does not count."""
    return [path for path in cache.rglob("*") if path.is_file() and "matplotlib" not in path.parts]


def refused(action: Callable[[], object], path: Path, problem: str, cache: Path) -> None:
    """Check that an action raises one line naming the file and the problem, and caches nothing."""
    with pytest.raises(DataError) as caught:
        action()
    line = str(caught.value)
    assert line.startswith(f"{path}: ") and problem in line and "\n" not in line, line
    assert cached_files(cache) == []
