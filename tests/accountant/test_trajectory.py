"""Replaying one agent, and the budget between two of its data sets."""

from __future__ import annotations

import numpy as np
import pytest

from companion.budget.worst import adjacent
from ldp_core import optimizer
from ldp_core.accountant import trajectory
from tests.accountant.dense import DIM, Dense, network_run
from tests.reference import enumeration


@pytest.fixture(scope="module")
def three_runs():
    return network_run(25, runs=3)


@pytest.fixture(scope="module")
def one_run():
    return network_run(25)


def modified(history, agent, k, row):
    """Return the histories [1, 1, T, 2] of one agent before and after row `row` replaces its first
    sample of data point k.
    """
    own = history[0, agent]
    return own[None, None], adjacent(own, [k], [[row, own[k, 1]]])


def budget_of(run, agent=1, k=4, row=7, until=None, **more):
    algorithm, history, states, transcript = run
    before, after = modified(history, agent, k, row)
    received = trajectory.received(algorithm, transcript, agent)
    received = trajectory.Received(*(sums[:until] for sums in received))
    start = states[0].theta[:, agent], states[0].psi[:, agent]
    return trajectory.budget(
        algorithm, agent, received, Dense(before), Dense(after), *start, **more
    )


class TestReplay:
    @pytest.mark.parametrize("agent", range(5))
    def test_it_is_the_agents_own_trajectory_in_the_network(self, three_runs, agent):
        algorithm, history, states, transcript = three_runs
        received = trajectory.received(algorithm, transcript, agent)
        oracle = Dense(history[:, agent : agent + 1])
        own = trajectory.replay(
            algorithm, agent, received, oracle, states[0].theta[:, agent], states[0].psi[:, agent]
        )
        for state, (t, theta, psi) in zip(states, own, strict=True):
            assert t == state.t
            np.testing.assert_allclose(theta, state.theta[:, agent], rtol=0, atol=1e-12)
            np.testing.assert_allclose(psi, state.psi[:, agent], rtol=0, atol=1e-12)

    def test_several_agents_at_once(self, three_runs):
        algorithm, history, states, transcript = three_runs
        received = trajectory.received(algorithm, transcript, [4, 2])
        oracle = Dense(np.concatenate([history[:, 4:5], history[:, 2:3]]))
        theta_0, psi_0 = (
            np.concatenate([x[:, 4], x[:, 2]]) for x in (states[0].theta, states[0].psi)
        )
        *_, (t, theta, psi) = trajectory.replay(
            algorithm, [4] * 3 + [2] * 3, received, oracle, theta_0, psi_0
        )
        np.testing.assert_allclose(
            theta, np.concatenate([states[t].theta[:, 4], states[t].theta[:, 2]]), atol=1e-12
        )
        np.testing.assert_allclose(
            psi, np.concatenate([states[t].psi[:, 4], states[t].psi[:, 2]]), atol=1e-12
        )

    def test_it_can_start_later(self, one_run):
        algorithm, history, states, transcript = one_run
        received = trajectory.received(algorithm, transcript, 0)
        later = trajectory.replay(
            algorithm,
            0,
            received,
            Dense(history[:, :1]),
            states[9].theta[:, 0],
            states[9].psi[:, 0],
            start=9,
        )
        for state, (t, theta, _) in zip(states[9:], later, strict=True):
            assert t == state.t
            np.testing.assert_allclose(theta, state.theta[:, 0], atol=1e-12)

    def test_the_oracle_is_asked_one_time_less_than_there_are_messages(self, one_run):
        algorithm, _, _, transcript = one_run
        asked = []

        def oracle(theta, t):
            asked.append(t)
            return np.zeros_like(theta)

        received = trajectory.received(algorithm, transcript, 0)
        assert (
            len(list(trajectory.replay(algorithm, 0, received, oracle, np.zeros((1, DIM))))) == 25
        )
        assert asked == list(range(24))

    @pytest.mark.parametrize("agent", [-1, 5, 1.5])
    def test_an_agent_that_is_not_there(self, one_run, agent):
        algorithm, _, _, transcript = one_run
        with pytest.raises(ValueError, match=r"agent = .* must be in 0 \.\.\. 4"):
            trajectory.received(algorithm, transcript, agent)

    def test_a_transcript_of_another_algorithm(self, one_run):
        algorithm, _, _, transcript = one_run
        with pytest.raises(ValueError, match="messages hold no psi"):
            trajectory.received(algorithm, [transcript.messages[0]._replace(psi=None)], 0)

    def test_a_state_of_wrong_shape(self, one_run):
        algorithm, _, _, transcript = one_run
        received = trajectory.received(algorithm, transcript, 0)
        with pytest.raises(ValueError, match=r"theta_0 has shape \(3,\)"):
            next(
                trajectory.replay(
                    algorithm, 0, received, Dense(np.zeros((1, 1, 1, 1), int)), np.zeros(3)
                )
            )


