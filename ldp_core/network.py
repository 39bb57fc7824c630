"""The two directed graphs of Algorithm 1: R carries theta, C carries psi.

    >>> edges = [(0, 1), (1, 2), (2, 0)]
    >>> net = from_edges(3, R_edges=edges, C_edges=edges, weight=0.3)
    >>> net.u.round(3).tolist(), round(net.rate_R, 3)  # who is heard, how fast disagreement fades
    ([1.0, 1.0, 1.0], 0.608)

Section 2, Assumption 4, Lemmas 3 and 4. An edge j -> i of R means that agent i pulls Q(theta^j)
with weight R_ij; an edge j -> i of C means that agent j pushes C_ij Q(psi^j) to agent i. R has zero
row sums, C zero column sums. Agents are numbered from 0; the paper's agent i is our agent i - 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ldp_core.checks import instance, real, reals, shown, whole

TOLERANCE = 1e-12  # rounding allowed in a sum that must be zero

PAPER_R_EDGES = ((0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (0, 2), (1, 4))
PAPER_C_EDGES = ((0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (0, 3), (3, 1))


@dataclass(frozen=True, eq=False)
class Network:
    """Matrices R and C that satisfy Assumption 4, and u_i > 0 for every agent.

    Assumption 4 alone is not enough: the update divides by m [z_t^i]_i, which tends to u_i (Lemma
    4), and u_i = 0 for an agent whose messages cannot reach everybody through R. u > 0 holds just
    when G_R is strongly connected, so we ask for that; C keeps the paper's weaker condition.
    """

    R: np.ndarray
    C: np.ndarray

    def __post_init__(self) -> None:
        for name in ("R", "C"):
            matrix = _square(name, getattr(self, name))
            matrix.setflags(write=False)
            object.__setattr__(self, name, matrix)
        if self.R.shape != self.C.shape:
            both = f"R is {self.R.shape} and C is {self.C.shape}"
            raise ValueError(f"{both}: they must have one row per agent both")
        _check_assumption_4(self.R, self.C)

    @property
    def agents(self) -> int:
        """Return m, the number of agents."""
        return len(self.R)

    @cached_property
    def u(self) -> np.ndarray:
        """Return Lemma 3's left eigenvector: u^T (I + R) = u^T, sum(u) = m."""
        return _stationary(self.R.T)

    @cached_property
    def v(self) -> np.ndarray:
        """Return Lemma 3's right eigenvector: (I + C) v = v, sum(v) = m."""
        return _stationary(self.C)

    @cached_property
    def rate_R(self) -> float:
        """Return the spectral radius of I + R - 1 u^T / m: disagreement shrinks by it a step."""
        return _spectral_radius(self._R_bar)

    @cached_property
    def rate_C(self) -> float:
        """Return the spectral radius of I + C - v 1^T / m."""
        m = self.agents
        return _spectral_radius(np.eye(m) + self.C - np.outer(self.v, np.ones(m)) / m)

    @cached_property
    def _R_bar(self) -> np.ndarray:
        m = self.agents
        return np.eye(m) + self.R - np.outer(np.ones(m), self.u) / m

    def z(self, iterations: int) -> np.ndarray:
        """Return [z_t^i]_i, entry (i, i) of (I + R)^t, for t = 0 ...: `[iterations, agents]`."""
        mixing, power = np.eye(self.agents) + self.R, np.eye(self.agents)
        diagonal = np.empty((whole("iterations", iterations), self.agents))
        for t in range(iterations):
            diagonal[t] = np.diagonal(power)
            power = mixing @ power
        return diagonal

    @cached_property
    def lemma_4(self) -> tuple[float, float]:
        """Return (C_z, P_z) with |1 / (m [z_t^i]_i) - 1 / u_i| <= C_z P_z**t for all i, t.

        Any P_z between the spectral radius and 1 will do; we take the one that makes the sum C_z /
        (1 - P_z) of the bound smallest, because that sum is what Theorem 2 pays. That C_z holds for
        all t, not only for those computed: docs/proofs/certificate.md, section 3.
        """
        candidates = [self._lemma_4_constant(rate) for rate in _rates_above(self.rate_R).tolist()]
        return min(candidates, key=lambda pair: pair[0] / (1.0 - pair[1]))

    def _lemma_4_constant(self, rate: float) -> tuple[float, float]:
        E, m, u = self._R_bar, self.agents, self.u
        envelope = _power_envelope(E, rate)
        largest, power, scale, t = float(np.max(np.abs(1.0 / m - 1.0 / u))), E, rate, 1
        mixing = z = np.eye(m) + self.R
        while True:
            for _ in range(t):  # t doubles
                difference = np.diagonal(power) / (np.diagonal(z) * u)
                largest = max(largest, float(np.abs(difference).max()) / scale)
                power, z, scale, t = power @ E, mixing @ z, scale * rate, t + 1
            norm = np.abs(power).sum(axis=1).max()
            room = u - m * norm * envelope
            if not (room > 0).all():
                continue
            if float(np.max(m * envelope * norm / scale / (room * u))) <= largest:
                return largest * (1.0 + 1e-9), rate  # covers what float64 lost on the way


