"""Executed notebooks as pages that need no network: formulas as MathML, pictures inside, no script."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import nbformat
from jinja2 import pass_context
from nbconvert.exporters import HTMLExporter
from nbconvert.filters.markdown_mistune import MarkdownWithMath
from pygments.formatters import HtmlFormatter

from companion import files
from companion.publish.report import gather, markup, pictures

WIDTH = 1100  # of a picture, in pixels
STYLE = """
.prompt { display: none; } .input_area pre, .highlight pre { margin: .4rem 0; } .output_subarea { overflow-x: auto; }
.output_subarea table { font-size: .85rem; } .text_cell_render h1 { font-size: 1.6rem; } .anchor-link { display: none; }
.output_subarea pre { background: none; padding: 0 0 0 .8rem; }
"""


class Renderer(markup.Renderer):
    """Renders the cells of a notebook from notebooks/ on a page that lies one folder deeper."""

    def link(self, text: str, url: str, title: str | None = None) -> str:
        """Return a link, corrected for where the page lies; other notebooks are pages too."""
        if url.startswith("../"):
            url = f"../{url}"
        elif re.fullmatch(r"\w+\.ipynb", url):
            url = url.replace(".ipynb", ".html")
        return super().link(text, url, title)


class Exporter(HTMLExporter):
    """nbconvert's plain pages, with formulas as MathML."""

    @pass_context
    def markdown2html(self, context, source):
        """Return a Markdown cell or output as HTML."""
        attachments = context.get("cell", {}).get("attachments", {})
        renderer = Renderer(escape=False, attachments=attachments, anchor_link_text="")
        return MarkdownWithMath(renderer=renderer).render(source)


def write(path: Path, found: gather.Found) -> Path:
    """Write an executed notebook's page beside it, and return its path."""
    place = path.with_suffix(".html")
    text = page(nbformat.read(path, as_version=4), path.stem, found)
    files.write(place, lambda file: file.write(text.encode()))
    return place


def page(notebook: nbformat.NotebookNode, name: str, found: gather.Found) -> str:
    """Return an executed notebook as a page."""
    headings = gather.headings_by_cell(notebook)
    for cell, heading in zip(notebook.cells, headings, strict=True):
        if cell.cell_type == "code":
            _prepare(cell, heading)
    body, _ = Exporter(template_name="basic").from_notebook_node(notebook)
    titles = {known.name: known.title for known in found.notebooks}
    report = '<nav><a href="../report.html">Report: all verdicts and figures</a></nav>'
    return markup.document(titles.get(name, name), f"{report}\n{body}", STYLE + HtmlFormatter().get_style_defs(".highlight"))


def _prepare(cell: nbformat.NotebookNode, heading: str) -> None:
    """Make pictures small and give them words; leave out what only a script could show."""
    cell.metadata["alt"] = f"Picture of the section “{heading}”"
    cell.outputs = [output for output in cell.outputs if not _needs_script(output)]
    for output in cell.outputs:
        image = output.get("data", {}).get("image/png")
        if image:
            small = pictures.shrink(base64.b64decode(image), WIDTH)
            output["data"]["image/png"] = base64.b64encode(small).decode()


def _needs_script(output: nbformat.NotebookNode) -> bool:
    kinds = set(output.get("data", {}))
    return bool(kinds & {"application/javascript", "application/vnd.jupyter.widget-view+json"}) and "image/png" not in kinds
