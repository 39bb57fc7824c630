"""Ctrl-C during a command: one line that says what is kept and how to go on, exit code 130, and
nobody left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from companion import __main__ as command
from companion.publish import environment

ROOT = Path(environment.ROOT)
START_SECONDS, STOP_SECONDS = 300, 120
COMMANDS = sorted(command.KEPT)

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="there are no process groups to interrupt"
)


def interrupted(folder: Path, *arguments: str, when) -> tuple[str, str]:
    """Run a command, press Ctrl-C (SIGINT to its group) as soon as `when()` says so.

    Return what it said and its errors.
    """
    settings = {**os.environ, "LDP_CACHE": str(folder / "cache"), "PYTHONUNBUFFERED": "1"}
    with (folder / "said").open("w") as said, (folder / "errors").open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "companion", *arguments],
            cwd=ROOT, env=settings, stdin=subprocess.DEVNULL, stdout=said, stderr=errors,
            start_new_session=True, preexec_fn=heeds_ctrl_c,
        )  # fmt: skip
        try:
            wait_until(lambda: process.poll() is not None or when())
            assert process.poll() is None, (folder / "errors").read_text()
            family = psutil.Process(process.pid).children(recursive=True)
            os.killpg(process.pid, signal.SIGINT)
            code = process.wait(STOP_SECONDS)
        finally:
            process.kill()
    assert code == command.INTERRUPTED
    assert not psutil.wait_procs(family, STOP_SECONDS)[1], "a kernel or a worker was left behind"
    return (folder / "said").read_text(), (folder / "errors").read_text()


def heeds_ctrl_c() -> None:
    """Let a child heed SIGINT: whoever runs these tests in the background of a shell has it
    ignored, by inheritance."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def wait_until(happens) -> None:
    """Return when something happens; fail when it does not."""
    for _ in range(10 * START_SECONDS):
        if happens():
            return
        time.sleep(0.1)
    pytest.fail(f"nothing happened in {START_SECONDS} s")


def says(folder: Path, words: str):
    return lambda: words in (folder / "said").read_text() + (folder / "errors").read_text()


def one_line(errors: str, name: str) -> bool:
    """Return whether the errors are the one line that says what is kept."""
    return [line for line in errors.splitlines() if line] == [
        f"{name}: interrupted; {command.KEPT[name]}"
    ]


def test_figures_keep_their_finished_shards(tmp_path):
    def is_kept() -> bool:
        return any((tmp_path / "cache").rglob("*.result"))

    arguments = ("figures", "--profile", "smoke", "--nb", "1", "--output", str(tmp_path / "out"))
    said, errors = interrupted(tmp_path, *arguments, when=is_kept)
    assert said.startswith("profile smoke: 01_convergence -> ") and one_line(errors, "figures")
    assert is_kept() and not list((tmp_path / "out").rglob("*.part"))


def test_verify(tmp_path):
    said, errors = interrupted(
        tmp_path, "verify", "--nb", "1", when=says(tmp_path, "profile smoke: 01_convergence")
    )
    assert "Traceback" not in said and one_line(errors, "verify")


def test_tests(tmp_path):
    marker, module = tmp_path / "begun", tmp_path / "test_long.py"
    module.write_text(
        f"import pathlib, time\ndef test():\n    pathlib.Path({str(marker)!r}).touch()\n    "
        "time.sleep(600)\n"
    )
    arguments = ("test", str(module), "-q", "-p", "no:cacheprovider")
    said, errors = interrupted(tmp_path, *arguments, when=marker.exists)
    assert "Traceback" not in said and len(said.splitlines()) < 8 and one_line(errors, "test")


def test_benchmarks(tmp_path):
    said, errors = interrupted(
        tmp_path, "bench", "--only", "attacks", when=says(tmp_path, "== attacks")
    )
    assert "Traceback" not in said and one_line(errors, "bench")


@pytest.mark.parametrize(
    "place",
    [
        "exec('press()')",  # Python then ends by the signal, even if the interrupt was caught
        "ctypes.CFUNCTYPE(None)(press)()",  # an exception in a callback is ignored
        "import_that_fails()",  # another exception takes its place
        "press()",
    ],
)
def test_no_place_loses_it(place, tmp_path):
    code = f"""
import ctypes, runpy, signal, sys, time
from companion.publish import verify

def press():
    signal.raise_signal(signal.SIGINT)
    time.sleep(0.01)

def import_that_fails():
    try:
        press()
    except BaseException:
        raise ImportError("a bad install") from None

def run(*options):
    {place}
    while True:
        time.sleep(0.01)

verify.run = run
sys.argv = ["companion", "verify"]
runpy.run_module("companion", run_name="__main__")
"""
    (tmp_path / "pressed.py").write_text(code)
    ended = subprocess.run(
        [sys.executable, "-m", "pressed"],
        cwd=tmp_path, capture_output=True, text=True, timeout=STOP_SECONDS, preexec_fn=heeds_ctrl_c,
    )  # fmt: skip
    assert ended.returncode == command.INTERRUPTED and one_line(ended.stderr, "verify")


def test_the_lab(tmp_path, monkeypatch):
    monkeypatch.setenv("BROWSER", "true")  # the command, which opens nothing
    _, errors = interrupted(tmp_path, "lab", "--port", "0", when=says(tmp_path, "is running at:"))
    assert (
        f"lab: interrupted; {command.KEPT['lab']}" in errors.splitlines()
        and "KeyboardInterrupt" not in errors
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_its_line(name, monkeypatch, capsys):
    def interrupt(options):
        raise KeyboardInterrupt

    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(command, f"_{name}", interrupt)
    assert command.main([name]) == 130
    shown = capsys.readouterr()
    assert one_line(shown.err, name) and not shown.out and "the same command" in shown.err


def test_no_command_is_forgotten():
    assert set(COMMANDS) == set(command._parser()._subparsers._group_actions[0].choices)
