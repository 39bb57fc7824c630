"""The search for the worst modification: against trying everything, and against the certificate."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from companion.budget import worst
from ldp_core import network, optimizer
from ldp_core.accountant import certificate, trajectory
from ldp_core.randomness import Purpose, generator
from tests.accountant.dense import ROWS, Dense, network_run


@pytest.fixture(scope="module")
def run():
    return network_run(8, seed=6)


def arguments(run, agent=1):
    algorithm, history, states, transcript = run
    received = trajectory.received(algorithm, transcript, agent)
    return (
        algorithm,
        agent,
        received,
        Dense,
        history[0, agent],
        np.arange(ROWS),
        states[0].theta[:, agent],
        states[0].psi[:, agent],
    )


def everything(run, agent=1):
    """Return (k, sample, row) and the paper's final sum of every replacement of one sample, one
    budget each.
    """
    algorithm, agent, received, problem, history, rows, *start = arguments(run, agent)
    found = {}
    for k, sample, row in itertools.product(range(len(history)), range(2), rows):
        point = history[k].copy()
        point[sample] = row
        after = problem(worst.adjacent(history, [k], [point]))
        budget = trajectory.budget(
            algorithm, agent, received, problem(history[None, None]), after, *start
        )
        found[k, tuple(point.tolist())] = budget.paper[-1, 0]
    return found


class TestAgainstTryingEverything:
    def test_an_exhaustive_search_finds_the_maximum_and_says_so(self, run):
        truth = everything(run)
        found = worst.search(*arguments(run), points=range(8), finalists=5, batch=17)
        assert found.method.startswith(
            "exhaustive: all 30 rows in each of the 2 samples of every data point"
        )
        assert found.evaluated == 8 * 2 * ROWS
        for position, largest in enumerate(sorted(truth.values(), reverse=True)[:5]):
            assert found.budget.paper[-1, position] == pytest.approx(largest, abs=1e-12)
            assert truth[found.k[position], tuple(found.point[position].tolist())] == pytest.approx(
                largest, abs=1e-12
            )

    def test_a_bounded_search_says_so_and_stays_below(self, run):
        largest = max(everything(run).values())
        found = worst.search(*arguments(run), points=(0, 3), screening=2, finalists=3)
        assert found.method == (
            "bounded: all 30 rows in each of the 2 samples of data points 0, 3, "
            "by the paper's sum over the 2 iterations after arrival"
        )
        assert found.budget.paper[-1].max() <= largest + 1e-12

    def test_the_screening_score_is_the_budget(self, run):
        """Started from the state at which the data point arrives, the sum is the same as from the
        beginning.
        """
        found = worst.search(*arguments(run), points=(5,), finalists=60)
        order = found.budget.paper[-1]
        assert (np.diff(order) <= 1e-12).all()  # sorted by the score of the search
        assert np.array_equal(found.paper, order)

    def test_replacing_the_whole_data_point_is_at_least_as_bad(self, run):
        one = worst.search(*arguments(run), points=(0,), finalists=1)
        both = worst.search(*arguments(run), points=(0,), finalists=1, whole=True)
        algorithm, agent, received, problem, history, rows, *start = arguments(run)
        pairs = np.array(list(itertools.product(rows, rows)))
        after = problem(worst.adjacent(history, np.zeros(len(pairs), int), pairs))
        every = trajectory.budget(
            algorithm,
            agent,
            received,
            problem(history[None, None]),
            after,
            *start,
            modifications=len(pairs),
        )
        assert both.budget.paper[-1, 0] == pytest.approx(
            every.paper[-1].max()
        )  # the ascent finds the best of all 900 here
        assert both.budget.paper[-1, 0] >= one.budget.paper[-1, 0]
        assert "coordinate ascent" in both.method and both.method.startswith("bounded")


class TestWarmUp:
    def test_a_data_point_collected_before_the_first_message_arrives_at_time_zero(self, run):
        """Five data points collected in advance: the scores of the search are the budgets of the
        whole run.
        """
        algorithm, agent, received, _, _, rows, *start = arguments(run)
        history = generator(22, Purpose.DATA).integers(ROWS, size=(13, 2))

        def problem(histories):
            return Dense(histories, warm_up=5)

        found = worst.search(
            algorithm,
            agent,
            received,
            problem,
            history,
            rows,
            *start,
            points=(2, 9),
            warm_up=5,
            finalists=4 * ROWS,
        )
        assert (np.diff(found.budget.paper[-1]) <= 1e-12).all() and len(found.k) == 4 * ROWS - 2
        assert (
            found.budget.delta_t[1, found.k == 2] > 0
        ).sum() == 2 * ROWS - 2  # all but the original itself
        assert (found.budget.delta_t[:5, found.k == 9] == 0).all() and (
            found.budget.delta_t[5, found.k == 9] > 0
        ).any()


class TestMeasures:
    def test_every_measure_has_its_worst(self, run):
        found = worst.search(*arguments(run), points=(0, 2), finalists=6, exact="bracket")
        for measure in ("paper", "sum", "product"):
            series = getattr(found.budget, measure)[-1]
            assert series[found.worst(measure)] == series.max()
        exact = found.budget.exact.estimate
        assert exact[found.worst("exact")] == exact.max() > 0

    def test_what_is_refused(self, run):
        found = worst.search(*arguments(run), finalists=1)
        with pytest.raises(ValueError, match="measure = 'exact' needs a search with"):
            found.worst("exact")
        with pytest.raises(ValueError, match="measure = 'size' must be one of"):
            found.worst("size")


class TestModifications:
    def test_random_ones_follow_the_papers_protocol(self):
        history = np.arange(20).reshape(10, 2)
        k, point = worst.random_modifications(
            history, np.arange(100, 105), generator(1, Purpose.MODIFICATION), 500
        )
        assert set(k.tolist()) == set(range(10)) and set(point.ravel().tolist()) == set(
            range(100, 105)
        )
        changed = worst.adjacent(history, k, point)[:, 0] != history
        assert (
            changed.any(axis=2).sum(axis=1) == 1
        ).all()  # Definition 2: exactly one data point differs

    @pytest.mark.parametrize("k", [-1, 10])
    def test_a_data_point_that_is_not_there(self, k):
        with pytest.raises(ValueError, match=rf"k = {k} must lie in \[0, 10\)"):
            worst.adjacent(np.zeros((10, 2), int), [k], [[1, 1]])

    def test_a_point_of_wrong_size(self):
        with pytest.raises(
            ValueError, match=r"point has shape \(1, 3\): it must be \[1 modifications, 2 samples\]"
        ):
            worst.adjacent(np.zeros((10, 2), int), [0], [[1, 1, 1]])


class TestRefusals:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"points": ()}, "points is empty"),
            ({"points": (8,)}, r"k = 8 must lie in \[0, 8\)"),
            ({"finalists": 0}, "finalists = 0 must be at least 1"),
            ({"screening": 0}, "screening = 0 must be at least 1"),
        ],
    )
    def test_options(self, run, options, message):
        with pytest.raises(ValueError, match=message):
            worst.search(*arguments(run), **options)

    def test_nothing_was_sent(self, run):
        algorithm, agent, received, *others = arguments(run)
        nothing = trajectory.Received(received.theta[:0], received.psi[:0])
        with pytest.raises(ValueError, match="received is empty"):
            worst.search(algorithm, agent, nothing, *others)


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
        for agent in range(5):
            found = worst.search(
                *arguments(run, agent),
                points=range(8),
                finalists=3,
                whole=True,
                exact="bracket",
            )
            assert (found.budget.paper[1:].max(axis=1) <= certified[:, agent]).all()
            assert (found.budget.product[1:].max(axis=1) <= product[:, agent]).all()
            assert found.budget.exact.lower.max() <= product[-1, agent]

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
        found = worst.search(
            algorithm,
            agent,
            trajectory.received(algorithm, transcript, agent),
            lambda histories: Dense(histories, table),
            history[0, agent],
            np.arange(ROWS),
            theta_0[:, agent],
            points=(0,),
            whole=True,
            finalists=1,
            exact="bracket",
        )
        certified = certificate.course(algorithm.network, algorithm.schedules, d_l, L1, iterations)
        assert found.budget.paper[-1].max() > 0.1  # there is something to certify
        product = products(algorithm, d_l, L1, iterations)
        assert (found.budget.paper[1:].max(axis=1) <= certified[:, agent]).all()
        assert (found.budget.product[1:].max(axis=1) <= product[:, agent]).all()
        assert found.budget.exact.lower.max() <= product[-1, agent]

    def test_on_mushrooms(self):
        from companion.data import mushrooms, streams
        from companion.problems.logistic import Logistic
        from companion.problems.onehot import OneHot

        data = mushrooms.load(quiet=True)
        features, iterations, agent = OneHot(data.codes, data.sizes, "l2"), 60, 2
        algorithm = optimizer.Algorithm1(
            network.paper(), optimizer.paper_schedules(0.5, 0.71, 2.0, 0.01, 0.6)
        )
        rows = np.arange(features.rows)
        history = np.stack(
            [streams.stream(4, 0, i, iterations, 2, rows).reshape(iterations, 2) for i in range(5)]
        )
        transcript, theta_0 = optimizer.Transcript(), np.zeros((1, 5, features.dim))
        optimizer.run(
            algorithm,
            Logistic(features, data.labels, history[None]),
            theta_0,
            iterations,
            seed=4,
            observe=transcript,
        )

        def problem(histories):
            return Logistic(features, data.labels, histories)

        received = trajectory.received(algorithm, transcript, agent)
        found = worst.search(
            algorithm,
            agent,
            received,
            problem,
            history[agent],
            rows,
            theta_0[0, :1],
            whole=True,
            screening=6,
            finalists=4,
        )
        norm, largest = (
            math.sqrt(21.0),
            1.0 / math.sqrt(21.0),
        )  # l1 norm and largest entry of an L2-normalised row
        certified = certificate.course(
            algorithm.network, algorithm.schedules, norm, largest * norm / 4, iterations
        )
        assert found.evaluated >= 4 * features.rows
        assert (found.budget.paper[1:].max(axis=1) <= certified[:, agent]).all()
        k, point = worst.random_modifications(
            history[agent], rows, generator(4, Purpose.MODIFICATION), 20
        )
        by_chance = trajectory.budget(
            algorithm,
            agent,
            received,
            problem(history[agent][None, None]),
            problem(worst.adjacent(history[agent], k, point)),
            theta_0[0, :1],
            modifications=20,
        )
        assert found.budget.paper[-1].max() > by_chance.paper[-1].max()
