"""The networks that there are to choose from."""

from collections.abc import Callable
from functools import partial

from torch import nn

from gumdrop_experiments.networks.fc_densenet import DEPTHS, FCDenseNet
from gumdrop_experiments.networks.unet import UNet

NETWORKS: dict[str, Callable[[int], nn.Module]] = {
    **{name: partial(FCDenseNet, shape) for name, shape in DEPTHS.items()},
    "unet": UNet,
}
"""Each builds a network for a number of channels that it gives for each pixel."""
