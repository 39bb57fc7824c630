"""`make test-matrix`: rows that this machine cannot play are named, logs are read, and one table
says what failed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from companion import __main__ as command
from companion.publish import environment, matrix, processors

ROOT = Path(environment.ROOT)
FAILED = """..F.
=========================== short test summary info ============================
FAILED tests/a/test_b.py::test_c[1] - assert 1 == 2
ERROR tests/a/test_d.py::test_e
1 failed, 334 passed, 1 error in 501.69s (0:08:21)
"""


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (FAILED, "1 failed, 334 passed, 1 error"),
        ("....\n4 passed in 0.50s\n", "4 passed"),
        ("== 4 passed, 2 skipped in 0.50s ==\n", "4 passed, 2 skipped"),
        ("01: running\nverify: 7 numbers are as they were\n", "7 numbers are as they were"),
        ("verify: 2 differences\n  2 of kind data: look\n", "2 differences"),
        ("Set-up: the disk is full\n", "the disk is full"),
        ("Segmentation fault\n", "Segmentation fault"),
        ("", "it printed nothing"),
    ],
)
def test_a_log_is_read(log, words):
    assert matrix.summary(log) == words


def test_processors_are_played_where_the_instructions_are_there():
    old, new = frozenset({"sse4_2", "avx2"}), frozenset({"sse4_2", "avx2", "avx512f"})
    assert processors.missing("avx512", old) == "this processor has no avx512f"
    assert not any(processors.missing(name, new) for name in processors.VARIABLES)
    assert processors.missing("sse", None) == "this system does not say what its processor can"
    assert not processors.missing("native", None)


def test_instructions_are_read_from_the_systems_description(tmp_path):
    description = tmp_path / "cpuinfo"
    description.write_text(
        "processor : 0\nflags\t\t: fpu sse4_2 avx2\nprocessor : 1\nflags\t\t: fpu\n"
    )
    assert processors.flags(description) == {"fpu", "sse4_2", "avx2"}
    assert processors.flags(tmp_path / "none") is None


@pytest.mark.skipif("sse" not in processors.playable(), reason="this processor cannot play another")
def test_a_played_processor_computes_with_other_instructions(tmp_path):
    """torch and numpy say which instructions they use; numba which processor it compiles for."""
    code = (
        "import torch, numba, numpy; "
        "found = numpy.show_config(mode='dicts')['SIMD Extensions'].get('found')\n"
        "print(torch.backends.cpu.get_cpu_capability(), numba.config.CPU_NAME, found)"
    )
    variables = {**os.environ, **processors.variables("sse", tmp_path)}
    said = subprocess.run(
        [sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True
    )
    assert said.stdout.split() == ["DEFAULT", "generic", "None"]


def test_the_commands_of_both_parts_are_understood():
    files = ["tests/test_randomness.py", "tests/test_claims.py"]
    command = [*matrix._command("tests"), "--collect-only", *files]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert files[0] in said and files[1] not in said
    verify = [*matrix._command("verify"), "--help"]
    assert (
        "--update"
        in subprocess.run(verify, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    )


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Let the parts be commands that end soon, and the logs be elsewhere."""
    monkeypatch.setattr(matrix, "FOLDER", tmp_path)
    codes = {
        "tests": "print('1 failed, 2 passed in 1s'); raise SystemExit(1)",
        "verify": "print('verify: well')",
    }
    monkeypatch.setattr(matrix, "_command", lambda part: [sys.executable, "-c", codes[part]])
    return tmp_path


def test_rows_are_run_and_what_fails_decides(small, capsys):
    assert matrix.run(["native", "busy"], ["verify"]) == 0
    assert matrix.run(["native"]) == 1
    said = capsys.readouterr().out
    assert (
        "machine  part    exit  seconds  result\nnative   tests   1     0        1 failed" in said
    )
    assert "busy     verify  0     " in said
    assert (small / "native-tests.log").read_text().startswith("1 failed, 2 passed")


def test_what_cannot_be_run_is_said_and_is_no_failure(small, monkeypatch, capsys):
    monkeypatch.setattr(matrix.processors, "flags", frozenset)
    monkeypatch.setattr(matrix, "find_python", lambda name: None)
    monkeypatch.setattr(matrix.shutil, "which", lambda name: None)
    assert matrix.run(["sse", "avx512", "one-core", "python3.12"]) == 0
    said = capsys.readouterr().out
    for words in (
        "this processor has no sse4_2",
        "there is no taskset",
        "no python3.12 is installed",
    ):
        assert f"not run: {words}" in said


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            ["--rows", "z80"],
            "matrix: ROWS = 'z80' must be among native, sse, avx2, avx512, compatible, one-core, "
            "busy",
        ),
        (["--parts", "all"], "matrix: PARTS = 'all' must be among tests, verify"),
    ],
)
def test_what_does_not_exist_is_refused_in_one_sentence(options, sentence, capsys):
    assert command.main(["matrix", *options]) == 2
    assert capsys.readouterr().err.startswith(sentence)


def test_this_python_is_found_and_one_that_leads_nowhere_is_not(tmp_path, monkeypatch):
    own = "python{}.{}".format(*sys.version_info[:2])
    assert matrix._is_version(matrix.find_python(own), own.removeprefix("python"))
    broken = tmp_path / "python3.99"
    broken.write_text("#!/bin/sh\nexit 127\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    assert matrix.find_python("python3.99") is None


def test_a_copy_is_the_project_without_what_was_made_here(tmp_path):
    (tmp_path / ".venv").mkdir()
    (tmp_path / "old.txt").touch()
    matrix._copy(tmp_path)
    assert (tmp_path / "tests" / "test_matrix.py").read_bytes() == Path(__file__).read_bytes()
    assert (tmp_path / ".venv").is_dir() and not (tmp_path / "old.txt").exists()
    assert not (tmp_path / ".git").exists() and not (tmp_path / "data" / "cache").exists()


@pytest.mark.skipif(os.name == "nt", reason="it needs the signals of POSIX")
def test_ctrl_c_is_one_line_and_leaves_nothing_running(tmp_path):
    code = (
        "import sys; from pathlib import Path; from companion.publish import matrix\n"
        f"matrix.FOLDER = Path({str(tmp_path)!r})\n"
        "code = \"import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(600)\"\n"
        "matrix._command = lambda part: [sys.executable, '-c', code.replace('pid', "
        f"{str(tmp_path / 'pid')!r}, 1)]\n"
        "from companion.__main__ import main\n"
        "sys.exit(main(['matrix', '--rows', 'busy', '--parts', 'tests']))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, said = process.communicate(timeout=600)
    assert process.returncode == 130 and "matrix: interrupted; the logs are kept" in said
    assert len(said.split("\n")) == 3  # a line, below the ^C of a terminal
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)  # neither the command nor a loop is left
