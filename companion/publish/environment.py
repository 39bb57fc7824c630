"""Sets the project up: the virtual environment, and where every library may write.

Run as a script it needs nothing but Python: it makes `.venv`, installs the pins of requirements.txt
into it once, with uv where it can be had and else with pip, and says in one line what is wrong when
it cannot. It is written so that Python 3.6 can still read it and be told that it is too old.
"""

import ast
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OLDEST_PYTHON = (3, 11)
DISK_NEEDED = 4 * 10**9  # bytes: 2.3 GB installed, and the wheels while they are unpacked
COST = "2.3 GB on disk, 0.4 GB of memory; a minute with uv, three with pip"
GRAPHICS_CARDS = r"nvidia-|cuda-|triton"  # pins that torch's CPU build does without
EXACTLY = ("--no-deps", "--require-hashes", "--only-binary", ":all:")
SECONDS_FOR_UV = 60  # fetching uv is given up after this
UV_OPTIONS = {  # what uv calls pip's settings
    "index-url": "--index-url",
    "extra-index-url": "--extra-index-url",
    "find-links": "--find-links",
    "trusted-host": "--allow-insecure-host",
}

CAUSES = (  # what pip or uv prints, and what we say
    (r"No space left on device|Errno 28|os error 28", "the disk is full: .venv needs about 3 GB"),
    (
        r"name resolution|NewConnectionError|ConnectTimeoutError|Connection refused|ProxyError"
        r"|Network is unreachable|ReadTimeoutError|Name or service not known|SSLError"
        r"|not a trusted or secure host|error sending request|Failed to fetch",
        "the package index cannot be reached: check the network or pip's index settings, then run "
        "the same command again",
    ),
    (
        r"No matching distribution found for (\S+)"
        r"|(?i:no solution found)[\s\S]*you require\s+(\S+==[^\s,]+)",
        "no build of {0} for this Python and machine: try Python 3.11",
    ),
    (
        r"do not match the hashes[\s\S]*?^ +(\S+==\S+)|hash mismatch for `([^`]+)`",
        "the package index has another file than the pinned one for {0}: nothing of it was used",
    ),
    (
        r"Permission denied|Errno 13|os error 13",
        "a file of .venv cannot be written: check who owns this folder",
    ),
)


class SetupError(Exception):
    """The set-up cannot go on; the message is one line for a person."""


def library_folders(root=ROOT):
    """Return, by environment variable, where each library keeps its files: under data/cache."""
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
    cache = os.path.join(root, "data", "cache")
    return {name: os.path.join(cache, *place.split("/")) for name, place in places.items()}


FLAGS = {
    "MALLOC_MMAP_THRESHOLD_": str(2**26),  # of glibc; with both, arrays of some megabytes lie where
    "MALLOC_TRIM_THRESHOLD_": str(2**28),  # others lay, and are not fetched from the system again
    "MNE_DONTWRITE_HOME": "true",
    "MOABB_DOWNLOAD_PROVIDER": "upstream",  # else it asks a server even for files that are here
    "OMP_WAIT_POLICY": "PASSIVE",  # threads that wait sleep, and leave their core to others
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",  # no warning about a debugger nobody uses
    "PYTHONNOUSERSITE": "1",  # packages of the user's home stay out
}


def keep_inside(root=ROOT):
    """Set folders and flags for this process and its children; what the user has set stays."""
    for name, value in FLAGS.items():
        os.environ.setdefault(name, value)
    for name, folder in library_folders(root).items():
        os.environ.setdefault(name, folder)
        os.makedirs(os.environ[name], exist_ok=True)
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
        # not beside the sources, then; but else each process compiles torch anew: five seconds
        compiled = os.path.join(root, "data", "cache", "bytecode")
        sys.pycache_prefix = os.environ.setdefault("PYTHONPYCACHEPREFIX", compiled)
        sys.dont_write_bytecode = False


def venv_python(root=ROOT):
    """Return the path of the virtual environment's Python."""
    folder, name = ("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")
    return os.path.join(root, ".venv", folder, name)


def require_python():
    """Raise SetupError when this Python is too old for the pins."""
    version = tuple(sys.version_info[:3])
    if version < OLDEST_PYTHON:
        oldest, this = (".".join(map(str, number)) for number in (OLDEST_PYTHON, version))
        needed = f"Python {oldest} or newer is needed, this is {this}"
        raise SetupError(f"{needed}: name another one with `make PYTHON=python3.11 ...`")


def require_disk(root=ROOT):
    """Raise SetupError when there is no room for the installation."""
    free = shutil.disk_usage(root).free
    if free < DISK_NEEDED:
        needed = f"the installation needs {DISK_NEEDED / 1e9:.0f} GB"
        raise SetupError(f"the disk has {free / 1e9:.1f} GB left, {needed}")


