"""Similarity of images: hand-worked numbers, and what must hold for every pair."""

import numpy as np
import pytest

from companion.attacks import similarity


def test_hand_worked_errors():
    black, white = np.zeros((2, 28, 28)), np.ones((2, 28, 28))
    assert similarity.mse(black, white).tolist() == [1.0, 1.0] and similarity.psnr(
        black, white
    ).tolist() == [0.0, 0.0]
    assert similarity.psnr(black, black + 0.1) == pytest.approx([20.0, 20.0])
    assert np.isinf(similarity.psnr(black, black)).all()
    c1 = 0.01**2
    # no structure: luminance alone
    assert similarity.ssim(black, white) == pytest.approx(np.full(2, c1 / (1 + c1)))


def test_ssim_is_one_for_equal_images_symmetric_and_small_for_unrelated_ones():
    draw = np.random.default_rng(0)
    a, b = draw.random((2, 4, 28, 28))
    assert similarity.ssim(a, a) == pytest.approx(np.ones(4))
    assert similarity.ssim(a, b) == pytest.approx(similarity.ssim(b, a))
    assert (np.abs(similarity.ssim(a, b)) < 0.2).all()
    assert (similarity.ssim(a, a + 0.01 * b) > 0.9).all()


def test_ssim_of_one_window_is_the_formula():
    """In the middle of a large image, the mean over all windows of a periodic pattern is that of
    the formula for one window."""
    a = np.tile([[0.0, 1.0], [1.0, 0.0]], (20, 20))
    fine = similarity.ssim(a, 1 - a)
    assert -1.0 < fine < -0.9  # anticorrelated structure, equal luminance
