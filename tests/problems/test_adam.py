"""Adam moves as torch's own does, to the last bit."""

from __future__ import annotations

import torch

from companion.problems.adam import Adam


def test_the_steps_are_those_of_torch():
    torch.manual_seed(0)
    own = [torch.randn(3, 4, requires_grad=True), torch.randn(5, requires_grad=True)]
    theirs = [tensor.detach().clone().requires_grad_() for tensor in own]
    reference, adam = torch.optim.Adam(theirs), Adam(own)
    for step in range(50):
        rate = 0.01 / (1 + step)
        reference.param_groups[0]["lr"] = rate
        reference.zero_grad()
        _loss(theirs).backward()
        reference.step()
        adam.descend(_loss(own), rate)
    assert all(map(torch.equal, own, theirs))


def _loss(tensors: list[torch.Tensor]) -> torch.Tensor:
    return sum(tensor.sin().square().sum() for tensor in tensors)  # type: ignore[return-value]
