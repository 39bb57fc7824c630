"""The set-up says in one line what is wrong, and installs once."""

import ast
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from companion.publish import environment
from companion.publish.environment import SetupError

ROOT = Path(environment.ROOT)


def test_an_old_python_is_told_so(monkeypatch):
    environment.require_python()
    monkeypatch.setattr(sys, "version_info", (3, 8, 10, "final", 0))
    with pytest.raises(SetupError, match=r"Python 3\.11 or newer is needed, this is 3\.8\.10"):
        environment.require_python()


def test_an_old_python_can_read_the_script():
    """Every line of the script is grammar of Python 3.6, so that it can say what is wrong."""
    ast.parse(
        (ROOT / "companion" / "publish" / "environment.py").read_text(), feature_version=(3, 6)
    )
    assert "f'" not in (ROOT / "companion" / "publish" / "environment.py").read_text()


def test_a_full_disk_is_told_so(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=10**9))
    with pytest.raises(SetupError, match=r"the disk has 1\.0 GB left, the installation needs 4 GB"):
        environment.require_disk(tmp_path)


ZEROS = "0" * 64
WHAT_IS_PRINTED = {  # by pip 23.2 and uv 0.13, shortened
    "pip, disk": (
        "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n",
        "the disk is full",
    ),
    "uv, disk": (
        "error: Failed to download `mypy==2.4.1`\n"
        "  cause: I/O operation failed during extraction\n"
        "  cause: failed to write to file `x.so`: No space left on device (os error 28)\n",
        "the disk is full",
    ),
    "pip, network": (
        "WARNING: Retrying ... NewConnectionError(...: Failed to establish a new connection: "
        "[Errno -3] Temporary failure in name resolution')': /x\n"
        "ERROR: Could not find a version that satisfies the requirement numpy==2.4.6\n"
        "ERROR: No matching distribution found for numpy==2.4.6\n",
        "the package index cannot be reached",
    ),
    "uv, network": (
        "error: Request failed after 3 retries in 7.6s\n"
        "  cause: Failed to fetch: http://nowhere.invalid/simple/six/\n"
        "  cause: dns error\n"
        "  cause: failed to lookup address information: Name or service not known\n",
        "the package index cannot be reached",
    ),
    "pip, an index without TLS": (
        "WARNING: The repository located at nowhere.invalid is not a trusted or secure host and is "
        "being ignored.\nERROR: No matching distribution found for six==1.17.0\n",
        "the package index cannot be reached",
    ),
    "pip, no wheel": (
        "ERROR: No matching distribution found for torch==2.13.0\n",
        "no build of torch==2.13.0 for this Python",
    ),
    "uv, no wheel": (
        "error: No solution found when resolving dependencies\n"
        "  cause: Because numpy==1.21.0 has no usable wheels and you require numpy==1.21.0, we can "
        "conclude that your requirements are unsatisfiable.\n",
        "no build of numpy==1.21.0 for this Python",
    ),
    "uv, no such version": (
        "error: No solution found when resolving dependencies\n"
        "  cause: Because there is no version of six==99.0 and you require six==99.0, we can "
        "conclude that your requirements are unsatisfiable.\n",
        "no build of six==99.0 for this Python",
    ),
    "pip, another file": (
        "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have "
        "updated the package versions, please update the hashes.\n"
        "    six==1.17.0 from file:///six-1.17.0-py2.py3-none-any.whl (from -r x (line 1)):\n"
        f"        Expected sha256 {ZEROS}\n",
        "the package index has another file than the pinned one for six==1.17.0",
    ),
    "uv, another file": (
        "error: Failed to download `six==1.17.0`\n  cause: Hash mismatch for `six==1.17.0`\n\n"
        f"         Expected:\n           sha256:{ZEROS}\n",
        "the package index has another file than the pinned one for six==1.17.0",
    ),
    "pip, permission": (
        "ERROR: Could not install packages due to an OSError: [Errno 13] Permission denied: 'x'\n",
        "a file of .venv cannot be written",
    ),
    "uv, permission": (
        "error: Failed to install: six-1.17.0-py2.py3-none-any.whl (six==1.17.0)\n"
        "  cause: failed to create directory `six.dist-info`: Permission denied (os error 13)\n",
        "a file of .venv cannot be written",
    ),
    "pip, other": ("ERROR: first\nERROR: ResolutionImpossible\n", "ERROR: ResolutionImpossible"),
    "uv, other": ("error: unexpected argument '--x'\n", "error: unexpected argument '--x'"),
    "silence": ("", "the installation failed"),
}


@pytest.mark.parametrize("name", WHAT_IS_PRINTED)
def test_what_is_printed_becomes_one_line(name):
    log, sentence = WHAT_IS_PRINTED[name]
    assert environment.explain(log).startswith(sentence)
    assert "\n" not in environment.explain(log)


