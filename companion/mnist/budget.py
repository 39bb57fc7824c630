"""Notebook 3: what the messages of the network's first iterations give away about one image, counted by the accountant.

As in notebook 2: an agent's messages under its own images and with one of them replaced, what it receives held fixed. The
network has 84,202 parameters, so an iteration sends 168,404 coins. For every number of iterations

    paper (sum of |y - y'| / d)  >=  upper  >=  exact total variation  >=  lower.

These are budgets of trajectories that happened. A certificate, which holds for all images beforehand, does not exist here: it
needs a bound on the gradients (Assumption 3), and none is known for this network.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
import pandas as pd
from pydantic import Field

from companion import runs
from companion.data import mnist as images
from companion.mnist import shards as mnist
from companion.params import Count, ParameterError, Positive
from ldp_core import optimizer
from ldp_core.accountant import exact, trajectory
from ldp_core.accountant.fourier import log_affinity
from ldp_core.accountant.monte_carlo import MonteCarlo
from ldp_core.randomness import Purpose, generator

UNDECIDED = 0.02  # certain bounds farther apart are sharpened by sampling
DRAWS, CONFIDENCE = 400, 0.99  # of the privacy loss, and of each interval made from them
MEASURES = ("paper", "lower", "upper")


class Params(mnist.Setting):
    """Which quantisation steps, how many images at a time, how long; a case is one image of one agent replaced."""

    budget_scales: Annotated[tuple[Positive, ...], Field(min_length=1)] = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0)
    budget_samples: Annotated[tuple[Count, ...], Field(min_length=1)] = (1, 20)
    budget_iterations: Annotated[int, Field(ge=2)] = 6
    budget_repeats: Count = 1

    def check(self, data: images.MNIST) -> None:
        """Raise when one of the settings makes no sense."""
        if len(set(self.budget_scales)) < len(self.budget_scales):
            raise ParameterError(f"budget_scales = {list(self.budget_scales)} must be all different")
        for setting in self.settings():
            setting.check(data)

    def settings(self) -> list[mnist.Setting]:
        """Return a setting for every scale and number of images: the whole history, d_0 and its slope times the scale."""
        short = {"iterations": self.budget_iterations, "evaluate_every": self.budget_iterations, "history_sample": 0}
        return [
            self.at(**short, samples=samples, d_0=scale * self.d_0, d_0_slope=scale * self.d_0_slope)
            for samples in self.budget_samples
            for scale in self.budget_scales
        ]


def compute(params: dict, data: str, repeat: int) -> dict[str, np.ndarray]:
    """Return the MEASURES `[iterations + 1]` of one replaced image of the first data point, and the `agent` that had it.

    Entry n is the budget of the first n iterations. `diverged` is the iteration at which the network itself ceased to be
    finite, or -1; the series are then empty. Agent, image and replacement depend on (seed, repeat) alone.
    """
    setting = mnist.Setting(**params)
    algorithm, rows = setting.algorithm(), mnist.digits(data)[2]
    agents = algorithm.network.agents
    draw = generator(setting.seed, Purpose.MODIFICATION, repeat)
    agent, replacement = int(draw.integers(agents)), int(draw.integers(rows))
    acquired = mnist.history(setting, repeat, rows, agents)
    theta_0, transcript, clock = mnist.start(setting, repeat, agents), optimizer.Transcript(), _Clock()
    try:
        watched = clock.watch(mnist.oracle_of(setting, repeat, data, acquired))
        optimizer.run(algorithm, watched, theta_0, setting.iterations, seed=setting.seed, runs=[repeat], observe=transcript)
    except ArithmeticError:
        return {name: np.empty(0) for name in MEASURES} | {"agent": np.array(agent), "diverged": np.array(clock.now)}
    own = acquired[:, agent : agent + 1]
    other = own.copy()
    other[0, 0, 0, 0] = replacement
    got = trajectory.received(algorithm, transcript, agent)
    replays = [
        trajectory.replay(algorithm, agent, got, mnist.oracle_of(setting, repeat, data, history), theta_0[:, agent])
        for history in (own, other)
    ]
    found = {name: np.array(series) for name, series in _measured(algorithm, agent, *replays, seed=setting.seed).items()}
    return found | {"agent": np.array(agent), "diverged": np.array(-1)}


class _Clock:
    """Knows the iteration at which an oracle was asked last."""

    now = 0

    def watch(self, oracle: optimizer.Oracle) -> optimizer.Oracle:
        def asked(theta: np.ndarray, t: int) -> np.ndarray:
            self.now = t
            return oracle(theta, t)

        return asked


def _measured(algorithm: optimizer.Algorithm1, agent: int, ours, theirs, seed: int) -> dict[str, list[float]]:
    """Return the MEASURES after 0, 1, ... iterations of two replays."""
    paper, parts, drawn = [0.0], [], MonteCarlo(1, DRAWS, seed, CONFIDENCE)
    lower, upper = [0.0], [0.0]
    for (t, *states), (_, *others) in zip(ours, theirs, strict=True):
        y, other = (np.concatenate(pair, axis=1)[0] for pair in (states, others))
        step = algorithm.schedules.step(t)[agent]
        paper.append(paper[-1] + float(np.abs(y - other).sum() / step))
        parts.append(exact.pair(y, other, step))
        laws = exact.joined(parts)
        affinity, overlap = log_affinity(laws.a, laws.b), exact.log_overlap(laws.a, laws.b)
        low, high = exact.certain_bounds(laws.log_p, laws.log_q, affinity, overlap)
        if low < 1.0 - UNDECIDED:  # once it is near one it stays there, and needs no more draws
            drawn.add(y[None], other[None], step)
        if high - low > UNDECIDED:
            low, _, high = (float(bound[0]) for bound in drawn.delta()[:3])
        lower.append(max(low, 0.0))  # no minus zero
        upper.append(max(high, 0.0))
    return {"paper": paper, "lower": lower, "upper": upper}


def run(params: Params, data: images.MNIST) -> pd.DataFrame:
    """Return the budgets as a table: samples, scale, d_0, repeat, agent, T, the MEASURES, diverged (-1, or when).

    A network that diverged has one row, with T its last iteration and no measures.
    """
    params.check(data)
    cases = [(setting, repeat) for setting in params.settings() for repeat in range(params.budget_repeats)]
    pieces = [{"params": setting.model_dump(), "data": data.provenance.sha256, "repeat": repeat} for setting, repeat in cases]
    results = runs.run(compute, pieces, description=f"budgets of {len(pieces)} replaced images")
    tables = [
        _table(result).assign(
            samples=setting.samples, scale=setting.d_0 / params.d_0, d_0=setting.d_0, repeat=repeat, agent=int(result["agent"])
        )
        for (setting, repeat), result in zip(cases, results, strict=True)
    ]
    return pd.concat(tables, ignore_index=True)


def last(budgets: pd.DataFrame) -> pd.DataFrame:
    """Return the budgets after all iterations, medians over repeats: samples, scale, the MEASURES, `diverged` (how many)."""
    final = budgets[(budgets["T"] == budgets["T"].max()) | (budgets["diverged"] >= 0)]
    grouped = final.groupby(["samples", "scale"])
    table = grouped[list(MEASURES)].median()
    table["diverged"] = grouped["diverged"].apply(lambda when: int((when >= 0).sum()))
    return table.reset_index()


def curve(table: pd.DataFrame, samples: int, scales: Sequence[float]) -> pd.DataFrame:
    """Return delta against the scale for figures of attacks: scale, delta, label; `table` as `last` returns it."""
    own = table[(table["samples"] == samples) & table["scale"].isin(scales)].dropna(subset=["paper"])
    exactly = own.assign(delta=(own["lower"] + own["upper"]) / 2, label="exact total variation of one image")
    return pd.concat([own.assign(delta=own["paper"], label="the paper's sum"), exactly])[["scale", "delta", "label"]]


def _table(result: dict[str, np.ndarray]) -> pd.DataFrame:
    diverged = int(result["diverged"])
    if diverged >= 0:
        return pd.DataFrame([dict.fromkeys(MEASURES, np.nan) | {"T": diverged, "diverged": diverged}])
    series = {name: result[name] for name in MEASURES}
    return pd.DataFrame({**series, "T": np.arange(len(result["paper"])), "diverged": diverged})
