"""What is installed: it writes inside the project, nothing is missing, the core is alone."""

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from companion.publish import environment

ROOT = Path(environment.ROOT)


def test_libraries_write_inside_the_project(tmp_path):
    """A fresh process with an empty home imports and uses the libraries.

    Afterwards the home is still empty.
    """
    home = tmp_path / "home"
    home.mkdir()
    code = (
        "from companion.publish import environment; environment.keep_inside(); "
        "import matplotlib.pyplot, mne, moabb, torch, numba, papermill, jupyterlab.labapp; "
        "mne.get_config('MNE_DATA')"
    )
    ours = {*environment.library_folders(), *environment.FLAGS}
    clean = {name: value for name, value in os.environ.items() if name not in ours}
    subprocess.run(
        [sys.executable, "-c", code],
        env={**clean, "HOME": str(home)},
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    assert not list(home.iterdir())


def test_what_the_user_has_set_stays(monkeypatch, tmp_path):
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path / "mine"))
    environment.keep_inside()
    assert os.environ["MPLCONFIGDIR"] == str(tmp_path / "mine")


def test_what_is_compiled_is_kept_away_from_the_sources(tmp_path):
    """A kernel imports from it what another has compiled, and finds nothing beside the source."""
    (tmp_path / "source.py").touch()
    code = (
        "import subprocess, sys; from companion.publish import environment; "
        f"environment.keep_inside({str(tmp_path)!r}); import source; "
        "subprocess.run([sys.executable, '-v', '-c', 'import source'], check=True)"
    )
    names = {*environment.library_folders(), "PYTHONPYCACHEPREFIX"}
    outer = {name: value for name, value in os.environ.items() if name not in names}
    outer |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-c", code]
    said = subprocess.run(command, env=outer, check=True, capture_output=True, text=True).stderr
    (kept,) = (tmp_path / "data" / "cache" / "bytecode").rglob("source.*.pyc")
    assert f"code object from '{kept}'" in said and not (tmp_path / "__pycache__").exists()


def test_the_pins_are_exact_and_carry_hashes():
    """Every pin names one version without a local suffix, and the files it may come from."""
    for name, text in environment.pins():
        assert re.match(rf"{re.escape(name)}==[^\s+]+ ", text), text
        assert re.search(r"--hash=sha256:[0-9a-f]{64}\n$", text), text
    assert "//" not in (ROOT / "requirements.txt").read_text()


def test_what_the_project_uses_is_among_the_pins():
    """requirements.txt has been made again since requirements.in was changed."""
    text = (ROOT / "requirements.in").read_text()
    direct = re.findall(r"(?m)^([a-z0-9-]+)(?:\[.*\])?(==.*)$", text)
    locked = {text.split()[0] for _, text in environment.pins()}
    assert {name + version for name, version in direct} <= locked


def test_nothing_that_a_pin_needs_is_missing():
    """The pins are installed without what they need, so they must be complete by themselves."""
    pinned: dict[str, list[str]] = {}
    for name, text in environment.pins():
        pinned.setdefault(name, []).append(text.split()[0].partition("==")[2])
    for name in pinned:
        for needed in map(Requirement, needs(name)):
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                versions = pinned.get(canonicalize_name(needed.name), [])
                fits = [needed.specifier.contains(version, True) for version in versions]
                assert any(fits), (name, str(needed))


def needs(name: str) -> list[str]:
    """Return what an installed package requires; nothing when it is not installed here."""
    try:
        return importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        return []


@pytest.fixture(scope="module")
def core_wheel(tmp_path_factory) -> zipfile.ZipFile:
    """Return the wheel that `pip install .` would make."""
    root, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE", "requirements.in"):
        shutil.copy(ROOT / name, root)
    for name in ("ldp_core", "companion"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    offline = ("--no-deps", "--no-index", "--no-build-isolation", "--quiet")
    command = [sys.executable, "-m", "pip", "wheel", *offline, "-w", str(out), str(root)]
    subprocess.run(command, check=True, capture_output=True)
    return zipfile.ZipFile(next(out.iterdir()))


def test_the_core_is_installed_alone(core_wheel):
    """The wheel holds all of ldp_core and nothing else, needs numpy, and knows the extra
    `companion`."""
    inside = {name for name in core_wheel.namelist() if ".dist-info/" not in name}
    assert inside == {
        path.relative_to(ROOT).as_posix() for path in (ROOT / "ldp_core").rglob("*.py")
    }
    metadata = next(name for name in core_wheel.namelist() if name.endswith("METADATA"))
    needed = re.findall("(?m)^Requires-Dist: (.*)$", core_wheel.read(metadata).decode())
    assert [line for line in needed if ";" not in line] == ["numpy"]
    extra = {line.split(";")[0] for line in needed if line.endswith('extra == "companion"')}
    assert extra == set(re.findall(r"(?m)^[a-z].*==.*$", (ROOT / "requirements.in").read_text()))


def test_the_core_is_imported_with_numpy_alone(core_wheel, tmp_path):
    core_wheel.extractall(tmp_path)
    packages = Path(np.__file__).parents[1]
    for name in ("numpy", "numpy.libs"):
        if (packages / name).exists():
            (tmp_path / name).symlink_to(packages / name, target_is_directory=True)
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); "
        "from ldp_core import accountant, audit, network, optimizer, quantizer, randomness; "
        "print(network.__file__)"
    )
    command = [sys.executable, "-I", "-S", "-c", code]  # without site-packages
    shown = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert shown.stdout.strip() == str(tmp_path / "ldp_core" / "network.py"), shown.stderr