def test_uv_is_told_what_pip_is_set_to():
    listed = (
        ":env:.index-url='https://c/simple'\nglobal.extra-index-url='\\nfile:///a b'\n"
        "global.index-url='https://d/simple'\nglobal.cert='x.crt'\ninstall.no-index='true'\n"
    )
    assert environment.uv_options(listed) == [
        *("--index-url", "https://c/simple"),
        *("--extra-index-url", "file:///a", "--extra-index-url", "b"),
        *("--index-strategy", "unsafe-best-match", "--no-index"),
    ]
    assert environment.uv_options("") == []


def test_the_cpu_build_is_taken_where_it_is_offered():
    pins = [("six", "six==1.0 \\\n    --hash=x\n"), ("torch", "torch==2.13.0 \\\n    --hash=y\n")]
    offered = "torch (2.15.0)\nAvailable versions: 2.15.0, 2.13.0+cpu, 2.13.0\n"
    chosen = [pins[0], ("torch", "torch==2.13.0+cpu \\\n    --hash=y\n")]
    assert environment.cpu_build(pins, offered) == chosen
    assert environment.cpu_build(pins, "Available versions: 2.14.0+cpu, 2.13.0\n") == pins
    assert environment.cpu_build(pins[:1], offered) == pins[:1]


def test_the_cpu_build_does_without_what_no_cpu_needs():
    every = environment.pins()
    version = re.search(r"torch==(\S+)", dict(every)["torch"])[1]
    names = {name for name, _ in environment.cpu_build(every, f"{version}+cpu")}
    assert {"triton", "nvidia-cublas", "cuda-bindings"} <= {name for name, _ in every} - names
    assert {"numpy", "torch", "numba", "tornado"} <= names


def test_another_installer_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("LDP_INSTALLER", "conda")
    (tmp_path / "requirements.txt").write_text("")
    with pytest.raises(SetupError, match="LDP_INSTALLER is 'conda', but must be uv or pip"):
        environment._install_pins(str(tmp_path))


WHEEL = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def wheel(folder: Path, name: str, script: str | None = None) -> str:
    """Put a made-up wheel, version 1.0, on the index in `folder`; return its pin with its hash."""
    files = {
        f"{name}-1.0.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{name}-1.0.dist-info/WHEEL": WHEEL,
    }
    files[f"{name}-1.0.data/scripts/{name}" if script else f"{name}.py"] = script or "number = 1\n"
    record = f"{name}-1.0.dist-info/RECORD"
    files[record] = "".join(f"{path},,\n" for path in [*files, record])
    page = folder / "simple" / name
    page.mkdir(parents=True)
    path = page / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for inside, text in files.items():
            entry = zipfile.ZipInfo(inside)
            entry.external_attr = 0o100755 << 16  # may be run
            archive.writestr(entry, text)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    (page / "index.html").write_text(f'<a href="{path.name}#sha256={digest}">{path.name}</a>')
    return f"{name}==1.0 \\\n    --hash=sha256:{digest}\n"


def small_project(folder: Path, requirements: str) -> Path:
    """Make a project with the real set-up script, in a folder with a space in its name."""
    root = folder / "a project"
    (root / "companion" / "publish").mkdir(parents=True)
    (root / "companion" / "__init__.py").write_text("")
    script = Path("companion", "publish", "environment.py")
    (root / script).write_text((ROOT / script).read_text())
    (root / "requirements.txt").write_text(requirements)
    return root


def surroundings(root: Path, **variables: str) -> dict[str, str]:
    """Return an environment with an empty home, no uv on the PATH and the made-up index alone."""
    ours = ("PIP_", "UV_", "LDP_")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    home = root.parent / "home"
    home.mkdir(exist_ok=True)
    index = (root.parent / "simple").as_uri()
    paths = os.environ["PATH"].split(os.pathsep)
    path = os.pathsep.join(path for path in paths if not (Path(path) / "uv").exists())
    index_alone = {"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": index, "UV_HTTP_RETRIES": "0"}
    return {**clean, **index_alone, "HOME": str(home), "PATH": path, **variables}


def set_up(root: Path, **variables: str) -> subprocess.CompletedProcess:
    command = [sys.executable, str(root / "companion" / "publish" / "environment.py")]
    env = surroundings(root, **variables)
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)


def with_uv(root: Path) -> dict[str, str]:
    """Return a PATH with the real uv; skip where there is none."""
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if uv is None:
        pytest.skip("uv is not installed: run make setup")
    path = surroundings(root)["PATH"]
    return {"LDP_INSTALLER": "uv", "PATH": os.pathsep.join([str(Path(uv).parent), path])}


