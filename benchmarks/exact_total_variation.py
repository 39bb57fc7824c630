"""How fast is the exact total variation of a transcript? Ours against a straightforward numpy
version.

As many coordinates as an agent's first data point moves in 1000 iterations of Fig. 3, and 10,000
Monte Carlo samples. The plain version draws one uniform number for each coordinate and sample and
adds up log-likelihood ratios; it is timed on a part of the coordinates, and the ratio is per
coordinate. The certain bounds of `exact.delta` are timed beside.
"""

from __future__ import annotations

import numpy as np

from benchmarks import medians
from ldp_core.accountant import exact
from ldp_core.accountant.monte_carlo import MonteCarlo
from ldp_core.randomness import Purpose, generator

SAMPLES, SEED, PART, APART = 10_000, 1, 2000, 5e-4


def main(quick: bool = False) -> dict[str, float]:
    """Return the measurements; `quick` makes them small enough for a test."""
    random = generator(SEED, Purpose.MONTE_CARLO)
    a = random.random(5_000 if quick else 200_000) * (1.0 - APART)
    b = a + APART * random.random(len(a))

    def sampled() -> None:
        found = MonteCarlo(1, SAMPLES, SEED)
        found.add(a[None], b[None], 1.0)  # inputs of step 1 are their own upper probabilities
        found.delta()

    def plain() -> float:
        loss = np.zeros(SAMPLES)
        for ours, theirs in zip(a[:PART], b[:PART], strict=True):
            up = random.random(SAMPLES) < ours
            loss += np.where(up, np.log(ours / theirs), np.log((1 - ours) / (1 - theirs)))
        return float(np.mean(-np.expm1(-np.maximum(loss, 0.0))))

    ways = {"Monte Carlo": sampled, "certain bounds": lambda: exact.delta(exact.pair(a, b, 1.0))}
    taken = medians(ways | {"plain": plain}, 1 if quick else 3)
    whole = taken["plain"] * len(a) / PART
    return {f"plain numpy / {name}": whole / taken[name] for name in ways}
