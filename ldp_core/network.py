"""The two directed graphs of Algorithm 1: R carries theta, C carries psi.

    >>> edges = [(0, 1), (1, 2), (2, 0)]
    >>> net = from_edges(3, R_edges=edges, C_edges=edges, weight=0.3)
    >>> net.u.round(3).tolist(), round(net.rate_R, 3)  # who is heard, how fast disagreement fades
    ([1.0, 1.0, 1.0], 0.608)

Section 2, Assumption 4, Lemmas 3 and 4. An edge j -> i of R means that agent i pulls Q(theta^j)
with weight R_ij; an edge j -> i of C means that agent j pushes C_ij Q(psi^j) to agent i. R has zero
row sums, C zero column sums. Agents are numbered from 0; the paper's agent i is our agent i - 1.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ldp_core.checks import every, positive, real, reals, shown, whole

TOLERANCE = 1e-12  # rounding allowed in a sum that must be zero

PAPER_R_EDGES = ((0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (0, 2), (1, 4))
PAPER_C_EDGES = ((0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (0, 3), (3, 1))


@dataclass(frozen=True, eq=False)
class Network:
    """Matrices R and C that satisfy Assumption 4, and u_i > 0 for every agent.

    The update divides by m [z_t^i]_i, which tends to u_i (Lemma 4). So G_R must be strongly
    connected, which is more than Assumption 4 asks; C keeps the paper's condition.
    """

    R: np.ndarray
    C: np.ndarray

    def __post_init__(self) -> None:
        for name in ("R", "C"):
            matrix = np.array(reals(name, getattr(self, name), "a square matrix of real numbers"))
            matrix.setflags(write=False)
            object.__setattr__(self, name, matrix)
            if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) < 2:
                rule = "it must be square, with at least two agents"
                raise ValueError(f"{name} has shape {matrix.shape}: {rule}")
            every(name, matrix, np.isfinite, "be finite")
        if self.R.shape != self.C.shape:
            raise ValueError(f"R is {self.R.shape} and C is {self.C.shape}: they must agree")
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
        return float(np.abs(np.linalg.eigvals(self._R_bar)).max())

    @cached_property
    def rate_C(self) -> float:
        """Return the spectral radius of I + C - v 1^T / m."""
        m = self.agents
        C_bar = np.eye(m) + self.C - np.outer(self.v, np.ones(m)) / m
        return float(np.abs(np.linalg.eigvals(C_bar)).max())

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

        Of nine P_z between the spectral radius and 1 the one is taken whose sum C_z / (1 - P_z),
        which Theorem 2 pays, is smallest. Proof: docs/proofs/certificate.md, section 3.
        """
        rates = 1.0 - (1.0 - self.rate_R) * np.linspace(0.9, 0.1, 9)
        candidates = [self._lemma_4_constant(rate) for rate in rates.tolist()]
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
    """Return five agents on an unbalanced directed graph; edges and weights are our choice."""
    return from_edges(5, PAPER_R_EDGES, PAPER_C_EDGES, weight)


def ring(agents: int, weight: float = 0.2) -> Network:
    """Return a directed ring: each agent sends to the next one."""
    edges = [(j, (j + 1) % agents) for j in range(whole("agents", agents, 2))]
    return from_edges(agents, edges, edges, weight)


def exponential(agents: int, weight: float = 0.2) -> Network:
    """Return the exponential graph: agent j sends to j + 1, j + 2, j + 4, ... (mod agents)."""
    hops = [2**k for k in range(max(1, (int(agents) - 1).bit_length())) if 2**k < agents]
    edges = [(j, (j + hop) % int(agents)) for j in range(agents) for hop in hops]
    return from_edges(agents, edges, edges, weight)


