"""A notebook takes its parameters in one line; a name that is none is refused, wherever typed."""

import json
import subprocess
import sys
from pathlib import Path

import nbclient
import nbformat
import pytest

from companion import files, mushrooms
from companion.convergence.params import Params
from companion.data.store import DataError
from companion.params import ParameterError
from companion.publish import batch, environment

ROOT = Path(environment.ROOT)
NOTEBOOK = ROOT / "notebooks" / "01_convergence.ipynb"
MISSPELT = "weigth = 0.05 is not a parameter of this notebook: did you mean weight?"


def parameters_and_setup(path=NOTEBOOK) -> tuple[str, str]:
    """Return the source of the parameters cell and of the set-up cell."""
    code = [cell.source for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"]
    return code[0], code[1]


PARAMETERS, SETUP = parameters_and_setup()
RIGHT = "weight: float = 0.2"
assert RIGHT in PARAMETERS


def history(*cells: str) -> dict:
    """Return the names of a kernel that has run these cells, as IPython keeps them."""
    names: dict = {"_ih": ["", *cells, "params = Params.take(globals())"]}
    for cell in cells:
        exec(cell if cell != SETUP else "", names)
    return names


def test_an_experiment_within_gets_the_fields_it_has():
    params = Params.take(history(PARAMETERS))
    assert (params.runs, params.sweep_runs) == (200, 10)
    assert params.into(mushrooms.Params) == mushrooms.Params(runs=200)
    assert Params.take({"runs": 3, "weight": 0.1}) == Params(runs=3, weight=0.1)


def test_the_parameters_cell_holds_the_defaults_of_the_class():
    assert Params.take(history(PARAMETERS)) == Params()


def test_what_is_taken_is_what_was_typed_last():
    names = history(
        PARAMETERS, "import math\nparams = 3\nruns_found = 7", "weight = 0.1", "sketch = [1]"
    )
    names["align"] = "a name of some later cell"
    assert Params.take(names).weight == 0.1


MISSPELLINGS = {
    "in the parameters cell": [PARAMETERS.replace(RIGHT, "weigth: float = 0.05")],
    "beside the right one": [f"{PARAMETERS}\nweigth: float = 0.05"],
    "without a type": [f"{PARAMETERS}\nweigth = 0.05"],
    "computed": [f"{PARAMETERS}\nweigth = 0.1 / 2"],
    "in a cell of its own": [PARAMETERS, "weigth = 0.05"],
    "added by papermill": [PARAMETERS, "# Parameters\nprofile = 'x'\nweigth = 0.05\n"],
    "where the notebook has run before": [
        PARAMETERS,
        SETUP,
        "fig2 = 1",
        f"{PARAMETERS}\nweigth = 0.05",
    ],
}


@pytest.mark.parametrize("name", MISSPELLINGS)
def test_a_misspelt_name_is_refused_wherever_it_is_typed(name):
    with pytest.raises(ParameterError) as refused:
        Params.take(history(*MISSPELLINGS[name]))
    assert str(refused.value) == MISSPELT


def test_a_name_like_no_other_is_refused_where_only_parameters_stand():
    for cells in ([f"{PARAMETERS}\nqqq = 1"], [PARAMETERS, "# Parameters\nqqq = 1\n"]):
        with pytest.raises(ParameterError, match=r"^qqq = 1 is not a parameter of this notebook$"):
            Params.take(history(*cells))
    with pytest.raises(ParameterError, match=r"^qqq = 1 is not a parameter of this notebook$"):
        Params.take({"qqq": 1})


def test_a_name_that_was_mended_or_is_the_readers_own_is_no_longer_refused():
    mended = history(
        PARAMETERS.replace(RIGHT, "weigth: float = 0.05"), SETUP, PARAMETERS, "qqq = 1"
    )
    assert mended["weigth"] == 0.05  # the kernel still has it
    assert Params.take(mended).weight == 0.2


@pytest.mark.parametrize(
    "cell", ["%matplotlib inline", "def f(:", "x += 1", "a.b = 3", "a, b = 1, 2", "x: int", ""]
)
def test_other_cells_are_left_alone(cell):
    names = history(PARAMETERS)
    names["_ih"].insert(2, cell)
    assert Params.take(names).weight == 0.2


@pytest.mark.parametrize(
    "path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem
)
def test_set_up_copies_no_parameter_by_name(path):
    parameters, setup = parameters_and_setup(path)
    names = history(parameters).keys() - {"_ih", "__builtins__", "__annotations__"}
    assert setup.count("take(") == 1
    assert not [name for name in names if f"{name}={name}" in setup]


def ran(*sources: str) -> nbformat.NotebookNode:
    """Execute cells in a real kernel, on after an error, as a reader would; return the notebook."""
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source in sources]
    )
    client = nbclient.NotebookClient(
        notebook, kernel_name="python3", allow_errors=True, timeout=300
    )
    client.execute(cwd=str(ROOT))
    return notebook


