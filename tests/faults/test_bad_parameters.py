"""A parameter that makes no sense: every way to give one ends in one sentence, before anything is
computed or overwritten."""

import functools
import hashlib
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import papermill
import pytest
from papermill.iorw import load_notebook_node
from papermill.parameterize import parameterize_notebook

from companion import __main__ as command
from companion import files
from companion.params import Params
from companion.publish import batch, environment, surroundings

ROOT = Path(environment.ROOT)
NOTEBOOKS = {path.stem[:2]: path for path in batch.notebooks()}
NOT_EXPERIMENTS = ("profile", "output")  # papermill's own business, not the experiments'

CASES = [  # a notebook, what is changed at its smoke profile, and what the sentence must hold
    ("01", {"seed": -1}, "seed = -1 is wrong: it must be greater than or equal to 0"),
    (
        "01",
        {"seed": 2**63},
        "seed = 9223372036854775808 is wrong: it must be less than 9223372036854775808",
    ),
    ("01", {"runs": 0}, "runs = 0 is wrong: it must be greater than or equal to 1"),
    ("01", {"runs": 10**6}, "runs = 1000000 is wrong: it must be less than or equal to 100000"),
    ("01", {"runs": "200"}, "runs = '200' is wrong: it must be a valid integer"),
    ("01", {"runs": True}, "runs = True is wrong: it must be a valid integer"),
    ("01", {"iterations": 12.5}, "iterations = 12.5 is wrong: it must be a valid integer"),
    ("01", {"iterations": 10**30}, f"iterations = {10**30} is wrong: it must not exceed 10000000"),
    ("01", {"samples": 0}, "samples = 0 is wrong"),
    ("01", {"test": 8124}, "test = 8124 must be below 8124, the number of mushrooms"),
    ("01", {"evaluate_every": 81}, "evaluate_every = 81 must not exceed iterations = 80"),
    ("01", {"normalise": "L2"}, "normalise = 'L2' is wrong: it must be 'none', 'l1' or 'l2'"),
    (
        "01",
        {"topology": "star"},
        "topology = 'star' is wrong: it must be 'paper', 'ring', 'exponential' or 'random'",
    ),
    ("01", {"weight": 0.0}, "weight = 0.0 is wrong: it must be greater than 0"),
    (
        "01",
        {"weight": 0.6},
        "agent 2: 1 + R_ii = -0.19999999999999996 must be positive (Assumption 4)",
    ),
    ("01", {"lam_0": math.inf}, "lam_0 = inf is wrong: it must be a finite number"),
    ("01", {"nu": 0.5}, "nu = 0.5 must lie in (1/2, 1) (Algorithm 1)"),
    ("01", {"nu": math.nan}, "nu = nan must lie in (1/2, 1)"),
    ("01", {"varsigma": 0.7}, "max varsigma = 0.75 must be below nu = 0.71"),
    ("01", {"varsigma": 0.45}, "agent 0: varsigma = 0.46 must lie in (1/2, 1)"),
    ("01", {"d_0": -2.0}, "d_0 = -2.0 is wrong: it must be greater than 0"),
    (
        "01",
        {"d_0_slope": -0.01},
        "d_0_slope = -0.01 is wrong: it must be greater than or equal to 0",
    ),
    ("01", {"l2": 0}, "l2 = 0.0 must be positive"),
    ("01", {"rate_runs": 1}, "rate_runs = 1 is wrong: it must be greater than or equal to 2"),
    ("01", {"rate_d_0": 2.0}, "rate_d_0 = 2.0 is wrong: it must be a list"),
    ("01", {"rate_d_0": [0.5, 2.0]}, "rate_d_0 = [0.5, 2.0] must hold 0 (no quantisation)"),
    ("01", {"rate_d_0": [0.0, -1.0]}, "rate_d_0[1] = -1.0 is wrong"),
    ("01", {"sweep_weights": []}, "sweep_weights = [] is wrong: it must hold at least 1 value"),
    ("01", {"sweep_weights": [0.2, 0.9]}, "must be positive (Assumption 4)"),
    ("01", {"sweep_d_0": "2, 8"}, "sweep_d_0 = '2, 8' is wrong: it must be a list"),
    ("02", {"runs": 1}, "runs = 1 is wrong: it must be greater than or equal to 2"),
    ("02", {"modifications": 0}, "modifications = 0 is wrong"),
    ("02", {"iterations": 1}, "iterations = 1 is wrong: it must be greater than or equal to 2"),
    ("02", {"budget_d_0": [2.0, 0.0]}, "budget_d_0[1] = 0.0 is wrong: it must be greater than 0"),
    ("02", {"case_d_0": None}, "case_d_0 = None is wrong: it must be a list"),
    ("02", {"weight": 0.02, "horizon": 1000}, "horizon = 1000 must be longer at weight = 0.02"),
    ("02", {"iterations": 60, "arrivals": [0, 59]}, "arrivals holds 59, which must be below 59"),
    ("02", {"arrivals": [0.5]}, "arrivals[0] = 0.5 is wrong: it must be a valid integer"),
    ("02", {"worst_arrivals": [-1]}, "worst_arrivals[0] = -1 is wrong"),
    (
        "02",
        {"audit_samples": 99},
        "audit_samples = 99 is wrong: it must be greater than or equal to 100",
    ),
    ("02", {"frontier_weights": [0.2, 0.7]}, "must be positive (Assumption 4)"),
    ("02", {"target": 1}, "target = 1 is wrong: it must be less than 1"),
    (
        "02",
        {"horizon": 10**8},
        "horizon = 100000000 is wrong: it must be less than or equal to 10000000",
    ),
    ("02", {"promise_clip": 0.0}, "promise_clip = 0.0 is wrong: it must be greater than 0"),
    (
        "02",
        {"promise_targets": [0.1, 1.5]},
        "promise_targets[1] = 1.5 is wrong: it must be less than 1",
    ),
    ("02", {"promise_runs": 1}, "promise_runs = 1 is wrong"),
    ("03", {"repeats": 0}, "repeats = 0 is wrong: it must be greater than or equal to 1"),
    ("03", {"full_repeats": 2}, "full_repeats = 2 must not exceed repeats = 1"),
    ("03", {"evaluate_every": 7}, "evaluate_every = 7 must not exceed iterations = 6"),
    (
        "03",
        {"initialisation": "zero"},
        "initialisation = 'zero' is wrong: it must be 'he', 'pytorch' or 'uniform'",
    ),
    ("03", {"same_start": 1}, "same_start = 1 is wrong: it must be a valid boolean"),
    ("03", {"budget_scales": [1.0, 1.0]}, "budget_scales = [1.0, 1.0] must be all different"),
    ("03", {"scales": [0.1]}, "must rise and hold 1.0, the paper's own d_0"),
    ("03", {"weight": 0.6}, "must be positive (Assumption 4)"),
    ("04", {"subjects": 3}, "subjects = 3 is wrong: it must be a list"),
    ("04", {"batch_norm": "layer"}, "batch_norm = 'layer' is wrong"),
    ("04", {"fs": 0.0}, "fs = 0.0 is wrong: it must be greater than 0"),
    ("04", {"nu": 1.5}, "nu = 1.5 must lie in (1/2, 1)"),
    ("04", {"window": [2.0]}, "window = [2.0] must be empty or two increasing times"),
    (
        "04",
        {"second": "synthetic", "second_window": [1.0]},
        "window = [1.0] must be empty or two increasing times",
    ),
    ("04", {"central_epochs": "x"}, "epochs = 'x' is wrong"),
    ("04", {"ablation_folds": [77]}, "subject 77 is not among subjects"),
    (
        "01",
        {"wieght": 0.1},
        "wieght = 0.1 is not a parameter of this notebook: did you mean weight?",
    ),
    (
        "01",
        {"rate_d0": [0.0, 1.0]},
        "rate_d0 = [0.0, 1.0] is not a parameter of this notebook: did you mean rate_d_0?",
    ),
    (
        "02",
        {"promise_target": [0.1]},
        "promise_target = [0.1] is not a parameter of this notebook: did you mean promise_targets?",
    ),
    (
        "03",
        {"attack_step": 20},
        "attack_step = 20 is not a parameter of this notebook: did you mean attack_steps?",
    ),
    (
        "04",
        {"subject": [1]},
        "subject = [1] is not a parameter of this notebook: did you mean subjects?",
    ),
    # the class has it, the notebook has not
    ("04", {"epochs": 3}, "epochs = 3 is not a parameter of this notebook"),
    ("02", {"qqq": None}, "qqq = None is not a parameter of this notebook"),
    ("01", {"rate_d_0": [0.0, 2.0, 2.0]}, "rate_d_0 = [0.0, 2.0, 2.0] must be all different"),
    ("01", {"sweep_weights": [0.1, 0.1]}, "sweep_weights = [0.1, 0.1] must be all different"),
    ("01", {"sweep_d_0": [2.0, 2.0]}, "sweep_d_0 = [2.0, 2.0] must be all different"),
    ("02", {"budget_d_0": [2.0, 2.0]}, "budget_d_0 = [2.0, 2.0] must be all different"),
    ("02", {"case_d_0": [2.0, 2.0]}, "case_d_0 = [2.0, 2.0] must be all different"),
    ("02", {"arrivals": [0, 0]}, "arrivals = [0, 0] must be all different"),
    ("02", {"frontier_weights": [0.2, 0.2]}, "frontier_weights = [0.2, 0.2] must be all different"),
    ("02", {"promise_targets": [0.1, 0.1]}, "promise_targets = [0.1, 0.1] must be all different"),
    ("03", {"budget_samples": [1, 1]}, "budget_samples = [1, 1] must be all different"),
    ("03", {"moments": [0, 0]}, "moments = [0, 0] must be all different"),
    ("04", {"subjects": [1, 1, 2, 3, 4, 5]}, "subjects = [1, 1, 2, 3, 4, 5] must be all different"),
    ("04", {"identity_states": [1, 1]}, "identity_states = [1, 1] must be all different"),
    ("04", {"attack_aligned": [True, True]}, "attack_aligned = [True, True] must be all different"),
    ("03", {"moments": [10**9]}, "moments[0] = 1000000000 is wrong: it must not exceed 10000000"),
    (
        "02",
        {"arrivals": [0, 10**12]},
        "arrivals[1] = 1000000000000 is wrong: it must not exceed 10000000",
    ),
    (
        "01",
        {"iterations": 10**7, "samples": 10**4},
        "iterations = 10000000 with samples = 10000 needs ",
    ),
    ("01", {"rate_iterations": 10**7, "samples": 10**6}, " GiB of memory: it must not exceed the "),
    (
        "01",
        {"sweep_iterations": 10**7, "samples": 10**6},
        " GiB of memory: it must not exceed the ",
    ),
    ("02", {"iterations": 10**7}, "iterations = 10000000 with samples = 2 needs "),
    (
        "02",
        {"audit_samples": 10**7, "audit_coordinates": 10**7, "iterations": 10**5},
        "audit_samples = 10000000 with audit_",
    ),
    (
        "02",
        {"promise_iterations": 10**7, "samples": 10**5},
        " GiB of memory: it must not exceed the ",
    ),
    (
        "02",
        {"modifications": 10**7, "iterations": 2},
        "modifications = 10000000 with first_modifications = 2 needs ",
    ),
    (
        "03",
        {"iterations": 10**7, "samples": 10**5},
        "iterations = 10000000 with samples = 100000 needs ",
    ),
    ("03", {"attack_rounds": 10**7}, "attack_rounds = 10000000 with label_rounds = [1, 2] needs "),
    ("03", {"label_rounds": [10**7]}, "attack_rounds = 2 with label_rounds = [10000000] needs "),
    ("04", {"fs": 1e9}, "fs = 1000000000.0 is wrong: it must be less than or equal to 5000"),
    (
        "04",
        {"attack_fs": 1e9},
        "attack_fs = 1000000000.0 is wrong: it must be less than or equal to 5000",
    ),
    (
        "04",
        {"central_epochs": -1},
        "central_epochs = -1 is wrong: it must be greater than or equal to 0",
    ),
    (
        "04",
        {"second_window": [2.0, 1.0]},
        "second_window = [2.0, 1.0] must be empty or two increasing times",
    ),
    (
        "01",
        {"output": "/proc/figures"},
        "output = '/proc/figures' must be a folder that can be written to: /",
    ),
    ("02", {"output": "README.md"}, "README.md is not a folder"),
    ("03", {"output": "README.md/figures"}, "README.md is not a folder"),
    ("04", {"output": 3}, "output = 3 is wrong: it must be text"),
    ("01", {"profile": None}, "profile = None is wrong: it must be text"),
    ("01", {"nu": 1.0}, "nu = 1.0 must lie in (1/2, 1) (Algorithm 1)"),
]
LATER = {"04": ("data", "second")}  # a name that is no data set is found out when it is looked for
NEVER_RIGHT = {
    "nothing": None,
    "a mapping": {"a": 1},
    "not a number": math.nan,
    "a word": "nonsense",
}


