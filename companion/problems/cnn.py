"""The paper's convolutional network for MNIST (section 4.2)."""

from __future__ import annotations

import torch
from torch import nn

ACTIVATIONS = {
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "elu": nn.functional.elu,
}


class CNN(nn.Module):
    """Four 3x3 convolutions (32, 32, 64, 64 filters), each with activation and 2x2 max pooling; 256
    dense units; ten outputs.

    The paper gives filters, pooling and dense units. Kernel 3x3 with padding 1, the activation and
    its place, and the output layer are ours. The sides of the image are 28 -> 14 -> 7 -> 3 -> 1;
    there are 84,202 parameters.

    The activations are increasing functions, so the activation of the largest input is the largest
    activation: they are applied after the pooling instead of before it, to a quarter of the numbers
    and with the same result.
    """

    def __init__(self, activation: str = "relu"):
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation = {activation!r} must be one of {', '.join(ACTIVATIONS)}")
        self.activation = activation
        self.conv1 = nn.Conv2d(1, 32, 3, padding=1)
        self.conv2 = nn.Conv2d(32, 32, 3, padding=1)
        self.conv3 = nn.Conv2d(32, 64, 3, padding=1)
        self.conv4 = nn.Conv2d(64, 64, 3, padding=1)
        self.dense = nn.Linear(64, 256)
        self.output = nn.Linear(256, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the ten outputs of images `[batch, 1, 28, 28]`; their softmax is the probability
        of each digit."""
        activation = ACTIVATIONS[self.activation]
        features = images
        for convolution in (self.conv1, self.conv2, self.conv3, self.conv4):
            features = activation(nn.functional.max_pool2d(convolution(features), 2))
        return self.output(activation(self.dense(features.flatten(1))))
