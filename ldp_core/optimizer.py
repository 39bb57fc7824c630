"""Algorithm 1, its unquantised twin, and D-PSGD, behind one interface: `init`, `step`, `run`.

    >>> from ldp_core import network
    >>> algorithm = Algorithm1(network.paper(), Schedules(0.5, 0.71, (0.5,) * 5, (0.6,) * 5))
    >>> centres = np.arange(5.0)[:, None]  # agent i pulls to the point i
    >>> last = run(algorithm, lambda theta, t: theta - centres, np.zeros((1, 5, 1)), 2000, seed=0)
    >>> last.theta.mean().round(1)
    np.float64(2.0)

State arrays are `[runs, agents, dim]`. `step` is a pure function: the gradients and the coins go
in, the next state and the messages of this iteration come out. Algorithm 1, eq. (4):

    psi_{t+1}^i   = (1 + C_ii) psi_t^i   + sum_j C_ij Q(psi_t^j)   + lam_t g_t^i
    theta_{t+1}^i = (1 + R_ii) theta_t^i + sum_j R_ij Q(theta_t^j)
                    - (psi_{t+1}^i - psi_t^i) / (m [z_t^i]_i)
    z_{t+1}       = (I + R) z_t,  z_0 = I

g_t^i is the gradient at theta_t^i over everything agent i has seen up to and including time t.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, cast, runtime_checkable

import numpy as np

from ldp_core import checks, quantizer
from ldp_core.network import Network
from ldp_core.randomness import Purpose, Uniforms
from ldp_core.schedules import Schedules
from ldp_core.schedules import TheoremWarning as TheoremWarning
from ldp_core.schedules import paper_schedules as paper_schedules

Oracle = Callable[[np.ndarray, int], np.ndarray]  # (theta [runs, agents, dim], t) -> gradients


class Dithered(NamedTuple):
    """The numbers of a step, `[runs, 2, agents, dim]`: coins are private, the dither is public."""

    coins: np.ndarray
    dither: np.ndarray


Draws = np.ndarray | Dithered | None  # what one step consumes: coins, with a dither, or nothing
Runs = Sequence[int] | np.ndarray  # the numbers of the runs of a batch
Coins = Callable[[Runs, int, int], Draws]  # (runs, t, dim) -> uniform numbers


@dataclass(frozen=True)
class State:
    """What all agents hold at time t, before they send: theta and psi `[runs, agents, dim]`."""

    t: int
    theta: np.ndarray
    psi: np.ndarray
    z: np.ndarray  # [agents, agents]; row i is the paper's z_t^i, which never depends on data


class Messages(NamedTuple):
    """What an eavesdropper sees at one iteration: integer levels with their steps `[agents]`.

    A public dither is `[runs, 2, agents, dim]` (theta's, then psi's). Unquantised, `step` is None
    and the arrays hold the values themselves. D-PSGD sends no psi.
    """

    t: int
    theta: np.ndarray
    psi: np.ndarray | None
    step: np.ndarray | None
    dither: np.ndarray | None = None

    def values(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Return (theta, psi) as their receivers read them."""
        if self.step is None:
            return self.theta, self.psi
        step, dither = self.step[:, None], _halves(self.dither)
        theta = quantizer.value(self.theta, step, dither[0])
        return theta, None if self.psi is None else quantizer.value(self.psi, step, dither[1])


_Step = tuple[State, Messages]


@runtime_checkable
class Algorithm(Protocol):
    """What `run` needs to know of an algorithm."""

    def init(self, theta_0, psi_0=None) -> State: ...

    def coins(self, seed: int) -> Coins: ...

    def step(self, state: State, gradients: np.ndarray, coins: Draws) -> _Step: ...


