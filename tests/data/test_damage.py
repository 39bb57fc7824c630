"""Damaged data is refused in one line that names the file and what is wrong, and nothing of it
stays in the cache."""

from __future__ import annotations

import gzip
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from companion.data import eeg, epochs, mnist, mushrooms, store
from companion.data.epochs import CHANNELS
from tests.data import writers
from tests.data.conftest import refused

# Mushrooms: how the bytes of the official file are changed, and what must be said about it.
MUSHROOMS = {
    "empty": (lambda b: b"", "is empty"),
    "blank": (lambda b: b"\n \n", "its sha256 is"),
    "cut inside a row": (lambda b: b[:100_010], "its sha256 is"),
    "a row twice": (lambda b: b + b[:46], "its sha256 is"),
    "one letter changed": (lambda b: b[:2] + b"b" + b[3:], "its sha256 is"),
    "two rows swapped": (lambda b: b[46:92] + b[:46] + b[92:], "its sha256 is"),
    "a comma lost": (lambda b: b[:1] + b[2:], "its sha256 is"),
    "not text": (lambda b: gzip.compress(b), "its sha256 is"),
}


@pytest.mark.parametrize("case", MUSHROOMS)
def test_mushrooms(case, tmp_path, cache):
    damage, problem = MUSHROOMS[case]
    good = gzip.decompress((store.SHIPPED / "mushrooms" / "agaricus-lepiota.data.gz").read_bytes())
    path = tmp_path / "mushrooms" / "agaricus-lepiota.data"
    path.parent.mkdir()
    path.write_bytes(damage(good))
    refused(lambda: mushrooms.load(tmp_path), path, problem, cache)


def test_mushrooms_in_a_cut_gzip_file(tmp_path, cache):
    path = tmp_path / "mushrooms" / "agaricus-lepiota.data.gz"
    path.parent.mkdir()
    path.write_bytes((store.SHIPPED / "mushrooms" / path.name).read_bytes()[:-100])
    refused(lambda: mushrooms.load(tmp_path), path, "is not a whole gzip file", cache)


def test_mushrooms_where_the_file_is_a_folder(tmp_path, cache):
    path = tmp_path / "mushrooms" / "agaricus-lepiota.data"
    path.mkdir(parents=True)
    refused(lambda: mushrooms.load(tmp_path), path, "is a folder, it must be a file", cache)


# MNIST: what happens to the packed file of training labels.
PACKED = {
    "empty": (lambda b: b"", "is empty"),
    "cut": (lambda b: b[:-5], "is not a whole gzip file"),
    "one bit": (lambda b: b[:-9] + bytes([b[-9] ^ 1]) + b[-8:], "is not a whole gzip file"),
    "a web page": (lambda b: b"<html>404</html>", "is not a whole gzip file"),
    "another file": (lambda b: gzip.compress(b), "its sha256 is"),
}


@pytest.mark.parametrize("case", PACKED)
def test_mnist_packed(case, tmp_path, cache, monkeypatch):
    damage, problem = PACKED[case]
    monkeypatch.setattr(mnist, "PUBLISHED", writers.mnist_files(tmp_path))
    path = tmp_path / "train-labels-idx1-ubyte.gz"
    path.write_bytes(damage(path.read_bytes()))
    refused(lambda: mnist.read(tmp_path, "a test"), path, problem, cache)


def test_mnist_plain_with_another_checksum(tmp_path, cache, monkeypatch):
    monkeypatch.setattr(mnist, "PUBLISHED", writers.mnist_files(tmp_path, packed=False))
    path = tmp_path / "t10k-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    refused(lambda: mnist.read(tmp_path, "a test"), path, "its sha256 is", cache)


def test_mnist_where_a_file_is_a_folder(tmp_path, cache, monkeypatch):
    monkeypatch.setattr(mnist, "PUBLISHED", writers.mnist_files(tmp_path, packed=False))
    path = tmp_path / "t10k-images-idx3-ubyte"
    path.unlink()
    path.mkdir()
    refused(lambda: mnist.read(tmp_path, "a test"), path, "is a folder", cache)


# Epochs in our own form: how the arrays of a good file are changed.
def _changed(**changes) -> Callable[[dict], dict]:
    return lambda arrays: {
        name: value for name, value in (arrays | changes).items() if value is not None
    }


def _edited(name: str, edit: Callable[[np.ndarray], np.ndarray]) -> Callable[[dict], dict]:
    return lambda arrays: arrays | {name: edit(arrays[name].copy())}


def _set(array: np.ndarray, place, value) -> np.ndarray:
    array[place] = value
    return array


