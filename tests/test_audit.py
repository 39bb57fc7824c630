"""The audit: its bounds hold, its distinguishers are strong, and it never contradicts the exact
total variation.
"""

from __future__ import annotations

import subprocess
import sys
from itertools import product

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom

from ldp_core import audit, quantizer
from ldp_core.accountant import exact
from ldp_core.randomness import Purpose, generator
from tests.faults.mechanisms import Case, Right

CONFIDENCE = 0.999


def enumerated(y, other, step) -> float:
    """Return delta of two product laws by adding up all transcripts, for at most about
    twenty coins.
    """
    ours, theirs = np.ones(1), np.ones(1)
    for a, b, d in zip(*(np.ravel(x) for x in np.broadcast_arrays(y, other, step)), strict=True):
        levels = np.unique([quantizer.pmf(x, d).lower + up for x in (a, b) for up in (0, 1)])
        ours = np.multiply.outer(ours, quantizer.probability(levels, a, d)).ravel()
        theirs = np.multiply.outer(theirs, quantizer.probability(levels, b, d)).ravel()
        possible = (ours > 0) | (theirs > 0)
        ours, theirs = ours[possible], theirs[possible]
    return float(np.abs(ours - theirs).sum() / 2)


def coins_with_total_variation(coins: int, target: float) -> tuple[np.ndarray, np.ndarray]:
    """Return two states, `coins` equal coordinates each, whose messages with step 1 have the given
    total variation.

    Their number of ups is binomial and sufficient, so the total variation is that of two binomials.
    """
    ups = np.arange(coins + 1)

    def total_variation(gap: float) -> float:
        return (
            0.5
            * np.abs(
                binom.pmf(ups, coins, 0.5 + gap / 2) - binom.pmf(ups, coins, 0.5 - gap / 2)
            ).sum()
        )

    gap = brentq(lambda gap: total_variation(gap) - target, 0.0, 1.0)
    return np.full(coins, 0.5 + gap / 2), np.full(coins, 0.5 - gap / 2)


class TestBounds:
    @pytest.mark.parametrize("alpha", [0.25, 0.05, 0.001])
    @pytest.mark.parametrize("trials", [2, 30])
    def test_wrong_at_most_as_often_as_said(self, alpha, trials):
        """No sampling: the probability that a bound is wrong is added up over all outcomes, for p
        and q on a grid.
        """
        k = np.arange(trials + 1)
        hits, false_hits = (a.ravel() for a in np.meshgrid(k, k, indexing="ij"))
        for bound in (audit.separate_bound, audit.pooled_bound):
            lower = np.maximum(bound(hits, false_hits, trials, alpha), 0.0)
            for p, q in product([0.0, 0.01, 0.1, 0.3, 0.5, 0.62, 0.9, 0.99, 1.0], repeat=2):
                weight = np.multiply.outer(binom.pmf(k, trials, p), binom.pmf(k, trials, q)).ravel()
                truth = max(0.0, p - q)
                assert weight[lower > truth + 1e-12].sum() <= alpha * (1 + 1e-9)

    def test_limits(self):
        lower, upper = audit.clopper_pearson([0, 10], 10, 0.05)
        assert lower[0] == 0 and upper[1] == 1
        assert upper[0] == pytest.approx(1 - 0.05 ** (1 / 10)) and lower[1] == pytest.approx(
            0.05 ** (1 / 10)
        )

    def test_pooled_wins_in_the_middle_and_separate_at_the_edge(self):
        n, alpha = 1000, 1e-3
        assert audit.pooled_bound(700, 300, n, alpha) > audit.separate_bound(700, 300, n, alpha)
        assert audit.separate_bound(50, 0, n, alpha) > audit.pooled_bound(50, 0, n, alpha)


