"""The eavesdropper: exact where all is sent in the clear, unbiased and as noisy as predicted where
it is quantised.
"""

import contextlib

import numpy as np
import pytest

from companion.attacks import eavesdropper
from companion.attacks.rounds import coefficients, fitted
from companion.attacks.rounds import shrunk as factors_of
from ldp_core import network, optimizer, quantizer
from ldp_core.optimizer import DPSGD, Algorithm1, metropolis, paper_schedules

NETWORK = network.paper(0.2)
SCHEDULES = paper_schedules(lam_0=0.1, nu=0.61, d_0=1.0, d_0_slope=0.1, varsigma=0.5)
DIM = 300


def constant_gradients(runs, dim=DIM, seed=1):
    """Return gradients that do not change over time, other ones for every run and agent."""
    return np.random.default_rng(seed).normal(0.0, 3.0, (runs, NETWORK.agents, dim))


def spread_out(runs, dim=DIM, seed=2):
    """Return initial states whose positions in their cells are spread out, as after some rounds."""
    return np.random.default_rng(seed).normal(0.0, 10.0, (2, runs, NETWORK.agents, dim))


def transcript(algorithm, gradient, iterations, *, theta_0, psi_0=None, seed=7):
    """Return all messages and states of a run in which agents' gradients are `gradient(t)`."""
    states, heard = [], optimizer.Transcript()

    def observe(state, messages):
        states.append(state)
        heard(state, messages)

    optimizer.run(
        algorithm,
        lambda theta, t: gradient(t),
        theta_0,
        iterations,
        seed=seed,
        psi_0=psi_0,
        observe=observe,
    )
    return heard.messages, states


def changing(t):
    return constant_gradients(2) * np.cos(0.7 * t) + t


@pytest.mark.parametrize(
    "algorithm",
    [DPSGD(metropolis(NETWORK), SCHEDULES), Algorithm1(NETWORK, SCHEDULES, quantised=False)],
)
def test_what_is_sent_in_the_clear_gives_the_gradients_themselves(algorithm):
    theta_0, psi_0 = spread_out(2)
    psi_0 = psi_0 if isinstance(algorithm, Algorithm1) else None
    messages, _ = transcript(algorithm, changing, 6, theta_0=theta_0, psi_0=psi_0)
    found = eavesdropper.gradients(algorithm, messages)
    assert found.gradient.shape == (5, 2, 5, DIM) and not found.variance.any()
    for t in range(5):
        assert np.allclose(found.gradient[t], changing(t), rtol=1e-6, atol=1e-6)


def largest(messages):
    """Return the largest variances that messages without a dither can have."""
    bounds = [eavesdropper.BOUND * message.step**2 for message in messages]
    return np.broadcast_to(
        np.array(bounds)[:, None, None], (len(bounds), 2, len(messages[0].theta), 5)
    )


@contextlib.contextmanager
def bounded(yes=True):
    """Let the eavesdropper assume these, in place of what it sees."""
    with pytest.MonkeyPatch.context() as patch:
        if yes:
            patch.setattr(eavesdropper, "message_variances", largest)
        yield


