"""Notebook 3's training and budgets: what is trained and tested on, divergence, the accountant."""

import numpy as np
import pytest

from companion.data import mnist as images
from companion.mnist import budget, tables, training
from companion.mnist.digits import digits
from companion.mnist.params import Params, Training
from companion.params import ParameterError
from companion.problems import neural
from ldp_core import optimizer
from ldp_core.accountant import trajectory

TINY = {
    "history_sample": 0,
    "train_sample": 0,
    "iterations": 4,
    "samples": 3,
    "evaluate_every": 2,
    "test": 10,
    "final_test": 20,
}


@pytest.fixture(scope="module", autouse=True)
def shipped_digits(data):
    """Let the experiments read the digits that ship with the code, wherever the tests run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(images, "load", lambda: data)
        digits.cache_clear()
        yield
    digits.cache_clear()


def train(data, variant="quantised", repeat=0, **changes):
    return training.compute(
        Training(**{**TINY, **changes}).model_dump(), data.provenance.sha256, variant, repeat
    )


def test_a_training_is_algorithm_1_on_the_whole_history(data):
    """The accuracies are those of the states of a run put together by hand, at t = 0, 2, 4."""
    setting, (x, y, rows) = Training(**TINY), digits(data.provenance.sha256)
    acquired = training.history(setting, 1, rows)
    oracle = neural.FullHistory(training.CNN, x, y, acquired)
    states = []
    last = optimizer.run(
        setting.algorithm(),
        oracle,
        training.start(setting, 1),
        4,
        seed=0,
        runs=[1],
        observe=lambda state, _: states.append(state),
    )
    expected = [oracle.accuracy(state.theta, acquired[:, :, :n].reshape(1, 5, -1))[0]
                for state, n in ((states[0], 1), (states[2], 2), (last, 4))]  # fmt: skip
    found = train(data, repeat=1)
    assert found["t"].tolist() == [0, 2, 4] and found["diverged"] == -1
    np.testing.assert_array_equal(found["train"], expected)
    assert found["test"].shape == (3, 5) and np.isfinite(found["final"]).all()


def test_a_training_in_parts_ends_in_the_same_bits(data, monkeypatch, tmp_path):
    """Cut by work: of 6 iterations over a growing history the second half of the time goes into the
    last two."""
    monkeypatch.setenv("LDP_CACHE", str(tmp_path))
    setting = Training(**{**TINY, "iterations": 6})
    jobs = [(setting, variant, 1) for variant in training.VARIANTS]
    arguments = setting.model_dump(), data.provenance.sha256
    whole = [training.compute(*arguments, variant, 1) for variant in training.VARIANTS]
    assert training.cuts(setting) == [0, 6]
    monkeypatch.setattr(training, "PART", 5 * 3 * 6**2 / 2 / 3)
    assert training.cuts(setting) == [0, 3, 5, 6] and training.cuts(
        setting.at(history_sample=2)
    ) == [0, 6]
    monkeypatch.setattr(
        "companion.runs.execute.cores", lambda: 1
    )  # in this process, which has the smaller parts
    for result, found in zip(whole, tables._trained(jobs, data, "in parts"), strict=True):
        assert result.keys() == found.keys() and all(
            np.array_equal(result[name], found[name]) for name in result
        )


def test_a_part_after_divergence_adds_nothing(data, monkeypatch):
    monkeypatch.setattr(training, "PART", 5 * 3 * 4**2 / 2 / 4)  # cuts at 0, 2, 3, 3, 4
    setting = Training(**{**TINY, "evaluate_every": 1, "lam_0": 1e4})
    parts, before = [], None
    for part in range(4):
        before = training.compute(
            setting.model_dump(), data.provenance.sha256, "unquantised", 0, part, before
        )
        parts.append(before)
    found = training.joined(parts)
    monkeypatch.setattr(training, "PART", np.inf)
    whole = training.compute(setting.model_dump(), data.provenance.sha256, "unquantised", 0)
    assert whole["diverged"] >= 1 and all(
        np.array_equal(whole[name], found[name], equal_nan=True) for name in whole
    )


def test_test_images_are_never_trained_on_and_differ_between_agents(data):
    setting, (_, y, rows) = Training(**TINY), digits(data.provenance.sha256)
    acquired = training.history(setting, 0, rows)
    own = training._watched(setting, 0, data.provenance.sha256)._own_test
    assert acquired.max() < rows <= own.min() and own.max() < len(y)
    assert own.shape == (1, 5, 10) and len({tuple(sorted(agent)) for agent in own[0].tolist()}) == 5


def test_what_is_collected_grows_and_may_be_sampled(data):
    setting, rows = Training(**{**TINY, "train_sample": 5}), digits(data.provenance.sha256)[2]
    acquired = training.history(setting, 0, rows)
    watcher = training._watched(setting, 0, data.provenance.sha256)
    assert np.array_equal(watcher._collected(0), acquired[:, :, 0]) and np.array_equal(
        watcher._collected(1), acquired[:, :, 0]
    )
    sampled = watcher._collected(4)
    assert sampled.shape == (1, 5, 5)
    assert all(set(sampled[0, i]) <= set(acquired[0, i].ravel()) for i in range(5))


def test_a_history_shorter_than_the_sample_is_the_whole_history(data):
    whole, sampled = train(data), train(data, history_sample=100)
    assert all(np.array_equal(whole[name], sampled[name]) for name in whole)
    assert not np.array_equal(whole["final"], train(data, history_sample=2)["final"])


def test_open_choices_reach_the_network(data):
    usual = train(data)["final"]
    for change in (
        {"activation": "tanh"},
        {"initialisation": "pytorch"},
        {"same_start": False},
        {"weight": 0.1},
    ):
        assert not np.array_equal(train(data, **change)["final"], usual), change


@pytest.mark.parametrize("variant", training.VARIANTS)
def test_divergence_is_a_result_that_says_when(data, variant):
    found = train(data, variant, lam_0=1e4, evaluate_every=1)
    when = int(found["diverged"])
    assert 1 <= when <= 4 and np.isnan(found["final"]).all()
    assert found["t"].tolist() == list(range(when)) and found["test"].shape == (when, 5)
    end = tables._end(found, Training(**TINY, lam_0=1e4))
    assert end["sentence"].startswith(
        f"diverged at iteration {when}: lam_0 = 10000, nu = 0.61, d_0 = 1, edge weights 0.02"
    )


@pytest.mark.parametrize("every", [2, 3])
def test_a_state_that_overflows_at_the_last_step_has_diverged_too(data, monkeypatch, every):
    """The last gradient makes theta so large that outputs are no longer finite, theta still is."""
    monkeypatch.setattr(
        neural.FullHistory, "__call__", lambda self, theta, t: theta * (1e20 if t == 3 else 0.0)
    )
    found = train(data, evaluate_every=every)
    assert found["diverged"] == 4 and np.isnan(found["final"]).all()
    assert found["t"].tolist() == list(range(0, 4, every)) and len(found["test"]) == 2


def test_an_overflowing_state_is_divergence(data, monkeypatch):
    """`optimizer.Diverged` (a state itself infinite) and the oracle's error (a loss that is) end
    the same way."""
    huge = np.full((1, 5, 84202), 1e308)
    monkeypatch.setattr(neural.FullHistory, "__call__", lambda self, theta, t: huge)
    assert train(data, "unquantised", lam_0=1e4)["diverged"] == 0


def test_other_errors_are_not_called_divergence(data, monkeypatch):
    def broken(self, theta, t):
        raise ValueError("something else")

    monkeypatch.setattr(neural.FullHistory, "__call__", broken)
    with pytest.raises(ValueError, match="something else"):
        train(data)


def test_other_digits_than_meant_are_refused():
    with pytest.raises(ValueError, match="the MNIST here has SHA-256"):
        training.compute(Training(**TINY).model_dump(), "0" * 64, "quantised", 0)


def test_whole_histories_come_first_and_are_not_computed_twice():
    params = Params(**{**TINY, "history_sample": 2}, repeats=3, full_repeats=1)
    assert [(setting.history_sample, repeat) for setting, repeat in params.trainings()] == [
        (0, 0),
        (2, 0),
        (2, 1),
        (2, 2),
    ]
    assert len(Params(**TINY, repeats=3, full_repeats=1).trainings()) == 3


def test_a_whole_history_may_be_shorter_than_the_training():
    options = {**TINY, "history_sample": 2, "repeats": 1, "full_repeats": 1}
    for longest, expected in ((2, 2), (300, TINY["iterations"])):
        trainings = Params(**options, full_iterations=longest).trainings()
        assert [setting.iterations for setting, _ in trainings] == [expected, TINY["iterations"]]


def test_a_model_is_asked_whose_images_it_was_trained_on(data):
    """Losses of the mean of the models sent last: of images acquired, and of as many that were
    not."""
    setting, (x, y, rows) = Training(**TINY), digits(data.provenance.sha256)
    acquired, sent = training.history(setting, 0, rows), []
    oracle = neural.FullHistory(training.CNN, x, y, acquired)
    optimizer.run(
        setting.algorithm(), oracle, training.start(setting, 0), 4, seed=0, runs=[0],
        observe=lambda _, messages: sent.append(messages.values()[0][0].mean(axis=0)),
    )  # fmt: skip
    found = train(data)
    inside = np.unique(acquired)
    every = oracle.losses(sent[-1], np.arange(rows))
    assert found["member"].sum() == len(inside) == (~found["member"]).sum()
    np.testing.assert_allclose(
        np.sort(found["loss"][found["member"]]), np.sort(every[inside]), rtol=1e-4
    )
    others = np.delete(every, inside)
    assert np.isclose(found["loss"][~found["member"], None], others, rtol=1e-4).any(axis=1).all()


NONSENSE = {
    "varsigma": (
        lambda d: Params(varsigma=0.57).check(d),
        "max varsigma = 0.62 must be below nu = 0.61",
    ),
    "weights": (lambda d: Params(weight=0.6).check(d), r"must be positive \(Assumption 4\)"),
    "evaluation": (
        lambda d: Params(iterations=5).check(d),
        "evaluate_every = 40 must not exceed iterations = 5",
    ),
    "test images": (lambda d: Params(test=2000).check(d), "test = 2000 must not exceed 1999"),
    "final test": (
        lambda d: Params(final_test=2001).check(d),
        "final_test = 2001 must not exceed 2000",
    ),
    "activation": (
        lambda d: Params(activation="step"),
        "activation = 'step' is wrong: it must be 'relu', 'sigmoid'",
    ),
    "history": (lambda d: Params(history_sample=-1), "history_sample = -1 is wrong"),
    "full repeats": (
        lambda d: Params(full_repeats=3).check(d),
        "full_repeats = 3 must not exceed repeats = 2",
    ),
    "scales": (
        lambda d: Params(budget_scales=(1.0, 1.0)).check(d),
        "budget_scales = .* must be all different",
    ),
    "short budget": (lambda d: Params(budget_iterations=1), "budget_iterations = 1 is wrong"),
    "unknown name": (
        lambda d: Params(lambda_0=0.1),
        "lambda_0 is not a parameter of this experiment",
    ),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_is_one_sentence(data, name):
    act, sentence = NONSENSE[name]
    with pytest.raises(ParameterError, match=sentence) as caught:
        act(data)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_a_networks_budget_is_the_accountants(data, scale):
    """Three iterations, the first image of one agent replaced: `trajectory.budget` follows it in
    its own way."""
    params = Params(budget_scales=(scale,), budget_samples=(2,), budget_iterations=3)
    (setting,) = params.budgets()
    sha256 = data.provenance.sha256
    found = budget.compute(setting.model_dump(), sha256, repeat=0)
    agent, algorithm, rows = int(found["agent"]), setting.algorithm(), digits(sha256)[2]
    acquired, theta_0, transcript = (
        training.history(setting, 0, rows),
        training.start(setting, 0),
        optimizer.Transcript(),
    )
    optimizer.run(
        algorithm,
        training.oracle_of(setting, 0, sha256, acquired),
        theta_0,
        3,
        seed=0,
        observe=transcript,
    )
    own = acquired[:, agent : agent + 1]
    draw = budget.generator(0, budget.Purpose.MODIFICATION, 0)
    other = own.copy()
    assert int(draw.integers(5)) == agent
    other[0, 0, 0, 0] = draw.integers(rows)
    oracles = [training.oracle_of(setting, 0, sha256, history) for history in (own, other)]
    got = trajectory.received(algorithm, transcript, agent)
    for n in range(1, 4):  # false-alarm rate of an interval: 1 %
        first = trajectory.Received(got.theta[:n], got.psi[:n])
        options = {"exact": "monte carlo", "samples": 400, "seed": 5}
        expected = trajectory.budget(
            algorithm, agent, first, *oracles, theta_0[:, agent], **options
        )
        assert found["lower"][n] <= expected.exact.upper[0]
        assert expected.exact.lower[0] <= found["upper"][n]
    np.testing.assert_allclose(found["paper"], expected.paper[:, 0], rtol=1e-9)
    assert found["paper"][1] == 0  # the image first moves the second message
    assert found["paper"][2] > 0
    assert (found["upper"] <= expected.product[:, 0] * (1 + 1e-9)).all()
    assert found["lower"][-1] > 0.9 if scale == 1.0 else found["upper"][-1] < 0.9


def test_the_budget_of_a_network_that_diverges(data):
    params = Params(lam_0=1e4, budget_scales=(1.0,), budget_samples=(1,), budget_iterations=4)
    found = budget.compute(params.budgets()[0].model_dump(), data.provenance.sha256, repeat=0)
    assert 1 <= found["diverged"] <= 3 and found["paper"].size == 0
    table = tables.counted(found).assign(samples=1, scale=1.0)
    assert (
        tables.spent(table)["diverged"].tolist() == [1]
        and np.isnan(tables.spent(table)["paper"]).all()
    )
