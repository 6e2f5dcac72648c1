"""Noise that depends on the inputs, fitted to rows that the networks have not seen."""

import torch
from torch import Tensor, nn

from gumdrop.prediction import RegressionPrediction

__all__ = ["NoiseFunction", "weighted_mean"]

WEIGHT_PRECISION, OFFSET_PRECISION = 50.0, 0.25
LARGEST_FEATURE = 3.0


class NoiseFunction(nn.Module):
    """Factor on the noise variance of a network, log-linear in the inputs and the prediction.

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

    center: Tensor
    scale: Tensor
    weight: Tensor
    offset: Tensor

    def forward(self, x: Tensor, mean: Tensor) -> Tensor:
        """Evaluate the factor for rows of inputs and their predicted means."""
        features = ((_noise_features(x, mean) - self.center) / self.scale).clamp(-LARGEST_FEATURE, LARGEST_FEATURE)
        return ((features * self.weight).sum(-1) + self.offset).exp()

    def fit(self, x: Tensor, y: Tensor, prediction: RegressionPrediction, weights: Tensor | None = None) -> None:
        """Fit the factor to rows that the networks have not seen, by penalised maximum likelihood, in place.

        Args:
            x: Inputs, shape (N, F).
            y: Observations, shape (N, D).
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
        square = (y - prediction.draw_means).square()
        log_variance = prediction.draw_variances.log()
        weight = torch.zeros_like(self.weight).requires_grad_()
        offset = torch.zeros_like(self.offset).requires_grad_()
        optimizer = torch.optim.LBFGS([weight, offset], max_iter=60, line_search_fn="strong_wolfe")

        def loss() -> Tensor:
            optimizer.zero_grad()
            s = log_variance + (standard * weight).sum(-1) + offset
            nll = -(weights @ torch.logsumexp(-0.5 * (square * torch.exp(-s) + s), dim=0)).sum()
            prior = WEIGHT_PRECISION * weight.square().sum() + OFFSET_PRECISION * offset.square().sum()
            total = nll + 0.5 * prior
            total.backward()
            return total

        with torch.enable_grad():
            optimizer.step(loss)
        self.weight, self.offset = weight.detach(), offset.detach()


def _noise_features(x: Tensor, mean: Tensor) -> Tensor:
    """Inputs, mean and its square for each output, shape (N, D, F + 2)."""
    each = mean.unsqueeze(-1)
    return torch.cat([x.unsqueeze(1).expand(-1, mean.shape[1], -1), each, each.square()], dim=-1)


def weighted_mean(values: Tensor, weights: Tensor) -> Tensor:
    """Mean over the rows, in dimension 0."""
    return torch.tensordot(weights, values, dims=1) / weights.sum()
