"""Codes, one-hot rows, and the joint attributes that stand for them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from companion.problems import onehot
from companion.problems.onehot import OneHot


def table(seed):
    rng = np.random.default_rng(seed)
    sizes = tuple(rng.integers(1, 6, rng.integers(1, 10)).tolist())
    return OneHot(
        np.stack([rng.integers(0, size, 40) for size in sizes], axis=1),
        sizes,
        rng.choice(["l1", "l2"]),
    )


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_joint_look_ups_give_the_dense_logits(seed, groups):
    features = table(seed)
    theta = np.random.default_rng(seed + 1).normal(size=features.dim)
    joint = onehot.merge(features, groups)
    partial = [*theta, 0.0]
    for first, second in zip(joint.first, joint.second, strict=True):
        partial.append(partial[first] + partial[second])
    looked_up = np.array(partial)[joint.entries].sum(axis=1)
    assert joint.entries.shape[1] == groups
    assert np.allclose(looked_up * features.scale, features.dense() @ theta, atol=1e-12)


def test_dense_rows_are_one_hot_and_normalised():
    codes = np.array([[0, 2], [1, 0]])
    assert OneHot(codes, (2, 3)).dense().tolist() == [[1, 0, 0, 0, 1], [0, 1, 1, 0, 0]]
    for norm, order in (("l1", 1), ("l2", 2)):
        assert np.allclose(
            np.linalg.norm(OneHot(codes, (2, 3), norm).dense(), ord=order, axis=1), 1.0
        )


@pytest.mark.parametrize(
    ("codes", "sizes", "normalise", "sentence"),
    [
        ([[0, 3]], (2, 3), None, r"row 0: code 3 of attribute 1 must lie in \[0, 3\)"),
        ([[-1, 0]], (2, 3), None, "row 0: code -1 of attribute 0"),
        ([[0]], (2, 3), None, r"codes has shape \(1, 1\)"),
        ([[0, 0]], (2, 3), "max", "normalise = 'max' must be one of"),
    ],
)
def test_bad_tables_are_refused(codes, sizes, normalise, sentence):
    with pytest.raises(ValueError, match=sentence):
        OneHot(np.array(codes), sizes, normalise)
