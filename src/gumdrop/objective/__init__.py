"""What training minimises, in nats for each row: a negative log likelihood, and the KL of the masks over N.

`kl.py` reads the rates and weights of a model's sites, and `elbo.py` adds their KL to a negative log likelihood, into a
loss that keeps its terms. Imports `likelihoods` and what is below.
"""

from gumdrop.objective.elbo import NegativeElbo

__all__ = ["NegativeElbo"]
