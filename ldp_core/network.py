"""The two directed graphs of Algorithm 1: R carries theta, C carries psi (section 2, Assumption 4, Lemmas 3 and 4).

An edge j -> i of R means that agent i pulls Q(theta^j) with weight R_ij; an edge j -> i of C means that agent j pushes
C_ij Q(psi^j) to agent i. R has zero row sums, C zero column sums. Agents are numbered from 0; the paper's agent i is
our agent i - 1.
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

    Assumption 4 alone is not enough. The update divides by m [z_t^i]_i, which tends to u_i (Lemma 4), and u_i = 0 for
    an agent whose messages cannot reach everybody through R: then 1 / (m [z_t^i]_i) grows without bound. u > 0 holds
    exactly when G_R is strongly connected, so we ask for that; C keeps the paper's weaker condition.
    """

    R: np.ndarray
    C: np.ndarray

    def __post_init__(self) -> None:
        for name in ("R", "C"):
            matrix = _square(name, getattr(self, name))
            matrix.setflags(write=False)
            object.__setattr__(self, name, matrix)
        if self.R.shape != self.C.shape:
            raise ValueError(f"R is {self.R.shape} and C is {self.C.shape}: they must have one row per agent both")
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
        """Return the spectral radius of I + R - 1 u^T / m: disagreement shrinks by this factor a step."""
        return _spectral_radius(self._R_bar)

    @cached_property
    def rate_C(self) -> float:
        """Return the spectral radius of I + C - v 1^T / m."""
        return _spectral_radius(np.eye(self.agents) + self.C - np.outer(self.v, np.ones(self.agents)) / self.agents)

    @cached_property
    def _R_bar(self) -> np.ndarray:
        return np.eye(self.agents) + self.R - np.outer(np.ones(self.agents), self.u) / self.agents

    def z(self, iterations: int) -> np.ndarray:
        """Return [z_t^i]_i for t = 0 ... iterations - 1, shape `[iterations, agents]`.

        z_0^i = e_i and z_{t+1} = (I + R) z_t, so [z_t^i]_i is the i-th diagonal entry of (I + R)^t. It does not depend
        on any data.
        """
        mixing, power = np.eye(self.agents) + self.R, np.eye(self.agents)
        diagonal = np.empty((whole("iterations", iterations), self.agents))
        for t in range(iterations):
            diagonal[t] = np.diagonal(power)
            power = mixing @ power
        return diagonal

    @cached_property
    def lemma_4(self) -> tuple[float, float]:
        """Return (C_z, P_z) with |1 / (m [z_t^i]_i) - 1 / u_i| <= C_z P_z**t for every agent and every t >= 0.

        Any P_z between the spectral radius and 1 will do; we take the one that makes the sum C_z / (1 - P_z) of the
        bound smallest, because that sum is what Theorem 2 pays.

        Proof that C_z holds for all t, not only for the t computed. Write E = I + R - 1 u^T / m. For t >= 1,
        (I + R)^t - 1 u^T / m = E^t, so m [z_t^i]_i - u_i = m (E^t)_ii and

            1 / (m [z_t^i]_i) - 1 / u_i = -m (E^t)_ii / (m [z_t^i]_i u_i).

        Let H be such that ||E^H|| <= P_z^H (maximum row sum; it exists because P_z exceeds the spectral radius), and let
        A = max_{r < H} ||E^r|| / P_z^r. For s = q H + r, ||E^s|| <= P_z^(q H) ||E^r|| <= A P_z^s. So for all t >= K
        ||E^t|| <= ||E^K|| A P_z^(t - K), and the left side of the lemma is at most P_z^t times

            m A (||E^K|| / P_z^K) / ((u_i - m ||E^K|| A) u_i),

        which falls with K. We compute the ratio for t < K and double K until this bound is below what was found.
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
            if (room > 0).all() and float(np.max(m * envelope * norm / scale / (room * u))) <= largest:
                return largest * (1.0 + 1e-9), rate  # the factor covers what float64 lost on the way


def from_edges(agents: int, R_edges: Iterable, C_edges: Iterable, weight: float | None = None) -> Network:
    """Return the network with the given edges j -> i, each `(j, i)` with the common weight or `(j, i, own weight)`."""
    R = _matrix("R", agents, R_edges, weight)
    C = _matrix("C", agents, C_edges, weight)
    return Network(R - np.diag(R.sum(axis=1)), C - np.diag(C.sum(axis=0)))


def paper(weight: float = 0.2) -> Network:
    """Return five agents on an unbalanced directed graph, as in the paper's experiments.

    The paper's Fig. 1 is not in its text, so edges and weights are our choice; the weight matters a great deal, and is a
    parameter of every experiment.
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
    """Return a random digraph for R and another for C, both strongly connected, with weights that differ from edge to edge.

    Each is a random ring plus every other edge with probability `density`. The weights that enter an agent of R, or
    leave an agent of C, add up to between mixing / 2 and `mixing` < 1.
    """
    agents = whole("agents", agents, 2)
    instance("generator", generator, np.random.Generator)
    if not 0 < real("mixing", mixing) < 1:
        raise ValueError(f"mixing = {mixing} must lie in (0, 1), so that 1 + R_ii > 0 (Assumption 4)")
    if not 0 <= real("density", density) <= 1:
        raise ValueError(f"density = {density} must lie in [0, 1]")
    R = _random_weights(agents, generator, density, mixing)
    C = _random_weights(agents, generator, density, mixing).T
    return Network(R - np.diag(R.sum(axis=1)), C - np.diag(C.sum(axis=0)))


