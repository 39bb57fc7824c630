"""A prior learned from images: what it is, and the likeliest image under it in closed form."""

import torch

from companion.attacks import prior
from ldp_core.randomness import Purpose, generator


def images(count=500, pixels=12):
    random = generator(0, Purpose.SYNTHETIC)
    scales = torch.linspace(1.0, 0.05, pixels, dtype=torch.float64)
    return 0.5 + 0.1 * scales * torch.tensor(random.normal(size=(count, pixels)))


def test_components_are_as_long_as_their_standard_deviations():
    found = prior.learn(images(), 12)
    assert torch.allclose(found.mean, images().mean(dim=0))
    assert torch.allclose(found.basis.T @ found.basis, torch.cov(images().T))
    assert (found.basis.norm(dim=1).diff() <= 0).all()


def test_the_likeliest_image_is_ridge_regression():
    """Linear outputs A x with errors of variance 1/precision: u solves (I + B) u = c."""
    known, random = prior.learn(images(), 6), generator(1, Purpose.SYNTHETIC)
    A = torch.tensor(random.normal(size=(4, 12)))
    truth = images()[:3]
    precision = torch.full((3, 4), 400.0, dtype=torch.float64)
    surprise = prior.of_outputs(lambda x: x @ A.T, truth @ A.T, precision)
    painted = prior.paint(surprise, known, 3, 100)
    J = known.basis @ A.T
    system = torch.eye(6, dtype=torch.float64) + 400.0 * J @ J.T
    u = torch.linalg.solve(system, 400.0 * J @ (truth - known.mean).matmul(A.T).T).T
    assert torch.allclose(painted, (known.mean + u @ known.basis).clamp(0, 1), atol=1e-5)


def test_nothing_heard_is_the_mean():
    known = prior.learn(images(), 6)
    silent = prior.of_outputs(lambda x: x, torch.zeros(2, 12), torch.zeros(2, 12))
    assert torch.allclose(prior.paint(silent, known, 2, 20), known.mean.expand(2, -1), atol=1e-6)
