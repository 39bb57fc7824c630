"""What a folder of figures holds, read once: claims, figures with their records, runs, choices."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
import yaml

from companion import promises as made
from companion.claims import VERDICTS, Claim, load
from companion.publish.report import provenance

KNOWN = yaml.safe_load(Path(__file__).with_name("figures.yaml").read_text(encoding="utf-8"))
CAPTIONS, OURS = KNOWN["paper"], KNOWN["ours"]
Table = dict[str, list] | list[dict]
SPELLINGS = {"mnist": "MNIST", "idlg": "iDLG", "eeg": "EEG"}


@dataclass(frozen=True)
class Figure:
    """A figure on disk: its picture, the notebook that draws it, and its record."""

    name: str
    path: Path
    notebook: str
    params: dict
    data: list[dict]
    numbers: dict

    @property
    def label(self) -> str:
        """Return how a reader would call it: Fig. 2, or Fig. 2, limits."""
        return f"Fig. {self.name[3:].replace('_', ', ', 1).replace('_', ' ')}"

    @property
    def caption(self) -> str:
        """Return the paper's caption where it has one, else the heading in our notebook."""
        plain = self.name.partition("_")[2].replace("_", " ").capitalize() or self.name
        return CAPTIONS.get(self.name, {"caption": OURS.get(self.name, plain)})["caption"]

    @property
    def stand_ins(self) -> set[str]:
        """Return the names of the data that are not the real ones."""
        return {record["name"] for record in self.data if record["kind"] != "real"}


@dataclass(frozen=True)
class Notebook:
    """One notebook: its name, its question, and the record of its last run (empty: none)."""

    name: str
    title: str
    run: dict
    executed: bool

    @property
    def topic(self) -> str:
        """Return its number and name in words, for a list of links."""
        first, *rest = (SPELLINGS.get(word, word) for word in self.name[3:].split("_"))
        return " ".join([f"{int(self.name[:2])}.", first[0].upper() + first[1:], *rest])


@dataclass(frozen=True)
class Found:
    """Everything that the report shows."""

    folder: Path
    notebooks: list[Notebook]
    claims: list[Claim]
    figures: list[Figure]
    choices: str
    promises: list[made.Promise] = field(default_factory=list)

    @property
    def executed(self) -> list[Path]:
        """Return the executed notebooks in the folder."""
        return sorted((self.folder / "notebooks").glob("*.ipynb"))

    def figure(self, name: str) -> Figure:
        """Return a figure; KeyError when it is not here."""
        return {figure.name: figure for figure in self.figures}[name]

    def claim(self, key: str) -> Claim:
        """Return a claim; KeyError when it is not here."""
        return {claim.key: claim for claim in self.claims}[key]

    def counts(self, ours: bool) -> dict[str, int]:
        """Return how often each verdict was given, on the paper's claims or on our own."""
        given = Counter(claim.verdict for claim in self.claims if claim.ours_to_prove == ours)
        return {verdict: given[verdict] for verdict in VERDICTS}

    def carried(self, notebook: str) -> list[tuple[Figure | None, list[Claim]]]:
        """Return a notebook's figures with the claims that each carries, and with those of none.

        The latter stand beside the first figure when it has none of its own, else before it.
        """
        own: dict[str, list] = {}
        for claim in (claim for claim in self.claims if claim.notebook == notebook):
            own.setdefault(claim.figure, []).append(claim)
        here = [figure for figure in self.figures if figure.notebook == notebook]
        shown = [(figure, own.pop(figure.name, [])) for figure in here]
        loose = [claim for rows in own.values() for claim in rows]
        if loose and shown and not shown[0][1]:
            return [(shown[0][0], loose), *shown[1:]]
        return [(None, loose), *shown]

    def stand_ins(self, claim: Claim) -> list[str]:
        """Return the stand-in data that a verdict rests on: its figure's, or its notebook's."""
        near = [figure for figure in self.figures if figure.notebook == claim.notebook]
        exact = [figure for figure in near if figure.name == claim.figure]
        return sorted(set().union(*(figure.stand_ins for figure in exact or near)))

    def verdict(self, claim: Claim) -> str:
        """Return the verdict with its condition, and with a warning where data are stand-ins."""
        names = ", ".join(self.stand_ins(claim))
        return claim.sentence + (f", on stand-in data ({names})" if names else "")

    def profile(self, notebook: str | None = None) -> str:
        """Return the profile that the figures, or a notebook's, were made at, as they say."""
        own = (figure.params for figure in self.figures if notebook in (None, figure.notebook))
        names = sorted({params.get("profile", "") for params in own} - {""})
        return " and ".join(names) or ("not run" if notebook else "unknown")

    def command(self, notebook: str) -> str:
        """Return the command that makes a notebook's verdicts and figures again."""
        profile = self.profile(notebook)
        size = "" if profile in ("default", "not run") else f" PROFILE={profile}"
        return f"make figures NB={notebook[:2]}{size}"

    def data(self) -> dict[str, tuple[dict, list[str]]]:
        """Return every data set by its hash, with the figures of the paper that it is used for."""
        used: dict[str, tuple[dict, list[str]]] = {}
        for figure in self.figures:
            for record in figure.data:
                labels = used.setdefault(record["sha256"], (record, []))[1]
                labels.append(figure.label.partition(",")[0])
        return used


def rows(table: Table) -> list[dict]:
    """Return the rows of a table in a record, which may be one by its columns."""
    if not isinstance(table, dict):
        return list(table)
    return [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]


def gather(folder: Path, root: Path) -> Found:
    """Return what is in a folder of figures; notebooks and documents are the project's."""
    places = sorted((root / "notebooks").glob("[0-9]*.ipynb"))
    contents = {place.stem: nbformat.read(place, as_version=4) for place in places}
    paths = [path for path in folder.glob("fig*.json") if path.with_suffix(".png").exists()]
    choices, runs = root / "docs" / "silent_choices.md", provenance.load(folder)
    executed = {path.stem for path in (folder / "notebooks").glob("*.ipynb")}
    return Found(
        folder=folder,
        notebooks=[
            Notebook(name, _title(text, name), runs.get(name, {}), name in executed)
            for name, text in contents.items()
        ],
        claims=[claim for claim in load(folder) if claim.notebook in contents],
        figures=[_figure(path) for path in sorted(paths, key=lambda path: path.stem)],
        choices=choices.read_text("utf-8").partition("\n")[2].strip() if choices.exists() else "",
        promises=made.load(folder),
    )


def _figure(path: Path) -> Figure:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        name, notebook, data = record["figure"], record["notebook"], list(record["data"])
        params, numbers = record["params"], record["numbers"]
    except (ValueError, KeyError, TypeError) as error:
        problem = f"{type(error).__name__}: {error}"
        raise ValueError(f"{path.name} is not the record of a figure ({problem})") from None
    return Figure(name, path.with_suffix(".png"), notebook, params, data, numbers)


def _title(notebook: nbformat.NotebookNode, otherwise: str) -> str:
    """Return the first heading, without its number."""
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    found = re.search(r"(?m)^# (?:\d+\.\s*)?(.+)$", text)
    return found[1].strip() if found else otherwise
