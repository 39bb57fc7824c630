"""Markdown as HTML, formulas as MathML, and the one style sheet of our pages: screen, phone, paper; no script, no request."""

from __future__ import annotations

import html
import itertools
import re

from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

from companion.publish.report import mathml

VERDICT_CLASSES = {"holds": "yes", "holds if": "if", "does not hold": "no", "cannot be checked": "open"}
VERDICT_SIGNS = {"holds": "✓", "holds if": "◐", "does not hold": "✗", "cannot be checked": "?"}

STYLE = """
:root { color-scheme: light; --ink: #1b1b1b; --soft: #565656; --line: #d8d8d8; --back: #f6f6f4; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 76rem; padding: 1rem 1.25rem 4rem; font: 1rem/1.5 system-ui, sans-serif; color: var(--ink);
  background: #fff; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.25; } h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line); font-size: 1.3rem; }
h3 { font-size: 1.1rem; margin: 2rem 0 .5rem; } p, li { max-width: 46rem; }
a { color: #00507d; } img { max-width: 100%; height: auto; }
figure { margin: 1.5rem 0; } figcaption { color: var(--soft); max-width: 46rem; }
math { font-family: "STIX Two Math", "Cambria Math", "Latin Modern Math", math; }
code, pre { font: .875em/1.45 ui-monospace, monospace; } code { overflow-wrap: anywhere; }
pre { overflow-x: auto; background: var(--back); padding: .6rem .8rem; }
table { border-collapse: collapse; font-size: .9rem; } th, td { text-align: left; vertical-align: top; padding: .45rem .6rem;
  border-bottom: 1px solid var(--line); } th { background: var(--back); }
.scroll { overflow-x: auto; max-width: 100%; } .soft { color: var(--soft); } .hash { overflow-wrap: anywhere; font-size: .8em; }
math[display=block] { overflow-x: auto; overflow-y: hidden; max-width: 100%; margin: .8rem 0; }
.verdicts { table-layout: fixed; width: 100%; } .verdicts p { margin: .3rem 0; }
.verdict { font-weight: 650; border-left: .35rem solid; padding-left: .5rem; }
.yes { color: #00634a; } .if { color: #7a5200; } .no { color: #a03200; } .open { color: #565656; }
.counts { display: flex; flex-wrap: wrap; gap: .6rem 1.2rem; padding: 0; list-style: none; }
.counts b { font-size: 1.5rem; margin-right: .35rem; }
nav a { margin-right: 1rem; } details { margin: .6rem 0; } summary { cursor: pointer; }
@media screen and (max-width: 46rem) {
  .cards thead, .cards colgroup { display: none; } .cards, .cards tbody, .cards tr, .cards td { display: block; width: 100%; }
  .cards tr { border: 1px solid var(--line); border-radius: .4rem; margin: .8rem 0; padding: .3rem 0; }
  .cards td { border: 0; padding: .25rem .7rem; }
  .cards td[data-name]::before { content: attr(data-name); display: block; color: var(--soft); font-size: .8em; }
  .cards td:empty { display: none; }
}
@media print {
  html { font-size: 11px; } body { max-width: none; padding: 0; } th, td { padding: .3rem .4rem; }
  a { color: inherit; text-decoration: none; } nav { display: none; }
  tr, figure { break-inside: avoid; } h2, h3 { break-after: avoid; } .scroll { overflow: visible; }
  thead { display: table-header-group; }
}
"""  # as few rules as will do


class Renderer(IPythonRenderer):
    """Renders Markdown as nbconvert does, but for formulas, which become MathML, and tables, which scroll in their own box."""

    def block_math(self, body: str) -> str:
        """Return a formula on a line of its own."""
        return formula(body, display=True)

    def inline_math(self, body: str) -> str:
        """Return a formula among words."""
        return formula(body, display=False)

    def latex_environment(self, name: str, body: str) -> str:
        """Return an environment as a formula on a line of its own."""
        return formula(f"\\begin{{{name}}}{body}\\end{{{name}}}", display=True)

    def table(self, text: str) -> str:
        """Return a table in a box of its own, whose rows become cards on a narrow screen."""
        titles = re.findall(r"<th[^>]*>(.*?)</th>", text, re.S)
        names = [html.escape(re.sub(r"<annotation.*?</annotation>|<[^>]+>", "", title), quote=True) for title in titles]
        numbered = itertools.count()
        named = re.sub(r"<td", lambda _: f'<td data-name="{names[next(numbered) % len(names)]}"', text) if names else text
        return f'<div class="scroll"><table class="cards">{named}</table></div>\n'


def formula(latex: str, *, display: bool) -> str:
    """Return a formula as MathML, or its source as it stands when it uses what we do not know."""
    try:
        return mathml.convert(latex, display=display)
    except mathml.FormulaError:
        return f"<code>{html.escape(latex)}</code>"


def markdown(text: str) -> str:
    """Return Markdown as HTML."""
    return MarkdownWithMath(renderer=Renderer(escape=False, exclude_anchor_links=True)).render(text)


def document(title: str, body: str, style: str = "") -> str:
    """Return a whole page."""
    icon = '<link rel="icon" href="data:,">'  # else a browser asks for one
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n<title>{html.escape(title)}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n{icon}\n<style>{STYLE}{style}</style></head>\n'
        f"<body>\n{body}\n</body></html>\n"
    )


def anchor(text: str) -> str:
    """Return a name that can stand behind a # in an address."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
