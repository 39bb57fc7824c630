"""How long do the dithered certificate, its calibration and `plan` take, and what does the compiled loop gain?"""

from __future__ import annotations

import math
import time

import numpy as np

from companion.problems.constants import logistic
from ldp_core import network
from ldp_core.accountant import calibrate_dithered, certify, certify_dithered, drift_kernel, plan, sensitivity
from ldp_core.accountant.drift import DriftSetting, drift
from ldp_core.optimizer import Schedules

DIM, WARM_UP, TARGET = 116, 1000, 0.1


def main(quick: bool = False) -> dict[str, float]:
    """Print and return the measurements; `quick` makes them small enough for a test."""
    horizon, repeats = (2000, 1) if quick else (100_000, 5)
    graph, constants = network.paper(), logistic(21, "l2")
    schedules = Schedules(0.5, 0.71, (1.24,) * 5, (0.51,) * 5)
    options = {"dim": DIM, "warm_up": WARM_UP, "horizon": horizon}
    questions = {
        "undithered certificate": lambda: certify(
            graph, schedules, constants.l1, constants.lipschitz, math.inf, warm_up=WARM_UP, horizon=horizon
        ),
        "dithered certificate": lambda: certify_dithered(graph, schedules, constants, math.inf, **options),
        "calibration": lambda: calibrate_dithered(TARGET, graph, schedules, constants, math.inf, **options),
        "plan": lambda: plan(graph, math.inf, TARGET, constants, **options),
    }
    seconds = {name: _best(question, repeats) for name, question in questions.items()}
    for name, taken in seconds.items():
        print(f"{name}, five agents, all time, horizon {horizon}: {taken:.3f} s")
    results = {f"{name} / undithered certificate": taken / seconds["undithered certificate"] for name, taken in seconds.items()}
    setting = DriftSetting.of(graph, schedules, constants, warm_up=WARM_UP)
    steps = min(horizon, 4000)
    compiled, plain = _best(lambda: drift(setting, steps), repeats), _plain_seconds(setting, steps)
    results["compiled loop, times faster"] = plain / compiled
    print(f"{steps} iterations of the recursion: {plain / compiled:.0f} times faster compiled than in plain Python")
    by_sum = certify(graph, schedules, constants.l1, constants.lipschitz, math.inf, warm_up=WARM_UP, horizon=horizon).sum.max()
    ours = certify_dithered(graph, schedules, constants, math.inf, **options).delta.max()
    results["paper's composition / certificate"] = float(by_sum / ours)
    print(f"the same sensitivities without dither, summed as in the paper: {by_sum:.3g}; certified with it: {ours:.3g}")
    return results


def _best(function, repeats: int) -> float:
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def _plain_seconds(setting: DriftSetting, steps: int) -> float:
    """Return seconds of the uncompiled loop for all agents, as `drift` would call it."""
    inverse, _ = sensitivity.inverse_mz(setting.network, steps)
    t = np.arange(steps)
    seen = setting.warm_up + t + 1.0
    entry = setting.constants[0]
    norms = np.array([entry.l1, entry.linf])
    moved = np.multiply.outer(entry.slope * norms, norms[::-1]).ravel()
    series = (setting.schedules.lam(t), 1.0 / seen, (seen - 1.0) / seen)
    start = time.perf_counter()
    for i in range(setting.network.agents):
        drift_kernel._follow(0.8, 0.8, 0.2, True, True, 1e-9, entry.l1, entry.linf, moved, 0.0, *series, inverse[:, i])
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
