"""The neural oracle against its literal transcription, and what it promises: bits, threads, memory
formats, errors."""

import pickle

import numpy as np
import pytest
import torch
from torch import nn

from companion.problems import parameters
from companion.problems.cnn import CNN
from companion.problems.neural import FullHistory, SampledHistory, cross_entropy
from ldp_core import network, optimizer
from ldp_core.randomness import Purpose, generator
from tests.reference import neural_history as reference

ROWS, FEATURES, CLASSES = 30, 6, 3


def mlp():
    return nn.Sequential(nn.Linear(FEATURES, 5), nn.Tanh(), nn.Linear(5, CLASSES))


def convolutional():
    return nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(12, CLASSES),
    )


def problem(runs=2, agents=3, points=5, samples=4, images=False, seed=1):
    """Return x, y and a history of row numbers drawn with replacement."""
    draw = generator(seed, Purpose.SYNTHETIC)
    x = draw.normal(size=(ROWS, 1, 4, 4) if images else (ROWS, FEATURES))
    return (
        x,
        draw.integers(CLASSES, size=ROWS),
        draw.integers(ROWS, size=(runs, agents, points, samples)),
    )


def states(module, runs=2, agents=3, seed=1):
    return parameters.initial_states(
        module, "pytorch", seed=seed, runs=range(runs), agents=agents, same=False
    )


