"""What the output of a network says of a target: numbers, classes, yes or no, counts.

A `Likelihood` has the negative log likelihood of outputs and targets, the prior that suits it, and the prediction of
drawn functions: a record of moments and draws, with densities, quantiles and scores. A new one is a file here and a
line in `LIKELIHOODS`. Imports `functional` and `machine`.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from torch import Tensor

from gumdrop.likelihoods.likelihood import FunctionLikelihood, Lengthscale, Likelihood
from gumdrop.machine.lazy import names_on_use

if TYPE_CHECKING:
    from gumdrop.likelihoods.categorical import Bernoulli, Categorical, ClassificationPrediction
    from gumdrop.likelihoods.conformal import ConformalLevels
    from gumdrop.likelihoods.counts import CountPrediction, NegativeBinomial, Poisson
    from gumdrop.likelihoods.gaussian import Gaussian
    from gumdrop.likelihoods.hurdle import HurdlePrediction
    from gumdrop.likelihoods.mixture import RegressionPrediction
    from gumdrop.likelihoods.part_known import PartKnown
    from gumdrop.likelihoods.prediction import NumberPrediction
    from gumdrop.likelihoods.student_t import StudentT
    from gumdrop.likelihoods.target_scale import PLAIN, TargetScale
else:
    __getattr__ = names_on_use(
        __name__,
        {
            "gumdrop.likelihoods.categorical": ["Bernoulli", "Categorical", "ClassificationPrediction"],
            "gumdrop.likelihoods.conformal": ["ConformalLevels"],
            "gumdrop.likelihoods.counts": ["CountPrediction", "NegativeBinomial", "Poisson"],
            "gumdrop.likelihoods.gaussian": ["Gaussian"],
            "gumdrop.likelihoods.hurdle": ["HurdlePrediction"],
            "gumdrop.likelihoods.mixture": ["RegressionPrediction"],
            "gumdrop.likelihoods.part_known": ["PartKnown"],
            "gumdrop.likelihoods.prediction": ["NumberPrediction"],
            "gumdrop.likelihoods.student_t": ["StudentT"],
            "gumdrop.likelihoods.target_scale": ["PLAIN", "TargetScale"],
        },
    )

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


class _Named(Mapping[str, Likelihood]):
    """Likelihoods by their names, each loaded when it is first asked for."""

    def __init__(self, kinds: Mapping[str, str]) -> None:
        self.kinds = kinds

    def __getitem__(self, name: str) -> Likelihood:
        # Made anew each time: a cache that grows in compiled code would have it compiled again.
        made: Likelihood = getattr(sys.modules[__name__], self.kinds[name])()
        return made

    def __contains__(self, name: object) -> bool:
        return name in self.kinds

    def __iter__(self) -> Iterator[str]:
        return iter(self.kinds)

    def __len__(self) -> int:
        return len(self.kinds)


LIKELIHOODS: Mapping[str, Likelihood] = _Named(
    {
        "gaussian": "Gaussian",
        "student_t": "StudentT",
        "categorical": "Categorical",
        "bernoulli": "Bernoulli",
        "poisson": "Poisson",
        "negative_binomial": "NegativeBinomial",
    }
)
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
