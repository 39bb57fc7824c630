"""What all experiments' parameters share: validation that answers in one sentence, and the network they run on."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ldp_core import network, optimizer
from ldp_core.randomness import Purpose, generator

Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Horizon = Annotated[int, Field(ge=1000, le=10_000_000)]  # messages that a bound for all time follows one by one
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Normalise = Literal["none", "l1", "l2"]
Topology = Literal["paper", "ring", "exponential", "random"]
LARGEST_SIZE = 10_000_000  # of anything that is counted: what exceeds it is a slip of the finger


class ParameterError(ValueError):
    """A parameter that makes no sense; the message is one sentence."""


class Params(BaseModel):
    """Parameters of one experiment: immutable, complete, and no name that is not known."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0

    def __init__(self, **values):
        """Take lists, as YAML and papermill write them, for tuples."""
        try:
            super().__init__(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})
        except ValidationError as error:
            raise ParameterError(_sentence(error)) from None
        for name, value in self:
            if name != "seed" and isinstance(value, int) and value > LARGEST_SIZE:
                raise ParameterError(f"{name} = {value} is wrong: it must not exceed {LARGEST_SIZE}")


class AgentParams(Params):
    """Parameters of an experiment in which five agents run Algorithm 1: the network and the schedules."""

    topology: Topology = "paper"
    weight: Positive = 0.2
    lam_0: Positive = 0.5
    nu: float = 0.71
    d_0: Positive = 2.0
    d_0_slope: NotNegative = 0.01
    varsigma: float = 0.6

    def network(self) -> network.Network:
        """Return the five agents' network. A random one has other weights per edge; `weight` is then their mean per edge."""
        if self.topology == "random":
            return network.random_strongly_connected(5, generator(self.seed, Purpose.INITIAL), mixing=min(0.9, 3 * self.weight))
        return {"paper": network.paper, "ring": partial(network.ring, 5), "exponential": partial(network.exponential, 5)}[
            self.topology
        ](weight=self.weight)

    def algorithm(self) -> optimizer.Algorithm1:
        """Return Algorithm 1 with d_0^i = d_0 + d_0_slope i, varsigma^i = varsigma + 0.01 i, or refuse in one sentence."""
        try:
            schedules = optimizer.paper_schedules(self.lam_0, self.nu, self.d_0, self.d_0_slope, self.varsigma)
            return optimizer.Algorithm1(self.network(), schedules)
        except ValueError as error:
            raise ParameterError(str(error)) from None


def public_seed(seed: int) -> int:
    """Return a seed for the public dither: drawn from the private seed, from which it tells nothing, and never zero."""
    return int(generator(seed, Purpose.DITHER).integers(1, 2**62))


def _sentence(error: ValidationError) -> str:
    """Return the first thing wrong as one sentence that names the parameter, its value and the rule."""
    first = error.errors()[0]
    name = "".join(f"[{part}]" if isinstance(part, int) else str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"{name} is not a parameter of this experiment"
    if first["type"] == "missing":
        return f"{name} is missing"
    if first["type"] == "tuple_type":
        return f"{name} = {first['input']!r} is wrong: it must be a list"
    if first["type"] == "too_short":
        given, fewest = list(first["input"]), first["ctx"]["min_length"]
        return f"{name} = {given} is wrong: it must hold at least {fewest} value(s)"
    rule = first["msg"].removeprefix("Value error, ").removeprefix("Input should be ").removeprefix("Input should ")
    return f"{name} = {first['input']!r} is wrong: it must be {rule}"
