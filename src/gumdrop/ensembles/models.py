"""Ensembles as modules: their members, and one prediction mixed of all of them.

What an ensemble draws can be kept: `functions` gives it for a seed, and `predict` takes it. Members that are no dense
networks of one shape are asked one after the other, which is also the readable twin of what draws from all of them as
one program, and its test. A prediction of one row is some ten thousand multiplications, and what leads to them
(generators and masks of each member) costs a hundred times as much: it is done once for a seed.
"""

import copy
import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor, nn

from gumdrop.ensembles.noise import NoiseFunction
from gumdrop.ensembles.scaling import AS_IT_IS, Scaling
from gumdrop.functional.devices import sent
from gumdrop.layers import dropout_blocks
from gumdrop.layers.attach import check_rates
from gumdrop.layers.site import sites_of
from gumdrop.likelihoods import (
    Categorical,
    ClassificationPrediction,
    Gaussian,
    HurdlePrediction,
    Likelihood,
    RegressionPrediction,
)
from gumdrop.likelihoods.gaussian import noise_variance, split_gaussian
from gumdrop.likelihoods.hurdle import atom_draws, gaussian_on
from gumdrop.networks.dense import DenseFunctions
from gumdrop.prediction.drawing import MaskNoise
from gumdrop.prediction.draws import CACHED, MOST_BYTES
from gumdrop.prediction.predict import predict


