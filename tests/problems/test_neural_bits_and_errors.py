"""What the neural oracle promises: the same bits, one thread, no batch statistics, errors."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from companion.problems import parameters
from companion.problems.cnn import CNN
from companion.problems.neural import FullHistory, SampledHistory
from ldp_core.randomness import Purpose, generator
from tests.problems.cases import CLASSES, FEATURES, ROWS, double, mlp, problem, states


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
            FullHistory(module, x, y, history)(theta, 2) for module in (double(CNN), CNN)
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
            FullHistory(module, x, y, history)(states(module), 4)
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
        before = copy.deepcopy(module.state_dict())
        FullHistory(module, x, y, history)(states(mlp), 4)
        assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


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
        frozen = double(self.module).eval()
        theta, oracle = states(frozen), FullHistory(frozen, x, y, history)
        large, oracle.chunk = oracle(theta, 4), 2
        np.testing.assert_allclose(oracle(theta, 4), large, rtol=0, atol=1e-14)


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

    def test_an_accuracy_of_outputs_that_are_no_numbers(self):
        x, y, history = problem()
        theta = states(mlp)
        theta[1, 0] = 1e38
        with pytest.raises(ValueError, match="run 1 of this batch, agent 0: an output is infinite"):
            FullHistory(mlp, x, y, history).accuracy(theta, [0, 1])

    def test_a_gradient_that_is_not_a_number(self):
        class Root(nn.Linear):
            def forward(self, x):
                return (super().forward(x) * 0).sqrt()

        x, y, history = problem()
        module = parameters.make(lambda: Root(FEATURES, CLASSES))
        with pytest.raises(ValueError, match="the gradient is infinite or NaN at a finite loss"):
            FullHistory(module, x, y, history)(states(module), 0)

    def test_targets_that_are_no_labels(self):
        x, y, history = problem()
        with pytest.raises(RuntimeError, match=r"^run 0 of this batch, agent 0: the module failed"):
            FullHistory(mlp, x, y + 0.5, history)(states(mlp), 0)

    def test_a_failing_module_is_reported_in_one_sentence(self):
        x, y, history = problem()
        oracle = FullHistory(mlp, x[:, :4], y, history)
        with pytest.raises(
            RuntimeError,
            match=r"^run 0 of this batch, agent 0: the module failed: .*shapes.*$",
        ):
            oracle(states(mlp), 0)