ARRAYS = {
    "no X": (_changed(X=None), "has no array 'X'; it has "),
    "no y": (_changed(y=None), "has no array 'y'"),
    "no fs": (_changed(fs=None), "has no array 'fs'"),
    "no ch_names": (_changed(ch_names=None), "has no array 'ch_names'"),
    "neither session nor run": (
        _changed(session=None, run=None),
        "has neither an array 'session' nor 'run'",
    ),
    "X with two dimensions": (
        _edited("X", lambda x: x[0]),
        "it must be [trials, channels, samples]",
    ),
    "X a single number": (_changed(X=np.float32(1.0)), "it must be an array of numbers"),
    "X of text": (_changed(X=np.full((8, 22, 50), "a")), "it must be an array of numbers"),
    "X complex": (
        _changed(X=np.ones((8, 22, 50), dtype=complex)),
        "it must be an array of numbers",
    ),
    "no trials": (
        lambda arrays: arrays | {name: arrays[name][:0] for name in ("X", "y", "session", "run")},
        "X has no trials",
    ),
    "no samples": (_edited("X", lambda x: x[..., :0]), "no channels or no samples"),
    "NaN": (
        _edited("X", lambda x: _set(x, (3, 4, 5), np.nan)),
        "X is not finite in trial 3, channel 4",
    ),
    "infinity": (
        _edited("X", lambda x: _set(x, (7, 0, 0), -np.inf)),
        "X is not finite in trial 7, channel 0",
    ),
    "too large for float32": (
        _changed(X=np.full((8, 22, 50), 1e300)),
        "X is not finite in trial 0, channel 0",
    ),
    "a flat channel": (
        _edited("X", lambda x: _set(x, (slice(None), 7), 3.0)),
        "channel C3 is constant in every trial",
    ),
    "y too short": (_edited("y", lambda y: y[:-1]), "y has shape (7,), X has 8 trials"),
    "y with a fraction": (_edited("y", lambda y: y + 0.5), "y must be whole numbers"),
    "y negative": (_edited("y", lambda y: y - 1), "y must be whole numbers from 0"),
    "y beyond the classes": (
        _edited("y", lambda y: y + 1),
        "y has the value 4, but there are 4 classes",
    ),
    "session too long": (_edited("session", lambda s: np.append(s, s)), "session has shape (16,)"),
    "run of text": (_changed(run=np.full(8, "R")), "run must be whole numbers"),
    "another channel name": (
        _edited("ch_names", lambda c: _set(c, 7, "T9")),
        "has no channel C3; its channels are Fz, ",
    ),
    "a channel name twice": (_edited("ch_names", lambda c: _set(c, 7, "C4")), "ch_names = "),
    "a channel name too few": (
        _edited("ch_names", lambda c: c[:-1]),
        "ch_names has 21 names, X has 22 channels",
    ),
    "a class twice": (
        _changed(classes=["a", "a", "b", "c"]),
        "classes = a, a, b, c must be all different",
    ),
    "fs zero": (_changed(fs=0.0), "fs = 0.0 must be positive and finite"),
    "fs NaN": (_changed(fs=np.nan), "fs = nan must be positive and finite"),
    "fs a list": (_changed(fs=[100.0, 100.0]), "only"),
    "whole numbers without a scale": (
        _edited("X", lambda x: (x * 99).astype(np.int16)),
        "there must be a 'scale'",
    ),
    "a negative scale": (
        lambda arrays: arrays | {"X": (arrays["X"] * 99).astype(np.int16), "scale": -1.0},
        "scale = -1.0 must be positive and finite",
    ),
    "a falling band": (_changed(band=[30.0, 8.0]), "band = (30.0, 8.0) must be two rising numbers"),
    "a window of three": (
        _changed(window=[0.0, 1.0, 2.0]),
        "window = (0.0, 1.0, 2.0) must be two rising numbers",
    ),
    "content changed under its digest": (_edited("X", lambda x: x * 2), "but it says"),
}


@pytest.mark.parametrize("case", ARRAYS)
def test_epochs_content(case, tmp_path, cache):
    damage, problem = ARRAYS[case]
    path = tmp_path / "bnci2014_001" / "A01.npz"
    epochs.write(path, writers.epochs())
    with np.load(path) as good:
        arrays = damage(dict(good))
    if "digest" not in case:
        arrays.pop("sha256")
    np.savez(path, **arrays)
    refused(lambda: eeg.load(subjects=[1], folder=tmp_path), path, problem, cache)


