"""`make figures`: refuses what it does not know, executes the rest, and says what came of it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from companion.publish import CommandError, batch, environment
from companion.publish.report import provenance

ROOT = Path(environment.ROOT)


@pytest.fixture
def house(tmp_path, monkeypatch):
    """Return a folder with two tiny notebooks and a profile, in place of the project's own."""
    for name in ("NOTEBOOKS", "PROFILES", "CACHE"):
        monkeypatch.setattr(
            batch,
            name,
            tmp_path / {"NOTEBOOKS": "nb", "PROFILES": "nb/profiles", "CACHE": "cache"}[name],
        )
    monkeypatch.setattr(batch, "ROOT", tmp_path)
    (tmp_path / "nb" / "profiles").mkdir(parents=True)
    write_notebook(tmp_path / "nb" / "01_good.ipynb", FIGURE.format(name="fig1"))
    write_notebook(tmp_path / "nb" / "02_other.ipynb", FIGURE.format(name="fig2"))
    (tmp_path / "nb" / "profiles" / "smoke.yaml").write_text("01_good:\n  size: 3\n")
    return tmp_path


PARAMETERS = 'profile: str = ""\noutput: str = ""\nseed: int = 0\nsize: int = 1\n'
FIGURE = """
import json, pathlib
pathlib.Path(output).mkdir(parents=True, exist_ok=True)
data = [{{"kind": "real", "name": "Numbers"}}]
record = {{"figure": "{name}", "data": data, "numbers": [size, seed]}}
(pathlib.Path(output) / "{name}.json").write_text(json.dumps(record))
"""


def write_notebook(path, *cells):
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]})]
    )
    notebook.cells += [nbformat.v4.new_code_cell(cell) for cell in cells]
    notebook.metadata.kernelspec = {
        "name": "python3",
        "display_name": "Python 3",
        "language": "python",
    }
    nbformat.write(notebook, path)


def test_profile_seed_and_output_reach_the_notebook(house, capsys):
    assert batch.run("smoke", seed="7", output=house / "out") == 0
    assert json.loads((house / "out" / "fig1.json").read_text())["numbers"] == [3, 7]
    table = capsys.readouterr().out.splitlines()[-4:]
    assert (
        table[0].split("  ")[0] == "notebook"
        and table[2].startswith("01_good")
        and " GB  1  " in table[2]
        and "real: Numbers" in table[2]
    )
    assert (
        nbformat.read(house / "out" / "notebooks" / "01_good.ipynb", 4)
        .cells[0]
        .metadata.get("papermill")
        is None
    )
    record = provenance.load(house / "out")["01_good"]
    assert (record["profile"], record["seed"], record["commit"]) == ("smoke", 7, "") and record[
        "seconds"
    ] > 0


def test_a_failing_notebook_names_its_cell_and_spares_the_others(house, capsys):
    write_notebook(
        house / "nb" / "01_good.ipynb", "x = 1", "raise ValueError('d_0 = -1 must be positive')"
    )
    assert batch.run("smoke", output=house / "out") == 1
    captured = capsys.readouterr()
    assert (
        "01_good: FAILED in cell 3 (In [4]): ValueError: d_0 = -1 must be positive" in captured.err
    )
    assert not (house / "out" / "notebooks" / "01_good.ipynb").exists()
    assert (house / "out" / "notebooks" / "02_other.ipynb").exists() and (
        house / "out" / "fig2.json"
    ).exists()
    assert "FAILED" in captured.out
    assert set(provenance.load(house / "out")) == {"02_other"}


def test_the_smallest_profile_works_alone_and_leaves_no_trace_in_the_environment(
    house, monkeypatch
):
    monkeypatch.setenv("NUMBA_NUM_THREADS", "2")
    monkeypatch.delenv("WORKERS", raising=False)
    write_notebook(
        house / "nb" / "01_good.ipynb",
        "import os; print(os.environ.get('WORKERS'), os.environ['NUMBA_NUM_THREADS'])",
    )
    (house / "nb" / "profiles" / "large.yaml").write_text("01_good:\n  size: 9\n")
    said = []
    for profile in ("smoke", "large"):
        assert batch.run(profile, number="01", output=house / "out") == 0
        said.append(
            nbformat.read(house / "out" / "notebooks" / "01_good.ipynb", 4)
            .cells[-1]
            .outputs[0]["text"]
            .split()
        )
    assert said == [["1", "2"], ["None", "2"]]  # what the user has set stays
    assert "WORKERS" not in os.environ


def test_a_failure_leaves_the_earlier_result(house):
    assert batch.run("smoke", number="01", output=house / "out") == 0
    before = (house / "out" / "notebooks" / "01_good.ipynb").read_bytes()
    write_notebook(house / "nb" / "01_good.ipynb", "raise SystemExit(1)", "1 / 0")
    assert batch.run("smoke", number="01", output=house / "out") == 1
    assert (house / "out" / "notebooks" / "01_good.ipynb").read_bytes() == before


def test_a_figure_that_a_notebook_no_longer_makes_is_removed(house):
    (house / "out").mkdir()
    for name, notebook in (("fig1_old", "01_good"), ("fig9", "02_other")):
        record = {"figure": name, "notebook": notebook, "data": [], "numbers": []}
        (house / "out" / f"{name}.json").write_text(json.dumps(record))
        (house / "out" / f"{name}.png").write_bytes(b"")
    assert batch.run("smoke", number="1", output=house / "out") == 0
    assert {path.name for path in (house / "out").glob("fig*")} == {
        "fig1.json",
        "fig9.json",
        "fig9.png",
    }


