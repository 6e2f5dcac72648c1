"""Several models that cannot be stacked, called one after the other."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gumdrop.layers import HomoscedasticNoise
from gumdrop.networks.rates import parameter_groups
from gumdrop.objective.elbo import default_lengthscale
from gumdrop.objective.kl import Lengthscale, kl_divergence
from gumdrop.prediction import sampling
from gumdrop.training.epochs import mean_rates
from gumdrop.training.settings import Likelihood

__all__ = ["InTurn", "Losses"]


class Losses(nn.Module):
    """A model that returns its mean negative log likelihood and its KL per datum, both by one functional call."""

    def __init__(self, model: nn.Module, lengthscale: Lengthscale | None) -> None:
        super().__init__()
        self.model, self.lengthscale = model, lengthscale

    def forward(self, x: Tensor, y: Tensor, num_data: Tensor, nll_of: Likelihood) -> tuple[Tensor, Tensor]:
        """Call the model on a batch."""
        nll = nll_of(self.model(x), y)
        lengthscale = default_lengthscale(nll) if self.lengthscale is None else self.lengthscale
        return nll.mean(), kl_divergence(self.model, num_data=num_data, lengthscale=lengthscale) / num_data


class InTurn(nn.Module):
    """Models that cannot be stacked, called one after the other; the same calls as `Together`.

    Args:
        models: Converted models.
        lengthscale: Prior, see `gumdrop.negative_elbo`.
    """

    def __init__(self, models: Sequence[nn.Module], lengthscale: Lengthscale | None) -> None:
        super().__init__()
        self.models = nn.ModuleList(models).train()
        self._losses = [Losses(model, lengthscale) for model in models]  # in a list: parameters stand once

    def backward(self, x: Tensor, y: Tensor, num_data: Tensor, nll_of: Likelihood) -> tuple[Tensor, Tensor]:
        """Set the gradients to those of the sum of the losses, each of a model on a batch of its own.

        Args:
            x: Inputs, shape (models, B, ...).
            y: Targets, shape (models, B, ...).
            num_data: Size of the training set of each model, shape (models,).
            nll_of: Negative log likelihood of each example.

        Returns:
            Mean negative log likelihood and KL per datum, each of shape (models,).
        """
        pairs = [call(*each, nll_of) for call, *each in zip(self._losses, x, y, num_data, strict=True)]
        nll, kl = (torch.stack(each) for each in zip(*pairs, strict=True))
        self.zero_grad()
        (nll + kl).sum().backward()
        return nll.detach(), kl.detach()

    @torch.no_grad()
    def drawn(self, x: Tensor, num_samples: int = 1) -> Tensor:
        """Outputs under Bernoulli masks, another one for each row and sample: (models, S B, ...), sample by sample."""
        x = x.repeat(1, num_samples, *[1] * (x.ndim - 2))
        outputs = []
        for model, each in zip(self.models, x, strict=True):
            with sampling(model, seed=int(torch.randint(2**31, ())), shared=False):
                outputs.append(model(each))
        return torch.stack(outputs)

    def noises(self) -> list[Tensor]:
        """Log variances of the `gumdrop.HomoscedasticNoise` of the models, each of shape (D,); not copies."""
        return [module.log_variance.detach() for module in self.modules() if isinstance(module, HomoscedasticNoise)]

    def groups(self, weight_decay: float, rate_lr: float) -> list[dict[str, Any]]:
        """The parameter groups of all models, see `gumdrop.parameter_groups`."""
        groups = [parameter_groups(model, weight_decay=weight_decay, rate_lr=rate_lr) for model in self.models]
        return [group for each in groups for group in each]

    def rates(self) -> list[dict[str, float]]:
        """Drop probability of each site of each model, the mean where each unit has its own."""
        return [mean_rates(model) for model in self.models]

    def states(self) -> list[dict[str, Tensor]]:
        """State of each model; not copies."""
        return [model.state_dict() for model in self.models]
