"""The report as one page that carries everything it shows: verdicts, figures, silences of the paper, data, provenance."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from companion.claims import Claim
from companion.publish.report import markup, pictures
from companion.publish.report.gather import PAPER_FIGURES, Figure, Found, Notebook

TITLE = "Local differential privacy via dynamic quantization: what holds"
PICTURE_BYTES = 2_150_000  # of base64, so that the page stays below 2.5 MB
ON_SCREEN = 0.6  # of a pixel of the saved picture, at 200 to the inch: text in it is then as large as around it
WIDTHS = {True: 1300, False: 1000}  # of the paper's own figures, and of the others


COLUMNS = {"claim": 22, "paper": 11, "ours": 24, "verdict": 24, "figure": 9, "redo": 10}  # and their widths in percent


def render(found: Found) -> str:
    """Return the page."""
    sections = [_head(found), _verdicts(found), _figures(found), _choices(found), _data(found), _provenance(found)]
    return markup.document(TITLE, "\n".join(sections))


def _head(found: Found) -> str:
    paper, ours = (_counts(found.counts(ours)) for ours in (False, True))
    extra = f"<p>On statements of our own, beyond the paper:</p>{ours}" if any(found.counts(True).values()) else ""
    here = [(name, text) for name, text in SECTIONS if name != "choices" or found.choices]
    links = "".join(f'<a href="#{name}">{text}</a>' for name, text in here)
    return (
        f"<h1>{TITLE}</h1>\n<p>Zhang, Kui, Ma and Wu, “Local Differential Privacy via Dynamic Quantization in Distributed "
        "Online Stochastic Optimization”: its claims, its figures redrawn, and a verdict on each. Every number on this page "
        f"was computed by the notebooks.</p>\n<nav>{links}</nav>\n<p>Verdicts on the paper's claims:</p>{paper}{extra}"
    )


SECTIONS = (("verdicts", "Verdicts"), ("figures", "Figures"), ("choices", "Where the paper is silent"), ("data", "Data"),
            ("provenance", "How this was made"))  # fmt: skip


def _counts(counts: dict[str, int]) -> str:
    rows = (
        f'<li class="{markup.VERDICT_CLASSES[verdict]}"><b>{number}</b>{markup.VERDICT_SIGNS[verdict]} {verdict}</li>'
        for verdict, number in counts.items()
    )
    return f'<ul class="counts">{"".join(rows)}</ul>'


def _verdicts(found: Found) -> str:
    parts = ['<h2 id="verdicts">Verdicts</h2>']
    shown = {figure.name: figure for figure in found.figures}
    for notebook in found.notebooks:
        rows = [claim for claim in found.claims if claim.notebook == notebook.name]
        parts.append(_heading(notebook))
        if not rows:
            parts.append(f"<p>Not run yet: <code>{found.command(notebook.name)}</code> gives its verdicts.</p>")
            continue
        head = "".join(f'<th scope="col">{title}</th>' for title in COLUMNS)
        widths = "".join(f'<col style="width:{share}%">' for share in COLUMNS.values())
        body = "\n".join(_row(claim, shown.get(claim.figure), found.command(notebook.name)) for claim in rows)
        parts.append(
            f'<div class="scroll"><table class="cards verdicts"><colgroup>{widths}</colgroup><thead><tr>{head}</tr></thead>'
            f"<tbody>\n{body}\n</tbody></table></div>"
        )
    return "\n".join(parts)


def _heading(notebook: Notebook) -> str:
    page = f' <a href="notebooks/{notebook.name}.html">(notebook, executed)</a>' if notebook.executed else ""
    return f'<h3 id="{notebook.name}">{notebook.number}. {escape(notebook.title)}{page}</h3>'


def _row(claim: Claim, figure: Figure | None, command: str) -> str:
    words = _words(claim.words) if claim.ours_to_prove else f"“{_words(claim.words)}”"
    place = escape(claim.where) + (" (ours)" if claim.ours_to_prove else "")
    verdict = (
        f'<div class="verdict {markup.VERDICT_CLASSES[claim.verdict]}">{markup.VERDICT_SIGNS[claim.verdict]} '
        f"{_words(claim.sentence)}</div><p>{_words(claim.reason)}</p>"
    )
    cells = {
        "claim": f'<b><a href="#claim-{claim.key}">{place}</a></b><br>{words}',
        "paper": _words(claim.paper),
        "ours": _words(claim.ours).replace("; ", ";<br>"),
        "verdict": verdict,
        "figure": f'<a href="#{figure.name}">{figure.label}</a>' if figure else "",
        "redo": f"<code>{command}</code>",
    }
    body = "".join(f'<td data-name="{name}">{cell}</td>' if cell else "<td></td>" for name, cell in cells.items())
    return f'<tr id="claim-{claim.key}">{body}</tr>'


def _words(text: str) -> str:
    """Return plain words as HTML, with `code` as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))


