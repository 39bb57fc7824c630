"""The neural oracle against its literal transcription, its samples of a history, and learning."""

import pickle

import numpy as np
import pytest
import torch
from torch import nn

from companion.problems import parameters
from companion.problems.cnn import CNN
from companion.problems.neural import FullHistory, SampledHistory
from ldp_core import network, optimizer
from ldp_core.randomness import Purpose, generator
from tests.problems.cases import CLASSES, FEATURES, ROWS, double, mlp, problem, states
from tests.reference import neural_history as reference


def convolutional():
    return nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(12, CLASSES),
    )


class TestFullHistory:
    @pytest.mark.parametrize("module", [mlp, convolutional])
    def test_equals_the_literal_loop(self, module):
        x, y, history = problem(images=module is convolutional)
        theta = states(module)
        oracle = FullHistory(double(module), x, y, history)
        oracle.chunk = 4
        for t in (0, 1, 4):
            expected = reference.gradients(
                double(module),
                torch.tensor(x),
                torch.tensor(y),
                history,
                theta,
                t,
            )
            np.testing.assert_allclose(oracle(theta, t), expected, rtol=0, atol=1e-10)
            assert np.abs(expected).max() > 1e-3

    def test_images_and_kernels_of_one_channel_are_formatted_too(self):
        # Left as they are, they make torch pool the first layer's outputs in the wrong order: 1.7
        # times slower as a whole.
        layouts = []

        class Spy(CNN):
            def forward(self, images):
                outputs = self.conv1(images)
                layouts.append((images.stride(1), self.conv1.weight.stride(1), outputs.stride(1)))
                return super().forward(images)

        x, y = np.zeros((3, 1, 28, 28), dtype=np.float32), np.zeros(3, dtype=int)
        oracle = FullHistory(Spy, x, y, np.zeros((1, 1, 1, 3), dtype=int))
        oracle(np.zeros((1, 1, oracle.dim)), 0)
        assert layouts == [(1, 1, 1)]

    def test_equals_finite_differences_of_the_loss(self):
        x, y, history = problem(runs=1, agents=1)
        theta, width = states(mlp, 1, 1), 1e-5
        oracle = FullHistory(double(mlp), x, y, history)
        gradient, rows = oracle(theta, 4), oracle.seen(4)
        for j in range(oracle.dim):
            shift = np.zeros_like(theta)
            shift[..., j] = width
            slope = (oracle.loss(theta + shift, rows) - oracle.loss(theta - shift, rows)) / (
                2 * width
            )
            assert slope[0, 0] == pytest.approx(
                gradient[0, 0, j], abs=1e-8
            )  # error: width^2 / 6 times a third derivative

    def test_chunk_size_does_not_matter(self):
        x, y, history = problem()
        theta = states(mlp)
        oracle, results = FullHistory(double(mlp), x, y, history), []
        for oracle.chunk in (1, 3, 7, 1000):
            results.append(oracle(theta, 4))
        for other in results[1:]:
            np.testing.assert_allclose(other, results[0], rtol=0, atol=1e-14)

    def test_a_repeated_sample_is_evaluated_once_and_counts_as_often_as_it_came(self):
        sizes = []

        class Counting(nn.Linear):
            def forward(self, x):
                sizes.append(len(x))
                return super().forward(x)

        x, y, _ = problem()
        history = np.array([3] * 6 + [8] * 2).reshape(1, 1, 2, 4)
        theta = states(lambda: Counting(FEATURES, CLASSES), 1, 1)
        oracle = FullHistory(double(lambda: Counting(FEATURES, CLASSES)), x, y, history)
        gradient = oracle(theta, 1)
        assert sizes == [2]
        alone = [
            FullHistory(
                double(lambda: nn.Linear(FEATURES, CLASSES)), x, y, np.full((1, 1, 1, 1), row)
            )(theta, 0)
            for row in (3, 8)
        ]
        np.testing.assert_allclose(gradient, 0.75 * alone[0] + 0.25 * alone[1], rtol=0, atol=1e-14)

    def test_single_precision_is_close_to_double(self):
        x, y, history = problem(images=True)
        theta = states(convolutional)
        single = FullHistory(convolutional, x, y, history)(theta, 4)
        exact = FullHistory(double(convolutional), x, y, history)(theta, 4)
        assert single.dtype == np.float64
        np.testing.assert_allclose(single, exact, rtol=0, atol=1e-6)

    def test_loss_and_accuracy_of_every_agent(self):
        x, y, history = problem()
        theta = states(mlp)
        oracle = FullHistory(double(mlp), x, y, history)
        oracle.chunk = 3
        rows = oracle.seen(4)
        module = double(mlp)
        for run, agent in np.ndindex(2, 3):
            reference.load(module, theta[run, agent])
            picked = rows[run, agent]
            outputs = module(torch.tensor(x[picked])).detach()
            expected = nn.functional.cross_entropy(outputs, torch.tensor(y[picked])).item()
            assert oracle.loss(theta, rows)[run, agent] == pytest.approx(expected, abs=1e-12)
            assert oracle.accuracy(theta, rows)[run, agent] == np.mean(
                outputs.numpy().argmax(axis=1) == y[picked]
            )
        np.testing.assert_array_equal(
            oracle.loss(theta, rows[0]), oracle.loss(theta, np.stack([rows[0], rows[0]]))
        )
        np.testing.assert_array_equal(
            oracle.accuracy(theta, np.arange(9)),
            oracle.accuracy(theta, np.tile(np.arange(9), (2, 3, 1))),
        )

    def test_whole_number_labels_of_any_type_and_read_only_arrays(self):
        x, y, history = problem()
        y = y.astype(np.uint8)
        for array in (x, y, history):
            array.flags.writeable = False
        theta = np.broadcast_to(states(mlp, 1, 1), (2, 3, parameters.layout(mlp()).dim))
        assert FullHistory(mlp, x, y, history)(theta, 0).shape == theta.shape

    def test_survives_pickling(self):
        x, y, history = problem()
        theta = states(mlp)
        oracle = FullHistory(mlp, x, y, history)
        before = oracle(theta, 4)
        assert np.array_equal(pickle.loads(pickle.dumps(oracle))(theta, 4), before)


