"""UCI Mushroom: 8124 mushrooms, 22 attributes of one letter each, poisonous or edible. All of it
ships with the code.

Source: the UCI Machine Learning Repository (J. Schlimmer, 1987; records drawn from the Audubon
Society Field Guide to North American Mushrooms), file `agaricus-lepiota.data`, CC BY 4.0. The
attribute names and the counts below are those of the repository's own `agaricus-lepiota.names`.

The attribute veil-type has one value only and carries nothing; it is dropped. A missing stalk-root
('?') is a value of its own, so that all 8124 rows are used.
"""

from __future__ import annotations

import gzip
import os
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from companion.data import store
from companion.data.store import DataError, Provenance

ROWS, EDIBLE, POISONOUS, MISSING_ROOTS = 8124, 4208, 3916, 2480
# of agaricus-lepiota.data, as UCI has it
SHA256 = "e65d082030501a3ebcbcd7c9f7c71aa9d28fdfff463bf4cf4716a3fe13ac360e"
LETTERS = 23  # the class and 22 attributes
# fmt: off
ATTRIBUTES = (
    "cap-shape", "cap-surface", "cap-color", "bruises", "odor", "gill-attachment", "gill-spacing",
    "gill-size", "gill-color", "stalk-shape", "stalk-root", "stalk-surface-above-ring",
    "stalk-surface-below-ring", "stalk-color-above-ring", "stalk-color-below-ring", "veil-type",
    "veil-color", "ring-number", "ring-type", "spore-print-color", "population", "habitat",
)
# fmt: on
FILES = (
    "agaricus-lepiota.data",
    "agaricus-lepiota.csv",
    "agaricus-lepiota.data.gz",
    "agaricus-lepiota.csv.gz",
)


@dataclass(frozen=True, eq=False)
class Mushrooms:
    """The data set as whole numbers: row s has value `values[a][codes[s, a]]` of attribute a.

    codes: int64 `[8124, 21]`; sizes: how many values each attribute has (116 in all); labels:
    float64 `[8124]`, +1 poisonous and -1 edible; attributes: their names; values: the letters of
    each attribute in alphabetical order.
    """

    codes: np.ndarray
    sizes: tuple[int, ...]
    labels: np.ndarray
    attributes: tuple[str, ...]
    values: tuple[str, ...]
    provenance: Provenance

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the one-hot columns, such as "odor=n"."""
        return tuple(
            f"{name}={letter}"
            for name, letters in zip(self.attributes, self.values, strict=True)
            for letter in letters
        )


def load(
    folder: str | os.PathLike | None = None, *, download: bool = False, quiet: bool = False
) -> Mushrooms:
    """Return all 8124 mushrooms, from `mushrooms/` in the named folder if it is there, else from
    the shipped file.

    `download` is accepted as for the other data sets and changes nothing: what ships is the whole
    data set already. `quiet` leaves out the line that says where it came from, for workers of a run
    that has said it once.
    """
    named = store.named_folder(folder)
    candidates = [named / "mushrooms" / name for name in FILES] if named is not None else []
    path = next(
        (path for path in candidates if store.exists(path)),
        store.SHIPPED / "mushrooms" / "agaricus-lepiota.data.gz",
    )
    source = (
        f"LDP_DATA/mushrooms/{path.name}"
        if path in candidates
        else "the file that ships with the code, complete"
    )
    mushrooms = read(path, source)
    if not quiet:
        store.announce(mushrooms.provenance)
    return mushrooms


def read(path: Path, source: str) -> Mushrooms:
    """Return the mushrooms of one file: comma-separated, with or without a header, compressed or
    not."""
    table = _table(path)
    labels = np.where(table[:, 0] == "p", 1.0, -1.0)
    _check_counts(path, table, labels)
    constant = [len(np.unique(column)) == 1 for column in table[:, 1:].T]
    kept = [index for index, same in enumerate(constant) if not same]
    values, codes = zip(
        *(np.unique(table[:, 1 + index], return_inverse=True) for index in kept), strict=True
    )
    content = "".join(",".join(row) + "\n" for row in table.tolist()).encode()
    store.check_digest(path, content, SHA256)
    codes = np.stack(codes, axis=1).astype(np.int64)
    for array in (codes, labels):
        array.setflags(write=False)
    return Mushrooms(
        codes=codes,
        sizes=tuple(len(letters) for letters in values),
        labels=labels,
        attributes=tuple(ATTRIBUTES[index] for index in kept),
        values=tuple("".join(letters) for letters in values),
        provenance=Provenance("Mushrooms (UCI)", "real", source, "1987-04-27", SHA256, "CC BY 4.0"),
    )


def _table(path: Path) -> np.ndarray:
    """Return the file's letters, `[rows, 23]`."""
    content = store.read(path)
    if path.suffix == ".gz":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(path, f"is not a whole gzip file ({store.reason(error)})") from None
    try:
        lines = [line.strip() for line in content.decode("ascii").splitlines() if line.strip()]
    except UnicodeDecodeError as error:
        raise DataError(
            path, f"is not a text of letters (byte {error.start} is {content[error.start]:#x})"
        ) from None
    first = 1 if lines and "shape" in lines[0].lower() else 0
    rows = [line.split(",") for line in lines[first:]]
    for number, row in enumerate(rows, start=1 + first):
        if len(row) != LETTERS or any(len(letter) != 1 for letter in row):
            raise DataError(
                path,
                f"line {number} must be {LETTERS} letters between commas, it is "
                f"{','.join(row)[:60]!r}",
            )
    return np.array(rows, dtype="U1").reshape(-1, LETTERS)


def _check_counts(path: Path, table: np.ndarray, labels: np.ndarray) -> None:
    """Raise unless the rows, the two classes and the missing values are as many as published."""
    root = table[:, 1 + ATTRIBUTES.index("stalk-root")]
    found = {
        "rows": (len(table), ROWS),
        "rows of class e or p": (int(np.isin(table[:, 0], ["e", "p"]).sum()), ROWS),
        "poisonous rows": (int((labels > 0).sum()), POISONOUS),
        "edible rows": (int((labels < 0).sum()), EDIBLE),
        "missing stalk-roots": (int((root == "?").sum()), MISSING_ROOTS),
        "missing values in all": (int((table == "?").sum()), MISSING_ROOTS),
    }
    for what, (number, published) in found.items():
        if number != published:
            raise DataError(path, f"has {number} {what}, published are {published}")
