"""What delta means, against enumeration of all tests an attacker can make."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldp_core.accountant.meaning import accuracy, advantage, posterior, trade_off
from ldp_core.randomness import Purpose, generator

probabilities = st.floats(0, 1)


def some_pair(seed, size=5):
    rng = generator(seed, Purpose.SYNTHETIC)
    P, P_other = rng.dirichlet(np.full(size, 0.5), 2)
    return P, P_other, float(np.abs(P - P_other).sum() / 2)


def every_test(P, P_other):
    """False alarm and miss rates of all 2**n tests without randomisation."""
    for alarm in itertools.product([False, True], repeat=len(P)):
        yield P[list(alarm)].sum(), 1 - P_other[list(alarm)].sum()


@pytest.mark.parametrize("seed", range(20))
def test_no_test_beats_the_bounds_and_the_best_accuracy_is_attained(seed):
    P, P_other, delta = some_pair(seed)
    tests = np.array(list(every_test(P, P_other)))
    assert (tests[:, 1] >= trade_off(tests[:, 0], delta) - 1e-12).all()
    assert (1 - tests[:, 1] - tests[:, 0]).max() == pytest.approx(advantage(delta))
    assert (1 - tests.mean(axis=1)).max() == pytest.approx(accuracy(delta))
    for prior in (0.1, 0.5, 0.8):
        right = prior * (1 - tests[:, 1]) + (1 - prior) * (1 - tests[:, 0])
        assert right.max() <= accuracy(delta, prior) + 1e-12
        raised = tests[(tests[:, 0] + 1 - tests[:, 1]) > 0]
        alarm = prior * (1 - raised[:, 1])
        assert (
            alarm / (alarm + (1 - prior) * raised[:, 0])
            <= posterior(prior, delta, raised[:, 0].clip(0, 1)) + 1e-9
        ).all()


@pytest.mark.parametrize("delta", [0.0, 0.2, 0.9, 1.0])
def test_the_mechanism_that_leaks_with_probability_delta_attains_everything(delta):
    P, P_other = np.array([1 - delta, delta, 0.0]), np.array([1 - delta, 0.0, delta])
    for alpha, beta in ((0.0, 1 - delta), (1 - delta, 0.0)):
        assert trade_off(alpha, delta) == pytest.approx(beta)
        assert any(np.allclose(pair, (alpha, beta)) for pair in every_test(P, P_other))
    for prior in (0.2, 0.5, 0.7):
        assert np.maximum(prior * P_other, (1 - prior) * P).sum() == pytest.approx(
            accuracy(delta, prior)
        )


def test_the_trade_off_is_a_straight_line():
    alpha = np.linspace(0, 1, 11)
    assert np.allclose(trade_off(alpha, 0.3), np.maximum(0, 0.7 - alpha))


@settings(max_examples=200, deadline=None)
@given(probabilities, st.floats(0, 3), probabilities)
def test_the_trade_off_is_its_own_inverse_and_falls(alpha, delta, prior):
    beta = float(trade_off(alpha, delta))
    assert 0 <= beta <= 1 and trade_off(min(1.0, alpha + 0.1), delta) <= beta
    if beta > 0:
        assert trade_off(beta, delta) == pytest.approx(alpha, abs=1e-9)
    assert 0.5 <= accuracy(delta, prior) <= 1
    assert prior - 1e-12 <= posterior(prior, delta, alpha) <= 1


def test_vacuous_bounds_allow_everything():
    for delta in (1.0, 434.0, math.inf):
        assert accuracy(delta) == 1.0 and advantage(delta) == 1.0 and trade_off(0.0, delta) == 0.0
        assert posterior(0.01, delta, 0.0) == 1.0


def test_nothing_leaks_nothing_is_learnt():
    assert accuracy(0.0) == 0.5 and accuracy(0.0, 0.3) == 0.7 and trade_off(0.4, 0.0) == 0.6
    assert posterior(0.3, 0.0, 0.0) == 0.3 and posterior(0.3, 0.0, 0.5) == pytest.approx(0.3)
    assert posterior(0.0, 0.5, 0.0) == 0.0
    assert posterior(0.25, 0.0, 5e-324) == 0.25


def test_the_accountant_needs_numpy_only():
    code = (
        "import sys, ldp_core.accountant; "
        "sys.exit(bool({'scipy', 'numba', 'torch', 'pandas'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: accuracy(-0.1), "delta = -0.1 must not be negative"),
        (lambda: accuracy(math.nan), "delta = nan"),
        (lambda: accuracy(0.1, 1.1), r"prior = 1.1 must lie in \[0, 1\]"),
        (lambda: trade_off(math.nan, 0.1), "alpha = nan"),
        (lambda: posterior([0.1, 2.0], 0.1, 0.1), "prior = 2.0"),
    ],
)
def test_errors_name_the_parameter(call, message):
    with pytest.raises(ValueError, match=message):
        call()
