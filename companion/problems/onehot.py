"""Rows of categorical attributes as one-hot vectors, kept as codes: exact, small, and fast to multiply with."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

NORMALISATIONS = (None, "l1", "l2")


@dataclass(frozen=True, eq=False)
class OneHot:
    """`codes [rows, attributes]`: which of its `sizes[j]` values attribute j takes. A row has a 1 per attribute, times `scale`.

    Every row has the same number of ones, so dividing each row by its l1 or l2 norm (`normalise="l1"`, `"l2"`) multiplies all
    of them by the same `scale`, 1 / attributes or 1 / sqrt(attributes).
    """

    codes: np.ndarray
    sizes: tuple[int, ...]
    normalise: str | None = None
    columns: np.ndarray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.normalise not in NORMALISATIONS:
            raise ValueError(f"normalise = {self.normalise!r} must be one of {', '.join(map(repr, NORMALISATIONS))}")
        codes, sizes = np.asarray(self.codes, dtype=np.int64), np.asarray(self.sizes, dtype=np.int64)
        if codes.ndim != 2 or codes.shape[1:] != sizes.shape:
            raise ValueError(f"codes has shape {codes.shape}: it must be [rows, {len(sizes)} attributes], one size each")
        wrong = np.argwhere((codes < 0) | (codes >= sizes))
        if len(wrong):
            row, attribute = wrong[0]
            raise ValueError(
                f"row {row}: code {codes[row, attribute]} of attribute {attribute} must lie in [0, {sizes[attribute]})"
            )
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
    """A few joint attributes that stand for all: entry `entries[row, g]` of one table holds the row's part of group g.

    Table entry e is the sum of theta over `members[starts[e]:starts[e + 1]]`. A logit is then `groups` look-ups instead of one
    per attribute, and a gradient as many scatter-adds, followed by one small projection. This is exact: a logit is a sum over
    attributes, and rows that agree on all attributes of a group have the same partial sum.
    """

    entries: np.ndarray
    starts: np.ndarray
    members: np.ndarray


GROUPS = 6  # joint attributes: the engine's inner loops are compiled for this number


def merge(codes: np.ndarray, columns: np.ndarray, groups: int = GROUPS) -> Joint:
    """Return `groups` joint attributes, merging greedily the two whose joint values add least to the table.

    On Mushrooms 21 attributes with 116 values become six with 157 entries in all. Fewer groups, larger table: three have 363.
    """
    parts = [([j], np.unique(codes[:, j], return_inverse=True)[1]) for j in range(codes.shape[1])]
    while len(parts) > groups:
        _, a, b = min((_growth(parts[a][1], parts[b][1]), a, b) for a, b in itertools.combinations(range(len(parts)), 2))
        merged = (parts[a][0] + parts[b][0], np.unique(_pair(parts[a][1], parts[b][1]), return_inverse=True)[1])
        parts = [part for i, part in enumerate(parts) if i not in (a, b)] + [merged]
    nothing: tuple[list[int], np.ndarray] = ([], np.zeros(len(codes), dtype=np.int64))  # of no attribute: it adds zero
    return _tabulate(parts + [nothing] * (groups - len(parts)), columns)


def _pair(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return first * (second.max() + 1) + second


def _growth(first: np.ndarray, second: np.ndarray) -> int:
    """Return by how many entries the table grows when two attributes are merged."""
    return int(np.count_nonzero(np.bincount(_pair(first, second)))) - int(first.max() + 1) - int(second.max() + 1)


def _tabulate(parts: list, columns: np.ndarray) -> Joint:
    entries, members, starts = [], [], [0]
    for attributes, values in parts:
        entries.append(values + len(starts) - 1)
        _, example_rows = np.unique(values, return_index=True)
        for row in example_rows:
            members.extend(columns[row, attributes])
            starts.append(len(members))
    smallest = np.min_scalar_type(
        len(starts) - 2
    )  # one byte an entry, where that is enough: the table should stay in the cache
    return Joint(np.stack(entries, axis=1).astype(smallest), np.asarray(starts, np.int32), np.asarray(members, np.int32))