class TestSampledHistory:
    def test_is_unbiased(self):
        """The mean of 1000 estimates from 16 draws each, at 1000 addresses, against the full
        history.

        A coordinate of an entry's gradient lies in an interval of known width, and the 16,000 draws
        are independent. Hoeffding: one of the dim coordinates is off by more than width sqrt(log(2
        dim / alpha) / 32,000) with probability < alpha = 1e-6.
        """
        runs, draws, alpha = 1000, 16, 1e-6
        x, y, history = problem(runs=1, agents=1)
        theta = states(mlp, 1, 1)
        full = FullHistory(double(mlp), x, y, history)
        exact = full(theta, 4)[0, 0]
        histories = np.repeat(history, runs, axis=0)
        many = SampledHistory(double(mlp), x, y, histories, sample=draws, seed=3)
        estimate = many(np.repeat(theta, runs, axis=0), 4)[:, 0].mean(axis=0)
        entries = history.reshape(-1, 1, 1, 1)
        each = FullHistory(double(mlp), x, y, entries)(np.repeat(theta, len(entries), axis=0), 0)[
            :, 0
        ]
        allowed = np.ptp(each, axis=0) * np.sqrt(
            np.log(2 * len(exact) / alpha) / (2 * runs * draws)
        )
        assert (np.abs(estimate - exact) <= allowed).all()
        # The test can fail: it would notice the newest data point missing, and repetitions counted
        # once.
        assert (np.abs(full(theta, 3)[0, 0] - exact) > allowed).any()
        once = FullHistory(double(mlp), x, y, np.unique(history).reshape(1, 1, 1, -1))(theta, 0)
        assert (np.abs(once[0, 0] - exact) > allowed).any()

    def test_draws_from_the_whole_history_with_replacement(self):
        x, y, history = problem()
        oracle = SampledHistory(mlp, x, y, history, sample=7, seed=2, runs=[4, 9])
        draw = generator(2, Purpose.HISTORY, 9, agent=1, t=3)
        rows = history[1, 1, :4].ravel()[draw.integers(16, size=7)]
        picked = np.broadcast_to(rows, (2, 3, 7))[:, :, None]
        expected = FullHistory(mlp, x, y, picked)(states(mlp), 0)
        assert np.array_equal(oracle(states(mlp), 3)[1, 1], expected[1, 1])

    def test_a_short_history_is_taken_as_it_is(self):
        x, y, history = problem()
        oracle = SampledHistory(mlp, x, y, history, sample=8, seed=2)
        full = FullHistory(mlp, x, y, history)
        assert np.array_equal(oracle(states(mlp), 1), full(states(mlp), 1))
        assert not np.array_equal(oracle(states(mlp), 2), full(states(mlp), 2))


def test_algorithm_1_learns_with_this_oracle():
    """Five agents, two runs, three Gaussian classes: the loss on everything seen falls to below a
    half at every agent."""
    draw = generator(4, Purpose.SYNTHETIC)
    y = draw.integers(CLASSES, size=ROWS)
    x = 3.0 * np.eye(FEATURES)[y] + 0.3 * draw.normal(size=(ROWS, FEATURES))
    history = draw.integers(ROWS, size=(2, 5, 60, 4))
    algorithm = optimizer.Algorithm1(
        network.paper(0.2), optimizer.paper_schedules(0.5, 0.71, 0.05, 0.001, 0.6)
    )
    oracle = FullHistory(mlp, x, y, history)
    theta_0 = parameters.initial_states(mlp, seed=1, runs=range(2), agents=5)
    last = optimizer.run(algorithm, oracle, theta_0, 60, seed=1)
    before, after = (oracle.loss(theta, oracle.seen(59)) for theta in (theta_0, last.theta))
    assert (after < before / 2).all()
    assert (
        oracle.accuracy(last.theta, np.arange(ROWS)) > oracle.accuracy(theta_0, np.arange(ROWS))
    ).all()
