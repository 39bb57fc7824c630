"""MNIST: 60,000 + 10,000 handwritten digits of 28 x 28 pixels; 10,000 of them ship with the code.

Source: LeCun, Cortes and Burges, the four idx files, downloaded by torchvision. Licence CC BY-SA
3.0 (as stated by the Keras documentation of the data set). A file is believed when its content has
the digest of the original.

The stand-in is the original test file, `t10k`: 10,000 real images in 1.65 MB whose published md5
sums anybody can check (data/README.md has them). It has to serve for training and testing both, so
it is cut into 8000 and 2000 images that never mix. Its two halves come from different writers and
are not equally hard (a linear classifier trained on 8000 images of the training file reads 87 % of
the first and 93 % of the second), so the last fifth of either half is kept for testing: both kinds
are in both parts.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np

from companion import files
from companion.data import store
from companion.data.store import DataError, Provenance

PUBLISHED = {  # the SHA-256 of what is inside each file
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
VERSION, LICENCE = "1998", "CC BY-SA 3.0"
TESTED = tuple(PUBLISHED)[2:]  # the two that ship


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


def load(folder: str | os.PathLike | None = None, *, download: bool = False) -> MNIST:
    """Return MNIST from `MNIST/raw` in the named folder, the cache, the download or the stand-in.

    Raises DataError when the named folder has a damaged file.
    """
    digits = _named(store.named_folder(folder)) or _cached() or (download and _downloaded())
    digits = digits or embedded()
    store.announce(digits.provenance)
    return digits


def embedded() -> MNIST:
    """Return the 10,000 images that ship with the code: 8000 for training, 2000 for testing."""
    images, labels = (_array(store.SHIPPED / "mnist", name) for name in TESTED)
    half, fifth = len(images) // 2, len(images) // 10
    tested = np.arange(len(images)) % half >= half - fifth
    part = "10,000 of 70,000 images: the test file, 8000 to train and 2000 to test"
    found = "embedded", "the file that ships with the code", VERSION, _fingerprint(TESTED)
    provenance = Provenance("MNIST", *found, LICENCE, part)
    return MNIST(images[~tested], labels[~tested], images[tested], labels[tested], provenance)


def read(raw: Path, source: str) -> MNIST:
    """Return MNIST from a folder with the four files, packed or not, each checked."""
    digest = _fingerprint(PUBLISHED)
    provenance = Provenance("MNIST", "real", source, VERSION, digest, LICENCE)
    images, labels, test_images, test_labels = (_array(raw, name) for name in PUBLISHED)
    return MNIST(images, labels, test_images, test_labels, provenance)


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
    raw = named and named / "MNIST" / "raw"
    return read(raw, "LDP_DATA/MNIST/raw") if raw and _complete(raw) else None


def _cached() -> MNIST | None:
    """Return MNIST from the cache if all four files are there and whole."""
    try:
        return read(_cache(), "the cache, MNIST/raw") if _complete(_cache(), quiet=True) else None
    except DataError as error:
        store.forget(error)
        return None


def _downloaded() -> MNIST | None:
    """Return MNIST as torchvision downloads it: aside, checked, and only then into the cache."""
    try:
        _cache().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".download-", dir=_cache().parent) as aside:
            import_torchvision().MNIST(aside, download=True)
            raw = Path(aside) / "MNIST" / "raw"
            for name in PUBLISHED:
                files.put(_cache() / name, _content(raw / name, name))
    except (OSError, RuntimeError, DataError) as error:
        store.log.warning("MNIST: not downloaded (%s)", store.reason(error))
        return None
    return read(_cache(), "torchvision's download")


def _cache() -> Path:
    return store.cache_folder() / "MNIST" / "raw"


def _complete(raw: Path, quiet: bool = False) -> bool:
    """Return whether all four files are there; say in one line which are not, if some are."""
    there = {n for n in PUBLISHED if store.exists(raw / n) or store.exists(raw / f"{n}.gz")}
    missing = [name for name in PUBLISHED if name not in there]
    if missing and there and not quiet:
        names = " and no ".join(missing)
        store.log.warning("%s: has no %s, so its other files are left out", raw, names)
    return not missing


def _array(raw: Path, name: str) -> np.ndarray:
    """Return one file's array: behind four bytes and its sizes, images as bytes, labels int64."""
    content = _content(raw / name if store.exists(raw / name) else raw / f"{name}.gz", name)
    shape = np.frombuffer(content, ">i4", content[3], offset=4)
    array = np.frombuffer(content, np.uint8, offset=4 + shape.nbytes).reshape(shape)
    return array if len(shape) > 1 else array.astype(np.int64)


def _content(path: Path, name: str) -> bytes:
    """Return what is inside a file, packed or not, which must be the published one."""
    content = store.read(path)
    store.check_digest(path, content, PUBLISHED[name])
    return content


def _fingerprint(names: Iterable[str]) -> str:
    """Return one SHA-256 for several files."""
    return store.sha256("\n".join(PUBLISHED[name] for name in names).encode())
