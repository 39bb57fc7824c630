"""Lower bounds from one run: the paper's own number, the limits, and a mechanism that is known."""

import numpy as np
import pytest

from companion.attacks import onerun
from ldp_core import network
from ldp_core.optimizer import Algorithm1, paper_schedules
from ldp_core.randomness import Purpose, generator


def test_the_published_example_is_reproduced():
    """Appendix D of arXiv:2305.08846: 75 of 100 guesses right, 1000 canaries, delta = 1e-4."""
    assert onerun.least_epsilon(1000, 100, 75, 1e-4) == pytest.approx(0.673, abs=5e-4)


def test_bounds_and_tail_agree():
    delta = onerun.least_delta(200, 200, 130)
    assert onerun.tail(200, 200, 130, 0.0, delta) == pytest.approx(onerun.LEVEL)
    epsilon = onerun.least_epsilon(200, 200, 130, 1e-3)
    assert onerun.tail(200, 200, 130, epsilon, 1e-3) == pytest.approx(onerun.LEVEL)


def test_chance_proves_nothing_and_one_run_never_more_than_its_level():
    assert onerun.least_delta(1000, 1000, 500) == 0.0 == onerun.least_epsilon(1000, 1000, 500)
    assert onerun.tail(10, 10, 0, 0.0, 0.0) == 1.0 and onerun.least_epsilon(10, 10, 0) == 0.0
    assert all(onerun.least_delta(m, m, m) < onerun.LEVEL for m in (10, 100, 1000))


def test_randomised_response_is_bounded_rightly():
    """Each coin is told with probability e / (1 + e): 200 runs of 300 coins. The bound of epsilon
    exceeds 1 in 5 % of runs at most; more than 20 of 200 would be a false alarm of 0.2 %."""
    random = generator(0, Purpose.MONTE_CARLO)
    right = random.binomial(300, 1 / (1 + np.exp(-1.0)), size=200)
    bounds = np.array([onerun.least_epsilon(300, 300, int(v)) for v in right])
    assert (bounds > 1.0).sum() <= 20 and np.median(bounds) > 0.6


def test_halfway_states_are_those_of_other_gradients():
    """What is received is held fixed: eq. (4) with another gradient, step by step."""
    schedules = paper_schedules(0.5, 0.71, d_0=2.0, d_0_slope=0.0, varsigma=0.6)
    algorithm, dim = Algorithm1(network.paper(0.2), schedules), 3
    random = generator(0, Purpose.SYNTHETIC)
    true = other = algorithm.init(random.normal(size=(1, 5, dim)))
    halfway = onerun.Halfway(algorithm, dim)
    for t in range(4):
        assert np.allclose(halfway.beside(true).theta, other.theta)
        assert np.allclose(halfway.beside(true).psi, other.psi)
        gradient, change = random.normal(size=(2, 1, 5, dim))
        messages = algorithm.send(true, algorithm.coins(0)([0], t, dim))
        halfway.move(true, change[0])
        true, other = (
            algorithm.move(state, add, messages)
            for state, add in ((true, gradient), (other, gradient + change))
        )


def test_the_surest_are_guessed():
    scores = np.array([[0.1, -3.0], [2.0, 0.0]])
    assert onerun.guessed(scores, 2).tolist() == [[False, True], [True, False]]
