"""Changed code invalidates what depends on it, and nothing else."""

import importlib
import sys

import pytest

from companion.runs import fingerprint

FILES = {
    "__init__.py": '"""A package."""\n',
    "shard.py": "import json\nfrom toy import tools\n\ndef compute(x):\n"
    "    return {'y': tools.double(x)}\n",
    "tools.py": "from . import deep\n\ndef double(x):\n    '''Double it.'''\n"
    "    from toy.late import factor\n"
    "    return deep.times(x, factor)\n",
    "deep.py": "def times(x, n):\n    return x * n  # a comment\n",
    "late.py": "factor = 2\n",
    "unrelated.py": "answer = 42\n",
}


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """Return a function that edits a file of a small package and gives the fingerprint of its
    shard."""
    folder = tmp_path / "toy"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(fingerprint, "PACKAGES", ("toy",))

    def edited(name="", old="", new=""):
        if name:
            text = (folder / name).read_text()
            assert old in text
            (folder / name).write_text(text.replace(old, new))
        for module in [
            module for module in sys.modules if module == "toy" or module.startswith("toy.")
        ]:
            del sys.modules[module]
        for function in (fingerprint.of, fingerprint._source, fingerprint._path):
            function.cache_clear()
        return fingerprint.of(importlib.import_module("toy.shard").compute)

    yield edited
    for function in (fingerprint.of, fingerprint._source, fingerprint._path):
        function.cache_clear()


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("shard.py", "'y'", "'z'"),
        ("tools.py", "(x, factor)", "(factor, x)"),
        ("deep.py", "x * n", "n * x"),
        ("late.py", "2", "3"),
    ],
)
def test_code_that_matters_counts(toy, name, old, new):
    assert toy() != toy(name, old, new)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("deep.py", "# a comment", "# another"),
        ("tools.py", "Double it", "Twice it"),
        ("unrelated.py", "42", "43"),
        ("late.py", " = ", "   =  "),
    ],
)
def test_comments_docstrings_layout_and_strangers_do_not(toy, name, old, new):
    assert toy() == toy(name, old, new)


def test_versions_of_other_packages_count(toy, monkeypatch):
    before = toy("shard.py", "import json", "import numpy")
    fingerprint._version.cache_clear()
    monkeypatch.setattr("importlib.metadata.version", lambda name: "0.0")
    assert toy() != before
    fingerprint._version.cache_clear()


def test_the_experiments_depend_on_the_core_and_not_on_the_figures():
    reached = fingerprint.closure("companion.mushrooms")
    assert {
        "ldp_core.optimizer",
        "ldp_core.quantizer",
        "companion.problems.logistic_kernels",
        "companion.data.streams",
    } <= reached
    assert not {"companion.convergence.figures", "companion.publish.batch"} & reached
