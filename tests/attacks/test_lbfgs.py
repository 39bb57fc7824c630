"""Batched L-BFGS: it finds minima, every problem for itself, and says how each one ended."""

import pytest
import torch

from companion.attacks.lbfgs import minimise


def rosenbrock(x):
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        values = (100 * (x[:, 1:] - x[:, :-1] ** 2) ** 2 + (1 - x[:, :-1]) ** 2).sum(dim=1)
        (gradients,) = torch.autograd.grad(values.sum(), x)
    return values.detach(), gradients


def starts(problems, dim, dtype=torch.float64):
    return torch.randn(problems, dim, generator=torch.Generator().manual_seed(3), dtype=dtype)


def quadratics(problems=4, dim=12):
    """Return the function of random convex quadratics, and their minimisers."""
    draw = torch.Generator().manual_seed(5)
    root = torch.randn(problems, dim, dim, generator=draw, dtype=torch.float64)
    matrix = root @ root.mT + 0.1 * torch.eye(dim, dtype=torch.float64)
    best = torch.randn(problems, dim, generator=draw, dtype=torch.float64)

    def function(x):
        gradient = (matrix @ (x - best)[..., None])[..., 0]
        return 0.5 * ((x - best) * gradient).sum(dim=1), gradient

    return function, best


def test_quadratics_are_solved():
    function, best = quadratics()
    found = minimise(function, torch.zeros_like(best), steps=200)
    assert (
        torch.allclose(found.x, best, atol=1e-5)
        and found.converged.all()
        and not found.diverged.any()
    )


def test_rosenbrock_ends_at_a_stationary_point_in_float64_and_float32():
    for dtype, tolerance in ((torch.float64, 1e-6), (torch.float32, 1e-1)):
        found = minimise(rosenbrock, starts(4, 4, dtype), steps=200, progress_tolerance=0.0)
        assert rosenbrock(found.x)[1].abs().max() < tolerance
        assert torch.equal(found.value, rosenbrock(found.x)[0])


def test_a_problem_takes_the_same_path_alone_and_in_a_batch():
    start = starts(4, 6)
    for steps in (1, 5, 20):
        together = minimise(rosenbrock, start, steps=steps)
        for row in range(len(start)):
            alone = minimise(rosenbrock, start[row : row + 1], steps=steps)
            assert torch.allclose(alone.x[0], together.x[row], rtol=1e-8, atol=1e-8)
            assert (
                alone.steps[0] == together.steps[row]
                and alone.converged[0] == together.converged[row]
            )


@pytest.mark.parametrize("steps", [1, 4, 10, 20])
def test_without_line_search_it_is_the_optimiser_of_torch(steps):
    """`torch.optim.LBFGS` with learning rate one, from a start where some curvatures are negative,
    makes the same steps."""
    start = 0.3 * starts(1, 6)
    x = start.clone().requires_grad_()
    theirs = torch.optim.LBFGS([x], lr=1, max_iter=steps, max_eval=10 * steps, history_size=100)

    def closure():
        value, x.grad = rosenbrock(x.detach())
        return value[0]

    theirs.step(closure)
    ours = minimise(
        rosenbrock, start, steps=steps, memory=100, line_search=False, progress_tolerance=0.0
    )
    assert torch.allclose(ours.x, x.detach(), rtol=1e-9, atol=1e-9)


def test_values_never_rise_and_steps_are_counted():
    start, last = starts(5, 6), rosenbrock(starts(5, 6))[0]
    for steps in (1, 2, 4, 8, 16):
        found = minimise(rosenbrock, start, steps=steps, evaluations=100 * steps)
        assert (found.value <= last).all() and (found.steps <= steps).all()
        last = found.value
    assert (found.steps == 16).all()


def test_an_unbounded_problem_is_called_diverged_and_leaves_the_others_alone():
    function, best = quadratics(problems=3)

    def with_a_slide(x):
        value, gradient = function(x)
        downhill = torch.zeros_like(value, dtype=torch.bool)
        downhill[1] = True
        return torch.where(downhill, -x.sum(dim=1), value), torch.where(
            downhill[:, None], -torch.ones_like(x), gradient
        )

    found = minimise(with_a_slide, torch.zeros_like(best), steps=200, escape=1e3)
    assert found.diverged.tolist() == [False, True, False] and found.converged.tolist() == [
        True,
        False,
        True,
    ]
    assert torch.allclose(found.x[[0, 2]], best[[0, 2]], atol=1e-5)


def test_values_that_are_not_finite_are_avoided_and_at_the_start_are_divergence():
    def logarithm(x):  # minimum at 1, not defined below 0
        return (x - torch.log(x)).sum(dim=1), 1 - 1 / x

    start = torch.tensor([[0.01, 3.0], [-1.0, 1.0]], dtype=torch.float64)
    found = minimise(logarithm, start, steps=100)
    assert found.diverged.tolist() == [False, True] and found.steps[1] == 0
    assert torch.allclose(found.x[0], torch.ones(2, dtype=torch.float64), atol=1e-6)


def test_narrowing_gives_the_same_and_costs_fewer_rows():
    function, best = quadratics()
    best_of_easy = best.clone()
    best_of_easy[1:] = 0.0  # three problems start at their minimum
    rows_seen = []

    def shifted(rows):
        def narrowed(x):
            full = best.clone()
            full[rows] = x - best_of_easy[rows] + best[rows]
            value, gradient = function(full)
            rows_seen.append(len(x))
            return value[rows], gradient[rows]

        return narrowed

    everything = torch.arange(len(best))
    found = minimise(
        shifted(everything),
        torch.zeros_like(best),
        steps=100,
        narrow=shifted,
    )
    assert torch.allclose(found.x, best_of_easy, atol=1e-5)
    assert rows_seen[0] == 4 and set(rows_seen[2:]) == {1}


def test_it_stops_early_when_all_have_converged():
    calls = []

    def bowl(x):
        calls.append(1)
        return (x**2).sum(dim=1), 2 * x

    minimise(bowl, torch.ones(3, 2, dtype=torch.float64), steps=1000)
    assert len(calls) < 20
