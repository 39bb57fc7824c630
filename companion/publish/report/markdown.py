"""The report as Markdown, and the parts of the README that are made from results."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

from companion.claims import VERDICTS, Claim
from companion.publish.report.gather import PAPER_FIGURES, Figure, Found
from companion.publish.report.page import TITLE, duration, provenance_rows


def render(found: Found) -> str:
    """Return report.md."""
    parts = [f"# {TITLE}", "The same as [report.html](report.html), as text.", counts(found), "## Verdicts"]
    for notebook in found.notebooks:
        rows = [claim for claim in found.claims if claim.notebook == notebook.name]
        parts.append(f"### {notebook.number}. {notebook.title}")
        command = found.command(notebook.name)
        parts.append(f"Made again by `{command}`." if rows else f"Not run yet: `{command}` gives its verdicts.")
        if rows:
            parts.append(_table(("claim", "paper", "ours", "verdict", "why", "figure"), [_cells(claim) for claim in rows]))
    parts += ["## Figures", *_figures(found)]
    if found.choices:
        parts += ["## Where the paper is silent, and what we chose", found.choices]
    return "\n\n".join([*parts, "## Data", _data(found), "## How this was made", _table(*provenance_rows(found))]) + "\n"


def refresh(readme: str, found: Found) -> str:
    """Return the README with its made parts renewed: everything between `<!-- name: ... -->` and `<!-- end of name -->`."""
    made = {"times": times, "gallery": gallery, "verdicts": verdicts, "notebooks": notebooks}
    for name, make in made.items():
        begin, end = f"<!-- {name}: written by make report -->\n", f"<!-- end of {name} -->"
        before, mark, rest = readme.partition(begin)
        if mark and end in rest:
            readme = f"{before}{begin}{make(found)}\n{end}{rest.partition(end)[2]}"
    return readme


def counts(found: Found) -> str:
    """Return one sentence for the paper's claims, and one for ours."""
    sentences = []
    for ours, whose in ((False, "Verdicts on the paper's claims"), (True, "On statements of our own, beyond the paper")):
        given = found.counts(ours)
        if any(given.values()):
            sentences.append(
                f"{whose}: " + ", ".join(f"{verdict} {given[verdict]}" for verdict in VERDICTS if given[verdict]) + "."
            )
    return " ".join(sentences) or "No verdicts yet."


def verdicts(found: Found) -> str:
    """Return the README's table: claim, the paper's number, ours, verdict."""
    rows = [(claim.where, _quoted(claim), claim.paper, claim.ours, f"**{claim.sentence}**") for claim in found.claims]
    profiles = ", ".join(f"notebook {n.number}: {found.profile(n.name)}" for n in found.notebooks)
    note = f"{counts(found)} Profiles: {profiles}. Reasons and figures: [figures/report.md](figures/report.md)."
    return "\n\n".join([note, _table(("where", "claim", "paper", "ours", "verdict"), rows)])


def gallery(found: Found) -> str:
    """Return the paper's figures, redrawn: those that are here."""
    here = [figure for figure in found.figures if figure.name in PAPER_FIGURES]
    return "\n".join(_thumbnail(figure) for figure in here) or "No figures yet."


def _thumbnail(figure: Figure) -> str:
    image = f'<img src="figures/{figure.name}.png" alt="{figure.label}: {escape(figure.caption)}" width="49%">'
    return f'<a href="figures/{figure.name}.svg">{image}</a>'


def times(found: Found) -> str:
    """Return how long each notebook took when its figures were made."""
    rows = []
    for notebook in found.notebooks:
        run = notebook.run
        if not run:
            profile = found.profile(notebook.name)
            rows.append((notebook.name, profile, "" if profile == "not run" else "not recorded", ""))
            continue
        share = f" ({run['reused']} of {run['shards']} shards had been computed before)" if run["reused"] else ""
        rows.append((notebook.name, run["profile"], duration(run["seconds"]) + share, f"{run['cores']} cores"))
    return _table(("notebook", "profile", "wall time", "on"), rows)


def notebooks(found: Found) -> str:
    """Return the list of notebooks: their questions, and what each decides."""
    lines = []
    for notebook in found.notebooks:
        own = [f"Fig. {name[3:]}" for name, (_, number) in PAPER_FIGURES.items() if number == notebook.number]
        decided = sum(claim.notebook == notebook.name for claim in found.claims)
        executed = f", [executed](figures/notebooks/{notebook.name}.ipynb)" if notebook.executed else ""
        place = f"notebooks/{notebook.name}.ipynb"
        lines.append(f"{int(notebook.number)}. [{notebook.title}]({place}) {' and '.join(own)}, {decided} verdicts{executed}.")
    return "\n".join(lines)


def _quoted(claim: Claim) -> str:
    return f"(ours) {claim.words}" if claim.ours_to_prove else f"“{claim.words}”"


def _cells(claim: Claim) -> tuple[str, ...]:
    figure = f"[{claim.figure}](#{claim.figure})" if claim.figure else ""
    return (f"{claim.where}: {_quoted(claim)}", claim.paper, claim.ours, f"**{claim.sentence}**", claim.reason, figure)


def _figures(found: Found) -> Iterable[str]:
    for figure in found.figures:
        picture = f"![{figure.label}: {figure.caption}]({figure.name}.png)"
        yield f'<a id="{figure.name}"></a>\n\n**{figure.label}.** {figure.caption}\n\n{picture}'
    for name in found.missing:
        yield f"**Fig. {name[3:]}** ({PAPER_FIGURES[name][0]}): not here."


def _data(found: Found) -> str:
    rows = [
        (record["name"], record["kind"], record.get("source", ""), record.get("licence", ""), f"`{digest}`")
        for digest, (record, _) in found.data().items()
    ]
    return _table(("data", "kind", "source", "licence", "sha256 of the content"), rows)


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *([_escaped(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _escaped(cell: str) -> str:
    """Return a cell whose bars and stars mean themselves."""
    bold = cell.startswith("**") and cell.endswith("**")
    text = cell[2:-2] if bold else cell
    text = re.sub(r"\s+", " ", text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;"))
    text = text if text.startswith(("[", "`")) else re.sub(r"([*$]|(?<!\w)_|_(?!\w))", r"\\\1", text)
    return f"**{text}**" if bold else text
