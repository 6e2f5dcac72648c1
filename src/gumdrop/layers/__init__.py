"""Dropout sites with learned rates, and how they sit on layers."""

from gumdrop.layers.attach import (
    SITE,
    Block,
    WeightMatrix,
    attach,
    check_rates,
    dropout_blocks,
    ordinary_rnn_or_attention,
    share_sites,
)
from gumdrop.layers.noise import HomoscedasticNoise
from gumdrop.layers.site import ConcreteDropout, NoiseSource

__all__ = [
    "SITE",
    "Block",
    "ConcreteDropout",
    "HomoscedasticNoise",
    "NoiseSource",
    "WeightMatrix",
    "attach",
    "check_rates",
    "dropout_blocks",
    "ordinary_rnn_or_attention",
    "share_sites",
]
