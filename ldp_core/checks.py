"""What every argument is asked before it is used: a value, or one sentence naming it and the rule.

    >>> whole("iterations", 10.0)
    Traceback (most recent call last):
    ValueError: iterations = 10.0 must be a whole number

`guard` lets all public functions of a module ask for what their annotations say. Compiled loops do
not look where they read: `layout` says how their arrays fit together, and refuses others.
"""

import functools
import importlib
import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from types import UnionType
from typing import Any, Union, get_args, get_origin

import numpy as np

KINDS: dict[Any, str] = {bool: "True or False", str: "text", Callable: "a function"}
KINDS |= {Mapping: "a dictionary", list: "a list", Sequence: "a list", tuple: "a tuple"}


def whole(name: str, number, least: int = 0) -> int:
    """Return `number` as an int not below `least`, or say which argument is not one."""
    try:
        value = operator.index(number)
    except TypeError:
        value = None
    if value is None or isinstance(number, (bool, np.bool_)):
        raise ValueError(f"{name} = {shown(number)} must be a whole number")
    if value < least:
        raise ValueError(f"{name} = {value} must be at least {least}")
    return value


def word(name: str, value) -> int:
    """Return `value` as a whole number of 64 bits, or say which part of an address is not one."""
    number = whole(name, value)
    if number >= 2**64:
        raise ValueError(f"{name} = {number} must lie in [0, 2**64)")
    return number


def real(name: str, number, rule: str = "one real number") -> float:
    """Return one real number as a float (infinite and NaN ones too), or say what is not one."""
    return float(reals(name, number, rule, shape=()))


def reals(name: str, numbers, rule="real numbers", shape: tuple | None = None, kind=float):
    """Return real numbers as float64, or as they are; text, nothing, complex ones are refused."""
    try:
        array = np.asarray(numbers)
    except ValueError:  # lists of different lengths
        raise ValueError(f"{name} = {shown(numbers)} must be {rule}") from None
    if (array.dtype.kind not in "iuf" and array.size) or shape not in (None, array.shape):
        raise ValueError(f"{name} = {shown(numbers)} must be {rule}")
    return array if kind is None else array.astype(kind, copy=False)


def every(name: str, numbers, is_good: Callable, rule: str) -> np.ndarray:
    """Return real numbers that are all good, or say which one breaks the rule: `must ...`."""
    array = reals(name, numbers)
    if not (good := is_good(array)).all():
        raise ValueError(f"{name} = {array[~good].flat[0]} must {rule}")
    return array


def positive(numbers: np.ndarray) -> np.ndarray:
    """Return which numbers are positive and finite."""
    return np.isfinite(numbers) & (numbers > 0)


def not_negative(numbers: np.ndarray) -> np.ndarray:
    """Return which numbers are finite and not negative."""
    return np.isfinite(numbers) & (numbers >= 0)


def per_agent(name: str, numbers, agents: int, is_good: Callable, rule: str) -> np.ndarray:
    """Return one float per agent, all good (`every`), from one number or one per agent."""
    array = every(name, numbers, is_good, rule)
    if array.shape not in ((), (agents,)):
        wanted = f"one number, or one for each of {agents} agents"
        raise ValueError(f"{name} has shape {array.shape}: it must be {wanted}")
    return np.broadcast_to(array, (agents,))


def array(name: str, values, shape: tuple[int, ...] | None = None) -> Any:
    """Return `values` if they are a numpy array of real numbers, of exactly this shape if given."""
    if not isinstance(values, np.ndarray | np.generic) or values.dtype.kind not in "iuf":
        rule = "a numpy array of real numbers" + (f" of shape {shape}" if shape else "")
        raise ValueError(f"{name} = {shown(values)} must be {rule}")
    if shape not in (None, values.shape):
        raise ValueError(f"{name} has shape {values.shape}: it must be {shape}")
    return values


def fit(**arrays) -> tuple[int, ...]:
    """Return the shape of several arrays together, or say which ones are not of one shape."""
    try:
        return np.broadcast(*arrays.values()).shape
    except ValueError:
        shapes = ", ".join(f"{name} of shape {np.shape(array)}" for name, array in arrays.items())
        raise ValueError(f"{shapes} do not fit together: axes must be equal or one") from None


def candidates(name: str, numbers) -> tuple[float, ...]:
    """Return a list of at least one number, or say which argument is none."""
    array = reals(name, numbers, "a list of numbers")
    if array.ndim != 1 or not array.size:
        raise ValueError(f"{name} = {shown(numbers)} must be a list of at least one number")
    return tuple(array.tolist())


def instance(name: str, value, wanted: type) -> Any:
    """Return `value` if it is of the type wanted, or say which argument is not."""
    if not isinstance(value, wanted) or (isinstance(value, str) and wanted is not str):
        rule = KINDS.get(wanted) or f"a {wanted.__module__}.{wanted.__name__}"
        raise ValueError(f"{name} = {shown(value)} must be {rule}")
    return value


def shown(value, most: int = 60) -> str:
    """Return a value as it stands in a sentence: on one line, and short."""
    text = " ".join(repr(value).split())
    return text if len(text) <= most else f"{text[: most - 3]}..."