def from_edges(
    agents: int, R_edges: Iterable, C_edges: Iterable, weight: float | None = None
) -> Network:
    """Return the network with edges j -> i: `(j, i)`, of the common weight, or `(j, i, weight)`."""
    R = _matrix("R", agents, R_edges, weight)
    C = _matrix("C", agents, C_edges, weight)
    return Network(R - np.diag(R.sum(axis=1)), C - np.diag(C.sum(axis=0)))


def paper(weight: float = 0.2) -> Network:
    """Return five agents on an unbalanced directed graph, as in the paper's experiments.

    The paper's Fig. 1 is not in its text, so edges and weights are our choice; the weight matters a
    great deal, and is a parameter of every experiment.
    """
    return from_edges(5, PAPER_R_EDGES, PAPER_C_EDGES, weight)


def ring(agents: int, weight: float = 0.2) -> Network:
    """Return a directed ring: each agent sends to the next one."""
    edges = [(j, (j + 1) % agents) for j in range(whole("agents", agents, 2))]
    return from_edges(agents, edges, edges, weight)


def exponential(agents: int, weight: float = 0.2) -> Network:
    """Return the exponential graph: agent j sends to j + 1, j + 2, j + 4, ... (mod agents)."""
    agents = whole("agents", agents, 2)
    hops = [2**k for k in range(max(1, (agents - 1).bit_length())) if 2**k < agents]
    edges = [(j, (j + hop) % agents) for j in range(agents) for hop in hops]
    return from_edges(agents, edges, edges, weight)


def random_strongly_connected(
    agents: int, generator: np.random.Generator, density: float = 0.3, mixing: float = 0.5
) -> Network:
    """Return random strongly connected digraphs for R and C, with weights that differ.

    Each is a random ring plus every other edge with probability `density`. The weights that enter
    an agent of R, or leave an agent of C, add up to between mixing / 2 and `mixing` < 1.
    """
    agents = whole("agents", agents, 2)
    instance("generator", generator, np.random.Generator)
    if not 0 < real("mixing", mixing) < 1:
        rule = "must lie in (0, 1), so that 1 + R_ii > 0 (Assumption 4)"
        raise ValueError(f"mixing = {mixing} {rule}")
    if not 0 <= real("density", density) <= 1:
        raise ValueError(f"density = {density} must lie in [0, 1]")
    R = _random_weights(agents, generator, density, mixing)
    C = _random_weights(agents, generator, density, mixing).T
    return Network(R - np.diag(R.sum(axis=1)), C - np.diag(C.sum(axis=0)))


def _random_weights(agents: int, generator, density: float, mixing: float) -> np.ndarray:
    """Return weights on a strongly connected digraph; rows sum to a random share of `mixing`."""
    order, square = generator.permutation(agents), (agents, agents)
    weights = (generator.random(square) < density) * generator.uniform(0.5, 1.0, square)
    weights[np.roll(order, -1), order] = generator.uniform(0.5, 1.0, agents)
    np.fill_diagonal(weights, 0.0)
    total = generator.uniform(mixing / 2, mixing, (agents, 1))
    return weights / weights.sum(axis=1, keepdims=True) * total


def _matrix(name: str, agents: int, edges: Iterable, weight: float | None) -> np.ndarray:
    """Return the off-diagonal weights of an edge list: row = receiver, column = sender."""
    agents = whole("agents", agents, 2)
    common = None if weight is None else real("weight", weight)
    matrix = np.zeros((agents, agents))
    for sender, receiver, *own in (_edge(name, edge) for edge in edges):
        edge = f"{name} edge {sender} -> {receiver}"
        if not (0 <= sender < agents and 0 <= receiver < agents) or sender == receiver:
            raise ValueError(f"{edge} must join two different agents of 0 ... {agents - 1}")
        if not own and common is None:
            raise ValueError(f"{edge} has no weight, and there is no common one")
        if matrix[receiver, sender] != 0:
            raise ValueError(f"{edge} is given twice")
        matrix[receiver, sender] = own[0] if own else common
        if not matrix[receiver, sender] > 0:
            found = f"{edge}: weight {matrix[receiver, sender]}"
            raise ValueError(f"{found} must be positive (Assumption 4)")
    return matrix


def _edge(name: str, edge) -> tuple:
    """Return an edge as (sender, receiver) or (sender, receiver, weight)."""
    if not isinstance(edge, Sequence | np.ndarray) or len(edge) not in (2, 3):
        rule = "must be (sender, receiver) or (sender, receiver, weight)"
        raise ValueError(f"{name} edge {shown(edge)} {rule}")
    sender, receiver, *own = edge
    place = f"{name} edge {shown(edge)}"
    ends = whole(f"{place}: sender", sender), whole(f"{place}: receiver", receiver)
    return *ends, *(real(f"{place}: weight", x) for x in own)


