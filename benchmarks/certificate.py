"""How long do a certificate and a plan take, and how does Google's accountant compare?

The same worst pair for both: a thousand messages of one coordinate at the place where a level shows
most of it (`quantizer.dearest`), moved by a few thousandths of a step. Google's PLD composes its
privacy loss distribution on a grid; ours is one line. Ratios are measured in one run.
"""

from __future__ import annotations

import math

import numpy as np

from benchmarks import best
from ldp_core import network, quantizer
from ldp_core.accountant import promise, promise_plan
from ldp_core.accountant.promise import Terms
from ldp_core.optimizer import Schedules

SHIFT, MESSAGES, LEVELS = 0.004, 1000, np.arange(-3, 5)
SETTING = {"clip": 0.1, "warm_up": 1000, "samples": 2, "copies": 2, "cone": True, "dim": 117}


def main(quick: bool = False) -> dict[str, float]:
    """Print and return the measurements; `quick` makes them small enough for a test."""
    horizon, repeats = (2000, 1) if quick else (100_000, 3)
    net, schedules = network.paper(), Schedules(300.0, 0.81, (15.0,) * 5, (0.51,) * 5)
    terms = Terms(net, schedules, **SETTING)
    seconds = {
        "certificate": best(lambda: promise.certify(terms, math.inf, horizon=horizon), repeats),
        "plan": best(
            lambda: promise_plan.plan(net, horizon, 0.1, horizon=horizon, **SETTING), repeats
        ),
    }
    for name, taken in seconds.items():
        print(f"{name}, five agents, all time, horizon {horizon}: {taken:.2f} s")
    results = {f"{name}, seconds": taken for name, taken in seconds.items()}
    results["plan / certificate"] = seconds["plan"] / seconds["certificate"]
    return results | _against_google(terms, repeats)


def _against_google(terms: Terms, repeats: int) -> dict[str, float]:
    try:
        from dp_accounting.pld import privacy_loss_distribution as pld
    except ImportError:
        print("dp_accounting is not installed: no comparison with Google's accountant")
        return {}
    theirs, ours = _google(pld), float(_ours(terms)[0])
    slow, fast = best(lambda: _google(pld), repeats), best(lambda: _ours(terms), 20 * repeats)
    print(f"{MESSAGES} messages: ours {ours:.4f} in {fast * 1e6:.0f} us, Google's {theirs:.4f}")
    print(f"  in {slow:.2f} s: {slow / fast:.0f} times faster, {ours / theirs:.2f} times the bound")
    return {"Google's PLD / ours, time": slow / fast, "ours / Google's PLD, bound": ours / theirs}


def _ours(terms: Terms) -> np.ndarray:
    return promise.hellinger(MESSAGES * promise.cost(np.array([SHIFT]), terms))


def _google(pld) -> float:
    y = quantizer.dearest(3)
    laws = [quantizer.probability(LEVELS, x, 1.0, None, 3) for x in (y, y + SHIFT)]
    kept = (laws[0] > 0) & (laws[1] > 0)
    upper, lower = (dict(enumerate(np.log(law[kept]).tolist())) for law in laws)
    one = pld.from_two_probability_mass_functions(lower, upper, value_discretization_interval=1e-4)
    return one.self_compose(MESSAGES).get_delta_for_epsilon(0.0)
