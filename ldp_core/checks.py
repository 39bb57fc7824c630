"""What every argument is asked before it is used: a value, or one sentence naming it and the rule.

    >>> whole("iterations", 10.0)
    Traceback (most recent call last):
    ValueError: iterations = 10.0 must be a whole number

Compiled loops do not look where they read. `layout` is the guard before them: it says how the
arrays of a function fit together, and refuses those that do not.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

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
    """Return one real number as a float (infinite and NaN ones too), or say what is not one."""
    return float(reals(name, number, rule, shape=()))


def reals(name: str, numbers, rule: str = "real numbers", shape: tuple[int, ...] | None = None):
    """Return real numbers as float64; text, nothing and complex numbers are refused."""
    try:
        array = np.asarray(numbers)
    except ValueError:  # lists of different lengths
        raise ValueError(f"{name} = {shown(numbers)} must be {rule}") from None
    if (array.dtype.kind not in "iuf" and array.size) or shape not in (None, array.shape):
        raise ValueError(f"{name} = {shown(numbers)} must be {rule}")
    return array.astype(np.float64, copy=False)


def array(name: str, values, shape: tuple[int, ...]) -> np.ndarray:
    """Return `values` if they are a numpy array of real numbers of exactly this shape."""
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "iuf":
        rule = f"a numpy array of real numbers of shape {shape}"
        raise ValueError(f"{name} = {kind(values)} must be {rule}")
    if values.shape != shape:
        raise ValueError(f"{name} has shape {values.shape}: it must be {shape}")
    return values


def fit(**arrays) -> tuple[int, ...]:
    """Return the shape of several arrays together, or say which ones are not of one shape."""
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


class Axis(NamedTuple):
    """One axis of an array: its size is a name or a number, or must reach one (`least`)."""

    size: str
    least: bool

    def wants(self, sizes: dict[str, int]) -> int:
        """Return the size, or the least size, that this axis must have among `sizes`."""
        return int(self.size) if self.size.isdigit() else sizes[self.size]

    def sentence(self, sizes: dict[str, int]) -> str:
        """Return what is wanted in words: `agents = 5`, `>= 100`, `2`."""
        if self.least:
            return f">= {self.wants(sizes)}"
        return self.size if self.size.isdigit() else f"{self.size} = {self.wants(sizes)}"


def axes_of(text: str) -> tuple[Axis, ...]:
    """Return the axes of `runs 2 >=seen`."""
    return tuple(Axis(word.removeprefix(">="), word.startswith(">=")) for word in text.split())


def layout(**arguments: str | type) -> Callable[[Callable], Callable]:
    """Return a decorator: the function refuses arrays that do not fit together before it reads one.

        @layout(theta="runs agents dim", labels="runs >=seen", seen=int, lam=float)

    A name stands for one size wherever it occurs. `int` is a whole number that others may refer to,
    `float` any number. Every argument of the function must be named.
    """

    def guard(function: Callable) -> Callable:
        names = tuple(inspect.signature(getattr(function, "py_func", function)).parameters)
        if set(names) != set(arguments):
            raise TypeError(f"{function.__name__}: the layout must name each of {', '.join(names)}")
        seen: set[tuple] = set()  # forms that fitted: a loop comes with the same ones again
        looked_at = [k for k, name in enumerate(names) if arguments[name] is not float]

        @functools.wraps(function)
        def guarded(*given):
            forms = tuple([_form(given[k]) for k in looked_at])
            if forms not in seen:
                _require_layout({names[k]: given[k] for k in looked_at}, arguments)
                seen.clear() if len(seen) > MOST_FORMS else seen.add(forms)
            return function(*given)

        guarded.layout, guarded.arguments = arguments, names  # type: ignore[attr-defined]
        return guarded

    return guard


def _form(value) -> object:
    """Return what decides whether an argument fits: its shape or number, or itself alone."""
    if type(value) is np.ndarray:
        return value.shape
    return value if type(value) is int else object()


def _require_layout(given: dict[str, Any], rules: dict) -> None:
    """Refuse the first argument that does not fit the others."""
    sizes = {name: whole(name, value) for name, value in given.items() if rules[name] is int}
    arrays = {name: axes_of(rules[name]) for name in given if name not in sizes}
    for name, axes in arrays.items():
        if not isinstance(given[name], np.ndarray):
            raise ValueError(f"{name} = {kind(given[name])} must be a numpy array")
        if given[name].ndim != len(axes):
            wanted = ", ".join(axis.size for axis in axes)
            raise ValueError(f"{name} has shape {given[name].shape}: it must be [{wanted}]")
        for axis, size in zip(axes, given[name].shape, strict=True):
            if not axis.least:
                sizes.setdefault(axis.size, size)
    for name, axes in arrays.items():
        both = [
            (axis.wants(sizes), axis.least, size)
            for axis, size in zip(axes, given[name].shape, strict=True)
        ]
        if not all(size >= want if least else size == want for want, least, size in both):
            wanted = ", ".join(axis.sentence(sizes) for axis in axes)
            raise ValueError(f"{name} has shape {given[name].shape}: it must be [{wanted}]")
