"""MNIST, from every place it can come from."""

from __future__ import annotations

import gzip
import hashlib
import importlib
import shutil
import socket
import sys
from pathlib import Path

import numpy as np
import pytest

from companion.data import mnist, store
from tests.data import writers
from tests.data.conftest import cached_files


def test_the_shipped_images_are_the_published_test_file():
    for name in ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"):
        packed = (store.SHIPPED / "mnist" / f"{name}.gz").read_bytes()
        assert hashlib.md5(packed).hexdigest() in (store.SHIPPED / "README.md").read_text("utf-8")
        assert hashlib.sha256(gzip.decompress(packed)).hexdigest() == mnist.PUBLISHED[name]
    assert sum(path.stat().st_size for path in (store.SHIPPED / "mnist").iterdir()) < 3_000_000


def test_the_stand_in_has_disjoint_parts_with_every_digit_in_both(caplog):
    digits = mnist.load()
    assert digits.train_images.shape == (8000, 28, 28) and digits.test_images.shape == (
        2000,
        28,
        28,
    )
    assert digits.train_images.dtype == np.uint8 and digits.train_labels.dtype == np.int64
    train, test = (
        {image.tobytes() for image in images}
        for images in (digits.train_images, digits.test_images)
    )
    assert not train & test and len(train | test) == 10000
    for labels in (digits.train_labels, digits.test_labels):
        assert np.bincount(labels, minlength=10).min() > 0.07 * len(labels)
    assert digits.provenance.kind == "embedded" and digits.provenance.caption().startswith(
        "Stand-in data (embedded): MNIST"
    )
    assert caplog.messages == [digits.provenance.line()]


def test_both_halves_of_the_file_are_in_both_parts():
    whole = mnist.embedded()
    packed = gzip.decompress((store.SHIPPED / "mnist" / "t10k-images-idx3-ubyte.gz").read_bytes())
    images = np.frombuffer(packed, np.uint8, offset=16).reshape(-1, 28, 28)
    assert (whole.test_images[:1000] == images[4000:5000]).all() and (
        whole.test_images[1000:] == images[9000:]
    ).all()


def _content(raw, name):
    plain = raw / name
    return (
        plain.read_bytes() if plain.exists() else gzip.decompress((raw / f"{name}.gz").read_bytes())
    )


@pytest.mark.parametrize("packed", [True, False])
def test_what_was_written_is_read_as_torchvision_reads_it(tmp_path, cache, packed, monkeypatch):
    published = writers.mnist_files(tmp_path / "MNIST" / "raw", packed=packed)
    monkeypatch.setattr(mnist, "PUBLISHED", published)
    digits = mnist.read(tmp_path / "MNIST" / "raw", "a test")
    if not packed:
        theirs = mnist.import_torchvision().MNIST(tmp_path, train=True)
        assert (theirs.data.numpy() == digits.train_images).all()
        assert (theirs.targets.numpy() == digits.train_labels).all()
    assert digits.train_images.shape == (30, 28, 28) and digits.test_labels.shape == (15,)
    content = {name: _content(tmp_path / "MNIST" / "raw", name) for name in published}
    assert digits.train_images.tobytes() == content["train-images-idx3-ubyte"][16:]
    assert digits.test_labels.astype(np.uint8).tobytes() == content["t10k-labels-idx1-ubyte"][8:]
    assert not cache.exists()


def test_an_incomplete_folder_is_named_and_left_out(tmp_path, caplog, monkeypatch):
    raw = tmp_path / "named" / "MNIST" / "raw"
    writers.mnist_files(raw)
    (raw / "train-labels-idx1-ubyte.gz").unlink()
    digits = mnist.load(tmp_path / "named")
    assert digits.provenance.kind == "embedded"
    assert "has no train-labels-idx1-ubyte" in caplog.messages[0] and len(caplog.messages) == 2


@pytest.fixture
def small_publication(tmp_path, monkeypatch):
    """Let four small files be what is published, and return the folder that a server would send."""
    published = writers.mnist_files(tmp_path / "server" / "MNIST" / "raw")
    shipped = mnist.embedded()
    monkeypatch.setattr(mnist, "PUBLISHED", published)
    monkeypatch.setattr(mnist, "embedded", lambda: shipped)
    return tmp_path / "server"


