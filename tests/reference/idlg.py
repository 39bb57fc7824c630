"""iDLG as its authors wrote it (github.com/PatrickZH/Improved-Deep-Leakage-from-Gradients, file
iDLG.py), for one image.

A literal transcription: plain autograd, `torch.optim.LBFGS` with learning rate one and no line
search, 300 calls of 20 steps, squared distance over all parameters, stop below 1e-6. Only the
random start is an argument, so that it can be compared.
"""

import torch
from torch import nn

LEARNING_RATE, CALLS, CONVERGED = 1.0, 300, 1e-6


def label_of(original_dy_dx):
    """Return the label: the smallest row sum of the last layer's weight gradient."""
    return torch.argmin(torch.sum(original_dy_dx[-2], dim=-1), dim=-1).detach().reshape((1,))


def gradient_of(net, images, labels):
    """Return the list of the parameters' gradients of the loss at some images."""
    loss = nn.CrossEntropyLoss()(net(images), labels)
    return [g.detach().clone() for g in torch.autograd.grad(loss, list(net.parameters()))]


def idlg(net, original_dy_dx, dummy_data, *, calls=CALLS, diverged=float("inf")):
    """Return (image, label, loss, evaluations) from the gradients, starting at `dummy_data [1,
    channels, side, side]`.

    `diverged` is not the authors': a loss above it ends the attack (the original goes on to the
    end).
    """
    criterion, label_pred = nn.CrossEntropyLoss(), label_of(original_dy_dx)
    dummy_data = dummy_data.clone().requires_grad_(True)
    optimizer = torch.optim.LBFGS([dummy_data], lr=LEARNING_RATE)
    evaluations = 0
    for _ in range(calls):

        def closure():
            nonlocal evaluations
            evaluations += 1
            optimizer.zero_grad()
            dummy_loss = criterion(net(dummy_data), label_pred)
            dummy_dy_dx = torch.autograd.grad(dummy_loss, net.parameters(), create_graph=True)
            grad_diff = 0
            for gx, gy in zip(dummy_dy_dx, original_dy_dx, strict=True):
                grad_diff += ((gx - gy) ** 2).sum()
            grad_diff.backward()
            return grad_diff

        optimizer.step(closure)
        current_loss = closure().item()
        if current_loss < CONVERGED or current_loss > diverged or current_loss != current_loss:
            break
    return dummy_data.detach(), label_pred, current_loss, evaluations