@dataclass(frozen=True)
class Algorithm1:
    """The paper's Algorithm 1; with `quantised=False` the values themselves are on the wire.

    Four options are ours; `accountant.promise` needs the last three. `dither` is a public seed: the
    grid of every message is moved by a fresh offset that anybody can compute from it (address
    (dither, Purpose.DITHER, run, t)). `degree` is that of the quantizer's coins. `at_sent` takes
    every agent's gradient at the value that it *sent*, in place of theta_t^i. `box` is a public
    bound: what is received beyond [-box, box] is read as its nearest end.
    """

    network: Network
    schedules: Schedules
    quantised: bool = True
    dither: int | None = None
    degree: int = 1
    at_sent: bool = False
    box: float | None = None

    def __post_init__(self) -> None:
        require_same_agents(self.network, self.schedules)
        quantizer.require_degree(self.degree)
        for name in ("quantised", "at_sent"):
            checks.instance(name, getattr(self, name), bool)
        if self.box is not None:
            checks.every("box", self.box, checks.positive, "be positive and finite")
        if self.dither is not None:
            checks.word("dither", self.dither)
            if not self.quantised:
                raise ValueError(f"dither = {self.dither} needs quantised = True: a grid to move")

    def init(self, theta_0, psi_0=None) -> State:
        """Return the state at t = 0: theta_0 and psi_0 `[runs, agents, dim]` (zero by default)."""
        theta_0 = _state_array("theta_0", theta_0, self.network.agents)
        psi_0 = np.zeros_like(theta_0) if psi_0 is None else psi_0
        psi_0 = _state_array("psi_0", psi_0, self.network.agents)
        if psi_0.shape != theta_0.shape:
            both = f"psi_0 has shape {psi_0.shape}, theta_0 {theta_0.shape}"
            raise ValueError(f"{both}: they must agree")
        return State(0, theta_0, psi_0, np.eye(self.network.agents))

    def coins(self, seed: int) -> Coins:
        """Return the source of coins, `[runs, 2, agents, dim]` at each t, or of `Dithered` ones."""
        if not self.quantised:
            return lambda runs, t, dim: None
        m, private = self.network.agents, Uniforms(seed, Purpose.COINS)
        if self.dither is None:
            return lambda runs, t, dim: private(runs, t, (2, m, dim))
        if seed == self.dither:
            why = "whoever knows it would know the coins"
            raise ValueError(f"seed = {seed} is the public dither's seed too: {why}")
        both = private, Uniforms(self.dither, Purpose.DITHER)
        return lambda runs, t, dim: Dithered(*(draw(runs, t, (2, m, dim)) for draw in both))

    def step(self, state: State, gradients: np.ndarray, coins: Draws = None) -> _Step:
        """Return the state at t + 1 and the messages of iteration t (eq. (4))."""
        messages = self.send(state, coins)
        return self.move(state, gradients, messages), messages

    def move(self, state: State, gradients: np.ndarray, messages: Messages) -> State:
        """Return the state at t + 1, when `messages` is what was sent at t (eq. (4))."""
        checks.array("gradients", gradients, state.theta.shape)
        sent_theta, sent_psi = cast(tuple[np.ndarray, np.ndarray], messages.values())
        if self.box is not None:
            box = -self.box, self.box
            sent_theta, sent_psi = np.clip(sent_theta, *box), np.clip(sent_psi, *box)
        network, t = self.network, state.t
        psi = _mix(network.C, state.psi, sent_psi)
        psi += self.schedules.lam(t) * gradients
        theta = _mix(network.R, state.theta, sent_theta)
        theta -= (psi - state.psi) / (network.agents * np.diagonal(state.z)[:, None])
        return State(t + 1, theta, psi, state.z + network.R @ state.z)

    def send(self, state: State, uniform: Draws = None) -> Messages:
        """Return the messages of iteration t."""
        if not self.quantised:
            return Messages(state.t, state.theta, state.psi, None)
        coins, dither = self.separate(uniform)
        shape = (len(state.theta), 2, *state.theta.shape[1:])
        checks.array("coins", coins, shape)
        if dither is not None:
            checks.array("dither", dither, shape)
        step = self.schedules.step(state.t)
        both = zip((state.theta, state.psi), np.moveaxis(coins, 1, 0), _halves(dither), strict=True)
        theta, psi = (
            quantizer.quantise(y, step[:, None], coin, offset, self.degree)
            for y, coin, offset in both
        )
        return Messages(state.t, theta, psi, step, dither)

    def separate(self, uniform: Draws) -> tuple[np.ndarray, np.ndarray | None]:
        """Return (coins, dither) of one step, or say which of the two is missing or has no use."""
        if uniform is None:
            raise ValueError("coins are needed to quantise: [runs, 2, agents, dim], in [0, 1)")
        if isinstance(uniform, Dithered) != (self.dither is not None):
            found = "with a dither" if self.dither is None else "without it"
            raise ValueError(f"dither = {self.dither}, but the coins came {found} (`Dithered`)")
        return (uniform.coins, uniform.dither) if isinstance(uniform, Dithered) else (uniform, None)


