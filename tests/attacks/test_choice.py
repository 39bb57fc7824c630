"""The rule that keeps a model of the gradient: right on average, and it keeps the better one."""

import numpy as np
import pytest

from companion.attacks import choice, eavesdropper
from companion.attacks.rounds import Fit
from ldp_core import network, optimizer
from ldp_core.optimizer import Algorithm1, paper_schedules
from ldp_core.randomness import Purpose, generator

DIM, ROUNDS = 400, 8
SCHEDULES = paper_schedules(0.5, 0.61, d_0=0.3, d_0_slope=0.0, varsigma=0.5)
ALGORITHM = Algorithm1(network.paper(0.02), SCHEDULES, dither=99)


def heard(decay, run):
    """Return (messages, the first gradients `[agents, dim]`) of gradients that shrink by decay."""
    gradient = generator(0, Purpose.SYNTHETIC, run).normal(size=(1, 5, DIM))
    transcript = optimizer.Transcript()
    optimizer.run(
        ALGORITHM, lambda theta, t: gradient * np.exp(-decay * t), np.zeros((1, 5, DIM)),
        ROUNDS + 1, seed=0, runs=[run], observe=transcript,
    )  # fmt: skip
    return transcript.messages, gradient[0]


def error(messages, truth, **options):
    found = eavesdropper.gradients(ALGORITHM, messages, parts=[slice(0, DIM)], **options)
    return np.square(found.gradient[0, 0] - truth).mean()


@pytest.mark.parametrize("decay", [0.0, 0.5])
def test_the_kept_model_is_no_worse_than_the_better(decay):
    """2000 coordinates: a choice between nearly equal models may cost a tenth."""
    messages, truth = heard(decay, 0)
    kept = error(messages, truth, drift=None, models=choice.kept)
    shrinking, constant = (error(messages, truth, drift=drift) for drift in (None, 0.0))
    assert kept <= 1.1 * min(shrinking, constant)
    assert (shrinking < 0.5 * constant) == (decay > 0)


def test_differences_of_risk_are_differences_of_error():
    """The constant model against none, gradients that shrink: the estimate, a mean over five agents
    and 400 coordinates, comes within a tenth of the truth."""
    messages, truth = heard(0.5, 1)
    variance = eavesdropper.message_variances(messages)[:, :, 0]
    residual = eavesdropper.unexplained(ALGORITHM, messages)[:, 0]
    times, fits = [message.t for message in messages], (choice.CONSTANT, choice.FREE)
    risks = [
        np.mean([
            choice.risk(ALGORITHM, times, i, variance[:, :, i], residual[:, i], fit)
            for i in range(5)
        ])
        for fit in fits
    ]  # fmt: skip
    errors = [error(messages, truth, drift=fit.drift) for fit in fits]
    assert risks[0] - risks[1] == pytest.approx(errors[0] - errors[1], rel=0.1)
    assert fits == (Fit(0.0), Fit(np.inf))
