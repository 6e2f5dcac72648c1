"""A network with learned dropout: yours, converted, or a plain one that is built here.

Conversion chooses layers, takes over their dropout and places sites; the rates are read, frozen and grouped here.
Imports `functional` and `layers`.
"""

from typing import TYPE_CHECKING

from gumdrop.machine.lazy import names_on_use

if TYPE_CHECKING:
    from gumdrop.networks.choice import ConversionReport
    from gumdrop.networks.perceptron import mlp
    from gumdrop.networks.rates import set_strength
else:
    __getattr__ = names_on_use(
        __name__,
        {
            "gumdrop.networks.choice": ["ConversionReport"],
            "gumdrop.networks.perceptron": ["mlp"],
            "gumdrop.networks.rates": ["set_strength"],
        },
    )

__all__ = ["ConversionReport", "mlp", "set_strength"]
