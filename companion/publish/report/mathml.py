"""Formulas as MathML, which every browser draws without a script: the part of LaTeX that notebooks and documents here use.

    formula = atom scripts*        scripts = ^ argument | _ argument | '
    atom    = letter | number | sign | { formula } | command with its arguments

Whatever is not known raises FormulaError: a test converts every formula of the project, so an unknown command is found there.
"""

from __future__ import annotations

import re
from html import escape

LETTERS = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ϵ", "varepsilon": "ε", "zeta": "ζ", "eta": "η",
    "theta": "θ",
    "kappa": "κ", "varkappa": "ϰ", "lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ", "pi": "π", "rho": "ρ", "sigma": "σ",
    "varsigma": "ς", "tau": "τ", "phi": "ϕ", "varphi": "φ", "chi": "χ", "psi": "ψ", "omega": "ω", "Gamma": "Γ", "Delta": "Δ",
    "Theta": "Θ", "Lambda": "Λ", "Pi": "Π", "Sigma": "Σ", "Phi": "Φ", "Psi": "Ψ", "Omega": "Ω", "ell": "ℓ", "infty": "∞",
    "nabla": "∇", "partial": "∂", "emptyset": "∅", "hbar": "ℏ",
}  # fmt: skip
SIGNS = {
    "le": "≤", "leq": "≤", "ge": "≥", "geq": "≥", "ne": "≠", "neq": "≠", "approx": "≈", "sim": "∼", "simeq": "≃", "equiv": "≡",
    "ll": "≪", "gg": "≫", "in": "∈", "notin": "∉", "subset": "⊂", "subseteq": "⊆", "cup": "∪", "cap": "∩", "to": "→",
    "rightarrow": "→", "leftarrow": "←", "Rightarrow": "⇒", "Leftrightarrow": "⇔", "iff": "⇔", "mapsto": "↦", "cdot": "·",
    "times": "×", "otimes": "⊗", "odot": "⊙", "oplus": "⊕", "ast": "∗", "star": "⋆", "circ": "∘", "pm": "±", "mp": "∓",
    "forall": "∀", "exists": "∃", "neg": "¬", "land": "∧", "lor": "∨", "mid": "∣", "propto": "∝", "perp": "⊥", "ldots": "…",
    "dots": "…", "cdots": "⋯", "colon": ":", "%": "%", "#": "#", "&": "&", "$": "$", "_": "_", "prime": "′", "top": "⊤",
    "triangleq": "≜",
}  # fmt: skip
FENCES = {
    "|": "‖", "{": "{", "}": "}", "lvert": "|", "rvert": "|", "vert": "|", "lVert": "‖", "rVert": "‖", "Vert": "‖",
    "langle": "⟨", "rangle": "⟩", "lceil": "⌈", "rceil": "⌉", "lfloor": "⌊", "rfloor": "⌋", "lbrace": "{", "rbrace": "}",
}  # fmt: skip
LARGE = {"sum": "∑", "prod": "∏", "bigotimes": "⨂", "bigcup": "⋃", "bigcap": "⋂", "bigoplus": "⨁"}
INTEGRALS = {"int": "∫", "iint": "∬", "oint": "∮"}
LIMITS = {"max", "min", "sup", "inf", "lim", "liminf", "limsup", "argmax", "argmin"}
NAMES = {"log", "ln", "exp", "sin", "cos", "tan", "tanh", "det", "dim", "diag", "sign", "Pr", "mod"}
SPACES = {",": 0.17, ":": 0.22, ">": 0.22, ";": 0.28, "!": -0.17, " ": 0.25, "quad": 1.0, "qquad": 2.0, "enspace": 0.5}
ACCENTS = {"bar": "¯", "overline": "¯", "hat": "^", "widehat": "^", "tilde": "~", "widetilde": "~", "dot": "˙", "vec": "→"}
SIZES = {"big": 1.2, "Big": 1.8, "bigg": 2.4, "Bigg": 3.0}
ALPHABETS = {"mathcal": (0x1D49C, {"B": "ℬ", "E": "ℰ", "F": "ℱ", "H": "ℋ", "I": "ℐ", "L": "ℒ", "M": "ℳ", "R": "ℛ"}),
             "mathbb": (0x1D538, {"C": "ℂ", "H": "ℍ", "N": "ℕ", "P": "ℙ", "Q": "ℚ", "R": "ℝ", "Z": "ℤ"}),
             "mathbf": (0x1D400, {}), "boldsymbol": (0x1D400, {})}  # fmt: skip
