"""The quantizer: where a number can land, and what landing there tells."""

from __future__ import annotations

from companion.explore import compared
from companion.publish.play.pages.controls import Control
from ldp_core import quantizer

TITLE = "The quantizer"
QUESTION = "What does one rounded number tell?"
TEXT = (
    "A number y is sent as one of the grid points near it, chosen by a coin, so that it is right "
    "on average. Had the data been others, the number would have been y′. Could a listener tell? "
    "Drag y and y′, and watch how much the two sets of bars overlap."
)
TRY = (
    "Put y on a grid point. How many bars are left, and what is the variance?",
    "Move y′ across a grid point. When is the message a proof?",
    "Raise the degree to 3. What is gained, and what does it cost?",
)
CONTROLS = (
    Control("y", "the number y", 0.3, -2.0, 2.0, 0.01),
    Control("other", "the number y′, had the data been others", 0.7, -2.0, 2.0, 0.01),
    Control("step", "step d of the grid", 1.0, 0.25, 2.0, 0.05),
    Control("dither", "dither: the grid is moved by so many steps", 0.0, 0.0, 0.99, 0.01),
    Control("degree", "degree of the coin (1 is the paper's)", 1, 1, 4, 1),
)


def answer(y, other, step, dither, degree):
    """Return the laws of both messages, side by side."""
    ours = quantizer.law(y, step, dither, degree)
    theirs = quantizer.law(other, step, dither, degree)
    return compared(ours, theirs, step, dither)