FILES = {
    "empty": (lambda b: b"", "is empty"),
    "cut at the end": (lambda b: b[:-30], "is not a whole .npz file"),
    "cut in the middle": (lambda b: b[: len(b) // 2], "is not a whole .npz file"),
    "only its beginning": (lambda b: b[:4], "is not a whole .npz file"),
    "one bit of the signal": (
        lambda b: b[:20000] + bytes([b[20000] ^ 1]) + b[20001:],
        "Bad CRC-32",
    ),
    "a pickle under this name": (lambda b: pickle.dumps({"X": 1}), "is not a whole .npz file"),
    "a web page": (lambda b: b"<html>moved</html>", "is not a whole .npz file"),
}


@pytest.mark.parametrize("case", FILES)
def test_epochs_file(case, tmp_path, cache):
    damage, problem = FILES[case]
    path = tmp_path / "bnci2014_001" / "A01.npz"
    epochs.write(path, writers.epochs())
    path.write_bytes(damage(path.read_bytes()))
    refused(lambda: eeg.load(subjects=[1], folder=tmp_path), path, problem, cache)


class _Bomb:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return (Path.write_text, (self.path, "exploded"))


@pytest.mark.parametrize("name", ["X", "y", "something_else"])
def test_a_pickle_inside_is_refused_and_never_opened(name, tmp_path, cache):
    path, crater = tmp_path / "bnci2014_001" / "A01.npz", tmp_path / "crater"
    epochs.write(path, writers.epochs())
    with np.load(path) as good:
        arrays = dict(good)
    bomb = np.empty(1, dtype=object)
    bomb[0] = _Bomb(crater)
    np.savez(path, **(arrays | {name: bomb}))
    refused(
        lambda: eeg.load(subjects=[1], folder=tmp_path),
        path,
        "Object arrays cannot be loaded when allow_pickle=False",
        cache,
    )
    assert not crater.exists()
    with np.load(path, allow_pickle=True) as careless:
        careless[name]
    assert crater.exists()  # the bomb is real: opened, it goes off


def test_a_header_that_lies_about_the_shape(tmp_path, cache):
    shape = "(8, 22, 99999999999)"
    path = tmp_path / "bnci2014_001" / "A01.npz"
    epochs.write(path, writers.epochs())
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    members["X.npy"] = (
        b"\x93NUMPY\x01\x00"
        + len(header).to_bytes(2, "little")
        + header.encode()
        + members["X.npy"][128:]
    )
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    refused(
        lambda: eeg.load(subjects=[1], folder=tmp_path), path, "is not a whole .npz file", cache
    )


def test_epochs_where_the_file_is_a_folder(tmp_path, cache):
    path = tmp_path / "bnci2014_001" / "A01.npz"
    path.mkdir(parents=True)
    refused(
        lambda: eeg.load(subjects=[1], folder=tmp_path),
        path,
        "is a folder, it must be a file",
        cache,
    )


def test_a_folder_without_any_file(tmp_path, cache):
    refused(lambda: eeg.read_folder(tmp_path, [1]), tmp_path, "has no .npz file", cache)


UNPRIVILEGED = """
import os, sys
from pathlib import Path
from companion.data import eeg, mushrooms, store

if os.geteuid() == 0:  # chmod does not stop root
    os.setuid(65534)
folder = lambda path: eeg.read_folder(path, [1])
{"file": store.read, "mushrooms": mushrooms.load, "folder": folder}[sys.argv[1]](Path(sys.argv[2]))
"""


@pytest.mark.parametrize(
    ("action", "place", "locked"),
    [
        ("file", "A01.npz", "A01.npz"),
        ("mushrooms", ".", "mushrooms"),
        ("folder", "epochs", "epochs"),
    ],
)
def test_no_permission(action, place, locked):
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        epochs.write(Path(folder) / "A01.npz", writers.epochs())
        for name in ("mushrooms", "epochs"):
            (Path(folder) / name).mkdir()
        shutil.copy(
            store.SHIPPED / "mushrooms" / "agaricus-lepiota.data.gz", Path(folder) / "mushrooms"
        )
        read = [sys.executable, "-c", UNPRIVILEGED, action, str(Path(folder) / place)]
        before = subprocess.run(read, capture_output=True, text=True)
        assert "Permission denied" not in before.stderr
        (Path(folder) / locked).chmod(0o000)
        line = subprocess.run(read, capture_output=True, text=True).stderr.splitlines()[-1]
        (Path(folder) / locked).chmod(0o755)
        assert (
            "DataError: " in line
            and str(Path(folder) / locked) in line
            and line.endswith("cannot be read (Permission denied)")
        )


def test_no_permission_whoever_runs_the_test(tmp_path, monkeypatch, cache):
    path = tmp_path / "bnci2014_001" / "A01.npz"
    epochs.write(path, writers.epochs())

    def denied(self):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "read_bytes", denied)
    refused(
        lambda: eeg.load(subjects=[1], folder=tmp_path),
        path,
        "cannot be read (Permission denied)",
        cache,
    )


def test_channel_names_of_the_good_file_are_as_expected():
    """The damage above relies on place 7 being C3."""
    assert CHANNELS[7] == "C3" and CHANNELS[11] == "C4"
