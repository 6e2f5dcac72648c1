"""A network with learned dropout: yours, converted, or a plain one that is built here.

Conversion chooses layers, takes over their dropout and places sites; the rates are read, frozen and grouped here.
Imports `functional` and `layers`.
"""

from gumdrop.networks.choice import ConversionReport
from gumdrop.networks.learn import learn_dropout
from gumdrop.networks.mlp import mlp
from gumdrop.networks.rates import dropout_rates, fix_dropout, parameter_groups, set_strength

__all__ = [
    "ConversionReport",
    "dropout_rates",
    "fix_dropout",
    "learn_dropout",
    "mlp",
    "parameter_groups",
    "set_strength",
]
