"""A random number is a function of its address, and of nothing else."""

import numpy as np
import pytest

from ldp_core.randomness import Purpose, Uniforms, generator


def test_batch_order_and_horizon_do_not_matter():
    together = Uniforms(7, Purpose.COINS)(range(7), 3, (2, 5, 11))
    for run in (6, 0, 3):
        assert np.array_equal(Uniforms(7, Purpose.COINS)([run], 3, (2, 5, 11))[0], together[run])


def test_uniforms_are_the_generator_at_the_same_address():
    assert np.array_equal(
        Uniforms(7, Purpose.DITHER)([4], 9, (30,))[0],
        generator(7, Purpose.DITHER, 4, t=9).random(30),
    )


def test_one_source_can_be_asked_in_any_order():
    source = Uniforms(1, Purpose.COINS)
    first = source([0], 5, (8,))
    source([3], 2, (100,))
    assert np.array_equal(source([0], 5, (8,)), first)


@pytest.mark.parametrize(
    "other",
    [
        (8, Purpose.COINS, 1, 2),
        (7, Purpose.DATA, 1, 2),
        (7, Purpose.COINS, 2, 2),
        (7, Purpose.COINS, 1, 3),
    ],
)
def test_every_part_of_the_address_counts(other):
    seed, purpose, run, t = other
    assert not np.intersect1d(
        Uniforms(seed, purpose)([run], t, (500,)), Uniforms(7, Purpose.COINS)([1], 2, (500,))
    ).size


def test_coins_have_53_bits():
    uniforms = Uniforms(0, Purpose.COINS)([0], 0, (4096,))[0] * 2.0**53
    assert np.array_equal(uniforms, np.floor(uniforms))
    assert (
        0.45 < (uniforms % 2).mean() < 0.55
    )  # the last bit is random too: false alarm below 1e-9 (6.4 standard deviations)


def test_large_words_keep_all_their_bits():
    seeds = [2**63 + 1, 2**63 + 2, 2**64 - 1, 2**64 - 2]
    assert (
        len({float(generator(seed, Purpose.DATA, run).random()) for seed in seeds for run in seeds})
        == 16
    )


def test_purposes_have_different_numbers():
    assert len({int(purpose) for purpose in Purpose}) == len(Purpose)


@pytest.mark.parametrize(
    ("name", "address"),
    [("seed", (-1, 0)), ("seed", (2**64, 0)), ("run", (0, -1)), ("run", (0, 1.5))],
)
def test_an_address_is_whole_numbers(name, address):
    with pytest.raises(ValueError, match=f"^{name} = "):
        Uniforms(address[0], Purpose.COINS)([address[1]], 0, (1,))
