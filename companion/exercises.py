"""The exercises of the notebooks, and a check that says *right* or what to look at.

    >>> check("2.4", lambda delta, prior: delta)
    2.4: not yet. The attacker could always say what was more likely before: it never does worse.
    >>> check("1.1", ...)
    1.1: put your answer in place of the dots.

An answer is a value or a short function. Questions stand in the notebooks, solutions in
docs/solutions.md; a test runs both. numpy is all that is needed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

NOT_YET, DOTS = "not yet.", "put your answer in place of the dots."


@dataclass(frozen=True)
class Reply:
    """What `check` answers: whether it was `right`, and a sentence, which a notebook shows."""

    right: bool
    sentence: str

    def __repr__(self) -> str:
        return self.sentence

    def __bool__(self) -> bool:
        return self.right


@dataclass(frozen=True)
class Exercise:
    """A question, the truth, and what to say to somebody who makes one of the usual `mistakes`.

    `truth` is a value, or a function that is compared on the arguments in `cases`. A mistake is a
    value or function of the same kind with the sentence it deserves; `otherwise` is for all others.
    """

    question: str
    truth: Any
    mistakes: Sequence[tuple[Any, str]]
    otherwise: str
    cases: Sequence[tuple] = field(default=((),))
    tolerance: float = 1e-6  # relative

    def judge(self, answer) -> str:
        """Return nothing when the answer is right, else what to look at."""
        if callable(answer) != callable(self.truth):
            return "The answer is a function." if callable(self.truth) else "The answer is a value."
        try:
            given = self._values(answer)
        except Exception as error:  # a student's function may raise anything
            return f"Your function stops: {type(error).__name__}: {error}"
        if any(value is ... for value in given):
            return DOTS.capitalize()
        if _agree(given, self._values(self.truth), self.tolerance):
            return ""
        told = (hint for wrong, hint in self.mistakes if _agree(given, self._values(wrong), 1e-6))
        return next(told, self.otherwise)

    def _values(self, answer) -> list:
        return [answer(*case) for case in self.cases] if callable(answer) else [answer]


def check(name: str, answer) -> Reply:
    """Return whether an answer is right, and if not, what to look at."""
    if name not in EXERCISES:
        raise ValueError(f"exercise {name!r} must be one of {', '.join(EXERCISES)}")
    if answer is ...:
        return Reply(False, f"{name}: {DOTS}")
    look = EXERCISES[name].judge(answer)
    return Reply(not look, f"{name}: {NOT_YET} {look}" if look else f"{name}: right.")


def _agree(given: list, wanted: list, tolerance: float) -> bool:
    return all(_same(one, two, tolerance) for one, two in zip(given, wanted, strict=True))


def _same(given, wanted, tolerance: float) -> bool:
    """Return whether two answers are the same: words by their letters, numbers nearly."""
    if isinstance(wanted, str) or isinstance(given, str):
        words = isinstance(wanted, str) and isinstance(given, str)
        return words and _letters(given) == _letters(wanted)
    try:
        numbers = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        return False
    fits = numbers.shape == np.shape(wanted)
    return fits and bool(np.allclose(numbers, wanted, rtol=tolerance, atol=1e-12, equal_nan=True))


def _letters(text) -> str:
    return "".join(letter for letter in str(text).lower() if letter.isalnum())


def _fraction(y: float, d: float) -> float:
    return y / d - math.floor(y / d)


def _noise(d_0: float, varsigma: float, iterations: int) -> float:
    return sum((d_0 / (t + 1) ** varsigma) ** 2 / 4 for t in range(iterations))


def _variation(n: int, e: float) -> float:
    """Return the total variation between n coins that fall up with 1/2 + e and with 1/2 - e."""

    def law(p: float) -> list[float]:
        return [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]

    return sum(abs(p - q) for p, q in zip(law(0.5 + e), law(0.5 - e), strict=True)) / 2


def _accuracy(delta: float, prior: float) -> float:
    return max(prior, 1 - prior) + min(prior, 1 - prior) * min(1.0, delta)


def _ask(name: str, question: str, otherwise: str, truth, *mistakes, **more) -> None:
    """Add an exercise: what is asked, what to say to most wrong answers, the truth, mistakes."""
    EXERCISES[name] = Exercise(question, truth, mistakes, otherwise, **more)


EXERCISES: dict[str, Exercise] = {}

_ask(
    "1.1",
    "By what factor does weight = 0.05 in place of 0.2 shrink the variance of the rounding "
    "error that one edge lets in?",
    "What reaches an agent is the neighbour's rounding error times the weight of the edge.",
    (0.2 / 0.05) ** 2,
    (0.2 / 0.05, "That is the factor of the error itself; the question is its variance."),
    ((0.05 / 0.2) ** 2, "Turn it round: how many times smaller is it?"),
    (0.2**2, "Compare the two weights with each other."),
    (1.0, "What reaches an agent is the rounding error times the weight of the edge."),
)
_ask(
    "1.2",
    "Write noise(d_0, varsigma, iterations): the largest variance that rounding one coordinate "
    "can let in, summed over the iterations. Does it stay finite?",
    "One message has a variance of at most a share of d_t^2, with d_t = d_0 / (t+1)^varsigma.",
    _noise,
    (
        lambda d, s, n: sum(d / (t + 1) ** s / 4 for t in range(n)),
        "A variance is a square: what does eq. (3) say about d and d^2?",
    ),
    (lambda d, s, n: 4 * _noise(d, s, n), "The largest variance of eq. (3) is a share of d^2."),
    (
        lambda d, s, n: sum((d / t**s) ** 2 / 4 for t in range(1, n)),
        "The first iteration is t = 0, and its step is d_0 itself.",
    ),
    cases=((2.0, 0.6, 1), (32.0, 0.6, 1000), (1.0, 0.75, 7)),
)
_ask(
    "1.3",
    "With varsigma = 0.7 and nu = 0.71 the influence of one mushroom, counted in steps, falls "
    "as t^-p for the agent with the largest varsigma^i. What is p?",
    "Multiply: the stride lam_t, the share 1/t of one data point, and one over the step d_t.",
    1 + 0.71 - 0.75,
    (1 + 0.71 - 0.7, "Agent i has varsigma + 0.01 i, and there are five agents."),
    (0.75 - 1 - 0.71, "Write t^-p with a positive p."),
    (0.71, "The gradient's share 1/t counts, and so does the step that shrinks."),
    (1 + 0.71, "The influence is counted in steps, and steps shrink too."),
)
_ask(
    "1.4",
    "Write variance(y, d): the variance of Q(y) of eq. (3).",
    "Between two grid points a coin falls: how often up, and how far apart are the two?",
    lambda y, d: _fraction(y, d) * (1 - _fraction(y, d)) * d**2,
    (lambda y, d: d**2 / 4, "That is the most it can be. What is it on a grid point?"),
    (lambda y, d: d**2 / 12, "That is for rounding to the nearest point. Here a coin falls."),
    (lambda y, d: _fraction(y, d) * (1 - _fraction(y, d)), "Right for d = 1. Levels are d apart."),
    (lambda y, d: y * (d - y), "Right within the first cell. What about y = 1.25 d?"),
    cases=((0.3, 1.0), (1.25, 1.0), (-0.2, 0.5), (2.0, 2.0), (3.3, 2.0)),
)
_ask(
    "2.1",
    'By what factor do normalise = "l1" and d_0 = 8 in place of 2 divide the paper\'s sum, about?',
    "How many ones has a mushroom's row, and how many times larger is the step?",
    21 * 4.0,
    (22 * 4.0, "Nearly: one attribute is the same for all mushrooms, and is dropped."),
    (21.0, "The step counts as well."),
    (4.0, "The length of the rows counts as well."),
    (21 + 4.0, "Two factors multiply."),
    tolerance=0.02,
)
_ask(
    "2.2",
    "n coins fall up with probability 1/2 + e under the one data set and 1/2 - e under the "
    "other. Write whole(n, e): the total variation of all of them seen together.",
    "Only the number of ups matters. Half the sum of |P(k) - P'(k)| over k.",
    _variation,
    (lambda n, e: 2 * n * e, "That is the sum. The number of ups is binomial: compare two."),
    (
        lambda n, e: min(1.0, 2 * n * e),
        "That is the sum, cut at one. The number of ups is binomial.",
    ),
    (
        lambda n, e: 1 - (1 - 2 * e) ** n,
        "That is the product bound: closer, but evidence of both signs cancels.",
    ),
    (lambda n, e: 2 * e * math.sqrt(n), "The right growth, and not yet the number."),
    cases=((1, 0.1), (4, 0.1), (25, 0.05), (100, 0.01)),
)
_ask(
    "2.3",
    "Write messages(k, seen): how many of the messages t = 0 ... seen - 1 can depend on a data "
    "point that arrives at k?",
    "A data point that arrives at k enters the gradient at k and moves the state at k + 1.",
    lambda k, seen: max(0, seen - k - 1),
    (lambda k, seen: max(0, seen - k), "The state at t is what is sent at t: before it."),
    (lambda k, seen: seen - k - 1, "Fewer than none? Try k = 100, seen = 20."),
    (lambda k, seen: seen, "A data point cannot be heard before it arrives."),
    (lambda k, seen: min(k, seen), "Those are the messages before it arrives."),
    cases=((0, 20), (10, 20), (19, 20), (100, 20)),
)
_ask(
    "2.4",
    "Write right(delta, prior): how often the best attacker is right, when the second data set "
    "has probability prior.",
    "What would you say if you heard nothing? And how much of the rest can delta win?",
    _accuracy,
    (
        lambda delta, prior: delta,
        "The attacker could always say what was more likely before: it never does worse.",
    ),
    (lambda delta, prior: (1 + delta) / 2, "Right for even odds only."),
    (
        lambda delta, prior: min(1.0, max(prior, 1 - prior) + delta),
        "Close, but delta cannot help where the answer was clear before.",
    ),
    (lambda delta, prior: max(prior, 1 - prior), "That is somebody who hears nothing."),
    cases=((0.0, 0.5), (0.3, 0.5), (0.3, 0.1), (0.4, 0.8), (1.0, 0.3)),
)
_ask(
    "3.1",
    "With weight = 0.2: does the quantised network learn, and does the other one? "
    "Answer (True or False, True or False).",
    "Two words: first the quantised network, then the other one.",
    (False, True),
    ((True, True), "Ten times the weight lets in ten times the noise. Run it."),
    ((False, False), "The twin hears no noise at all. Run it."),
    ((True, False), "Look again at which curve is which."),
)
_ask(
    "3.2",
    "How many bits does the accountant's attacker want to know, and how many pixels the "
    "painter? Answer with two numbers.",
    "The first chooses between two known images; the second paints one of 28 times 28 pixels.",
    (1, 784),
    ((784, 1), "The other way round: first the accountant's attacker."),
    ((1, 28), "An image has two sides."),
    ((168_404, 784), "That is how many coins it may look at. What does it want to know?"),
    ((1, 1), "A painter starts from nothing: it does not choose between two images."),
)
_ask(
    "3.3",
    "Write moved(y, d): the probability that eq. (3) sends a small number y, -d < y < d, as "
    "anything but 0.",
    "A number goes up with probability equal to its fraction of a cell. Then look below zero.",
    lambda y, d: abs(y) / d,
    (lambda y, d: y / d, "A probability cannot be negative: try y = -0.1."),
    (lambda y, d: 1 - abs(y) / d, "That is the probability that it is sent as 0."),
    (lambda y, d: abs(y) / (2 * d), "The neighbours of 0 are d away, not 2 d."),
    (
        lambda y, d: abs(y) / d * (1 - abs(y) / d),
        "That is the variance in units of d^2, not the probability.",
    ),
    cases=((0.0, 1.0), (0.1, 1.0), (-0.1, 1.0), (0.3, 2.0), (-1.5, 2.0)),
)
_ask(
    "3.4",
    "At what accuracy would a diverged network be drawn, if nobody marked it as diverged?",
    "It names the same digit whatever it sees. How many digits are there?",
    0.1,
    (0.0, "It still says one of the digits, and is right now and then."),
    (0.5, "There are more than two digits."),
    (1.0, "It has learnt nothing."),
    (10.0, "Write it as a share of one, not in per cent."),
    (math.nan, "The loss is not a number, but the network still names a digit."),
    tolerance=0.1,
)
_ask(
    "4.1",
    "Write models(unknowns, equations): how many models must an attacker see at least, to have "
    "as many equations as unknowns, when one gradient gives so many equations?",
    "Every model gives so many equations again, and models come whole.",
    lambda unknowns, equations: -(-unknowns // equations),
    (lambda unknowns, equations: unknowns / equations, "Models come whole."),
    (
        lambda unknowns, equations: unknowns // equations,
        "Rounded the wrong way: then some unknowns are left.",
    ),
    (lambda unknowns, equations: unknowns - equations, "Every model gives as many again."),
    (lambda unknowns, equations: equations / unknowns, "Turn it round."),
    cases=((3520, 1700), (1700, 1700), (10, 3), (7040, 1700)),
)
_ask(
    "4.2",
    "A number y = d/100 is sent by eq. (3). How many times larger is the variance of a number "
    "that lies anywhere in its cell, on average?",
    "The mean of a (1 - a) over the cell, against a (1 - a) at a = 0.01.",
    (1 / 6) / (0.01 * 0.99),
    (0.25 / (0.01 * 0.99), "That is the largest variance, not the mean over the cell."),
    ((1 / 12) / (0.01 * 0.99), "That is for rounding to the nearest point."),
    ((0.01 * 0.99) * 6, "Turn it round."),
    (0.5 * 0.5 / 0.01, "That is the middle of the cell, not the mean over the cell."),
    tolerance=0.02,
)
_ask(
    "4.3",
    "Two equations a.x and b.x with |a| = |b| = 1 and a.b = 0.99 have noise of standard "
    "deviation 1 each. How much noisier is the worst direction of x, by least squares, than "
    "for perpendicular a and b?",
    "Covariances are the inverse of ((1, 0.99), (0.99, 1)): what is its largest eigenvalue?",
    10.0,
    (100.0, "That is the variance; noise is its square root."),
    (0.1, "Turn it round: nearly equal equations say little that is new."),
    (1 / 0.99, "Look at the eigenvalues of ((1, 0.99), (0.99, 1))."),
    (1.0, "Nearly equal equations leave one direction nearly unseen."),
    tolerance=1e-3,
)
_ask(
    "4.4",
    "Alignment hides the covariance. Name the classifier that still names most people.",
    "Its name stands in identity_classifiers, and in the figure of re-identification.",
    "log-spectrum",
    ("log-covariance", "Alignment removes exactly what this one looks at."),
    ("none", "A classifier that fails may be blind. Look at the others in the table."),
    ("EEGNet", "Look at the table: one needs no network, and does better."),
)
