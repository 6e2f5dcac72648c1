"""Dropout whose rates are learned by gradient descent, and the calibrated uncertainty that comes with it.

Convert a model with `learn_dropout`, train it on `negative_elbo`, and predict with `predict_regression` or
`predict_classification`. The names below need torch and numpy alone; `gumdrop.training`, `gumdrop.metrics`
and the other rooms are imported by their names, and some bring an extra.
"""

from gumdrop.layers import HomoscedasticNoise
from gumdrop.machine.version import VERSION
from gumdrop.networks.learn import learn_dropout
from gumdrop.networks.rates import dropout_rates, fix_dropout, parameter_groups
from gumdrop.objective.elbo import negative_elbo
from gumdrop.objective.kl import kl_divergence
from gumdrop.objective.likelihoods import bernoulli_nll, categorical_nll, gaussian_nll, poisson_nll
from gumdrop.prediction import draw, predict_classification, predict_counts, predict_regression, sample, sampling

__version__ = VERSION

__all__ = [
    "HomoscedasticNoise",
    "bernoulli_nll",
    "categorical_nll",
    "draw",
    "dropout_rates",
    "fix_dropout",
    "gaussian_nll",
    "kl_divergence",
    "learn_dropout",
    "negative_elbo",
    "parameter_groups",
    "poisson_nll",
    "predict_classification",
    "predict_counts",
    "predict_regression",
    "sample",
    "sampling",
]
