"""A network with learned dropout: yours, converted, or a plain one that is built here.

Conversion chooses layers, takes over their dropout and places sites; the rates are read, frozen and grouped here.
Imports `functional` and `layers`.
"""

from gumdrop.networks.choice import ConversionReport
from gumdrop.networks.mlp import mlp
from gumdrop.networks.rates import set_strength

__all__ = ["ConversionReport", "mlp", "set_strength"]