def _figures(found: Found) -> str:
    widths = [WIDTHS[figure.name in PAPER_FIGURES] for figure in found.figures]
    addresses = pictures.embed([figure.path for figure in found.figures], widths, PICTURE_BYTES)
    images = dict(zip((figure.name for figure in found.figures), addresses, strict=True))
    parts = ['<h2 id="figures">Figures</h2>']
    for name, (caption, number) in PAPER_FIGURES.items():
        own = [figure for figure in found.figures if figure.name.split("_")[0] == name]
        if name in found.missing:
            parts.append(_placeholder(found, name, caption, number))
        parts += [_figure(figure, images[figure.name]) for figure in own]
    others = [figure for figure in found.figures if figure.name.split("_")[0] not in PAPER_FIGURES]
    return "\n".join([*parts, *(_figure(figure, images[figure.name]) for figure in others)])


def _placeholder(found: Found, name: str, caption: str, number: str) -> str:
    exists = any(notebook.number == number for notebook in found.notebooks)
    advice = f"<code>make figures NB={number}</code> makes it." if exists else "Its notebook is not part of this version."
    return f'<p id="{name}" class="soft"><b>Fig. {name[3:]}</b> ({escape(caption)}): not here. {advice}</p>'


def _figure(figure: Figure, address: str) -> str:
    stand_ins = sorted({data["name"] for data in figure.data if data["kind"] != "real"})
    warning = f" Made from stand-in data: {escape(', '.join(stand_ins))}." if stand_ins else ""
    words = (
        f"<b>{figure.label}.</b> {escape(figure.caption)}. From notebook {figure.notebook[:2]}, “{escape(figure.heading)}”, "
        f'profile {escape(str(figure.params.get("profile", "unknown")))}.{warning} <a href="{figure.name}.svg">Vector</a>, '
        f'<a href="{figure.name}.json">numbers</a>.'
    )
    width = round(pictures.size(figure.path.read_bytes())[0] * ON_SCREEN)
    image = f'<img src="{address}" width="{width}" alt="{figure.label}: {escape(figure.caption)}">'
    return f'<figure id="{figure.name}">{image}<figcaption>{words}</figcaption></figure>'


def _choices(found: Found) -> str:
    if not found.choices:
        return ""
    return f'<h2 id="choices">Where the paper is silent, and what we chose</h2>\n{markup.markdown(found.choices)}'


def _data(found: Found) -> str:
    titles = ("data", "kind", "source", "version", "licence", "sha256 of the content", "figures")
    rows = [
        (
            record["name"] + (f" ({record['part']})" if record.get("part") else ""),
            record["kind"],
            record.get("source", ""),
            record.get("version", ""),
            record.get("licence", ""),
            digest,
            ", ".join(dict.fromkeys(label.split(",")[0] for label in labels)),
        )
        for digest, (record, labels) in found.data().items()
    ]
    return f'<h2 id="data">Data</h2>\n{_table(titles, rows)}'


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(title)}</th>' for title in titles)
    body = "\n".join(
        "<tr>" + "".join(_cell(title, cell) for title, cell in zip(titles, row, strict=True)) + "</tr>" for row in rows
    )
    return f'<div class="scroll"><table class="cards"><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>'


def _cell(title: str, cell: str) -> str:
    long = ' class="hash"' if title.startswith(("sha256", "commit")) else ""
    return f'<td data-name="{escape(title)}"{long}>{escape(cell)}</td>' if cell else "<td></td>"


def provenance_rows(found: Found) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the titles and rows of the table that says how each notebook was run."""
    titles = ("notebook", "profile", "seed", "wall time", "shards", "finished", "commit", "system")
    return titles, [_run(notebook, found) for notebook in found.notebooks]


def _run(notebook: Notebook, found: Found) -> tuple[str, ...]:
    run, profile = notebook.run, found.profile(notebook.name)
    if not run:
        return (notebook.name, profile, "", "" if profile == "not run" else "not recorded", "", "", "", "")
    reused = f", {run['reused']} of them computed earlier" if run["reused"] else ""
    return (
        notebook.name,
        run["profile"],
        str(run["seed"]),
        duration(run["seconds"]),
        f"{run['shards']}{reused}",
        run["finished"],
        (run["commit"][:12] or "no checkout") + (", changed files" if run["changed"] else ""),
        f"Python {run['python']}, {run['system']}, {run['cores']} cores",
    )


def duration(seconds: float) -> str:
    """Return a time as people say it."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 100 * 60 else f"{seconds / 3600:.1f} h"


def _provenance(found: Found) -> str:
    versions = {tuple(sorted(notebook.run["packages"].items())) for notebook in found.notebooks if notebook.run}
    texts = [", ".join(f"{name} {version}" for name, version in pins) for pins in sorted(versions)]
    lists = "".join(f"<details><summary>Packages</summary><p>{escape(text)}</p></details>" for text in texts)
    return (
        f'<h2 id="provenance">How this was made</h2>\n{_table(*provenance_rows(found))}\n'
        "<p>A commit is that of the code that ran; “changed files” means that it ran with edits on top of it. Every package is "
        f"pinned in <code>requirements.txt</code>.</p>\n{lists}"
    )
