"""`make verify`: passes when numbers are as they were on any processor.

Names what is not, its kind, and what to do.
"""

import copy
import json
import os

import nbformat
import pytest

from companion import claims
from companion.publish import batch, processors, tolerances, verify

SAVE = """
import json, os, pathlib
from companion import claims
folder = pathlib.Path(output)
folder.mkdir(exist_ok=True, parents=True)
played = "NUMBA_CPU_NAME" in os.environ
seen = [os.environ.get("LDP_DATA", ""), pathlib.Path(os.environ["LDP_CACHE"]).name]
data = [{"kind": "real", "name": "N", "sha256": "ab"}]
numbers = {"fig1": {"count": size, "mean": 1 / 3, "seen": seen}, \
"fig5": {"mse": 0.5 + 0.25 * played + seed}}
for figure, values in numbers.items():
    record = {"figure": figure, "notebook": "01_tiny", "data": data, "numbers": values}
    (folder / f"{figure}.json").write_text(json.dumps(record))
claims.save([claims.Claim("c", "w", "words", "1", "1", "holds", "because", "01_tiny")], \
"01_tiny", folder)
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
    cells = [
        nbformat.v4.new_code_cell(parameters, metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell(SAVE),
    ]
    notebook = nbformat.v4.new_notebook(cells=cells)
    notebook.metadata.kernelspec = {
        "name": "python3",
        "display_name": "Python 3",
        "language": "python",
    }
    nbformat.write(notebook, tmp_path / "nb" / "01_tiny.ipynb")
    return tmp_path


@pytest.fixture
def two_processors(monkeypatch):
    """Let there be one other processor to play, and one other seed: a run of the tiny notebook
    takes seconds."""
    monkeypatch.setattr(processors, "playable", lambda: ["sse"])
    monkeypatch.setattr(verify, "OTHER_SEEDS", (1,))


def test_a_real_run_passes_and_a_doctored_reference_is_named(
    house, two_processors, monkeypatch, capsys
):
    monkeypatch.setenv("LDP_DATA", "/somewhere")
    monkeypatch.setenv("LDP_CACHE", str(house / "mine"))
    before = dict(os.environ)
    assert verify.run(update=True) == 0
    assert (
        "wrote the numbers of 01_tiny as 2 processors and 2 seeds gave them"
        in capsys.readouterr().out
    )
    figures = verify.load()["01_tiny"]["figures"]
    assert figures["fig1"]["numbers"] == {"count": 3, "mean": 0.333333333333, "seen": ["", "cache"]}
    assert figures["fig1"]["away"] == {}
    assert figures["fig5"]["away"] == {
        "fig5.mse": pytest.approx(1.0, rel=0.01)
    }  # the seed moves it further
    assert dict(os.environ) == before and not (house / "figures").exists()
    assert verify.run() == 0
    assert "8 numbers and verdicts of 1 notebooks are as they were" in capsys.readouterr().out
    doctored = verify.load()
    doctored["01_tiny"]["figures"]["fig1"]["numbers"]["mean"] = 0.33334
    verify.REFERENCE.write_text(json.dumps(doctored))
    assert verify.run("01") == 1
    said = capsys.readouterr().out
    assert (
        "exact number: 01_tiny: fig1.mean is 0.333333333, the reference 0.33334; allowed: 0.33333"
        in said
    )
    assert "1 of kind exact number: no processor may change these" in said


def test_a_notebook_that_fails_is_named_and_keeps_its_reference(house, two_processors, capsys):
    verify._write({"01_tiny": REFERENCE, "09_gone": REFERENCE})
    notebook = nbformat.read(house / "nb" / "01_tiny.ipynb", 4)
    notebook.cells[1].source = "1 / 0"
    nbformat.write(notebook, house / "nb" / "01_tiny.ipynb")
    assert verify.run(update=True) == 1
    assert "failed: 01_tiny (native): its numbers were not compared" in capsys.readouterr().out
    assert verify.load() == {"01_tiny": REFERENCE}


MEASURED = {
    "figures": {
        "fig2": {"data": ["ab"], "numbers": {"summary": {"mean": [0.5, 0.75]}, "count": 3}},
        "fig3_bounds": {
            "data": ["ab"],
            "numbers": {
                "log10_delta": {"theorem 2.1": 5.2},
                "name": "none",
                "gap": 1e-26,
                "flag": True,
            },
        },
        "fig5": {
            "data": ["cd"],
            "numbers": {
                "rates": {
                    "mse": [0.1, 0.2],
                    "ssim": [0.5, 0.6],
                    "right": [True, False],
                    "images": [5, 5],
                },
                "labels": [{"labels": 0.5, "labels_low": 0.2, "labels_high": 0.8}],
            },
        },
    },
    "verdicts": {"lemma-6": "holds", "attack": "holds"},
}
REFERENCE = copy.deepcopy(MEASURED)
REFERENCE["figures"]["fig5"]["away"] = {"fig5.rates.mse": 0.15}
REFERENCE["verdicts"]["attack"] = ["holds", "cannot be checked"]

FIG5 = ("figures", "fig5", "numbers")
BOUNDS = ("figures", "fig3_bounds", "numbers")
CHANGES = {  # where, new value, its kind and what is said about it (nothing: allowed)
    "share within": (("figures", "fig2", "numbers", "summary", "mean", 1), 0.755, "", ""),
    "share beyond": (
        ("figures", "fig2", "numbers", "summary", "mean", 1),
        0.77,
        tolerances.SHARE,
        "fig2.summary.mean.1 is 0.77, the reference 0.75",
    ),
    "whole number": (
        ("figures", "fig2", "numbers", "count"),
        4,
        verify.EXACT,
        "fig2.count is 4, the reference 3; whole numbers must be equal",
    ),
    "rounding": ((*BOUNDS, "log10_delta", "theorem 2.1"), 5.2 + 1e-8, "", ""),
    "bound": (
        (*BOUNDS, "log10_delta", "theorem 2.1"),
        5.21,
        verify.EXACT,
        "fig3_bounds.log10_delta.theorem 2.1 is 5.21",
    ),
    "nearly zero": ((*BOUNDS, "gap"), 3e-20, "", ""),
    "word": (
        (*BOUNDS, "name"),
        "l1",
        verify.EXACT,
        "fig3_bounds.name is 'l1', the reference 'none'",
    ),
    "flag": (
        (*BOUNDS, "flag"),
        False,
        verify.EXACT,
        "fig3_bounds.flag is False, the reference True",
    ),
    "nothing": ((*BOUNDS, "gap"), None, verify.EXACT, "fig3_bounds.gap is None"),
    "twice as far as seen": ((*FIG5, "rates", "mse", 1), 0.49, "", ""),
    "further than seen": (
        (*FIG5, "rates", "mse", 1),
        0.51,
        verify.DEPENDENT,
        "fig5.rates.mse.1 is 0.51, the reference 0.2; allowed: -0.1 to 0.5 (where a search ends)",
    ),
    "one of twenty": ((*FIG5, "rates", "ssim", 0), 0.55, "", ""),
    "more than one of twenty": (
        (*FIG5, "rates", "ssim", 0),
        0.56,
        verify.DEPENDENT,
        "fig5.rates.ssim.0 is 0.56",
    ),
    "within its own interval": ((*FIG5, "labels", 0, "labels"), 0.79, "", ""),
    "an end within": ((*FIG5, "labels", 0, "labels_low"), 0.49, "", ""),
    "beyond its own interval": (
        (*FIG5, "labels", 0, "labels"),
        0.81,
        verify.DEPENDENT,
        "fig5.labels.0.labels is",
    ),
    "one search": ((*FIG5, "rates", "right", 0), False, "", ""),
    "number of searches": (
        (*FIG5, "rates", "images", 0),
        6,
        verify.EXACT,
        "fig5.rates.images.0 is 6",
    ),
    "data": (
        ("figures", "fig5", "data"),
        ["ef"],
        verify.DATA,
        "fig5 is of data ef, the reference of cd",
    ),
    "verdict": (
        ("verdicts", "lemma-6"),
        "does not hold",
        verify.VERDICT,
        "lemma-6 is 'does not hold', the reference 'holds'",
    ),
    "verdict of another processor": (("verdicts", "attack"), "cannot be checked", "", ""),
    "verdict of no processor": (
        ("verdicts", "attack"),
        "does not hold",
        verify.VERDICT,
        "attack is 'does not hold', the reference 'holds' or 'cannot be checked'",
    ),
    "new verdict": (("verdicts", "lemma-7"), "holds", verify.ABSENT, "verdict lemma-7 is new"),
    "new number": (("figures", "fig2", "numbers", "more"), 1.0, verify.ABSENT, "fig2.more is new"),
    "new figure": (("figures", "fig9"), {"data": [], "numbers": {}}, verify.ABSENT, "fig9 is new"),
    "shorter list": (
        ("figures", "fig2", "numbers", "summary", "mean"),
        [0.5],
        verify.ABSENT,
        "fig2.summary.mean.1 is missing",
    ),
}


def changed(place, value, entry=MEASURED):
    """Return a copy of a notebook's numbers with one of them changed."""
    copied = copy.deepcopy(entry)
    target = copied
    for key in place[:-1]:
        target = target[key]
    target[place[-1]] = value
    return copied


