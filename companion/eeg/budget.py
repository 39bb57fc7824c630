"""Notebook 4: what EEG training gives away by the accountant's count, and whether its model remembers who took part.

No certificate exists for EEGNet: it needs a bound on all gradients (Assumption 3), and nobody knows one. What can be computed
is the budget of a trajectory: one agent's data point (twenty trials) replaced by another, what it receives held fixed.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
import pandas as pd
from pydantic import Field

from companion import runs
from companion.data.eeg import Recordings
from companion.eeg import training as eeg_training
from companion.eeg.training import AGENTS, RUNS_APART
from companion.params import Count, ParameterError
from ldp_core import optimizer
from ldp_core.randomness import Purpose, generator

DRAWS, CONFIDENCE = 2000, 0.99  # of the exact total variation's estimate
VARIANTS = ("unquantised", "quantised")


class Params(eeg_training.Params):
    """The training of Fig. 6, as long as its budget and its memory are looked at."""

    budget_iterations: Annotated[int, Field(ge=3)] = 60
    budget_arrivals: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)] = (0, 30)
    budget_agents: Annotated[int, Field(ge=1, le=AGENTS)] = 2
    member_iterations: Count = 60

    def check(self) -> None:
        """Raise when the parameters contradict each other, before anything is computed."""
        super().check()
        for k in self.budget_arrivals:
            if k >= self.budget_iterations - 1:
                raise ParameterError(
                    f"budget_arrivals holds {k}, which must be below budget_iterations - 1 = {self.budget_iterations - 1}: "
                    "a data point first moves the message after its arrival"
                )

    def training(self, iterations: int) -> eeg_training.Params:
        """Return the training alone, of another length."""
        own = self.model_dump(include=set(eeg_training.Params.model_fields))
        return eeg_training.Params(**own | {"iterations": iterations, "evaluate_every": iterations, "folds": (), "seeds": 1})


def compute(params: dict, data: str, test: int, agent: int, k: int) -> dict[str, np.ndarray]:
    """Return what replacing data point k of one agent changes: `paper`, `sum`, `product` `[iterations + 1]`, and at the end the
    exact total variation `exact [3]` (lower, estimate, upper) of all its messages.
    """
    import torch

    from companion.problems.eegnet_history import EEGHistory
    from ldp_core.accountant import trajectory

    torch.set_num_threads(1)
    settings = eeg_training.Params(**params)
    trials, number = eeg_training.found(settings, data), RUNS_APART * 0 + test
    oracle, algorithm = eeg_training.oracle_of(settings, trials, test, 0), settings.algorithm()
    theta_0, transcript = _start(settings, oracle, number), optimizer.Transcript()
    optimizer.run(
        algorithm, oracle, theta_0, settings.iterations, seed=settings.seed, runs=[number], observe=transcript
    )  # fmt: skip
    history = oracle.history[:, agent : agent + 1]
    modified = history.copy()
    draw = generator(settings.seed, Purpose.MODIFICATION, number, agent=agent, t=k)
    modified[0, 0, k] = draw.choice(np.unique(history), settings.samples)
    ours, theirs = (EEGHistory(oracle.network, oracle.prepared, trials.y, rows) for rows in (history, modified))
    spent = trajectory.budget(
        algorithm,
        agent,
        trajectory.received(algorithm, transcript, agent),
        ours,
        theirs,
        theta_0[0, agent][None],
        exact="monte carlo",
        samples=DRAWS,
        seed=settings.seed,
        confidence=CONFIDENCE,
    )
    exact = np.array([float(part[0, 0, 0]) for part in (spent.exact or ())[:3]])  # at the last time, of epsilon = 0
    return {"paper": spent.paper[:, 0], "sum": spent.sum[:, 0], "product": spent.product[:, 0], "exact": exact}


def run(params: Params, data: Recordings) -> pd.DataFrame:
    """Return agent, k, iterations, paper, sum, product, exact and its 99 % interval (lower, upper) at the end of training."""
    params.check()
    common = _common(params, data, params.budget_iterations)
    pieces = [
        {**common, "test": params.tests[0], "agent": agent, "k": k}
        for agent in range(params.budget_agents)
        for k in params.budget_arrivals
    ]
    results = runs.run(compute, pieces, description="the accountant's count")
    rows = []
    for piece, result in zip(pieces, results, strict=True):
        lower, exact, upper = result["exact"]
        sums = {name: float(result[name][-1]) for name in ("paper", "sum", "product")}
        named = {"agent": piece["agent"], "k": piece["k"], "iterations": params.budget_iterations}
        rows.append(named | sums | {"lower": lower, "exact": exact, "upper": upper})
    return pd.DataFrame(rows)


def compute_member(params: dict, data: str, test: int, variant: str) -> dict[str, np.ndarray]:
    """Return the trained model's mean loss on the trials of every subject, `loss [subjects]`; `test` did not take part."""
    import torch

    torch.set_num_threads(1)
    settings = eeg_training.Params(**params)
    trials = eeg_training.found(settings, data)
    oracle, full = eeg_training.oracle_of(settings, trials, test, 0), settings.algorithm()
    algorithm = optimizer.Algorithm1(full.network, full.schedules, quantised=variant == "quantised")
    theta_0 = _start(settings, oracle, 0)  # the same for all folds, as a public initial value would be
    last = optimizer.run(algorithm, oracle, theta_0, settings.iterations, seed=settings.seed, runs=[test])
    rows = np.arange(len(trials.y))
    outputs = torch.tensor(oracle.outputs(last.theta, rows, settings.iterations - 1)[0])
    labels = torch.from_numpy(trials.y)
    losses = torch.stack([torch.nn.functional.cross_entropy(own, labels, reduction="none") for own in outputs]).mean(0).numpy()
    return {"loss": np.array([losses[trials.rows([subject])].mean() for subject in settings.subjects])}


def members(params: Params, data: Recordings) -> pd.DataFrame:
    """Return how often the model names the person who did not take part: variant, hits, trials, rate, low, high (Wilson).

    One model per left-out subject. The attacker compares everybody's loss with that person's mean loss under the other models,
    and names the one whose loss stands out most. Chance is one in the number of subjects.
    """
    from companion.attacks.identity import rate

    params.check()
    common = _common(params, data, params.member_iterations)
    pieces = [{**common, "test": test, "variant": variant} for variant in VARIANTS for test in params.subjects]
    results = runs.run(compute_member, pieces, description="who took part")
    rows = []
    for variant in VARIANTS:
        loss = np.array([result["loss"] for piece, result in zip(pieces, results, strict=True) if piece["variant"] == variant])
        others = (loss.sum(axis=0) - loss) / (len(loss) - 1)
        found = rate(np.arange(len(loss)), (loss - others).argmax(axis=1))
        rows.append({"variant": variant, "hits": found.hits, "trials": found.trials, "rate": found.share,
                     "low": found.low, "high": found.high})  # fmt: skip
    return pd.DataFrame(rows)


def _start(settings: eeg_training.Params, oracle, run: int) -> np.ndarray:
    from companion.problems.eegnet_history import initial_state

    theta_0 = initial_state(oracle.network, settings.convolution_scale, seed=settings.seed, run=run)
    theta_0 = np.repeat(theta_0[None, None], AGENTS, axis=1)
    if settings.batch_norm == "fixed":
        oracle.calibrate(theta_0)
    return theta_0


def _common(params: Params, data: Recordings, iterations: int) -> dict:
    training = params.training(iterations).model_dump(exclude={"folds", "seeds"}, mode="json")
    return {"params": training, "data": data.provenance.sha256}
