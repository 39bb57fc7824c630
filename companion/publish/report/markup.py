"""Words as HTML: formulas by latex2mathml, Markdown by nbconvert, pages by the templates here."""

from __future__ import annotations

import html
import itertools
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from latex2mathml.converter import convert
from markupsafe import Markup
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

SIGNS = {"holds": "✓", "holds if": "◐", "does not hold": "✗", "cannot be checked": "?"}
CLASSES = {"holds": "yes", "holds if": "if", "does not hold": "no", "cannot be checked": "open"}
GREEK = ("theta", "psi", "delta", "nu", "varsigma", "epsilon", "tau")
NAMES = {"thetabar": r"\bar{\theta}", "psibar": r"\bar{\psi}", "lam": r"\lambda", "grad": r"\nabla"}
NAMES |= {name: f"\\{name}" for name in GREEK}  # as docs/notation.md writes the paper's words
LETTER = rf"(?:{'|'.join(sorted(NAMES, key=len, reverse=True))})(?![A-Za-z])"
SCRIPT = r"[_^](?:\{[^}]*\}|-?\([^)]*\)|-?\d+(?:\.\d+)?|\w(?![A-Za-z])|\*)"
INDEXED = r"(?:lim|max|[A-Za-z]|\d+)"  # is a formula with an index or a power only
SYMBOL = re.compile(rf"(?<![\w\\])(?:{LETTER}(?:{SCRIPT})*|{INDEXED}(?:{SCRIPT})+|F\*)")
COMMANDS = {"lim": r"\lim", "max": r"\max", "infinity": r"\infty", "->": r"\to", " in ": r"\in"}
PLAIN = {"<=": "≤", ">=": "≥", "->": "→", "||": "‖"}
BAR = re.compile(r'<mo(?: fence="false")?(?: stretchy="false")?>(&#x(?:0007C|02016|0002F);)</mo>')
ALPHABETS = {"script": "SCRIPT", "double-struck": "DOUBLE-STRUCK", "bold": "BOLD"}


def formula(latex: str, *, display: bool = False) -> str:
    """Return a formula as MathML, or its source where it is broken; unknown commands stay."""
    latex = re.sub(r"(\\[bB]igg?[lr]?)\\\|", r"\1‖", latex)  # which latex2mathml leaves as it is
    if display:
        latex = re.sub(r"(\\(?:max|min|sup|inf|lim))_", r"\1\\limits_", latex)
    try:
        found = convert(latex, display="block" if display else "inline")
    except Exception:  # latex2mathml has a dozen kinds, most of them without a message
        return f"<code>{html.escape(latex)}</code>"
    found = found.replace(' xmlns="http://www.w3.org/1998/Math/MathML"', "").replace("\n", " ")
    found = BAR.sub(r'<mo stretchy="false" lspace="0" rspace="0">\1</mo>', found)
    found = re.sub(r'<mi mathvariant="([a-z-]+)">(\w)</mi>', _letter, found)
    return box(found, "Formula") if display else found


def box(text: str, label: str) -> Markup:
    """Return HTML in a box of its own, which scrolls when it is too wide, by keyboard as well."""
    start = f'<div class="scroll" tabindex="0" role="group" aria-label="{label}">'
    return Markup(f"{start}{text}</div>\n")


def _letter(found: re.Match) -> str:
    """Return a letter of the alphabet that Unicode keeps for it: browsers draw no variants."""
    style, letter = ALPHABETS.get(found[1], ""), found[2]
    name = f"{style} {'CAPITAL' if letter.isupper() else 'SMALL'} {letter.upper()}"
    for full in (f"MATHEMATICAL {name}", name):
        try:
            return f"<mi>{unicodedata.lookup(full)}</mi>"
        except KeyError:
            continue
    return found[0]


def words(text: str) -> Markup:
    """Return plain words as HTML: `code`, $formulas$, and the paper's ASCII symbols as formulas."""
    text = re.sub(r"\b(\d+(?:\.\d+)?)e\+?(-?)0*(\d+)\b", r"$\1 \\cdot 10^{\2\3}$", text)
    return Markup("".join(map(_part, re.split(r"(`[^`]+`|\$[^$]+\$)", text))))