def _square(name: str, matrix) -> np.ndarray:
    matrix = np.array(reals(name, matrix, "a square matrix of real numbers"))
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) < 2:
        rule = "it must be square, with at least two agents"
        raise ValueError(f"{name} has shape {matrix.shape}: {rule}")
    if not np.isfinite(matrix).all():
        i = np.argwhere(~np.isfinite(matrix))[0][0]
        raise ValueError(f"{name}: agent {i} has an entry that is not finite")
    return matrix


def _check_assumption_4(R: np.ndarray, C: np.ndarray) -> None:
    """Raise the first violation of Assumption 4, or of u_i > 0, naming the agent and the rule."""
    _check_weights("R", R, 1, "row", "in-neighbour in G_R")
    _check_weights("C", C, 0, "column", "out-neighbour in G_C")
    roots_R, roots_C = _roots(R), _roots(C.T)
    for matrix, roots, graph in ((R, roots_R, "G_R"), (C.T, roots_C, "G_C^T")):
        if not roots.any():
            rule = f"{graph} has no spanning tree (Assumption 4 (i))"
            raise ValueError(f"agent {_unreached(matrix)} cannot be reached: {rule}")
    if not (roots_R & roots_C).any():
        i, j = int(np.argmax(roots_R)), int(np.argmax(roots_C))
        both = f"agent {i} is a root of G_R and agent {j} of G_C^T"
        raise ValueError(f"{both}, but no agent is a root of both (Assumption 4 (ii))")
    if not roots_R.all():
        i, why = int(np.argmin(roots_R)), "its messages do not reach everybody in G_R"
        grows = "so 1 / (m [z_t^i]_i) would grow without bound"
        rule = "G_R must be strongly connected (stronger than Assumption 4)"
        raise ValueError(f"agent {i}: u_i = 0, because {why}, {grows}; {rule}")


def _check_weights(name: str, matrix: np.ndarray, axis: int, sums: str, neighbour: str) -> None:
    """Refuse negative weights, sums that are not zero, and diagonals outside (-1, 0)."""
    off_diagonal = matrix - np.diag(np.diag(matrix))
    if (off_diagonal < 0).any():
        i, j = np.argwhere(off_diagonal < 0)[0]
        rule = "must not be negative (Assumption 4)"
        raise ValueError(f"agent {i}: {name}_ij = {matrix[i, j]} for j = {j} {rule}")
    totals = matrix.sum(axis=axis)
    if (np.abs(totals) > TOLERANCE).any():
        i = int(np.argmax(np.abs(totals)))
        found = f"the {sums} sum of {name} is {totals[i]}"
        raise ValueError(f"agent {i}: {found}, it must be zero (Assumption 4)")
    for i, entry in enumerate(np.diag(matrix)):
        if not entry < 0:
            rule = f"must be negative: it has no {neighbour} (Assumption 4)"
            raise ValueError(f"agent {i}: {name}_ii = {entry} {rule}")
        if not 1 + entry > 0:
            rule = "must be positive (Assumption 4)"
            raise ValueError(f"agent {i}: 1 + {name}_ii = {1 + entry} {rule}")


def _reach(matrix: np.ndarray) -> np.ndarray:
    """Return which agent reaches which: entry [i, j] says that there is a path j -> ... -> i."""
    reach = (matrix > 0) | np.eye(len(matrix), dtype=bool)
    for _ in range(len(matrix).bit_length()):
        reach = (reach.astype(int) @ reach.astype(int)) > 0
    return reach


def _roots(matrix: np.ndarray) -> np.ndarray:
    """Return for each agent whether a spanning tree starts there: whether it reaches all others."""
    return np.asarray(_reach(matrix).all(axis=0))


def _unreached(matrix: np.ndarray) -> int:
    """Return an agent that the farthest-reaching agent does not reach."""
    reach = _reach(matrix)
    return int(np.argmin(reach[:, np.argmax(reach.sum(axis=0))]))


def _stationary(matrix: np.ndarray) -> np.ndarray:
    """Return the vector x with matrix @ x = 0 and sum(x) = m, by least squares."""
    m = len(matrix)
    system = np.vstack([matrix, np.ones((1, m))])
    x = np.linalg.lstsq(system, np.append(np.zeros(m), float(m)), rcond=None)[0]
    return np.where(np.abs(x) < TOLERANCE, 0.0, x)


def _spectral_radius(matrix: np.ndarray) -> float:
    return float(np.abs(np.linalg.eigvals(matrix)).max())


def _rates_above(spectral_radius: float) -> np.ndarray:
    """Return candidate rates P_z strictly between the spectral radius and 1."""
    return 1.0 - (1.0 - spectral_radius) * np.linspace(0.9, 0.1, 9)


def _power_envelope(matrix: np.ndarray, rate: float) -> float:
    """Return A with ||matrix^s|| <= A rate^s for all s (maximum row sum)."""
    envelope, power, scale = 1.0, matrix, rate
    while (norm := np.abs(power).sum(axis=1).max()) > scale:
        envelope, power, scale = max(envelope, norm / scale), power @ matrix, scale * rate
    return float(envelope)
