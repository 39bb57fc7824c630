"""`make verify`: passes when numbers are as they were, and names the one that is not."""

import copy
import json
import os

import nbformat
import pytest

from companion import claims
from companion.publish import batch, verify

SAVE = """
import json, os, pathlib
from ldp_core import claims
folder = pathlib.Path(output)
folder.mkdir(exist_ok=True, parents=True)
numbers = {"count": size, "mean": 1 / 3, "seen": [os.environ.get("LDP_DATA", ""), pathlib.Path(os.environ["LDP_CACHE"]).name]}
record = {"figure": "fig1", "notebook": "01_tiny", "data": [{"kind": "real", "name": "N", "sha256": "ab"}], "numbers": numbers}
(folder / "fig1.json").write_text(json.dumps(record))
claims.save([claims.Claim("c", "w", "words", "1", "1", "holds", "because", "01_tiny")], "01_tiny", folder)
"""


@pytest.fixture
def house(tmp_path, monkeypatch):
    """Return a folder with one tiny notebook in place of the project's own."""
    places = {"ROOT": "", "NOTEBOOKS": "nb", "PROFILES": "nb/profiles", "CACHE": "cache"}
    for name, place in places.items():
        monkeypatch.setattr(batch, name, tmp_path / place)
    monkeypatch.setattr(verify, "REFERENCE", tmp_path / "smoke.json")
    (tmp_path / "nb" / "profiles").mkdir(parents=True)
    (tmp_path / "nb" / "profiles" / "smoke.yaml").write_text("01_tiny:\n  size: 3\n")
    parameters = 'profile: str = ""\noutput: str = ""\nseed: int = 0\nsize: int = 1\n'
    cells = [nbformat.v4.new_code_cell(parameters, metadata={"tags": ["parameters"]}), nbformat.v4.new_code_cell(SAVE)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, tmp_path / "nb" / "01_tiny.ipynb")
    return tmp_path


def test_a_real_run_passes_and_a_doctored_reference_is_named(house, monkeypatch, capsys):
    monkeypatch.setenv("LDP_DATA", "/somewhere")
    monkeypatch.setenv("LDP_CACHE", str(house / "mine"))
    assert verify.run(update=True) == 0
    assert verify.load()["01_tiny"]["figures"]["fig1"]["numbers"] == {"count": 3, "mean": 0.333333333333, "seen": ["", "cache"]}
    assert os.environ["LDP_DATA"] == "/somewhere" and os.environ["LDP_CACHE"] == str(house / "mine")
    assert not (house / "figures").exists()
    assert verify.run() == 0
    assert "6 numbers and verdicts of 1 notebooks are as they were" in capsys.readouterr().out
    doctored = verify.load()
    doctored["01_tiny"]["figures"]["fig1"]["numbers"]["mean"] = 0.33334
    verify.REFERENCE.write_text(json.dumps(doctored))
    assert verify.run("01") == 1
    assert "01_tiny: fig1.mean is 0.333333333, the reference 0.33334; allowed: 1e-09 + 1e-06 of it" in capsys.readouterr().out


def test_a_notebook_that_fails_is_named_and_keeps_its_reference(house, capsys):
    verify._write({"01_tiny": MEASURED, "09_gone": MEASURED})
    notebook = nbformat.read(house / "nb" / "01_tiny.ipynb", 4)
    notebook.cells[1].source = "1 / 0"
    nbformat.write(notebook, house / "nb" / "01_tiny.ipynb")
    assert verify.run(update=True) == 1
    assert "01_tiny: failed, so its numbers were not compared" in capsys.readouterr().out
    assert verify.load() == {"01_tiny": MEASURED}