@dataclass(frozen=True)
class DPSGD:
    """D-PSGD (Lian et al. 2017), in the clear: theta_{t+1}^i = sum_j W_ij theta_t^j - lam_t g_t^i.

    W must be symmetric and doubly stochastic; `metropolis` makes one from a network.
    """

    W: np.ndarray
    schedules: Schedules

    def __post_init__(self) -> None:
        W = checks.reals("W", self.W).copy()
        checks.instance("schedules", self.schedules, Schedules)
        square = W.ndim == 2 and W.shape[0] == W.shape[1]
        if not square or (W < 0).any() or not (np.abs(W - W.T) <= 1e-12).all():
            raise ValueError("W must be square, symmetric and non-negative (Lian et al. 2017)")
        if not (np.abs(W.sum(axis=1) - 1.0) <= 1e-12).all():
            raise ValueError("every row of W must sum to one (Lian et al. 2017)")
        if len(W) != self.schedules.agents:
            raise ValueError(f"W has {len(W)} agents and the schedules {self.schedules.agents}")
        object.__setattr__(self, "W", W)

    def init(self, theta_0, psi_0=None) -> State:
        """Return the state at t = 0. D-PSGD has no tracker: psi stays zero."""
        theta_0 = _state_array("theta_0", theta_0, len(self.W))
        return State(0, theta_0, np.zeros_like(theta_0), np.eye(len(self.W)))

    def coins(self, seed: int) -> Coins:
        """Return the empty source: D-PSGD sends everything in the clear."""
        return lambda runs, t, dim: None

    def step(self, state: State, gradients: np.ndarray, coins: Draws = None) -> _Step:
        """Return the state at t + 1 and the messages (the states themselves) of iteration t."""
        checks.array("gradients", gradients, state.theta.shape)
        theta = np.matmul(self.W, state.theta) - self.schedules.lam(state.t) * gradients
        messages = Messages(state.t, state.theta, None, None)
        return State(state.t + 1, theta, state.psi, state.z), messages


def require_same_agents(network: Network, schedules: Schedules) -> None:
    """Refuse what is no network, no schedules, or not of one number of agents."""
    m = checks.instance("network", network, Network).agents
    if m != checks.instance("schedules", schedules, Schedules).agents:
        rule = f"d_0 and varsigma must have one entry per agent (agents={m})"
        both = f"the network has {m} agents and the schedules {schedules.agents}"
        raise ValueError(f"{both}: {rule}")


def metropolis(network: Network) -> np.ndarray:
    """Return Metropolis weights on the undirected graph under R and C: doubly stochastic."""
    linked = (network.R > 0) | (network.C > 0)
    linked = linked | linked.T
    degree = linked.sum(axis=1)
    W = np.where(linked, 1.0 / (1.0 + np.maximum.outer(degree, degree)), 0.0)
    return W + np.diag(1.0 - W.sum(axis=1))


