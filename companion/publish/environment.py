"""Sets the project up: the virtual environment, and where every library may write.

Run as a script it needs nothing but Python: it makes `.venv`, installs the pins of requirements.txt into it once, and says in
one line what is wrong when it cannot. It is written so that Python 3.6 can still read it and be told that it is too old.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OLDEST_PYTHON = (3, 11)
DISK_NEEDED = 4 * 10**9  # bytes: 2.2 GB installed, and the wheels while they are unpacked

CAUSES = (  # what pip prints, and what we say
    (r"No space left on device|Errno 28", "the disk is full: .venv needs about 3 GB"),
    (
        r"name resolution|NewConnectionError|ConnectTimeoutError|Connection refused|Network is unreachable|ProxyError"
        r"|ReadTimeoutError|Name or service not known|SSLError",
        "the package index cannot be reached: check the network or pip's index settings, then run the same command again",
    ),
    (r"No matching distribution found for (\S+)", "no build of {0} for this Python and machine: try Python 3.11"),
    (r"Permission denied|Errno 13", "a file of .venv cannot be written: check who owns this folder"),
)


class SetupError(Exception):
    """The set-up cannot go on; the message is one line for a person."""


def library_folders(root=ROOT):
    """Return, by environment variable, where each library keeps its files: under data/cache of the project."""
    places = {
        "IPYTHONDIR": "ipython",
        "JUPYTERLAB_SETTINGS_DIR": "jupyter/lab/settings",
        "JUPYTERLAB_WORKSPACES_DIR": "jupyter/lab/workspaces",
        "JUPYTER_CONFIG_DIR": "jupyter/config",
        "JUPYTER_DATA_DIR": "jupyter/data",
        "JUPYTER_RUNTIME_DIR": "jupyter/runtime",
        "MNE_DATA": "mne",
        "_MNE_FAKE_HOME_DIR": "mne",
        "MPLCONFIGDIR": "matplotlib",
        "NUMBA_CACHE_DIR": "numba",
        "TORCH_HOME": "torch",
        "XDG_CACHE_HOME": "xdg",
    }
    return {name: os.path.join(root, "data", "cache", *place.split("/")) for name, place in places.items()}


FLAGS = {
    "MNE_DONTWRITE_HOME": "true",
    "MOABB_DOWNLOAD_PROVIDER": "upstream",  # else it asks a server even for files that are here
    "OMP_WAIT_POLICY": "PASSIVE",  # threads that wait sleep, and leave their core to others
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",  # no warning about a debugger nobody uses
    "PYTHONNOUSERSITE": "1",  # packages of the user's home stay out
}


def keep_inside(root=ROOT):
    """Set folders and flags for this process and its children; what the user has set already stays."""
    for name, value in FLAGS.items():
        os.environ.setdefault(name, value)
    for name, folder in library_folders(root).items():
        os.environ.setdefault(name, folder)
        os.makedirs(os.environ[name], exist_ok=True)


def venv_python(root=ROOT):
    """Return the path of the virtual environment's Python."""
    folder, name = ("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")
    return os.path.join(root, ".venv", folder, name)


def require_python(version=None):
    """Raise SetupError when this Python is too old for the pins."""
    version = tuple(version or sys.version_info[:3])
    if version < OLDEST_PYTHON:
        raise SetupError(
            "Python {}.{} or newer is needed, this is {}: name another one with `make PYTHON=python3.11 ...`".format(
                OLDEST_PYTHON[0], OLDEST_PYTHON[1], ".".join(map(str, version))
            )
        )


def require_disk(root=ROOT, free=None):
    """Raise SetupError when there is no room for the installation."""
    free = shutil.disk_usage(root).free if free is None else free
    if free < DISK_NEEDED:
        raise SetupError(f"the disk has {free / 1e9:.1f} GB left, the installation needs {DISK_NEEDED / 1e9:.0f} GB")