as_they_are = functools.partial(reals, kind=None)  # a question need not copy many levels
ASKED: dict[Any, Callable[[str, Any], Any]] = {int: whole, float: real, np.ndarray: array}
ASKED |= {inspect.Parameter.empty: as_they_are, Any: lambda name, value: None}


def guard(package: str, rooms: str) -> None:
    """Import modules, and let their public functions and methods ask for what is annotated.

    An argument without annotation is real numbers; those and the numpy arrays of a function fit
    together. `Any` is not asked for anything. Data classes with rules ask in `__post_init__`.
    """
    for module in (importlib.import_module(f"{package}.{room}") for room in rooms.split()):
        for key, value in list(vars(module).items()):
            if key.startswith("_") or getattr(value, "__module__", None) != module.__name__:
                continue
            if not inspect.isclass(value) and hasattr(value, "__annotations__"):
                setattr(module, key, _asking(value))
            for part, method in list(vars(value).items()) if inspect.isclass(value) else ():
                code = method.__code__ if inspect.isfunction(method) else None
                asks = part in ("__init__", "__call__") or not part.startswith("_")
                if asks and code is not None and code.co_filename == module.__file__:
                    setattr(value, part, _asking(method))


def _asking(function: Callable) -> Callable:
    """Return the function behind questions: is each argument what it is annotated to be?"""
    parameters = dict(inspect.signature(function).parameters)
    asked = {name: _question(own.annotation) for name, own in parameters.items() if name != "self"}
    joint = [name for name, ask in asked.items() if ask in (as_they_are, array)]
    optional = {name for name, own in parameters.items() if own.default is None}

    @functools.wraps(function)
    def asking(*given, **named):
        arguments = {**dict(zip(parameters, given, strict=False)), **named}
        for name, value in arguments.items():
            if name in asked and not (value is None and name in optional):
                asked[name](name, value)
        if len(joint) > 1:
            fit(**{name: arguments[name] for name in joint if arguments.get(name) is not None})
        return function(*given, **named)

    return asking


def _question(kind) -> Callable[[str, Any], Any]:
    """Return the function (name, value) that refuses what is not of this kind."""
    origin = get_origin(kind) or kind
    if origin in (Union, UnionType):
        kinds = [(get_origin(part) or part, _question(part)) for part in get_args(kind)]

        def either(name: str, value) -> None:
            fitting = (ask for part, ask in kinds if isinstance(value, part))
            next(fitting, kinds[0][1])(name, value)

        return either
    return ASKED.get(origin) or functools.partial(instance, wanted=origin)


def layout(**rules: str | type) -> Callable[[Callable], Callable]:
    """Return a decorator: the function refuses arrays that do not fit together before it reads one.

        @layout(theta="runs agents dim", labels="runs >=seen", seen=int, lam=float)

    A name stands for one size wherever it occurs, `int` for a whole number that others refer to.
    """

    def guard(function: Callable) -> Callable:
        names = tuple(inspect.signature(function).parameters)
        if set(names) != set(rules):
            raise TypeError(f"{function.__name__}: the layout must name each of {', '.join(names)}")
        looked_at = [k for k, name in enumerate(names) if rules[name] is not float]

        @functools.lru_cache(maxsize=1000, typed=True)  # a loop comes with the same forms again
        def require(*forms):
            _require_layout(
                {names[k]: form for k, form in zip(looked_at, forms, strict=True)}, rules
            )

        @functools.wraps(function)
        def guarded(*given):
            require(*(_form(given[k]) for k in looked_at))
            return function(*given)

        guarded.layout = {name: rules[name] for name in names}  # type: ignore[attr-defined]
        return guarded

    return guard


def _form(value) -> object:
    """Return what decides whether an argument fits: its shape, its number, or its kind."""
    if isinstance(value, np.ndarray):
        return value.shape
    return value if np.isscalar(value) else type(value).__name__


def _require_layout(forms: dict[str, Any], rules: dict) -> None:
    """Refuse the first argument whose form does not fit the others."""
    sizes = {name: whole(name, form) for name, form in forms.items() if rules[name] is int}
    axes = {name: rules[name].split() for name in forms if name not in sizes}
    for name, words in axes.items():
        if not isinstance(forms[name], tuple):
            raise ValueError(f"{name} = {shown(forms[name])} must be a numpy array")
        sizes = dict(zip(words, forms[name], strict=False)) | sizes  # the first one counts
    for name, words in axes.items():
        both = list(zip(words, forms[name], strict=False))
        if len(words) != len(forms[name]) or not all(_fits(*one, sizes) for one in both):
            named = (word.removeprefix(">=") for word in words)
            known = ", ".join(f"{word} = {sizes[word]}" for word in named if word in sizes)
            wanted = f"[{', '.join(words)}], {known}"
            raise ValueError(f"{name} has shape {forms[name]}: it must be {wanted}")


def _fits(word: str, size: int, sizes: dict[str, int]) -> bool:
    """Return whether an axis that is called `runs`, `2` or `>=seen` may have this size."""
    named = word.removeprefix(">=")
    wanted = int(named) if named.isdigit() else sizes[named]
    return size >= wanted if word.startswith(">=") else size == wanted