MEASURED = {
    "figures": {
        "fig2": {"data": ["ab"], "numbers": {"summary": {"mean": [0.5, 0.75]}, "count": 3}},
        "fig3_bounds": {
            "data": ["ab"],
            "numbers": {"log10_delta": {"theorem 2.1": 5.2}, "name": "none", "gap": 1e-26, "flag": True},
        },
        "fig5": {"data": ["cd"], "numbers": {"mse": 0.09}},
    },
    "verdicts": {"lemma-6": "holds"},
}

CHANGES = {  # where, new value, what is said about it (nothing: within tolerance)
    "share within": (("figures", "fig2", "numbers", "summary", "mean", 1), 0.755, ""),
    "share beyond": (
        ("figures", "fig2", "numbers", "summary", "mean", 1),
        0.77,
        "fig2.summary.mean.1 is 0.77, the reference 0.75",
    ),
    "whole number": (
        ("figures", "fig2", "numbers", "count"),
        4,
        "fig2.count is 4, the reference 3; whole numbers must be equal",
    ),
    "rounding": (("figures", "fig3_bounds", "numbers", "log10_delta", "theorem 2.1"), 5.2 + 1e-8, ""),
    "bound": (
        ("figures", "fig3_bounds", "numbers", "log10_delta", "theorem 2.1"),
        5.21,
        "fig3_bounds.log10_delta.theorem 2.1 is 5.21",
    ),
    "nearly zero": (("figures", "fig3_bounds", "numbers", "gap"), 3e-20, ""),
    "word": (("figures", "fig3_bounds", "numbers", "name"), "l1", "fig3_bounds.name is 'l1', the reference 'none'"),
    "flag": (("figures", "fig3_bounds", "numbers", "flag"), False, "fig3_bounds.flag is False, the reference True"),
    "nothing": (("figures", "fig3_bounds", "numbers", "gap"), None, "fig3_bounds.gap is None"),
    "network within": (("figures", "fig5", "numbers", "mse"), 0.12, ""),
    "network beyond": (("figures", "fig5", "numbers", "mse"), 0.2, "fig5.mse is 0.2, the reference 0.09"),
    "data": (("figures", "fig5", "data"), ["ef"], "fig5 data is ['ef'], the reference ['cd']"),
    "verdict": (("verdicts", "lemma-6"), "does not hold", "verdict lemma-6 is 'does not hold', the reference 'holds'"),
    "new verdict": (("verdicts", "lemma-7"), "holds", "verdict lemma-7 is new"),
    "new number": (("figures", "fig2", "numbers", "more"), 1.0, "fig2.more is new"),
    "shorter list": (("figures", "fig2", "numbers", "summary", "mean"), [0.5], "fig2.summary.mean.1 is missing"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_each_kind_of_number_has_its_tolerance(name):
    place, value, sentence = CHANGES[name]
    changed = copy.deepcopy(MEASURED)
    target = changed
    for key in place[:-1]:
        target = target[key]
    target[place[-1]] = value
    found = list(verify.differences("01_a", changed, MEASURED))
    assert len(found) == bool(sentence)
    assert all(line.startswith(f"01_a: {sentence}") for line in found)


def test_a_new_notebook_asks_for_a_reference():
    assert list(verify.differences("03_new", MEASURED, None)) == [
        "03_new: there is no reference; `make verify UPDATE=1 NB=03` writes one"
    ]
    assert list(verify.differences("03_new", None, MEASURED)) == ["03_new: wrote no figures and no verdicts"]


def test_the_written_reference_reads_back(tmp_path, monkeypatch):
    monkeypatch.setattr(verify, "REFERENCE", tmp_path / "smoke.json")
    verify._write({"01_a": MEASURED, "02_b": MEASURED})
    assert verify.load() == {"01_a": MEASURED, "02_b": MEASURED}


def test_the_committed_reference_is_whole():
    reference = verify.load()
    assert set(reference) <= {path.stem for path in batch.notebooks()}
    for notebook, entry in reference.items():
        assert entry["figures"] and set(entry["verdicts"].values()) <= set(claims.VERDICTS)
        assert not list(verify.differences(notebook, entry, entry))
