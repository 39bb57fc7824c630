"""A walk through the whole core that calls every public function once; prints numbers to compare.

Run as a program it first makes scipy, numba, torch and pandas impossible to import, if it is told
so, then walks, and at the end names the public functions that it did not call.
"""

from __future__ import annotations

import importlib
import inspect
import math
import pkgutil
import sys

BLOCKED = ("scipy", "numba", "llvmlite", "torch", "pandas", "sklearn")
ASIDE = ("Algorithm.", "checks.", "Weakened.send")  # a protocol, guards


def walk() -> list:
    """Return numbers from every room."""
    import numpy as np

    from ldp_core import (
        accountant,
        checks,
        clipping,
        engine,
        network,
        optimizer,
        quantizer,
        randomness,
    )
    from ldp_core.accountant import (
        drift,
        exact,
        meaning,
        monte_carlo,
        promise,
        promise_plan,
        theorems,
        trajectory,
    )

    rng = randomness.generator(1, randomness.Purpose.SYNTHETIC)
    found: list = []
    net = network.paper(0.2)
    for other in (network.ring(3), network.exponential(5)):
        found += [other.u, other.v, other.z(3), other.rate_R, other.rate_C, other.lemma_4]
    found.append(network.random_strongly_connected(4, rng).R)
    schedules = optimizer.paper_schedules(0.5, 0.71, 2.0, 0.01, 0.6)
    checks.candidates("x", [1.0])
    checks.instance("net", net, network.Network)

    def oracle(theta, t):
        return np.tanh(theta - 0.3) / (t + 1)

    def modified(theta, t):
        return oracle(theta, t) + 0.3 / (t + 1)

    plain = optimizer.Algorithm1(net, schedules)
    transcript, start = optimizer.Transcript(), np.zeros((1, 5, 3))
    for algorithm in (
        plain,
        engine.Compiled(plain),
        engine.Compiled(optimizer.Algorithm1(net, schedules, dither=4)),
        optimizer.Algorithm1(net, schedules, degree=3, at_sent=True, box=50.0),
        optimizer.Algorithm1(net, schedules, quantised=False),
        optimizer.DPSGD(optimizer.metropolis(net), schedules),
    ):
        observe = transcript if algorithm is plain else None
        state = optimizer.run(algorithm, oracle, start, 6, seed=3, observe=observe)
        found.append(optimizer.resume(algorithm, oracle, state, 2, seed=3).theta)
    found += [len(transcript.messages), _messages(quantizer, rng)]
    found += _spent(plain, transcript, oracle, modified, trajectory, exact, monte_carlo)
    numbers = net, schedules, 1.0, 0.25
    certified = accountant.certify(*numbers, math.inf, horizon=2000)
    found += [certified.sum, certified.product, accountant.course(*numbers, 5)]
    found.append(accountant.calibrate(0.2, *numbers, 50))
    found.append(accountant.with_d_0(schedules, 3.0).d_0)
    found.append(drift.unit_drift(drift.Setting(*numbers), 5)[0])
    found += [theorems.theorem_2_1(*numbers[:3], 20).delta, theorems.power_sum(1.5)]
    second = theorems.theorem_2_2(*numbers[:3], theorems.l1_lipschitz(0.25, 3))
    found += [second.log10_delta, second.log10_smallest_d_0]
    found += [meaning.advantage(0.1), meaning.accuracy(0.1), meaning.trade_off(0.1, 0.1)]
    found.append(meaning.posterior(0.5, 0.1, 0.1))
    found += _promised(np, net, clipping, promise, promise_plan) + _attacked(np)
    return found


def _messages(quantizer, rng) -> list:
    y, coins = rng.normal(size=20), rng.random(20)
    levels = quantizer.quantise(y, 1.0, coins, None, 3)
    return [
        levels,
        quantizer.value(levels, 1.0),
        quantizer.pmf(y, 1.0, coins).upper_probability,
        quantizer.probability(levels, y, 1.0, None, 3),
        quantizer.affinity(y, y + 0.1, 1.0, None, 3),
        quantizer.total_variation(y, y + 0.1, 1.0),
        [quantizer.density(y, 2), quantizer.information(2, True), quantizer.dearest(3)],
        [quantizer.precision(3), quantizer.bits_fixed_length(levels)],
        quantizer.bits_entropy(levels),
    ]


