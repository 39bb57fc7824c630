"""MNIST: 60,000 + 10,000 handwritten digits of 28 x 28 pixels, read by torchvision; 10,000 of them
ship with the code.

Source: LeCun, Cortes and Burges, the four idx files; md5 sums as published by torchvision. Licence
CC BY-SA 3.0 (as stated by the Keras documentation of the data set).

The stand-in is the original test file, `t10k`: 10,000 real images in 1.65 MB that anybody can check
against the published md5. It has to serve for training and testing both, so it is cut into 8000 and
2000 images that never mix. Its two halves come from different writers and are not equally hard (a
linear classifier trained on 8000 images of the training file reads 87 % of the first and 93 % of
the second), so the last fifth of either half is kept for testing: both kinds are in both parts.
"""

from __future__ import annotations

import gzip
import importlib
import math
import os
import sys
import tempfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import BinaryIO

import numpy as np

from companion import files
from companion.data import store
from companion.data.store import DataError, Provenance


@dataclass(frozen=True)
class File:
    """One of the four files: its array's shape, the published md5 of its .gz, and the SHA-256 of
    what is inside."""

    shape: tuple[int, ...]
    md5: str
    sha256: str


PUBLISHED: Mapping[str, File] = {
    "train-images-idx3-ubyte": File(
        (60000, 28, 28),
        "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    ),
    "train-labels-idx1-ubyte": File(
        (60000,),
        "d53e105ee54ea40749a09fcbcd1e9432",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    ),
    "t10k-images-idx3-ubyte": File(
        (10000, 28, 28),
        "9fb629c4189551a2d022fa330f9573f3",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    ),
    "t10k-labels-idx1-ubyte": File(
        (10000,),
        "ec29112dd5afa0611ce80d1b7f02629c",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
}
VERSION, LICENCE = "1998", "CC BY-SA 3.0"
UNSIGNED_BYTES = 8  # the idx code of the only element type that MNIST uses


@dataclass(frozen=True, eq=False)
class MNIST:
    """Images uint8 `[n, 28, 28]` and labels int64 `[n]`, for training and for testing."""

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray
    provenance: Provenance

    def __post_init__(self) -> None:
        for array in (self.train_images, self.train_labels, self.test_images, self.test_labels):
            array.setflags(write=False)


def load(
    folder: str | os.PathLike | None = None, *, download: bool = False, stand_in: bool = True
) -> MNIST:
    """Return MNIST from `MNIST/raw` in the named folder, the cache, the download if allowed, or
    else the stand-in.

    Raises DataError when the named folder has a damaged file, and when nothing is found and
    `stand_in` is False.
    """
    digits = (
        _named(store.named_folder(folder)) or _cached() or (_downloaded() if download else None)
    )
    if digits is None:
        if not stand_in:
            raise DataError(
                "MNIST",
                "neither LDP_DATA nor the cache has its four files, and a stand-in was not wanted",
            )
        digits = embedded()
    store.announce(digits.provenance)
    return digits


def embedded(folder: Path = store.SHIPPED / "mnist") -> MNIST:
    """Return the 10,000 images that ship with the code: 8000 for training, 2000 for testing."""
    images, labels = (
        _array(_content(folder, name, PUBLISHED[name]), folder / name, PUBLISHED[name])
        for name in ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
    )
    labels = labels.astype(np.int64)
    half, fifth = len(images) // 2, len(images) // 10
    tested = np.arange(len(images)) % half >= half - fifth
    digests = [
        PUBLISHED[name].sha256 for name in ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
    ]
    part = "10,000 of 70,000 images: the test file, 8000 to train and 2000 to test"
    provenance = Provenance(
        "MNIST",
        "embedded",
        "the file that ships with the code",
        VERSION,
        _fingerprint(digests),
        LICENCE,
        part,
    )
    return MNIST(images[~tested], labels[~tested], images[tested], labels[tested], provenance)


def read(raw: Path, source: str, published: Mapping[str, File] = PUBLISHED) -> MNIST:
    """Return MNIST from a folder with the four files, compressed or not, after checking every one
    of them.

    torchvision reads only uncompressed files and checks nothing, so compressed files are checked
    here and unpacked into the cache first. Where the cache cannot be written they are read from
    memory.
    """
    contents = {name: _content(raw, name, file) for name, file in published.items()}
    arrays = {name: _array(contents[name], raw / name, file) for name, file in published.items()}
    in_place = raw.parts[-2:] == ("MNIST", "raw") and all(
        (raw / name).is_file() for name in published
    )
    plain = raw if in_place else _unpack(contents)
    if plain is not None:
        arrays = _by_torchvision(plain, arrays)
    provenance = Provenance(
        "MNIST",
        "real",
        source,
        VERSION,
        _fingerprint(store.sha256(c) for c in contents.values()),
        LICENCE,
    )
    parts = [
        arrays[f"{part}-{what}"]
        for part in ("train", "t10k")
        for what in ("images-idx3-ubyte", "labels-idx1-ubyte")
    ]
    return MNIST(
        parts[0], parts[1].astype(np.int64), parts[2], parts[3].astype(np.int64), provenance
    )


def import_torchvision() -> ModuleType:
    """Return torchvision's `datasets` module, on CPU-only builds of torch too.

    There, `import torchvision` fails with "operator torchvision::nms does not exist": its compiled
    operators need CUDA libraries, yet stand-ins for them are registered all the same. Declaring the
    two operators' signatures (without an implementation: calling them still fails) lets the import
    through, and reading MNIST needs none of them.
    """
    try:
        return importlib.import_module("torchvision.datasets")
    except RuntimeError as error:
        if "torchvision::nms does not exist" not in str(error):
            raise
    for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
        del sys.modules[name]
    torch = importlib.import_module("torch")
    library = torch.library.Library("torchvision", "FRAGMENT")
    for operator in ("nms", "qnms"):
        library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    datasets = importlib.import_module("torchvision.datasets")
    sys.modules["torchvision"]._declared_operators = library  # type: ignore[attr-defined]
    return datasets


def _named(named: Path | None) -> MNIST | None:
    """Return MNIST from the folder the reader named, if all four files are there."""
    raw = named / "MNIST" / "raw" if named is not None else None
    return read(raw, "LDP_DATA/MNIST/raw") if raw is not None and _complete(raw) else None


def _cached() -> MNIST | None:
    """Return MNIST from the cache if all four files are there and whole."""
    try:
        return read(_cache(), "the cache, MNIST/raw") if _complete(_cache(), quiet=True) else None
    except DataError as error:
        store.forget(error)
        return None


def _downloaded() -> MNIST | None:
    """Return MNIST as torchvision downloads it: into a folder aside, checked, and only then moved
    into the cache."""
    try:
        _cache().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".download-", dir=_cache().parent) as aside:
            import_torchvision().MNIST(aside, download=True)
            for name, file in PUBLISHED.items():
                content = _content(Path(aside) / "MNIST" / "raw", name, file)
                files.write(_cache() / name, partial(_pour, content))
    except (OSError, RuntimeError, DataError) as error:
        store.log.warning("MNIST: not downloaded (%s)", store.reason(error))
        return None
    return read(_cache(), "torchvision's download")


def _cache() -> Path:
    return store.cache_folder() / "MNIST" / "raw"


def _complete(raw: Path, quiet: bool = False) -> bool:
    """Return whether all four files are there.

    A folder with only some of them gets one line of warning.
    """
    missing = [
        name
        for name in PUBLISHED
        if not (store.exists(raw / name) or store.exists(raw / f"{name}.gz"))
    ]
    if missing and not quiet and len(missing) < len(PUBLISHED):
        store.log.warning(
            "%s: has no %s, so its other files are left out", raw, " and no ".join(missing)
        )
    return not missing


def _content(raw: Path, name: str, file: File) -> bytes:
    """Return one file's uncompressed bytes, with the published digest."""
    if store.exists(raw / name):
        content = store.read(raw / name)
        store.check_digest(raw / name, content, file.sha256)
        return content
    path = raw / f"{name}.gz"
    packed = store.read(path)
    store.check_digest(path, packed, file.md5, "md5")
    try:
        return gzip.decompress(packed)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(path, f"is not a whole gzip file ({store.reason(error)})") from None


def _array(content: bytes, path: Path, file: File) -> np.ndarray:
    """Return the array of an idx file: two zero bytes, type, number of dimensions, sizes
    (big-endian), elements."""
    dimensions = len(file.shape)
    header = 4 + 4 * dimensions
    if len(content) < header or content[:4] != bytes([0, 0, UNSIGNED_BYTES, dimensions]):
        raise DataError(
            path,
            f"starts with {content[:4].hex()}, an idx file of {dimensions} dimensions does not",
        )
    shape = tuple(np.frombuffer(content, ">u4", dimensions, offset=4).tolist())
    if shape != file.shape:
        raise DataError(path, f"has shape {shape}, published is {file.shape}")
    if len(content) != header + math.prod(shape):
        raise DataError(
            path, f"has {len(content) - header} elements, shape {shape} needs {math.prod(shape)}"
        )
    array = np.frombuffer(content, np.uint8, offset=header).reshape(shape)
    if dimensions == 1 and array.size and array.max() > 9:
        raise DataError(path, f"has the label {array.max()}, labels are 0 ... 9")
    return array


def _unpack(contents: Mapping[str, bytes]) -> Path | None:
    """Return a cache folder with the four uncompressed files, or None if it cannot be written.

    Only what has the published content goes to the place where MNIST is looked for later.
    """
    official = all(
        store.sha256(content) == PUBLISHED[name].sha256 for name, content in contents.items()
    )
    raw = _cache() if official else store.cache_folder() / "other" / "MNIST" / "raw"
    for name, content in contents.items():
        if not _holds(raw / name, content) and not store.write_cache(
            raw / name, partial(_pour, content)
        ):
            return None
    return raw


def _holds(path: Path, content: bytes) -> bool:
    try:
        return path.read_bytes() == content
    except OSError:
        return False


def _pour(content: bytes, file: BinaryIO) -> None:
    file.write(content)


def _by_torchvision(raw: Path, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the same arrays as torchvision reads them.

    Raises if it reads anything else than was checked.
    """
    read = {}
    for part, train in (("train", True), ("t10k", False)):
        digits = import_torchvision().MNIST(raw.parents[1], train=train, download=False)
        read[f"{part}-images-idx3-ubyte"] = digits.data.numpy()
        read[f"{part}-labels-idx1-ubyte"] = digits.targets.numpy()
    for name, array in arrays.items():
        if not np.array_equal(read[name], array):
            raise DataError(raw / name, "torchvision reads other data than its checked content")
    return read


def _fingerprint(digests) -> str:
    """Return one SHA-256 for several."""
    return store.sha256("\n".join(digests).encode())
