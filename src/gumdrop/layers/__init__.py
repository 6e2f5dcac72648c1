"""Dropout sites with learned rates, and how they sit on layers."""

from gumdrop.layers.attach import (
    SITE,
    WeightMatrix,
    attach,
    check_rates,
    dropout_blocks,
    is_own_hook,
    ordinary_rnn_or_attention,
    share_sites,
)
from gumdrop.layers.block import Block
from gumdrop.layers.factors import bernoulli_factors, factors_from
from gumdrop.layers.output_noise import HomoscedasticNoise
from gumdrop.layers.passes import drawn_once, open_passes
from gumdrop.layers.site import UNIT, ConcreteDropout, FactorSource
from gumdrop.layers.watch import watch_rates, watch_training

__all__ = [
    "SITE",
    "UNIT",
    "Block",
    "ConcreteDropout",
    "FactorSource",
    "HomoscedasticNoise",
    "WeightMatrix",
    "attach",
    "bernoulli_factors",
    "check_rates",
    "drawn_once",
    "dropout_blocks",
    "factors_from",
    "is_own_hook",
    "open_passes",
    "ordinary_rnn_or_attention",
    "share_sites",
    "watch_rates",
    "watch_training",
]