def _server(monkeypatch, folder, spoil=lambda raw: None):
    """Replace only the transport: torchvision's own download, check and extraction run on files
    from a folder."""
    datasets = mnist.import_torchvision()
    module = sys.modules[datasets.MNIST.__module__]
    packed = sorted((folder / "MNIST" / "raw").glob("*.gz"))
    resources = [(path.name, hashlib.md5(path.read_bytes()).hexdigest()) for path in packed]
    monkeypatch.setattr(datasets.MNIST, "resources", resources)

    def fetch(url, download_root, filename, md5):
        shutil.copy(folder / "MNIST" / "raw" / filename, download_root)
        spoil(download_root)
        if not importlib.import_module("torchvision.datasets.utils").check_integrity(
            f"{download_root}/{filename}", md5
        ):
            raise RuntimeError("File not found or corrupted.")
        importlib.import_module("torchvision.datasets.utils").extract_archive(
            f"{download_root}/{filename}", download_root
        )

    monkeypatch.setattr(module, "download_and_extract_archive", fetch)


def test_a_download_is_checked_cached_and_found_again(small_publication, monkeypatch, cache):
    _server(monkeypatch, small_publication)
    first = mnist.load(download=True)
    assert first.provenance.kind == "real" and first.provenance.source == "torchvision's download"
    again = mnist.load()
    assert (
        again.provenance.source == "the cache, MNIST/raw"
        and again.provenance.sha256 == first.provenance.sha256
    )
    assert {path.name for path in cached_files(cache)} == set(mnist.PUBLISHED)


def test_nothing_is_downloaded_unasked(small_publication, monkeypatch):
    _server(
        monkeypatch,
        small_publication,
        spoil=lambda raw: pytest.fail("downloaded without being asked"),
    )
    assert mnist.load().provenance.kind == "embedded"


def test_a_broken_download_leaves_nothing_behind(small_publication, monkeypatch, cache, caplog):
    def cut(raw):
        for path in Path(raw).iterdir():
            path.write_bytes(path.read_bytes()[:50])

    _server(monkeypatch, small_publication, spoil=cut)
    assert mnist.load(download=True).provenance.kind == "embedded"
    assert cached_files(cache) == []
    assert "MNIST: not downloaded" in caplog.text


def test_without_a_network_the_stand_in_comes_with_one_line_of_regret(caplog, monkeypatch):
    def unreachable(*_, **__):
        raise OSError("Network is unreachable")

    monkeypatch.setattr(socket, "getaddrinfo", unreachable)
    digits = mnist.load(download=True)
    assert digits.provenance.kind == "embedded"
    assert [line for line in caplog.messages if "MNIST: not downloaded" in line] and len(
        caplog.messages
    ) == 2


@pytest.mark.parametrize(
    "damage", [lambda b: b[:100], lambda b: b[:-1] + b"\x63", lambda b: b"", lambda b: b + b"\0"]
)
def test_a_damaged_cache_is_named_forgotten_and_replaced(
    small_publication, monkeypatch, cache, caplog, damage
):
    _server(monkeypatch, small_publication)
    good = mnist.load(download=True)
    victim = cache / "MNIST" / "raw" / "train-images-idx3-ubyte"
    victim.write_bytes(damage(victim.read_bytes()))
    caplog.clear()
    again = mnist.load(download=True)
    assert (again.train_images == good.train_images).all()
    assert str(victim) in caplog.messages[0] and "not used" in caplog.messages[0]


def test_torchvision_imports_twice_and_refuses_what_it_cannot_do():
    datasets = mnist.import_torchvision()
    assert mnist.import_torchvision() is datasets
    torch = importlib.import_module("torch")
    ops = importlib.import_module("torchvision").ops
    try:
        kept = ops.nms(torch.zeros(1, 4), torch.zeros(1), 0.5)
    except (NotImplementedError, RuntimeError):
        return  # declared, not implemented
    assert kept.tolist() == [0]  # a build whose operators really work
