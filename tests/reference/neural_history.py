"""The gradient of Algorithm 1, step a, for a torch module, written out: one agent after the other,
one sample after the other.

Slow on purpose. It shares no code with the project; it is what the project is compared with.
"""

import numpy as np
import torch


def gradients(module, x, y, history, theta, t):
    """grad f_t^i(theta^i) = 1/n sum_{k<n} 1/N sum_s grad loss(theta^i, x_{k,s}^i), n = t + 1;
    all in float64, the loss the cross-entropy.

    history[run][agent][data point][sample] is a row of x and y.
    """
    result = np.zeros_like(theta)
    for run in range(len(theta)):
        for agent in range(len(theta[run])):
            load(module, theta[run, agent])
            points = [history[run, agent, k] for k in range(t + 1)]
            for point in points:
                for row in point:
                    result[run, agent] += (
                        sample_gradient(module, x[row], y[row]) / len(point) / len(points)
                    )
    return result


def sample_gradient(module, image, label):
    """The gradient of one sample's loss with respect to all parameters, one after the other."""
    module.zero_grad()
    torch.nn.functional.cross_entropy(module(image[None]), label[None]).backward()
    return np.concatenate([parameter.grad.numpy().ravel() for parameter in module.parameters()])


def load(module, theta):
    """Write a flat vector into the parameters of a module."""
    start = 0
    with torch.no_grad():
        for parameter in module.parameters():
            stop = start + parameter.numel()
            parameter.copy_(torch.tensor(theta[start:stop]).reshape(parameter.shape))
            start = stop
    assert start == len(theta)
