"""EEGNet layer by layer, in the order of Table 2 of Lawhern et al. (2018) and with torch's own
layers.

It shares no code with the project; it is what the project is compared with. Its layers have the
names of ours, so that one state can be loaded into both.
"""

from torch import nn
from torch.nn.functional import avg_pool2d, elu


class PlainEEGNet(nn.Module):
    def __init__(
        self, channels, samples, fs, classes, F1=8, D=2, F2=16, normalised=True, dropout=0.0
    ):
        super().__init__()
        norm = (
            (lambda filters: nn.BatchNorm2d(filters, eps=1e-3, momentum=1.0))
            if normalised
            else (lambda _: nn.Identity())
        )
        self.temporal = nn.Conv2d(1, F1, (1, int(fs / 2)), padding="same", bias=False)
        self.norm1 = norm(F1)
        self.spatial = nn.Conv2d(F1, F1 * D, (channels, 1), groups=F1, bias=False)
        self.norm2 = norm(F1 * D)
        self.separable = nn.Conv2d(
            F1 * D, F1 * D, (1, int(fs / 8)), groups=F1 * D, padding="same", bias=False
        )
        self.pointwise = nn.Conv2d(F1 * D, F2, 1, bias=False)
        self.norm3 = norm(F2)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(F2 * (samples // 4 // 8), classes)

    def forward(self, x):
        """x: [trials, channels, samples]."""
        maps = self.norm1(self.temporal(x[:, None]))
        maps = elu(self.norm2(self.spatial(maps)))
        maps = self.dropout(avg_pool2d(maps, (1, 4)))
        maps = elu(self.norm3(self.pointwise(self.separable(maps))))
        maps = self.dropout(avg_pool2d(maps, (1, 8)))
        return self.output(maps.flatten(1))
