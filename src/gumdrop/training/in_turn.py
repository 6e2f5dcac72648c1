"""Several models that cannot be stacked, called one after the other."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from gumdrop.layers.output_noise import HomoscedasticNoise
from gumdrop.likelihoods import Lengthscale, Likelihood
from gumdrop.networks.rates import Groups, parameter_groups
from gumdrop.objective.kl import kl_divergence
from gumdrop.prediction.drawing import draw
from gumdrop.prediction.inputs import tensor_of
from gumdrop.training.epochs import mean_rates

WAY_OUT = "wrap it in a module that returns the tensor, or train one model at a time with `fit` and its `output`"


class InTurn(nn.Module):
    """Converted models under the calls of one `gumdrop.networks.stacked.StackedMLP`."""

    def __init__(self, models: Sequence[nn.Module]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models).train()

    def learn(
        self, x: Tensor, y: Tensor, likelihood: Likelihood, lengthscale: Lengthscale, num_data: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Leave the gradient of a loss plus the KL over N in the parameters, and give both of each model, (models,)."""
        self.zero_grad()
        terms = []
        for model, inputs, targets, count in zip(self.models, x, y, num_data, strict=True):
            result = model(inputs)  # a likelihood of one's own may take more than a tensor
            output = tensor_of(result, None, WAY_OUT) if isinstance(result, Mapping) else result
            nll = likelihood.nll(output, targets).mean()
            kl = kl_divergence(model, num_data=count, lengthscale=lengthscale)
            (nll + kl / count).backward()
            terms.append(torch.stack([nll.detach(), kl.detach()]))
        losses, kls = torch.stack(terms, dim=1)
        return losses, kls

    def clip(self, max_norm: float) -> None:
        """Clip the gradient of each model to a norm."""
        for model in self.models:
            nn.utils.clip_grad_norm_(model.parameters(), max_norm)

    @torch.no_grad()
    def drawn(self, x: Tensor, num_samples: int, seed: int | None) -> Tensor:
        """Outputs under Bernoulli masks, (models, S, B, ...): of functions by their seed, or a mask for each row."""
        outputs = []
        for model, rows in zip(self.models, x, strict=True):
            if seed is None:
                function = draw(model, seed=int(torch.randint(2**31, ())), fresh=True, shared=False)
                outputs.append(torch.stack([function(rows) for _ in range(num_samples)]))
            else:
                outputs.append(torch.stack([draw(model, seed=seed + i)(rows) for i in range(num_samples)]))
        return torch.stack(outputs)

    def noises(self) -> list[Tensor]:
        """Log variances of the `gumdrop.HomoscedasticNoise` of the models, each of shape (D,); not copies."""
        return [module.log_variance.detach() for module in self.modules() if isinstance(module, HomoscedasticNoise)]

    def groups(self, weight_decay: float, rate_lr: float) -> Groups:
        """The parameter groups of all models, see `gumdrop.parameter_groups`."""
        groups = [parameter_groups(model, weight_decay=weight_decay, rate_lr=rate_lr) for model in self.models]
        return [group for each in groups for group in each]

    def rates(self) -> list[dict[str, float]]:
        """Drop probability of each site of each model, the mean where each unit has its own."""
        return [mean_rates(model) for model in self.models]

    def states(self) -> list[dict[str, Tensor]]:
        """State of each model; not copies."""
        return [model.state_dict() for model in self.models]
