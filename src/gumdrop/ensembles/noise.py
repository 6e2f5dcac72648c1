"""Noise that depends on the inputs, with tails, fitted to rows that the networks have not seen."""

import math
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from gumdrop.likelihoods import RegressionPrediction
from gumdrop.likelihoods.count_cells import rates
from gumdrop.likelihoods.counts import log_mass
from gumdrop.likelihoods.part_known import interval_log_likelihood
from gumdrop.likelihoods.scaled_mixture import draw_moments
from gumdrop.machine.optimizers import minimise
from gumdrop.training.strength import is_beyond_chance

WEIGHT_PRECISION, OFFSET_PRECISION, TAIL_PRECISION = 50.0, 0.25, 4.0
FIRST_LOG_DISPERSION, DISPERSION_PRECISION = -1.0, 0.05
LARGEST_COUNT = 500
"""Of a target whose counts may be negative binomial; larger ones are nearly continuous."""
LARGEST_FEATURE = 3.0
minimise_nearly = partial(minimise, max_iter=60, tolerance_change=1e-3)  # of a nat over all rows; float32 resolves it


class NoiseFunction(nn.Module):
    """Factor on the noise variance of a network, log-linear in the inputs and the prediction, and its tail.

    The draws of a prediction differ in their noise as well: their log variances are spread by the standard deviation
    ``tail``, so that the mixture of all has heavier tails, and a narrower middle, than a Gaussian. A ``bend`` makes the
    spread that of Student's t (and beyond, either way), whose far tails a log-normal spread does not reach; it is there
    where it makes held-out rows more likely by more than chance. So are ``counts``, in the place of tail and bend: a
    factor on the mean and the dispersion of a negative binomial for each draw, of a target that is recorded in steps.

    Args:
        num_inputs: ``F``.
        num_outputs: ``D``.

    Shape:
        Inputs (N, F) and means (N, D). Output (N, D), positive; 1 before it is fitted.
    """

    def __init__(self, num_inputs: int, num_outputs: int) -> None:
        super().__init__()
        shape = (num_outputs, num_inputs + 2)
        self.register_buffer("center", torch.zeros(shape))
        self.register_buffer("scale", torch.ones(shape))
        self.register_buffer("weight", torch.zeros(shape))
        self.register_buffer("offset", torch.zeros(num_outputs))
        self.register_buffer("tail", torch.zeros(num_outputs))
        self.register_buffer("bend", torch.zeros(num_outputs))
        self.register_buffer("counts", torch.zeros(2))
        # Not torch.eye, for which the meta device, where saved models are built, loads the compiler of torch: a second.
        self.register_buffer("correlation", torch.zeros(num_outputs, num_outputs).fill_diagonal_(1.0))

    @property
    def num_outputs(self) -> int:
        """D."""
        return len(self.offset)

    center: Tensor
    scale: Tensor
    weight: Tensor
    offset: Tensor
    tail: Tensor
    bend: Tensor
    counts: Tensor
    correlation: Tensor

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *args: Any) -> None:
        """Take the noise of earlier versions, too, which had no tail, no bend in it, or no counts."""
        if f"{prefix}offset" in state_dict:
            nothing = torch.zeros_like(state_dict[f"{prefix}offset"])
            since = {"tail": nothing, "bend": nothing, "correlation": torch.diag(nothing + 1)}
            since["counts"] = nothing.new_zeros(2)
            for name, value in since.items():
                state_dict.setdefault(f"{prefix}{name}", value)
        super()._load_from_state_dict(state_dict, prefix, *args)

    def forward(self, x: Tensor, mean: Tensor) -> Tensor:
        """Evaluate the factor for rows of inputs and their predicted means."""
        features = ((_noise_features(x, mean) - self.center) / self.scale).clamp(-LARGEST_FEATURE, LARGEST_FEATURE)
        return ((features * self.weight).sum(-1) + self.offset).exp()

    def tail_factors(self, num_draws: int) -> Tensor:
        r"""Return factors on the noise variances of draws, (S, 1, D), of mean 1, so that these differ in their noise.

        .. math:: t_s \propto \exp\left(\tau z_s + \tfrac12 \beta (z_s^2 - 1)\right),
            \quad z_s = \Phi^{-1}((r_s + 1/2) / S)

        The ranks r of the draws follow the multiples of the golden ratio, so that each member has small and large ones,
        whether the draws stand member by member or the members take turns.
        """
        factors = _spread(self.tail, self.bend, _normal_quantiles(num_draws).to(self.tail)).exp()
        return factors / factors.mean(0)

    def with_tail(self, prediction: RegressionPrediction) -> RegressionPrediction:
        """Spread the noise variances of the draws, if they were kept; their mean for each row and output stays."""
        if prediction.draw_variances is None:
            return prediction
        variances = prediction.draw_variances * self.tail_factors(len(prediction.draw_variances))
        variances.mul_(prediction.aleatoric / variances.mean(0))
        is_alone = bool((self.correlation == torch.eye(self.num_outputs).to(self.correlation)).all())
        return replace(prediction, draw_variances=variances, correlation=None if is_alone else self.correlation)

    def fit(self, x: Tensor, y: Tensor, prediction: RegressionPrediction, weights: Tensor | None = None) -> None:
        """Fit factor and tail to weighted rows that networks have not seen, by penalised maximum likelihood, in place.

        Targets have shape (N, D); of one output that is known in part they are the ends of its intervals, (N, 2).
        """
        features = _noise_features(x, prediction.mean)
        weights = torch.ones(len(x), device=x.device) if weights is None else weights.to(x)
        self.center = weighted_mean(features, weights)
        self.scale = weighted_mean((features - self.center).square(), weights).sqrt() + 1e-6
        standard = ((features - self.center) / self.scale).clamp(-LARGEST_FEATURE, LARGEST_FEATURE)
        assert prediction.draw_means is not None
        assert prediction.draw_variances is not None
        of_intervals = y.shape[1] > self.num_outputs
        every = math.ceil(len(prediction.draw_means) / 25) if of_intervals else 1  # whose mass takes five densities
        means, log_variance = prediction.draw_means[::every], prediction.draw_variances[::every].log()
        square = (y[:, : self.num_outputs] - means).square()
        log_share = log_variance.log_softmax(0)  # of a draw in the noise of a row
        quantiles = _normal_quantiles(len(log_variance)).to(x)
        weight, offset, bend = (torch.zeros_like(each) for each in (self.weight, self.offset, self.bend))
        tail = torch.full_like(self.tail, 0.5)

        def log_likelihoods() -> Tensor:
            spread = _spread(tail, bend, quantiles)
            spread = spread - torch.logsumexp(log_share + spread, dim=0)  # so that the mean variance stays
            s = log_variance + spread + (standard * weight).sum(-1) + offset
            if of_intervals:
                return torch.logsumexp(interval_log_likelihood(means, s, *y.split(1, dim=1)), dim=0)
            return torch.logsumexp(-0.5 * (square * torch.exp(-s) + s), dim=0)

        def loss() -> Tensor:
            prior = WEIGHT_PRECISION * weight.square().sum() + OFFSET_PRECISION * offset.square().sum()
            prior = prior + TAIL_PRECISION * (tail.square().sum() + bend.square().sum())
            return 0.5 * prior - (weights @ log_likelihoods()).sum()

        minimise_nearly(loss, [weight, offset, tail])
        if (tail.abs() > 0.3).any():  # what is nearly Gaussian has no bend to find
            unbent, before = [weight.clone(), offset.clone(), tail.clone()], log_likelihoods()
            minimise_nearly(loss, [weight, offset, tail, bend])
            gains = log_likelihoods() - before
            for output, each in enumerate(gains.T):
                if not is_beyond_chance(each, weights):
                    bend[output] = 0.0
                    for new, old in zip([weight, offset, tail], unbent, strict=True):
                        new[output] = old[output]
        self.weight, self.offset, self.tail, self.bend = weight, offset, tail.abs(), bend

    def fit_counts(self, prediction: RegressionPrediction, y: Tensor, scores: Tensor, weights: Tensor) -> None:
        """Take counts for negative binomial, in place, if rows then exceed their scores by more than chance."""
        means, scale = draw_moments(*prediction.components(), prediction.scale)[0], prediction.scale
        log_rates, counts = rates(means.double(), scale).log(), ((y.double() - scale.least) / scale.step).round()
        if counts.max() > LARGEST_COUNT:
            return
        log_factor, log_dispersion = torch.zeros(1).to(log_rates), torch.full((1,), FIRST_LOG_DISPERSION).to(log_rates)

        def log_likelihoods() -> Tensor:
            of_draws = log_mass(log_rates + log_factor, log_dispersion, counts)
            return torch.logsumexp(of_draws, dim=0)[:, 0] - math.log(len(log_rates))

        def loss() -> Tensor:
            prior = log_factor.square() + DISPERSION_PRECISION * (log_dispersion - FIRST_LOG_DISPERSION).square()
            return 0.5 * prior.sum() - weights.to(log_rates) @ log_likelihoods()

        minimise(loss, [log_factor, log_dispersion], max_iter=60)
        if is_beyond_chance(log_likelihoods() - scores, weights):
            self.counts = torch.cat([log_factor, log_dispersion]).exp().to(self.counts)
            self.tail, self.bend = torch.zeros_like(self.tail), torch.zeros_like(self.bend)


def _spread(tail: Tensor, bend: Tensor, quantiles: Tensor) -> Tensor:
    """Log factors of the draws on their noise variances, up to a constant."""
    return tail * quantiles + bend * (quantiles.square() - 1) / 2


def _normal_quantiles(count: int) -> Tensor:
    """Standard normal quantiles at (r + 1/2) / count, shape (count, 1, 1), each stretch spread over all of them."""
    turns = torch.arange(count, dtype=torch.float64) * ((5**0.5 - 1) / 2) % 1  # the golden ratio
    return torch.special.ndtri((turns.argsort().argsort() + 0.5) / count).view(-1, 1, 1)


def _noise_features(x: Tensor, mean: Tensor) -> Tensor:
    """Inputs, mean and its square for each output, shape (N, D, F + 2)."""
    column = mean.unsqueeze(-1)
    return torch.cat([x.unsqueeze(1).expand(-1, mean.shape[1], -1), column, column.square()], dim=-1)


def weighted_mean(values: Tensor, weights: Tensor) -> Tensor:
    """Mean over the rows, in dimension 0."""
    return torch.tensordot(weights, values, dims=1) / weights.sum()
