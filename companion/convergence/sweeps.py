"""Notebook 1, last part: how the network changes learning, and where quantised training breaks."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import pandas as pd
from pydantic import Field

from companion import mushrooms as convergence
from companion import runs
from companion.data import mushrooms
from companion.params import AgentParams, Count, Normalise, Positive, history_bytes

TOPOLOGIES = ("paper", "ring", "exponential", "random")


class Params(AgentParams):
    """A grid of edge weights and quantisation steps on the paper's network, and all topologies at the paper's own step."""

    sweep_runs: Annotated[int, Field(ge=2)] = 10
    sweep_iterations: Count = 400
    sweep_weights: Annotated[tuple[Positive, ...], Field(min_length=1)] = (0.02, 0.05, 0.1, 0.2, 0.3)
    sweep_d_0: Annotated[tuple[Positive, ...], Field(min_length=1)] = (0.5, 2.0, 8.0, 32.0)
    samples: Count = 2
    test: Count = 2000
    normalise: Normalise = "none"

    def memory(self) -> tuple[str, int]:
        """Return the size of a shard's history."""
        what = f"sweep_iterations = {self.sweep_iterations} with samples = {self.samples}"
        return what, history_bytes(min(self.sweep_runs, convergence.RUNS_PER_SHARD), self.sweep_iterations, self.samples)

    def check(self) -> None:
        """Raise when a point of the grid breaks an assumption, before anything is computed."""
        for point in self.points():
            point.algorithm()

    def points(self) -> list[AgentParams]:
        """Return the settings of every point: the grid first, then the topologies."""
        grid = [{"weight": weight, "d_0": d_0} for weight in self.sweep_weights for d_0 in self.sweep_d_0]
        changes = grid + [{"topology": topology} for topology in TOPOLOGIES]
        own = self.model_dump(include=set(AgentParams.model_fields))
        return [AgentParams(**{**own, **change}) for change in changes]


def run(params: Params, data: mushrooms.Mushrooms) -> pd.DataFrame:
    """Return the final accuracy of every run: columns topology, weight, d_0, variant, run, accuracy."""
    params.check()
    pieces, labels = [], []
    for point in params.points():
        settings = convergence.Params(
            **point.model_dump(),
            runs=params.sweep_runs,
            iterations=params.sweep_iterations,
            samples=params.samples,
            test=params.test,
            evaluate_every=params.sweep_iterations,
            normalise=params.normalise,
        )
        for shard in convergence.shards(settings, data):
            pieces.append(shard)
            labels.append({"topology": point.topology, "weight": point.weight, "d_0": point.d_0, "variant": shard["variant"]})
    results = runs.run(convergence.compute, pieces, description=f"{len(params.points())} networks and steps")
    tables = [
        pd.DataFrame({"run": np.arange(len(result["accuracy"][-1])), "accuracy": result["accuracy"][-1].mean(axis=1)}).assign(
            **label
        )
        for result, label in zip(results, labels, strict=True)
    ]
    return pd.concat(tables, ignore_index=True)


def loss_of_accuracy(table: pd.DataFrame) -> pd.DataFrame:
    """Return, per topology, weight and d_0, quantised minus unquantised accuracy, paired over runs: mean and standard error."""
    keys = ["topology", "weight", "d_0"]
    wide = table.pivot_table(index=[*keys, "run"], columns="variant", values="accuracy")
    difference = (wide["quantised"] - wide["unquantised"]).groupby(keys)
    summary = difference.agg(mean="mean", standard_error="sem").reset_index()
    accuracy = wide["quantised"].groupby(keys).mean().rename("accuracy").reset_index()
    return summary.merge(accuracy, on=keys)


def breaking_step(table: pd.DataFrame, tolerated: float = 0.05) -> dict[float, float | None]:
    """Return, per weight of the paper's network, the smallest d_0 of the grid that costs more than `tolerated` accuracy."""
    lost = loss_of_accuracy(table[table["topology"] == "paper"])
    too_much = lost[lost["mean"] < -tolerated]
    return {weight: too_much[too_much["weight"] == weight]["d_0"].min() if (too_much["weight"] == weight).any() else None
            for weight in sorted(lost["weight"].unique())}  # fmt: skip
