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
        return merge(self)


@dataclass(frozen=True, eq=False)
class Joint:
    """A few joint attributes that stand for all attributes.

    One table holds theta in its first `dim` entries, then a zero, then sums of two earlier entries
    each, `first[i]` and `second[i]`: a value of two attributes merged, or of two such values. Entry
    `entries[row, g]` is the row's part of group g. A logit is then `groups` look-ups instead of one
    per attribute, and a gradient as many scatter-adds, handed down through the sums. This is exact:
    a logit is a sum over attributes, and rows that agree on all attributes of a group have the same
    partial sum.
    """

    entries: np.ndarray
    first: np.ndarray
    second: np.ndarray


GROUPS = 3  # joint attributes: the engine's inner loops are compiled for this number


def merge(features: OneHot, groups: int = GROUPS) -> Joint:
    """Return `groups` joint attributes, merging the two whose joint values add least to the table.

    On Mushrooms 21 attributes with 116 values become three, by 684 sums. Fewer groups, more sums:
    one would have a sum for every row; six have 266. Sums that share an entry are kept apart: what
    was just written is slow to read.
    """
    columns = features.columns.T
    parts = [Part(column, np.unique(column, return_inverse=True)[1]) for column in columns]
    sums: list[np.ndarray] = [np.empty((0, 2), np.int64)]
    while len(parts) > groups:
        pairs = itertools.combinations(range(len(parts)), 2)
        _, a, b = min((_growth(parts[a], parts[b]), a, b) for a, b in pairs)
        _, examples, values = np.unique(
            _pair(parts[a], parts[b]), return_index=True, return_inverse=True
        )
        known = features.dim + 1 + sum(map(len, sums))
        apart = np.argsort((parts[a].values + parts[b].values)[examples], kind="stable")
        sums.append(np.stack([parts[a].entries, parts[b].entries], axis=1)[examples[apart]])
        rest = [part for i, part in enumerate(parts) if i not in (a, b)]
        parts = [*rest, Part(known + np.argsort(apart)[values], values)]
    nothing = Part(np.full(features.rows, features.dim), np.zeros(features.rows, np.int64))
    parts += [nothing] * (groups - len(parts))
    entries = np.stack([part.entries for part in parts], axis=1)
    smallest = np.min_scalar_type(features.dim + sum(map(len, sums)))  # to stay in the cache
    first, second = np.concatenate(sums).astype(smallest).T
    return Joint(entries.astype(smallest), first.copy(), second.copy())


class Part(NamedTuple):
    """Some attributes: each row's entry, and which of their joint values it has, from zero."""

    entries: np.ndarray
    values: np.ndarray


def _pair(first: Part, second: Part) -> np.ndarray:
    return first.values * (second.values.max() + 1) + second.values


def _growth(first: Part, second: Part) -> int:
    """Return by how many entries the look-ups' table grows when two parts are merged."""
    joint = np.count_nonzero(np.bincount(_pair(first, second)))
    return int(joint) - int(first.values.max() + 1) - int(second.values.max() + 1)
