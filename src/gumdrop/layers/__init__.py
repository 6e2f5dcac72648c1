"""Dropout sites with learned rates, and where they sit in each kind of layer.

A site is a module with one rate, `ConcreteDropout`; it is attached to dense, convolutional, recurrent, attention and
embedding layers, which keep their class, their attributes and their state keys. A `Block` pairs a site with the weight
whose input units it drops. `passes.py` gives a layer that is used several times in a pass one mask, and `watch.py`
tells when rates are not trained. Imports `functional`.
"""

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
from gumdrop.layers.output_noise import HomoscedasticNoise
from gumdrop.layers.passes import drawn_once, open_passes
from gumdrop.layers.site import UNIT, ConcreteDropout, NoiseSource
from gumdrop.layers.watch import watch_rates, watch_training

__all__ = [
    "SITE",
    "UNIT",
    "Block",
    "ConcreteDropout",
    "HomoscedasticNoise",
    "NoiseSource",
    "WeightMatrix",
    "attach",
    "check_rates",
    "drawn_once",
    "dropout_blocks",
    "is_own_hook",
    "open_passes",
    "ordinary_rnn_or_attention",
    "share_sites",
    "watch_rates",
    "watch_training",
]