@dataclass(frozen=True, eq=False)
class DrawnFunctions:
    """S functions of each of M members."""

    dense: DenseFunctions
    """The members as one."""
    factors: list[Tensor]
    """Of the site in front of each layer, (M, S, 1, K): 0, or the inverse of the probability of keeping."""

    @classmethod
    @torch.no_grad()
    def of(cls, members: Sequence[nn.Module], num_samples: int, seeds: Sequence[int | None]) -> "DrawnFunctions | None":
        """Draw what each member draws under its seed; None unless they are dense networks of one shape."""
        dense = DenseFunctions.of(members)
        if num_samples < 1 or dense is None:
            return None
        for member in members:
            check_rates((block.site for block in dropout_blocks(member)), member)
        sources = [MaskNoise(len(dense.units), seed) for seed in seeds]
        noise = [
            torch.stack([source.of(i, (num_samples, units)) for source in sources])
            for i, units in enumerate(dense.units)
        ]
        return cls(dense, dense.factors([sent(each, dense.p_logits.device) for each in noise]))

    @property
    def log_variance(self) -> Tensor | None:
        """Of the noise, (M S, 1, D); None where the last layer is the output."""
        variances = self.dense.log_variances
        if variances is None:
            return None
        return variances.repeat_interleave(self.factors[0].shape[1], 0).unsqueeze(1)

    def outputs(self, x: Tensor, batch_size: int | None = None) -> Iterator[Tensor]:
        """Evaluate all functions, (M S, B, O), for so few rows, (N, F), at a time that a layer stays in the cache."""
        largest = max(factor.numel() for factor in self.factors) * x.element_size()
        step = max(1, (CACHED if x.device.type == "cpu" else MOST_BYTES) // largest)
        for part in x.split(min(step, batch_size or step)):
            yield self.dense.outputs(part, self.factors, with_noise=False).flatten(0, 1)


class Ensemble(nn.Module, ABC):
    """Networks with learned dropout whose predictions are mixed."""

    likelihood: Likelihood
    """What the networks were trained on."""

    def __init__(self, members: Sequence[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        for site in sites_of(self.members):
            site.use.told = True  # a member without dropout is no fault: the spread of them all is left

    def with_members(self, members: Sequence[nn.Module]) -> Self:
        """Mix other networks in the same way, with the same noise."""
        other = copy.copy(self)
        other._modules = {**self._modules, "members": nn.ModuleList(members)}
        return other

    def functions(self, num_samples: int, seed: int | None) -> DrawnFunctions | None:
        """Draw the functions of a prediction, for many with the same ones; None if members are asked one by one."""
        return DrawnFunctions.of(list(self.members), *self._shares(num_samples, seed))

    @torch.no_grad()
    def predict(
        self,
        x: Tensor,
        *,
        num_samples: int = 100,
        seed: int | None = None,
        batch_size: int | None = None,
        functions: DrawnFunctions | None = None,
    ) -> Any:
        """Predict a mixture for each row.

        Args:
            x: Inputs, shape (N, F).
            num_samples: Number of draws, spread evenly over the members and rounded up.
            seed: Same seed, same prediction.
            batch_size: Rows that run at once, which bounds memory; all if None.
            functions: What `functions` gave for this number and seed; drawn anew if None.

        Returns:
            A `RegressionPrediction` with its draws, or a `ClassificationPrediction`.

        Raises:
            ValueError: If a number is out of range or ``x`` has no rows.
        """
        functions = functions or self.functions(num_samples, seed)
        if functions is not None and functions.dense.takes(x) and (batch_size is None or batch_size >= 1):
            return self._finished(self._with_noise(x, self._of_functions(functions, x, batch_size)))
        share, seeds = self._shares(num_samples, seed)
        parts = [
            predict(member, x, self.likelihood, num_samples=share, seed=each, batch_size=batch_size)
            for member, each in zip(self.members, seeds, strict=True)
        ]
        return self._finished(self._with_noise(x, type(parts[0]).mixture(parts)))

    @torch.no_grad()
    def predict_imputations(self, imputations: Iterable[Tensor], *, num_samples: int, seed: int | None = None) -> Any:
        """Return the prediction of rows, (N, F), completed in several ways: the members take turns with a draw each.

        What they disagree in is epistemic uncertainty. A multiple of the number of members weighs these alike.
        """
        turns = zip(imputations, member_seeds(seed, num_samples), strict=True)
        parts = [
            self._with_noise(x, predict(member, x, self.likelihood, num_samples=1, seed=each))
            for member, (x, each) in zip(itertools.cycle(self.members), turns, strict=False)
        ]
        return self._finished(type(parts[0]).mixture(parts))

    @abstractmethod
    def _of_functions(self, functions: DrawnFunctions, x: Tensor, batch_size: int | None) -> Any:
        """What drawn functions say."""

    def _with_noise(self, x: Tensor, prediction: Any) -> Any:
        """What is said of rows with the noise at their inputs."""
        return prediction

    def _finished(self, mixture: Any) -> Any:
        """What is said of rows in the end, when their mixture is known."""
        return mixture

    def _shares(self, num_samples: int, seed: int | None) -> tuple[int, list[int | None]]:
        """Draws of each member, and the seed of each."""
        return -(-num_samples // len(self.members)), member_seeds(seed, len(self.members))


class RegressionEnsemble(Ensemble):
    """Networks whose predictions of numbers are mixed, with noise that depends on the inputs.

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
        scaling, (factor, dispersion) = Scaling.of_numbers(self.target_scaling.tolist()), self.noise.counts.tolist()
        return replace(scaling, scale=replace(scaling.scale, counts=(factor, dispersion))) if dispersion else scaling

    @property
    def likelihood(self) -> Gaussian:  # type: ignore[override]
        """What the networks were trained on."""
        return gaussian_on(self.scaling.scale)

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *args: Any) -> None:
        """Take the ensembles of earlier versions, too, whose networks saw the target as it is."""
        default = torch.tensor(AS_IT_IS.numbers, dtype=torch.float64)
        numbers = state_dict.setdefault(f"{prefix}target_scaling", default)
        self.target_scaling = self.target_scaling.new_empty(len(numbers))  # one more for each atom
        super()._load_from_state_dict(state_dict, prefix, *args)

    def _of_functions(self, functions: DrawnFunctions, x: Tensor, batch_size: int | None) -> RegressionPrediction:
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
        means, logits = means.split([self.noise.num_outputs, means.shape[2] - self.noise.num_outputs], dim=2)
        variances = noise_variance(log_variance[..., : means.shape[2]]).expand_as(means)
        epistemic, mean = torch.var_mean(means, dim=0, correction=0)
        density = RegressionPrediction(mean, epistemic, variances.mean(0), means, variances)
        return HurdlePrediction(**vars(density), draw_atoms=atom_draws(logits)) if logits.shape[2] else density

    def _with_noise(self, x: Tensor, prediction: RegressionPrediction) -> RegressionPrediction:
        return prediction.scale_noise(self.noise(x, prediction.mean))

    def _finished(self, mixture: RegressionPrediction) -> RegressionPrediction:
        return self.scaling.in_units(self.noise.with_tail(mixture))


class ClassificationEnsemble(Ensemble):
    """Networks that return logits, whose class probabilities are averaged."""

    likelihood = Categorical()

    def _of_functions(self, functions: DrawnFunctions, x: Tensor, batch_size: int | None) -> ClassificationPrediction:
        parts = [self.likelihood.predict([part], len(part)) for part in functions.outputs(x, batch_size)]
        return parts[0] if len(parts) == 1 else ClassificationPrediction.joined(parts)


def member_seeds(seed: int | None, count: int) -> list[int | None]:
    """A seed for each member, so that they do not draw the same masks."""
    if seed is None:
        return [None] * count
    return list(torch.randint(2**62, (count,), generator=torch.Generator().manual_seed(seed)).tolist())
