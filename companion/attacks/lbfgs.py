"""L-BFGS for many problems at once, each with its own state (Nocedal and Wright 2006, alg. 7.4).

    found = minimise(function, start, steps=300)

Every call of `function` serves all problems: one may try a new direction with it while another
shortens its step. A problem keeps its own pairs (s, y), step length and reasons to stop, so its
path is the same whatever is computed beside it, up to rounding. A step is accepted when it lowers
the value enough (Armijo), so values never rise.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch

# x [problems, dim] -> values, gradients, row by row
Function = Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
ARMIJO = 1e-4  # the share of the predicted decrease that a step must achieve
SHORTEST, LONGEST = 0.1, 0.5  # a rejected step is shortened to between a tenth and a half of itself
MOST_CUTS = 20  # rejections in a row before a direction is given up
FLAT = 1e-7  # the largest |gradient| at a minimum
CURVATURE = 1e-10  # a pair counts when s . y exceeds this share of |s| |y|: curvature is positive


def minimise(
    function: Function,
    start: torch.Tensor,
    *,
    steps: int,
    memory: int = 20,
    evaluations: int | None = None,
    progress_tolerance: float = 1e-7,
    target: float = -float("inf"),
    escape: float = float("inf"),
    narrow: Callable[[torch.Tensor], Function] | None = None,
    line_search: bool = True,
) -> Problems:
    """Return a local minimum of every problem from start `[problems, dim]`, in at most `steps`.

    `evaluations` limits the calls of `function` (default: twice the steps). A problem stops when
    max |gradient| <= FLAT, when ten steps in a row lowered its value by less than
    progress_tolerance of it each, when its value is at most `target`, or when it diverges. The loop
    ends as soon as all have stopped. `narrow(rows)` returns the function of these problems alone:
    with it, problems that have stopped cost nothing. `line_search=False` accepts every step, as
    `torch.optim.LBFGS` with learning rate one does: values may then rise, and some problems
    diverge.
    """
    limits = progress_tolerance, target, escape
    problems = Problems(start, *function(start), memory, *limits, line_search)
    narrowed, served = function, len(start)
    for _ in range((2 * steps if evaluations is None else evaluations) - 1):
        rows = problems.open(steps)
        if not len(rows):
            break
        if len(rows) < served:
            served = len(rows)
            problems.keep(rows)
            narrowed = narrow(rows) if narrow else function
        if narrow is None:
            value, gradient = (result[rows] for result in function(problems.trial()))
        else:
            value, gradient = narrowed(problems.trial()[rows])
        problems.answer(rows, value, gradient)
    return problems


class Problems:
    """The states of all problems: the best point x `[problems, dim]`, its value, steps, its end.

    `converged`: the gradient or the progress fell below its tolerance, or no lower point could be
    found along the steepest descent (the precision of the numbers is exhausted). `diverged`: the
    value or the gradient is not finite, or x has left the ball |x_j| <= escape. Neither: the steps
    or the evaluations were used up.

    Pairs are lists of `[kept, dim]`, newest first, of the problems that go on; rho = 0 marks none.
    """

    def __init__(
        self, start, value, gradient, memory, progress_tolerance, target, escape, line_search
    ):
        count = len(start)
        self.x, self.value, self.gradient = start.clone(), value.clone(), gradient.clone()
        self.direction = torch.zeros_like(start)
        self.slope, self.length = start.new_zeros(count), start.new_zeros(count)
        self.s, self.y = ([torch.zeros_like(start)] for _ in range(2))
        self.rho, self.memory = [start.new_zeros(count, 1)], memory
        self.steps, self.cuts, self.slow = (torch.zeros(count, dtype=torch.long) for _ in range(3))
        self.converged, self.diverged = (torch.zeros(count, dtype=torch.bool) for _ in range(2))
        self.progress_tolerance, self.target = progress_tolerance, target
        self.escape, self.line_search = escape, line_search
        self.kept = torch.arange(count)
        self._judge(self.kept)
        self._aim(self.kept)

    def open(self, steps: int) -> torch.Tensor:
        return torch.nonzero(~self.converged & ~self.diverged & (self.steps < steps)).flatten()

    def keep(self, rows: torch.Tensor) -> None:
        """Forget the pairs of all problems but `rows`."""
        places, self.kept = self._places(rows), rows
        for pairs in (self.s, self.y, self.rho):
            pairs[:] = [part[places] for part in pairs]

    def _places(self, rows: torch.Tensor) -> torch.Tensor:
        """Return where in the pairs problems are."""
        return torch.searchsorted(self.kept, rows)

    def trial(self) -> torch.Tensor:
        return self.x + self.length[:, None] * self.direction

    def answer(self, rows: torch.Tensor, value: torch.Tensor, gradient: torch.Tensor) -> None:
        """Accept trial points of `rows` that are low enough, and shorten the others' steps."""
        limit = self.value[rows] + ARMIJO * self.length[rows] * self.slope[rows]
        low = (value <= limit) & torch.isfinite(gradient).all(dim=1) | (not self.line_search)
        self._accept(rows[low], value[low], gradient[low])
        self._shorten(rows[~low], value[~low])

    def _accept(self, rows: torch.Tensor, value: torch.Tensor, gradient: torch.Tensor) -> None:
        if not len(rows):
            return
        s = self.length[rows, None] * self.direction[rows]
        self._remember(rows, s, gradient - self.gradient[rows])
        before = self.value[rows]
        crawling = (before - value).abs() <= self.progress_tolerance * before.abs()
        self.slow[rows] = torch.where(crawling, self.slow[rows] + 1, 0)
        self.x[rows] += s
        self.value[rows], self.gradient[rows] = value, gradient
        self.steps[rows] += 1
        self.cuts[rows] = 0
        self._judge(rows)
        self._aim(rows)

    def _remember(self, rows: torch.Tensor, s: torch.Tensor, y: torch.Tensor) -> None:
        curvature = (s * y).sum(dim=1)
        good = curvature > CURVATURE * s.norm(dim=1) * y.norm(dim=1)
        places, waiting = self._places(rows[good]), torch.ones(len(self.kept), dtype=torch.bool)
        waiting[places] = False
        others = torch.nonzero(waiting).flatten()  # few: their pairs move back to where they were
        for pairs, new in (
            (self.s, s[good]),
            (self.y, y[good]),
            (self.rho, 1.0 / curvature[good, None]),
        ):
            full = len(pairs) == self.memory
            pairs.insert(0, pairs.pop() if full else torch.zeros_like(pairs[0]))
            last = pairs[0][others]
            pairs[0][places] = new
            for newer, older in pairwise(pairs if len(others) else ()):
                newer[others] = older[others]
            pairs[-1][others] = last

    def _judge(self, rows: torch.Tensor) -> None:
        """Mark the rows whose present point is an end."""
        value, gradient, x = self.value[rows], self.gradient[rows], self.x[rows]
        finite = torch.isfinite(value) & torch.isfinite(gradient).all(dim=1)
        self.diverged[rows] = ~finite | (x.abs().amax(dim=1) > self.escape)
        flat = gradient.abs().amax(dim=1) <= FLAT
        flat |= (self.slow[rows] >= 10) | (value <= self.target)
        self.converged[rows] = flat & ~self.diverged[rows]

    def _aim(self, rows: torch.Tensor) -> None:
        """Set direction, slope and first step of `rows` by their pairs: the two-loop recursion."""
        if not len(rows):
            return
        s, y, rho, gradient = self.s, self.y, self.rho, self.gradient[self.kept]
        q, alphas = gradient.clone(), []
        for k in range(len(rho)):
            alphas.append(rho[k] * (s[k] * q).sum(dim=1, keepdim=True))
            q -= alphas[k] * y[k]
        young = rho[0] == 0
        q *= torch.where(young, 1.0, 1.0 / (rho[0] * (y[0] * y[0]).sum(dim=1, keepdim=True)))
        for k in reversed(range(len(rho))):
            beta = rho[k] * (y[k] * q).sum(dim=1, keepdim=True)
            q += (alphas[k] - beta) * s[k]
        places = self._places(rows)
        q, gradient, young = (part[places] for part in (q, gradient, young[:, 0]))
        slope = -(gradient * q).sum(dim=1)
        self.direction[rows], self.slope[rows] = -q, slope
        first = (1.0 / gradient.abs().sum(dim=1)).clamp(max=1.0)
        fresh = (self.steps[rows] == 0) | (self.cuts[rows] >= MOST_CUTS)
        longer = 2.0 * self.length[rows] if self.line_search else torch.ones_like(first)
        uncurved = torch.where(fresh, first, longer)  # try more while it is downhill
        self.length[rows] = torch.where(young, uncurved, torch.ones_like(slope))

    def _shorten(self, rows: torch.Tensor, value: torch.Tensor) -> None:
        """Shorten steps by quadratic interpolation; after MOST_CUTS forget pairs, then give up."""
        if not len(rows):
            return
        length, slope = self.length[rows], self.slope[rows]
        best = -slope * length**2 / (2.0 * (value - self.value[rows] - slope * length))
        best = torch.where(torch.isfinite(best), best, SHORTEST * length)
        self.length[rows] = torch.minimum(torch.maximum(best, SHORTEST * length), LONGEST * length)
        self.cuts[rows] += 1
        tired = rows[self.cuts[rows] >= MOST_CUTS]
        hopeless = self.rho[0][self._places(tired), 0] == 0
        self.converged[tired[hopeless]] = True
        again = tired[~hopeless]
        for rho in self.rho:
            rho[self._places(again)] = 0.0
        self._aim(again)
        self.cuts[again] = 0
