"""Assumption 4, Lemma 3 and Lemma 4, checked against their definitions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldp_core import network
from ldp_core.network import Network, from_edges

seeds = st.integers(0, 2**32 - 1)


def random_network(seed: int) -> Network:
    generator = np.random.default_rng(seed)
    return network.random_strongly_connected(
        int(generator.integers(2, 9)), generator, float(generator.uniform(0, 1))
    )


@settings(max_examples=100, deadline=None)
@given(seeds)
def test_u_and_v_are_the_eigenvectors_of_lemma_3(seed):
    net = random_network(seed)
    mixing_R, mixing_C = np.eye(net.agents) + net.R, np.eye(net.agents) + net.C
    assert np.allclose(net.u @ mixing_R, net.u, atol=1e-12)
    assert np.allclose(mixing_C @ net.v, net.v, atol=1e-12)
    assert net.u.sum() == pytest.approx(net.agents) and net.v.sum() == pytest.approx(net.agents)
    assert (net.u > 0).all() and (net.v > 0).all()


@settings(max_examples=100, deadline=None)
@given(seeds)
def test_lemma_4_holds_at_every_t_and_is_attained(seed):
    net = random_network(seed)
    C_z, P_z = net.lemma_4
    assert net.rate_R < P_z < 1
    steps = max(
        2, min(400, int(np.log(1e-9) / np.log(P_z)))
    )  # before rounding drowns the difference
    left = np.abs(1.0 / (net.agents * net.z(steps)) - 1.0 / net.u)
    right = C_z * P_z ** np.arange(steps)[:, None]
    assert (left <= right * (1 + 1e-6)).all()
    assert (left / right).max() > 0.999


@settings(max_examples=50, deadline=None)
@given(seeds)
def test_z_converges_to_u_at_the_computed_rate(seed):
    """m [z_t^i]_i - u_i shrinks by rate_R a step in the long run: its logarithm has that slope, up
    to bounded oscillation.
    """
    net = random_network(seed)
    steps = int(np.clip(np.log(1e-10) / np.log(max(net.rate_R, 1e-3)), 10, 2000))
    error = np.abs(net.agents * net.z(steps) - net.u).max(axis=1)
    bound = (
        net.agents
        * np.linalg.cond(np.linalg.eig(np.eye(net.agents) + net.R)[1])
        * net.rate_R ** np.arange(steps)
    )
    assert (error <= bound + 1e-9).all()


def test_z_is_the_diagonal_of_the_powers():
    net = network.paper()
    assert np.allclose(
        net.z(6)[5], np.diag(np.linalg.matrix_power(np.eye(5) + net.R, 5)), atol=1e-15
    )
    assert np.array_equal(net.z(1)[0], np.ones(5))


def test_the_papers_network_is_unbalanced_in_both_graphs():
    net = network.paper()
    assert net.agents == 5
    assert net.u == pytest.approx([5 / 3, 5 / 4, 5 / 12, 5 / 6, 5 / 6])
    assert net.v == pytest.approx([5 / 11, 15 / 11, 15 / 11, 10 / 11, 10 / 11])


@pytest.mark.parametrize("make", [network.ring, network.exponential])
@pytest.mark.parametrize("agents", [2, 3, 5, 8, 13])
def test_regular_generators_are_balanced(make, agents):
    net = make(agents, 0.1)
    assert np.allclose(net.u, 1.0) and np.allclose(net.v, 1.0)


def test_rates_of_the_ring_are_known():
    """The ring's I + R is circulant: eigenvalues 1 - w + w exp(2 pi i k / m)."""
    m, w = 7, 0.3
    eigenvalues = 1 - w + w * np.exp(2j * np.pi * np.arange(1, m) / m)
    assert network.ring(m, w).rate_R == pytest.approx(np.abs(eigenvalues).max())
    assert network.ring(m, w).rate_C == pytest.approx(np.abs(eigenvalues).max())


def test_weak_C_is_allowed_as_in_the_paper():
    """G_C^T needs a spanning tree only: here C is a path that ends in a sink pair, not strongly
    connected.
    """
    net = from_edges(3, [(0, 1), (1, 2), (2, 0)], [(0, 1), (1, 2), (2, 1)], 0.3)
    assert net.v[0] == 0 and (net.u > 0).all()


def edges(*pairs):
    return [(j, i, 0.3) for j, i in pairs]


