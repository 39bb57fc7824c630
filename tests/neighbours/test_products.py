"""What one pair of samples reaches: never above the truth, and hardly below it."""

from __future__ import annotations

import doctest
import itertools

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given, settings
from hypothesis import strategies as st

from companion.neighbours import products
from ldp_core import quantizer
from ldp_core.accountant import exact
from ldp_core.randomness import Purpose, generator


def test_the_example_of_the_module():
    assert doctest.testmod(products).failed == 0


def enumerated(ours: np.ndarray, theirs: np.ndarray, counts: np.ndarray) -> float:
    """Return the total variation of two products of laws: every outcome is counted."""
    worlds = [np.repeat(law, counts, axis=0) for law in (ours, theirs)]
    both = zip(*(itertools.product(*law) for law in worlds), strict=True)
    return sum(abs(np.prod(one) - np.prod(two)) for one, two in both) / 2.0


def case(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return two products of up to six random laws on up to four points, some without a point."""
    random = generator(seed, Purpose.SYNTHETIC)
    laws, points = int(random.integers(1, 4)), int(random.integers(2, 5))
    ours, theirs = random.dirichlet(np.ones(points), (2, laws))
    theirs = ours + random.uniform(0.05, 1.0) * (theirs - ours)
    if random.random() < 0.2:
        theirs[0] = np.eye(points)[0]
    return ours, theirs, random.integers(1, 3, laws)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**6))
def test_never_above_what_enumeration_finds(seed):
    laws = case(seed)
    assert 0.0 <= products.told_apart(*laws) <= enumerated(*laws)


def test_close_to_what_enumeration_finds():
    """A few large steps are the hardest: a sign that is smoothed errs where L is near zero."""
    shares = [products.told_apart(*case(seed)) / enumerated(*case(seed)) for seed in range(100)]
    assert np.median(shares) > 0.99 and min(shares) > 0.7


@pytest.mark.parametrize("apart", [0.05, 0.5, 1.5])
def test_smooth_coins_enumerated(apart):
    """Five coordinates of degree 3, of two sizes; the largest shift leaves a cell."""
    laws = products.levels(np.array([apart, apart / 2]), 3)
    counts = np.array([2, 3])
    truth = enumerated(*laws, counts)
    assert 0.95 * truth < products.told_apart(*laws, counts) <= truth


@pytest.mark.parametrize("each", [0.004, 0.02, 0.1])
def test_thousand_signs_against_their_exact_bracket(each):
    ours, theirs = products.signs(np.array([each]))
    found = products.told_apart(ours, theirs, np.array([1000]))
    pair = exact.Pair(0.0, 0.0, *(np.full(1000, law[0, 0]) for law in (ours, theirs)))
    lower, upper = exact.delta(pair)
    assert 0.995 * lower < found <= upper


@pytest.mark.parametrize(("each", "kind"), [(0.004, "levels"), (0.02, "levels"), (0.02, "signs")])
def test_against_googles_accountant(each, kind):
    """A thousand messages; Laplace noise itself is told apart as well as by its signs."""
    fine = {"value_discretization_interval": 1e-6}
    laws = products.signs(np.array([each]))
    one = pld.from_laplace_mechanism(1.0, sensitivity=each, **fine)
    if kind == "levels":
        laws = products.levels(np.array([each]), 3)
        upper, lower = (dict(enumerate(np.log(law[0]).tolist())) for law in laws)
        one = pld.from_two_probability_mass_functions(lower, upper, **fine)
    theirs = one.self_compose(1000).get_delta_for_epsilon(0.0)
    assert 0.994 * theirs < products.told_apart(*laws, np.array([1000])) <= theirs


def test_laws_are_those_of_the_quantizer_and_of_laplace_noise():
    """Ten thousand values with noise, above the middle or not: 1e-7 (Hoeffding)."""
    ours, theirs = products.levels(np.array([0.1, 0.2]), 3)
    assert np.allclose(ours.sum(axis=1), 1.0) and np.allclose(theirs.sum(axis=1), 1.0)
    mean = (ours - theirs) @ np.arange(ours.shape[1])
    assert mean == pytest.approx([0.1, 0.2]) and quantizer.dearest(3) < 0.5
    noise = generator(1, Purpose.SYNTHETIC).laplace(size=10_000)
    share, (law, _) = np.mean(0.3 + noise > 0), products.signs(np.array([0.6]))
    assert abs(share - law[0, 0]) < np.sqrt(np.log(2 / 1e-7) / 20_000)


def test_nothing_and_everything():
    same = np.array([[0.3, 0.7]])
    assert products.told_apart(same, same, np.array([9])) == 0.0
    far = products.levels(np.array([40.0]), 3)
    assert (far[0] * far[1] == 0).all() and products.told_apart(*far, np.array([3])) > 0.99
