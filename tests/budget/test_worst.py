"""The search for the worst modification: against trying everything, and against the certificate."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from companion.budget import shards, worst
from companion.budget.params import Setting
from companion.data import mushrooms
from ldp_core import network, optimizer
from ldp_core.accountant import certificate, trajectory
from ldp_core.randomness import Purpose, generator
from tests.accountant.dense import ROWS, Dense, network_run


@pytest.fixture(scope="module")
def run():
    return network_run(8, seed=6)


def budget_of(run, agent, k, points, **options):
    """Return the budget of data point k replaced by each of `points`."""
    algorithm, history, states, transcript = run
    own, start = history[0, agent], (states[0].theta[:, agent], states[0].psi[:, agent])
    received = trajectory.received(algorithm, transcript, agent)
    oracles = Dense(own[None, None]), Dense(worst.adjacent(own, np.full(len(points), k), points))
    options |= {"modifications": len(points)}
    return trajectory.budget(algorithm, agent, received, *oracles, *start, **options)


def searched(run, agent, k, window=None):
    """Return the data point that the search finds in place of number k."""

    def score(points, until):
        return budget_of(run, agent, k, points).paper[-1 if until is None else until]

    return worst.search(score, run[1][0, agent, k], np.arange(ROWS), window)


class TestAgainstTryingEverything:
    def test_the_ascent_finds_the_best_of_all_pairs_of_rows(self, run):
        pairs = np.array(list(itertools.product(range(ROWS), repeat=2)))
        every = budget_of(run, 1, 0, pairs).paper[-1]
        found = budget_of(run, 1, 0, searched(run, 1, 0)[None]).paper[-1, 0]
        assert found == pytest.approx(every.max(), abs=1e-12)

    def test_a_short_look_is_at_most_as_good_and_better_than_chance(self, run):
        short, whole = (searched(run, 1, 3, window)[None] for window in (5, None))
        found, best = (budget_of(run, 1, 3, point).paper[-1, 0] for point in (short, whole))
        by_chance = budget_of(run, 1, 3, np.arange(ROWS).reshape(-1, 2)).paper[-1]
        assert np.median(by_chance) < found <= best + 1e-12


class TestModifications:
    @pytest.mark.parametrize("k", [-1, 10])
    def test_a_data_point_that_is_not_there(self, k):
        with pytest.raises(ValueError, match=rf"k = {k} must lie in \[0, 10\)"):
            worst.adjacent(np.zeros((10, 2), int), [k], [[1, 1]])

    def test_a_point_of_wrong_size(self):
        with pytest.raises(
            ValueError, match=r"point has shape \(1, 3\): it must be \[1 modifications, 2 samples\]"
        ):
            worst.adjacent(np.zeros((10, 2), int), [0], [[1, 1, 1]])


def products(algorithm, d_l, L1, iterations) -> np.ndarray:
    """Return the certified delta after 1, 2, ... iterations, `[time, agents]`."""
    known = algorithm.network, algorithm.schedules, d_l, L1
    return np.array([certificate.certify(*known, t + 1).product for t in range(iterations)])


class TestCertificate:
    """The certificate is never below a budget that the search found."""

    def test_on_the_small_problem(self, run):
        algorithm, *_ = run
        table = Dense(np.zeros((1, 1, 1, 1), int)).features
        d_l = np.abs(table).sum(axis=1).max()
        L1 = (np.abs(table).max(axis=1) * np.abs(table).sum(axis=1)).max() / 4
        certified = certificate.course(algorithm.network, algorithm.schedules, d_l, L1, 8)
        product = products(algorithm, d_l, L1, 8)
        for agent, k in itertools.product(range(5), range(8)):
            point = searched(run, agent, k)[None]
            found = budget_of(run, agent, k, point, exact="bracket")
            assert (found.paper[1:, 0] <= certified[:, agent]).all()
            assert (found.product[1:, 0] <= product[:, agent]).all()
            assert found.exact.lower[0] <= product[-1, agent]

    @pytest.mark.parametrize("seed", [0, 1])
    def test_on_random_problems_of_the_size_of_mnist(self, seed):
        """A linear classifier of 784 pixels and ten classes has 7850 weights; so many coordinates,
        twice an iteration.
        """
        dim, iterations, agent = 7850, 12, seed
        rng = generator(seed, Purpose.SYNTHETIC, 1)
        table = rng.random((ROWS, dim)) * (rng.random((ROWS, dim)) < 0.2)
        table /= np.abs(table).sum(axis=1, keepdims=True)
        d_l, L1 = 1.0, table.max() / 4
        algorithm = optimizer.Algorithm1(
            network.paper(), optimizer.paper_schedules(0.5, 0.71, 0.02, 0.01, 0.6)
        )
        history = rng.integers(ROWS, size=(1, 5, iterations, 2))
        theta_0, transcript = rng.normal(size=(1, 5, dim)), optimizer.Transcript()
        optimizer.run(
            algorithm, Dense(history, table), theta_0, iterations, seed=seed, observe=transcript
        )
        received = trajectory.received(algorithm, transcript, agent)
        own, start = history[0, agent], theta_0[:, agent]

        def budget(points, **options):
            changed = worst.adjacent(own, np.zeros(len(points), int), points)
            oracles = Dense(own[None, None], table), Dense(changed, table)
            options |= {"modifications": len(points)}
            return trajectory.budget(algorithm, agent, received, *oracles, start, **options)

        def score(points, until):
            return budget(points).paper[-1]

        found = budget(worst.search(score, own[0], np.arange(ROWS), None)[None], exact="bracket")
        certified = certificate.course(algorithm.network, algorithm.schedules, d_l, L1, iterations)
        assert found.paper[-1].max() > 0.1  # there is something to certify
        product = products(algorithm, d_l, L1, iterations)
        assert (found.paper[1:].max(axis=1) <= certified[:, agent]).all()
        assert (found.product[1:].max(axis=1) <= product[:, agent]).all()
        assert found.exact.lower.max() <= product[-1, agent]

    def test_on_mushrooms(self):
        """Of 60 iterations, and worse than twenty modifications by chance."""
        data, agent = mushrooms.load(quiet=True), 2
        setting = Setting(seed=4, iterations=60, normalise="l2")
        scene = shards.record(setting, data.provenance.sha256, [0])

        def spent(points, until=None):
            change = np.zeros(len(points), int), points
            return shards.spent(scene, 0, agent, *change, until=until, together=1000)

        rows, own = np.arange(scene.features.rows), scene.history[0, agent, 0]
        point = worst.search(lambda *asked: spent(*asked)[-1], own, rows, 7)
        norm = math.sqrt(len(data.sizes))  # l1 norm of an L2-normalised row; its largest entry
        known = scene.algorithm.network, scene.algorithm.schedules, norm, 1.0 / 4
        found = spent(point[None])[:, 0]
        assert (found[1:] <= certificate.course(*known, 60)[:, agent]).all()
        _, by_chance = shards.modifications(scene, 4, 0, agent, 20)
        assert found[-1] > spent(by_chance)[-1].max()
