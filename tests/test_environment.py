"""The set-up says in one line what is wrong, and installs once."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from companion.publish import environment
from companion.publish.environment import SetupError

ROOT = Path(environment.ROOT)


def test_an_old_python_is_told_so():
    with pytest.raises(SetupError, match=r"Python 3\.11 or newer is needed, this is 3\.8\.10"):
        environment.require_python((3, 8, 10))
    environment.require_python((3, 14, 0))


def test_an_old_python_can_read_the_script():
    """Every line of the script is grammar of Python 3.6, so that it gets as far as saying what is wrong."""
    import ast

    ast.parse((ROOT / "companion" / "publish" / "environment.py").read_text(), feature_version=(3, 6))
    assert "f'" not in (ROOT / "companion" / "publish" / "environment.py").read_text()


def test_a_full_disk_is_told_so(tmp_path):
    with pytest.raises(SetupError, match=r"the disk has 1\.0 GB left, the installation needs 4 GB"):
        environment.require_disk(tmp_path, free=10**9)


WHAT_PIP_SAYS = {
    "disk": ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n", "the disk is full"),
    "network": (
        "WARNING: Retrying ... NewConnectionError(...: Failed to establish a new connection: [Errno -3] Temporary failure in "
        "name resolution')': /x\nERROR: Could not find a version that satisfies the requirement numpy (from versions: none)\n"
        "ERROR: No matching distribution found for numpy==2.4.6\n",
        "the package index cannot be reached",
    ),
    "no wheel": ("ERROR: No matching distribution found for torch==2.13.0\n", "no build of torch==2.13.0 for this Python"),
    "permission": ("ERROR: [Errno 13] Permission denied: 'x'\n", "a file of .venv cannot be written"),
    "other": ("ERROR: first\nERROR: ResolutionImpossible: see the log\n", "ERROR: ResolutionImpossible: see the log"),
    "silence": ("", "pip failed"),
}


@pytest.mark.parametrize("name", WHAT_PIP_SAYS)
def test_pips_words_become_one_line(name):
    log, sentence = WHAT_PIP_SAYS[name]
    assert environment.explain(log).startswith(sentence) and "\n" not in environment.explain(log)


def small_project(folder: Path, requirement: str) -> Path:
    """Make a project with the real set-up script and one requirement, in a folder with a space in its name."""
    root = folder / "a project"
    (root / "companion" / "publish").mkdir(parents=True)
    (root / "companion" / "__init__.py").write_text("")
    script = Path("companion", "publish", "environment.py")
    (root / script).write_text((ROOT / script).read_text())
    (root / "requirements.txt").write_text(requirement + "\n")
    return root


def set_up(root: Path, **variables: str) -> subprocess.CompletedProcess:
    command = [sys.executable, str(root / "companion" / "publish" / "environment.py")]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    return subprocess.run(command, env={**clean, **variables}, capture_output=True, text=True, timeout=300)


def test_an_unreachable_index_is_one_line_and_a_failure(tmp_path):
    root = small_project(tmp_path, "surely-no-such-package==1.0")
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_CONFIG_FILE": os.devnull, "PIP_DEFAULT_TIMEOUT": "2"}
    ended = set_up(root, **nowhere)
    assert ended.returncode == 1
    assert ended.stderr.strip().startswith("Set-up: the package index cannot be reached")
    assert len(ended.stderr.strip().splitlines()) == 1
    assert not environment.is_installed(str(root))


def test_it_installs_once_and_survives_a_move(tmp_path):
    root = small_project(tmp_path, "# nothing to install")
    first = set_up(root)
    assert first.returncode == 0, first.stderr
    second = set_up(root)
    assert second.returncode == 0 and second.stdout == ""
    (root / "requirements.txt").write_text("# other pins\n")
    assert not environment.is_installed(str(root))
    moved = root.rename(tmp_path / "moved elsewhere")
    command = [environment.venv_python(str(moved)), "-c", "import companion; print(companion.__file__)"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert Path(shown.stdout.strip()) == moved / "companion" / "__init__.py"


def test_libraries_write_inside_the_project(tmp_path):
    """A fresh process with an empty home imports and uses the libraries; afterwards the home is still empty."""
    home = tmp_path / "home"
    home.mkdir()
    code = (
        "from companion.publish import environment; environment.keep_inside(); "
        "import matplotlib.pyplot, mne, moabb, torch, numba, papermill, jupyterlab.labapp; "
        "mne.get_config('MNE_DATA')"
    )
    ours = {*environment.library_folders(), *environment.FLAGS}
    clean = {name: value for name, value in os.environ.items() if name not in ours}
    subprocess.run([sys.executable, "-c", code], env={**clean, "HOME": str(home)}, cwd=ROOT, check=True, capture_output=True)
    assert not list(home.iterdir())


def test_what_the_user_has_set_stays(monkeypatch, tmp_path):
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path / "mine"))
    environment.keep_inside()
    assert os.environ["MPLCONFIGDIR"] == str(tmp_path / "mine")


def test_the_pins_are_complete_and_exact():
    """Every line pins one version, no local suffix, and nothing the environment imports is missing from the list."""
    lines = [line for line in (ROOT / "requirements.txt").read_text().splitlines() if line and not line.startswith("#")]
    assert all(line.count("==") == 1 and "+" not in line for line in lines)
    import importlib.metadata

    pinned = {line.split("==")[0].split("[")[0].lower().replace("_", "-").replace(".", "-") for line in lines}
    installed = {
        dist.metadata["Name"].lower().replace("_", "-").replace(".", "-") for dist in importlib.metadata.distributions()
    }
    assert installed - pinned <= {"pip", "ldp-quantization-companion", "wheel"}
