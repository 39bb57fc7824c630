"""The workflow files: valid by their published schema, and they run what exists."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from companion.publish import environment, matrix

ROOT = Path(environment.ROOT)
WORKFLOW = ROOT / ".github" / "workflows" / "test.yml"


def jobs():
    return yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]


@pytest.mark.parametrize("path", sorted(WORKFLOW.parent.glob("*.yml")), ids=lambda path: path.stem)
def test_it_is_valid_by_its_schema(path):
    schema = ["--builtin-schema", "vendor.github-workflows", str(path)]
    command = [sys.executable, "-m", "check_jsonschema", *schema]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_site_is_built_and_published_from_the_main_branch():
    pages = yaml.safe_load((WORKFLOW.parent / "pages.yml").read_text(encoding="utf-8"))
    assert pages[True]["push"]["branches"] == ["main"]  # YAML takes `on` for a truth value
    build, publish = pages["jobs"]["build"]["steps"], pages["jobs"]["publish"]
    assert [step["run"] for step in build if "run" in step] == ["make site"]  # fails at a dead link
    assert build[-1]["with"]["path"] == "site" and publish["needs"] == "build"
    assert pages["permissions"]["pages"] == pages["permissions"]["id-token"] == "write"


def test_its_rows_are_those_of_the_matrix():
    rows = jobs()["matrix"]["strategy"]["matrix"]["row"]
    assert [*rows, *matrix.PYTHONS] == [row for row in matrix.ROWS if row != "native"]


def test_it_tests_every_python_and_three_systems():
    chosen = jobs()["suite"]["strategy"]["matrix"]
    assert [f"python{version}" for version in chosen["python"]] == list(matrix.PYTHONS)
    systems = {*chosen["system"], *(more["system"] for more in chosen["include"])}
    assert systems == {"ubuntu-latest", "macos-latest", "windows-latest"}


def test_continuous_integration_runs_the_suite_and_two_other_processors():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "\nmake test\n" in script and "make test-matrix ROWS='sse avx2' PARTS=tests" in script
