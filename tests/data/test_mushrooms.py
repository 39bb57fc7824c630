"""The mushrooms that ship are UCI's, to the byte, and their columns mean what they say."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import json
import math

import numpy as np
import pytest

from companion.data import mushrooms, store
from companion.problems.onehot import OneHot


@pytest.fixture
def data() -> mushrooms.Mushrooms:
    return mushrooms.load()


def test_published_counts(data):
    assert data.codes.shape == (8124, 21)
    assert (data.labels > 0).sum() == 3916 and (data.labels < 0).sum() == 4208
    root = 10  # stalk-root, whose first letter is ?
    assert (data.codes[:, root] == 0).sum() == 2480
    assert sum(data.sizes) == 116
    assert len(np.unique(data.codes, axis=0)) == 8124


def test_the_shipped_file_is_the_official_one():
    content = gzip.decompress(
        (store.SHIPPED / "mushrooms" / "agaricus-lepiota.data.gz").read_bytes()
    )
    assert hashlib.sha256(content).hexdigest() == mushrooms.SHA256
    assert content.splitlines()[0] == b"p,x,s,n,t,p,f,c,n,k,e,e,s,s,w,w,p,w,o,p,k,s,u"


def test_codes_decode_to_the_file_without_its_constant_column(data):
    path = store.SHIPPED / "mushrooms" / "agaricus-lepiota.data.gz"
    lines = gzip.decompress(path.read_bytes()).decode().split()
    table = np.array([line.split(",") for line in lines])
    letters = np.delete(table[:, 1:], 15, axis=1)  # veil-type
    for column, codes, size in zip(letters.T, data.codes.T, data.sizes, strict=True):
        known = sorted(set(column))
        assert size == len(known) >= 2 and (np.array(known)[codes] == column).all()
    assert (data.labels == np.where(table[:, 0] == "p", 1.0, -1.0)).all()


def test_no_odor_is_mostly_edible(data):
    """Of the 3528 mushrooms without odor, 120 are poisonous (the rule of Duch et al. in UCI's own
    description)."""
    odorless = data.codes[:, 4] == "acflmnpsy".index("n")
    assert odorless.sum() == 3528 and (data.labels[odorless] > 0).sum() == 120


@pytest.mark.parametrize(
    ("normalise", "norm"), [(None, 21.0), ("l1", 1.0), ("l2", math.sqrt(21.0))]
)
def test_one_hot(data, normalise, norm):
    rows = OneHot(data.codes, data.sizes, normalise).dense()
    assert rows.shape == (8124, 116) and rows.dtype == np.float64
    assert ((rows > 0).sum(axis=1) == 21).all()
    np.testing.assert_allclose(rows.sum(axis=1), norm, rtol=1e-14)
    if normalise == "l2":
        np.testing.assert_allclose((rows**2).sum(axis=1), 1.0, rtol=1e-14)
    assert (rows.std(axis=0) > 0).all()  # no constant column is left
    start = np.concatenate([[0], np.cumsum(data.sizes)])
    for a, size in enumerate(data.sizes):
        assert (rows[:, start[a] : start[a] + size].argmax(axis=1) == data.codes[:, a]).all()


@pytest.mark.parametrize("name", mushrooms.FILES)
def test_every_spelling_of_the_file_gives_the_same_data(data, name, tmp_path, monkeypatch):
    content = gzip.decompress(
        (store.SHIPPED / "mushrooms" / "agaricus-lepiota.data.gz").read_bytes()
    )
    if ".csv" in name:
        content = b"class,cap-shape,cap-surface\n" + content.replace(b"\n", b"\r\n")
    (tmp_path / "mushrooms").mkdir()
    (tmp_path / "mushrooms" / name).write_bytes(
        gzip.compress(content) if name.endswith(".gz") else content
    )
    monkeypatch.setenv("LDP_DATA", str(tmp_path))
    other = mushrooms.load()
    assert (other.codes == data.codes).all() and (other.labels == data.labels).all()
    assert other.provenance.sha256 == data.provenance.sha256
    assert other.provenance.source == f"LDP_DATA/mushrooms/{name}"


def test_provenance_goes_into_json_and_names_no_folder_of_this_machine(data, tmp_path):
    record = json.loads(json.dumps(dataclasses.asdict(data.provenance)))
    assert record["kind"] == "real" and record["licence"] == "CC BY 4.0"
    assert str(store.SHIPPED) not in json.dumps(record)


def test_arrays_cannot_be_changed_by_accident(data):
    with pytest.raises(ValueError, match="read-only"):
        data.codes[0, 0] = 1
