"""The network: who is heard, and how fast everybody agrees."""

from __future__ import annotations

import math

from companion.publish.play.pages.controls import Control
from ldp_core import network

TITLE = "The network"
QUESTION = "Who is heard, and how fast do all agree?"
TEXT = (
    "Along the arrows of R an agent pulls its neighbours' models, along those of C it pushes its "
    "tracker. Choose an agent, then another one, to draw an arrow or to take it away. The size of "
    "an agent is how much its voice counts in the end: u in R, v in C."
)
TRY = (
    "Take away 4 → 0 in R. Which assumption breaks, and for whom?",
    "Raise the weights of the arrows into agent 2 until the page refuses. What is the rule?",
    "Make u equal for all agents, with as few arrows as you can.",
)
AGENTS = 5
WEIGHT = 0.2
R_EDGES = [[j, i, WEIGHT] for j, i in network.PAPER_R_EDGES]
C_EDGES = [[j, i, WEIGHT] for j, i in network.PAPER_C_EDGES]
CONTROLS = (Control("weight", "weight of the next arrow", WEIGHT, 0.05, 0.6, 0.05),)


def answer(R_edges, C_edges):
    """Return u, v and the rates of a network, or the assumption that it breaks."""
    net = network.from_edges(AGENTS, R_edges, C_edges)
    rates = {"R": speed(net.rate_R), "C": speed(net.rate_C)}
    return {"u": net.u, "v": net.v, **rates}


def speed(rate: float) -> dict[str, float]:
    """Return the factor by which disagreement shrinks in a step, and the steps that halve it."""
    return {"rate": rate, "half": math.log(0.5) / math.log(rate) if rate > 0 else 0.0}