def _random_weights(agents: int, generator: np.random.Generator, density: float, mixing: float) -> np.ndarray:
    """Return non-negative weights whose rows add up to a random share of `mixing`, on a strongly connected digraph."""
    order = generator.permutation(agents)
    weights = (generator.random((agents, agents)) < density) * generator.uniform(0.5, 1.0, (agents, agents))
    weights[np.roll(order, -1), order] = generator.uniform(0.5, 1.0, agents)
    np.fill_diagonal(weights, 0.0)
    return weights / weights.sum(axis=1, keepdims=True) * generator.uniform(mixing / 2, mixing, (agents, 1))


def _matrix(name: str, agents: int, edges: Iterable, weight: float | None) -> np.ndarray:
    """Return the non-negative off-diagonal weights of an edge list, row = receiver, column = sender."""
    agents = whole("agents", agents, 2)
    common = None if weight is None else real("weight", weight)
    matrix = np.zeros((agents, agents))
    for sender, receiver, *own in (_edge(name, edge) for edge in edges):
        if not (0 <= sender < agents and 0 <= receiver < agents) or sender == receiver:
            raise ValueError(f"{name} edge {sender} -> {receiver} must join two different agents of 0 ... {agents - 1}")
        if not own and common is None:
            raise ValueError(f"{name} edge {sender} -> {receiver} has no weight, and there is no common one")
        if matrix[receiver, sender] != 0:
            raise ValueError(f"{name} edge {sender} -> {receiver} is given twice")
        matrix[receiver, sender] = own[0] if own else common
        if not matrix[receiver, sender] > 0:
            raise ValueError(
                f"{name} edge {sender} -> {receiver}: weight {matrix[receiver, sender]} must be positive (Assumption 4)"
            )
    return matrix


def _edge(name: str, edge) -> tuple:
    """Return an edge as (sender, receiver) or (sender, receiver, weight)."""
    if not isinstance(edge, Sequence | np.ndarray) or len(edge) not in (2, 3):
        raise ValueError(f"{name} edge {shown(edge)} must be (sender, receiver) or (sender, receiver, weight)")
    sender, receiver, *own = edge
    place = f"{name} edge {shown(edge)}"
    return whole(f"{place}: sender", sender), whole(f"{place}: receiver", receiver), *(real(f"{place}: weight", x) for x in own)


