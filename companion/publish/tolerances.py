"""How near a number must be to its reference, by its name, and what to do when it is not.

What must agree with the reference, and how nearly (TOLERANCES, by the number's name):
- data: their SHA-256. The numbers of a figure whose data are others are not compared: that they
  differ says nothing.
- exact numbers (words, whole numbers, and double precision, whose sums may be taken in another
  order): to 1e-6 of them.
- shares of samples in double precision: one that ties may fall to either side.
- processor-dependent numbers (float32 networks, and searches that start from their gradients):
  within an interval that the reference carries. `make verify UPDATE=1` derives it. It runs the
  profile natively, which gives the values, and once more for every other processor that can be
  played here (`processors`); the largest distance from the native value that a column of a table
  shows in any of these is written down (`away`). A last bit may send a search to another place,
  which is what another starting point does: so the profile runs twice more with other seeds, and
  for every number of a search the largest distance in these is written down as well. An interval
  reaches twice as far as what was seen: if the emulated processors are as different from each other
  as another machine is, a column exceeds the largest of k distances with probability 1 / (k + 1),
  and twice the largest far less often. It is never smaller than the one that the record itself has
  (x_low, x_high), nor than what one test point of the smallest test set makes up (`floor`).
- verdicts: equal, or one of those that the runs above gave, when these did not agree.
- what a single search or training came to (DECIDED: whether it diverged, hit, guessed right): left
  to rates and verdicts.

UPDATE fails when a number that is called exact depends on the processor after all: then it is not
exact, or a bug is found.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatch

EXACT, SHARE, DEPENDENT = "exact number", "share of samples", "processor-dependent number"
DATA, VERDICT, ABSENT, FAILED = "data", "verdict", "missing or new", "failed"
ADVICE = {
    FAILED: "a notebook did not run to its end: see above; nothing of it was compared",
    DATA: "shipped data have other bytes: `git status` and `git lfs` or line endings may have "
    "changed a file, or this commit changes a generator; everything that follows from it was not "
    "compared",
    EXACT: "no processor may change these: a formula, a random draw or the version of a package "
    "differs from the pins; if this commit means to change them, `make verify UPDATE=1` writes the "
    "new ones",
    SHARE: "too many samples fell to the other side for ties: look for a changed draw before "
    "anything else",
    DEPENDENT: "further away than other processors and seeds were seen to move it: run "
    "`make test-matrix` to see whether the sensitive tests fail here too; if they pass and the "
    "verdicts agree, tell us your processor",
    VERDICT: "a sentence about the paper has changed: this is never due to rounding alone",
    ABSENT: "the reference is of another version: `make verify UPDATE=1` writes one for this one",
}


@dataclass(frozen=True)
class Tolerance:
    """How far a number may be from its reference: absolute + relative |reference|, and why."""

    kind: str
    why: str
    relative: float = 0.0
    absolute: float = 0.0
    searched: bool = False  # other seeds tell how far it may move, too

    def floor(self, reference: float) -> float:
        """Return the smallest distance that is allowed."""
        return self.absolute + self.relative * abs(reference)


ONE_OF_TWENTY = 0.05  # the smallest test set of the profile has twenty points
NETWORK = Tolerance(DEPENDENT, "float32 networks differ in the last bit", 0.01, ONE_OF_TWENTY)
SEARCH = Tolerance(DEPENDENT, "where a search ends", 0.01, ONE_OF_TWENTY, searched=True)
SAMPLED = Tolerance(SHARE, "one sample that ties may fall to either side", 1e-6, 0.01)
ROUNDED = Tolerance(EXACT, "double precision, sums in another order", 1e-6, 1e-9)
SHARES = ("audit", "audited", "exact", "lower", "upper", "accuracy", "lost", "final_difference")
TOLERANCES = (  # the first pattern that fits a number's name: figure.entry.position
    ("fig5*", SEARCH),
    ("fig7*", SEARCH),
    ("fig4*", NETWORK),
    ("fig6*", NETWORK),
    *((f"*.{name}*", SAMPLED) for name in SHARES),
    ("fig2.summary.*", SAMPLED),
    ("fig3_frontier.frontier.delta.*", SAMPLED),
    ("*", ROUNDED),
)
DECIDED = ("right", "diverged", "sentence", "hits")  # of one search, unless they are rates


def tolerance(name: str) -> Tolerance:
    """Return how near a number of this name must be."""
    return next(allowed for pattern, allowed in TOLERANCES if fnmatch(name, pattern))
