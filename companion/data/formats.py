"""Whether a file of recordings is whole: the structure of EDF and MATLAB 5 files.

moabb believes any file that has the right name; these look inside before it does.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Literal

from companion.data import store
from companion.data.store import DataError


def check(path: Path, content: bytes) -> None:
    """Raise DataError unless a file is whole; its name tells which of the two formats it has."""
    (check_edf if path.suffix == ".edf" else check_mat)(path, content)


def check_edf(path: Path, content: bytes) -> None:
    """Raise unless an EDF file is as long as its header says (EDF specification: Kemp et al. 1992).

    Bytes 184-191: length of the header, 236-243: number of records, 252-255: number of signals;
    then, after 216 bytes per signal, the number of two-byte samples of each signal in a record.
    """
    try:
        header, records, signals = (
            int(content[184:192]),
            int(content[236:244]),
            int(content[252:256]),
        )
        start = 256 + 216 * signals
        samples = sum(int(content[start + 8 * k : start + 8 * k + 8]) for k in range(signals))
    except ValueError:
        raise DataError(path, "does not start with an EDF header") from None
    expected = header + 2 * records * samples
    if header != 256 * (signals + 1) or records < 1 or len(content) != expected:
        raise DataError(path, f"has {len(content)} bytes, its EDF header says {expected}")


def check_mat(path: Path, content: bytes) -> None:
    """Raise unless a MATLAB 5 file is a chain of whole elements (tag: type and length) and its
    compressed parts are sound."""
    if not content.startswith(b"MATLAB 5.0 MAT-file"):
        raise DataError(path, "does not start with a MATLAB 5 header")
    order: Literal["little", "big"] = "little" if content[126:128] == b"IM" else "big"
    position, compressed = 128, 15
    while position < len(content):
        kind = int.from_bytes(content[position : position + 4], order)
        size = int.from_bytes(content[position + 4 : position + 8], order)
        position += 8
        if position + size > len(content):
            raise DataError(
                path, f"has {len(content)} bytes, its MATLAB elements need {position + size}"
            )
        if kind == compressed:
            try:
                zlib.decompress(content[position : position + size])
            except zlib.error as error:
                raise DataError(
                    path, f"has a damaged MATLAB element ({store.reason(error)})"
                ) from None
        # compressed elements are not padded
        position += size if kind == compressed else size + -size % 8
    if position == 128:
        raise DataError(path, "has a MATLAB 5 header and nothing behind it")
