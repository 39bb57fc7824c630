"""How fast is the exact total variation of a Mushrooms trajectory? Ours against a straightforward
numpy version, in one run.

Five agents, T = 1000 iterations, 232 coordinates each, 10,000 Monte Carlo samples (Fig. 3's
setting, L2-normalised rows, the first sample of the first data point replaced). The plain version
draws one uniform number for each coordinate and sample and adds up log-likelihood ratios; it is
timed on a part of the coordinates, and the ratio is per coordinate. The certain bounds of
`exact.delta` are timed beside.
"""

from __future__ import annotations

import time

import numpy as np

from companion.budget import worst
from companion.data import mushrooms, streams
from companion.problems.logistic import Logistic
from companion.problems.onehot import OneHot
from ldp_core import network, optimizer
from ldp_core.accountant import exact, trajectory
from ldp_core.accountant.monte_carlo import MonteCarlo
from ldp_core.randomness import Purpose, generator

SAMPLES, SEED, PART = 10_000, 1, 5000


def trajectories(iterations: int) -> list[exact.Pair]:
    """Return what each of the five agents' transcripts gives away about its first data point, as
    pairs of product laws."""
    data = mushrooms.load()
    features = OneHot(data.codes, data.sizes, "l2")
    rows = np.arange(features.rows)
    history = np.stack(
        [streams.stream(SEED, 0, i, iterations, 2, rows).reshape(iterations, 2) for i in range(5)]
    )
    algorithm = optimizer.Algorithm1(
        network.paper(), optimizer.paper_schedules(0.5, 0.71, 2.0, 0.01, 0.6)
    )
    transcript, start = optimizer.Transcript(), np.zeros((1, features.dim))
    oracle = Logistic(features, data.labels, history[None])
    everybody = np.zeros((1, 5, features.dim))
    optimizer.run(algorithm, oracle, everybody, iterations, seed=SEED, observe=transcript)
    laws = []
    for agent in range(5):
        received = trajectory.received(algorithm, transcript, agent)
        own = history[agent]
        row = generator(SEED, Purpose.MODIFICATION, agent=agent).choice(rows)
        sides = [
            trajectory.replay(algorithm, agent, received, Logistic(features, data.labels, x), start)
            for x in (own[None, None], worst.adjacent(own, [0], [[row, own[0, 1]]]))
        ]
        pairs = []
        for (t, theta, psi), (_, other_theta, other_psi) in zip(*sides, strict=True):
            step = algorithm.schedules.step(t)[agent]
            ours, theirs = np.hstack([theta, psi]), np.hstack([other_theta, other_psi])
            pairs.append(exact.pair(ours, theirs, step))
        laws.append(exact.joined(pairs))
    return laws


def plain(laws: exact.Pair, samples: int, random: np.random.Generator) -> float:
    """Return E_P (1 - dP'/dP)_+ of interior coordinates the straightforward way: one uniform number
    per coin."""
    loss = np.zeros(samples)
    for a, b in zip(laws.a, laws.b, strict=True):
        up = random.random(samples) < a
        loss += np.where(up, np.log(a / b), np.log((1 - a) / (1 - b)))
    return float(np.mean(-np.expm1(-np.maximum(loss, 0.0))))


def sampled(laws: exact.Pair) -> tuple[float, float]:
    """Return the interval of our Monte Carlo.

    Inputs between 0 and 1 with step 1 are their own upper probabilities.
    """
    monte_carlo = MonteCarlo(1, SAMPLES, SEED)
    monte_carlo.add(laws.a[None], laws.b[None], 1.0)
    found = monte_carlo.delta()
    return float(found.lower[0]), float(found.upper[0])


def timed(function, *arguments):
    start = time.perf_counter()
    result = function(*arguments)
    return result, time.perf_counter() - start


def main(quick: bool = False) -> dict[str, float]:
    """Print and return the measurements; `quick` makes them small enough for a test."""
    iterations = 20 if quick else 1000
    laws = trajectories(iterations)
    coordinates = sum(len(pair.a) for pair in laws)
    sampled(exact.Pair(0.0, 0.0, laws[0].a[:1000], laws[0].b[:1000]))  # compile first
    ours = [timed(sampled, pair) for pair in laws]
    certain = [timed(exact.delta, pair._replace(log_p=0.0, log_q=0.0)) for pair in laws]
    part = exact.Pair(0.0, 0.0, laws[0].a[:PART], laws[0].b[:PART])
    _, seconds = timed(plain, part, SAMPLES, generator(SEED, Purpose.MONTE_CARLO))
    per_coordinate = seconds / len(part.a)
    own, bracket = (sum(taken for _, taken in each) for each in (ours, certain))
    numpys = per_coordinate * coordinates
    print(
        f"exact total variation, 5 agents, T = {iterations}, {coordinates} coordinates that "
        f"differ, {SAMPLES} samples each"
    )
    for agent, ((lower, upper), _), ((low, high), _) in zip(range(5), ours, certain, strict=True):
        print(
            f"  agent {agent}: sampled [{lower:.4f}, {upper:.4f}] at 99 %, certain [{low:.6f}, "
            f"{high:.6f}]"
        )
    print(
        f"Monte Carlo: {own:.1f} s, plain numpy {numpys:.0f} s (from {len(part.a)} coordinates): "
        f"ratio {numpys / own:.0f}"
    )
    print(f"certain bounds: {bracket:.1f} s: ratio {numpys / bracket:.0f}")
    return {
        "plain numpy / Monte Carlo": numpys / own,
        "plain numpy / certain bounds": numpys / bracket,
    }
