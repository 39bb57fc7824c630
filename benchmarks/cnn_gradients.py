"""How good is the chunk size for the CNN's full-history gradients?"""

from __future__ import annotations

import numpy as np

from benchmarks import medians
from companion.problems import neural, parameters
from companion.problems.cnn import CNN
from ldp_core.randomness import Purpose, generator

SEED = 0


def main(quick: bool = False) -> dict[str, float]:
    """Return sample-gradients a second by chunk; `quick` makes them small enough for a test.

    Of random images of MNIST's shape, no two entries of an agent's history alike.
    """
    agents, samples, rounds = (2, 64, 1) if quick else (5, 512, 5)
    draw = generator(SEED, Purpose.SYNTHETIC)
    x = draw.random((agents * samples, 1, 28, 28), dtype=np.float32)
    y = draw.integers(10, size=len(x))
    history = draw.permutation(len(x)).reshape(1, agents, samples // 16, 16)
    theta = parameters.initial_states(CNN, "he", seed=SEED, runs=[0], agents=agents)

    def gradients(chunk: int):
        oracle = neural.FullHistory(CNN, x, y, history)
        oracle.chunk = chunk
        return lambda: oracle(theta, oracle.iterations - 1)

    chunks = {32, neural.CHUNK} if quick else {16, 32, 64, 128, 256, neural.CHUNK}
    taken = medians({chunk: gradients(chunk) for chunk in sorted(chunks)}, rounds)
    best = {"default / best chunk": min(taken.values()) / taken[neural.CHUNK]}
    return best | {f"a second, chunk {chunk}": len(x) / taken[chunk] for chunk in taken}
