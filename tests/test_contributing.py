"""What we tell contributors to run passes: both linters, on everything they are set to look at."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = ("ruff check .", "ruff format --check .", "mypy")


def said(*command: str) -> str:
    """Return what a module of this Python complains of, run in the project's folder."""
    whole = [sys.executable, "-m", *command]
    ended = subprocess.run(whole, cwd=ROOT, capture_output=True, text=True)
    return ended.stdout + ended.stderr if ended.returncode else ""


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_it_has_nothing_to_say(command):
    assert not said(*command.split())


def test_it_would_have_something_to_say(tmp_path):
    """The same commands find what is wrong in a file that is wrong in three ways."""
    wrong = tmp_path / "wrong.py"
    wrong.write_text("import os\nnumber : int = 'one'\n")
    settings = str(ROOT / "pyproject.toml")
    ruff = ("--config", settings, str(wrong))
    assert "F401" in said("ruff", "check", *ruff)
    assert "would be reformatted" in said("ruff", "format", "--check", *ruff)
    mypy = ("--config-file", settings, "--cache-dir", str(tmp_path / "mypy"), str(wrong))
    assert "Incompatible types in assignment" in said("mypy", *mypy)


def test_they_are_the_commands_of_the_handbook_and_of_pre_commit():
    """CONTRIBUTING.md names them; pre-commit runs them, and fetches nothing from elsewhere."""
    handbook = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert all(f".venv/bin/{command}" in handbook for command in COMMANDS)
    settings = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert [repository["repo"] for repository in settings["repos"]] == ["local"]
    entries = [hook["entry"] for hook in settings["repos"][0]["hooks"]]
    assert all(any(command in entry for entry in entries) for command in COMMANDS)
