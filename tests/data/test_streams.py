"""Which sample reaches whom: reproducible by address, independent of horizon and batch, uniform,
disjoint from the tests."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from companion.data import streams
from ldp_core.randomness import Purpose, generator

ROWS, TEST = 8124, 2000


def test_the_paper_s_split_is_exhaustive_and_disjoint():
    test, train = streams.split(1, 2, 3, ROWS, TEST)
    assert len(test) == 2000 and len(train) == 6124
    assert sorted(np.concatenate([test, train])) == list(range(ROWS))
    assert (test == generator(1, Purpose.SPLIT, 2, agent=3).permutation(ROWS)[:TEST]).all()


def test_another_run_agent_or_seed_is_another_split():
    splits = {
        tuple(streams.split(*address, ROWS, TEST)[0])
        for address in [(1, 2, 3), (2, 2, 3), (1, 3, 3), (1, 2, 4)]
    }
    assert len(splits) == 4


@pytest.mark.parametrize("test", [-1, ROWS, ROWS + 1])
def test_a_split_that_leaves_nothing_to_train_on_is_refused(test):
    with pytest.raises(
        ValueError, match=rf"test = {test} must lie in \[0, rows\) with rows = {ROWS}"
    ):
        streams.split(0, 0, 0, ROWS, test)


def draw(seed, run, agent, t, samples, source):
    """Return the rows of iteration t alone: Philox makes four words from one counter."""
    random = generator(seed, Purpose.DATA, run, agent=agent)
    random.bit_generator.advance(t * samples // 4)
    uniforms = random.random(t * samples % 4 + samples)[t * samples % 4 :]
    return source[(uniforms * len(source)).astype(np.intp)]


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**64 - 1),
    run=st.integers(0, 10**6),
    agent=st.integers(0, 20),
    samples=st.integers(1, 9),
    t=st.integers(0, 60),
)
def test_one_draw_equals_its_place_in_the_stream(seed, run, agent, samples, t):
    source = np.arange(100, 1100)
    whole = streams.stream(seed, run, agent, 61, samples, source)
    assert (draw(seed, run, agent, t, samples, source) == whole[t]).all()


def test_history_does_not_depend_on_the_horizon_or_on_the_batch():
    long, tests = streams.history(9, range(6), 5, 50, 2, ROWS, TEST)
    short, _ = streams.history(9, range(6), 5, 20, 2, ROWS, TEST)
    some, some_tests = streams.history(9, [4, 1], 3, 50, 2, ROWS, TEST)
    assert (short == long[:, :, :20]).all()
    assert (some == long[[4, 1], :3]).all() and (some_tests == tests[[4, 1], :3]).all()
    assert long.shape == (6, 5, 50, 2) and tests.shape == (6, 5, TEST) and long.dtype == np.int16


def test_history_is_made_of_split_and_draw():
    train, test = streams.history(9, [7], 2, 12, 3, ROWS, TEST)
    held_out, source = streams.split(9, 7, 1, ROWS, TEST)
    assert (test[0, 1] == held_out).all()
    for t in range(12):
        assert (train[0, 1, t] == draw(9, 7, 1, t, 3, source)).all()


def test_nobody_trains_on_their_own_test_rows():
    train, test = streams.history(3, range(2), 5, 400, 2, ROWS, TEST)
    for r in range(2):
        for i in range(5):
            assert not np.isin(train[r, i], test[r, i]).any()


def test_draws_are_uniform_over_the_source():
    """Chi-square of 61,240 draws on 6124 rows; false alarm 1e-6, and the seed is fixed."""
    _, source = streams.split(0, 0, 0, ROWS, TEST)
    drawn = streams.stream(0, 0, 0, 30620, 2, source)
    counts = np.bincount(drawn.ravel(), minlength=ROWS)[source]
    assert counts.sum() == 61240
    assert stats.chisquare(counts).pvalue > 1e-6


def test_the_first_and_the_last_row_are_drawn_as_often_as_any():
    """Chi-square of 70,000 draws on seven rows; false alarm 1e-6, and the seed is fixed."""
    source = np.arange(40, 47)
    counts = np.bincount(streams.stream(0, 0, 0, 35000, 2, source).ravel() - 40, minlength=7)
    assert stats.chisquare(counts).pvalue > 1e-6


def test_test_rows_are_uniform_over_the_data():
    """Each row is a test row of 400 agents with probability 2000/8124.

    The largest deviation over rows, false alarm 1e-6.
    """
    counts = np.zeros(ROWS)
    for agent in range(400):
        counts[streams.split(0, 0, agent, ROWS, TEST)[0]] += 1
    share = TEST / ROWS
    allowed = stats.norm.isf(1e-6 / ROWS / 2) * np.sqrt(400 * share * (1 - share))
    assert np.abs(counts - 400 * share).max() < allowed


def test_many_rows_get_a_wider_type():
    train, _ = streams.history(0, range(1), 1, 10, 2, 60000, 100)
    assert train.dtype == np.int32 and train.max() > np.iinfo(np.int16).max


def test_an_empty_source_is_refused():
    with pytest.raises(ValueError, match="source has no rows"):
        streams.stream(0, 0, 0, 1, 2, np.arange(0))


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**9), rows=st.integers(1, 300), agents=st.integers(1, 12))
def test_shares_are_disjoint_exhaustive_and_even(seed, rows, agents):
    shares = streams.shares(seed, 0, rows, agents)
    assert sorted(np.concatenate(shares)) == list(range(rows))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**9), run=st.integers(0, 1000))
def test_folds_deal_eight_subjects_to_five_agents(seed, run):
    subjects = range(1, 10)
    folds = streams.folds(seed, subjects, 5, run)
    assert list(folds) == list(subjects)
    for test, hands in folds.items():
        dealt = [subject for hand in hands for subject in hand]
        assert sorted([*dealt, test]) == list(subjects)
        assert len(hands) == 5 and {len(hand) for hand in hands} == {1, 2}
    assert streams.folds(seed, subjects, 5, run)[4] == folds[4]


def test_who_holds_one_subject_changes_from_fold_to_fold():
    dealt = streams.folds(0, range(1, 10)).values()
    holders = {tuple(len(hand) for hand in hands) for hands in dealt}
    assert len(holders) > 1


@pytest.mark.parametrize(
    ("subjects", "agents", "text"),
    [
        (range(5), 5, "cannot hold one or two each of 4"),
        (range(12), 5, "cannot hold one or two each of 11"),
    ],
)
def test_folds_that_cannot_be_dealt_are_refused(subjects, agents, text):
    with pytest.raises(ValueError, match=text):
        streams.folds(0, subjects, agents)
