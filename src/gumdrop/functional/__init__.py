"""A formula to read, an operation to train with.

Masks, their noise and the KL of a site, as functions of tensors. The readable formulas are in `masks.py` and `kl.py`;
`fused_masks.py` and `fused_kl.py` compute the same in fewer passes over memory, and `planes.py` products in half
precision whose factors pixels or tokens share. Imports torch alone.
"""

from gumdrop.functional.floats import finite_exp, logit_of, split_gaussian, widened
from gumdrop.functional.kl import bernoulli_entropy, dropout_kl, dropout_kl_terms
from gumdrop.functional.masks import concrete_dropout, dropout_scale, hard_keep, inverse_keep, soft_keep
from gumdrop.functional.noise import uniform_noise

__all__ = [
    "bernoulli_entropy",
    "concrete_dropout",
    "dropout_kl",
    "dropout_kl_terms",
    "dropout_scale",
    "finite_exp",
    "hard_keep",
    "inverse_keep",
    "logit_of",
    "soft_keep",
    "split_gaussian",
    "uniform_noise",
    "widened",
]
