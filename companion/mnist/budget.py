"""Notebook 3: what the network's first messages give away about one image, by the accountant.

As in notebook 2: an agent's messages under its own images and with one of them replaced, what it
receives held fixed. The network has 84,202 parameters, so an iteration sends 168,404 coins. For
every number of iterations

    paper (sum of |y - y'| / d)  >=  upper  >=  exact total variation  >=  lower.

These are budgets of trajectories that happened. Theorem 2 promises nothing for this network: it
needs a bound on the gradients (Assumption 3), and none is known. `promise` makes one by clipping.
"""

from __future__ import annotations

import numpy as np

from companion.mnist import training
from companion.mnist.digits import digits
from companion.mnist.params import Training
from companion.params import AGENTS
from ldp_core import optimizer
from ldp_core.accountant import exact, trajectory
from ldp_core.accountant.monte_carlo import MonteCarlo
from ldp_core.randomness import Purpose, generator

UNDECIDED = 0.02  # certain bounds farther apart are sharpened by sampling
DRAWS, CONFIDENCE = 400, 0.99  # of the privacy loss, and of each interval made from them
MEASURES = ("paper", "lower", "upper")


def compute(params: dict, data: str, repeat: int) -> dict[str, np.ndarray]:
    """Return the MEASURES `[iterations + 1]` of one replaced image, and the `agent` that had it.

    The image is of the first data point. Entry n is the budget of the first n iterations.
    `diverged` is the iteration at which the network itself ceased to be finite, or -1; the series
    are then empty. Agent, image and replacement depend on (seed, repeat) alone.
    """
    setting, rows = Training(**params), digits(data)[2]
    draw = generator(setting.seed, Purpose.MODIFICATION, repeat)
    agent, replacement = int(draw.integers(AGENTS)), int(draw.integers(rows))
    acquired = training.history(setting, repeat, rows)
    transcript = optimizer.Transcript()
    clock = training.Clock(training.oracle_of(setting, repeat, data, acquired))
    theta_0, options = training.start(setting, repeat), {"seed": setting.seed, "runs": [repeat]}
    algorithm, found = setting.algorithm(), {"agent": np.array(agent), "diverged": np.array(-1)}

    def oracle(theta: np.ndarray, t: int) -> np.ndarray:  # the last gradient reaches no message
        return clock(theta, t) if t + 1 < setting.iterations else np.zeros_like(theta)

    try:
        options |= {"observe": transcript}
        optimizer.run(algorithm, oracle, theta_0, setting.iterations, **options)
    except ArithmeticError:
        nothing = {name: np.empty(0) for name in MEASURES}
        return {**found, **nothing, "diverged": np.array(clock.now)}
    own = acquired[:, agent : agent + 1]
    other = own.copy()
    other[0, 0, 0, 0] = replacement
    got = trajectory.received(algorithm, transcript, agent)
    alone = [training.oracle_of(setting, repeat, data, rows) for rows in (own, other)]
    start = theta_0[:, agent]
    replays = [trajectory.replay(algorithm, agent, got, oracle, start) for oracle in alone]
    series = _measured(algorithm, agent, *replays, seed=setting.seed)
    return found | {name: np.array(values) for name, values in series.items()}


def _measured(algorithm: optimizer.Algorithm1, agent: int, ours, theirs, seed: int) -> dict:
    """Return the MEASURES after 0, 1, ... iterations of two replays."""
    found: dict[str, list[float]] = {name: [0.0] for name in MEASURES}
    parts, drawn = [], MonteCarlo(1, DRAWS, seed, CONFIDENCE)
    for (t, *states), (_, *others) in zip(ours, theirs, strict=True):
        y, other = (np.concatenate(pair, axis=1)[0] for pair in (states, others))
        step = algorithm.schedules.step(t)[agent]
        found["paper"].append(found["paper"][-1] + float(np.abs(y - other).sum() / step))
        parts.append(exact.pair(y, other, step))
        low, high = _certain(exact.joined(parts))
        if low < 1.0 - UNDECIDED:  # once it is near one it stays there, and needs no more draws
            drawn.add(y[None], other[None], step)
        if high - low > UNDECIDED:
            low, _, high = (float(bound[0]) for bound in drawn.delta()[:3])
        found["lower"].append(max(low, 0.0))  # no minus zero
        found["upper"].append(max(high, 0.0))
    return found


def _certain(laws) -> tuple[float, float]:
    affinity, overlap = exact.log_affinity(laws.a, laws.b), exact.log_overlap(laws.a, laws.b)
    return exact.certain_bounds(laws.log_p, laws.log_q, affinity, overlap)