TABLES = {"cases": ("{", ""), "aligned": ("", ""), "matrix": ("", ""), "pmatrix": ("(", ")"), "bmatrix": ("[", "]")}
TOKEN = re.compile(r"\\[A-Za-z]+|\\.|[0-9]+(?:\.[0-9]+)?|\s+|.", re.S)


class FormulaError(ValueError):
    """A formula that we cannot convert; the message names the command and the formula."""


def convert(latex: str, *, display: bool = False) -> str:
    """Return a formula as a <math> element, with its LaTeX source beside it for whoever copies it."""
    reader = _Reader(latex)
    body = reader.row(until=())
    block = ' display="block"' if display else ""
    source = f'<annotation encoding="application/x-tex">{escape(latex.strip(), quote=False)}</annotation>'
    return f"<math{block}><semantics><mrow>{body}</mrow>{source}</semantics></math>"


class _Reader:
    """Reads a formula from left to right; every method returns MathML for what it has read."""

    def __init__(self, latex: str):
        self.latex, self.tokens, self.place = latex, TOKEN.findall(latex), 0

    def peek(self) -> str:
        """Return the next token that is not a space, or nothing at the end."""
        while self.place < len(self.tokens) and self.tokens[self.place].isspace():
            self.place += 1
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        if not token:
            raise self.error("the formula ends too early")
        self.place += 1
        return token

    def error(self, problem: str) -> FormulaError:
        return FormulaError(f"{problem} in the formula {' '.join(self.latex.split())!r}")

    def expect(self, token: str) -> None:
        if (found := self.take()) != token:
            raise self.error(f"{token} expected and {found} found")

    def row(self, until: tuple[str, ...]) -> str:
        """Read atoms up to one of the tokens `until` (left unread), or to the end when there is none to wait for."""
        parts = []
        while (token := self.peek()) not in until:
            if not token:
                if until:
                    raise self.error(f"{until[0]} is missing")
                break
            parts.append(self.scripted())
        return "".join(parts)

    def scripted(self) -> str:
        """Read an atom and whatever is written above and below it."""
        limits, base = self.atom()
        below = above = ""
        while (token := self.peek()) in ("_", "^", "'"):
            self.take()
            if token == "_":
                below = self.argument()
            else:
                above += "<mo>′</mo>" if token == "'" else self.argument()
        if not below and not above:
            return base
        below, above = (f"<mrow>{part}</mrow>" if part else "" for part in (below, above))
        if below and above:
            return f"<munderover>{base}{below}{above}</munderover>" if limits else f"<msubsup>{base}{below}{above}</msubsup>"
        tag = ("munder" if limits else "msub") if below else ("mover" if limits else "msup")
        return f"<{tag}>{base}{below}{above}</{tag}>"

    def argument(self) -> str:
        """Read what a command or a script applies to: a group in braces, or a single atom."""
        token = self.peek()
        if token == "{":
            return self.group()
        if token[:1].isdigit():  # of a number without braces LaTeX takes one digit
            self.tokens[self.place : self.place + 1] = list(token)
        return self.atom()[1]

    def group(self) -> str:
        self.expect("{")
        body = self.row(until=("}",))
        self.expect("}")
        return f"<mrow>{body}</mrow>"

    def text(self) -> str:
        """Read a group as words, spaces included."""
        self.expect("{")
        start, depth = self.place, 1
        while depth:
            if self.place >= len(self.tokens):
                raise self.error("} is missing")
            depth += {"{": 1, "}": -1}.get(self.tokens[self.place], 0)
            self.place += 1
        words = "".join(self.tokens[start : self.place - 1])
        return escape(re.sub(r"^\s|\s$", "\N{NO-BREAK SPACE}", words), quote=False)

    def atom(self) -> tuple[bool, str]:
        """Read one atom; return whether its scripts stand above and below it, and its MathML."""
        if self.peek() == "{":
            return False, self.group()
        token = self.take()
        if token.startswith("\\"):
            return self.command(token[1:])
        if token[0].isdigit():
            return False, f"<mn>{token}</mn>"
        if token.isalpha():
            return False, f"<mi>{token}</mi>"
        if token in "()[]|/":
            return False, f'<mo stretchy="false" lspace="0" rspace="0">{token}</mo>'
        if token in "}&":
            raise self.error(f"unexpected {token}")
        return False, f"<mo>{escape({'-': '−', '*': '∗', '~': ' '}.get(token, token), quote=False)}</mo>"

    def command(self, name: str) -> tuple[bool, str]:
        """Read the arguments of a command and return it, as `atom` does."""
        if name in LARGE or name in LIMITS:
            space = "" if name in LARGE else ' lspace="0" rspace="0.17em"'
            return True, f'<mo movablelimits="true"{space}>{LARGE.get(name, name)}</mo>'
        if name in ("underbrace", "overbrace"):
            brace, tag = ("⏟", "munder") if name == "underbrace" else ("⏞", "mover")
            return True, f'<{tag}>{self.argument()}<mo stretchy="true">{brace}</mo></{tag}>'
        return False, self.plain(name)

    def plain(self, name: str) -> str:
        """Return a command whose scripts stand beside it."""
        if name in LETTERS:
            upright = ' mathvariant="normal"' if name in ("infty", "nabla", "partial") or name[0].isupper() else ""
            return f"<mi{upright}>{LETTERS[name]}</mi>"
        if name in SIGNS or name in INTEGRALS:
            return f"<mo>{escape({**SIGNS, **INTEGRALS}[name], quote=False)}</mo>"
        if name in FENCES:
            return f'<mo stretchy="false" lspace="0" rspace="0">{FENCES[name]}</mo>'
        if name in NAMES:
            return f'<mo lspace="0.17em" rspace="0.17em">{name}</mo>'
        if name in SPACES:
            return f'<mspace width="{SPACES[name]}em"></mspace>'
        if name in ACCENTS:
            return f'<mover accent="true">{self.argument()}<mo stretchy="false">{ACCENTS[name]}</mo></mover>'
        if name.rstrip("lrm") in SIZES:
            size = SIZES[name.rstrip("lrm")]
            return f'<mo stretchy="true" symmetric="true" minsize="{size}em" maxsize="{size}em">{self.fence()}</mo>'
        if name in ALPHABETS:
            return f"<mi>{self.alphabet(*ALPHABETS[name])}</mi>"
        return self.structure(name)

    def structure(self, name: str) -> str:
        """Return fractions, roots, words, growing brackets and tables."""
        if name in ("frac", "tfrac", "dfrac"):
            return f"<mfrac>{self.argument()}{self.argument()}</mfrac>"
        if name == "sqrt":
            return f"<msqrt>{self.argument()}</msqrt>"
        if name in ("text", "mathrm", "operatorname", "textrm", "mathit", "mathtt", "mathsf", "textbf", "texttt"):
            return f"<mtext>{self.text()}</mtext>"
        if name in ("displaystyle", "textstyle", "limits", "nolimits"):
            return ""
        if name == "left":
            opening, body = self.fence(), self.row(until=("\\right",))
            self.expect("\\right")
            return f"<mrow><mo>{opening}</mo>{body}<mo>{self.fence()}</mo></mrow>"
        if name == "begin":
            return self.table(self.text())
        raise self.error(f"unknown command \\{name}")

    def fence(self) -> str:
        token = self.take()
        if token == ".":
            return ""
        return escape(FENCES.get(token.lstrip("\\"), token) if token.startswith("\\") else token, quote=False)

    def alphabet(self, first: int, exceptions: dict[str, str]) -> str:
        """Return letters of an alphabet that Unicode keeps apart, capitals first."""
        letters = self.text() if self.peek() == "{" else self.take()
        small = first + 26
        return "".join(
            exceptions.get(letter)
            or (chr(first + ord(letter) - ord("A")) if "A" <= letter <= "Z" else "")
            or (chr(small + ord(letter) - ord("a")) if "a" <= letter <= "z" else letter)
            for letter in letters
        )

    def table(self, name: str) -> str:
        if name not in TABLES:
            raise self.error(f"unknown environment {name}")
        rows: list[list[str]] = [[]]
        while True:
            rows[-1].append(f"<mtd>{self.row(until=('&', chr(92) * 2, chr(92) + 'end'))}</mtd>")
            token = self.take()
            if token == "\\\\":
                rows.append([])
            elif token == "\\end":
                break
        if self.text() != name:
            raise self.error(f"\\end{{{name}}} is missing")
        opening, closing = (f"<mo>{fence}</mo>" if fence else "" for fence in TABLES[name])
        body = "".join(f"<mtr>{''.join(cells)}</mtr>" for cells in rows)
        align = ' columnalign="left"' if name in ("cases", "aligned") else ""
        return f"<mrow>{opening}<mtable{align}>{body}</mtable>{closing}</mrow>"
