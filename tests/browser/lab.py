"""JupyterLab as a user starts it, in a process of its own, with settings that nobody else has, and
gone when the test ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from companion.publish import environment

ROOT = Path(environment.ROOT)
START_SECONDS, STOP_SECONDS, ANSWER_SECONDS = 600, 300, 120  # a busy machine gets its time
# to tidy up; in half of it, as Jupyter counts, one with a pool of workers does not end by itself
KERNEL_SECONDS = 20
LAB = (sys.executable, "-m", "companion", "lab", "--port", "0")  # 0: any free port
MARK = "JUPYTER_RUNTIME_DIR"
OWN = (
    MARK,
    "IPYTHONDIR",
    "JUPYTERLAB_SETTINGS_DIR",
    "JUPYTERLAB_WORKSPACES_DIR",
    "JUPYTER_CONFIG_DIR",
)


@dataclass
class Server:
    """A running server: its process, and the note that it leaves for its user's other programs."""

    process: subprocess.Popen
    port: int
    token: str
    folder: Path

    def url(self, path: str = "lab", token: bool = True) -> str:
        """Return the address of a page, with the token or without."""
        return f"http://127.0.0.1:{self.port}/{path}" + (f"?token={self.token}" if token else "")

    def get(self, path: str) -> object:
        """Return what the server's own interface answers."""
        with urllib.request.urlopen(self.url(path), timeout=ANSWER_SECONDS) as answer:
            return json.load(answer)

    def answers(self) -> bool:
        """Return whether the server listens, and answers who asks."""
        try:
            return bool(self.get("api"))
        except OSError:  # nobody listens yet
            return False

    def log(self) -> str:
        """Return what the server has printed so far."""
        return (self.folder / "lab.log").read_text()

    def stop(self) -> int:
        """Press Ctrl-C where there is no terminal: SIGINT to the group; return the exit code."""
        os.killpg(self.process.pid, signal.SIGINT)
        return self.process.wait(STOP_SECONDS)

    def left_over(self) -> list[str]:
        """Return what still runs though the server has ended: kernels and their workers have time
        to go, too."""
        return [
            _told(process) for process in psutil.wait_procs(_family(self.folder), STOP_SECONDS)[1]
        ]


def _told(process: psutil.Process) -> str:
    """Return a process in words: number, parent, state, command."""
    with contextlib.suppress(psutil.Error):
        return (
            f"{process.pid} of {process.ppid()}, {process.status()}: {' '.join(process.cmdline())}"
        )
    return f"{process.pid}, gone by now"


@contextlib.contextmanager
def serve(folder: Path, command: tuple[str, ...] = LAB, **options) -> Iterator[Server]:
    """Start a server with its settings in `folder`, and kill what is left of it at the end."""
    own = {name: str(folder / name.lower()) for name in OWN}
    settings = Path(own["JUPYTER_CONFIG_DIR"]) / "jupyter_server_config.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"KernelManager": {"shutdown_wait_time": KERNEL_SECONDS}}))
    with open(folder / "lab.log", "wb") as file:
        streams = {"stdin": subprocess.DEVNULL, "stdout": file, "stderr": subprocess.STDOUT}
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            # the command `true` in place of a browser
            env={**os.environ, **own, "BROWSER": "true"},
            start_new_session=True,
            **{"preexec_fn": hear_interrupts, **streams, **options},
        )
    try:
        note = _wait(lambda: _note(folder), folder, process)
        server = Server(process, note["port"], note["token"], folder)
        _wait(server.answers, folder, process)  # the note is written some time before
        yield server
    finally:
        for relative in _family(folder):
            with contextlib.suppress(psutil.Error):
                relative.kill()
        process.wait()


def _family(folder: Path) -> list[psutil.Process]:
    """Return the processes that carry this server's settings in their environment: kernels start
    sessions of their own."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(MARK) == str(folder / MARK.lower()):
                found.append(process)
    return found


def hear_interrupts() -> None:
    # a shell's background jobs ignore Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _note(folder: Path) -> dict:
    """Return the server's own note of its port and token, or nothing while there is none."""
    for path in (folder / MARK.lower()).glob("jpserver-*.json"):
        with contextlib.suppress(ValueError):  # half written
            return json.loads(path.read_text())
    return {}


def _wait(found: Callable, folder: Path, process: subprocess.Popen):
    """Return what is found, as soon as it is something."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        if value := found():
            return value
        time.sleep(0.1)
    raise AssertionError(f"JupyterLab did not start:\n{(folder / 'lab.log').read_text()[-2000:]}")
