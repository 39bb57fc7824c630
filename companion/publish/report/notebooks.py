"""Executed notebooks as pages that need no network: code folded, pictures inside."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Sequence
from pathlib import Path

import nbformat
from markupsafe import Markup
from pygments.formatters import HtmlFormatter

from companion.publish.report import gather, markup, pictures

WIDTH = 1100  # of a picture, in pixels
REPORT = ("../report.html", "Report")
KINDS = ("image/png", "text/html", "text/markdown", "text/plain")  # of an output the first it has
SCRIPTED = {"application/javascript", "application/vnd.jupyter.widget-view+json"}
LIGHT, DARK = (
    HtmlFormatter(style=name).get_style_defs(".highlight") for name in ("default", "github-dark")
)
CODE_STYLE = Markup(f"{LIGHT}\n@media screen and (prefers-color-scheme: dark) {{\n{DARK}\n}}")


def render(path: Path, found: gather.Found, elsewhere: Sequence[tuple[str, str]] = ()) -> str:
    """Return an executed notebook as a page that lies beside it; `elsewhere` ends its menu."""
    notebook = nbformat.read(path, as_version=4)
    pages = [(f"{other.name}.html", other.topic) for other in found.notebooks if other.executed]
    titles = {other.name: other.title for other in found.notebooks}
    cells = map(_cell, notebook.cells, _headings(notebook))
    return markup.environment.get_template("notebook.html").render(
        title=titles.get(path.stem, path.stem),
        menu=[REPORT, *pages, *elsewhere],
        cells=list(cells),
        code_style=CODE_STYLE,
    )


def _headings(notebook: nbformat.NotebookNode) -> list[str]:
    """Return, for every cell, the last heading at or above it, as plain words."""
    heading, found = "", []
    for cell in notebook.cells:
        lines = re.findall(r"(?m)^#+ (.+)$", cell.source) if cell.cell_type == "markdown" else []
        heading = re.sub(r"[$`*]", "", lines[-1]).strip() if lines else heading
        found.append(heading)
    return found


def _deeper(link: str) -> str:
    """Return a link of a notebook in notebooks/ as it is one folder deeper; notebooks are pages."""
    if re.fullmatch(r"\w+\.ipynb", link):
        return link.replace(".ipynb", ".html")
    return f"../{link}" if link.startswith("../") else link


def _cell(cell: nbformat.NotebookNode, heading: str) -> dict:
    """Return a cell as the template wants it: words, or code with its outputs."""
    if cell.cell_type != "code":
        return {"text": Markup(markup.relink(markup.markdown(cell.source), _deeper))}
    outputs = list(filter(None, (_output(output, heading) for output in cell.outputs)))
    code = Markup(markup.Renderer().block_code(cell.source, "python"))
    return {"code": code, "lines": len(cell.source.splitlines()), "outputs": outputs}


def _output(output: nbformat.NotebookNode, heading: str) -> str:
    """Return an output as HTML; nothing for what only a script could show."""
    data = output.get("data", {})
    kind = next((kind for kind in KINDS if kind in data), "")
    if kind == "image/png":
        small = pictures.data_uri(pictures.shrink(base64.b64decode(data[kind]), WIDTH))
        return Markup('<img src="{}" alt="Picture of the section “{}”">').format(small, heading)
    if SCRIPTED & set(data):
        return ""
    if kind == "text/markdown":
        return markup.markdown(data[kind])
    if kind == "text/html":
        return _table(data[kind])
    text = data[kind] if kind else output.get("text", "\n".join(output.get("traceback", [])))
    return Markup("<pre>{}</pre>").format(re.sub(r"\x1b\[[\d;]*m", "", text)) if text else ""


def _table(text: str) -> Markup:
    """Return an HTML output without scripts; a table without row heads as words in cards."""
    kept = re.sub(r"(?s)<(script|style)\b.*?</\1>", "", text)
    if not kept.startswith("<table") or "<th" in kept.partition("<tbody")[2]:
        return markup.box(kept, "Table")
    cell = re.compile(r"(<(?:td|b)\b[^>]*>)([^<]+)(?=<)")
    worded = cell.sub(lambda found: found[1] + markup.words(html.unescape(found[2])), kept)
    return markup.cards(worded)
