"""The whole command, killed with its kernel and its workers as a power cut would, ends in the bytes
of an undisturbed run."""

import contextlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil

from companion.publish import environment

ROOT = Path(environment.ROOT)
# shards kept when all processes are killed; `test_interrupted_notebook` kills what computes them
# more often
STAGES = (1, 8)
# they say how long it took and how much was reused
CHANGING = {"runs.json", "report.html", "report.md"}


def start(output: Path, cache: Path) -> subprocess.Popen:
    command = [
        sys.executable,
        "-m",
        "companion",
        "figures",
        "--profile",
        "smoke",
        "--nb",
        "01",
        "--output",
        str(output),
    ]
    settings = {**os.environ, "LDP_CACHE": str(cache)}
    with output.with_name("said").open("w") as said:
        return subprocess.Popen(
            command, cwd=ROOT, env=settings, stdout=said, stderr=subprocess.STDOUT
        )


def kill_everything(process: subprocess.Popen) -> int:
    """Kill a process and all that it has started, before any of them can notice.

    Return how many there were.
    """
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    for act in (psutil.Process.suspend, psutil.Process.kill):
        for member in family:
            with contextlib.suppress(psutil.NoSuchProcess):  # it ended by itself in the meantime
                act(member)
    process.wait()
    return len(family)


def artefacts(output: Path) -> dict[str, bytes]:
    """Return the figures, claims and executed notebooks of a run, by name.

    Hidden files are what a killed run left.
    """
    paths = [path for path in output.rglob("*") if path.is_file() and path.name not in CHANGING]
    return {
        str(path.relative_to(output)): path.read_bytes()
        for path in paths
        if not path.name.startswith(".")
    }


def test_a_command_that_is_killed_with_all_its_processes_leaves_no_trace(tmp_path):
    """Both runs write to the same folder, one after the other: its name is among the parameters
    that a notebook shows."""
    output, said = tmp_path / "out", tmp_path / "said"
    assert start(output, tmp_path / "cache").wait(600) == 0, said.read_text()
    undisturbed = artefacts(output)
    shutil.rmtree(output)
    for shards in STAGES:
        process = start(output, tmp_path / "other")
        while process.poll() is None and len(list((tmp_path / "other").rglob("*.result"))) < shards:
            time.sleep(0.02)
        assert process.poll() is None, f"it ended before it was killed: {said.read_text()}"
        assert kill_everything(process) >= 2, "its kernel must have been killed with it"
    assert start(output, tmp_path / "other").wait(600) == 0, said.read_text()
    disturbed = artefacts(output)
    assert len(undisturbed) >= 10 and undisturbed.keys() == disturbed.keys()
    assert [name for name, content in undisturbed.items() if disturbed[name] != content] == []
