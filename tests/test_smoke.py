"""The committed notebooks and profiles: fit together, and give the same numbers at smoke size."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from companion.publish import CommandError, batch, environment, verify
from companion.publish.report import provenance

ROOT = Path(environment.ROOT)
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PROFILES = ("smoke", "default", "paper")


def test_git_does_not_see_the_folders_of_profiles():
    if not provenance.source(ROOT)[0]:
        pytest.skip("this is not a git checkout of its own")
    paths = [f"figures/{name}/fig1.png" for name in PROFILES]
    kept = ["figures/fig1.png", "figures/notebooks/01_convergence.html"]
    command = ["git", "check-ignore", *paths, *kept]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.stdout.split() == paths


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_committed_notebooks_have_no_outputs_and_known_parameters(path):
    notebook = nbformat.read(path, 4)
    nbformat.validate(notebook)
    assert all(
        not cell.get("outputs") and cell.get("execution_count") is None
        for cell in notebook.cells
        if cell.cell_type == "code"
    )
    for profile in PROFILES:
        batch.parameters(path, profile, 3, ROOT / "figures")


@pytest.mark.parametrize("profile", PROFILES)
def test_profiles_name_every_notebook(profile):
    assert set(batch.profile(profile)) == {path.stem for path in NOTEBOOKS}


def test_a_profile_may_extend_another_by_one_step(monkeypatch, tmp_path):
    smoke = batch.profile("smoke")
    (tmp_path / "smoke.yaml").write_text((batch.PROFILES / "smoke.yaml").read_text())
    monkeypatch.setattr(batch, "PROFILES", tmp_path)
    (tmp_path / "own.yaml").write_text("extends: smoke\n03_mnist_idlg:\n  repeats: 77\n")
    own = batch.profile("own")
    assert own["03_mnist_idlg"] == smoke["03_mnist_idlg"] | {"repeats": 77}
    assert own["01_convergence"] == smoke["01_convergence"]
    (tmp_path / "one.yaml").write_text("extends: two\n")
    (tmp_path / "two.yaml").write_text("extends: three\n")
    with pytest.raises(CommandError, match="profile one extends two, which extends another itself"):
        batch.profile("one")
    with pytest.raises(
        CommandError, match="profile two extends 'three', which must be one of one, own, smoke, two"
    ):
        batch.profile("two")
    (tmp_path / "two.yaml").write_text("01_convergence: [1]\n")
    with pytest.raises(CommandError, match="profile two: 01_convergence must hold parameters"):
        batch.profile("one")


def test_the_default_profile_is_the_notebooks_as_they_stand():
    """Who opens a notebook by hand gets the numbers of `make figures`: they stand in one place."""
    import papermill

    assert batch.profile("default") == {path.stem: {} for path in NOTEBOOKS}
    for path in NOTEBOOKS:
        shown = papermill.inspect_notebook(str(path))
        assert all(parameter["inferred_type_name"] != "None" for parameter in shown.values()), path


@pytest.fixture(scope="session")
def smoke(tmp_path_factory):
    """Execute all notebooks once at the smoke profile; return the folder."""
    folder = tmp_path_factory.mktemp("smoke") / "with a space"
    assert any(
        batch.run("smoke", output=folder) == 0 for _ in range(2)
    )  # once in a while a kernel's last message gets lost
    return folder


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run_at_smoke_size(smoke, path):
    executed = nbformat.read(smoke / "notebooks" / path.name, 4)
    assert any(
        "image/png" in output.get("data", {})
        for cell in executed.cells
        if cell.cell_type == "code"
        for output in cell.outputs
    )


def test_every_figure_has_its_three_files_and_its_data(smoke):
    for record in smoke.glob("fig*.json"):
        content = json.loads(record.read_text())
        assert record.with_suffix(".svg").exists() and record.with_suffix(".png").exists()
        assert content["data"] and all(data["sha256"] for data in content["data"])
        assert content["params"]["profile"] == "smoke"


def test_smoke_numbers_are_those_of_the_reference(smoke):
    """What `make verify` compares, without its scratch folder.

    Notebooks that used other data are left out.
    """
    measured, reference = verify.collect(smoke), verify.load()
    comparable = [
        notebook
        for notebook, entry in reference.items()
        if all(
            figure["data"] == measured[notebook]["figures"][name]["data"]
            for name, figure in entry["figures"].items()
        )
    ]
    assert {"01_convergence", "02_privacy_budget"} <= set(comparable), (
        "Mushrooms ship with the code"
    )
    for notebook in comparable:
        assert not list(verify.differences(notebook, measured[notebook], reference[notebook]))


def test_executed_notebooks_reproduce_cell_by_cell(smoke, tmp_path):
    """nbval executes the finished notebooks again and compares every text and every picture."""
    for path in (smoke / "notebooks").glob("*.ipynb"):
        shutil.copy(path, tmp_path)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--nbval",
        "--nbval-cell-timeout=240",
        "-q",
        "-p",
        "no:cacheprovider",
        str(tmp_path),
    ]
    for _ in range(2):
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if "Timeout" not in ended.stdout:
            break
    assert ended.returncode == 0, ended.stdout[-3000:]
