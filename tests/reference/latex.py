"""Reads a LaTeX source as plain words, to compare quotes with it."""

from __future__ import annotations

import re

SECTION = re.compile(r"\\(sub)?section(\*?)\{")
STATEMENT = re.compile(r"\\textbf\{((?:Assumption|Lemma|Remark|Theorem|Definition) \d)")
MEANINGS = {
    r"\\cite(\[[^]]*\])?\{[^}]*\}": "",
    r"\\ref\{[^}]*?(\d*)\}": r"\1",
    r"\\(bar|mathbb|mathcal|text|mathbf|emph|textbf|mathrm)\{\\?(\w+)\}": r"\2<\1>",
    r"<(mathbb|mathcal|text|mathbf|emph|textbf|mathrm)>": "",
    r"<bar>": "bar",
    r"\\(big|Big|left|right|noindent|indent)\b": "",
    r"\\(label\{[^}]*\}|(begin|end)\{\w+\*?\})": "",
    r"\\(rightarrow|to)\b": "->",
    r"\\leq\b": "<=",
    r"\\ge\b": ">=",
    r"\\infty": "infinity",
    r"\\nabla": "grad",
    r"\\\|": "||",
    r"\\%": "%",
    r"~": " ",
}
FRACTION = re.compile(r"\\frac\{([^{}]*)\}\{((?:[^{}]|\{[^{}]*\})*)\}")


def words(text: str) -> str:
    """Return LaTeX or a quote of it as plain words: no macros, no braces, no blanks."""
    for pattern, plain in MEANINGS.items():
        text = re.sub(pattern, plain, text)
    text = FRACTION.sub(_quotient, text)
    text = re.sub(r"\\([A-Za-z]+)", r"\1", text)
    return re.sub(r"[\s${}\\]", "", text)


def _quotient(found: re.Match) -> str:
    below = found[2]
    simple = re.fullmatch(r"\w+(\^\{[^}]*\})?", below)
    return f"{found[1]}/{below}" if simple else f"{found[1]}/({below})"


def paragraphs(source: str) -> list[tuple[str, str, str]]:
    """Return (section, statement, plain words) of each paragraph: ("2.1", "Assumption 1", ...)."""
    found, numbers, statement = [], [0, 0], ""
    for paragraph in re.split(r"\n\s*\n|\\\\\s*\n", source):
        for heading in SECTION.finditer(paragraph):
            numbers = [numbers[0], numbers[1] + 1] if heading[1] else [numbers[0] + 1, 0]
            statement = ""
        if "\\noindent\\textbf" in paragraph:
            named = STATEMENT.search(paragraph)
            statement = named[1] if named else ""
        section = ".".join(str(number) for number in numbers if number)
        found.append((section, statement, words(paragraph)))
    return found


def places(quote: str, source: str) -> list[tuple[str, str]]:
    """Return the (section, statement) of every paragraph that holds a quote's parts in order."""
    parts = [re.escape(words(part)) for part in quote.split("...") if part.strip()]
    pattern = re.compile(".*?".join(parts))
    return [(section, of) for section, of, text in paragraphs(source) if pattern.search(text)]