def _square(name: str, matrix) -> np.ndarray:
    matrix = np.array(reals(name, matrix, "a square matrix of real numbers"))
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) < 2:
        raise ValueError(f"{name} has shape {matrix.shape}: it must be square, with at least two agents")
    if not np.isfinite(matrix).all():
        raise ValueError(f"{name}: agent {np.argwhere(~np.isfinite(matrix))[0][0]} has an entry that is not finite")
    return matrix


def _check_assumption_4(R: np.ndarray, C: np.ndarray) -> None:
    """Raise the first violation of Assumption 4 found, or of u_i > 0, naming the agent and the rule."""
    for name, matrix, axis, sums in (("R", R, 1, "row"), ("C", C, 0, "column")):
        off_diagonal = matrix - np.diag(np.diag(matrix))
        if (off_diagonal < 0).any():
            i, j = np.argwhere(off_diagonal < 0)[0]
            raise ValueError(f"agent {i}: {name}_ij = {matrix[i, j]} for j = {j} must not be negative (Assumption 4)")
        totals = matrix.sum(axis=axis)
        if (np.abs(totals) > TOLERANCE).any():
            i = int(np.argmax(np.abs(totals)))
            raise ValueError(f"agent {i}: the {sums} sum of {name} is {totals[i]}, it must be zero (Assumption 4)")
        for i, entry in enumerate(np.diag(matrix)):
            if not entry < 0:
                neighbour = "in-neighbour in G_R" if name == "R" else "out-neighbour in G_C"
                raise ValueError(f"agent {i}: {name}_ii = {entry} must be negative: it has no {neighbour} (Assumption 4)")
            if not 1 + entry > 0:
                raise ValueError(f"agent {i}: 1 + {name}_ii = {1 + entry} must be positive (Assumption 4)")
    roots_R, roots_C = _roots(R), _roots(C.T)
    if not roots_R.any():
        raise ValueError(f"agent {_unreached(R)} cannot be reached: G_R has no spanning tree (Assumption 4 (i))")
    if not roots_C.any():
        raise ValueError(f"agent {_unreached(C.T)} cannot be reached: G_C^T has no spanning tree (Assumption 4 (i))")
    if not (roots_R & roots_C).any():
        raise ValueError(
            f"agent {int(np.argmax(roots_R))} is a root of G_R and agent {int(np.argmax(roots_C))} of G_C^T, "
            "but no agent is a root of both (Assumption 4 (ii))"
        )
    if not roots_R.all():
        i = int(np.argmin(roots_R))
        raise ValueError(
            f"agent {i}: u_i = 0, because its messages do not reach everybody in G_R, so 1 / (m [z_t^i]_i) would grow "
            "without bound; G_R must be strongly connected (stronger than Assumption 4)"
        )


def _reach(matrix: np.ndarray) -> np.ndarray:
    """Return which agent reaches which: entry [i, j] says that there is a path j -> ... -> i."""
    reach = (matrix > 0) | np.eye(len(matrix), dtype=bool)
    for _ in range(len(matrix).bit_length()):
        reach = (reach.astype(int) @ reach.astype(int)) > 0
    return reach


def _roots(matrix: np.ndarray) -> np.ndarray:
    """Return for each agent whether a spanning tree starts there, that is, whether it reaches all others."""
    return np.asarray(_reach(matrix).all(axis=0))


def _unreached(matrix: np.ndarray) -> int:
    """Return an agent that the farthest-reaching agent does not reach."""
    reach = _reach(matrix)
    return int(np.argmin(reach[:, np.argmax(reach.sum(axis=0))]))


def _stationary(matrix: np.ndarray) -> np.ndarray:
    """Return the vector x with matrix @ x = 0 and sum(x) = m, by least squares on both conditions at once."""
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
    """Return A with ||matrix^s|| <= A rate^s for all s (maximum row sum); see `Network.lemma_4` for the proof."""
    envelope, power, scale = 1.0, matrix, rate
    while (norm := np.abs(power).sum(axis=1).max()) > scale:
        envelope, power, scale = max(envelope, norm / scale), power @ matrix, scale * rate
    return float(envelope)
