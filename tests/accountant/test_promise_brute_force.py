"""Tiny instances by enumeration: the promise is never below the truth, unless it is broken on
purpose.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from ldp_core import network, quantizer
from ldp_core.accountant import promise
from ldp_core.accountant.promise import Terms, certify, cost, hellinger
from ldp_core.optimizer import Schedules
from ldp_core.randomness import Purpose, generator
from tests.reference.promise_enumeration import Agent, spline, spline_cdf, total_variation

# (dim, iterations, cells of a dithered coordinate, cases): 100 settings of these make 10^4 cases
SHAPES = ((1, 2, 10, 88), (1, 3, 5, 6), (2, 2, 5, 6))
NOTHING = (0.0, 0.0)


def test_never_below_the_exact_total_variation(capsys):
    """10^4 cases: random settings of degree 1, 2, 3, gradients and reactions chosen anew after each
    outcome.
    """
    cases, ratios = 0, {1: 0.0, 2: 0.0, 3: 0.0}
    for setting in range(100):
        rng = generator(setting, Purpose.SYNTHETIC)
        for dim, T, bins, number in SHAPES:
            terms, agent = _setting(rng, dim, T, bins)
            certified = float(certify(terms, T).delta[0])
            for _ in range(number):
                truth = _truth(rng, terms, agent, dim, T)
                assert truth <= certified + 1e-12
                cases += 1
                if certified < 0.95:
                    ratios[terms.degree] = max(ratios[terms.degree], truth / certified)
    with capsys.disabled():
        found = ", ".join(f"{ratio:.3f} at degree {degree}" for degree, ratio in ratios.items())
        print(f"\n  {cases} cases; exact total variation / certificate reached {found}")
    assert cases >= 10_000 and min(ratios.values()) > 0.6


def _setting(rng, dim: int, T: int, bins: int) -> tuple[Terms, Agent]:
    degree = int(rng.integers(1, 4))
    dithered, graph = (
        degree == 1 or rng.random() < 0.2,
        network.ring(2, float(rng.uniform(0.05, 0.9))),
    )
    schedules = Schedules(
        float(rng.uniform(0.1, 1.5)), 0.8, (float(rng.uniform(0.4, 8)),) * 2, (0.6,) * 2
    )
    options = {"warm_up": int(rng.integers(0, 3)), "cone": bool(rng.random() < 0.5), "dim": dim}
    clip = float(rng.uniform(0.2, 1.5))
    terms = Terms(graph, schedules, clip, degree=degree, dithered=dithered, **options)
    return terms, _agent(terms, T, bins if dithered else 0)


def _agent(terms: Terms, T: int, bins: int = 0) -> Agent:
    t, graph = np.arange(T), terms.network
    share = terms.schedules.lam(t) / (terms.samples * (terms.warm_up + t + 1))
    weights = -float(graph.R[0, 0]), -float(graph.C[0, 0])
    inverse = 1.0 / (graph.agents * graph.z(T)[:, 0])
    return Agent(terms.degree, *weights, terms.schedules.step(t)[:, 0], share, inverse, bins)


def _truth(rng, terms: Terms, agent: Agent, dim: int, T: int) -> float:
    """Return the exact total variation of a random pair of samples, often opposite, under random
    reactions.
    """
    row = np.eye(dim)[0] if rng.random() < 0.5 else _unit(rng, dim)
    other = -row if rng.random() < 0.8 else _unit(rng, dim)
    C, step = float(terms.clip[0]), float(agent.step[0])
    lengths = ((0, C), (C, C), (C, 0)) if terms.cone else ((C, C), (-C, -C), (C, -C))
    chosen = rng.permutation(3)[: T - 1]
    gradients = [_constant(lengths[k][0] * row, lengths[k][1] * other) for k in chosen]
    arriving = [(np.zeros(dim), np.zeros(dim))]
    if T > 2:
        arriving.append(tuple(rng.uniform(0, step, (2, dim))))
    return total_variation(agent, rng.uniform(0, step, dim), T, gradients, arriving)


def _unit(rng, dim: int) -> np.ndarray:
    vector = rng.normal(size=dim)
    return vector / np.sqrt(np.sum(vector**2))


def _constant(v, other):
    """Return gradients that do not depend on where they are taken: where they are steered to is
    their choice.
    """
    return lambda sent: (v + 0.0 * sent, other + 0.0 * sent)


def test_the_reference_has_the_moments_of_a_sum_of_uniforms():
    x = np.linspace(-3, 3, 60001)
    for degree in (1, 2, 3):
        density = spline(x, degree)
        assert density.sum() * 1e-4 == pytest.approx(1.0, abs=1e-7)
        assert (x**2 * density).sum() * 1e-4 == pytest.approx((degree + 1) / 12, abs=1e-7)
        assert np.abs(np.cumsum(density) * 1e-4 - spline_cdf(x, degree)).max() < 1e-4


# A pair of samples that comes close, at every degree: opposite rows, always clipped.


def _tight(degree: int, T: int = 3, weight: float = 0.3, **options):
    schedules = Schedules(0.5, 0.8, (2.0, 2.0), (0.6, 0.6))
    options = {"degree": degree, "dithered": degree == 1, "dim": 1, "cone": True, **options}
    terms = Terms(network.ring(2, weight), schedules, 1.0, **options)
    agent = _agent(terms, T, 12 if degree == 1 else 0)
    return terms, agent


def _exact(agent: Agent, v: float, other: float, theta_0: float = 0.5) -> float:
    """Return the exact total variation when neighbours choose after each outcome: (v, v'), or both
    zero.
    """
    return total_variation(agent, [theta_0], 3, [_constant(v, other), _constant(0, 0)], [NOTHING])


@pytest.mark.parametrize("degree", [2, 3])
def test_a_pair_built_to_be_the_worst_comes_close(degree):
    """Opposite samples of the logistic loss with C < 1/2: both stay clipped wherever theta is near
    zero.
    """
    terms, agent = _tight(degree)
    certified = float(certify(terms, 3).delta[0])
    reached = max(_exact(agent, 1.0, -1.0, theta_0=start) for start in np.linspace(0, 2, 21))
    assert 0.7 * certified < reached <= certified


# Each ingredient broken on purpose: the truth of the broken mechanism exceeds what is certified.


def test_caught_a_gradient_at_the_private_point():
    """A model may turn all other gradients around between theta_1 and theta_1': N_t samples count,
    not one.
    """
    terms, agent = _tight(3, warm_up=9)
    certified = float(certify(terms, 3).delta[0])
    assert _exact(agent, 1.0, -1.0) <= certified
    assert _exact(agent, 10.0, -10.0) > certified  # N_0 = 10 samples, each by 2 C / 10


def test_caught_a_sample_that_is_not_clipped():
    terms, agent = _tight(3, warm_up=9)
    assert _exact(agent, 1.0, -3.0) > float(certify(terms, 3).delta[0])


@pytest.mark.parametrize("message", ["theta", "psi"])
def test_caught_a_message_that_is_not_counted(message, monkeypatch):
    terms, agent = _tight(3, weight=0.9 if message == "theta" else 0.1, warm_up=5)
    truth, right = _exact(agent, 1.0, -1.0), float(certify(terms, 3).delta[0])
    found = promise.drift

    def without(*arguments):
        theta, psi, later = found(*arguments)
        return theta * (message != "theta"), psi * (message != "psi"), later

    monkeypatch.setattr(promise, "drift", without)
    assert float(certify(terms, 3).delta[0]) < truth <= right


def test_caught_a_warm_up_counted_too_long():
    terms, agent = _tight(3)
    longer, _ = _tight(3, warm_up=1)
    assert (
        float(certify(longer, 3).delta[0]) < _exact(agent, 1.0, -1.0) <= certify(terms, 3).delta[0]
    )


def test_caught_coins_of_eight_bits():
    """A shift of 10^-4 steps moves one threshold over a coin of 2^-8, and shows in one of 256
    messages.
    """
    coins = np.arange(256) / 256
    terms = Terms(network.ring(2), Schedules(1.0, 0.8, (1.0, 1.0), (0.6, 0.6)), 1.0, dim=1)
    eps = 1e-4
    shown = []
    for y in np.linspace(0, 1, 2001):
        levels = [quantizer.quantise(np.full(256, x), 1.0, coins, None, 3) for x in (y, y + eps)]
        shown.append((levels[0] != levels[1]).mean())
    assert max(shown) > 10 * float(hellinger(cost(np.array([eps]), terms))[0])


DITHERED = Terms(
    network.ring(2),
    Schedules(1.0, 0.8, (1.0, 1.0), (0.6, 0.6)),
    1.0,
    degree=1,
    dithered=True,
    dim=1,
)


def _certified(eps: float, messages: int) -> float:
    return float(hellinger(messages * cost(np.array([eps]), DITHERED))[0])


def test_caught_a_dither_reused_over_time():
    """Degree 1: who knows the dither of 40 messages steers the state onto its grid, where eps costs
    eps.
    """
    eps, messages = 1e-3, 40
    on_grid = 1.0 - (1.0 - float(quantizer.total_variation(0.0, eps, 1.0))) ** messages
    assert on_grid > _certified(eps, messages)


def test_caught_a_dither_shared_in_advance():
    """Degree 1: who is told the next dithers steers 40 coordinates of a message onto their
    grids."""
    eps, n, dither = 1e-3, 40, generator(2, Purpose.DITHER).random(40)
    laws = [quantizer.pmf(dither + move, 1.0, dither) for move in (0.0, eps)]
    assert (laws[0].upper_probability < 1e-12).all()  # on the grid: sent as it is
    shown = 1.0 - np.prod(1.0 - np.abs(laws[0].upper_probability - laws[1].upper_probability))
    terms = dataclasses.replace(DITHERED, dim=n // 2)
    assert shown > float(hellinger(cost(np.array([eps * math.sqrt(n)]), terms))[0])


@pytest.mark.parametrize("phases", ["equal", "spread"])
@pytest.mark.parametrize("degree", [1, 2, 3])
def test_a_dither_shared_over_coordinates_stays_within(degree, phases):
    """One dither for six coordinates of a message: Lemma 1 takes the mean of a sum, whether dithers
    are independent or not, so nothing is to be caught. Exact, over 200 dithers.
    """
    n, eps, levels = 6, 0.15, np.arange(-3, 5)
    places = np.full(n, 0.3) if phases == "equal" else np.arange(n) / n
    total = 0.0
    for U in (np.arange(200) + 0.5) / 200:
        P, Q = np.ones(1), np.ones(1)
        for x in places:
            laws = (quantizer.probability(levels, y, 1.0, U, degree) for y in (x, x + eps))
            one, other = laws
            P, Q = np.multiply.outer(P, one).ravel(), np.multiply.outer(Q, other).ravel()
            P, Q = P[(P > 0) | (Q > 0)], Q[(P > 0) | (Q > 0)]
        total += np.maximum(P - Q, 0.0).sum() / 200
    terms = dataclasses.replace(DITHERED, degree=degree, dim=n // 2)
    certified = float(hellinger(cost(np.array([eps * math.sqrt(n)]), terms))[0])
    assert 0.5 * certified < total <= certified


def test_caught_a_dither_that_depends_on_data():
    """A dither that is the state's own fraction sends the state itself, whatever the coins say."""
    eps, coins = 1e-3, generator(1, Purpose.COINS).random(1000)
    sent = [
        quantizer.value(quantizer.quantise(y, 1.0, coins, y % 1.0), 1.0, y % 1.0)
        for y in (0.3, 0.3 + eps)
    ]
    apart = (sent[0][:, None] != sent[1]).mean()  # a total variation of one
    assert apart == 1.0 > _certified(eps, 40)


def test_without_a_dither_none_of_these_can_happen():
    """Degree 3 needs no dither: any phase, known to anybody, is inside the certificate."""
    terms = Terms(network.ring(2), Schedules(1.0, 0.8, (1.0, 1.0), (0.6, 0.6)), 1.0)
    for eps in (1e-3, 0.05, 0.4):
        certified = float(hellinger(cost(np.array([eps]), terms))[0])
        y = np.linspace(0, 1, 4001)
        laws = [quantizer.law(x, 1.0, None, 3) for x in (y, y + eps)]
        levels = laws[0].lowest[:, None] + np.arange(-1, 6)
        P, Q = (quantizer.probability(levels, x[:, None], 1.0, None, 3) for x in (y, y + eps))
        assert 0.7 * certified < np.maximum(P - Q, 0).sum(axis=1).max() <= certified