def fingerprint(root=ROOT):
    """Return what the installation depends on: the pins and the Python version."""
    with open(os.path.join(root, "requirements.txt"), "rb") as file:
        pins = hashlib.sha256(file.read()).hexdigest()
    return "{} python {}.{}".format(pins, *sys.version_info[:2])


def is_installed(root=ROOT):
    """Return whether .venv already holds exactly these pins."""
    try:
        with open(os.path.join(root, ".venv", "installed.txt")) as file:
            return file.read().strip() == fingerprint(root) and os.path.exists(venv_python(root))
    except OSError:
        return False


def install(root=ROOT):
    """Create .venv when it is missing or broken, and install requirements.txt into it. A second call does nothing."""
    require_python()
    if is_installed(root):
        return
    require_disk(root)
    _make_venv(root)
    _pip_install(root)
    _put_on_path(root)
    with open(os.path.join(root, ".venv", "installed.txt"), "w") as file:
        file.write(fingerprint(root) + "\n")


def explain(log):
    """Return the one line that says why pip failed, from what it printed."""
    for pattern, sentence in CAUSES:
        found = re.search(pattern, log)
        if found:
            return sentence.format(*found.groups())
    errors = [line for line in log.splitlines() if line.startswith("ERROR")]
    return errors[-1] if errors else "pip failed"


def _make_venv(root):
    if _works(venv_python(root)):
        return
    folder = os.path.join(root, ".venv")
    if os.path.exists(folder):
        shutil.rmtree(folder)
    made = subprocess.run([sys.executable, "-m", "venv", folder], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if made.returncode:
        shutil.rmtree(folder, ignore_errors=True)
        output = made.stdout.decode(errors="replace")
        if "ensurepip" in output:
            raise SetupError("this Python has no venv module: install your system's python3-venv package")
        raise SetupError("the virtual environment cannot be made: " + explain(output))


def _works(python):
    try:
        return (
            subprocess.run([python, "-m", "pip", "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
            == 0
        )
    except OSError:
        return False


def _pip_install(root):
    """Run pip with a line of progress now and then; keep its full output in .venv/install.log."""
    with open(os.path.join(root, "requirements.txt")) as file:
        packages = sum(1 for line in file if "==" in line)
    print(f"Installing {packages} pinned packages into .venv (once; about 4 minutes, 2.2 GB)", flush=True)
    command = [venv_python(root), "-m", "pip", "install", "--progress-bar", "off", "--retries", "2"]
    command += ["--disable-pip-version-check", "-r", os.path.join(root, "requirements.txt")]
    if "PIP_CACHE_DIR" not in os.environ:
        command.append("--no-cache-dir")  # pip's own cache lies outside the project
    log_path, start, said, collected = os.path.join(root, ".venv", "install.log"), time.time(), 0.0, 0
    with open(log_path, "w") as log:
        pip = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
        for line in pip.stdout:
            log.write(line)
            collected += line.startswith("Collecting ")
            phase = "unpacking" if line.startswith("Installing collected") else f"{collected} of {packages}"
            if time.time() - said > 20 or phase == "unpacking":
                said = time.time()
                print(f"  {said - start:3.0f} s: {phase}", flush=True)
    if pip.wait():
        with open(log_path) as log:
            raise SetupError(explain(log.read()) + " (details: .venv/install.log)")


def _put_on_path(root):
    """Let the environment's Python import both packages from wherever the project lies, also after it is moved."""
    places = subprocess.check_output([venv_python(root), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"])
    folder = places.decode().strip()
    with open(os.path.join(folder, "companion.pth"), "w") as file:
        file.write(os.path.relpath(root, folder) + "\n")


def main():
    """Install, or print one line that says what is wrong and return 1."""
    try:
        install()
    except SetupError as error:
        print(f"Set-up: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Set-up: interrupted; run the same command again to go on", file=sys.stderr)
        return 130
    except OSError as error:
        print(f"Set-up: {explain(str(error)) if error.errno in (13, 28) else error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
