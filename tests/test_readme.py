"""What the README and the documents say can be typed does what they say."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import yaml

from companion import __main__
from companion.publish import batch, environment

ROOT = Path(environment.ROOT)
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
OWN_DATA = (ROOT / "docs" / "own_data.md").read_text(encoding="utf-8")
GIVEN = {  # numbers that no run of ours makes: settings, definitions, and what others measured
    "CONTRIBUTING.md": ["400 lines"],
    "docs/broken_mechanisms.md": ["0.61"],
    "docs/cluster.md": ["20 seconds"],
    "docs/proofs/promise.md": ["1.26 times"],
    "docs/related_work.md": ["21.36 %", "70.01 %", "94.63 %", "96.78 %", "97.09 %"],
    "docs/silent_choices.md": ["5 %", "95 %", "84,202"],
    "docs/slides.md": ["0.66", "0.05"],
}
TESTED_ELSEWHERE = ("docs/teaching.md", "docs/solutions.md")  # test_teaching, test_exercises
BLOCKS = re.findall(r"(?m)^```(\w*)\n([^`]*)^```$", README)
COMMANDS = [
    line
    for language, block in BLOCKS
    if not language
    for line in block.splitlines()
    if line.strip()
]


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", README + OWN_DATA, re.S))
def test_python_examples_run(code, tmp_path):
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert ended.returncode == 0 and ended.stdout, ended.stderr


def reaches_its_entry_point(command):
    """`make ...` runs `python -m companion ...` with words that its parser takes.

    Other tests run those functions.
    """
    shown = subprocess.run(
        [*command.split(), "--dry-run"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    *_, line = [line for line in shown.replace("\\\n", " ").splitlines() if "-m companion" in line]
    options = __main__._parser().parse_args(shlex.split(line.partition("-m companion ")[2]))
    assert callable(options.command)
    return options


def makes_figures(command):
    options = reaches_its_entry_point(command)
    for path in batch.notebooks(options.nb):  # refuses what batch.run would refuse
        batch.parameters(
            path, options.profile, options.seed, batch.place(options.profile, options.output)
        )


def lists_every_target(command):
    shown = subprocess.run(
        command.split(), cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    for target in re.findall(r"(?m)^([a-z-]+):", MAKEFILE):
        assert target == "help" or f"make {target}" in shown


def lists_every_parameter(command):
    *_, notebook = command.split()
    ended = papermill(command)
    parameters = next(
        cell
        for cell in nbformat.read(ROOT / notebook, 4).cells
        if "parameters" in cell.metadata.get("tags", [])
    )
    for line in parameters.source.splitlines():
        name, kind = re.match(r"(\w+): (\w+) =", line).groups()
        assert re.search(rf"\b{name}: {kind}", ended.stdout), name


def runs_small(command):
    """The command itself, with a few more parameters that make it fast."""
    small = {
        "runs": 2,
        "iterations": 40,
        "rate_runs": 2,
        "rate_iterations": 100,
        "sweep_iterations": 40,
        "sweep_runs": 2,
    }
    lists = {"rate_d_0": [0.0, 2.0], "sweep_weights": [0.2], "sweep_d_0": [2.0]}
    for _ in range(
        2
    ):  # once in a while a kernel's last message gets lost, and papermill waits for it
        words = [word for name, value in small.items() for word in ("-p", name, str(value))]
        ended = papermill(
            command, "--execution-timeout", "240", *words, "-y", yaml.safe_dump(lists)
        )
        if "Timeout" not in ended.stderr:
            break
    assert ended.returncode == 0, ended.stderr[-2000:]


def papermill(command, *more):
    words = [
        str(Path.cwd() / word) if word == "out.ipynb" else word for word in shlex.split(command)
    ]
    assert words[0] == ".venv/bin/python"
    return subprocess.run(
        [sys.executable, *words[1:], *more], cwd=ROOT, capture_output=True, text=True
    )


TESTED = {  # every command of the README, and what is done with it here
    "make figures": makes_figures,
    "make test": reaches_its_entry_point,  # what .ci/run runs
    "make play": reaches_its_entry_point,
    "make lab": reaches_its_entry_point,
    "make figures PROFILE=smoke NB=1 SEED=7": makes_figures,
    ".venv/bin/python -m papermill --help-notebook "
    "notebooks/01_convergence.ipynb": lists_every_parameter,
    ".venv/bin/python -m papermill notebooks/01_convergence.ipynb out.ipynb "
    "-p runs 50 -p weight 0.05": runs_small,
    "make help": lists_every_target,
}


def test_every_command_is_tested():
    assert set(COMMANDS) == set(TESTED)


TARGETS = [
    name for name in re.findall(r"(?m)^([a-z-]+):", MAKEFILE) if name not in ("help", "setup")
]


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_of_make_reaches_its_entry_point(target):
    reaches_its_entry_point(f"make {target}")


SWEEP = re.search(
    r"```python\n(.*?)```", (ROOT / "docs" / "rerun.md").read_text(encoding="utf-8"), re.S
)[1]


def test_the_sweep_of_the_documents_gathers_its_results(tmp_path, monkeypatch):
    """With a stand-in for the notebook, which writes the committed record with its parameters."""
    import papermill as module

    record = json.loads((ROOT / "figures" / "fig2.json").read_text(encoding="utf-8"))

    def execute(notebook, out, chosen):
        assert (ROOT / notebook).exists() and out == "out.ipynb"
        assert set(chosen) <= set(module.inspect_notebook(str(ROOT / notebook)))
        folder = tmp_path / chosen.pop("output")
        folder.mkdir(parents=True)
        changed = {**record, "params": {**record["params"], **chosen}}
        (folder / "fig2.json").write_text(json.dumps(changed))

    monkeypatch.setattr(module, "execute_notebook", execute)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("builtins.print", lambda table: found.append(table))
    found = []
    exec(compile(SWEEP, "docs/rerun.md", "exec"), {})
    assert sorted(found[0]["weight"]) == [0.05, 0.1, 0.2] and set(found[0]["runs"]) == {50}
    assert set(found[0]["mean"]) == {record["numbers"]["final_difference"]["mean"]}


def test_every_document_is_listed():
    listed = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    for path in (ROOT / "docs").rglob("*.md"):
        name = path.relative_to(ROOT / "docs").as_posix()
        assert name == "index.md" or f"]({name})" in listed, name


def test_no_result_is_typed():
    """What was measured stands between the marks that `make report` fills, or in no document."""
    number = r"\d[\d,.]*\s?(?:%|percent|points?\b|times\b|lines\b|seconds\b)|\b0\.\d\d+|\d+,\d{3}"
    computed = r"<!-- (?P<name>\w+): written.*?<!-- end of (?P=name) -->"
    code, formulas, links = r"```.*?```|`[^`]*`", r"\$\$.*?\$\$|\$[^$]*\$", r"\]\([^)]*\)"
    left_out = re.compile("|".join((computed, code, formulas, links)), re.S)
    for path in (*ROOT.glob("[!C]*.md"), ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")):
        name = path.relative_to(ROOT).as_posix()
        if name not in TESTED_ELSEWHERE:
            text = left_out.sub("", path.read_text(encoding="utf-8"))
            assert re.findall(number, text) == GIVEN.get(name, []), name


@pytest.mark.parametrize("command", TESTED)
def test_commands(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    TESTED[command](command)


def test_binder_takes_the_same_pins():
    assert (ROOT / ".binder" / "requirements.txt").read_text() == "-r ../requirements.txt\n"
    python = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"][0].partition(
        "="
    )[2]
    assert (ROOT / ".binder" / "runtime.txt").read_text() == f"python-{python}\n"


def test_nothing_that_is_read_elsewhere_names_a_folder_of_this_machine():
    places = (
        "README.md",
        "docs/*.md",
        "notebooks/*.ipynb",
        "notebooks/profiles/*",
        "figures/*.*",
        "figures/notebooks/*",
    )
    here = re.compile(rf"{re.escape(str(ROOT))}|/(?:root|home|tmp|Users)/\w")
    for path in (
        path for place in places for path in ROOT.glob(place) if path.suffix not in (".png", ".pdf")
    ):
        assert not (found := here.search(path.read_text(encoding="utf-8"))), (path.name, found)


def test_every_parameter_has_a_line_and_a_type():
    for path in batch.notebooks():
        parameters = next(
            cell
            for cell in nbformat.read(path, 4).cells
            if "parameters" in cell.metadata.get("tags", [])
        )
        for line in parameters.source.splitlines():
            assert re.match(r"\w+: \w+ = .+", line), (path.stem, line)


@pytest.mark.parametrize(
    "path",
    [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/*.md"))],
    ids=lambda p: p.name,
)
def test_links_lead_somewhere(path):
    text = path.read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!http)([^)#]+)\)|(?:src|href)=\"(?!http)([^\"#]+)\"", text):
        assert (path.parent / "".join(target)).exists(), target


def test_the_readme_is_short():
    lines = README.splitlines()
    assert len(lines) <= 150
    assert not [line for line in lines if len(line) > 100]
