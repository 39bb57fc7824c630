"""Algorithm 1 for all agents, cut into the places where it can be wrong, and algorithms that are
wrong in one of them.

`Right` is eq. (4) again, with a method for every part of it. The tests show that it computes what
`ldp_core.optimizer` does. The faults here cost accuracy or convergence; those that cost privacy are
in `mechanisms`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ldp_core import quantizer
from ldp_core.network import Network
from ldp_core.optimizer import Algorithm1, Coins, Messages, Schedules, State


@dataclass
class Right:
    """Algorithm 1.

    It may keep `memory` from one step to the next, which only a fault has a use for.
    """

    network: Network
    schedules: Schedules
    memory: dict = field(default_factory=dict)

    def init(self, theta_0: np.ndarray, psi_0: np.ndarray | None = None) -> State:
        self.memory.clear()
        return Algorithm1(self.network, self.schedules).init(theta_0, psi_0)

    def coins(self, seed: int) -> Coins:
        return Algorithm1(self.network, self.schedules).coins(seed)

    def step(
        self, state: State, gradients: np.ndarray, coins: np.ndarray
    ) -> tuple[State, Messages]:
        messages = self.messages(state, coins)
        theta_sent, psi_sent = self.read(messages)
        own_theta, own_psi = self.own(state, messages)
        R, C = self.graphs()
        psi = _mix(C, own_psi, psi_sent) + self.lam(state.t) * gradients
        theta = (
            _mix(R, own_theta, theta_sent) - self.descent(state, psi) / self.divisor(state)[:, None]
        )
        return State(state.t + 1, theta, psi, self.next_z(state)), messages

    def messages(self, state: State, coins: np.ndarray) -> Messages:
        """Return the levels that are sent."""
        step = self.step_sizes(state.t)
        levels = [
            self.quantise(y, step[:, None], coins[:, c])
            for c, y in enumerate((state.theta, state.psi))
        ]
        return Messages(state.t, *levels, step)

    def step_sizes(self, t: int) -> np.ndarray:
        return self.schedules.step(t)

    def quantise(self, y: np.ndarray, step: np.ndarray, coins: np.ndarray) -> np.ndarray:
        return quantizer.quantise(y, step, coins)

    def read(self, messages: Messages) -> tuple[np.ndarray, np.ndarray]:
        """Return theta and psi as the receivers read them."""
        return messages.values()

    def own(self, state: State, messages: Messages) -> tuple[np.ndarray, np.ndarray]:
        """Return theta and psi as each agent uses its own."""
        return state.theta, state.psi

    def graphs(self) -> tuple[np.ndarray, np.ndarray]:
        return self.network.R, self.network.C

    def lam(self, t: int) -> float:
        return self.schedules.lam(t)

    def descent(self, state: State, psi: np.ndarray) -> np.ndarray:
        return psi - state.psi

    def divisor(self, state: State) -> np.ndarray:
        """Return m [z_t^i]_i."""
        return self.network.agents * np.diagonal(state.z)

    def next_z(self, state: State) -> np.ndarray:
        return state.z + self.network.R @ state.z


def _mix(matrix: np.ndarray, own: np.ndarray, sent: np.ndarray) -> np.ndarray:
    diagonal = np.diag(matrix)
    return (1.0 + diagonal)[:, None] * own + (matrix - np.diag(diagonal)) @ sent


class AlwaysUp(Right):
    """Always rounds up."""

    def quantise(self, y, step, coins):
        return np.ceil(y / step).astype(np.int64)


class CoinTooOftenUp(Right):
    """Tosses coins that are a twentieth too small."""

    def quantise(self, y, step, coins):
        return quantizer.quantise(y, step, 0.95 * coins)


class CoinReversed(Right):
    """Goes down when it should go up."""

    def quantise(self, y, step, coins):
        lower, up = quantizer.pmf(y, step)
        return lower + (coins >= up)


class LevelsOfThreeBits(Right):
    """Stores levels in three bits, -4 ... 3, and clips the rest."""

    def quantise(self, y, step, coins):
        return np.clip(quantizer.quantise(y, step, coins), -4, 3)


class StepDoesNotDecay(Right):
    """Keeps d_t at d_0."""

    def step_sizes(self, t):
        return self.schedules.step(0)


class LamDoesNotDecay(Right):
    """Keeps lam_t at lam_0."""

    def lam(self, t):
        return self.schedules.lam(0)


class StaleNeighbours(Right):
    """Mixes in what the neighbours sent one iteration earlier."""

    def read(self, messages):
        current = messages.values()
        stale = self.memory.get("sent", current)
        self.memory["sent"] = current
        return stale


class ReadWithWrongStep(Right):
    """Multiplies the levels received by the step of agent 0, whoever sent them."""

    def read(self, messages):
        return messages._replace(step=np.full_like(messages.step, messages.step[0])).values()


class LostPsi(Right):
    """Loses every tenth message of psi: it is read as zero."""

    def read(self, messages):
        theta, psi = messages.values()
        return theta, psi * (messages.t % 10 != 9)


class OwnPsiQuantised(Right):
    """Uses its own psi as it was sent, not as it is."""

    def own(self, state, messages):
        return state.theta, messages.values()[1]


class OwnThetaQuantised(Right):
    """Uses its own theta as it was sent, not as it is."""

    def own(self, state, messages):
        return messages.values()[0], state.psi


class GraphsSwapped(Right):
    """Sends theta over C and psi over R."""

    def graphs(self):
        return self.network.C, self.network.R


class PsiWithoutDifference(Right):
    """Descends along psi_{t+1}, not along psi_{t+1} - psi_t."""

    def descent(self, state, psi):
        return psi


class AgentsForgotten(Right):
    """Divides by [z_t^i]_i and forgets m."""

    def divisor(self, state):
        return np.diagonal(state.z)


class LimitOfZ(Right):
    """Divides by u_i, the limit of m [z_t^i]_i, from the start."""

    def divisor(self, state):
        return self.network.u


class ZNotUpdated(Right):
    """Leaves z at z_0."""

    def next_z(self, state):
        return state.z


class ZOverC(Right):
    """Updates z over the graph of psi."""

    def next_z(self, state):
        return state.z + self.network.C @ state.z
