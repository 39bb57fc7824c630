"""Notebook 4: what EEGNet reaches when one computer holds all training trials and uses Adam: the mark for Fig. 6."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from companion.eeg.training import RUNS_APART, Params, found, network_of
from companion.params import Count, Positive
from ldp_core.randomness import Purpose, generator

SMOOTHED = 5  # epochs


class CentralParams(Params):
    """Adam on mini-batches. One training subject is kept to say after which epoch to stop; the one left out has no say."""

    epochs: Count = 50
    batch: Count = 64
    rate: Positive = 1e-3


def compute(params: dict, data: str, test: int, run: int) -> dict:
    """Return `epoch`, `accuracy` on the left-out subject and `validation` on the kept one, `[epochs + 1]` each.

    EEGNet is trained on all others. The one kept is the next in the list of subjects, the first after the last. Max-norm
    constraints as its authors use them, no dropout. At the test normalisation takes the statistics of all training trials,
    as it does for the agents.
    """
    import numpy as np
    import torch

    from companion.problems.eegnet_fast import Loss
    from companion.problems.eegnet_history import initial_state, prepare

    torch.set_num_threads(1)
    settings = CentralParams(**params)
    trials, number = found(settings, data), RUNS_APART * run + test
    network = network_of(settings.model_copy(update={"batch_norm": "batch"}), trials, max_norm=True)
    start = initial_state(network, seed=settings.seed, run=number)
    torch.nn.utils.vector_to_parameters(torch.tensor(start, dtype=torch.float32), network.parameters())
    prepared, labels, loss = prepare(network, trials.x), torch.from_numpy(trials.y), Loss(network)
    tested, kept = (torch.from_numpy(trials.rows([subject])) for subject in (test, following(test, settings.subjects)))
    trained = torch.from_numpy(np.setdiff1d(np.arange(len(trials.y)), torch.cat([tested, kept]).numpy()))
    named = dict(network.named_parameters())
    adam = torch.optim.Adam(network.parameters(), lr=settings.rate)

    def accuracies() -> list[float]:
        with torch.no_grad():
            statistics = network.statistics(prepared.select(trained))
            outputs = [network(prepared.select(rows), statistics=statistics) for rows in (tested, kept)]
        return [float((o.argmax(1) == labels[rows]).double().mean()) for o, rows in zip(outputs, (tested, kept), strict=True)]

    reached = [accuracies()]
    for epoch in range(settings.epochs):
        order = generator(settings.seed, Purpose.DATA, number, agent=1000, t=epoch).permutation(len(trained))
        for rows in trained[torch.from_numpy(order)].split(settings.batch):
            adam.zero_grad()
            loss(named, loss.trials(prepared.select(rows), labels[rows], torch.ones(len(rows)))).backward()
            adam.step()
            network.constrain()
        reached.append(accuracies())
    accuracy, validation = np.array(reached).T
    return {"epoch": np.arange(settings.epochs + 1), "accuracy": accuracy, "validation": validation}


def following(subject: int, subjects: Sequence[int]) -> int:
    """Return the subject that comes next in the list, the first after the last."""
    return subjects[(list(subjects).index(subject) + 1) % len(subjects)]


def stopped(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `table` (subject, run, epoch, accuracy, validation) after which each training stops.

    That is where the kept subject's accuracy, averaged over SMOOTHED epochs, is largest; the left-out one has no say.
    """
    smooth = table.groupby(["subject", "run"])["validation"].transform(
        lambda v: v.rolling(SMOOTHED, center=True, min_periods=1).mean()
    )
    return table.loc[smooth.groupby([table["subject"], table["run"]]).idxmax()]
