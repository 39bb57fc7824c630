"""What all experiments' parameters share: one sentence for nonsense, and the five agents' network.

A notebook takes its parameters in one line, `params = Params.take(globals())`; a name that is no
parameter is refused, whoever typed it and wherever.
"""

from __future__ import annotations

import ast
import dataclasses
import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from companion import files
from ldp_core import checks, network, optimizer
from ldp_core.randomness import Purpose, generator


def _none_or_two(count: int) -> int:
    if not (count == 0 or count >= 2):
        raise ValueError("greater than or equal to 2, or 0 to leave this part out")
    return count


Count = Annotated[int, Field(ge=1)]
Repeats = Annotated[int, AfterValidator(_none_or_two)]  # runs of a part that can be left out
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Horizon = Annotated[int, Field(ge=1000, le=10_000_000)]  # messages that a bound follows one by one
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
NotNegativeCount = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(gt=0, lt=1)]
Rate = Annotated[float, Field(gt=0, le=5000, allow_inf_nan=False)]  # samples a second of an EEG
Normalise = Literal["none", "l1", "l2"]
Topology = Literal["paper", "ring", "exponential", "random"]
AGENTS = 5
FLOAT_BITS, HEADER_BITS = 32, 64  # an unquantised coordinate; smallest and largest level
GIB = 2**30
LARGEST_SIZE = 10_000_000  # of anything that is counted: what exceeds it is a slip of the finger
ROW_BYTES = 6  # a row number as it is drawn (two bytes) and as the gradients use it (four)
NOTEBOOK = ("profile", "output")  # of every notebook and of no experiment
INJECTED = "# Parameters"  # the first line of the cell that papermill adds
LOOKS_LIKE = 0.8  # share of letters from which a reader's own name counts as a misspelt parameter


class ParameterError(files.OneSentence, ValueError):
    """A parameter that makes no sense; the message is one sentence."""


class Params(BaseModel):
    """Parameters of one experiment: immutable, complete, and no name that is not known."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0

    def __init__(self, **values):
        """Take lists, as YAML and papermill write them, for tuples."""
        known = type(self).model_fields
        for name in values:
            if name not in known:
                near = nearest(name, known)
                raise ParameterError(f"{name} is not a parameter of this experiment{near}")
        try:
            lists = {
                name: tuple(value) for name, value in values.items() if isinstance(value, list)
            }
            super().__init__(**values | lists)
        except ValidationError as error:
            raise ParameterError(_sentence(error)) from None
        for name, value in self:
            if isinstance(value, tuple) and len(set(value)) < len(value):
                raise ParameterError(f"{name} = {checks.shown(list(value))} must be all different")
            if name != "seed":
                _require_size(name, value)

    @classmethod
    def take(cls, names: Mapping[str, Any]) -> Self:
        """Return the parameters that a notebook's names (`globals()`) give; refuse others.

        The names are those of its parameters cell as it was last run, of the cell that papermill
        adds, and of cells below that do nothing but set values; elsewhere (a script, a test) all
        that are no modules, functions or classes. `output` must be a folder that can be written to.
        """
        given = _given(names, [*NOTEBOOK, *cls.model_fields])
        output = names.get("output", "")
        if output and (reason := files.why_not_writable(Path(output))):
            rule = f"must be a folder that can be written to: {reason}"
            raise ParameterError(f"output = {output!r} {rule}")
        values = {name: names[name] for name in given if name in names and name not in NOTEBOOK}
        params = cls(**values)
        params.require_memory()
        return params

    def record(self, notebook: str, profile: str, *data) -> dict[str, Any]:
        """Return what every figure is saved with: notebook, the data's provenance, parameters."""
        sets = [dataclasses.asdict(each.provenance) for each in data]
        values = {"profile": profile, **self.model_dump()}
        return {"notebook": notebook, "data": sets, "params": values}

    def into(self, kind: type[Kind], **changes) -> Kind:
        """Return the parameters of another experiment: those of the same name, and the changes."""
        shared = set(type(self).model_fields) & set(kind.model_fields)
        return kind(**{**self.model_dump(include=shared), **changes})

    def memory(self) -> tuple[str, int]:
        """Return what needs most memory in one process, and how many bytes."""
        return "", 0

    def require_memory(self) -> None:
        """Refuse sizes that cannot be held, before anything is computed."""
        (what, needed), there = self.memory(), files.memory()
        if needed > there:
            limit = f"it must not exceed the {there / GIB:.0f} GiB of this machine"
            raise ParameterError(f"{what} needs {needed / GIB:.0f} GiB of memory: {limit}")


Kind = TypeVar("Kind", bound=Params)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return `: did you mean weight?`, or nothing when no known name is near."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f": did you mean {near[0]}?" if near else ""


def _require_size(name: str, value) -> None:
    """Refuse a whole number, or one in a list, that is larger than anything counted can be."""
    if isinstance(value, tuple):
        for place, entry in enumerate(value):
            _require_size(f"{name}[{place}]", entry)
    elif isinstance(value, int) and value > LARGEST_SIZE:
        raise ParameterError(f"{name} = {value} is wrong: it must not exceed {LARGEST_SIZE}")


