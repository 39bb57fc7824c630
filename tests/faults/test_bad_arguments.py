"""The core, called with arguments that make no sense: one sentence each, a ValueError that names
the argument."""

import math
import re

import numpy as np
import pytest
import torch

from ldp_core import audit, clipping, network, optimizer, quantizer, randomness
from ldp_core.accountant import (
    certificate,
    exact,
    meaning,
    monte_carlo,
    promise_plan,
    theorems,
    trajectory,
)
from ldp_core.optimizer import DPSGD, Algorithm1, Schedules, paper_schedules

PAPER, SCHEDULES = network.paper(), paper_schedules(0.5, 0.71, 2.0, 0.01, 0.6)
ALGORITHM, ZEROS = Algorithm1(PAPER, SCHEDULES), np.zeros((2, 5, 3))
LAWS = exact.Pair(0.0, 0.0, np.full(2, 0.5), np.full(2, 0.4))
FOREIGN = re.compile(
    r"broadcast|operand|ufunc|dtype\(|NoneType|object has no|not supported between"
    r"|cannot (be|convert)|could not"
)


def run(oracle=lambda theta, t: theta, iterations=2, theta_0=ZEROS, **options):
    return optimizer.run(ALGORITHM, oracle, theta_0, iterations, **{"seed": 0, **options})


def coins_of(number):
    return np.full((2, 2, 5, 3), number)


def audited(
    mechanism=lambda which, random, count: random.random((count, 2)), samples=100, **options
):
    return audit.audit(mechanism, samples, **{"seed": 0, **options})


def clipped(**options):
    return clipping.Clipped(lambda theta, t: None, **{"clip": 1.0, **options})


def planned(**options):
    given = {"network": PAPER, "target": 0.5, "clip": 1.0, "dim": 3, "horizon": 100, **options}
    return promise_plan.plan(iterations=10, **given)