def _part(text: str) -> str:
    if text[:1] == "`" and len(text) > 1:
        return f"<code>{html.escape(text[1:-1], quote=False)}</code>"
    if text[:1] == "$" and len(text) > 1:
        return formula(text[1:-1])
    symbols = (formula(_latex(found[0])) for found in SYMBOL.finditer(text))
    pairs = itertools.zip_longest(SYMBOL.split(text), symbols, fillvalue="")
    return "".join(_typeset(between) + symbol for between, symbol in pairs)


def _latex(symbol: str) -> str:
    """Return a symbol such as theta_t^i, d_0, t^-(1 + nu) or lim_{t->infinity} as LaTeX."""
    scripted = re.sub(SCRIPT, _script, symbol)
    letters = re.sub(LETTER, lambda name: NAMES[name[0]] + " ", scripted.replace("F*", "F^{*}"))
    for plain_word, command in COMMANDS.items():
        letters = letters.replace(plain_word, f"{command} ")
    return letters


def _script(found: re.Match) -> str:
    """Return an index or a power as LaTeX, in braces once."""
    content = found[0][1:]
    return f"{found[0][0]}{content if content[0] == '{' else f'{{{content}}}'}"


def _typeset(text: str) -> str:
    """Return words with signs that ASCII lacks: ≤, →, ‖, a minus, and scripts after a bracket."""
    for ascii_sign, sign in PLAIN.items():
        text = text.replace(ascii_sign, sign)
    text = html.escape(re.sub(r"(?<![\w.)])-(?=\d)", "−", text), quote=False)
    text = re.sub(r"(?<=[])‖])\^(\w+)", r"<sup>\1</sup>", text)
    return re.sub(r"(?<=])_(\w+)", r"<sub>\1</sub>", text)


class Renderer(IPythonRenderer):
    """Markdown as nbconvert has it, but with MathML, plain anchors, and wide things that scroll."""

    def block_code(self, code: str, info: str | None = None) -> str:
        return super().block_code(code, info).replace("<pre", '<pre tabindex="0"', 1)

    def block_math(self, body: str) -> str:
        return formula(body, display=True)

    def inline_math(self, body: str) -> str:
        return formula(body)

    def latex_environment(self, name: str, body: str) -> str:
        return formula(f"\\begin{{{name}}}{body}\\end{{{name}}}", display=True)

    def heading(self, text: str, level: int, **attrs) -> str:
        return f'<h{level} id="{anchor(text)}">{text}</h{level}>\n'

    def table(self, text: str) -> str:
        return cards(f"<table>{text}</table>")


def cards(table: str) -> Markup:
    """Return a table in a box of its own, whose rows become cards on a narrow screen."""
    titles = [plain(title) for title in re.findall(r"<th\b[^>]*>(.*?)</th>", table, re.S)]
    names = itertools.cycle(titles or [""])
    named = re.sub("<td", lambda _: f'<td data-name="{html.escape(next(names))}"', table)
    return box(named.replace("<table", '<table class="cards"', 1), "Table")


def markdown(text: str) -> Markup:
    """Return Markdown as HTML."""
    return Markup(MarkdownWithMath(renderer=Renderer(escape=False)).render(text))


def plain(text: str) -> str:
    """Return HTML without its tags."""
    return html.unescape(re.sub(r"<[^>]+>", "", text)).strip()


def anchor(text: str) -> str:
    """Return a name that can stand behind a # in an address."""
    return re.sub(r"[^a-z0-9]+", "-", plain(text).lower()).strip("-")


def relink(page: str, change: Callable[[str], str]) -> str:
    """Return a page whose links to files, and to pictures beside it, are changed."""
    attribute = re.compile(r'(?<= )(href|src)="(?!#|[a-z]+:)([^"#]+)')
    return attribute.sub(lambda found: f'{found[1]}="{change(found[2])}', page)


environment = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates", encoding="utf-8"),
    autoescape=select_autoescape(["html"]),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
environment.filters |= {"words": words, "markdown": markdown, "zip": zip}
environment.globals |= {"signs": SIGNS, "classes": CLASSES, "box": box}