class TestBudgetAgainstEnumeration:
    @pytest.mark.parametrize("k", [0, 1])
    def test_all_transcripts_of_a_tiny_run(self, k):
        """Three iterations, three coordinates: the states by eq. (4) written out, the transcripts
        by listing them.
        """
        run = network_run(3, seed=5)
        algorithm, history, states, transcript = run
        agent, m = 3, 5
        R, C = algorithm.network.R, algorithm.network.C
        sides = []
        for own in modified(history, agent, k, 11):
            oracle, theta, psi, z = (
                Dense(own),
                states[0].theta[0, agent],
                states[0].psi[0, agent],
                np.eye(m),
            )
            sent = []
            for t in range(3):
                sent.append(np.concatenate([theta, psi]))
                levels = transcript.messages[t]
                q_theta, q_psi = (x[0] * levels.step[:, None] for x in (levels.theta, levels.psi))
                gradient = oracle(theta[None, None], t)[0, 0]
                following = (1 + C[agent, agent]) * psi + 0.5 / (t + 1) ** 0.71 * gradient
                following = following + sum(C[agent, j] * q_psi[j] for j in range(m) if j != agent)
                theta = (1 + R[agent, agent]) * theta + sum(
                    R[agent, j] * q_theta[j] for j in range(m) if j != agent
                )
                theta = theta - (following - psi) / (m * z[agent, agent])
                psi, z = following, (np.eye(m) + R) @ z
            sides.append(np.array(sent))
        steps = np.array(
            [
                algorithm.schedules.d_0[agent] / (t + 1) ** algorithm.schedules.varsigma[agent]
                for t in range(3)
            ]
        )
        found = budget_of(run, agent, k, 11)
        np.testing.assert_allclose(
            found.delta_t[:, 0], np.abs(sides[0] - sides[1]).sum(axis=1) / steps, atol=1e-12
        )
        for n in range(4):
            y, other = (side[k + 1 : n].ravel() for side in sides)  # before, nothing differs
            laws = (
                enumeration.transcripts(y, other, np.repeat(steps[k + 1 : n], 2 * DIM))
                if n > k + 1
                else (np.ones(1), np.ones(1))
            )
            truth = enumeration.delta(*laws, 0.0)
            exact = budget_of(run, agent, k, 11, until=n, exact="bracket").exact
            assert exact.lower[0] == pytest.approx(truth, abs=1e-12)
            assert exact.upper[0] == pytest.approx(truth, abs=1e-12)