@pytest.fixture(autouse=True)
def small_machine(monkeypatch):
    """Let every machine have as much memory: what is refused must not depend on where the tests
    run."""
    monkeypatch.setattr(files, "memory", lambda: 8 * 2**30)


@functools.cache
def smoke() -> dict:
    return batch.profile("smoke")


@functools.cache
def notebook(number: str):
    return load_notebook_node(str(NOTEBOOKS[number]))


def start(number: str, **changes) -> dict:
    """Execute what papermill would up to the cell that checks the parameters, the first one after
    them; return all names."""
    values = {**smoke()[NOTEBOOKS[number].stem], "profile": "smoke", **changes}
    cells = [
        cell
        for cell in parameterize_notebook(notebook(number), values).cells
        if cell.cell_type == "code"
    ]
    injected = next(
        i for i, cell in enumerate(cells) if "injected-parameters" in cell.metadata.get("tags", [])
    )
    names = {}
    with mpl.rc_context():
        for cell in cells[: injected + 2]:
            exec(compile(cell.source, str(NOTEBOOKS[number]), "exec"), names)
    return names


def refusal(number: str, **changes) -> str:
    """Return the sentence with which a notebook refuses, and see that it is one."""
    with pytest.raises(ValueError) as refused:
        start(number, **changes)
    sentence = str(refused.value)
    assert (
        type(refused.value).__name__ == "ParameterError"
        and "\n" not in sentence
        and len(sentence) < 300
    )
    assert "explore=True" not in sentence, "a notebook has no such thing"
    return sentence


