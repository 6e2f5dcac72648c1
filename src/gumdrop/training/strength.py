"""How strong dropout is to be: the ELBO weighs the layers' rates, and held-out rows say how far all of them go."""

import copy
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from gumdrop.likelihoods import Categorical, Likelihood, likelihood_of
from gumdrop.networks import set_strength
from gumdrop.prediction.predict import sample
from gumdrop.training.records import FitResult
from gumdrop.training.settings import TrainingSettings, chosen
from gumdrop.training.stacked import fit_stacked

STRENGTHS = (0.25, 1.0, 4.0)
"""Strengths that held-out rows choose from: the ELBO, and a factor of four on both sides of it."""


Strength = TypeVar("Strength", bound=Hashable)


def choose_strength(scores: Mapping[Strength, Tensor], weights: Tensor | None = None) -> Strength:
    """Return the strength with the best held-out scores of weighted rows, (N,), or 1 if the gain may be chance.

    That is if 1 is one of them and not worse by more than one standard error. NaN is of rows that have no score; the
    first where no row has one.

    Example:
        >>> rows = torch.zeros(100)
        >>> choose_strength({1.0: rows, 3.0: rows + 0.1})
        3.0
    """
    means = {strength: mean_score(each, weights) for strength, each in scores.items()}
    elbo = next((strength for strength in scores if strength == 1), None)
    if any(mean != mean for mean in means.values()):  # NaN
        return next(iter(scores)) if elbo is None else elbo
    best = max(means, key=lambda strength: means[strength])
    return best if elbo is None or is_beyond_chance(scores[best] - scores[elbo], weights) else elbo


def is_beyond_chance(gains: Tensor, weights: Tensor | None = None) -> bool:
    """Tell whether gains of weighted rows, (N,), NaN for none, are above 0 by more than their standard error."""
    mean, error = mean_and_error(gains, weights)
    return mean > error


def mean_and_error(scores: Tensor, weights: Tensor | None = None) -> tuple[float, float]:
    """Return what `mean_score` does, and its standard error."""
    mean = mean_score(scores, weights)
    spread = mean_score((scores - mean).square(), weights)
    counts = (torch.ones_like(scores) if weights is None else weights.to(scores.device))[scores.isfinite()].double()
    rows = counts.sum().square() / counts.square().sum()  # that weigh the same and tell as much (Kish 1965)
    return mean, (spread / rows.item()) ** 0.5


def mean_score(scores: Tensor, weights: Tensor | None = None) -> float:
    """Average the scores of the weighted rows, (N,), that have one; NaN for those that have none, and if none has."""
    known = ~scores.isnan()
    counts = torch.ones_like(scores) if weights is None else weights.to(scores.device)
    counts = counts[known].double()
    return float((counts * scores[known].double()).sum() / counts.sum())


class TunedStrength(NamedTuple):
    """What `tune_strength` found."""

    strength: float
    """The strength that the model was trained with."""
    scores: dict[float, float]
    """Mean held-out log likelihood with each strength, in nats."""
    result: FitResult
    """How the model was trained."""


def tune_strength(
    model: nn.Module,
    train: tuple[Tensor, Tensor],
    validation: tuple[Tensor, Tensor],
    *,
    likelihood: str | Likelihood | Callable[[Tensor, Tensor], Tensor],
    strengths: Sequence[float] = STRENGTHS,
    num_samples: int = 50,
    settings: TrainingSettings | None = None,
    **changes: Any,
) -> TunedStrength:
    """Train a model, in place, with that strength of dropout which held-out rows prefer.

    Copies of the model are trained with each strength, dense ones as one program, and each is left with the epoch that
    is best on the held-out rows. One number is chosen where a grid of rates has one for each layer.

    Args:
        model: A converted model.
        train: Inputs and targets, rows in dimension 0.
        validation: Held-out inputs and targets.
        likelihood: As for `gumdrop.training.fit`.
        strengths: Strengths to choose from, positive.
        num_samples: Monte Carlo samples that the held-out rows are scored with.
        settings: As for `gumdrop.training.fit_stacked`.
        changes: As for `gumdrop.training.fit_stacked`.

    Returns:
        The strength, the score of each, and the history of the training.

    Raises:
        ValueError: If there is no strength, a strength is not positive, or as for `gumdrop.training.fit_stacked`.

    Example:
        >>> from gumdrop.networks import mlp
        >>> x = torch.linspace(-2, 2, 80).unsqueeze(1)
        >>> model = mlp(1, 1, hidden=[16], homoscedastic_noise=True)
        >>> rows = (x[::2], x[::2].sin()), (x[1::2], x[1::2].sin())
        >>> sorted(tune_strength(model, *rows, likelihood="gaussian", epochs=5).scores)
        [0.25, 1.0, 4.0]
    """
    if not strengths:
        raise ValueError("`strengths` must hold at least one strength, such as 1.0")
    choices = chosen(settings, changes)
    copies = [set_strength(copy.deepcopy(model), strength) for strength in strengths]
    count, num_train = len(copies), len(train[1])
    joined = torch.cat([train[0], validation[0]]), torch.cat([train[1], validation[1]])
    results = fit_stacked(
        copies,
        [joined] * count,
        likelihood=likelihood,
        rows=[torch.arange(num_train)] * count,
        held_out=[torch.arange(num_train, len(joined[1]))] * count,
        keep_best=True,
        settings=choices,
    )
    nll_of, device = likelihood_of(likelihood), next(model.parameters()).device
    x, y = (part.to(device) for part in validation)
    scores = {}
    with torch.no_grad():
        for each, network in zip(strengths, copies, strict=True):
            draws = sample(network, x, num_samples=num_samples, seed=choices.seed)
            scores[each] = mixture_log_likelihood(nll_of, draws, y).cpu()
    strength = choose_strength(scores)
    index = list(strengths).index(strength)
    set_strength(model, strength).load_state_dict(copies[index].state_dict())
    model.eval()
    return TunedStrength(strength, {each: mean_score(score) for each, score in scores.items()}, results[index])


def mixture_log_likelihood(likelihood: Likelihood, draws: Tensor, y: Tensor) -> Tensor:
    """Log likelihood of each row under the average of what S functions say, draws (S, N, ...), shape (N,)."""
    if isinstance(likelihood, Categorical) and y.ndim > 1:  # classes of pixels are averaged by pixel when predicted
        return likelihood.predict([draws], len(draws)).log_prob(y.long()).flatten(1).sum(1)
    count = len(draws)
    nll = likelihood.nll(draws.flatten(0, 1), y.repeat(count, *[1] * (y.ndim - 1))).unflatten(0, (count, len(y)))
    return torch.logsumexp(-nll, dim=0) - math.log(count)