class TestBudget:
    def test_nothing_changes_before_the_data_point_arrives(self, one_run):
        found = budget_of(one_run, k=4)
        assert (found.delta_t[:5] == 0).all() and (found.delta_t[5:] > 0).all()
        early, late = (budget_of(one_run, k=4, exact="bracket", until=n).exact for n in (5, 6))
        assert early.upper[0] == 0 < late.lower[0]

    @pytest.mark.parametrize("agent", range(5))
    def test_paper_sum_product_exact(self, one_run, agent):
        times = [0, 3, 8, 25]
        found = budget_of(one_run, agent, k=2)
        assert (found.paper >= found.sum - 1e-12).all()
        assert (found.sum >= found.product - 1e-12).all()
        several = [budget_of(one_run, agent, k=2, exact="bracket", until=n).exact for n in times]
        upper = np.array([exact.upper for exact in several])
        assert (found.product[times] >= upper - 1e-9).all()
        assert (np.diff(upper, axis=0) >= -1e-3).all()
        np.testing.assert_allclose(found.paper[-1], found.delta_t.sum(axis=0))

    def test_sampling_agrees_with_the_bracket(self, one_run):
        """Three intervals at confidence 1 - 1e-7: a false alarm below 1e-6."""
        options = {"samples": 4000, "seed": 2, "confidence": 1 - 1e-7}
        for n in (6, 12, 25):
            certain = budget_of(one_run, exact="bracket", until=n).exact
            sampled = budget_of(one_run, exact="monte carlo", until=n, **options).exact
            assert certain.lower.shape == sampled.lower.shape == (1,)
            assert (sampled.lower <= certain.upper).all() and (certain.lower <= sampled.upper).all()
            assert (sampled.upper - sampled.lower < 0.15).all()

    def test_many_modifications_against_one_history(self, one_run):
        algorithm, history, states, transcript = one_run
        own, k, rows = (
            history[0, 2],
            np.array([0, 3, 3, 20]),
            np.array([[1, 2], [5, 9], [6, 6], [7, 8]]),
        )
        received = trajectory.received(algorithm, transcript, 2)
        start = states[0].theta[:, 2], states[0].psi[:, 2]
        many = adjacent(own, k, rows)
        together = trajectory.budget(
            algorithm,
            2,
            received,
            Dense(own[None, None]),
            Dense(many),
            *start,
            modifications=4,
            exact="bracket",
        )
        for row in range(4):
            alone = trajectory.budget(
                algorithm,
                2,
                received,
                Dense(own[None, None]),
                Dense(many[row : row + 1]),
                *start,
                exact="bracket",
            )
            np.testing.assert_allclose(together.paper[:, row], alone.paper[:, 0], atol=1e-12)
            np.testing.assert_allclose(together.product[:, row], alone.product[:, 0], atol=1e-12)
            np.testing.assert_allclose(
                together.exact.lower[..., row], alone.exact.lower[..., 0], atol=1e-9
            )

    def test_identical_data_cost_exactly_nothing(self, one_run):
        _, history, _, _ = one_run
        for exact in ("bracket", "monte carlo"):
            found = budget_of(
                one_run,
                k=3,
                row=int(history[0, 1, 3, 0]),
                exact=exact,
                samples=50,
            )
            assert found.paper[-1, 0] == found.sum[-1, 0] == found.product[-1, 0] == 0
            assert (found.exact.upper == 0).all()

    def test_no_iterations_cost_nothing(self):
        def oracle(theta, t):
            raise AssertionError("nothing is asked of an oracle")

        for exact in ("bracket", "monte carlo"):
            found = trajectory.budget(
                network_run(1)[0],
                0,
                trajectory.Received(np.zeros((0, 1, DIM)), np.zeros((0, 1, DIM))),
                oracle,
                oracle,
                np.zeros((1, DIM)),
                exact=exact,
            )
            assert found.paper.tolist() == found.product.tolist() == [[0.0]]
            assert found.exact.upper.tolist() == [0.0]

    def test_states_farther_apart_than_the_step_cost_one(self, one_run):
        algorithm, history, _, transcript = one_run
        received = trajectory.received(algorithm, transcript, 0)
        huge = Dense(history[:, :1], features=np.full((30, DIM), 1e4))
        found = trajectory.budget(
            algorithm, 0, received, Dense(history[:, :1]), huge, np.zeros((1, DIM)), exact="bracket"
        )
        assert found.product[-1, 0] == 1 and found.exact.lower[0] == 1 and found.paper[-1, 0] > 1

    def test_an_unknown_method(self, one_run):
        with pytest.raises(
            ValueError, match="exact = 'guess' must be None, 'bracket' or 'monte carlo'"
        ):
            budget_of(one_run, exact="guess")
        assert budget_of(one_run).exact is None


@pytest.mark.parametrize("options", [{"dither": 1}, {"degree": 2}])
def test_other_coins_than_those_of_eq_3_are_refused(options):
    algorithm, history, states, transcript = network_run(6)
    other = optimizer.Algorithm1(algorithm.network, algorithm.schedules, **options)
    received = trajectory.received(algorithm, transcript, 0)
    start = states[0].theta[:, 0], states[0].psi[:, 0]
    oracle = Dense(history[:, :1])
    with pytest.raises(ValueError, match=r"a budget is for the coins of eq. \(3\)"):
        trajectory.budget(other, 0, received, oracle, oracle, *start)