def _given(names: Mapping[str, Any], known: Sequence[str]) -> list[str]:
    """Return the names that were given a value, or refuse one that is no parameter."""
    typed = _typed(names.get("_ih", ()), known)
    given = typed or [name for name in names if _is_value(name, names)]
    for name in given:
        if name not in known:
            wrong = f"{name} = {checks.shown(names.get(name))} is not a parameter of this notebook"
            raise ParameterError(wrong + nearest(name, known))
    for name in NOTEBOOK:
        if not isinstance(names.get(name, ""), str):
            raise ParameterError(f"{name} = {checks.shown(names[name])} is wrong: it must be text")
    return given


def _is_value(name: str, names: Mapping[str, Any]) -> bool:
    """Return whether somebody gave this name a value: no module, function, class or internal."""
    internal = name.startswith("_") or name in ("In", "Out")
    return not (internal or isinstance(names[name], ModuleType) or callable(names[name]))


def _typed(history: Sequence[str], known: Collection[str]) -> list[str]:
    """Return the names set by the last parameters cell that was run, and since; none without one.

    The parameters cell is the one that sets `profile`. It counts as a whole, and so does the cell
    that papermill adds; of cells below that only set values, and may be a reader's own, the names
    that are parameters or look like one.
    """
    starts = [place for place, source in enumerate(history) if _is_parameters(source)]
    if not starts:
        return []
    found = [name for name, _ in _assigned(history[starts[-1]])]
    for source in history[starts[-1] + 1 :]:
        added = source.startswith(INJECTED)
        names = [name for name, is_literal in _assigned(source) if is_literal or added]
        if added:
            found += names
        elif len(names) == len(_statements(source)):
            found += [n for n in names if difflib.get_close_matches(n, known, 1, LOOKS_LIKE)]
    return list(dict.fromkeys(found))


def _is_parameters(source: str) -> bool:
    return not source.startswith(INJECTED) and "profile" in dict(_assigned(source))


def _statements(source: str) -> list[ast.stmt]:
    """Return the statements of a cell; none of one that is not Python."""
    try:
        return ast.parse(source).body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return []


def _assigned(source: str) -> list[tuple[str, bool]]:
    """Return the names that a cell sets, and whether each is set to a literal value."""
    found = []
    for statement in _statements(source):
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            own = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            literal = _is_literal(statement.value)
            found += [(target.id, literal) for target in own if isinstance(target, ast.Name)]
    return found


def _is_literal(expression: ast.expr | None) -> bool:
    try:
        return expression is not None and ast.literal_eval(expression) is not Ellipsis
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False


class AgentParams(Params):
    """Parameters of an experiment in which five agents run Algorithm 1: network and schedules."""

    topology: Topology = "paper"
    weight: Positive = 0.2
    lam_0: Positive = 0.5
    nu: float = 0.71
    d_0: Positive = 2.0
    d_0_slope: NotNegative = 0.01
    varsigma: float = 0.6

    def network(self) -> network.Network:
        """Return the five agents' network; of a random one, `weight` is the mean per edge."""
        if self.topology == "random":
            random, mixing = generator(self.seed, Purpose.INITIAL), min(0.9, 3 * self.weight)
            return network.random_strongly_connected(AGENTS, random, mixing=mixing)
        if self.topology == "paper":
            return network.paper(weight=self.weight)
        return getattr(network, self.topology)(AGENTS, weight=self.weight)

    def algorithm(self) -> optimizer.Algorithm1:
        """Return Algorithm 1 with d_0^i = d_0 + d_0_slope i, varsigma^i = varsigma + 0.01 i."""
        pattern = self.lam_0, self.nu, self.d_0, self.d_0_slope, self.varsigma
        try:
            return optimizer.Algorithm1(self.network(), optimizer.paper_schedules(*pattern))
        except ValueError as error:
            raise ParameterError(str(error).partition("; explore=True")[0]) from None


class NetworkParams(AgentParams):
    """The same where networks are trained (sections 4.2 and 4.3 of the paper)."""

    nu: float = 0.61
    varsigma: float = 0.5


def require_at_most(params: Params, name: str, other: str) -> None:
    """Refuse a parameter that exceeds another one."""
    value, limit = getattr(params, name), getattr(params, other)
    if value > limit:
        raise ParameterError(f"{name} = {value} must not exceed {other} = {limit}")


def require_some_left(test: int, rows: int) -> None:
    """Refuse a test set that leaves no mushroom to learn from."""
    if test >= rows:
        rule = f"must be below {rows}, the number of mushrooms, so that some are left to learn from"
        raise ParameterError(f"test = {test} {rule}")


def history_bytes(runs: int, points: int, samples: int) -> int:
    """Return the least memory of the row numbers of five agents: data points of so many samples."""
    return AGENTS * runs * points * samples * ROW_BYTES


def public_seed(seed: int) -> int:
    """Return a seed for the public dither, drawn from the private one, not telling it; never 0."""
    return int(generator(seed, Purpose.DITHER).integers(1, 2**62))


def _sentence(error: ValidationError) -> str:
    """Return the first thing wrong in one sentence that names parameter, value and rule."""
    first = error.errors()[0]
    parts = (f"[{part}]" if isinstance(part, int) else str(part) for part in first["loc"])
    name, value = "".join(parts), first["input"]
    if first["type"] == "missing":
        return f"{name} is missing"
    rule = first["msg"].removeprefix("Value error, ")
    rule = "be " + rule.removeprefix("Input should be ").removeprefix("Input should ")
    if first["type"] == "tuple_type":
        rule = "be a list"
    if first["type"] == "too_short":
        value, rule = list(value), f"hold at least {first['ctx']['min_length']} value(s)"
    return f"{name} = {value!r} is wrong: it must {rule}"