def test_a_dead_kernel_is_a_failure_of_its_notebook_only(house, capsys):
    write_notebook(house / "nb" / "01_good.ipynb", "import os; os._exit(9)")
    assert batch.run("smoke", output=house / "out") == 1
    said = capsys.readouterr().err
    assert "01_good: FAILED in DeadKernelError" in said
    assert "as far as it got" in said
    assert "os._exit(9)" in (house / "cache" / "notebooks" / "01_good.ipynb").read_text()
    assert (house / "out" / "fig2.json").exists()


def test_a_cell_that_hangs_is_stopped_and_what_came_before_it_kept(house, capsys, monkeypatch):
    monkeypatch.setattr(batch, "CELL_SECONDS", 1)
    write_notebook(
        house / "nb" / "01_good.ipynb", "print('before')", "import time; time.sleep(600)"
    )
    assert batch.run("smoke", number="01", output=house / "out") == 1
    assert "01_good: FAILED in CellTimeoutError" in capsys.readouterr().err
    kept = nbformat.read(house / "cache" / "notebooks" / "01_good.ipynb", 4)
    assert kept.cells[-2].outputs[0]["text"] == "before\n"


SHARDS = """
import sys
from companion import runs
from tests.runs import workload
shards = [{"seed": seed, "size": 5} for seed in range(4)]
runs.run(workload.compute, shards[:first], workers=1)
runs.run(workload.compute, shards, description="four", workers=1)
print("12%|#    | 1/8 [it]", file=sys.stderr)
print("kept")
"""


def test_shards_are_counted_bars_left_out_and_times_are_cold(house, capsys, monkeypatch):
    """The second run takes all from the first, and still says what it takes from nothing."""
    monkeypatch.setenv("LDP_CACHE", str(house / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    write_notebook(house / "nb" / "01_good.ipynb", SHARDS.replace("first", "3"))
    records = []
    for _ in range(2):
        assert batch.run("smoke", number="1", output=house / "out") == 0
        records.append(provenance.load(house / "out")["01_good"])
        provenance.keep(house / "out", "01_good", records[-1] | {"memory": 12.5})
    assert records[0]["memory"] < records[1]["memory"] == 12.5  # what is taken over needs none now
    assert [(record["shards"], record["reused"]) for record in records] == [(7, 3), (7, 7)]
    said = capsys.readouterr().out
    assert "from before: nothing" in said and "from before: 4 finished shards" in said
    assert "7 of 7 shards came from the store; from nothing at most about" in said
    assert all(record["cold"] >= record["seconds"] for record in records)
    outputs = [
        cell.outputs
        for cell in nbformat.read(house / "out" / "notebooks" / "01_good.ipynb", 4).cells
    ]
    assert [output["text"] for shown in outputs for output in shown] == ["kept\n"]


def test_a_profile_writes_to_a_folder_of_its_own(house):
    assert batch.run("smoke", number="1") == 0
    assert (house / "figures" / "smoke" / "fig1.json").exists()
    assert [path.name for path in (house / "figures").iterdir()] == ["smoke"]


def test_the_committed_results_are_renewed_on_purpose_only(house):
    figures = house / "figures"
    for name in ("smoke", "default"):
        with pytest.raises(CommandError, match=f"profile {name} writes to figures/{name}"):
            batch.place(name, figures)
    assert batch.place("paper") == figures / "paper"
    assert batch.place("paper", figures) == figures
    assert batch.place("smoke", house / "elsewhere") == house / "elsewhere"


WRONG = {
    "unknown profile": ({"profile_name": "huge"}, None, "PROFILE = 'huge' must be one of smoke"),
    "unknown notebook": (
        {"number": "07"},
        None,
        "NB = '07' must be the beginning of one notebook's name: 01_good, 02_other",
    ),
    "ambiguous notebook": ({"number": "0"}, None, "NB = '0' must be the beginning of one"),
    "seed": ({"seed": "-1"}, None, "SEED = '-1' must be a whole number"),
    "seed word": ({"seed": "one"}, None, "SEED = 'one' must be a whole number"),
    "misspelt parameter": (
        {},
        "01_good:\n  sise: 3\n",
        r"profile smoke: 01_good has no parameter sise: did you mean size\?",
    ),
    "parameter of nowhere": (
        {},
        "01_good:\n  weight: 3\n",
        "profile smoke: 01_good has no parameter weight; it has profile, output, seed, size",
    ),
    "profile of no notebook": (
        {},
        "09_none:\n  size: 3\n",
        "profile smoke: 09_none is not a notebook",
    ),
    "profile that is a list": (
        {},
        "01_good: [1, 2]\n",
        "profile smoke: 01_good must hold parameters",
    ),
    "profile that is not YAML": ({}, "01_good: {", "smoke.yaml is not YAML"),
}


@pytest.mark.parametrize("name", WRONG)
def test_refused_before_anything_runs(house, name):
    arguments, content, sentence = WRONG[name]
    if content is not None:
        (house / "nb" / "profiles" / "smoke.yaml").write_text(content)
    with pytest.raises(CommandError, match=sentence):
        batch.run(**{"profile_name": "smoke", "output": house / "out", **arguments})
    assert not (house / "out").exists()


def test_the_command_refuses_in_one_line():
    ended = subprocess.run(
        [sys.executable, "-m", "companion", "figures", "--profile", "huge"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 2
    assert ended.stderr.strip() == "figures: PROFILE = 'huge' must be one of default, paper, smoke"