class TestPower:
    # Seeds are fixed; a bound above the exact value would happen in one of 1000 seeds at most.
    @pytest.mark.parametrize(
        ("coins", "target", "samples", "share"),
        [
            (1, 0.05, 100_000, 0.5),
            (1, 0.5, 20_000, 0.9),
            (20, 0.05, 100_000, 0.5),
            (20, 0.2, 20_000, 0.8),
            (20, 0.5, 20_000, 0.9),
            (20, 0.9, 20_000, 0.97),
            (200, 0.5, 20_000, 0.85),
        ],
    )
    def test_close_to_the_truth(self, coins, target, samples, share):
        y, other = coins_with_total_variation(coins, target)
        found = audit.audit(audit.sender(y, other, 1.0), samples, seed=5, confidence=CONFIDENCE)
        assert share * target <= found.lower <= target

    def test_thin_over_many_coordinates(self):
        """A total variation of 1/2 spread over 1000 coordinates, none of which differs by more than
        0.022.
        """
        y, other = coins_with_total_variation(1000, 0.5)
        found = audit.audit(audit.sender(y, other, 1.0), 20_000, seed=5, confidence=CONFIDENCE)
        assert 0.8 * 0.5 <= found.lower <= 0.5

    def test_disjoint_supports(self):
        found = audit.audit(
            audit.sender(np.array([0.5]), np.array([2.5]), 1.0),
            20_000,
            seed=5,
            confidence=CONFIDENCE,
        )
        assert found.estimate == 1 and found.lower > 0.998

    @pytest.mark.parametrize("target", [0.05, 0.2, 0.5, 0.9])
    def test_who_knows_the_states_reaches_the_exact_value(self, target):
        y, other = coins_with_total_variation(300, target)
        informed = {"likelihood ratio": audit.likelihood_ratio(y, other, 1.0)}
        found = audit.audit(
            audit.sender(y, other, 1.0),
            20_000,
            seed=6,
            confidence=CONFIDENCE,
            distinguishers=informed,
        )
        assert target - 0.035 <= found.lower <= target

    @pytest.mark.parametrize("rare", [0, 1])
    def test_both_directions(self, rare):
        """Only one data set can send a 1, with probability 0.1."""
        found = audit.audit(
            lambda which, private, n: (private.random((n, 1)) < 0.1) & (which == rare),
            10_000,
            seed=8,
        )
        assert 0.07 <= found.lower <= 0.1


class TestDistinguishers:
    """Each one, alone, finds what it is for."""

    def alone(self, name, mechanism, samples=4000):
        one = {name: audit.DISTINGUISHERS[name]}
        return audit.audit(
            mechanism, samples, seed=9, confidence=CONFIDENCE, distinguishers=one
        ).lower

    def test_naive_bayes_on_a_product(self):
        y, other = coins_with_total_variation(20, 0.5)
        assert self.alone("naive Bayes", audit.sender(y, other, 1.0)) > 0.4

    def test_differing_columns_among_many_that_do_not_differ(self):
        y = np.append(generator(1, Purpose.SYNTHETIC).random(3000), np.full(30, 0.5))
        other = np.append(y[:3000], np.full(30, 0.37))
        everything = self.alone("naive Bayes", audit.sender(y, other, 1.0))
        assert (
            self.alone("naive Bayes, differing columns", audit.sender(y, other, 1.0))
            > everything + 0.1
        )

    def test_linear_on_columns_that_move_together(self):
        """Two normal columns, nearly equal: their difference tells, each alone does not."""

        def mechanism(which, private, n):
            common = private.standard_normal((n, 1))
            return np.hstack([common + 0.1 * which, common]) + 0.02 * private.standard_normal(
                (n, 2)
            )

        assert self.alone("linear", mechanism) > 0.85
        assert self.alone("naive Bayes", mechanism) < 0.2

    def test_quadratic_on_an_exclusive_or(self):
        """Two fair bits, equal under D and different under D'."""

        def mechanism(which, private, n):
            bit = private.integers(2, size=(n, 1))
            return np.hstack([bit, bit ^ which])

        assert self.alone("quadratic", mechanism) > 0.95

    def test_support_of_a_shifted_range(self):
        def mechanism(which, private, n):
            return private.random((n, 30)) + 0.01 * which

        truth = 1 - 0.99**30
        assert 0.7 * truth < self.alone("support", mechanism) < truth

    def test_whole_transcripts_when_there_are_few(self):
        words = generator(2, Purpose.SYNTHETIC).integers(2, size=(2, 200, 40))
        assert (
            self.alone(
                "whole transcript",
                lambda which, private, n: words[which, private.integers(200, size=n)],
            )
            > 0.95
        )