def test_in_a_kernel_a_refusal_is_one_line_and_provenance_is_not_an_error():
    wrong = PARAMETERS.replace(RIGHT, "weigth: float = 0.05")
    notebook = ran(
        wrong,
        SETUP,
        PARAMETERS.replace(RIGHT, "weight: float = 2.0"),
        SETUP,
        PARAMETERS,
        SETUP,
        "weigth",
    )
    _, refused, _, impossible, _, accepted, still_there = (cell.outputs for cell in notebook.cells)
    assert [output.output_type for output in refused] == ["error"]
    assert refused[0].traceback == [f"ParameterError: {MISSPELT}"]
    assert len(impossible[-1].traceback) == 1 and "(Assumption 4)" in impossible[-1].traceback[0]
    assert [(output.output_type, output.name) for output in accepted] == [("stream", "stdout")]
    assert (
        accepted[0].text.startswith("data: Mushrooms (UCI): real, from ")
        and still_there[0].data["text/plain"] == "0.05"
    )


def test_plain_papermill_is_refused_too(tmp_path):
    """papermill itself only warns of a name that it does not know."""
    out = tmp_path / "out.ipynb"
    command = [
        sys.executable,
        "-m",
        "papermill",
        "--cwd",
        ROOT,
        NOTEBOOK,
        out,
        "-p",
        "weigth",
        "0.05",
    ]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert ended.returncode != 0 and f"ParameterError: {MISSPELT}" in ended.stderr
    cells = json.loads(out.read_text())["cells"]
    errors = [
        output
        for cell in cells
        for output in cell.get("outputs", [])
        if output["output_type"] == "error"
    ]
    assert [error["traceback"] for error in errors] == [[f"ParameterError: {MISSPELT}"]]


@pytest.mark.parametrize("number", ["1", "2", "3", "4"])
def test_every_profile_is_one_that_its_notebook_takes(number):
    """What a profile changes is known to the notebook."""
    (path,) = batch.notebooks(number)
    parameters, _ = parameters_and_setup(path)
    for profile in ("smoke", "default", "paper"):
        assert set(batch.profile(profile)[path.stem]) <= history(parameters).keys()


def test_a_sentence_is_all_that_ipython_shows():
    for error in (ParameterError("weight = 3 is wrong"), DataError("MNIST", "is empty")):
        assert isinstance(error, files.OneSentence) and isinstance(error, ValueError)
        assert error._render_traceback_() == [f"{type(error).__name__}: {error}"]


@pytest.mark.parametrize("there", ["a/b/c", "a", "."])
def test_a_folder_that_is_not_there_yet_can_be_written_to(tmp_path, there):
    assert files.why_not_writable(tmp_path / there) == ""
    assert list(tmp_path.iterdir()) == []  # and is not made by asking


def test_a_folder_below_a_file_cannot_be_written_to(tmp_path):
    (tmp_path / "file").write_text("")
    assert files.why_not_writable(tmp_path / "file" / "a") == f"{tmp_path / 'file'} is not a folder"


def test_memory_is_that_of_the_machine():
    assert 2**28 < files.memory() < 2**50
