"""What the output of a network says of a target: numbers, classes, yes or no, counts.

A `Likelihood` has the negative log likelihood of outputs and targets, the prior that suits it, and the prediction of
drawn functions: a record of moments and draws, with densities, quantiles and scores. A new one is a file here and a
line in `LIKELIHOODS`. Imports `functional` and `machine`.
"""

from collections.abc import Callable

from torch import Tensor

from gumdrop.likelihoods.categorical import Bernoulli, Categorical, ClassificationPrediction
from gumdrop.likelihoods.conformal import ConformalLevels
from gumdrop.likelihoods.counts import CountPrediction, NegativeBinomial, Poisson
from gumdrop.likelihoods.gaussian import Gaussian
from gumdrop.likelihoods.hurdle import HurdlePrediction
from gumdrop.likelihoods.likelihood import FunctionLikelihood, Lengthscale, Likelihood
from gumdrop.likelihoods.mixture import RegressionPrediction
from gumdrop.likelihoods.part_known import PartKnown
from gumdrop.likelihoods.prediction import NumberPrediction
from gumdrop.likelihoods.student_t import StudentT
from gumdrop.likelihoods.target_scale import PLAIN, TargetScale

__all__ = [
    "LIKELIHOODS",
    "PLAIN",
    "Bernoulli",
    "Categorical",
    "ClassificationPrediction",
    "ConformalLevels",
    "CountPrediction",
    "Gaussian",
    "HurdlePrediction",
    "Lengthscale",
    "Likelihood",
    "NegativeBinomial",
    "NumberPrediction",
    "PartKnown",
    "Poisson",
    "RegressionPrediction",
    "StudentT",
    "TargetScale",
    "likelihood_of",
]

LIKELIHOODS: dict[str, Likelihood] = {
    each.name: each for each in (Gaussian(), StudentT(), Categorical(), Bernoulli(), Poisson(), NegativeBinomial())
}
"""Those that have a name."""


def likelihood_of(likelihood: "str | Likelihood | Callable[[Tensor, Tensor], Tensor]") -> Likelihood:
    """Find a likelihood.

    Args:
        likelihood: A name, a likelihood, or a function of output and target that gives the negative log likelihood of
            each example, in nats, shape (N,).

    Returns:
        The likelihood.

    Raises:
        ValueError: If there is none of that name.

    Example:
        >>> likelihood_of("poisson")
        Poisson()
    """
    if isinstance(likelihood, Likelihood):
        return likelihood
    if callable(likelihood):
        return FunctionLikelihood(likelihood)
    if likelihood not in LIKELIHOODS:
        raise ValueError(f"`likelihood` must be a function or one of {', '.join(LIKELIHOODS)}, got {likelihood!r}")
    return LIKELIHOODS[likelihood]
