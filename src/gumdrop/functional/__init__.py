"""The formulas: masks, their noise and the KL of a site, as functions of tensors.

Two operations have a gradient by hand, beside their formula: the product with a soft mask (`masks.py`), and the KL of
many sites (`kl.py`). What is compiled, exported or transformed runs the formulas. Imports torch alone.
"""

from gumdrop.functional.kl import bernoulli_entropy, dropout_kl
from gumdrop.functional.masks import concrete_dropout, dropout_scale, soft_keep

__all__ = [
    "bernoulli_entropy",
    "concrete_dropout",
    "dropout_kl",
    "dropout_scale",
    "soft_keep",
]