def random_strongly_connected(
    agents: int, generator: np.random.Generator, density: float = 0.3, mixing: float = 0.5
) -> Network:
    """Return random strongly connected digraphs for R and C, with weights that differ.

    Each is a random ring plus every other edge with probability `density`. The weights that enter
    an agent of R, or leave an agent of C, add up to between mixing / 2 and `mixing` < 1.
    """
    agents = whole("agents", agents, 2)
    rule = "lie in (0, 1), so that 1 + R_ii > 0 (Assumption 4)"
    every("mixing", mixing, lambda x: (x > 0) & (x < 1), rule)
    every("density", density, lambda x: (x >= 0) & (x <= 1), "lie in [0, 1]")
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
    matrix = np.zeros((agents, agents))
    for one in edges:
        edge = f"{name} edge {shown(one)}"
        if not isinstance(one, Sequence | np.ndarray) or len(one) not in (2, 3):
            raise ValueError(f"{edge} must be (sender, receiver) or (sender, receiver, weight)")
        sender, receiver = (whole(f"{edge}: agent", end) for end in one[:2])
        if max(sender, receiver) >= agents or sender == receiver:
            raise ValueError(f"{edge} must join two different agents of 0 ... {agents - 1}")
        if len(one) == 2 and weight is None:
            raise ValueError(f"{edge} has no weight, and there is no common one")
        if matrix[receiver, sender] != 0:
            raise ValueError(f"{edge} is given twice")
        named, rule = f"{edge}: weight", "be positive (Assumption 4)"
        own = real(named, one[2] if len(one) == 3 else weight)
        matrix[receiver, sender] = every(named, own, positive, rule)
    return matrix


def _check_assumption_4(R: np.ndarray, C: np.ndarray) -> None:
    """Raise the first violation of Assumption 4, or of u_i > 0, naming the agent and the rule."""
    _check_weights("R", R, 1, "row", "in-neighbour in G_R")
    _check_weights("C", C, 0, "column", "out-neighbour in G_C")
    reach = _reach(R).all(axis=0)
    if not reach.all():
        why = "its messages do not reach everybody in G_R"
        rule = "G_R must be strongly connected, so that 1 / (m [z_t^i]_i) stays bounded"
        raise ValueError(f"agent {int(np.argmin(reach))}: u_i = 0, because {why}; {rule}")
    if not _reach(C.T).all(axis=0).any():
        raise ValueError("C: G_C^T must have a spanning tree (Assumption 4 (i))")


def _check_weights(name: str, matrix: np.ndarray, axis: int, sums: str, neighbour: str) -> None:
    """Refuse negative weights, sums that are not zero, and diagonals outside (-1, 0)."""
    off_diagonal = matrix - np.diag(np.diag(matrix))
    if (off_diagonal < 0).any():
        i, j = np.argwhere(off_diagonal < 0)[0]
        found = f"{name}_ij = {matrix[i, j]} for j = {j}"
        raise ValueError(f"agent {i}: {found} must not be negative (Assumption 4)")
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
            found = f"1 + {name}_ii = {1 + entry}"
            raise ValueError(f"agent {i}: {found} must be positive (Assumption 4)")


def _reach(matrix: np.ndarray) -> np.ndarray:
    """Return which agent reaches which: entry [i, j] says that there is a path j -> ... -> i."""
    reach = (matrix > 0) | np.eye(len(matrix), dtype=bool)
    for _ in range(len(matrix).bit_length()):
        reach = (reach.astype(int) @ reach.astype(int)) > 0
    return reach


def _stationary(matrix: np.ndarray) -> np.ndarray:
    """Return the vector x with matrix @ x = 0 and sum(x) = m, by least squares."""
    m = len(matrix)
    system = np.vstack([matrix, np.ones((1, m))])
    x = np.linalg.lstsq(system, np.append(np.zeros(m), float(m)), rcond=None)[0]
    return np.where(np.abs(x) < TOLERANCE, 0.0, x)


def _power_envelope(matrix: np.ndarray, rate: float) -> float:
    """Return A with ||matrix^s|| <= A rate^s for all s (maximum row sum)."""
    envelope, power, scale = 1.0, matrix, rate
    while (norm := np.abs(power).sum(axis=1).max()) > scale:
        envelope, power, scale = max(envelope, norm / scale), power @ matrix, scale * rate
    return float(envelope)
