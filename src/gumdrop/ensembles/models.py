"""Ensembles as modules: their members, and one prediction mixed of all of them.

What an ensemble draws can be kept: `functions` gives it for a seed, and `predict` takes it. Members that are no dense
networks of one shape are asked one after the other.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gumdrop.ensembles.drawn import DrawnFunctions
from gumdrop.ensembles.noise import NoiseFunction
from gumdrop.ensembles.scaling import AS_IT_IS, Scaling
from gumdrop.functional.floats import split_gaussian
from gumdrop.layers import ConcreteDropout
from gumdrop.prediction import (
    ClassificationPrediction,
    RegressionPrediction,
    predict_classification,
    predict_regression,
)
from gumdrop.prediction.classification import class_log_probabilities
from gumdrop.prediction.regression import noise_variance

__all__ = ["ClassificationEnsemble", "RegressionEnsemble", "member_seeds"]


class _Ensemble(nn.Module):
    """Members, and the functions that they draw."""

    def __init__(self, members: Sequence[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        for site in self.members.modules():
            if isinstance(site, ConcreteDropout):
                site.use.told = True  # a member without dropout is no fault: the spread of them all is left

    def functions(self, num_samples: int, seed: int | None) -> DrawnFunctions | None:
        """Draw the functions of a prediction, for many predictions with the same ones.

        Args:
            num_samples: Number of draws, spread evenly over the members and rounded up.
            seed: Same seed, same functions.

        Returns:
            Functions with copies of the weights as they are, or None if the members are asked one by one.
        """
        return DrawnFunctions.of(list(self.members), *_shares(num_samples, len(self.members), seed))


class RegressionEnsemble(_Ensemble):
    """Networks with learned dropout whose predictions are mixed, with noise that depends on the inputs.

    Args:
        members: Networks whose output holds means and log variances in halves of its last dimension.
        noise: Factor on their noise variances, and its tail.
        scaling: What the networks see of the target.
    """

    def __init__(self, members: Sequence[nn.Module], noise: NoiseFunction, scaling: Scaling = AS_IT_IS) -> None:
        super().__init__(members)
        self.noise = noise
        self.register_buffer("target_scaling", torch.tensor(scaling.numbers, dtype=torch.float64))

    target_scaling: Tensor

    @property
    def scaling(self) -> Scaling:
        """What the networks see of the target."""
        return Scaling.of_numbers(self.target_scaling.tolist())

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Take the ensembles of earlier versions, too, whose networks saw the target as it is."""
        state_dict.setdefault(f"{prefix}target_scaling", torch.tensor(AS_IT_IS.numbers, dtype=torch.float64))
        super()._load_from_state_dict(state_dict, prefix, *args)

    @torch.no_grad()
    def predict(
        self,
        x: Tensor,
        *,
        num_samples: int = 100,
        seed: int | None = None,
        batch_size: int | None = None,
        functions: DrawnFunctions | None = None,
    ) -> RegressionPrediction:
        """Predict a mixture for each row, of Gaussians or on the scale of the target.

        Args:
            x: Inputs, shape (N, F).
            num_samples: Number of draws, spread evenly over the members and rounded up.
            seed: Same seed, same prediction.
            batch_size: Rows that run at once, which bounds memory; all if None.
            functions: What `functions` gave for this number and seed; drawn anew if None.

        Returns:
            Mean and variances, with their draws.

        Raises:
            ValueError: If a number is out of range or ``x`` has no rows.
        """
        functions = functions or self.functions(num_samples, seed)
        if functions is not None and functions.takes(x, batch_size):
            mixture = _gaussians(functions, x, batch_size)
        else:
            parts = _ask(predict_regression, self.members, x, num_samples, seed, batch_size)
            mixture = RegressionPrediction.mixture(parts)
        return self.scaling.in_units(self.noise.with_tail(mixture.scale_noise(self.noise(x, mixture.mean))))

    @torch.no_grad()
    def predict_versions(
        self, versions: Iterable[Tensor], *, num_samples: int, seed: int | None = None
    ) -> RegressionPrediction:
        """Predict rows of which there are several versions, such as completions of what is unknown in them.

        Args:
            versions: Inputs, shape (N, F) each. The members take turns, with one draw for each version.
            num_samples: How many versions there are; a multiple of the number of members weighs these alike.
            seed: Same seed, same prediction.

        Returns:
            Mean and variances, with a draw for each version. The epistemic variance holds the spread between versions.

        Raises:
            ValueError: If there are not ``num_samples`` versions.
        """
        parts = _ask_in_turn(predict_regression, self.members, versions, num_samples, seed)
        scaled = [part.scale_noise(self.noise(x, part.mean)) for x, part in parts]
        return self.scaling.in_units(self.noise.with_tail(RegressionPrediction.mixture(scaled)))


