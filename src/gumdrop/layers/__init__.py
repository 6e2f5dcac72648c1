"""Dropout sites with learned rates, and where they sit in each kind of layer.

A site is a module with one rate, `ConcreteDropout`; it is attached to dense, convolutional, recurrent, attention and
embedding layers, which keep their class, their attributes and their state keys. A `Block` pairs a site with the weight
whose input units it drops. `passes.py` gives a layer that is used several times in a pass one mask, and `watch.py`
tells when rates are not trained. Imports `functional`.
"""

from gumdrop.layers.attach import attach, check_rates, dropout_blocks, is_own_hook, share_sites
from gumdrop.layers.block import SITE, Block
from gumdrop.layers.dense import WeightMatrix
from gumdrop.layers.factors import bernoulli_factors, factors_from
from gumdrop.layers.inner_dropout import drops_between_layers, inner_dropout
from gumdrop.layers.kinds import KINDS, LayerKind, kind_of
from gumdrop.layers.output_noise import HomoscedasticNoise
from gumdrop.layers.passes import drawn_once, open_passes
from gumdrop.layers.piecewise import PiecewiseLinear
from gumdrop.layers.site import GONE, UNIT, ConcreteDropout, FactorSource
from gumdrop.layers.watch import watch_rates, watch_training

__all__ = [
    "KINDS",
    "SITE",
    "UNIT",
    "Block",
    "ConcreteDropout",
    "FactorSource",
    "GONE",
    "HomoscedasticNoise",
    "LayerKind",
    "PiecewiseLinear",
    "WeightMatrix",
    "attach",
    "bernoulli_factors",
    "check_rates",
    "drawn_once",
    "dropout_blocks",
    "drops_between_layers",
    "factors_from",
    "inner_dropout",
    "is_own_hook",
    "kind_of",
    "open_passes",
    "share_sites",
    "watch_rates",
    "watch_training",
]
