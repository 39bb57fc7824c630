"""The network that iDLG attacks, with the numbers of its authors' code.

Zhao, Mopuri and Bilen, "iDLG: Improved Deep Leakage from Gradients", arXiv:2001.02610 (2020); code
at github.com/PatrickZH/Improved-Deep-Leakage-from-Gradients, file iDLG.py. Its smooth activations
have the second derivatives that gradient matching needs. Weights and biases start from U(-1/2,
1/2): `parameters.initial(LeNet, "uniform", ...)`.
"""

from __future__ import annotations

import torch
from torch import nn


class LeNet(nn.Module):
    """Three 5x5 convolutions with 12 filters, strides 2, 2, 1, padding 2, each with a sigmoid; then
    one linear layer.

    Images of 28 x 28 pixels become 12 maps of 7 x 7: 588 features.
    """

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 12, 5, stride=2, padding=2)
        self.conv2 = nn.Conv2d(12, 12, 5, stride=2, padding=2)
        self.conv3 = nn.Conv2d(12, 12, 5, stride=1, padding=2)
        self.output = nn.Linear(588, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the outputs of images `[batch, 1, 28, 28]`."""
        features = images
        for convolution in (self.conv1, self.conv2, self.conv3):
            features = torch.sigmoid(convolution(features))
        return self.output(features.flatten(1))