class ClassificationEnsemble(_Ensemble):
    """Networks with learned dropout whose class probabilities are averaged.

    Args:
        members: Networks that return logits.
    """

    @torch.no_grad()
    def predict(
        self,
        x: Tensor,
        *,
        num_samples: int = 100,
        seed: int | None = None,
        batch_size: int | None = None,
        functions: DrawnFunctions | None = None,
    ) -> ClassificationPrediction:
        """Predict class probabilities.

        Args:
            x: Inputs, shape (N, F).
            num_samples: Number of draws, spread evenly over the members and rounded up.
            seed: Same seed, same prediction.
            batch_size: Rows that run at once, which bounds memory; all if None.
            functions: What `functions` gave for this number and seed; drawn anew if None.

        Returns:
            Probabilities and entropies.

        Raises:
            ValueError: If a number is out of range or ``x`` has no rows.
        """
        functions = functions or self.functions(num_samples, seed)
        if functions is not None and functions.takes(x, batch_size):
            parts = [_classes(logits) for logits in functions.outputs(x, batch_size)]
            return parts[0] if len(parts) == 1 else ClassificationPrediction.joined(parts)
        members = _ask(predict_classification, self.members, x, num_samples, seed, batch_size)
        return ClassificationPrediction.mixture(members)

    def predict_versions(
        self, versions: Iterable[Tensor], *, num_samples: int, seed: int | None = None
    ) -> ClassificationPrediction:
        """Predict rows of which there are several versions, such as completions of what is unknown in them.

        Args:
            versions: Inputs, shape (N, F) each. The members take turns, with one draw for each version.
            num_samples: How many versions there are; a multiple of the number of members weighs these alike.
            seed: Same seed, same prediction.

        Returns:
            Probabilities and entropies. The mutual information holds the disagreement between versions.

        Raises:
            ValueError: If there are not ``num_samples`` versions.
        """
        parts = _ask_in_turn(predict_classification, self.members, versions, num_samples, seed)
        return ClassificationPrediction.mixture([part for _, part in parts])


def _ask(
    predict: Callable[..., Any],
    members: nn.ModuleList,
    x: Tensor,
    num_samples: int,
    seed: int | None,
    batch_size: int | None,
) -> list[Any]:
    """Let each member predict, with an equal share of the draws and masks of its own."""
    share, seeds = _shares(num_samples, len(members), seed)
    return [
        predict(member, x, num_samples=share, seed=each, batch_size=batch_size)
        for member, each in zip(members, seeds, strict=True)
    ]


def _shares(num_samples: int, num_members: int, seed: int | None) -> tuple[int, list[int | None]]:
    """Draws of each member, and the seed of each."""
    return -(-num_samples // num_members), member_seeds(seed, num_members)


def _gaussians(functions: DrawnFunctions, x: Tensor, batch_size: int | None) -> RegressionPrediction:
    """What drawn functions say of numbers."""
    means: Tensor | None = None
    start = 0
    for part in functions.outputs(x, batch_size):
        # Into one array: many small results, kept between large arrays that are freed, leave holes in memory.
        means = part.new_empty(len(part), len(x), part.shape[2]) if means is None else means
        means[:, start : start + part.shape[1]] = part
        start += part.shape[1]
    assert means is not None, "there are rows"
    log_variance = functions.log_variance
    if log_variance is None:
        means, log_variance = split_gaussian(means)
    variances = noise_variance(log_variance).expand_as(means)
    epistemic, mean = torch.var_mean(means, dim=0, correction=0)
    return RegressionPrediction(mean, epistemic, variances.mean(0), means, variances)


def _classes(logits: Tensor) -> ClassificationPrediction:
    """What drawn functions say of classes."""
    log_p = class_log_probabilities(logits, "categorical")
    entropy = torch.special.entr(log_p.exp()).sum(2).mean(0)
    return ClassificationPrediction(torch.logsumexp(log_p, dim=0) - math.log(len(log_p)), entropy)


def _ask_in_turn(
    predict: Callable[..., Any], members: nn.ModuleList, versions: Iterable[Tensor], num_samples: int, seed: int | None
) -> Iterator[tuple[Tensor, Any]]:
    """Let one member after the other predict the next version, with one draw and masks of its own."""
    seeds = member_seeds(seed, num_samples)
    for member, (x, each) in zip(itertools.cycle(members), zip(versions, seeds, strict=True), strict=False):
        yield x, predict(member, x, num_samples=1, seed=each)


def member_seeds(seed: int | None, count: int) -> list[int | None]:
    """A seed for each member, so that they do not draw the same masks."""
    if seed is None:
        return [None] * count
    return list(torch.randint(2**62, (count,), generator=torch.Generator().manual_seed(seed)).tolist())
