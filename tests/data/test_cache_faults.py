"""A full disk, a killed writer and a spoiled cache cost time, never truth."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from companion import files
from companion.data import recordings
from tests.data import writers
from tests.data.conftest import cached_files

KILLED_WRITER = """
import sys, time
from pathlib import Path
from companion import files

def fill(file):
    file.write(Path(sys.argv[2]).read_bytes()[:5000])
    file.flush()
    print("half", flush=True)
    time.sleep(600)

files.write(Path(sys.argv[1]), fill)
"""


@pytest.fixture
def cached(tiny_recordings):
    """Return one subject read and cached, and where."""
    good = recordings.load(writers.PHYSIONET, 1, tiny_recordings)
    return good, recordings.cache_path(writers.PHYSIONET, 1)


def _killed_while_writing(target: Path, content: Path) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", KILLED_WRITER, str(target), str(content)], stdout=subprocess.PIPE
    )
    assert writer.stdout is not None and writer.stdout.readline() == b"half\n"
    writer.kill()
    writer.wait()


def test_a_killed_writer_leaves_nothing_that_is_believed(cached, tiny_recordings, tmp_path):
    good, path = cached
    content = tmp_path / "content"
    shutil.move(path, content)
    _killed_while_writing(path, content)
    assert not path.exists() and len(list(path.parent.iterdir())) == 1  # the hidden half file
    assert recordings.cached(writers.PHYSIONET, 1) is None
    assert recordings.load(writers.PHYSIONET, 1, tiny_recordings).digest() == good.digest()
    assert recordings.cached(writers.PHYSIONET, 1).digest() == good.digest()


def test_a_killed_writer_does_not_harm_the_file_that_was_there(cached, tmp_path):
    good, path = cached
    content = tmp_path / "content"
    shutil.copy(path, content)
    _killed_while_writing(path, content)
    assert recordings.cached(writers.PHYSIONET, 1).digest() == good.digest()


def test_half_files_of_dead_writers_are_cleared_away_in_time(cached, tiny_recordings, tmp_path):
    _, path = cached
    fresh, old = path.with_name(f".{path.name}.abc.part"), path.with_name(f".{path.name}.def.part")
    for part in (fresh, old):
        part.write_bytes(b"half")
    long_ago = time.time() - 2 * files.STALE_SECONDS
    os.utime(old, (long_ago, long_ago))
    path.unlink()
    recordings.load(writers.PHYSIONET, 1, tiny_recordings)
    assert fresh.exists() and not old.exists()  # the fresh one may belong to somebody still writing


DAMAGE = {
    "cut": lambda b: b[:-100],
    "half": lambda b: b[: len(b) // 2],
    "empty": lambda b: b"",
    "one bit": lambda b: b[:30000] + bytes([b[30000] ^ 4]) + b[30001:],
    "something else": lambda b: b"PK but not really",
}


@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_cache_file_is_named_and_made_again(case, cached, tiny_recordings, caplog):
    good, path = cached
    path.write_bytes(DAMAGE[case](path.read_bytes()))
    again = recordings.load(writers.PHYSIONET, 1, tiny_recordings)
    assert again.digest() == good.digest()
    assert len(caplog.messages) == 1 and caplog.messages[0].startswith(f"{path}: ")
    assert recordings.cached(writers.PHYSIONET, 1).digest() == good.digest()


def test_a_whole_file_with_other_content_is_not_believed(cached, tiny_recordings, caplog):
    """Sound archive, sound arrays, right shape, but not what the digest says."""
    good, path = cached
    with np.load(path) as archive:
        arrays = dict(archive)
    np.savez(path, **(arrays | {"X": arrays["X"] + 1}))
    assert recordings.load(writers.PHYSIONET, 1, tiny_recordings).digest() == good.digest()
    assert "but it says" in caplog.messages[0]


def test_a_folder_in_the_place_of_the_cache_file(cached, tiny_recordings, caplog):
    good, path = cached
    path.unlink()
    path.mkdir()
    assert recordings.load(writers.PHYSIONET, 1, tiny_recordings).digest() == good.digest()
    assert (
        all("\n" not in line and str(path) in line for line in caplog.messages)
        and len(caplog.messages) == 2
    )


LIMITED = """
import resource, signal, sys
from pathlib import Path
from companion.data import recordings
from tests.data import writers

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (8192, resource.RLIM_INFINITY))
print(recordings.load(writers.PHYSIONET, 1, Path(sys.argv[1])).X.shape)
"""


def test_no_room_for_the_cache_file_in_a_real_process(tiny_recordings, cache):
    """The operating system refuses to let any file grow beyond 8 kB.

    The data comes all the same.
    """
    resource = pytest.importorskip("resource")
    said = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tiny_recordings)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.strip() == "(12, 22, 640)"
    assert "not cached (File too large)" in said.stderr and said.stderr.count("\n") == 1
    assert not list(cache.rglob("*.npz")) and not list(cache.rglob("*.part"))
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 8192  # this process was not limited


@pytest.fixture
def tiny_disk(tmp_path, monkeypatch):
    """Let the cache be a disk of 64 kB, where one may be mounted."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(disk)]
    if (
        os.geteuid() != 0
        or not shutil.which("mount")
        or subprocess.run(mount, capture_output=True).returncode
    ):
        pytest.skip("a small disk can be mounted only as root")
    monkeypatch.setenv("LDP_CACHE", str(disk))
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk(tiny_disk, tiny_recordings, caplog):
    found = recordings.load(writers.PHYSIONET, 1, tiny_recordings)
    assert found.X.shape == (12, 22, 640)
    assert (
        len(caplog.messages) == 1 and "not cached (No space left on device)" in caplog.messages[0]
    )
    assert cached_files(tiny_disk) == []


def test_a_full_disk_simulated(tiny_recordings, cache, caplog, monkeypatch):
    """The same where nothing can be mounted: the flush to the disk fails after all bytes were
    written."""

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    found = recordings.load(writers.PHYSIONET, 1, tiny_recordings)
    assert len(found) == 12 and cached_files(cache) == []
    assert len(caplog.messages) == 1 and "No space left on device" in caplog.messages[0]
