"""Networks that segment: FC-DenseNet at any depth, and a plain U-Net, which stands for the networks of users.

References:
    Jégou, Drozdzal, Vazquez, Romero & Bengio 2017, "The One Hundred Layers Tiramisu" (arXiv:1611.09326).
    Ronneberger, Fischer & Brox 2015, "U-Net: Convolutional Networks for Biomedical Image Segmentation"
    (arXiv:1505.04597).
"""

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Shape(NamedTuple):
    """How deep and how wide an FC-DenseNet is."""

    down: tuple[int, ...]
    """Layers of each dense block on the way down; the way up has the same in reverse."""
    middle: int
    """Layers of the block between."""
    growth: int
    """Channels that each layer adds."""
    first: int = 48
    """Channels of the first convolution."""


DEPTHS = {
    "56": Shape((4,) * 5, 4, 12),
    "67": Shape((5,) * 5, 5, 16),
    "103": Shape((4, 5, 7, 10, 12), 15, 16),
    "small": Shape((2, 3, 4), 4, 12, first=24),
}
"""The published networks, and one for computers without a GPU."""


class _Layer(nn.Sequential):
    """Batch normalisation, ReLU and a convolution."""

    def __init__(self, inputs: int, outputs: int, kernel: int) -> None:
        super().__init__(
            nn.BatchNorm2d(inputs), nn.ReLU(inplace=True), nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2)
        )


class _DenseBlock(nn.ModuleList):
    """Layers that each read all maps before them; gives the maps that they add."""

    def __init__(self, inputs: int, layers: int, growth: int) -> None:
        super().__init__(_Layer(inputs + i * growth, growth, 3) for i in range(layers))

    def forward(self, x: Tensor) -> Tensor:
        """Give the new maps, shape (N, layers * growth, H, W)."""
        added = []
        for layer in self:
            added.append(layer(x))
            x = torch.cat([x, added[-1]], dim=1)
        return torch.cat(added, dim=1)


class FCDenseNet(nn.Module):
    """Classify each pixel of a picture of any size: as many maps as outputs.

    Every convolution but the first and the transposed ones is preceded by batch normalisation and ReLU. It has no
    dropout; `gumdrop.learn_dropout` puts it in front of the convolutions.
    """

    def __init__(self, shape: Shape, outputs: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, shape.first, 3, padding=1)
        self.down, self.down_blocks = nn.ModuleList(), nn.ModuleList()
        channels = shape.first
        skips = []
        for layers in shape.down:
            self.down_blocks.append(_DenseBlock(channels, layers, shape.growth))
            channels += layers * shape.growth
            skips.append(channels)
            self.down.append(nn.Sequential(*_Layer(channels, channels, 1), nn.MaxPool2d(2)))
        self.middle = _DenseBlock(channels, shape.middle, shape.growth)
        added = shape.middle * shape.growth
        self.up, self.up_blocks = nn.ModuleList(), nn.ModuleList()
        for layers, skip in zip(shape.down[::-1], skips[::-1], strict=True):
            self.up.append(nn.ConvTranspose2d(added, added, 3, stride=2))
            channels = added + skip
            self.up_blocks.append(_DenseBlock(channels, layers, shape.growth))
            added = layers * shape.growth
        self.head = nn.Conv2d(channels + added, outputs, 1)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_uniform_(module.weight, nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        """Give one value for each output and pixel, shape (N, outputs, H, W)."""
        x = self.first(x)
        skips = []
        for block, down in zip(self.down_blocks, self.down, strict=True):
            x = torch.cat([x, block(x)], dim=1)
            skips.append(x)
            x = down(x)
        added = self.middle(x)
        for up, block, skip in zip(self.up, self.up_blocks, skips[::-1], strict=True):
            x = torch.cat([_cropped(_upsampled(up, added), skip.shape[-2:]), skip], dim=1)
            added = block(x)
        return self.head(torch.cat([x, added], dim=1))


def _upsampled(up: nn.Module, x: Tensor) -> Tensor:
    """Apply a transposed convolution: under autocast on a CPU in float32, for which alone PyTorch has a fast one."""
    if x.device.type != "cpu" or not torch.is_autocast_enabled("cpu"):
        return up(x)
    with torch.autocast("cpu", enabled=False):
        return up(x.float()).to(x.dtype)


def _cropped(x: Tensor, size: Sequence[int]) -> Tensor:
    """Cut the middle out of maps, which a transposed convolution makes one wider than the maps to join."""
    top, left = (x.shape[-2] - size[0]) // 2, (x.shape[-1] - size[1]) // 2
    return x[..., top : top + size[0], left : left + size[1]]


class UNet(nn.Module):
    """Classify each pixel of a picture of any size, by channels of each stage. It knows nothing of dropout."""

    def __init__(self, outputs: int, channels: Sequence[int] = (16, 32, 64, 128)) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, channels[0], 3, padding=1)
        self.down = nn.ModuleList(itertools.starmap(_stage, itertools.pairwise((channels[0], *channels))))
        back = channels[::-1]
        self.up = nn.ModuleList(nn.ConvTranspose2d(*pair, 2, stride=2) for pair in itertools.pairwise(back))
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
    layers: list[nn.Module] = []
    for width in (inputs, outputs):
        layers += [nn.Conv2d(width, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


NETWORKS: dict[str, Callable[[int], nn.Module]] = {
    **{name: partial(FCDenseNet, shape) for name, shape in DEPTHS.items()},
    "unet": UNet,
}
"""Each builds a network for a number of channels that it gives for each pixel."""
