"""The parameters of notebook 1: every default is the one in its parameters cell."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from companion import mushrooms
from companion.data.mushrooms import ROWS
from companion.params import (
    Count,
    NotNegative,
    ParameterError,
    Positive,
    Repeats,
    Topology,
    history_bytes,
)

LONG_RUNS_PER_SHARD = 6  # all of the default profile: an iteration costs as much for one as for two
UNQUANTISED = 0.0  # the d_0 that stands for no quantisation
TOPOLOGIES: tuple[Topology, ...] = ("paper", "ring", "exponential", "random")
Steps = Annotated[tuple[Positive, ...], Field(min_length=1)]


class Params(mushrooms.Params):
    """Fig. 2, long runs at several d_0 (`UNQUANTISED` among them), and a map over weights and d_0.

    Without runs (`rate_runs` or `sweep_runs` 0) a part is left out.
    """

    l2: NotNegative = 0.1
    rate_runs: Repeats = 6
    rate_iterations: Annotated[int, Field(ge=100)] = 10_000
    rate_d_0: tuple[NotNegative, ...] = (0.0, 0.5, 2.0, 8.0)
    sweep_runs: Repeats = 10
    sweep_iterations: Count = 400
    sweep_weights: Steps = (0.02, 0.05, 0.1, 0.2, 0.3)
    sweep_d_0: Steps = (0.5, 2.0, 8.0, 32.0)

    def memory(self) -> tuple[str, int]:
        """Return the largest history of a shard."""
        most, parts = {"rate": LONG_RUNS_PER_SHARD, "sweep": mushrooms.RUNS_PER_SHARD}, []
        for part, block in most.items():
            runs, iterations = getattr(self, f"{part}_runs"), getattr(self, f"{part}_iterations")
            what = f"{part}_iterations = {iterations} with samples = {self.samples}"
            parts.append((what, history_bytes(min(runs, block), iterations, self.samples)))
        return max(super().memory(), *parts, key=lambda part: part[1])

    def check(self, rows: int = ROWS) -> None:
        """Raise when parameters contradict each other, the data or an assumption of the paper."""
        super().check(rows)
        if not self.l2 > 0:
            rule = "must be positive: without an L2 term separable classes have no optimum"
            raise ParameterError(f"l2 = {self.l2} {rule}")
        if UNQUANTISED not in self.rate_d_0 or len(self.rate_d_0) < 2:
            rule = "must hold 0 (no quantisation) and at least one other step"
            raise ParameterError(f"rate_d_0 = {list(self.rate_d_0)} {rule}")
        for point in self.points():
            point.algorithm()

    def points(self) -> list[mushrooms.Params]:
        """Return the map's settings: all weights and steps, then all topologies at the own ones."""
        weights, steps, length = self.sweep_weights, self.sweep_d_0, self.sweep_iterations
        grid = [{"weight": weight, "d_0": d_0} for weight in weights for d_0 in steps]
        changes = grid + [{"topology": topology} for topology in TOPOLOGIES]
        own = {"runs": max(1, self.sweep_runs), "iterations": length, "evaluate_every": length}
        return [self.into(mushrooms.Params, **own, **change) for change in changes]
