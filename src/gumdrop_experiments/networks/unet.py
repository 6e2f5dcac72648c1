"""A plain U-Net, as many have one: the network that stands for those of users.

References:
    Ronneberger, Fischer & Brox 2015, "U-Net: Convolutional Networks for Biomedical Image Segmentation"
    (arXiv:1505.04597).
"""

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class UNet(nn.Module):
    """Classify each pixel of a picture of any size, by channels of each stage. It knows nothing of dropout."""

    def __init__(self, outputs: int, channels: Sequence[int] = (16, 32, 64, 128)) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, channels[0], 3, padding=1)
        self.down = nn.ModuleList(
            _stage(before, after) for before, after in itertools.pairwise((channels[0], *channels))
        )
        back = channels[::-1]
        self.up = nn.ModuleList(
            nn.ConvTranspose2d(before, after, 2, stride=2) for before, after in itertools.pairwise(back)
        )
        self.join = nn.ModuleList(_stage(2 * after, after) for after in back[1:])
        self.head = nn.Conv2d(channels[0], outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Give one value for each output and pixel, shape (N, outputs, H, W)."""
        x = self.first(x)
        skips = []
        for i, stage in enumerate(self.down):
            x = stage(F.max_pool2d(x, 2) if i else x)
            skips.append(x)
        for up, join, skip in zip(self.up, self.join, skips[-2::-1], strict=True):
            # Sides that are odd lose a pixel on the way down.
            x = join(torch.cat([F.interpolate(up(x), size=skip.shape[-2:]), skip], dim=1))
        return self.head(x)


def _stage(inputs: int, outputs: int) -> nn.Sequential:
    """Two convolutions, each with batch normalisation and ReLU."""
    layers: list[nn.Module] = []
    for width in (inputs, outputs):
        layers += [nn.Conv2d(width, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)