def fingerprint(root=ROOT):
    """Return what the installation depends on: the pins and the Python version."""
    with open(os.path.join(root, "requirements.txt"), "rb") as file:
        pins = hashlib.sha256(file.read()).hexdigest()
    return "{} python {}.{}".format(pins, *sys.version_info[:2])


def is_installed(root=ROOT):
    """Return whether .venv already holds exactly these pins."""
    try:
        with open(_inside(root, "installed.txt")) as file:
            return file.read().strip() == fingerprint(root) and os.path.exists(venv_python(root))
    except OSError:
        return False


def install(root=ROOT):
    """Make .venv when it is missing or broken and install the pins; a second call does nothing."""
    require_python()
    if is_installed(root):
        return
    require_disk(root)
    _make_venv(root)
    _install_pins(root)
    _put_on_path(root)
    _write(_inside(root, "installed.txt"), fingerprint(root) + "\n")


def explain(log):
    """Return the one line that says why pip or uv failed, from what it printed."""
    for pattern, sentence in CAUSES:
        found = re.search(pattern, log, re.IGNORECASE | re.MULTILINE)
        if found:
            return sentence.format(*filter(None, found.groups()))
    errors = [line for line in log.splitlines() if line.upper().startswith("ERROR")]
    return errors[-1] if errors else "the installation failed"


def pins(root=ROOT):
    """Return the pins of requirements.txt as (name, text with hashes)."""
    with open(os.path.join(root, "requirements.txt")) as file:
        blocks = re.split(r"(?m)^(?=\w)", re.sub(r"(?m)^#.*\n", "", file.read()))
    return [(block.split("==")[0], block) for block in blocks if "==" in block]


def uv_options(listed):
    """Return uv's options for what `pip config list` prints: uv reads none of pip's settings."""
    found = re.findall(r"(?m)^(global|install|:env:)\.([a-z-]+)=(.*)$", listed)
    found.sort(key=lambda setting: ("global", "install", ":env:").index(setting[0]))
    settings = {name: ast.literal_eval(value).split() for _, name, value in found}
    options = []
    for name, option in UV_OPTIONS.items():
        for value in settings.get(name, ()):
            options += [option, value]
    if "extra-index-url" in settings:  # ask them all, as pip does: hashes say which file is right
        options += ["--index-strategy", "unsafe-best-match"]
    return options + (["--no-index"] if settings.get("no-index") in (["true"], ["1"]) else [])


def cpu_build(every, offered):
    """Return the pins with torch's CPU build for torch, where `pip index versions` offers it.

    That one does without the pins for graphics cards. Asked for the plain version, pip would take
    the build for these, and uv would miss the hash of the other. Only on Linux are they two:
    elsewhere the plain one is for CPUs, and pins for graphics cards say that they are for Linux.
    """
    version = dict(every).get("torch", "").partition("==")[2].partition(" ")[0]
    if not version or version + "+cpu" not in re.split(r"[\s,]+", offered):
        return every
    basic = [pin for pin in every if not re.match(GRAPHICS_CARDS, pin[0])]
    plain, other = (f"torch=={version}{build} " for build in ("", "+cpu"))
    return [(name, text.replace(plain, other)) for name, text in basic]


def _make_venv(root):
    if _succeeds([venv_python(root), "-m", "pip", "--version"]):
        return
    folder = os.path.join(root, ".venv")
    if os.path.exists(folder):
        shutil.rmtree(folder)
    command = [sys.executable, "-m", "venv", folder]
    made = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if made.returncode:
        shutil.rmtree(folder, ignore_errors=True)
        output = made.stdout.decode(errors="replace")
        if "ensurepip" in output:
            how = "install your system's python3-venv package"
            raise SetupError(f"this Python has no venv module: {how}")
        raise SetupError("the virtual environment cannot be made: " + explain(output))


