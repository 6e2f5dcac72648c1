"""What training minimises, in nats for each row: a negative log likelihood, and the KL of the masks over N.

Imports `functional` and `layers`.
"""

from gumdrop.objective.elbo import NegativeElbo, negative_elbo
from gumdrop.objective.kl import Lengthscale, kl_divergence
from gumdrop.objective.likelihoods import LIKELIHOODS, bernoulli_nll, categorical_nll, gaussian_nll, poisson_nll

__all__ = [
    "LIKELIHOODS",
    "Lengthscale",
    "NegativeElbo",
    "bernoulli_nll",
    "categorical_nll",
    "gaussian_nll",
    "kl_divergence",
    "negative_elbo",
    "poisson_nll",
]