@pytest.mark.parametrize("name", CHANGES)
def test_each_kind_of_number_has_its_tolerance(name):
    place, value, kind, sentence = CHANGES[name]
    found = list(verify.differences("01_a", changed(place, value), REFERENCE))
    assert [difference.kind for difference in found] == [kind] * bool(kind)
    assert all(difference.sentence.startswith(f"01_a: {sentence}") for difference in found)


def test_numbers_of_other_data_are_not_compared():
    other = changed((*FIG5, "rates", "mse", 0), 99.0, changed(("figures", "fig5", "data"), ["ef"]))
    assert [found.kind for found in verify.differences("01_a", other, REFERENCE)] == [verify.DATA]


def test_every_kind_of_difference_says_what_to_do(capsys):
    verify._say([verify.Difference(kind, "words") for kind in verify.ADVICE for _ in range(4)])
    said = capsys.readouterr().out
    assert {kind for *_, kind, _ in CHANGES.values()} - {""} < set(verify.ADVICE)
    assert f"verify: {4 * len(verify.ADVICE)} differences, the first {verify.SHOWN} above" in said
    assert all(f"4 of kind {kind}: {advice}" in said for kind, advice in verify.ADVICE.items())


def test_intervals_come_from_other_processors_and_seeds():
    entry = copy.deepcopy(MEASURED)
    other = changed(
        (*FIG5, "rates", "mse", 0), 0.13, changed(("verdicts", "attack"), "cannot be checked")
    )
    seed = changed(
        (*FIG5, "rates", "mse", 1), 0.5, changed(("verdicts", "lemma-6"), "does not hold")
    )
    assert not list(verify.derive("01_a", entry, [{"01_a": other}, {}], [{"01_a": seed}]))
    away = entry["figures"]["fig5"][
        "away"
    ]  # a processor speaks for the column, a seed for its number
    assert away == {
        "fig5.rates.mse": pytest.approx(0.03, rel=0.01),
        "fig5.rates.mse.1": pytest.approx(0.3, rel=0.01),
    }
    assert away["fig5.rates.mse"] >= 0.03 and away["fig5.rates.mse.1"] >= 0.3
    assert entry["verdicts"] == {"lemma-6": "holds", "attack": ["holds", "cannot be checked"]}
    assert not list(verify.differences("01_a", other, entry))


