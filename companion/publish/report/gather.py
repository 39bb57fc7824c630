"""What a folder of figures holds, read once: claims, figures with their records, runs, and where the paper is silent."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import nbformat

from companion import claims
from companion.publish.report import provenance

PAPER_FIGURES = {  # the paper's captions, and the notebook that redraws each
    "fig1": ("Topology structure of the directed graph", "01"),
    "fig2": ("Comparison of the prediction accuracy of Algorithm 1 with and without quantization", "01"),
    "fig3": ("Comparison of the maximum δⁱ under different quantization stepsizes", "02"),
    "fig4": ("Comparison of the training and testing accuracy of Algorithm 1 with and without quantization", "03"),
    "fig5": ("Comparison of iDLG attacker's image inference results under D-PSGD algorithm and our algorithm", "03"),
    "fig6": ("Comparison of the cross-subject classification accuracy of Algorithm 1 with and without quantization", "04"),
    "fig7": ("Comparison of iDLG attacker's EEG inference results under D-PSGD algorithm and our algorithm", "04"),
}


@dataclass(frozen=True)
class Figure:
    """A figure on disk: its picture, the notebook and heading it stands under, and its record."""

    name: str
    path: Path
    notebook: str
    heading: str
    params: dict
    data: tuple[dict, ...]

    @property
    def label(self) -> str:
        """Return how a reader would call it: Fig. 2, or Fig. 2: limits."""
        number, _, rest = self.name.removeprefix("fig").partition("_")
        return f"Fig. {number}" + (f", {rest.replace('_', ' ')}" if rest else "")

    @property
    def caption(self) -> str:
        """Return what it shows, in a sentence: the paper's caption where it has one, else the heading in our notebook."""
        return PAPER_FIGURES[self.name][0] if self.name in PAPER_FIGURES else self.heading


@dataclass(frozen=True)
class Notebook:
    """One notebook of the project: its name, its question, and the record of its last run (empty: not recorded)."""

    name: str
    title: str
    run: dict
    executed: bool

    @property
    def number(self) -> str:
        return self.name[:2]


@dataclass(frozen=True)
class Found:
    """Everything that the report shows."""

    folder: Path
    notebooks: tuple[Notebook, ...]
    claims: tuple[claims.Claim, ...]
    figures: tuple[Figure, ...]
    choices: str

    @property
    def executed(self) -> list[Path]:
        """Return the executed notebooks in the folder."""
        return sorted((self.folder / "notebooks").glob("*.ipynb"))

    @property
    def missing(self) -> list[str]:
        """Return those of the paper's figures that are not here."""
        here = {figure.name for figure in self.figures}
        return [name for name in PAPER_FIGURES if name not in here]

    def counts(self, ours: bool) -> dict[str, int]:
        """Return how often each verdict was given, on the paper's claims or on our own."""
        given = Counter(claim.verdict for claim in self.claims if claim.ours_to_prove == ours)
        return {verdict: given[verdict] for verdict in claims.VERDICTS}

    def profile(self, notebook: str) -> str:
        """Return the profile that a notebook's figures were made at, as they themselves say."""
        named = {figure.params.get("profile", "") for figure in self.figures if figure.notebook == notebook} - {""}
        return " and ".join(sorted(named)) or "not run"

    def command(self, notebook: str) -> str:
        """Return the command that makes a notebook's rows and figures again."""
        profile = self.profile(notebook)
        return f"make figures NB={notebook[:2]}" + ("" if profile in ("default", "not run") else f" PROFILE={profile}")

    def data(self) -> dict[str, tuple[dict, list[str]]]:
        """Return every data set by its hash, with the labels of the figures made from it."""
        used: dict[str, tuple[dict, list[str]]] = {}
        for figure in self.figures:
            for record in figure.data:
                used.setdefault(record["sha256"], (record, []))[1].append(figure.label)
        return used


def gather(folder: Path, root: Path) -> Found:
    """Return what is in a folder of figures; notebooks and documents are the project's."""
    runs, places = provenance.load(folder), sorted((root / "notebooks").glob("[0-9]*.ipynb"))
    headings: dict[str, str] = {}
    notebooks = []
    for place in places:
        content = nbformat.read(place, as_version=4)
        headings |= _headings(content)
        executed = (folder / "notebooks" / place.name).exists()
        notebooks.append(Notebook(place.stem, _title(content, place.stem), runs.get(place.stem, {}), executed))
    records = [_figure(path, headings) for path in folder.glob("fig*.json") if path.with_suffix(".png").exists()]
    choices = root / "docs" / "silent_choices.md"
    return Found(
        folder=folder,
        notebooks=tuple(notebooks),
        claims=tuple(claim for claim in claims.load(folder) if claim.notebook in {place.stem for place in places}),
        figures=tuple(sorted(records, key=lambda figure: _order(figure.name))),
        choices=choices.read_text(encoding="utf-8").partition("\n")[2].strip() if choices.exists() else "",
    )


def _figure(path: Path, headings: dict[str, str]) -> Figure:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        name, data = record["figure"], tuple(record["data"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path.name} is not the record of a figure ({type(error).__name__}: {error})") from None
    return Figure(
        name=name,
        path=path.with_suffix(".png"),
        notebook=record.get("notebook", ""),
        heading=headings.get(name, name),
        params=record.get("params", {}),
        data=data,
    )


def _order(name: str) -> tuple[int, str]:
    number = re.match(r"fig(\d+)", name)
    return (int(number[1]) if number else 99, name)


def _title(notebook: nbformat.NotebookNode, otherwise: str) -> str:
    """Return the first heading, without its number."""
    found = re.search(r"(?m)^# (?:\d+\.\s*)?(.+)$", "\n".join(c.source for c in notebook.cells if c.cell_type == "markdown"))
    return found[1].strip() if found else otherwise


def headings_by_cell(notebook: nbformat.NotebookNode) -> list[str]:
    """Return, for every cell, the last heading at or above it, as plain words."""
    heading, found = "", []
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and (lines := re.findall(r"(?m)^#+ (.+)$", cell.source)):
            heading = re.sub(r"[$`*]", "", lines[-1]).strip()
        found.append(heading)
    return found


def _headings(notebook: nbformat.NotebookNode) -> dict[str, str]:
    """Return, for every figure that a notebook saves, the heading it stands under."""
    found: dict[str, str] = {}
    for cell, heading in zip(notebook.cells, headings_by_cell(notebook), strict=True):
        if cell.cell_type == "code":
            found |= dict.fromkeys(re.findall(r"[\"'](fig\d\w*)[\"']", cell.source), heading)
    return found