CASES = {
    "lam_0 as text": (
        lambda: Schedules("a", 0.7, (1.0,), (0.6,)),
        "lam_0 = 'a' must be one real number",
    ),
    "nu of nothing": (
        lambda: Schedules(0.5, None, (1.0,), (0.6,)),
        "nu = None must be one real number",
    ),
    "complex d_0": (
        lambda: Schedules(0.5, 0.7, (1j,), (0.6,)),
        "d_0 = .* must be one number per agent",
    ),
    "varsigma as text": (
        lambda: Schedules(0.5, 0.7, (1.0,), ("a",)),
        "varsigma = .* must be one number per agent",
    ),
    "no d_0": (
        lambda: Schedules(0.5, 0.7, (), ()),
        r"d_0 = .* must be a list of at least one number",
    ),
    "a list as d_0": (
        lambda: paper_schedules(0.5, 0.7, [2, 2, 2], 0.0, 0.6),
        r"d_0 = \[2, 2, 2\] must be one real number",
    ),
    "d_0 for three": (
        lambda: Schedules(0.5, 0.7, [2, 2, 2], [0.6]),
        "d_0 has 3 entries and varsigma 1",
    ),
    "half an agent": (
        lambda: paper_schedules(0.5, 0.7, 2.0, 0.0, 0.6, 2.5),
        "agents = 2.5 must be a whole number",
    ),
    "no agent": (
        lambda: paper_schedules(0.5, 0.7, 2.0, 0.0, 0.6, 0),
        "agents = 0 must be at least 1",
    ),
    "a ring of 2.5": (lambda: network.ring(2.5), "agents = 2.5 must be a whole number"),
    "a ring of one": (lambda: network.ring(1), "agents = 1 must be at least 2"),
    "an exponential graph of text": (
        lambda: network.exponential("4"),
        "agents = '4' must be a whole number",
    ),
    "weight as text": (lambda: network.paper("0.2"), "weight = '0.2' must be one real number"),
    "weight of nothing": (
        lambda: network.from_edges(2, [(0, 1)], [(1, 0)]),
        r"R edge \(0, 1\) has no weight",
    ),
    "an edge of one": (
        lambda: network.from_edges(2, [(0,)], [], 0.2),
        r"R edge \(0,\) must be \(sender, receiver\)",
    ),
    "an edge of text": (
        lambda: network.from_edges(2, [("a", "b")], [], 0.2),
        "agent = 'a' must be a whole number",
    ),
    "an edge that is a number": (
        lambda: network.from_edges(2, [3], [], 0.2),
        r"R edge 3 must be \(sender, receiver\)",
    ),
    "an edge's weight": (
        lambda: network.from_edges(2, [(0, 1, "x")], [], 0.2),
        "weight = 'x' must be one real number",
    ),
    "R of text": (
        lambda: network.Network("R", "C"),
        "R = 'R' must be a square matrix of real numbers",
    ),
    "ragged R": (
        lambda: network.Network([[1], [1, 2]], PAPER.C),
        "R = .* must be a square matrix of real numbers",
    ),
    "a seed for a generator": (
        lambda: network.random_strongly_connected(5, 0),
        "generator = 0 must be a numpy",
    ),
    "z of half a step": (lambda: PAPER.z(2.5), "iterations = 2.5 must be a whole number"),
    "a clip below zero": (lambda: clipped(clip=-5.0), "clip = -5.0 must be positive and finite"),
    "no clip": (lambda: clipped(clip=None), "clip = None must be real numbers"),
    "a clip without end": (
        lambda: clipped(clip=math.inf),
        "clip = inf must be positive and finite",
    ),
    "half a warm-up": (lambda: clipped(warm_up=2.5), "warm_up = 2.5 must be a whole number"),
    "no sample": (lambda: clipped(samples=0), "samples = 0 must be at least 1"),
    "gradients of nothing": (
        lambda: clipped()(ZEROS, 0),
        r"per_sample\(theta, 0\) = None must be real numbers",
    ),
    "quantised in words": (
        lambda: Algorithm1(PAPER, SCHEDULES, quantised="no"),
        "quantised = 'no' must be True or False",
    ),
    "sometimes at the sent value": (
        lambda: Algorithm1(PAPER, SCHEDULES, at_sent=None),
        "at_sent = None must be True or False",
    ),
    "no oracle": (lambda: run(None), r"oracle = None must be a function"),
    "a distance below zero": (lambda: planned(distance=-1.0), "distance = -1.0 must be positive"),
    "a cone in words": (lambda: planned(cone="no"), "cone = 'no' must be True or False"),
    "a pull of text": (lambda: planned(pull="hard"), "pull = 'hard' must be one real number"),
    "no network": (
        lambda: Algorithm1(None, SCHEDULES),
        "network = None must be a ldp_core.network.Network",
    ),
    "no schedules": (
        lambda: Algorithm1(PAPER, 0.5),
        "schedules = 0.5 must be a ldp_core.schedules.Schedules",
    ),
    "four agents, five schedules": (
        lambda: Algorithm1(network.ring(4), SCHEDULES),
        r"the network has 4 agents and the schedules 5: "
        r"d_0 and varsigma must have one entry .*agents=4",
    ),
    "W of text": (lambda: DPSGD("W", SCHEDULES), "W = 'W' must be real numbers"),
    "metropolis of nothing": (lambda: optimizer.metropolis(None), "network = None must be"),
    "an oracle that forgets": (
        lambda: run(lambda theta, t: None),
        r"oracle\(theta, 0\) = None must be a numpy array",
    ),
    "an oracle of torch": (
        lambda: run(lambda theta, t: torch.zeros(2, 5, 3)),
        r"oracle\(theta, 0\) = tensor.* must be a numpy array of real numbers of shape \(2, 5, 3\)",
    ),
    "an oracle of one run": (
        lambda: run(lambda theta, t: theta[:1]),
        r"oracle\(theta, 0\) has shape \(1, 5, 3\): it must be \(2, 5, 3\)",
    ),
    "an oracle of one number": (
        lambda: run(lambda theta, t: 1.0),
        r"oracle\(theta, 0\) = 1.0 must be a numpy array",
    ),
    "a complex oracle": (
        lambda: run(lambda theta, t: theta * 1j),
        r"oracle\(theta, 0\) = array.* must be a numpy array of real numbers",
    ),
    "half an iteration": (lambda: run(iterations=2.5), "iterations = 2.5 must be a whole number"),
    "ten point zero iterations": (
        lambda: run(iterations=10.0),
        "iterations = 10.0 must be a whole number",
    ),
    "yes iterations": (lambda: run(iterations=True), "iterations = True must be a whole number"),
    "theta_0 of text": (lambda: run(theta_0="0"), "theta_0 = '0' must be real numbers"),
    "theta_0 of nothing": (lambda: run(theta_0=None), "theta_0 = None must be real numbers"),
    "theta_0 of one run": (
        lambda: run(theta_0=ZEROS[0]),
        r"theta_0 has shape \(5, 3\): it must be \[runs, 5 agents, dim\]",
    ),
    "a number of runs": (lambda: run(runs=2), "runs = 2 must be a list"),
    "no seed": (lambda: run(seed=None), "seed = None must be a whole number"),
    "half a seed": (lambda: run(seed=0.5), "seed = 0.5 must be a whole number"),
    "coins of seven": (
        lambda: ALGORITHM.step(ALGORITHM.init(ZEROS), ZEROS, coins_of(7.0)),
        r"coins = 7.0 must lie in \[0, 1\)",
    ),
    "coins of NaN": (
        lambda: ALGORITHM.step(ALGORITHM.init(ZEROS), ZEROS, coins_of(np.nan)),
        "coins = nan must lie in",
    ),
    "coins of one run": (
        lambda: ALGORITHM.step(ALGORITHM.init(ZEROS), ZEROS, coins_of(0.5)[:1]),
        r"coins has shape \(1, 2, 5, 3\): it must be \(2, 2, 5, 3\)",
    ),
    "gradients of one run": (
        lambda: ALGORITHM.step(ALGORITHM.init(ZEROS), ZEROS[:1], coins_of(0.5)),
        "gradients has shape",
    ),
    "y of text": (lambda: quantizer.pmf("y", 1.0), "y = 'y' must be real numbers"),
    "a step of nothing": (lambda: quantizer.pmf(0.5, None), "step = None must be real numbers"),
    "steps that do not fit": (
        lambda: quantizer.pmf(np.zeros(3), np.ones(2)),
        r"y of shape \(3,\), step of shape \(2,\) do not fit",
    ),
    "coins that do not fit": (
        lambda: quantizer.quantise(np.zeros(3), 1.0, np.zeros(2)),
        "coins of shape .* do not fit together",
    ),
    "a run that is text": (
        lambda: randomness.generator(0, randomness.Purpose.DATA, "a"),
        "run = 'a' must be a whole number",
    ),
    "candidates for varsigma": (
        lambda: planned(varsigma=0.5),
        "varsigma = 0.5 must be a list",
    ),
    "no candidates for nu": (
        lambda: planned(nu=[]),
        r"nu = \[\] must be a list of at least one number",
    ),
    "a target of text": (lambda: planned(target="x"), "target = 'x' must be real numbers"),
    "a network of nothing": (lambda: planned(network=None), "network = None must be"),
    "half a dimension": (lambda: planned(dim=2.5), "dim = 2.5 must be a whole number"),
    "a clip of text": (lambda: planned(clip="a"), "clip = 'a' must be real numbers"),
    "a certificate of nothing": (
        lambda: certificate.certify(None, SCHEDULES, 1.0, 1.0, 5),
        "network = None must be",
    ),
    "d_l of text": (
        lambda: certificate.certify(PAPER, SCHEDULES, "1", 1.0, 5),
        "d_l = '1' must be real numbers",
    ),
    "L1 for three": (
        lambda: theorems.theorem_2_2(PAPER, SCHEDULES, 1.0, [0.1] * 3),
        "L1 has shape .*: it must be one number, or one for each of 5 agents",
    ),
    "L as text": (lambda: theorems.l1_lipschitz("1", 4), "L = '1' must be one real number"),
    "a batch of text": (lambda: exact.Bracket("2"), "batch = '2' must be a whole number"),
    "no resolution": (
        lambda: exact.delta(LAWS, 0.0, None),
        "resolution = None must be one real number",
    ),
    "y of another length": (
        lambda: exact.Bracket(2).add(np.zeros((2, 3)), np.zeros((2, 4)), 1.0),
        r"y of shape \(2, 3\), other of shape \(2, 4\), step of shape \(\) do not fit together",
    ),
    "y of another batch": (
        lambda: exact.Bracket(2).add(np.zeros((3, 3)), np.zeros((3, 3)), 1.0),
        r"y, other and step have shape \(3, 3\) together: it must be \[2 rows, coordinates\]",
    ),
    "epsilon of text": (
        lambda: exact.delta(LAWS, "0"),
        "epsilon = '0' must be one real number",
    ),
    "half a sample": (
        lambda: monte_carlo.MonteCarlo(1, 2.5, 0),
        "samples = 2.5 must be a whole number",
    ),
    "sure of nothing": (
        lambda: monte_carlo.MonteCarlo(1, 10, 0, None),
        "confidence = None must be one real number",
    ),
    "delta of text": (lambda: meaning.advantage("0.1"), "delta = '0.1' must be real numbers"),
    "a prior of nothing": (
        lambda: meaning.accuracy(0.1, None),
        "prior = None must be real numbers",
    ),
    "an agent of text": (
        lambda: trajectory.received(ALGORITHM, [], "0"),
        "agent = '0' must be real numbers",
    ),
    "samples as text": (lambda: audited(samples="5"), "samples = '5' must be a whole number"),
    "no distinguisher": (
        lambda: audited(distinguishers={}),
        "distinguishers = {} must map at least one name",
    ),
    "a list of distinguishers": (
        lambda: audited(distinguishers=["fisher"]),
        "distinguishers = .* must be a dictionary",
    ),
    "confidence as text": (
        lambda: audited(confidence="0.9"),
        "confidence = '0.9' must be one real number",
    ),
    "a silent mechanism": (
        lambda: audited(lambda *given: None),
        r"the mechanism returned shape \(\): it must be",
    ),
    "a ragged mechanism": (
        lambda: audited(lambda which, random, count: [[1.0]] * (count - 1) + [[1.0, 2.0]]),
        "the mechanism returned rows of different lengths",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_core_answers_in_one_sentence(name):
    call, sentence = CASES[name]
    with pytest.raises(ValueError, match=f"^.*{sentence}") as refused:
        call()
    text = str(refused.value)
    assert "\n" not in text and len(text) < 250 and not FOREIGN.search(text), text


def test_what_is_right_is_accepted():
    """The same calls with sense in them: the table above refuses the argument, not the call."""
    assert (
        run().t == 2
        and audited().lower >= 0
        and exact.Bracket(2).delta().upper.tolist() == [0.0, 0.0]
    )
    assert math.isfinite(theorems.theorem_2_1(PAPER, SCHEDULES, 1.0, 5).delta.max())
    assert Schedules(0.5, 0.7, 2.0, 0.6).d_0 == (2.0,) and meaning.advantage(
        [0.1, 2.0]
    ).tolist() == [0.1, 1.0]


def test_whole_numbers_of_numpy_are_whole_numbers():
    assert network.exponential(np.int64(5)).agents == 5
    start = optimizer.State(100, ZEROS, ZEROS, np.eye(5))
    last = optimizer.resume(ALGORITHM, lambda theta, t: theta, start, np.int8(100), seed=0)
    assert last.t == 200
