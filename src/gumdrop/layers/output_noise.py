"""The noise of a regression network with one learned variance per output."""

import torch
from torch import Tensor, nn


class HomoscedasticNoise(nn.Module):
    r"""Noise of one learned variance per output, as the last layer of a regression network.

    It appends the log variance to the means, so that the output reads like that of a heteroscedastic network.
    The precision :math:`\tau = 1/\sigma^2` may have a Gamma prior; its negative log density over
    :math:`\log\tau` is part of `kl_divergence`:

    .. math:: -a \log\tau + b\,\tau \quad (\text{mode at } \tau = a / b)

    Args:
        num_outputs: ``D``, the number of means.
        log_variance: Initial log variance, in squared units of the target.
        gamma_prior: Shape ``a`` and rate ``b`` of the prior, both positive; no prior if None.

    Shape:
        Input: (..., D). Output: (..., 2 D), means and log variances.

    Raises:
        ValueError: If an argument is outside its range.
    """

    def __init__(
        self, num_outputs: int, *, log_variance: float = 0.0, gamma_prior: tuple[float, float] | None = None
    ) -> None:
        super().__init__()
        if num_outputs < 1:
            raise ValueError(f"`num_outputs` must be at least 1, got {num_outputs}")
        if gamma_prior is not None and not min(gamma_prior) > 0:
            raise ValueError(f"`gamma_prior` must be a positive shape and rate, got {gamma_prior}")
        self.gamma_prior = gamma_prior
        self.log_variance = nn.Parameter(torch.full((num_outputs,), float(log_variance)))

    def forward(self, mean: Tensor) -> Tensor:
        """Append the log variances to the means."""
        if mean.shape[-1] != len(self.log_variance):
            raise ValueError(f"the input must have {len(self.log_variance)} means, got shape {tuple(mean.shape)}")
        return torch.cat([mean, self.log_variance.expand_as(mean).to(mean.dtype)], dim=-1)

    def negative_log_prior(self) -> Tensor:
        """Negative log density of the prior, up to a constant, in nats; 0 without a prior."""
        if self.gamma_prior is None:
            return self.log_variance.new_zeros(())
        shape, rate = self.gamma_prior
        return (shape * self.log_variance + rate * torch.exp(-self.log_variance)).sum()
