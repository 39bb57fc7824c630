"""Networks, schedules and constants that the accountant's tests share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ldp_core import network
from ldp_core.accountant import drift
from ldp_core.network import Network
from ldp_core.optimizer import Schedules, paper_schedules
from ldp_core.randomness import Purpose, generator

PAPER = network.paper()
SCHEDULES = paper_schedules(0.5, 0.71, 2.0, 0.01, 0.6)
ROW = np.ones(21) / np.sqrt(21)  # an L2-normalised one-hot row of Mushrooms
D_L = float(np.abs(ROW).sum())  # logistic loss: |sigmoid - label| <= 1
L1 = float(ROW.max() * np.abs(ROW).sum() / 4)  # and its Hessian is at most a a' / 4


def random_case(seed: int, largest: int = 4) -> tuple[np.random.Generator, Network, Schedules]:
    """A random network and random schedules inside the paper's range."""
    rng = generator(seed, Purpose.SYNTHETIC)
    agents = int(rng.integers(2, largest + 1))
    graph = network.random_strongly_connected(
        agents, rng, density=rng.random(), mixing=rng.uniform(0.05, 0.95)
    )
    nu = rng.uniform(0.55, 0.99)
    d_0 = np.exp(rng.uniform(-1, 4, agents))
    return (
        rng,
        graph,
        Schedules(
            float(np.exp(rng.uniform(-2, 1))), nu, d_0, rng.uniform(0.501, nu - 0.01, agents)
        ),
    )


class Apart(NamedTuple):
    """Bounds of ||theta_t - theta_t'||_1 and ||psi_t - psi_t'||_1, each `[time, agents]`."""

    theta: np.ndarray
    psi: np.ndarray


def sensitivity_bound(graph, schedules, d_l, lipschitz, T, **options) -> Apart:
    """Return (e_t, p_t) for t = 0 ... T - 1."""
    setting = drift.Setting(graph, schedules, d_l, lipschitz, **options)
    theta, psi, _ = drift.unit_drift(setting, T)
    return Apart(*(drift.times(setting.d_l, 2.0 * bound[:-1]) for bound in (theta, psi)))