class TestFullHistory:
    @pytest.mark.parametrize("module", [mlp, convolutional])
    def test_equals_the_literal_loop(self, module):
        x, y, history = problem(images=module is convolutional)
        theta = states(module)
        oracle = FullHistory(module, x, y, history, dtype=torch.float64, chunk=4)
        for t in (0, 1, 4):
            expected = reference.gradients(
                parameters.make(module).double(),
                cross_entropy,
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

    def test_warm_up_counts_data_points_before_the_first_message(self):
        x, y, history = problem()
        theta = states(mlp)
        late = FullHistory(mlp, x, y, history, dtype=torch.float64, warm_up=3)
        assert late.iterations == 2
        expected = reference.gradients(
            parameters.make(mlp).double(),
            cross_entropy,
            torch.tensor(x),
            torch.tensor(y),
            history,
            theta,
            1,
            warm_up=3,
        )
        np.testing.assert_allclose(late(theta, 1), expected, rtol=0, atol=1e-10)

    def test_a_real_loss_on_real_targets(self):
        def squared(outputs, targets):
            return ((outputs - targets) ** 2).sum(dim=1)

        x, _, history = problem()
        y = generator(2, Purpose.SYNTHETIC).normal(size=(ROWS, CLASSES))
        theta = states(mlp)
        oracle = FullHistory(mlp, x, y, history, loss=squared, dtype=torch.float64)
        expected = reference.gradients(
            parameters.make(mlp).double(),
            squared,
            torch.tensor(x),
            torch.tensor(y),
            history,
            theta,
            4,
        )
        np.testing.assert_allclose(oracle(theta, 4), expected, rtol=0, atol=1e-10)

    def test_equals_finite_differences_of_the_loss(self):
        x, y, history = problem(runs=1, agents=1)
        theta, width = states(mlp, 1, 1), 1e-5
        oracle = FullHistory(mlp, x, y, history, dtype=torch.float64)
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
        results = [
            FullHistory(mlp, x, y, history, dtype=torch.float64, chunk=c)(theta, 4)
            for c in (1, 3, 7, 1000)
        ]
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
        oracle = FullHistory(
            lambda: Counting(FEATURES, CLASSES), x, y, history, dtype=torch.float64
        )
        gradient = oracle(theta, 1)
        assert sizes == [2]
        alone = [
            FullHistory(
                lambda: nn.Linear(FEATURES, CLASSES),
                x,
                y,
                np.full((1, 1, 1, 1), row),
                dtype=torch.float64,
            )(theta, 0)
            for row in (3, 8)
        ]
        np.testing.assert_allclose(gradient, 0.75 * alone[0] + 0.25 * alone[1], rtol=0, atol=1e-14)

    def test_single_precision_is_close_to_double(self):
        x, y, history = problem(images=True)
        theta = states(convolutional)
        single = FullHistory(convolutional, x, y, history)(theta, 4)
        double = FullHistory(convolutional, x, y, history, dtype=torch.float64)(theta, 4)
        assert single.dtype == np.float64
        np.testing.assert_allclose(single, double, rtol=0, atol=1e-6)

    def test_loss_and_accuracy_of_every_agent(self):
        x, y, history = problem()
        theta = states(mlp)
        oracle = FullHistory(mlp, x, y, history, dtype=torch.float64, chunk=3)
        rows = oracle.seen(4)
        module = parameters.make(mlp).double()
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


class TestBits:
    """Run r is the same to the last bit whatever the threads and the batch of runs."""

    def cnn(self):
        draw = generator(5, Purpose.SYNTHETIC)
        x, y = draw.random((150, 1, 28, 28), dtype=np.float32), draw.integers(10, size=150)
        return x, y, draw.integers(150, size=(3, 2, 3, 40))

    def test_torch_threads_of_the_caller_do_not_matter_and_are_given_back(self):
        x, y, history = self.cnn()
        theta = parameters.initial_states(CNN, seed=1, runs=range(3), agents=2)
        before = torch.get_num_threads()
        try:
            results = []
            for threads in (1, 2):
                torch.set_num_threads(threads)
                results.append(FullHistory(CNN, x, y, history)(theta, 0))
                assert torch.get_num_threads() == threads
        finally:
            torch.set_num_threads(before)
        assert np.array_equal(*results)

    def test_a_batch_of_runs_against_each_run_alone(self):
        x, y, history = self.cnn()
        theta = parameters.initial_states(CNN, seed=1, runs=range(3), agents=2)
        together = FullHistory(CNN, x, y, history)(theta, 2)
        for run in range(3):
            alone = FullHistory(CNN, x, y, history[run : run + 1])(theta[run : run + 1], 2)
            assert np.array_equal(alone[0], together[run])

    def test_single_precision_may_choose_another_winner_and_seldom_does(self):
        """Two numbers under a pool that differ in the last bit of float32: the processor decides
        which one wins.

        It moves the gradient of one image, so the mean over up to 120 by less than 1 %; most agents
        see no such image.
        """
        x, y, history = self.cnn()
        theta = parameters.initial_states(CNN, seed=1, runs=range(3), agents=2)
        exact, single = (
            FullHistory(CNN, x, y, history, dtype=dtype)(theta, 2)
            for dtype in (torch.float64, torch.float32)
        )
        away = np.linalg.norm(single - exact, axis=-1) / np.linalg.norm(exact, axis=-1)
        assert np.median(away) < 1e-5 and away.max() < 1e-2

    def test_sampled_history_in_any_batch_and_order(self):
        x, y, history = problem(runs=4)
        theta = states(mlp, runs=4)
        together = SampledHistory(mlp, x, y, history, sample=5, seed=2, runs=[3, 8, 1, 6])(theta, 4)
        order = [2, 0]
        part = SampledHistory(mlp, x, y, history[order], sample=5, seed=2, runs=[1, 3])(
            theta[order], 4
        )
        assert np.array_equal(part, together[order])

    def test_torch_has_one_thread_while_it_computes(self):
        threads = []

        class Watching(nn.Linear):
            def forward(self, x):
                threads.append(torch.get_num_threads())
                return super().forward(x)

        x, y, history = problem()
        module = parameters.make(lambda: Watching(FEATURES, CLASSES))
        before = torch.get_num_threads()
        try:
            torch.set_num_threads(2)
            FullHistory(module, x, y, history, chunk=1)(states(module), 4)
            assert torch.get_num_threads() == 2
        finally:
            torch.set_num_threads(before)
        assert set(threads) == {1}

    def test_torch_global_generator_is_left_alone(self):
        torch.manual_seed(3)
        before = torch.get_rng_state()
        x, y, history = problem()
        FullHistory(mlp, x, y, history)(states(mlp), 4)
        assert torch.equal(torch.get_rng_state(), before)

    def test_a_caller_without_gradients_gets_gradients(self):
        x, y, history = problem()
        expected = FullHistory(mlp, x, y, history)(states(mlp), 4)
        with torch.no_grad():
            assert np.array_equal(FullHistory(mlp, x, y, history)(states(mlp), 4), expected)

    def test_the_module_itself_is_not_changed(self):
        x, y, history = problem()
        module = parameters.make(mlp)
        before = parameters.flatten(module)
        FullHistory(module, x, y, history)(states(mlp), 4)
        assert np.array_equal(parameters.flatten(module), before)


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
        full = FullHistory(mlp, x, y, history, dtype=torch.float64)
        exact = full(theta, 4)[0, 0]
        many = SampledHistory(
            mlp,
            x,
            y,
            np.repeat(history, runs, axis=0),
            sample=draws,
            seed=3,
            dtype=torch.float64,
        )
        estimate = many(np.repeat(theta, runs, axis=0), 4)[:, 0].mean(axis=0)
        entries = history.reshape(-1, 1, 1, 1)
        each = FullHistory(mlp, x, y, entries, dtype=torch.float64)(
            np.repeat(theta, len(entries), axis=0), 0
        )[:, 0]
        allowed = np.ptp(each, axis=0) * np.sqrt(
            np.log(2 * len(exact) / alpha) / (2 * runs * draws)
        )
        assert (np.abs(estimate - exact) <= allowed).all()
        # The test can fail: it would notice the newest data point missing, and repetitions counted
        # once.
        assert (np.abs(full(theta, 3)[0, 0] - exact) > allowed).any()
        once = FullHistory(mlp, x, y, np.unique(history).reshape(1, 1, 1, -1), dtype=torch.float64)(
            theta, 0
        )
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


class TestBatchNorm:
    def module(self):
        return nn.Sequential(
            nn.Linear(FEATURES, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, CLASSES)
        )

    def test_is_refused_while_it_trains(self):
        x, y, history = problem()
        with pytest.raises(
            ValueError, match=r"layer '1': batch statistics make samples influence each other"
        ):
            FullHistory(self.module, x, y, history)

    def test_is_accepted_when_it_is_frozen(self):
        x, y, history = problem()
        frozen = parameters.make(self.module).eval()
        theta = states(frozen)
        small, large = (
            FullHistory(frozen, x, y, history, dtype=torch.float64, chunk=c)(theta, 4)
            for c in (2, 100)
        )
        np.testing.assert_allclose(small, large, rtol=0, atol=1e-14)


class TestErrors:
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (
                {"history": np.full((2, 3, 5, 4), ROWS)},
                r"history holds 30: row numbers must lie in \[0, 30\)",
            ),
            ({"history": np.full((2, 3, 5, 4), -1)}, r"history holds -1: row numbers"),
            (
                {"history": np.zeros((2, 3, 5, 4))},
                "history has type float64: it must hold row numbers",
            ),
            (
                {"history": np.zeros((2, 3, 5, 0), int)},
                r"history has shape \(2, 3, 5, 0\): .* none empty",
            ),
            ({"history": np.zeros((2, 3, 5), int)}, r"history has shape \(2, 3, 5\)"),
            ({"y": np.zeros(4, int)}, "x has 30 rows and y 4: they must agree"),
            ({"warm_up": 5}, r"warm_up = 5 must lie in \[0, 5\)"),
            ({"chunk": 0}, "chunk = 0 must be at least 1"),
            ({"chunk": 1.5}, "chunk = 1.5 must be a whole number"),
            ({"module": nn.Flatten}, "the module has no parameters"),
            (
                {"module": lambda: nn.Sequential(nn.Linear(6, 3), nn.Dropout(0.5))},
                "layer '1': dropout draws from torch's global",
            ),
        ],
    )
    def test_in_what_it_is_made_of(self, change, message):
        x, y, history = problem()
        arguments = {"module": mlp, "x": x, "y": y, "history": history} | change
        with pytest.raises(ValueError, match=message):
            FullHistory(**arguments)

    def test_in_theta_and_t(self):
        x, y, history = problem()
        oracle, theta = FullHistory(mlp, x, y, history), states(mlp)
        with pytest.raises(
            ValueError, match=r"theta has shape \(2, 3, 52\), it must be \(2, 3, 53\)"
        ):
            oracle(theta[..., 1:], 0)
        with pytest.raises(ValueError, match=r"t = 5 must lie in \[0, 5\)"):
            oracle(theta, 5)
        with pytest.raises(ValueError, match=r"t = -1 must lie in \[0, 5\)"):
            oracle(theta, -1)
        theta[1, 2, 0] = np.nan
        with pytest.raises(ValueError, match="run 1 of this batch, agent 2: theta must be finite"):
            oracle(theta, 0)

    def test_in_rows(self):
        x, y, history = problem()
        oracle, theta = FullHistory(mlp, x, y, history), states(mlp)
        for shape in ((0,), (2, 4), (3, 3, 4), (1, 2, 3, 4)):
            with pytest.raises(ValueError, match="rows has shape"):
                oracle.loss(theta, np.zeros(shape, int))
        with pytest.raises(ValueError, match="rows holds 30"):
            oracle.accuracy(theta, [30])

    def test_in_sampling(self):
        x, y, history = problem()
        with pytest.raises(ValueError, match="sample = 0 must be at least 1"):
            SampledHistory(mlp, x, y, history, sample=0, seed=1)
        with pytest.raises(ValueError, match="runs has 3 numbers for the 2 runs"):
            SampledHistory(mlp, x, y, history, sample=1, seed=1, runs=[1, 2, 3])

    def test_a_loss_that_overflows_names_the_run_and_the_agent(self):
        x, y, history = problem()
        theta = states(mlp)
        theta[1, 0] = 1e38
        before = torch.get_num_threads()
        with pytest.raises(
            ValueError, match="run 1 of this batch, agent 0: the loss is infinite or NaN"
        ):
            FullHistory(mlp, x, y, history)(theta, 4)
        assert torch.get_num_threads() == before

    def test_a_gradient_that_is_not_a_number(self):
        def root(outputs, targets):
            return (outputs[:, 0] * 0).sqrt()

        x, y, history = problem()
        with pytest.raises(ValueError, match="the gradient is infinite or NaN at a finite loss"):
            FullHistory(mlp, x, y, history, loss=root)(states(mlp), 0)

    def test_a_loss_that_is_already_a_mean(self):
        x, y, history = problem()
        with pytest.raises(
            ValueError,
            match=r"loss returns shape \(\) for . samples: it must be one number per sample",
        ):
            FullHistory(mlp, x, y, history, loss=nn.functional.cross_entropy)(states(mlp), 0)

    def test_a_failing_module_is_reported_in_one_sentence(self):
        x, y, history = problem()
        oracle = FullHistory(mlp, x[:, :4], y, history)
        with pytest.raises(
            RuntimeError,
            match=r"^run 0 of this batch, agent 0: the module or its loss failed: .*shapes.*$",
        ):
            oracle(states(mlp), 0)


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
