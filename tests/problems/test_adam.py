"""Adam takes the steps of torch's own class, and attacks do not bring torch's compiler along."""

import subprocess
import sys

import torch

from companion.problems.adam import Adam

ATTACK = """
import sys
import torch
from companion.attacks import inversion, matching
from companion.problems.cnn import CNN
from companion.problems.parameters import layout
module = CNN()
told = torch.rand(2, 1, 28, 28), torch.tensor([3, 4])
found = matching.gradients(module, torch.zeros(layout(module).dim), *told)
square = lambda x: ((x - 0.5).square().sum(1), 2 * x - 1)
inversion.signed_adam(square, torch.rand(2, 784), steps=3, rate=0.1, variation=(1e-3, 1e-6))
print([name for name in ("torch._dynamo", "sympy") if name in sys.modules])
"""


def test_the_steps_are_those_of_torch():
    draw = torch.Generator().manual_seed(0)
    start = [torch.randn(shape, generator=draw, dtype=torch.float64) for shape in ((3, 4), (5,))]
    own, theirs = ([one.clone().requires_grad_() for one in start] for _ in range(2))
    reference, adam = torch.optim.Adam(theirs), Adam(own)
    for step in range(50):
        rate = 0.01 / (1 + step)
        reference.param_groups[0]["lr"] = rate
        reference.zero_grad()
        _loss(theirs).backward()
        reference.step()
        adam.descend(_loss(own), rate)
    for mine, other, before in zip(own, theirs, start, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-12, atol=1e-12)
        assert not torch.allclose(mine, before, atol=1e-3)


def test_an_attack_does_not_import_the_compiler():
    said = subprocess.run([sys.executable, "-c", ATTACK], capture_output=True, text=True)
    assert said.stdout == "[]\n", said.stderr[-2000:]


def _loss(tensors: list[torch.Tensor]) -> torch.Tensor:
    return torch.stack([tensor.sin().square().sum() for tensor in tensors]).sum()