RING = edges((0, 1), (1, 2), (2, 0))
BROKEN = {
    "negative weight": (
        lambda: Network([[-0.1, 0.1], [-0.1, 0.1]], [[-0.1, 0.1], [0.1, -0.1]]),
        r"agent 1: R_ij = -0.1 .*negative \(Assumption 4\)",
    ),
    "row sum of R": (
        lambda: Network([[-0.1, 0.2], [0.1, -0.1]], [[-0.1, 0.1], [0.1, -0.1]]),
        r"agent 0: the row sum of R is 0.1.*\(Assumption 4\)",
    ),
    "column sum of C": (
        lambda: Network([[-0.1, 0.1], [0.1, -0.1]], [[-0.1, 0.1], [0.2, -0.1]]),
        r"agent 0: the column sum of C",
    ),
    "1 + R_ii": (
        lambda: Network([[-1, 1], [0.1, -0.1]], [[-0.1, 0.1], [0.1, -0.1]]),
        r"agent 0: 1 \+ R_ii = 0.0 must be positive",
    ),
    "1 + C_ii": (
        lambda: Network([[-0.1, 0.1], [0.1, -0.1]], [[-1.5, 0.1], [1.5, -0.1]]),
        r"agent 0: 1 \+ C_ii = -0.5 must be positive",
    ),
    "no in-neighbour": (
        lambda: from_edges(3, edges((0, 1), (1, 2)), RING),
        r"agent 0: R_ii = .* must be negative: it has no in-neighbour",
    ),
    "no out-neighbour": (
        lambda: from_edges(3, RING, edges((0, 1), (1, 2))),
        r"agent 2: C_ii = .* must be negative: it has no out-neighbour",
    ),
    "no spanning tree in R": (
        lambda: from_edges(
            4, edges((0, 1), (1, 0), (2, 3), (3, 2)), edges((0, 1), (1, 2), (2, 3), (3, 0))
        ),
        r"agent \d: u_i = 0.*strongly connected",
    ),
    "no spanning tree in C": (
        lambda: from_edges(
            4, edges((0, 1), (1, 2), (2, 3), (3, 0)), edges((0, 1), (1, 0), (2, 3), (3, 2))
        ),
        r"G_C\^T must have a spanning tree \(Assumption 4 \(i\)\)",
    ),
    "no common root": (
        lambda: from_edges(
            4,
            edges((0, 1), (1, 0), (1, 2), (2, 3), (3, 2)),
            edges((0, 1), (1, 0), (1, 2), (2, 3), (3, 2)),
        ),
        r"agent 2: u_i = 0.*strongly connected",
    ),
    "u_i = 0": (
        lambda: from_edges(
            4, edges((0, 1), (1, 0), (1, 2), (2, 3), (3, 2)), edges((0, 1), (1, 2), (2, 3), (3, 0))
        ),
        r"agent 2: u_i = 0.*strongly connected",
    ),
    "not square": (lambda: Network(np.zeros((2, 3)), np.zeros((2, 3))), r"R has shape \(2, 3\)"),
    "not finite": (
        lambda: Network([[np.nan, 0.1], [0.1, -0.1]], np.zeros((2, 2))),
        "R = nan must be finite",
    ),
    "sizes differ": (lambda: Network(network.ring(3).R, network.ring(4).C), "R is .* and C is"),
    "edge to itself": (
        lambda: from_edges(3, [(1, 1)], RING, 0.1),
        r"R edge \(1, 1\) must join two different agents",
    ),
    "edge twice": (
        lambda: from_edges(3, [*RING, (0, 1, 0.2)], RING),
        r"R edge \(0, 1, 0.2\) is given twice",
    ),
    "edge without weight": (
        lambda: from_edges(3, RING, [(0, 1)]),
        r"C edge \(0, 1\) has no weight",
    ),
    "edge of weight 0": (
        lambda: from_edges(3, [(0, 1)], RING, 0.0),
        "weight = 0.0 must be positive",
    ),
    "unknown agent": (
        lambda: from_edges(3, [(0, 5)], RING, 0.1),
        r"R edge \(0, 5\) must join two different agents of 0 ... 2",
    ),
    "one agent": (lambda: from_edges(1, [], [], 0.1), "agents = 1 must be at least 2"),
    "weight too large": (lambda: network.paper(0.5), r"agent 2: 1 \+ R_ii = 0.0 must be positive"),
    "mixing": (
        lambda: network.random_strongly_connected(3, np.random.default_rng(0), mixing=1.0),
        "mixing = 1.0 must lie in",
    ),
    "density": (
        lambda: network.random_strongly_connected(3, np.random.default_rng(0), density=-1),
        "density = -1.0 must lie in",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_violation_names_the_agent_and_the_rule(name):
    build, sentence = BROKEN[name]
    with pytest.raises(ValueError, match=sentence):
        build()


def test_why_u_must_be_positive():
    """On the graph refused above, 1 / (m z) of agent 2 grows geometrically: that is what the check
    prevents.
    """
    R = np.array([[-0.3, 0.3, 0, 0], [0.3, -0.3, 0, 0], [0, 0.3, -0.6, 0.3], [0, 0, 0.3, -0.3]])
    z = [np.linalg.matrix_power(np.eye(4) + R, t)[2, 2] for t in (50, 100)]
    assert z[1] < 0.1 * z[0] < 0.01


def test_a_network_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        network.paper().R[0, 0] = 1.0