def _succeeds(command, seconds=None):
    """Return whether a command can be run and ends well in that time; what it prints is lost."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "timeout": seconds}
    try:
        return subprocess.run(command, **quiet).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _install_pins(root):
    """Install the pins by uv or else by pip; LDP_INSTALLER names the only one to be tried."""
    ways = {"uv": _by_uv, "pip": lambda root, text: _run(root, _pip_command(root, text))}
    named = os.environ.get("LDP_INSTALLER")
    if named and named not in ways:
        raise SetupError(f"LDP_INSTALLER is {named!r}, but must be uv or pip")
    wanted, reason = _wanted(root), None
    print(f"Installing {len(wanted)} pinned packages into .venv (once; {COST})", flush=True)
    for name in [named] if named else ways:
        if reason:
            print(f"  uv cannot ({reason}); pip tries", flush=True)
        reason = ways[name](root, "".join(text for _, text in wanted)) if wanted else None
        if reason is None:
            shutil.rmtree(_inside(root, "uv-cache"), ignore_errors=True)
            return
    raise SetupError(f"{reason} (details: .venv/install.log)")


def _wanted(root):
    """Return the pins for this machine, and say so where they include those for graphics cards."""
    every = pins(root)
    if "torch" not in dict(every) or not sys.platform.startswith("linux"):
        return every
    ask = [venv_python(root), "-m", "pip", "index", "versions", "torch"]
    asked = subprocess.run(ask, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    wanted = cpu_build(every, asked.stdout.decode(errors="replace"))
    if wanted == every:
        print("The index has torch for graphics cards alone: 2.3 GB more to fetch", flush=True)
    return wanted


def _by_uv(root, text):
    """Return None when uv has installed these pins, else why it has not."""
    uv = _find_uv(root)
    if uv is None:
        return "it is not on the PATH, and the package index does not give it"
    command = [uv, "pip", "install", "--python", venv_python(root), *_uv_settings(root)]
    return _run(root, [*command, *EXACTLY, "-r", _write(_inside(root, "pins.txt"), text)])


def _pip_command(root, text):
    command = [venv_python(root), "-m", "pip", "install", "--progress-bar", "off", "--retries", "2"]
    if "PIP_CACHE_DIR" not in os.environ:
        command.append("--no-cache-dir")  # pip's own cache lies outside the project
    listed = _write(_inside(root, "pins.txt"), text)
    return [*command, "--disable-pip-version-check", *EXACTLY, "-r", listed]


def _uv_settings(root):
    """Return the indexes that pip is set to, and a cache on the disk of the packages."""
    cache = [] if "UV_CACHE_DIR" in os.environ else ["--cache-dir", _inside(root, "uv-cache")]
    if any(name in os.environ for name in ("UV_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX")):
        return cache
    listed = subprocess.check_output([venv_python(root), "-m", "pip", "config", "list"])
    return cache + uv_options(listed.decode(errors="replace"))


def _find_uv(root):
    """Return uv from the PATH, else the pinned one, which pip fetches in seconds, else None."""
    own = os.path.join(os.path.dirname(venv_python(root)), "uv.exe" if os.name == "nt" else "uv")
    for uv in filter(None, (shutil.which("uv"), own)):
        if _succeeds([uv, "--version"]):
            return uv
    pinned = "".join(text for name, text in pins(root) if name == "uv")
    fetch = [*_pip_command(root, pinned), "--timeout", "10"]
    fetched = pinned and _succeeds(fetch, SECONDS_FOR_UV) and _succeeds([own, "--version"])
    return own if fetched else None


def _inside(root, name):
    return os.path.join(root, ".venv", name)


def _write(path, text):
    """Write a file, and return its path."""
    with open(path, "w") as file:
        file.write(text)
    return path


def _run(root, command):
    """Run an installer, with a line now and then; return None, or in a sentence why it failed."""
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "universal_newlines": True}
    start, said, printed = time.time(), time.time(), []
    installer, early = None, []
    heeded = signal.signal(signal.SIGINT, lambda *_: early.append(True))
    try:
        installer = subprocess.Popen(command, **output)
        signal.signal(signal.SIGINT, heeded)
        if early:  # Ctrl-C while it started, before there was anything to stop
            signal.raise_signal(signal.SIGINT)
        with open(_inside(root, "install.log"), "w") as log:
            for line in installer.stdout:
                log.write(line)
                printed.append(line)
                if time.time() - said > 20:
                    said = time.time()
                    print(f"  {said - start:3.0f} s: {line.strip()[:80]}", flush=True)
        return explain("".join(printed)) if installer.wait() else None
    finally:
        signal.signal(signal.SIGINT, heeded)
        if installer is not None and installer.poll() is None:
            installer.kill()
            installer.wait()


def _put_on_path(root):
    """Let the environment's Python import both packages, also after the project is moved."""
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    folder = subprocess.check_output([venv_python(root), "-c", ask]).decode().strip()
    _write(os.path.join(folder, "companion.pth"), os.path.relpath(root, folder) + "\n")


def main():
    """Install, or print one line that says what is wrong and return 1."""
    try:
        install()
        return 0
    except SetupError as error:
        reason, code = error, 1
    except KeyboardInterrupt:
        reason, code = "interrupted; run the same command again to go on", 130
    except OSError as error:
        reason, code = explain(str(error)) if error.errno in (13, 28) else error, 1
    print(f"Set-up: {reason}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
