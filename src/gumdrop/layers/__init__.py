"""Dropout sites with learned rates, and where they sit in each kind of layer.

A site is a module with one rate, `ConcreteDropout`; it is attached to dense, convolutional, recurrent, attention and
embedding layers, which keep their class, their attributes and their state keys. A `Block` pairs a site with the weight
whose input units it drops. `passes.py` gives a layer that is used several times in a pass one mask, and `watch.py`
tells when rates are not trained. Imports `functional`.
"""

from typing import TYPE_CHECKING

from gumdrop.layers.attach import dropout_blocks
from gumdrop.layers.block import SITE, Block
from gumdrop.layers.in_place import DropoutKind
from gumdrop.layers.kinds import KINDS
from gumdrop.layers.rate import UNIT
from gumdrop.layers.site import ConcreteDropout, factors_from
from gumdrop.machine.lazy import names_on_use

if TYPE_CHECKING:
    from gumdrop.layers.piecewise import PiecewiseLinear
else:
    __getattr__ = names_on_use(__name__, {"gumdrop.layers.piecewise": ["PiecewiseLinear"]})

__all__ = [
    "KINDS",
    "SITE",
    "UNIT",
    "Block",
    "ConcreteDropout",
    "DropoutKind",
    "PiecewiseLinear",
    "dropout_blocks",
    "factors_from",
]
