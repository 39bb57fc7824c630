"""Formulas and words of the report: typeset, and none is left as it was written."""

import re
from pathlib import Path
from xml.etree import ElementTree

import nbformat
import pytest

from companion.publish import environment
from companion.publish.report import markdown, markup

ROOT = Path(environment.ROOT)
FIGURES = ROOT / "figures"
WRITTEN = sorted(
    [
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("notebooks/*.ipynb"),
        *FIGURES.glob("notebooks/*.ipynb"),
    ]
)
ARITY = {"mfrac": 2, "msub": 2, "msup": 2, "munder": 2, "mover": 2, "msubsup": 3, "munderover": 3}


def leaks(latex):
    """Return what is left as it was, or lacks a part: latex2mathml raises for little of it."""
    parts = list(ElementTree.fromstring(markup.formula(latex)).iter())
    stray = [
        part.text for part in parts if part.tag == "code" or re.match(r"\\|[{}]$", part.text or "")
    ]
    broken = [part.tag for part in parts if len(part) != ARITY.get(part.tag, len(part))]
    return [text for text in stray if r"\{" not in latex] + broken


@pytest.mark.parametrize(
    "latex", [r"\nonsense", r"\frac{1", "a}", r"\left( a", "x^", r"\text{\nonsense}"]
)
def test_what_is_no_formula_is_found(latex):
    assert leaks(latex)


@pytest.mark.parametrize(
    "latex", [r"\frac12", r"x_t'^i", r"\log_2 n", "a < b", r"\{a\}", r"\big\| x \big\|^2"]
)
def test_formulas_do_not_leak(latex):
    assert not leaks(latex)


@pytest.mark.parametrize(
    "latex, letter",
    [(r"\mathcal G", "𝒢"), (r"\mathbb R", "ℝ"), (r"\mathcal R", "ℛ"), (r"\mathbf x", "𝐱")],
)
def test_letters_are_those_that_browsers_draw(latex, letter):
    assert f"<mi>{letter}</mi>" in markup.formula(latex)


@pytest.mark.parametrize(
    "text, shown",
    [
        ("$x^2$ and `d_0`", ("<msup>", "<code>d_0</code>")),
        ("theta_t^i", ("<msubsup><mi>&#x003B8;</mi>",)),
        ("t^-(1 + nu)", ("<msup><mi>t</mi>", "&#x003BD;")),
        ("||grad F||^2 <= 1/t^0.29", ("‖", "&#x02207;", "‖<sup>2</sup> ≤", "<mn>0.29</mn>")),
        ("1.59e+05, 6e-10", ("<mn>1.59</mn>", "<mn>5</mn>", "<mn>10</mn>")),
        ("lim_{t->infinity} x", ("<mo>lim</mo>", "&#x02192;", "&#x0221E;")),
        ("1/t^{1-nu}", ("<msup><mi>t</mi>", "&#x003BD;")),
        ("max_{i in [m]} of 3, at max 3", ("<mo>max</mo>", "&#x02208;", "at max 3")),
        ("-0.7 -> 2", ("−0.7 → 2",)),
        ("BNCI2014_001, deltas & fig2_rates", ("BNCI2014_001, deltas &amp; fig2_rates",)),
    ],
)
def test_words_of_claims_are_typeset(text, shown):
    assert all(part in markup.words(text) for part in shown), markup.words(text)


def formulas(text):
    text = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.S)
    return [
        block or inline
        for block, inline in re.findall(r"\$\$(.+?)\$\$|\$([^$\n]+?(?:\n[^$\n]+?)?)\$", text, re.S)
    ]


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_formula_of_the_project_converts(path):
    if path.suffix == ".md":
        texts = [path.read_text(encoding="utf-8")]
    else:
        cells = nbformat.read(path, 4).cells
        texts = [cell.source for cell in cells if cell.cell_type == "markdown"]
        outputs = [output for cell in cells if cell.cell_type == "code" for output in cell.outputs]
        texts += [
            output["data"]["text/markdown"]
            for output in outputs
            if "text/markdown" in output.get("data", {})
        ]
    for formula in (formula for text in texts for formula in formulas(text)):
        assert not leaks(formula), formula


def test_a_formula_is_not_broken_between_lines():
    text = " ".join(["word"] * 18 + [r"so $\delta \le 0.1 \cdot x$ holds", *["word"] * 18])
    lines = markdown._filled(text, "  ").splitlines()
    assert max(map(len, lines)) <= 100 and any(
        r"$\delta \le 0.1 \cdot x$" in line for line in lines
    )
