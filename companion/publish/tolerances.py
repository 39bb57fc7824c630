"""How near a number must be to its reference, by its name, and what to do when it is not."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatch

EXACT, SHARE, DEPENDENT, DATA, VERDICT, ABSENT, FAILED = (
    "exact number",
    "share of samples",
    "processor-dependent number",
    "data",
    "verdict",
    "missing or new",
    "failed",
)
ADVICE = {
    FAILED: "a notebook did not run to its end: see above; nothing of it was compared",
    DATA: "shipped data have other bytes: `git status` and `git lfs` or line endings may have changed a file, or this "
    "commit changes a generator; everything that follows from it was not compared",
    EXACT: "no processor may change these: a formula, a random draw or the version of a package differs from the pins; "
    "if this commit means to change them, `make verify UPDATE=1` writes the new ones",
    SHARE: "too many samples fell to the other side for ties: look for a changed draw before anything else",
    DEPENDENT: "further away than other processors and seeds were seen to move it: run `make test-matrix` to see whether "
    "the sensitive tests fail here too; if they pass and the verdicts agree, tell us your processor",
    VERDICT: "a sentence about the paper has changed: this is never due to rounding alone",
    ABSENT: "the reference is of another version: `make verify UPDATE=1` writes one for this version",
}


@dataclass(frozen=True)
class Tolerance:
    """How far a number may be from its reference at least: absolute + relative * |reference|; `why` says what moves it."""

    kind: str
    why: str
    relative: float = 0.0
    absolute: float = 0.0
    searched: bool = False  # other seeds tell how far it may move, too

    def floor(self, reference: float) -> float:
        """Return the smallest distance that is allowed."""
        return self.absolute + self.relative * abs(reference)


ONE_OF_TWENTY = 0.05  # the smallest test set of the profile has twenty points
NETWORK = Tolerance(
    DEPENDENT, "float32 networks differ in the last bit", relative=0.01, absolute=ONE_OF_TWENTY
)
SEARCH = Tolerance(
    DEPENDENT, "where a search ends", relative=0.01, absolute=ONE_OF_TWENTY, searched=True
)
SAMPLED = Tolerance(
    SHARE, "one sample that ties may fall to either side", relative=1e-6, absolute=0.01
)
ROUNDED = Tolerance(EXACT, "double precision, sums in another order", relative=1e-6, absolute=1e-9)
TOLERANCES = (  # the first pattern that fits a number's name: figure.entry.position
    ("fig5*", SEARCH),
    ("fig7*", SEARCH),
    ("fig4*", NETWORK),
    ("fig6*", NETWORK),
    *(
        (f"*.{name}*", SAMPLED)
        for name in (
            "audit",
            "audited",
            "exact",
            "lower",
            "upper",
            "accuracy",
            "lost",
            "final_difference",
        )
    ),
    ("fig2.summary.*", SAMPLED),
    ("fig3_frontier.frontier.delta.*", SAMPLED),
    ("*", ROUNDED),
)
DECIDED = (
    "right",
    "diverged",
    "sentence",
    "hits",
)  # of one search or training, unless they are rates


def tolerance(name: str) -> Tolerance:
    """Return how near a number of this name must be."""
    return next(allowed for pattern, allowed in TOLERANCES if fnmatch(name, pattern))
