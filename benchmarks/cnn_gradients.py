"""How good is the chunk size for the CNN's full-history gradients, and what could the machine
do?"""

from __future__ import annotations

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import medians
from companion.problems import neural, parameters
from companion.problems.cnn import CNN
from ldp_core.randomness import Purpose, generator

SEED = 0


def main(quick: bool = False) -> dict[str, float]:
    """Print and return the measurements; `quick` makes them small enough for a test."""
    agents, samples, rounds = (2, 64, 1) if quick else (5, 512, 5)
    chunks = sorted({32, neural.CHUNK} if quick else {16, 32, 64, 128, 256, neural.CHUNK})
    oracle, theta = _problem(agents, samples)
    seconds = medians({chunk: _call(oracle, theta, chunk) for chunk in chunks}, rounds)
    rates = {chunk: agents * samples / seconds[chunk] for chunk in chunks}
    best, default = max(chunks, key=rates.__getitem__), rates[neural.CHUNK]
    print(f"sample-gradients/s of the CNN, {agents} agents x {samples} samples, by chunk:")
    print("  ".join(f"{chunk}: {rates[chunk]:.0f}" for chunk in chunks))
    print(f"the default ({neural.CHUNK}) does {default / rates[best]:.0%} of the best ({best})")
    per_sample, ceiling = _flop_per_sample(), _matrix_product_rate(rounds)
    share = default * per_sample / ceiling
    print(
        f"ceiling: {per_sample / 1e6:.1f} MFLOP a sample forward and back; a matrix product does "
        f"{ceiling / 1e9:.0f} GFLOP/s; the default reaches {share:.0%} of it"
    )
    return {
        "default / best chunk": default / rates[best],
        "share of the FLOP ceiling": share,
        "CNN sample-gradients/s": default,
    }


def _problem(agents: int, samples: int) -> tuple[neural.FullHistory, np.ndarray]:
    """Return an oracle on random images of MNIST's shape, no two entries of an agent's history
    alike, and a state."""
    draw = generator(SEED, Purpose.SYNTHETIC)
    x = draw.random((agents * samples, 1, 28, 28), dtype=np.float32)
    y = draw.integers(10, size=len(x))
    history = draw.permutation(len(x)).reshape(1, agents, samples // 16, 16)
    theta = parameters.initial_states(CNN, "he", seed=SEED, runs=[0], agents=agents)
    return neural.FullHistory(CNN, x, y, history), theta


def _call(oracle: neural.FullHistory, theta: np.ndarray, chunk: int):
    """Return a function that computes the gradients over the whole history in such chunks."""
    other = neural.FullHistory(oracle.module, oracle.x, oracle.y, oracle.history, chunk=chunk)
    return lambda: other(theta, other.iterations - 1)


def _flop_per_sample() -> float:
    """Return the additions and multiplications of one sample's gradient, counted by torch
    (convolutions and products alone)."""
    module, batch = parameters.make(CNN), 8
    with FlopCounterMode(display=False) as counter:
        neural.cross_entropy(
            module(torch.zeros(batch, 1, 28, 28)), torch.zeros(batch, dtype=torch.long)
        ).sum().backward()
    return counter.get_total_flops() / batch


def _matrix_product_rate(rounds: int, side: int = 1024) -> float:
    """Return the operations a second of a plain float32 matrix product on all of torch's
    threads."""
    a = torch.ones(side, side)
    return 2 * side**3 / medians({"product": lambda: a @ a}, 3 * rounds)["product"]
