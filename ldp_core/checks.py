"""What every argument is asked before it is used: the answer is a value, or one sentence that names argument and rule.

    >>> whole("iterations", 10.0)
    Traceback (most recent call last):
    ValueError: iterations = 10.0 must be a whole number

Compiled loops do not look where they read. `layout` is the guard before them: it says how the arrays of a function fit
together, and refuses those that do not. `tests/test_layouts.py` finds every compiled function and tries wrong shapes on it.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import CodeType
from typing import Any

import numpy as np

MOST_FORMS = 1000  # combinations of shapes that a layout remembers


def whole(name: str, number, least: int = 0) -> int:
    """Return `number` as an int not below `least`, or say which argument is not one."""
    try:
        value = operator.index(number)
    except TypeError:
        raise ValueError(f"{name} = {shown(number)} must be a whole number") from None
    if isinstance(number, (bool, np.bool_)):
        raise ValueError(f"{name} = {number} must be a whole number")
    if value < least:
        raise ValueError(f"{name} = {value} must be at least {least}")
    return value


def real(name: str, number, rule: str = "one real number") -> float:
    """Return one real number as a float (infinite and NaN ones too), or say which argument is not one."""
    return float(reals(name, number, rule, shape=()))


def reals(name: str, numbers, rule: str = "real numbers", shape: tuple[int, ...] | None = None):
    """Return real numbers as float64, or say which argument holds something else: text, nothing, complex numbers."""
    try:
        array = np.asarray(numbers)
    except ValueError:  # lists of different lengths
        raise ValueError(f"{name} = {shown(numbers)} must be {rule}") from None
    if (array.dtype.kind not in "iuf" and array.size) or shape not in (None, array.shape):
        raise ValueError(f"{name} = {shown(numbers)} must be {rule}")
    return array.astype(np.float64, copy=False)


def array(name: str, values, shape: tuple[int, ...]) -> np.ndarray:
    """Return `values` if they are a numpy array of real numbers of exactly this shape; nothing is broadcast."""
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "iuf":
        raise ValueError(f"{name} = {kind(values)} must be a numpy array of real numbers of shape {shape}")
    if values.shape != shape:
        raise ValueError(f"{name} has shape {values.shape}: it must be {shape}")
    return values


def fit(**arrays) -> tuple[int, ...]:
    """Return the shape of several arrays together, or say which ones cannot be seen as of one shape."""
    try:
        return np.broadcast_shapes(*(np.shape(array) for array in arrays.values()))
    except ValueError:
        shapes = ", ".join(f"{name} of shape {np.shape(array)}" for name, array in arrays.items())
        raise ValueError(f"{shapes} do not fit together: axes must be equal or one") from None


def broadcast(**numbers) -> tuple[np.ndarray, ...]:
    """Return real numbers as float64 arrays of one shape, each seen as often as needed."""
    arrays = {name: reals(name, value) for name, value in numbers.items()}
    fit(**arrays)
    return np.broadcast_arrays(*arrays.values())


def candidates(name: str, numbers) -> tuple[float, ...]:
    """Return a list of at least one number, or say which argument is none."""
    array = reals(name, numbers, "a list of numbers")
    if array.ndim != 1 or not array.size:
        raise ValueError(f"{name} = {shown(numbers)} must be a list of at least one number")
    return tuple(array.tolist())


def instance(name: str, value, wanted: type) -> Any:
    """Return `value` if it is of the type wanted, or say which argument is not."""
    if not isinstance(value, wanted):
        raise ValueError(f"{name} = {shown(value)} must be a {wanted.__module__}.{wanted.__name__}")
    return value


def shown(value, most: int = 60) -> str:
    """Return a value as it stands in a sentence: on one line, and short."""
    text = " ".join(repr(value).split())
    return text if len(text) <= most else f"{text[: most - 3]}..."


def kind(value) -> str:
    """Return what kind of thing a value is: None, list, torch.Tensor, array of complex128."""
    if value is None:
        return "None"
    if isinstance(value, np.ndarray):
        return f"array of {value.dtype}"
    of = type(value)
    return of.__name__ if of.__module__ == "builtins" else f"{of.__module__}.{of.__name__}"


@dataclass(frozen=True)
class Axis:
    """One axis of an array: its size has a `name`, or must equal (`least`: not be below) an expression of such names."""

    name: str
    rule: CodeType | None
    least: bool
    text: str

    @classmethod
    def of(cls, text: str) -> Axis:
        """Read `agents`, `2`, `2*high+2`, `>=samples` or `samples>=width*pooled`."""
        left, sign, right = text.partition(">=")
        name = left if left.isidentifier() else ""
        rule = right if sign else "" if name else left
        return cls(name, compile(rule, text, "eval") if rule else None, bool(sign), text)

    def wants(self, sizes: dict[str, int]) -> int:
        """Return the size, or the least size, that this axis must have among the `sizes` known by name."""
        return eval(self.rule, {"__builtins__": {}}, sizes) if self.rule else sizes[self.name]

    def fits(self, size: int, sizes: dict[str, int]) -> bool:
        """Return whether a size is right."""
        if self.name and size != sizes[self.name]:
            return False
        return size >= self.wants(sizes) if self.least else size == self.wants(sizes)

    def sentence(self, sizes: dict[str, int]) -> str:
        """Return what is wanted in words: `agents = 5`, `samples >= 100`, `2`."""
        if self.text.isdigit():
            return self.text
        return f"{self.text.partition('>=')[0]} {'>=' if self.least else '='} {self.wants(sizes)}".strip()


@dataclass(frozen=True)
class Layout:
    """How one argument must look: its axes, whether None will do, or (axes = None) that it is a whole number."""

    axes: tuple[Axis, ...] | None
    optional: bool = False

    @classmethod
    def of(cls, text: str | type) -> Layout:
        """Read `runs agents dim`, `None or runs agents dim`, or `int`."""
        if text is int:
            return cls(None)
        words = str(text).removeprefix("None or ")
        return cls(tuple(Axis.of(word) for word in words.split()), words != text)


def layout(**arguments: str | type) -> Callable[[Callable], Callable]:
    """Return a decorator: the function refuses arrays that do not fit together before it reads one.

        @layout(theta="runs agents dim", coins="runs 2 agents dim", labels="runs >=seen", seen=int, lam=float)

    A name stands for one size wherever it occurs. `int` is a whole number that others may refer to, `float` any number. Every
    argument of the function must be named.
    """
    wanted = {name: Layout.of(text) for name, text in arguments.items() if text is not float}

    def guard(function: Callable) -> Callable:
        names = tuple(inspect.signature(getattr(function, "py_func", function)).parameters)
        if set(names) != set(arguments):
            raise TypeError(f"{function.__name__}: the layout must name each of {', '.join(names)}")
        places = [(names.index(name), name, rule) for name, rule in wanted.items()]
        seen: set[tuple] = set()  # forms that fitted: a loop comes with the same ones again and again

        @functools.wraps(function)
        def guarded(*given):
            forms = tuple([_form(given[place]) for place, _, _ in places])
            if forms not in seen:
                require_layout((name, given[place], rule) for place, name, rule in places)
                seen.add(forms)
                if len(seen) > MOST_FORMS:
                    seen.clear()
            return function(*given)

        guarded.layout, guarded.arguments = arguments, names  # type: ignore[attr-defined]
        return guarded

    return guard


def _form(value) -> object:
    """Return what decides whether an argument fits: its shape or whole number; anything else is like nothing before."""
    if type(value) is np.ndarray:
        return value.shape
    return value if type(value) is int or value is None else object()


def require_layout(given: Iterable[tuple[str, Any, Layout]]) -> None:
    """Refuse the first argument that does not fit the others."""
    sizes: dict[str, int] = {}
    arrays = []
    for name, value, rule in given:
        if rule.axes is None:
            sizes[name] = whole(name, value)
        elif not (value is None and rule.optional):
            _name_sizes(name, value, rule.axes, sizes)
            arrays.append((name, value, rule.axes))
    for name, value, axes in arrays:
        if not all(axis.fits(size, sizes) for axis, size in zip(axes, value.shape, strict=True)):
            wanted = ", ".join(axis.sentence(sizes) for axis in axes)
            raise ValueError(f"{name} has shape {value.shape}: it must be [{wanted}]")


def _name_sizes(name: str, value, axes: tuple[Axis, ...], sizes: dict[str, int]) -> None:
    """Write down the sizes that an array is the first to name."""
    if not isinstance(value, np.ndarray):
        raise ValueError(f"{name} = {kind(value)} must be a numpy array")
    if value.ndim != len(axes):
        wanted = ", ".join(axis.text for axis in axes)
        raise ValueError(f"{name} has shape {value.shape}: it must be [{wanted}]")
    for axis, size in zip(axes, value.shape, strict=True):
        if axis.name:
            sizes.setdefault(axis.name, size)