def _spent(plain, transcript, oracle, modified, trajectory, exact, monte_carlo) -> list:
    import numpy as np

    got = trajectory.received(plain, transcript, 1)
    states = list(trajectory.replay(plain, 1, got, oracle, np.zeros((1, 3))))
    found: list = [states[-1][1], trajectory.delta_t(*(np.ones((1, 3)) * k for k in range(4)), 2.0)]
    for how in ("bracket", "monte carlo"):
        spent = trajectory.budget(
            plain, 1, got, oracle, modified, np.zeros((1, 3)), exact=how, samples=200
        )
        found += [spent.paper, spent.sum, spent.product, spent.exact[:3]]
    laws = exact.pair(np.full(40, 0.3), np.full(40, 0.35), 1.0)
    found += [exact.delta(laws, 0.1), exact.enumerated(laws.a[:3], laws.b[:3])]
    return [*found, monte_carlo.empirical_bernstein(np.linspace(0, 1, 9), 1.0, 0.1)]


def _promised(np, net, clipping, promise, promise_plan) -> list:
    options = {"clip": 0.5, "dim": 2, "warm_up": 20}
    plan = promise_plan.plan(net, 30, 0.5, horizon=500, **options)

    def per_sample(theta, t):
        return np.repeat((theta - 1.0)[:, :, None], 20 + t + 1, axis=2)

    oracle = clipping.Clipped(per_sample, 0.5, 20)
    last = plan.run(oracle, np.zeros((1, 5, 2)), 3, seed=2)
    certified = promise.certify(plan.terms, 30)
    found = [plan.certificate.delta, plan.schedules.d_0, last.theta, certified.program]
    found += [certified.profile(0.5), certified.mu, len(str(certified)), plan.terms.unit]
    return found


def _attacked(np) -> list:
    from ldp_core import audit

    y, other = np.full(6, 0.2), np.full(6, 0.4)
    blind = audit.audit(audit.sender(y, other, 1.0), 400, seed=1)
    found = [blind.lower, blind.refutes(0.5)]
    return [*found, audit.informed(y, other, 1.0, 300, seed=1, confidence=0.9).lower]


def public_functions() -> dict:
    """Return the code of every public function and method of the core, by name."""
    import ldp_core

    found = {}
    for _, name, _ in pkgutil.walk_packages(ldp_core.__path__, "ldp_core."):
        module = importlib.import_module(name)
        for key, value in vars(module).items():
            if key.startswith("_") or getattr(value, "__module__", None) != name:
                continue
            parts = vars(value).items() if inspect.isclass(value) else [("", value)]
            for part, function in parts:
                function = getattr(function, "fget", None) or getattr(
                    function, "__func__", function
                )
                code = getattr(inspect.unwrap(function), "__code__", None) if function else None
                if (
                    code is not None
                    and not part.startswith("_")
                    and name in code.co_filename.replace("/", ".")
                ):
                    found[f"{name}.{key}.{part}".rstrip(".")] = code
    return found


def main(blocked: bool) -> None:
    """Walk, print the numbers, then the public functions that were not called."""
    for name in BLOCKED if blocked else ():
        sys.modules[name] = None  # type: ignore[assignment]
    wanted, called = public_functions(), set()
    sys.setprofile(lambda frame, event, argument: called.add(frame.f_code))
    numbers = walk()
    sys.setprofile(None)
    import numpy as np

    np.set_printoptions(precision=17, floatmode="maxprec", threshold=10**6)
    print(numbers)
    missed = {name for name, code in wanted.items() if code not in called}
    print("not called:", *sorted(x for x in missed if not any(part in x for part in ASIDE)))


if __name__ == "__main__":
    main(blocked="blocked" in sys.argv)