def test_two_messages_give_the_formula_of_the_docstring():
    algorithm, t = Algorithm1(NETWORK, SCHEDULES), 3
    messages, _ = transcript(algorithm, changing, t + 2, theta_0=spread_out(2)[0])
    pair = messages[t:]
    with bounded():
        found = eavesdropper.gradients(algorithm, pair)
    (theta, psi), (theta_next, psi_next) = (message.values() for message in pair)
    lam, d = SCHEDULES.lam(t), SCHEDULES.step([t, t + 1])
    mz = 5 * NETWORK.z(t + 1)[t]
    for i in range(5):
        R, C = NETWORK.R[i, i], NETWORK.C[i, i]
        received_psi = sum(NETWORK.C[i, j] * psi[:, j] for j in range(5) if j != i)
        received_theta = sum(NETWORK.R[i, j] * theta[:, j] for j in range(5) if j != i)
        A = psi_next[:, i] - (1 + C) * psi[:, i] - received_psi
        B = (
            mz[i] * ((1 + R) * theta[:, i] + received_theta - theta_next[:, i])
            - C * psi[:, i]
            - received_psi
        )
        e, following = d[:, i] ** 2 / 4
        var_A, var_B = (
            following + (1 + C) ** 2 * e,
            mz[i] ** 2 * ((1 + R) ** 2 * e + following) + C**2 * e,
        )
        cov = C * (1 + C) * e
        w = (var_B - cov) / (var_A + var_B - 2 * cov)
        assert np.allclose(
            found.gradient[0, :, i], (w * A + (1 - w) * B) / lam, rtol=1e-8, atol=1e-8
        )
        predicted = w**2 * var_A + (1 - w) ** 2 * var_B + 2 * w * (1 - w) * cov
        assert np.allclose(found.variance[0, :, i], predicted / lam**2, rtol=1e-8)


@pytest.mark.parametrize("dither", [None, 11])
@pytest.mark.parametrize(("rounds", "drift"), [(1, np.inf), (6, 0.0), (6, np.inf), (6, 0.5)])
def test_the_estimate_is_unbiased_and_as_noisy_as_predicted(dither, rounds, drift):
    """The mean error over N = runs x dim coordinates is within 5 predicted standard errors (false
    alarm 6e-7 each), the mean square error within 5 of its own of the prediction with a dither, and
    not above it without (the bound d^2 / 4)."""
    runs, algorithm = 40, Algorithm1(NETWORK, SCHEDULES, dither=dither)
    true = constant_gradients(runs)
    theta_0, psi_0 = spread_out(runs)
    messages, _ = transcript(algorithm, lambda t: true, rounds + 1, theta_0=theta_0, psi_0=psi_0)
    with bounded(dither is None):
        found = eavesdropper.gradients(algorithm, messages, drift=drift)
    count = runs * DIM
    for k in range(rounds):
        for i in range(5):
            error, predicted = found.gradient[k, :, i] - true[:, i], found.variance[k, 0, i]
            if drift in (0.0, np.inf):  # the model is true: constant gradients
                assert abs(error.mean()) < 5 * np.sqrt(predicted / count)
                square = error**2
                slack = 5 * square.std() / np.sqrt(count)
                assert square.mean() < predicted + slack
                assert dither is None or square.mean() > predicted - slack
            else:  # a model that allows a change is more careful than a constant gradient needs
                assert np.mean(error**2) < predicted * 1.05


def exact_variances(states: list, messages: list) -> np.ndarray:
    """Return the true variances a (1 - a) d^2 `[messages, 2, runs, agents, dim]`, given the dither:
    only we know the states.
    """
    found = []
    for state, message in zip(states, messages, strict=True):
        step = message.step[:, None]
        dither = (
            (None, None) if message.dither is None else (message.dither[:, 0], message.dither[:, 1])
        )
        up = [
            quantizer.pmf(y, step, u).upper_probability
            for y, u in zip((state.theta, state.psi), dither, strict=True)
        ]
        found.append([a * (1.0 - a) * step**2 for a in up])
    return np.array(found)


def test_the_exact_variances_predict_the_error_of_the_plain_quantizer():
    """The spread of the errors is a (1 - a) d^2: the mean square is within 5 standard errors of it
    (false alarm 6e-7 each).
    """
    runs, algorithm = 40, Algorithm1(NETWORK, SCHEDULES)
    theta_0, psi_0 = spread_out(runs)
    messages, states = transcript(
        algorithm, lambda t: 0.0 * theta_0, 2, theta_0=theta_0, psi_0=psi_0
    )
    exact = exact_variances(states, messages)
    for k, (state, message) in enumerate(zip(states, messages, strict=True)):
        for part, (heard, true) in enumerate(
            zip(message.values(), (state.theta, state.psi), strict=True)
        ):
            square = (heard - true) ** 2
            assert abs(np.mean(square - exact[k, part])) < 5 * np.std(
                square - exact[k, part]
            ) / np.sqrt(square.size)
    assert (exact <= largest(messages)[..., None] * (1 + 1e-12)).all()


