"""Deliberately broken mechanisms are caught, each by the check named in the table; the right one
passes all. `-s` prints them.

The whole of it accuses the right mechanism with probability at most 4e-6: 1e-6 each for the audit
and for the three checks that involve chance; the invariants and the claim involve none. Seeds are
fixed: what passes once passes again.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from ldp_core import audit, network
from ldp_core.optimizer import Algorithm1, Schedules, Transcript, run
from tests.faults import algorithms, checks, mechanisms, table

ALPHA = 1e-6
SAMPLES = 20_000
CASE = mechanisms.Case()
CHANCE = ("unbiased coins", "mean of the runs", "convergence")
PROBLEM = checks.Problem.random(
    network.paper(),
    Schedules(0.5, 0.8, np.linspace(0.4, 0.6, 5), np.linspace(0.6, 0.64, 5)),
    dim=2,
    seed=7,
)


def accused(
    algorithm, iterations: int = 400, runs: int = 64, seed: int = 1, alpha: float = ALPHA
) -> dict[str, checks.Verdict]:
    """Return the verdicts of the checks that an algorithm fails."""
    record = checks.Record(
        algorithm(PROBLEM.network, PROBLEM.schedules), PROBLEM, iterations, runs, seed
    )
    verdicts = {name: check(record, alpha) for name, check in checks.CHECKS.items()}
    return {name: verdict for name, verdict in verdicts.items() if not verdict.passed}


class TestPrivacy:
    @pytest.mark.parametrize("fault", mechanisms.Right.__subclasses__(), ids=table.name)
    def test_caught_by_the_audit(self, fault):
        allowed = mechanisms.claim(fault, CASE)
        found = audit.audit(fault(CASE), SAMPLES, seed=3, confidence=1.0 - ALPHA)
        print(f"\n{table.name(fault):30} claimed {allowed:.3f}; {found}")
        assert found.refutes(allowed)

    def test_right_is_not_accused(self):
        allowed = mechanisms.claim(mechanisms.Right, CASE)
        found = audit.audit(mechanisms.Right(CASE), SAMPLES, seed=3, confidence=1.0 - ALPHA)
        print(f"\n{'right':30} claimed {allowed:.3f}; {found}")
        assert not found.refutes(allowed)
        assert found.lower > allowed - 0.1  # and not because the audit is blind

    def test_right_is_the_agent_of_ldp_core(self):
        """With the same coins it sends what the agent sends in a run of Algorithm 1, to the last
        level."""
        transcript, start = Transcript(), np.zeros((1, 5, CASE.dim))
        run(
            CASE.algorithm,
            mechanisms.Logistic(CASE.data),
            start,
            CASE.iterations,
            seed=CASE.seed,
            observe=transcript,
        )
        right, coins = mechanisms.Right(CASE), CASE.algorithm.coins(CASE.seed)
        y = right.states(0)
        tossed = np.stack(
            [coins(range(1), t, CASE.dim)[:, :, CASE.agent] for t in range(CASE.iterations)], axis=1
        )
        sent = np.stack(
            [np.stack(message.values())[:, 0, CASE.agent] for message in transcript.messages]
        )
        np.testing.assert_allclose(right.send(y, right.step(y), tossed)[0], sent, rtol=1e-15)

    def test_false_alarms(self):
        """300 audits at confidence 0.9 of a small right mechanism: more accusations than the limit
        have probability 1e-6."""
        case = mechanisms.Case(iterations=8, dim=1, k=1)
        allowed, right = mechanisms.claim(mechanisms.Right, case), mechanisms.Right(case)
        wrong = sum(
            audit.audit(right, 200, seed=seed, confidence=0.9).refutes(allowed)
            for seed in range(300)
        )
        print(f"\n{wrong} of 300 audits at confidence 0.9 accuse the right mechanism")
        assert wrong <= binom.ppf(1 - 1e-6, 300, 0.1)


class TestUtility:
    @pytest.mark.parametrize(
        ("fault", "check"),
        table.CAUGHT_BY.items(),
        ids=lambda x: x if isinstance(x, str) else table.name(x),
    )
    def test_caught(self, fault, check):
        failed = accused(fault)
        print(f"\n{table.name(fault):30} fails {', '.join(failed)}")
        assert check in failed

    @pytest.mark.parametrize(
        "right", [Algorithm1, algorithms.Right], ids=["ldp_core", "cut into parts"]
    )
    def test_right_is_not_accused(self, right):
        assert accused(right) == {}

    def test_the_parts_make_the_whole(self):
        start = np.zeros((3, *PROBLEM.target.shape))
        first, second = (
            run(algorithm(PROBLEM.network, PROBLEM.schedules), PROBLEM.oracle, start, 100, seed=4)
            for algorithm in (Algorithm1, algorithms.Right)
        )
        for name in ("theta", "psi", "z"):
            np.testing.assert_allclose(
                getattr(first, name), getattr(second, name), rtol=0, atol=1e-12
            )

    def test_false_alarms(self):
        """200 records at alpha = 0.05, each check by itself: more accusations than the limit have
        probability 1e-6."""
        failed = [
            name
            for seed in range(200)
            for name in accused(Algorithm1, iterations=40, runs=8, seed=seed, alpha=0.05)
        ]
        print(
            "\nfalse alarms of 200 at alpha = 0.05: "
            f"{ {name: failed.count(name) for name in checks.CHECKS} }"
        )
        assert {
            name for name in failed if failed.count(name) > binom.ppf(1 - 1e-6, 200, 0.05)
        } == set()
        assert set(failed) <= set(CHANCE)

    def test_limits_are_not_idle(self):
        """The noise of the right algorithm fills a good part of its proven variance, and
        convergence asks for a small distance.

        a (1 - a) d^2 averages 2/3 of d^2 / 4 over the positions a in a cell; with 64 runs of 10
        numbers the ratio is known to about 10 %, so below 0.3 the variance proxy would be wrong.
        """
        record = checks.Record(
            Algorithm1(PROBLEM.network, PROBLEM.schedules), PROBLEM, 400, 64, seed=1
        )
        spread = ((record.states[-1].theta - checks.twin(PROBLEM, 400)) ** 2).mean(axis=(0, 2))
        assert 0.3 < np.mean(spread / checks.variance_proxy(PROBLEM, 400)) <= 1.0
        assert checks.converges(record, ALPHA).limit < 0.02 * np.abs(PROBLEM.optimum).max()


class TestTable:
    def test_every_fault_is_in_it(self):
        assert set(table.CAUGHT_BY) == set(algorithms.Right.__subclasses__())
        assert set(table.CAUGHT_BY.values()) <= set(checks.CHECKS)
        assert len(table.rows()) == len({row.fault for row in table.rows()}) >= 15

    def test_document_is_current(self):
        assert table.DOCUMENT.read_text(encoding="utf-8") == table.markdown(), (
            "run python -m tests.faults.table"
        )
