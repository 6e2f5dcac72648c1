"""Noise that depends on the inputs, with tails, fitted to rows that the networks have not seen."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from gumdrop.likelihoods import RegressionPrediction
from gumdrop.likelihoods.part_known import interval_log_likelihood
from gumdrop.machine.optimizers import without_compiler

__all__ = ["NoiseFunction", "weighted_mean"]

WEIGHT_PRECISION, OFFSET_PRECISION, TAIL_PRECISION = 50.0, 0.25, 4.0
FIRST_TAIL = 0.5
LARGEST_FEATURE = 3.0
GOLDEN_RATIO = (5**0.5 - 1) / 2


class NoiseFunction(nn.Module):
    """Factor on the noise variance of a network, log-linear in the inputs and the prediction, and its tail.

    The draws of a prediction differ in their noise as well: their log variances are spread by the standard deviation
    ``tail``, so that the mixture of all has heavier tails, and a narrower middle, than a Gaussian.

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

    @property
    def num_outputs(self) -> int:
        """D."""
        return len(self.offset)

    center: Tensor
    scale: Tensor
    weight: Tensor
    offset: Tensor
    tail: Tensor

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Take the noise of earlier versions, too, which had no tail."""
        if f"{prefix}offset" in state_dict:
            state_dict.setdefault(f"{prefix}tail", torch.zeros_like(state_dict[f"{prefix}offset"]))
        super()._load_from_state_dict(state_dict, prefix, *args)

    def forward(self, x: Tensor, mean: Tensor) -> Tensor:
        """Evaluate the factor for rows of inputs and their predicted means."""
        features = ((_noise_features(x, mean) - self.center) / self.scale).clamp(-LARGEST_FEATURE, LARGEST_FEATURE)
        return ((features * self.weight).sum(-1) + self.offset).exp()

    def tail_factors(self, num_draws: int) -> Tensor:
        r"""Give the draws of a prediction noise of different size.

        .. math:: t_s \propto \exp(\tau z_s), \quad z_s = \Phi^{-1}((r_s + 1/2) / S)

        The ranks r of the draws follow the multiples of the golden ratio, so that each member has small and large ones,
        whether the draws stand member by member or the members take turns.

        Args:
            num_draws: ``S``.

        Returns:
            Factors on the noise variances, shape (S, 1, D), with a mean of 1 over the draws; all 1 for a single draw.
        """
        factors = (self.tail * _normal_quantiles(num_draws).to(self.tail)).exp()
        return factors / factors.mean(0)

    def with_tail(self, prediction: RegressionPrediction) -> RegressionPrediction:
        """Spread the noise variances of the draws; their mean for each row and output stays what it is.

        Args:
            prediction: A mixture of all draws.

        Returns:
            The prediction with this tail, and the same moments; unchanged if the draws were not kept.
        """
        if prediction.draw_variances is None:
            return prediction
        variances = prediction.draw_variances * self.tail_factors(len(prediction.draw_variances))
        return replace(prediction, draw_variances=variances.mul_(prediction.aleatoric / variances.mean(0)))

    def fit(self, x: Tensor, y: Tensor, prediction: RegressionPrediction, weights: Tensor | None = None) -> None:
        """Fit factor and tail to rows that the networks have not seen, by penalised maximum likelihood, in place.

        Args:
            x: Inputs, shape (N, F).
            y: Observations, shape (N, D); of one output that is known in part the ends of its intervals, (N, 2).
            prediction: What was predicted for them, with its draws.
            weights: How many equal rows each row stands for, shape (N,); 1 if None.
        """
        features = _noise_features(x, prediction.mean)
        weights = torch.ones(len(x), device=x.device) if weights is None else weights.to(x)
        self.center = weighted_mean(features, weights)
        self.scale = weighted_mean((features - self.center).square(), weights).sqrt() + 1e-6
        standard = ((features - self.center) / self.scale).clamp(-LARGEST_FEATURE, LARGEST_FEATURE)
        assert prediction.draw_means is not None
        assert prediction.draw_variances is not None
        means, of_intervals = prediction.draw_means, y.shape[1] > self.num_outputs
        square = (y[:, : self.num_outputs] - means).square()
        log_variance = prediction.draw_variances.log()
        log_share = log_variance.log_softmax(0)  # of a draw in the noise of a row
        quantiles = _normal_quantiles(len(log_variance)).to(x)
        weight = torch.zeros_like(self.weight).requires_grad_()
        offset = torch.zeros_like(self.offset).requires_grad_()
        tail = torch.full_like(self.tail, FIRST_TAIL).requires_grad_()
        optimizer = without_compiler(torch.optim.LBFGS)(
            [weight, offset, tail], max_iter=60, line_search_fn="strong_wolfe"
        )

        def loss() -> Tensor:
            optimizer.zero_grad()
            spread = tail * quantiles
            spread = spread - torch.logsumexp(log_share + spread, dim=0)  # so that the mean variance stays
            s = log_variance + spread + (standard * weight).sum(-1) + offset
            each = -0.5 * (square * torch.exp(-s) + s)
            if of_intervals:
                each = interval_log_likelihood(means, s, *y.split(1, dim=1))
            nll = -(weights @ torch.logsumexp(each, dim=0)).sum()
            prior = WEIGHT_PRECISION * weight.square().sum() + OFFSET_PRECISION * offset.square().sum()
            prior = prior + TAIL_PRECISION * tail.square().sum()
            total = nll + 0.5 * prior
            total.backward()
            return total

        with torch.enable_grad():
            optimizer.step(loss)
        self.weight, self.offset, self.tail = weight.detach(), offset.detach(), tail.detach().abs()


def _normal_quantiles(count: int) -> Tensor:
    """Standard normal quantiles at (r + 1/2) / count, shape (count, 1, 1), each stretch spread over all of them."""
    turns = torch.arange(count, dtype=torch.float64) * GOLDEN_RATIO % 1
    return torch.special.ndtri((turns.argsort().argsort() + 0.5) / count).view(-1, 1, 1)


def _noise_features(x: Tensor, mean: Tensor) -> Tensor:
    """Inputs, mean and its square for each output, shape (N, D, F + 2)."""
    each = mean.unsqueeze(-1)
    return torch.cat([x.unsqueeze(1).expand(-1, mean.shape[1], -1), each, each.square()], dim=-1)


def weighted_mean(values: Tensor, weights: Tensor) -> Tensor:
    """Mean over the rows, in dimension 0."""
    return torch.tensordot(weights, values, dims=1) / weights.sum()
