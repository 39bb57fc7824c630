"""The workflow file: valid by its published schema, and it runs what exists."""

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


def test_it_is_valid_by_its_schema():
    pytest.importorskip("check_jsonschema", reason="check-jsonschema is not installed")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", str(WORKFLOW)]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr


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
