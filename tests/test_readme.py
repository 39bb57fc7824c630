"""What the README says can be typed does what it says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ldp_core import environment

ROOT = Path(environment.ROOT)
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", README, re.S))
def test_python_examples_run(code, tmp_path):
    ended = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 0 and ended.stdout, ended.stderr


def test_every_make_target_named_exists():
    named = set(re.findall(r"(?m)^make (\w+)", README))
    assert {"figures", "test", "lab", "bench", "help"} <= named
    for target in named:
        assert re.search(rf"(?m)^{target}:", MAKEFILE), target


def test_make_help_lists_every_target():
    shown = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for target in re.findall(r"(?m)^([a-z]+):", MAKEFILE):
        assert target == "help" or f"make {target}" in shown


def test_papermill_commands_run(tmp_path):
    (command,) = re.findall(r"(?m)^\.venv/bin/python (-m papermill .*)$", README)
    arguments = command.replace("out.ipynb", str(tmp_path / "out.ipynb")).split()
    small = [
        "-p",
        "runs",
        "2",
        "-p",
        "iterations",
        "40",
        "-p",
        "rate_runs",
        "2",
        "-p",
        "rate_iterations",
        "100",
        "-p",
        "sweep_iterations",
        "40",
        "-p",
        "sweep_runs",
        "2",
    ]
    fast = [*small, "-y", "{rate_d_0: [0.0, 2.0], sweep_weights: [0.2], sweep_d_0: [2.0]}"]
    command = [sys.executable, *arguments, "--execution-timeout", "240", *fast]
    for _ in range(2):  # once in a while a kernel's last message gets lost, and papermill waits for it
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if "Timeout" not in ended.stderr:
            break
    assert ended.returncode == 0, ended.stderr[-2000:]


def test_links_lead_somewhere():
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