def test_a_seed_says_nothing_about_numbers_that_are_not_searched():
    entry = {"figures": {"fig4": {"data": [], "numbers": {"mean": 0.5}}}, "verdicts": {}}
    seed = changed(("figures", "fig4", "numbers", "mean"), 0.9, entry)
    assert (
        not list(verify.derive("03_a", entry, [], [{"03_a": seed}]))
        and entry["figures"]["fig4"]["away"] == {}
    )
    list(verify.derive("03_a", entry, [{"03_a": seed}], []))
    assert set(entry["figures"]["fig4"]["away"]) == {"fig4.mean"}


def test_what_is_called_exact_and_depends_on_the_processor_is_found():
    entry, other = copy.deepcopy(MEASURED), changed((*BOUNDS, "log10_delta", "theorem 2.1"), 5.3)
    (found,) = verify.derive("01_a", entry, [{"01_a": other}], [])
    assert found.kind == verify.EXACT and found.sentence.startswith(
        "it depends on the processor: fig3_bounds.log10_delta"
    )


def test_data_that_depend_on_the_processor_are_found_and_those_of_another_seed_may_differ():
    entry, other = copy.deepcopy(MEASURED), changed(("figures", "fig5", "data"), ["ef"])
    (found,) = verify.derive("01_a", entry, [{"01_a": other}], [])
    assert found == (verify.DATA, "01_a: the data of fig5 depend on the processor")
    assert not list(verify.derive("01_a", entry, [], [{"01_a": other}]))


def test_a_new_notebook_asks_for_a_reference():
    (found,) = verify.differences("03_new", MEASURED, None)
    assert found.kind == verify.ABSENT
    assert (
        found.sentence == "03_new: there is no reference; `make verify UPDATE=1 NB=03` writes one"
    )
    nothing = verify._nothing()
    assert {found.kind for found in verify.differences("03_new", nothing, REFERENCE)} == {
        verify.ABSENT
    }


def test_the_written_reference_reads_back(tmp_path, monkeypatch):
    monkeypatch.setattr(verify, "REFERENCE", tmp_path / "smoke.json")
    verify._write({"01_a": REFERENCE, "02_b": MEASURED})
    assert verify.load() == {"01_a": REFERENCE, "02_b": MEASURED}


def test_the_committed_reference_is_whole():
    reference = verify.load()
    assert set(reference) <= {path.stem for path in batch.notebooks()}
    for notebook, entry in reference.items():
        given = {
            key: verdicts if isinstance(verdicts, list) else [verdicts]
            for key, verdicts in entry["verdicts"].items()
        }
        assert entry["figures"] and {
            verdict for several in given.values() for verdict in several
        } <= set(claims.VERDICTS)
        again = {**entry, "verdicts": {key: several[0] for key, several in given.items()}}
        assert not list(verify.differences(notebook, again, entry))
