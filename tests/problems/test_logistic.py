"""The full-history logistic gradient against the sum over samples, one by one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from companion.data import mushrooms, streams
from companion.problems import logistic
from companion.problems.logistic import Logistic
from companion.problems.onehot import OneHot
from ldp_core import engine, network, optimizer
from tests.reference import algorithm1


def problem(seed, rows=40, runs=2, agents=3, points=9, samples=2):
    rng = np.random.default_rng(seed)
    sizes = tuple(rng.integers(2, 6, rng.integers(1, 9)).tolist())
    codes = np.stack([rng.integers(0, size, rows) for size in sizes], axis=1)
    features = OneHot(codes, sizes, rng.choice([None, "l1", "l2"]))
    return (
        features,
        rng.choice([-1, 1], rows),
        rng.integers(0, rows, (runs, agents, points, samples)),
        rng.normal(size=(runs, agents, features.dim)),
    )


def literal(features, labels, history, theta):
    points = [
        [(features.dense([row])[0], float(labels[row])) for row in point] for point in history
    ]
    return algorithm1.logistic_gradient(theta, points)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(0, 6),
    st.integers(1, 4),
    st.sampled_from([3, 200]),
    st.integers(0, 2),
    st.sampled_from([0.0, 0.3]),
)
def test_equals_the_sum_over_samples(seed, t, samples, rows, warm_up, l2):
    """Of 3 rows each comes often, of 200 hardly any comes twice."""
    features, labels, history, theta = problem(seed, rows=rows, samples=samples)
    gradients = Logistic(features, labels, history, l2=l2, warm_up=warm_up)(theta, t)
    for run, agent in np.ndindex(2, 3):
        own, seen = theta[run, agent], history[run, agent, : warm_up + t + 1]
        expected = literal(features, labels, seen, own) + l2 * own
        assert np.allclose(gradients[run, agent], expected, rtol=1e-12, atol=1e-14)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0, 800))
def test_extreme_logits_neither_overflow_nor_lose_digits(seed, size):
    features, labels, history, theta = problem(seed)
    theta = size * theta / np.abs(theta).max()
    gradients = Logistic(features, labels, history)(theta, 8)
    rows = features.dense(history)
    margins = labels[history] * np.einsum("riksd,rid->riks", rows, theta)
    weights = -labels[history] * np.exp(-np.logaddexp(0.0, margins))
    expected = np.einsum("riks,riksd->rid", weights, rows) / 18
    assert np.allclose(gradients, expected, rtol=1e-11, atol=1e-15)


def test_counting_does_not_depend_on_the_order_of_questions():
    features, labels, history, theta = problem(5, rows=4)
    oracle = Logistic(features, labels, history)
    forwards = [oracle(theta, t) for t in range(9)]
    for t in (8, 3, 5):
        assert np.array_equal(oracle(theta, t), forwards[t])


def test_equals_algorithm_1_on_mushrooms():
    """The whole engine, on real rows, equals the transcription to 1e-12."""
    data = mushrooms.load()
    features, iterations = OneHot(data.codes, data.sizes), 6
    train, _ = streams.history(3, [4], 5, iterations, 2, features.rows, 2000)
    net, pattern = network.paper(), optimizer.paper_schedules(0.5, 0.71, 2.0, 0.01, 0.6)
    algorithm, oracle = optimizer.Algorithm1(net, pattern), Logistic(features, data.labels, train)
    start, options = np.zeros((1, 5, 116)), {"seed": 3, "runs": [4]}
    last = optimizer.run(engine.Compiled(algorithm), oracle, start, iterations, **options)
    drawn = [algorithm.coins(3)([4], t, 116)[0] for t in range(iterations)]

    def gradient(i, theta, t):
        return literal(features, data.labels, train[0, i, : t + 1], theta)

    numbers = pattern.lam_0, pattern.nu, pattern.d_0, pattern.varsigma
    begun = start[0], start[0], gradient, drawn, iterations
    theta, psi, _ = algorithm1.run(net.R, net.C, *numbers, *begun)
    assert np.allclose(last.theta[0], theta[-1], rtol=1e-12, atol=1e-12)
    assert np.allclose(last.psi[0], psi[-1], rtol=1e-12, atol=1e-12)


def test_bit_identity_over_batches_and_order():
    features, labels, history, theta = problem(7, rows=500, runs=7, agents=5, points=30)
    together = Logistic(features, labels, history)(theta, 29)
    for run in (6, 1):
        alone = Logistic(features, labels, history[[run]])(theta[[run]], 29)
        assert np.array_equal(alone[0], together[run])


def test_accuracy_and_loss_by_hand():
    features, labels, history, theta = problem(11)
    rows = history[..., 0]
    for run, agent in np.ndindex(2, 3):
        own, label = theta[run, agent], labels[rows[run, agent]]
        logit = features.dense(rows[run, agent]) @ own
        accuracy = logistic.accuracy(features, labels, theta, rows)[run, agent]
        assert accuracy == pytest.approx((np.sign(logit) == label).mean())
        loss = np.log1p(np.exp(-label * logit)).mean() + 0.1 * own @ own
        assert logistic.loss(features, labels, theta, rows, 0.2)[run, agent] == pytest.approx(loss)
    assert (logistic.accuracy(features, labels, np.zeros_like(theta), rows) == 0.5).all()


def test_gradient_is_the_derivative_of_the_loss():
    features, labels, history, theta = problem(13, runs=1, agents=1)
    rows = history.reshape(1, 1, -1)
    gradient = Logistic(features, labels, history, l2=0.1)(theta, 8)
    step = 1e-6 * np.random.default_rng(0).normal(size=theta.shape)
    ends = (logistic.loss(features, labels, theta + way * step, rows, 0.1) for way in (1, -1))
    change = (next(ends) - next(ends)) / 2
    assert np.sum(gradient * step) == pytest.approx(float(change[0, 0]), rel=1e-7)


FEATURES, LABELS, HISTORY, THETA = problem(1)
REFUSED = {
    "labels": (
        lambda: Logistic(FEATURES, LABELS * 2, HISTORY),
        "labels must hold -1 or 1 for each of the 40 rows",
    ),
    "history shape": (lambda: Logistic(FEATURES, LABELS, HISTORY[0]), "history has shape"),
    "no samples": (lambda: Logistic(FEATURES, LABELS, HISTORY[..., :0]), "history has shape"),
    "row out of range": (
        lambda: Logistic(FEATURES, LABELS, HISTORY + 40),
        r"history must hold row numbers in \[0, 40\)",
    ),
    "rows as floats": (
        lambda: Logistic(FEATURES, LABELS, HISTORY * 1.0),
        "history must hold row numbers",
    ),
    "l2": (
        lambda: Logistic(FEATURES, LABELS, HISTORY, l2=-1),
        "l2 = -1 must be finite and not negative",
    ),
    "warm_up": (
        lambda: Logistic(FEATURES, LABELS, HISTORY, warm_up=9),
        r"warm_up = 9 must lie in \[0, 9\)",
    ),
    "theta": (lambda: Logistic(FEATURES, LABELS, HISTORY)(THETA[:1], 0), "theta has shape"),
    "t": (lambda: Logistic(FEATURES, LABELS, HISTORY)(THETA, 9), r"t = 9 must lie in \[0, 9\)"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_one_sentence(name):
    act, sentence = REFUSED[name]
    with pytest.raises(ValueError, match=sentence):
        act()