class TestFalseAlarms:
    def test_who_knows_the_states_is_wrong_as_rarely_as_said(self):
        """1000 audits of 5 coins at confidence 0.9: more failures than the limit happen with
        probability 1e-6.
        """
        y, other, step = (
            np.array([0.3, 0.6, 0.5, 1.2, 0.8]),
            np.array([0.4, 0.5, 0.7, 0.9, 0.8]),
            1.0,
        )
        truth = enumerated(y, other, step)
        informed = {"likelihood ratio": audit.likelihood_ratio(y, other, step)}
        found = [
            audit.audit(
                audit.sender(y, other, step),
                120,
                seed=seed,
                confidence=0.9,
                distinguishers=informed,
            )
            for seed in range(1000)
        ]
        assert sum(a.refutes(truth) for a in found) <= binom.ppf(1 - 1e-6, 1000, 0.1)

    def test_nothing_to_find(self):
        """300 audits of two equal laws at confidence 0.9, all distinguishers: limit as above."""
        y = np.array([0.3, 0.6, 1.5])
        wrong = sum(
            audit.audit(audit.sender(y, y, 1.0), 100, seed=seed, confidence=0.9).lower > 0
            for seed in range(300)
        )
        assert wrong <= binom.ppf(1 - 1e-6, 300, 0.1)


class TestSandwich:
    """audit <= exact <= 1 - prod(1 - TV) <= sum |y - y'| / d, for one agent of Algorithm 1 with
    received messages fixed.
    """

    @pytest.mark.parametrize(("agent", "k"), [(0, 0), (2, 1), (4, 3)])
    def test_all_transcripts_enumerated(self, agent, k):
        case = Case(iterations=8, dim=1, k=k, agent=agent)
        y, other, step = case.pair()
        truth = enumerated(y, other, step)
        self.sandwich(case, truth, truth)

    @pytest.mark.parametrize(
        ("agent", "k", "d_0"), [(0, 12, 4.0), (1, 3, 8.0), (2, 10, 2.0), (3, 0, 6.0)]
    )
    def test_exact_by_the_accountant(self, agent, k, d_0):
        case = Case(iterations=30, dim=4, k=k, agent=agent, d_0=d_0)
        self.sandwich(case, *exact.delta(exact.pair(*case.pair())))

    def sandwich(self, case, lower, upper):
        y, other, step = case.pair()
        separate = quantizer.total_variation(y, other, step)
        composed, paper = 1 - np.prod(1 - separate), (np.abs(y - other) / step).sum()
        blind = audit.audit(Right(case), 10_000, seed=11, confidence=CONFIDENCE)
        informed = audit.audit(
            audit.sender(y, other, step),
            10_000,
            seed=12,
            confidence=CONFIDENCE,
            distinguishers={"likelihood ratio": audit.likelihood_ratio(y, other, step)},
        )
        assert (
            blind.lower <= upper and informed.lower <= upper
        )  # each fails with probability at most 0.001 in a random seed
        assert lower <= composed + 1e-12 and composed <= paper + 1e-12
        assert informed.lower >= upper - 0.07  # and is not idle


class TestInterface:
    def test_same_seed_same_audit(self):
        y, other = coins_with_total_variation(20, 0.2)
        first, again, third = (
            audit.audit(audit.sender(y, other, 1.0), 2000, seed=seed) for seed in (1, 1, 2)
        )
        assert first == again and first != third

    def test_nothing_sent(self):
        found = audit.audit(lambda which, private, n: np.zeros((n, 0)), 100, seed=1)
        assert found.lower == 0 and found.estimate == 0

    def test_a_claim_is_refuted(self):
        found = audit.audit(lambda which, private, n: np.full((n, 3), which), 100, seed=1)
        assert found.refutes(0.9) and not found.refutes(0.92)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"samples": 10}, "samples = 10 must be at least 20"),
            ({"confidence": 1.0}, r"confidence = 1.0 must lie in \[0.75, 1\)"),
            (
                {"mechanism": lambda which, private, n: np.zeros(n)},
                r"the mechanism returned shape \(35,\)",
            ),
            (
                {"mechanism": lambda which, private, n: np.full((n, 1), np.nan)},
                "must hold finite real numbers",
            ),
        ],
    )
    def test_bad_input(self, arguments, message):
        given = {
            "mechanism": lambda which, private, n: np.zeros((n, 1)),
            "samples": 100,
            **arguments,
        }
        with pytest.raises(ValueError, match=message):
            audit.audit(given.pop("mechanism"), given.pop("samples"), seed=1, **given)

    def test_importing_needs_numpy_alone(self):
        code = (
            "import sys, ldp_core.audit; "
            "sys.exit(any(m in sys.modules for m in ('scipy', 'numba', 'torch', 'pandas')))"
        )
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
