"""A command, profile or setting that makes no sense: one line, and nothing is overwritten."""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from companion import __main__ as command
from companion.publish import batch, environment, surroundings
from tests.faults.notebooks import NOTEBOOKS

ROOT = Path(environment.ROOT)


@pytest.fixture
def own_profiles(tmp_path, monkeypatch):
    """Return a folder for profiles, and one for output with something in it, that nobody else
    uses."""
    (tmp_path / "profiles").mkdir()
    (tmp_path / "out" / "notebooks").mkdir(parents=True)
    (tmp_path / "out" / "fig1.json").write_text("what was here before")
    monkeypatch.setattr(batch, "PROFILES", tmp_path / "profiles")
    monkeypatch.setattr(batch, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(batch, "_records", lambda output: {})  # the sentinel is no record
    yield tmp_path
    assert digests(tmp_path / "out") == {
        "fig1.json": hashlib.sha256(b"what was here before").hexdigest()
    }


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file below a folder."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }


PAPERMILL = {
    "01": ("weight: 0.6", "ParameterError: agent 2: 1 + R_ii = "),
    "02": ("arrivals: [0, 3000]", "ParameterError: arrivals holds 3000"),
    "03": ("activation: swish", "ParameterError: activation = 'swish' is wrong"),
}


@pytest.mark.parametrize("number", PAPERMILL)
def test_papermill_stops_at_the_check(own_profiles, number, capsys):
    """The whole way: a profile, papermill, a kernel.

    The sentence names the cell, nothing is written.
    """
    text, sentence = PAPERMILL[number]
    (own_profiles / "profiles" / "mine.yaml").write_text(f"{NOTEBOOKS[number].stem}:\n  {text}\n")
    assert batch.run("mine", number, output=own_profiles / "out") == 1
    shown = capsys.readouterr()
    failed = [line for line in shown.err.splitlines() if "FAILED" in line]
    assert len(failed) == 1 and re.search(
        r"FAILED in cell \d+ \(In \[\d+\]\): " + re.escape(sentence), failed[0]
    )
    assert "Traceback" not in shown.err + shown.out


PROFILES = {
    "empty": ("", "mine.yaml must hold notebooks and their parameters, and holds None"),
    "only a comment": (
        "# nothing yet\n",
        "mine.yaml must hold notebooks and their parameters, and holds None",
    ),
    "a list": (
        "- 01_convergence\n",
        "must hold notebooks and their parameters, and holds ['01_convergence']",
    ),
    "a word": ("hello\n", "must hold notebooks and their parameters, and holds 'hello'"),
    "broken": ("01_convergence: {runs: 3\n", "mine.yaml is not YAML: "),
    "a tab": ("01_convergence:\n\truns: 3\n", "mine.yaml is not YAML: "),
    "not text": (b"\xff\xfe\x00", "mine.yaml is not YAML: "),
    "code": ("!!python/object/apply:os.system [true]\n", "mine.yaml is not YAML: "),
    "unknown notebook": ("05_more:\n  runs: 3\n", "profile mine: 05_more is not a notebook"),
    "no notebook's name": ("7:\n  runs: 3\n", "profile mine: 7 is not a notebook"),
    "unknown parameter": (
        "01_convergence:\n  run: 3\n",
        "profile mine: 01_convergence has no parameter run: did you mean runs?",
    ),
    "parameter of nowhere": (
        "01_convergence:\n  qqq: 3\n",
        "profile mine: 01_convergence has no parameter qqq; it has profile",
    ),
    "parameters as a list": (
        "01_convergence: [3]\n",
        "profile mine: 01_convergence must hold parameters, name: value",
    ),
    "parameters as nothing much": (
        "01_convergence: 0\n",
        "profile mine: 01_convergence must hold parameters, name: value",
    ),
}


@pytest.mark.parametrize("name", PROFILES)
def test_a_bad_profile_is_refused_before_anything_runs(own_profiles, name, monkeypatch, capsys):
    content, sentence = PROFILES[name]
    (own_profiles / "profiles" / "mine.yaml").write_bytes(
        content if isinstance(content, bytes) else content.encode()
    )
    monkeypatch.setattr(batch, "ROOT", own_profiles)
    error = refused(
        monkeypatch, capsys, "figures", "--profile", "mine", "--output", str(own_profiles / "out")
    )
    assert error.startswith("figures: ") and sentence in error
    assert not (own_profiles / "cache").exists()


COMMANDS = {
    "unknown profile": (
        "figures --profile nonsense",
        "figures: PROFILE = 'nonsense' must be one of default, paper, smoke",
    ),
    "profile by path": (
        "figures --profile ../profiles/smoke",
        "PROFILE = '../profiles/smoke' must be one of",
    ),
    "no profile": ("figures --profile ''", "figures: PROFILE = '' must be one of"),
    "unknown notebook": (
        "figures --nb 99",
        "figures: NB = '99' must be the beginning of one notebook's name: 01_conv",
    ),
    "all notebooks": ("figures --nb 0", "figures: NB = '0' must be the beginning of one"),
    "a pattern": ("figures --nb '*'", "figures: NB = '*' must be the beginning of one"),
    "negative seed": (
        "figures --seed=-1",
        "figures: SEED = '-1' must be a whole number in [0, 2**63)",
    ),
    "seed as a word": ("figures --seed abc", "figures: SEED = 'abc' must be a whole number"),
    "seed as a fraction": ("figures --seed 1.5", "figures: SEED = '1.5' must be a whole number"),
    "seed in other digits": ("figures --seed '१'", "must be a whole number"),
    "seed too large": (
        "figures --seed 9223372036854775808",
        "must be a whole number in [0, 2**63)",
    ),
    "output into a file": (
        "figures --output README.md",
        "figures: OUTPUT = 'README.md' must be a folder",
    ),
    "output below a file": (
        "figures --output README.md/x",
        "must be a folder that can be written to: ",
    ),
    "output nowhere": (
        "figures --output /proc/x/y",
        "figures: OUTPUT = '/proc/x/y' must be a folder that can be written",
    ),
    "verify an unknown notebook": (
        "verify --nb 99",
        "verify: NB = '99' must be the beginning of one",
    ),
    "report of nothing": (
        "report --output /nowhere/at/all",
        "report: /nowhere/at/all holds no results",
    ),
    "unknown benchmark": (
        "bench --only nonsense",
        "bench: no benchmark has 'nonsense' in its name",
    ),
    "port too large": (
        "lab --port 65536",
        "argument --port: '65536' must be a whole number below 65536",
    ),
    "port as a word": (
        "lab --port http",
        "argument --port: 'http' must be a whole number below 65536",
    ),
    "unknown command": ("figure", "argument command: invalid choice: 'figure'"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_refuses_in_one_line(name, monkeypatch, capsys):
    arguments, sentence = COMMANDS[name]
    assert sentence in refused(monkeypatch, capsys, *shlex.split(arguments))


SURROUNDINGS = {
    "no workers": ("WORKERS", "0", "WORKERS = '0' must be a whole number, at least 1"),
    "workers as a word": ("WORKERS", "two", "WORKERS = 'two' must be a whole number, at least 1"),
    "half a worker": ("WORKERS", "1.5", "WORKERS = '1.5' must be a whole number, at least 1"),
    "an empty scheduler": (
        "SCHEDULER",
        "",
        "SCHEDULER = '' must be unset, or the address of a Dask scheduler",
    ),
    "a scheduler without port": (
        "SCHEDULER",
        "tcp://localhost",
        "SCHEDULER = 'tcp://localhost' must be unset, or the address",
    ),
    "a scheduler's wrong port": (
        "SCHEDULER",
        "tcp://localhost:99999",
        "SCHEDULER = 'tcp://localhost:99999' must be unset, or",
    ),
    "a deaf scheduler": (
        "SCHEDULER",
        "tcp://127.0.0.1:1",
        "SCHEDULER = 'tcp://127.0.0.1:1' must be unset, or the address of a Dask",
    ),
    "data in a file": ("LDP_DATA", "README.md", "LDP_DATA = 'README.md' must name a folder"),
    "data nowhere": (
        "LDP_DATA",
        "/nowhere/at/all",
        "LDP_DATA = '/nowhere/at/all' must name a folder",
    ),
    "a cache in a file": (
        "LDP_CACHE",
        "README.md",
        "LDP_CACHE = 'README.md/results' must be a folder that can be written to: ",
    ),
    "a cache nowhere": (
        "LDP_CACHE",
        "/proc/cache",
        "LDP_CACHE = '/proc/cache/results' must be a folder that can be written to: ",
    ),
}


@pytest.mark.parametrize("name", SURROUNDINGS)
def test_the_surroundings_are_checked_before_the_first_cell(
    name, own_profiles, monkeypatch, capsys
):
    variable, value, sentence = SURROUNDINGS[name]
    monkeypatch.setenv(variable, value)
    monkeypatch.setattr(batch, "PROFILES", ROOT / "notebooks" / "profiles")
    monkeypatch.setattr(batch, "_execute", lambda *given: pytest.fail("a notebook was started"))
    error = refused(
        monkeypatch, capsys, "figures", "--profile", "smoke", "--output", str(own_profiles / "out")
    )
    assert error.startswith("figures: ") and sentence in error


def test_an_empty_folder_of_data_is_said_aloud(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("LDP_DATA", "")
    surroundings.check(tmp_path, batch.CACHE)
    assert (
        capsys.readouterr().err
        == "LDP_DATA is set and empty: data come from the cache, or are stand-ins\n"
    )


def test_a_notebook_may_be_named_by_its_number():
    assert [path.name[:2] for number in ("1", "01", "4") for path in batch.notebooks(number)] == [
        "01",
        "01",
        "04",
    ]


def refused(monkeypatch, capsys, *arguments: str) -> str:
    """Return the one line that a command prints when it refuses.

    Argparse shows its usage before it.
    """
    monkeypatch.chdir(ROOT)  # to be taken back after the command's own
    try:
        code = command.main(list(arguments))
    except SystemExit as ended:
        code = ended.code
    shown = capsys.readouterr()
    lines = [line for line in shown.err.splitlines() if not line.startswith(("usage:", " "))]
    assert code != 0 and len(lines) == 1 and not shown.out
    return lines[0]


MAKE = {
    "PROFILE=nonsense": ("figures: PROFILE = 'nonsense' must be one of default, paper, smoke"),
    "NB=99": "figures: NB = '99' must be the beginning of one notebook's name: ",
    "SEED=-1": "figures: SEED = '-1' must be a whole number in [0, 2**63)",
    "SEED=a b": "figures: SEED = 'a b' must be a whole number in [0, 2**63)",
    "PYTHON=/nonexistent": "/nonexistent: ",
}


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make here")
@pytest.mark.skipif(not environment.is_installed(), reason="make would install its own .venv first")
@pytest.mark.parametrize("variable", MAKE)
def test_make_figures_refuses_and_leaves_the_figures_alone(variable):
    before = digests(ROOT / "figures")
    arguments = ["make", "--no-print-directory", "figures", f"PYTHON={sys.executable}", variable]
    alone = {
        name: value
        for name, value in os.environ.items()
        if name not in ("MAKELEVEL", "MAKEFLAGS", "MFLAGS")
    }
    ended = subprocess.run(
        arguments, cwd=ROOT, capture_output=True, text=True, timeout=300, env=alone
    )
    lines = ended.stderr.splitlines()
    assert ended.returncode != 0 and not ended.stdout
    assert len(lines) == 2 and MAKE[variable] in lines[0] and lines[1].startswith("make: ***")
    assert digests(ROOT / "figures") == before


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make here")
@pytest.mark.skipif(not environment.is_installed(), reason="make would install its own .venv first")
def test_a_python_whose_path_has_a_space_is_found(tmp_path):
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "python").symlink_to(sys.executable)
    arguments = ["make", "--no-print-directory", "setup", f"PYTHON={tmp_path / 'a b' / 'python'}"]
    alone = {
        name: value
        for name, value in os.environ.items()
        if name not in ("MAKELEVEL", "MAKEFLAGS", "MFLAGS")
    }
    ended = subprocess.run(
        arguments, cwd=ROOT, capture_output=True, text=True, timeout=300, env=alone
    )
    assert ended.returncode == 0, ended.stderr