def run(
    algorithm: Algorithm, oracle: Oracle, theta_0, iterations: int, *, psi_0=None, **options
) -> State:
    """Return the state after `iterations` steps from theta_0; `options` are those of `resume`."""
    return resume(algorithm, oracle, algorithm.init(theta_0, psi_0), iterations, **options)


def resume(
    algorithm: Algorithm,
    oracle: Oracle,
    state: State,
    iterations: int,
    *,
    seed: int,
    runs: Runs | None = None,
    observe: Callable[[State, Messages], None] | None = None,
) -> State:
    """Return the state `iterations` steps later; runs that are cut and resumed end in equal bits.

    `runs` are the numbers of the runs (0, 1, 2, ... by default): the coins of one depend on (seed,
    its number) alone. `observe(state, messages)` gets each state, and what was sent in it.
    """
    runs = range(len(state.theta)) if runs is None else runs
    if len(runs) != len(state.theta):
        rule = f"must be a list of run numbers, one for each of {len(state.theta)} runs of theta_0"
        raise ValueError(f"runs = {checks.shown(runs)} {rule}")
    coins = algorithm.coins(seed)
    for t in range(state.t, state.t + int(iterations)):
        draws = coins(runs, t, state.theta.shape[2])
        following, messages = _advance(algorithm, oracle, state, draws)
        if observe is not None:
            observe(state, messages)
        _require_finite(following)
        state = following
    return state


def _advance(algorithm, oracle: Oracle, state: State, draws: Draws) -> _Step:
    """Return the next state and the messages; gradients are taken at theta, or at what was sent."""
    messages = algorithm.send(state, draws) if getattr(algorithm, "at_sent", False) else None
    theta = state.theta if messages is None else messages.values()[0]
    gradients = checks.array(f"oracle(theta, {state.t})", oracle(theta, state.t), theta.shape)
    if messages is None:
        return algorithm.step(state, gradients, draws)
    return algorithm.move(state, gradients, messages), messages


class Transcript:
    """Everything an eavesdropper sees, in order. Pass it as `observe` to `run`."""

    def __init__(self) -> None:
        self.messages: list[Messages] = []

    def __call__(self, state: State, messages: Messages) -> None:
        self.messages.append(messages)


class Diverged(ArithmeticError):
    """A state is no longer finite: iteration `t` made it so, at the positions `runs`."""

    def __init__(self, t: int, runs: np.ndarray, agent: int):
        where = f"of agent {agent} infinite or NaN, in {len(runs)} run(s) of this batch"
        super().__init__(f"iteration {t} made theta or psi {where}")
        self.t, self.runs = t, runs


def _require_finite(state: State) -> None:
    if np.isfinite(state.theta).all() and np.isfinite(state.psi).all():
        return
    wrong = ~(np.isfinite(state.theta) & np.isfinite(state.psi)).all(axis=-1)
    raise Diverged(state.t - 1, np.flatnonzero(wrong.any(axis=1)), int(np.argwhere(wrong)[0][1]))


def _halves(dither: np.ndarray | None) -> tuple:
    """Return theta's and psi's part of a dither, or none of both."""
    return (None, None) if dither is None else (dither[:, 0], dither[:, 1])


def _mix(matrix: np.ndarray, own: np.ndarray, sent: np.ndarray) -> np.ndarray:
    """Return (1 + M_ii) own^i + sum_{j != i} M_ij sent^j for every agent i."""
    mixed = (1.0 + np.diag(matrix))[:, None] * own
    for i, j in zip(*np.nonzero(matrix > 0), strict=True):  # one order of additions for any batch
        row = mixed[:, i]
        row += matrix[i, j] * sent[:, j]
    return mixed


def _state_array(name: str, array, agents: int) -> np.ndarray:
    array = checks.every(name, array, np.isfinite, "be finite")
    if array.ndim != 3 or array.shape[1] != agents:
        raise ValueError(f"{name} has shape {array.shape}: it must be [runs, {agents} agents, dim]")
    return array