@pytest.mark.parametrize("number", NOTEBOOKS)
def test_the_smoke_profile_is_accepted(number):
    start(number)


@pytest.mark.parametrize(("number", "changes", "words"), CASES, ids=lambda case: str(case)[:40])
def test_a_notebook_refuses_nonsense_in_its_first_cells(number, changes, words):
    assert words in refusal(number, **changes)


@pytest.mark.parametrize("value", NEVER_RIGHT)
@pytest.mark.parametrize("number", NOTEBOOKS)
def test_every_parameter_refuses_what_is_right_nowhere(number, value):
    for name in papermill.inspect_notebook(str(NOTEBOOKS[number])):
        if name not in (*NOT_EXPERIMENTS, *LATER.get(number, ())):
            assert name in refusal(number, **{name: NEVER_RIGHT[value]}), name


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
        "figures: PROFILE = 'nonsense' must be one of default, evening, paper, smoke",
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
        "SCHEDULER = 'tcp://127.0.0.1:1' must answer, and does not: ",
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


@pytest.mark.parametrize("number", NOTEBOOKS)
def test_a_notebook_sets_every_parameter_of_its_experiments(number):
    """What stands in a class and not in the parameters cell would be a second place for a
    default."""
    given = set(papermill.inspect_notebook(str(NOTEBOOKS[number])))
    taken = [value for value in start(number).values() if isinstance(value, Params)]
    missing = {name for params in taken for name in type(params).model_fields} - given
    assert taken and missing <= {"evaluate_every", "audit_iterations", "align"}


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
    "PROFILE=nonsense": "figures: PROFILE = 'nonsense' must be one of default, evening, paper, smoke",
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
