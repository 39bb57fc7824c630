"""How long do a certificate and a plan take, and how does Google's accountant compare?

The same worst pair for both: a thousand messages of one coordinate at the place where a level shows
most of it (`quantizer.dearest`), moved by a few thousandths of a step. Google's PLD composes its
privacy loss distribution on a grid; ours is one line.
"""

from __future__ import annotations

import math

import numpy as np

from benchmarks import medians
from ldp_core import network, quantizer
from ldp_core.accountant import promise, promise_plan
from ldp_core.accountant.promise import Terms
from ldp_core.optimizer import Schedules

SHIFT, MESSAGES, LEVELS = 0.004, 1000, np.arange(-3, 5)
SETTING = {"clip": 0.1, "warm_up": 1000, "samples": 2, "copies": 2, "cone": True, "dim": 117}


def main(quick: bool = False) -> dict[str, float]:
    """Return the measurements; `quick` makes them small enough for a test."""
    horizon, rounds = (2000, 1) if quick else (100_000, 3)
    net, schedules = network.paper(), Schedules(300.0, 0.81, (15.0,) * 5, (0.51,) * 5)
    terms = Terms(net, schedules, **SETTING)
    ways = {
        "certificate": lambda: promise.certify(terms, math.inf, horizon=horizon),
        "plan": lambda: promise_plan.plan(net, horizon, 0.1, horizon=horizon, **SETTING),
    }
    taken = medians(ways, rounds)
    return {f"{name}, seconds": taken[name] for name in ways} | _against_google(terms, rounds)


def _against_google(terms: Terms, rounds: int) -> dict[str, float]:
    """Return what both bounds are and how long they take, where Google's accountant is there."""
    try:
        from dp_accounting.pld import privacy_loss_distribution as pld
    except ImportError:
        return {}
    y = quantizer.dearest(3)
    laws = [quantizer.probability(LEVELS, x, 1.0, None, 3) for x in (y, y + SHIFT)]
    kept = (laws[0] > 0) & (laws[1] > 0)
    pair = [dict(enumerate(np.log(law[kept]).tolist())) for law in reversed(laws)]

    def ours() -> float:
        return float(promise.hellinger(MESSAGES * promise.cost(np.array([SHIFT]), terms))[0])

    def googles() -> float:
        one = pld.from_two_probability_mass_functions(*pair, value_discretization_interval=1e-4)
        return one.self_compose(MESSAGES).get_delta_for_epsilon(0.0)

    taken = medians({"ours": ours, "Google's": googles}, rounds)
    bounds = {"our bound": ours(), "Google's bound": googles()}
    return bounds | {"Google's PLD / ours, time": taken["Google's"] / taken["ours"]}
