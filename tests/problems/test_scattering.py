"""Public features: scattering against its definition, group norm, cosines, whitening, strokes."""

import numpy as np
import pytest
import scipy.fft
import torch

from companion.problems import scattering


@pytest.fixture(scope="module")
def pictures():
    return scattering.strokes(60, 1)


def wavelet_in_space(scale, angle):
    """Return a Morlet wavelet [32, 32] as its formula in space gives it, periodic."""
    place = np.arange(-2 * scattering.PADDED, 3 * scattering.PADDED)
    y, x = place[:, None], place[None]
    along, across = np.cos(angle) * x + np.sin(angle) * y, np.cos(angle) * y - np.sin(angle) * x
    width, slant, centre = 0.8 * scale, 4.0 / scattering.ANGLES, 0.75 * np.pi / scale
    bump = np.exp(-(along**2 + slant**2 * across**2) / (2 * width**2))
    wave = bump * np.exp(1j * centre * along)
    wave = wave - bump * wave.sum() / bump.sum()
    folded = wave.reshape(5, scattering.PADDED, 5, scattering.PADDED).sum(axis=(0, 2))
    return folded * slant / (2 * np.pi * width**2)


@pytest.mark.parametrize("scale", [1, 2])
def test_wavelets_are_morlets(scale):
    """The transform of the formula in space; the narrow one is hardly sampled, so 2 % remain."""
    ours = scattering._wavelets(scale).numpy()
    for k in (0, 3):
        theirs = np.fft.fft2(wavelet_in_space(scale, np.pi * k / scattering.ANGLES))
        assert np.abs(ours[k] - theirs).max() < 0.02 * np.abs(ours[k]).max()
        assert abs(ours[k][0, 0]) < 1e-6  # a wavelet has mean zero


def test_maps_are_smoothed_moduli_of_convolutions(pictures):
    """Order one at the coarse scale and order two, put together by hand at full resolution."""
    found = scattering.scattering(torch.tensor(pictures[:3]).float())
    assert found.shape == (3, 81, 7, 7) and found.dtype == torch.float32
    fine, coarse = (scattering._wavelets(scale) for scale in (1, 2))
    padded = np.pad(pictures[:3], ((0, 0), (2, 2), (2, 2)), mode="reflect")
    spectrum = np.fft.fft2(padded)
    large = np.abs(np.fft.ifft2(spectrum * coarse[5].numpy()))[:, ::2, ::2]
    once = np.abs(np.fft.ifft2(spectrum * fine[2].numpy()))
    twice = np.abs(np.fft.ifft2(np.fft.fft2(once) * coarse[6].numpy()))[:, ::2, ::2]
    for number, maps in ((1 + 2, once), (1 + 8 + 5, large), (1 + 16 + 8 * 2 + 6, twice)):
        rows = scattering._smoothing(maps.shape[-1]).numpy()
        np.testing.assert_allclose(found[:, number], rows @ maps @ rows.T, atol=2e-5)


def test_group_norm_makes_every_group_of_every_picture_alike(pictures):
    maps = scattering.scattering(torch.tensor(pictures).float())
    maps = torch.nn.functional.group_norm(maps, scattering.GROUPS)
    groups = maps.unflatten(1, (scattering.GROUPS, -1))
    assert groups.shape[2] == 3 and groups.mean(dim=(2, 3, 4)).abs().max() < 1e-3
    first = groups[:, 0]  # with the picture itself in it, far above the rounding that is added
    assert (first.std(dim=(1, 2, 3), unbiased=False) - 1).abs().max() < 0.05


def test_cosines_of_a_map_are_those_of_scipy(pictures):
    maps = scattering.scattering(torch.tensor(pictures[:2]).float())
    ours = scattering.cosines(maps, 4).view(2, 81, 4, 4).numpy()
    theirs = scipy.fft.dctn(maps.numpy(), axes=(2, 3), norm="ortho")[:, :, :4, :4]
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_strokes_follow_from_their_seed_and_have_ink(pictures):
    assert np.array_equal(pictures[:5], scattering.strokes(60, 1)[:5])
    assert not np.array_equal(pictures, scattering.strokes(60, 2))
    ink = pictures.mean(axis=(1, 2))
    assert pictures.min() >= 0.0 and pictures.max() <= 1.0 and ink.min() > 0.0 and ink.max() < 0.6


def test_features_have_length_one_and_strokes_are_white(monkeypatch):
    monkeypatch.setattr(scattering, "STROKES", 400)
    known = scattering.whitening()
    mean, matrix = (torch.tensor(part) for part in known)
    found = scattering.features(scattering.strokes(5, 3), known)
    assert found.shape == (5, scattering.FEATURES) and found.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, rtol=1e-5)
    white = (
        scattering._raw(torch.tensor(scattering.strokes(400, scattering.PUBLIC)).float()) - mean
    ) @ matrix
    spread = white.square().mean(dim=0)
    assert spread.max() < 1.0 + 1e-3  # one where the covariance is large beside the ridge
    assert spread[-1] > 0.99
