"""UCI Mushroom: 8124 mushrooms, 22 attributes of one letter each. All of it ships with the code.

Source: the UCI Machine Learning Repository (J. Schlimmer, 1987; records drawn from the Audubon
Society Field Guide to North American Mushrooms), file `agaricus-lepiota.data`, CC BY 4.0.

The attribute veil-type has one value only and carries nothing; it is dropped. A missing stalk-root
('?') is a value of its own, so that all 8124 rows are used.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from companion.data import store
from companion.data.store import Provenance

ROWS = 8124
# of agaricus-lepiota.data, as UCI has it
SHA256 = "e65d082030501a3ebcbcd7c9f7c71aa9d28fdfff463bf4cf4716a3fe13ac360e"
FILES = tuple(f"agaricus-lepiota.{kind}" for kind in ("data", "csv", "data.gz", "csv.gz"))


@dataclass(frozen=True, eq=False)
class Mushrooms:
    """The data set as whole numbers: row s has the letter number `codes[s, a]` of attribute a.

    codes: int64 `[8124, 21]`, of letters in alphabetical order; sizes: how many letters each
    attribute has (116 in all); labels: float64 `[8124]`, +1 poisonous and -1 edible.
    """

    codes: np.ndarray
    sizes: tuple[int, ...]
    labels: np.ndarray
    provenance: Provenance


def load(folder: str | os.PathLike | None = None, *, quiet: bool = False) -> Mushrooms:
    """Return all mushrooms, from `mushrooms/` in the named folder, else from the shipped file.

    `quiet` leaves out the line that says where they came from, for workers of a run that has said
    it once.
    """
    named = store.named_folder(folder)
    there = [named / "mushrooms" / name for name in FILES] if named is not None else []
    path = next(filter(store.exists, there), None)
    if path is None:
        path = store.SHIPPED / "mushrooms" / "agaricus-lepiota.data.gz"
        mushrooms = read(path, "the file that ships with the code, complete")
    else:
        mushrooms = read(path, f"LDP_DATA/mushrooms/{path.name}")
    if not quiet:
        store.announce(mushrooms.provenance)
    return mushrooms


def read(path: Path, source: str) -> Mushrooms:
    """Return the mushrooms of one file: comma-separated, with or without a header, packed or not.

    Its rows must have the published digest: then all that is published about them is true.
    """
    table = _table(path)
    pairs = (np.unique(column, return_inverse=True) for column in table[:, 1:].T)
    sizes, numbers = zip(*((len(u), inverse) for u, inverse in pairs if len(u) > 1), strict=True)
    codes, labels = np.stack(numbers, axis=1), np.where(table[:, 0] == "p", 1.0, -1.0)
    for array in (codes, labels):
        array.setflags(write=False)
    facts = "real", source, "1987-04-27", SHA256, "CC BY 4.0"
    return Mushrooms(codes, sizes, labels, Provenance("Mushrooms (UCI)", *facts))


def _table(path: Path) -> np.ndarray:
    """Return the file's letters, `[rows, 23]`: the class and 22 attributes."""
    lines = [line.strip() for line in store.read(path).decode("ascii", "replace").splitlines()]
    rows = [line for line in lines if line and "shape" not in line.lower()]  # which a header has
    store.check_digest(path, "".join(f"{row}\n" for row in rows).encode(), SHA256)
    return np.array([row.split(",") for row in rows])
