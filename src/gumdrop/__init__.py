"""Dropout whose rates are learned by gradient descent, and the calibrated uncertainty that comes with it.

Convert a model with `learn_dropout`, train it on `negative_elbo`, and predict with `predict_regression` or
`predict_classification`. The names below need torch and numpy alone, and load them when one is first used;
`gumdrop.training`, `gumdrop.metrics` and the other rooms are imported by their names, and some bring an extra.
"""

from typing import TYPE_CHECKING

from gumdrop.machine.lazy import names_on_use
from gumdrop.machine.version import VERSION

if TYPE_CHECKING:
    from gumdrop.layers.output_noise import HomoscedasticNoise
    from gumdrop.likelihoods.categorical import bernoulli_nll, categorical_nll
    from gumdrop.likelihoods.counts import negative_binomial_nll, poisson_nll
    from gumdrop.likelihoods.gaussian import gaussian_nll
    from gumdrop.likelihoods.student_t import student_t_nll
    from gumdrop.networks.learn import learn_dropout
    from gumdrop.networks.rates import dropout_rates, fix_dropout, parameter_groups
    from gumdrop.objective.elbo import negative_elbo
    from gumdrop.objective.kl import kl_divergence
    from gumdrop.prediction.drawing import draw
    from gumdrop.prediction.predict import predict, predict_classification, predict_counts, predict_regression, sample
else:
    __getattr__ = names_on_use(
        __name__,
        {
            "gumdrop.layers.output_noise": ["HomoscedasticNoise"],
            "gumdrop.likelihoods.categorical": ["bernoulli_nll", "categorical_nll"],
            "gumdrop.likelihoods.counts": ["negative_binomial_nll", "poisson_nll"],
            "gumdrop.likelihoods.gaussian": ["gaussian_nll"],
            "gumdrop.likelihoods.student_t": ["student_t_nll"],
            "gumdrop.networks.learn": ["learn_dropout"],
            "gumdrop.networks.rates": ["dropout_rates", "fix_dropout", "parameter_groups"],
            "gumdrop.objective.elbo": ["negative_elbo"],
            "gumdrop.objective.kl": ["kl_divergence"],
            "gumdrop.prediction.drawing": ["draw"],
            "gumdrop.prediction.predict": [
                "predict",
                "predict_classification",
                "predict_counts",
                "predict_regression",
                "sample",
            ],
        },
        rooms=["functional", "layers", "likelihoods", "networks", "objective", "prediction"],
    )

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
    "negative_binomial_nll",
    "negative_elbo",
    "parameter_groups",
    "poisson_nll",
    "predict",
    "predict_classification",
    "predict_counts",
    "predict_regression",
    "sample",
    "student_t_nll",
]


def __dir__() -> list[str]:
    """Name what there is, whether it was used or not."""
    return sorted({*globals(), *__all__})
