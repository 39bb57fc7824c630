"""Rows of categorical attributes as one-hot vectors, kept as codes: exact, small and fast."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

NORMALISATIONS = (None, "l1", "l2")


@dataclass(frozen=True, eq=False)
class OneHot:
    """`codes [rows, attributes]`: which of its `sizes[j]` values attribute j takes.

    A row has a 1 per attribute, times `scale`. Every row has the same number of ones, so dividing
    each row by its l1 or l2 norm (`normalise="l1"`, `"l2"`) multiplies all of them by the same
    `scale`, 1 / attributes or 1 / sqrt(attributes).
    """

    codes: np.ndarray
    sizes: tuple[int, ...]
    normalise: str | None = None
    columns: np.ndarray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.normalise not in NORMALISATIONS:
            known = ", ".join(map(repr, NORMALISATIONS))
            raise ValueError(f"normalise = {self.normalise!r} must be one of {known}")
        codes = np.asarray(self.codes, dtype=np.int64)
        sizes = np.asarray(self.sizes, dtype=np.int64)
        if codes.ndim != 2 or codes.shape[1:] != sizes.shape:
            rule = f"it must be [rows, {len(sizes)} attributes], one size each"
            raise ValueError(f"codes has shape {codes.shape}: {rule}")
        wrong = np.argwhere((codes < 0) | (codes >= sizes))
        if len(wrong):
            row, attribute = wrong[0]
            code, rule = codes[row, attribute], f"must lie in [0, {sizes[attribute]})"
            raise ValueError(f"row {row}: code {code} of attribute {attribute} {rule}")
        object.__setattr__(self, "codes", codes)
        object.__setattr__(self, "columns", codes + np.concatenate([[0], np.cumsum(sizes)[:-1]]))

    @property
    def rows(self) -> int:
        return len(self.codes)

    @property
    def dim(self) -> int:
        return int(sum(self.sizes))

    @property
    def scale(self) -> float:
        """Return the value of the non-zero entries."""
        ones = self.codes.shape[1]
        return {None: 1.0, "l1": 1.0 / ones, "l2": ones**-0.5}[self.normalise]

    def dense(self, rows=slice(None)) -> np.ndarray:
        """Return the chosen rows as a dense float64 matrix `[..., dim]`."""
        columns = self.columns[rows]
        matrix = np.zeros((*columns.shape[:-1], self.dim))
        np.put_along_axis(matrix, columns, self.scale, axis=-1)
        return matrix

    @cached_property
    def joint(self) -> Joint:
        """Return the attributes merged into a few joint ones (see `merge`), for the engine."""
        return merge(self.codes, self.columns)


@dataclass(frozen=True, eq=False)
class Joint:
    """A few joint attributes that stand for all attributes.

    Entry `entries[row, g]` of one table holds the row's part of group g. Table entry e is the sum
    of theta over `members[starts[e]:starts[e + 1]]`. A logit is then `groups` look-ups instead of
    one per attribute, and a gradient as many scatter-adds, followed by one small projection. This
    is exact: a logit is a sum over attributes, and rows that agree on all attributes of a group
    have the same partial sum.
    """

    entries: np.ndarray
    starts: np.ndarray
    members: np.ndarray


GROUPS = 6  # joint attributes: the engine's inner loops are compiled for this number


def merge(codes: np.ndarray, columns: np.ndarray, groups: int = GROUPS) -> Joint:
    """Return `groups` joint attributes, merging the two whose joint values add least to the table.

    On Mushrooms 21 attributes with 116 values become six with 157 entries in all. Fewer groups,
    larger table: three have 363.
    """
    parts = [Part([j], _numbered(codes[:, j])) for j in range(codes.shape[1])]
    while len(parts) > groups:
        pairs = itertools.combinations(range(len(parts)), 2)
        _, a, b = min((_growth(parts[a], parts[b]), a, b) for a, b in pairs)
        attributes, values = parts[a].attributes + parts[b].attributes, _pair(parts[a], parts[b])
        rest = [part for i, part in enumerate(parts) if i not in (a, b)]
        parts = [*rest, Part(attributes, _numbered(values))]
    nothing = Part([], np.zeros(len(codes), dtype=np.int64))  # of no attribute: it adds zero
    return _tabulate(parts + [nothing] * (groups - len(parts)), columns)


class Part(NamedTuple):
    """Some attributes, and which of their joint values each row has, numbered from zero."""

    attributes: list[int]
    values: np.ndarray


def _numbered(values: np.ndarray) -> np.ndarray:
    return np.unique(values, return_inverse=True)[1]


def _pair(first: Part, second: Part) -> np.ndarray:
    return first.values * (second.values.max() + 1) + second.values


def _growth(first: Part, second: Part) -> int:
    """Return by how many entries the table grows when two parts are merged."""
    joint = np.count_nonzero(np.bincount(_pair(first, second)))
    return int(joint) - int(first.values.max() + 1) - int(second.values.max() + 1)


def _tabulate(parts: list[Part], columns: np.ndarray) -> Joint:
    entries: list[np.ndarray] = []
    members: list[int] = []
    starts = [0]
    for attributes, values in parts:
        entries.append(values + len(starts) - 1)
        _, example_rows = np.unique(values, return_index=True)
        for row in example_rows:
            members.extend(columns[row, attributes])
            starts.append(len(members))
    smallest = np.min_scalar_type(len(starts) - 2)  # a byte where it will do, to stay in the cache
    whole = np.stack(entries, axis=1).astype(smallest)
    return Joint(whole, np.asarray(starts, np.int32), np.asarray(members, np.int32))
