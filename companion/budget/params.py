"""All parameters of notebook 2; the defaults are those of its parameters cell."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from companion import mushrooms
from companion.params import (
    AGENTS,
    AgentParams,
    Count,
    Horizon,
    Normalise,
    NotNegative,
    ParameterError,
    Positive,
    history_bytes,
    require_some_left,
)
from ldp_core import audit

NORMALISATIONS: tuple[Normalise, ...] = ("none", "l2", "l1")
Delta = Annotated[float, Field(gt=0, lt=1)]
Steps = Annotated[tuple[Positive, ...], Field(min_length=1)]
Exponents = Annotated[tuple[NotNegative, ...], Field(min_length=1)]
Times = Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)]
BLOCK = 10  # runs of a promise, or of its neighbours, that are computed together


class Setting(AgentParams):
    """One setting in which budgets are measured."""

    iterations: Annotated[int, Field(ge=2)] = 300
    samples: Count = 2
    test: Count = 2000
    normalise: Normalise = "none"

    def at(self, **changes) -> Setting:
        """Return this setting with other values, checked like new ones."""
        return Setting(**{**self.model_dump(include=set(Setting.model_fields)), **changes})

    def check(self, rows: int) -> None:
        """Raise when the parameters contradict each other or the data."""
        self.algorithm()
        require_some_left(self.test, rows)


class Params(Setting):
    """Fig. 3, its cases, bounds and bits, and the promise; each default is the notebook's."""

    runs: Annotated[int, Field(ge=2, le=100_000)] = 20
    modifications: Count = 20
    first_modifications: Count = 5
    budget_d_0: Steps = (2.0, 5.0, 8.0)
    bits_runs: Annotated[int, Field(ge=0)] = 10
    case_runs: Count = 2
    case_d_0: Steps = (2.0, 8.0)
    arrivals: Times = (0, 3, 10, 30, 100)
    worst_runs: Count = 1
    worst_rows: Count = 1000
    worst_arrivals: Times = (0, 10, 100)
    audit_samples: Annotated[int, Field(ge=100)] = 10_000
    audit_coordinates: Count = 1000
    frontier_d_0: Steps = (0.5, 2.0, 8.0, 32.0, 128.0)
    frontier_weights: Steps = (0.05, 0.2)
    frontier_runs: Count = 2
    accuracy_runs: Annotated[int, Field(ge=2)] = 20
    target: Delta = 0.5
    horizon: Horizon = 20_000
    promise_targets: tuple[Delta, ...] = (0.05, 0.1, 0.25)
    promise_runs: Annotated[int, Field(ge=2)] = 20
    promise_iterations: Count = 1000
    promise_warm_up: Count = 1000
    promise_clip: Positive = 0.1
    promise_audit_samples: Annotated[int, Field(ge=0)] = 30_000
    neighbour_targets: tuple[Delta, ...] = (0.05, 0.25)
    neighbour_runs: Annotated[int, Field(ge=2)] = 4
    neighbour_iterations: Count = 400
    neighbour_pushes: Steps = (10.0, 40.0)
    neighbour_nu: Steps = (0.75, 0.9)
    neighbour_varsigma: Steps = (0.51, 0.71)
    neighbour_weakening: Exponents = (0.3, 0.6)
    neighbour_fading: Exponents = (0.0, 0.25)

    def memory(self) -> tuple[str, int]:
        """Return what needs most memory in one process: messages, states, transcripts,
        histories."""
        dim = mushrooms.problem("none")[1].dim
        own = history_bytes(1, self.iterations, self.samples)
        seen = min(self.audit_coordinates, 2 * self.iterations * dim)
        points = self.promise_iterations + self.promise_warm_up
        compared = self.neighbour_iterations + self.promise_warm_up
        modified = max(self.modifications, self.first_modifications)
        needed = {
            ("iterations", "samples"): AGENTS * self.iterations * dim * 2 * 8 + own,
            ("modifications", "first_modifications"): modified * dim * 2 * 8,
            ("audit_samples", "audit_coordinates"): int(
                2 * (audit.FIT + audit.SELECT) * self.audit_samples * seen
            ),
            ("promise_iterations", "promise_warm_up", "samples"): history_bytes(
                min(self.promise_runs, BLOCK), points, self.samples
            ),
            ("neighbour_iterations", "promise_warm_up", "samples"): history_bytes(
                min(self.neighbour_runs, BLOCK), compared, self.samples
            ),
        }
        names = max(needed, key=lambda names: needed[names])
        first, *others = (f"{name} = {getattr(self, name)}" for name in names)
        return f"{first} with {' and '.join(others)}", needed[names]

    def check(self, rows: int) -> None:
        """Raise when one of the settings or cases makes no sense, before anything is computed."""
        for name in ("arrivals", "worst_arrivals"):
            for k in getattr(self, name):
                if k >= self.iterations - 1:
                    rule = f"which must be below {self.iterations - 1}"
                    first = "a data point that arrives at k first moves the message of k + 1"
                    last = "the last message is that of iterations - 1"
                    raise ParameterError(f"{name} holds {k}, {rule}: {first}, and {last}")
        steps = [self.at(d_0=d_0) for d_0 in {*self.budget_d_0, *self.case_d_0}]
        for setting in [self.at(), *steps, *self.frontier_points()]:
            setting.check(rows)

    def settings(self) -> list[Setting]:
        """Return one setting for every d_0 of Fig. 3."""
        return [self.at(d_0=d_0) for d_0 in self.budget_d_0]

    def frontier_points(self) -> list[Setting]:
        """Return the settings of the frontier: every normalisation, weight and step."""
        return [
            self.at(normalise=normalise, weight=weight, d_0=d_0)
            for normalise in NORMALISATIONS
            for weight in self.frontier_weights
            for d_0 in self.frontier_d_0
        ]

    def learning(self) -> mushrooms.Params:
        """Return the parameters with which notebook 1 would learn at these settings."""
        return self.into(mushrooms.Params, evaluate_every=min(40, self.iterations))