def test_more_rounds_of_a_constant_gradient_are_less_noisy():
    algorithm = Algorithm1(NETWORK, SCHEDULES)
    variances = []
    for rounds in (1, 2, 4, 8, 16):
        own = np.repeat(SCHEDULES.step(range(rounds + 1))[:, :1] ** 2 / 4, 2, axis=1)
        covariance = coefficients(algorithm, range(rounds + 1), 0, own, 0.0)[1]
        variances.append(np.diagonal(covariance).min())
    assert (np.diff(variances) < 0).all() and variances[-1] < variances[0] / 8


def fit_of(algorithm, messages, variance):
    """Return the model that is fitted to the messages of agent 0 in run 0."""
    unexplained = eavesdropper.unexplained(algorithm, messages)[:, 0, 0]
    (fit,) = fitted(
        algorithm, [message.t for message in messages], 0, [variance[:, :, 0, 0]], [unexplained]
    )
    return fit


def test_the_drift_is_estimated_from_the_messages():
    """A gradient that moves by 2 a round and coordinate is seen to (to a tenth; its sampling error
    is below 3 %), a constant one is not; and the estimate with it is nearly as good as with the
    right one, and better than with a wrong one."""
    algorithm, runs = Algorithm1(NETWORK, paper_schedules(0.1, 0.61, 0.05, 0.0, 0.5)), 4
    walk = np.cumsum(np.random.default_rng(3).normal(0.0, 2.0, (8, runs, 5, DIM)), axis=0)
    theta_0, psi_0 = spread_out(runs)
    messages, _ = transcript(algorithm, lambda t: walk[t], 8, theta_0=theta_0, psi_0=psi_0)
    errors = {
        drift: np.mean(
            (eavesdropper.gradients(algorithm, messages, drift=drift).gradient - walk[:7]) ** 2
        )
        for drift in (None, 2.0, 0.0, np.inf)
    }
    assert errors[None] < 1.02 * errors[2.0] < errors[np.inf] < errors[0.0]
    fit = fit_of(algorithm, messages, largest(messages))
    assert fit.drift == pytest.approx(2.0, rel=0.1) and fit.decay < 0.5
    spread_in_cells = (
        eavesdropper.DITHERED / eavesdropper.BOUND
    )  # the bound is that much too large for them on average
    assert fit.factor == pytest.approx(spread_in_cells, rel=0.2)
    still, _ = transcript(algorithm, lambda t: walk[0], 8, theta_0=theta_0, psi_0=psi_0)
    constant, right = (
        eavesdropper.gradients(algorithm, still, drift=drift) for drift in (None, 0.0)
    )
    assert np.mean((constant.gradient[0] - walk[0]) ** 2) < 1.5 * np.mean(
        (right.gradient[0] - walk[0]) ** 2
    )


def test_a_gradient_that_shrinks_is_followed():
    """As an image is learned its gradient shrinks. The decay is found (to a tenth; its sampling
    error is below 2 %), and 20 rounds tell more than one; models without a decay are fooled."""
    algorithm, decay = Algorithm1(NETWORK, paper_schedules(0.1, 0.61, 0.05, 0.0, 0.5)), 3.0
    theta_0, psi_0 = spread_out(4)
    first = constant_gradients(4)
    shrunk = first * factors_of(algorithm, range(22), decay)[:, None, None, None]
    messages, _ = transcript(
        algorithm, lambda t: shrunk[min(t, 20)], 21, theta_0=theta_0, psi_0=psi_0
    )
    errors = {}
    for rounds, drift in ((1, None), (20, None), (20, 0.05), (20, 0.0)):
        found = eavesdropper.gradients(algorithm, messages[: rounds + 1], drift=drift).gradient[0]
        errors[rounds, drift] = np.mean((found - first) ** 2)
    assert errors[20, None] < 0.3 * errors[1, None] < errors[20, 0.05] < errors[20, 0.0]
    assert fit_of(
        algorithm, messages, eavesdropper.message_variances(messages)
    ).decay == pytest.approx(decay, rel=0.1)


