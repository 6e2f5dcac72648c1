r"""Ensembles: a few networks with learned dropout, each with held-out rows that it has not seen, mixed into one.

The rows are cut into folds. Each member trains without one fold, and that fold sets its noise (for numbers) or
picks its epoch (for classes), so that every row helps to train most members, and what is said about the noise
comes from rows that the weights have not seen. Members are small and independent, so those of one table, or of
all splits of a table, train as one batched program.

For numbers the noise may then depend on the inputs: the rows outside each member's training give

.. math:: \log \sigma^2_k(x) = s_k + a + w \cdot \phi(x), \qquad \phi(x) = (x, \mu(x), \mu(x)^2)

with the member's own log variance :math:`s_k`, standardised features, and priors :math:`w_j \sim N(0, 1/50)` and
:math:`a \sim N(0, 4)`. The residuals of a member hold its distance from the mean of all members, and the mixture adds
that distance once more; so the noise is reduced by what it holds of it,
:math:`\sigma^2 \leftarrow \sigma^2 - 2 (1 - 1/M) V`, by half at most, with :math:`V` the variance between members.

References:
    Lakshminarayanan et al. 2017, "Simple and Scalable Predictive Uncertainty Estimation using Deep Ensembles"
    (arXiv:1612.01474).
"""

from gumdrop.ensembles.fitting import EnsembleFit, fit_classification_ensembles, fit_regression_ensembles
from gumdrop.ensembles.folds import schedule
from gumdrop.ensembles.models import ClassificationEnsemble, RegressionEnsemble
from gumdrop.ensembles.noise import NoiseFunction
from gumdrop.ensembles.settings import EnsembleSettings

__all__ = [
    "ClassificationEnsemble",
    "EnsembleFit",
    "EnsembleSettings",
    "NoiseFunction",
    "RegressionEnsemble",
    "fit_classification_ensembles",
    "fit_regression_ensembles",
    "schedule",
]