def failed(ended: subprocess.CompletedProcess) -> str:
    """Return the one line that a failed set-up has said."""
    assert ended.returncode == 1, ended.stdout
    (line,) = ended.stderr.strip().splitlines()
    return line.removeprefix("Set-up: ")


@pytest.mark.slow
@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_both_installers_do_and_say_the_same(installer, tmp_path):
    """They install what is pinned once, and say what is wrong with an index in the same words."""
    first, second = wheel(tmp_path, "first"), wheel(tmp_path, "second")
    elsewhere = second.replace("==1.0 ", "==1.0 ; sys_platform == 'emscripten' ")
    root = small_project(tmp_path, f"# pins\n{first}{elsewhere}")
    choice = {"LDP_INSTALLER": "pip"} if installer == "pip" else with_uv(root)
    ended = set_up(root, **choice)
    assert ended.returncode == 0, ended.stderr
    show = "import importlib.metadata as m; print(sorted(d.name for d in m.distributions()))"
    python = environment.venv_python(str(root))
    shown = subprocess.check_output([python, "-I", "-c", show], text=True)
    assert "'first'" in shown and "'second'" not in shown
    again = set_up(root, **choice)
    assert again.returncode == 0 and again.stdout == ""
    caches = (tmp_path / "home" / ".cache", root / ".venv" / "uv-cache")
    assert not any(cache.exists() for cache in caches)

    pins = root / "requirements.txt"
    pins.write_text(re.sub("sha256:.*", f"sha256:{ZEROS}", second))
    assert failed(set_up(root, **choice)).startswith(
        "the package index has another file than the pinned one for second==1.0"
    )
    pins.write_text(second.replace("second", "third"))
    assert failed(set_up(root, **choice)).startswith("no build of third==1.0 for this Python")
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_DEFAULT_TIMEOUT": "2"}
    ended = set_up(root, **choice, **nowhere)
    assert failed(ended).startswith("the package index cannot be reached")
    assert not environment.is_installed(str(root))


@pytest.mark.skipif(os.name == "nt", reason="the made-up uv is a shell script")
def test_uv_is_fetched_and_pip_does_what_it_cannot(tmp_path):
    strange = '#!/bin/sh\n[ "$1" = --version ] || { echo "error: how strange"; exit 2; }\n'
    root = small_project(tmp_path, wheel(tmp_path, "first") + wheel(tmp_path, "uv", strange))
    ended = set_up(root)
    assert ended.returncode == 0, ended.stderr
    assert "uv cannot (error: how strange); pip tries" in ended.stdout
    assert environment.is_installed(str(root))


@pytest.mark.skipif(os.name == "nt", reason="the made-up uv is a shell script")
def test_an_interrupted_set_up_leaves_nothing_running_and_can_be_repeated(tmp_path):
    root = small_project(tmp_path, wheel(tmp_path, "first"))
    uv = tmp_path / "bin" / "uv"
    uv.parent.mkdir()
    uv.write_text('#!/bin/sh\n[ "$1" = --version ] && exit\necho $$ > "$STARTED"\nexec sleep 60\n')
    uv.chmod(0o755)
    started = tmp_path / "started"
    path = os.pathsep.join([str(uv.parent), surroundings(root)["PATH"]])
    env = surroundings(root, PATH=path, STARTED=str(started))
    command = [sys.executable, str(root / "companion" / "publish" / "environment.py")]
    # ignored where tests run in the background
    heeds_ctrl_c = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    running = subprocess.Popen(
        command, env=env, stderr=subprocess.PIPE, text=True, preexec_fn=heeds_ctrl_c
    )
    deadline = time.monotonic() + 120
    while not (started.exists() and started.read_text().strip()) and time.monotonic() < deadline:
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    said = running.communicate(timeout=60)[1]
    assert (running.returncode, said.strip()) == (
        130,
        "Set-up: interrupted; run the same command again to go on",
    )
    assert not psutil.pid_exists(int(started.read_text()))
    assert set_up(root, LDP_INSTALLER="pip").returncode == 0


def test_ctrl_c_while_an_installer_starts_stops_it(tmp_path, monkeypatch):
    started = []

    class Interrupted(subprocess.Popen):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            started.append(self.pid)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            environment._run(str(tmp_path), [sys.executable, "-c", "import time; time.sleep(60)"])
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(started) == 1 and not psutil.pid_exists(started[0])


def test_it_survives_a_move(tmp_path):
    root = small_project(tmp_path, "# nothing to install\n")
    first = set_up(root)
    assert first.returncode == 0, first.stderr
    (root / "requirements.txt").write_text("# other pins\n")
    assert not environment.is_installed(str(root))
    moved = root.rename(tmp_path / "moved elsewhere")
    show = "import companion; print(companion.__file__)"
    command = [environment.venv_python(str(moved)), "-c", show]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert Path(shown.stdout.strip()) == moved / "companion" / "__init__.py"