def test_parts_are_estimated_each_by_itself():
    """Half of the coordinates hardly change and half change much: what is known of one does not
    blur the other.
    """
    algorithm, runs = Algorithm1(NETWORK, paper_schedules(0.1, 0.61, 0.05, 0.0, 0.5)), 2
    scale = np.repeat([0.01, 3.0], DIM // 2)
    walk = np.cumsum(np.random.default_rng(4).normal(0.0, 1.0, (12, runs, 5, DIM)) * scale, axis=0)
    theta_0, psi_0 = spread_out(runs)
    messages, _ = transcript(algorithm, lambda t: walk[t], 12, theta_0=theta_0, psi_0=psi_0)
    halves = [slice(0, DIM // 2), slice(DIM // 2, DIM)]
    together, apart = (
        eavesdropper.gradients(algorithm, messages, drift=None, parts=parts)
        for parts in (None, halves)
    )
    calm = halves[0]
    error = [
        np.mean((found.gradient[0, ..., calm] - walk[0, ..., calm]) ** 2)
        for found in (together, apart)
    ]
    assert error[1] < 0.5 * error[0]
    both = eavesdropper.gradients(algorithm, messages, drift=0.5, parts=halves)
    alone = [
        eavesdropper.gradients(
            algorithm,
            [eavesdropper.cut(message, half) for message in messages],
            drift=0.5,
            parts=[slice(0, DIM // 2)],
        )
        for half in halves
    ]
    assert np.allclose(
        both.gradient,
        np.concatenate([part.gradient for part in alone], axis=-1),
        rtol=0,
        atol=1e-12,
    )
    assert np.allclose(
        both.variance, np.mean([part.variance for part in alone], axis=0), rtol=1e-12
    )


def test_silence_is_no_error_and_no_certainty():
    """With steps far larger than anything sent, hardly a coordinate moves.

    The estimate is finite, and is not called exact.
    """
    algorithm = Algorithm1(NETWORK, paper_schedules(0.1, 0.61, 1e6, 0.0, 0.5))
    messages, _ = transcript(
        algorithm, lambda t: constant_gradients(1), 5, theta_0=spread_out(1)[0]
    )
    assert not any(message.theta.any() or message.psi.any() for message in messages)
    for parts in (None, [slice(0, DIM)], [slice(0, 3), slice(3, DIM)]):
        found = eavesdropper.gradients(algorithm, messages, drift=None, parts=parts)
        assert not found.gradient.any() and np.isfinite(found.variance).all()
        assert parts is None or (np.sqrt(found.variance) > 1e4).all()


def test_the_first_psi_message_is_exact_and_the_second_hardly_noisy():
    """psi_0 = 0 lies on the grid; lam g is far below d, so the observed shares predict far less
    noise than d^2 / 4.
    """
    algorithm, true = Algorithm1(NETWORK, SCHEDULES), 0.1 * constant_gradients(4)
    messages, _ = transcript(algorithm, lambda t: true, 2, theta_0=spread_out(4)[0])
    assert not messages[0].psi.any()
    looked = eavesdropper.gradients(algorithm, messages)
    with bounded():
        assumed = eavesdropper.gradients(algorithm, messages)
    true_square = np.mean((looked.gradient[0] - true) ** 2)
    assert true_square < 0.7 * np.mean((assumed.gradient[0] - true) ** 2)
    assert true_square < 1.5 * looked.variance.mean() < 0.3 * assumed.variance.mean()
