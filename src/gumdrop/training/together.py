"""Several models of one architecture under one set of calls, stacked into one batched program."""

import contextlib
import copy
import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from gumdrop.functional.noise import uniform_noise
from gumdrop.layers import (
    UNIT,
    ConcreteDropout,
    HomoscedasticNoise,
    bernoulli_factors,
    dropout_blocks,
    factors_from,
)
from gumdrop.networks.rates import parameter_groups
from gumdrop.objective.kl import Lengthscale
from gumdrop.training.in_turn import Losses
from gumdrop.training.settings import Likelihood

__all__ = ["Together"]


def _noise_of_rows(site: ConcreteDropout, rows: int) -> Tensor:
    return uniform_noise((rows, site.num_units), dtype=torch.promote_types(site.scaled_logit.dtype, torch.float32))


class Together(nn.Module):
    """The parameters of models of one architecture, stacked in dimension 0, so that each operation serves all.

    Args:
        models: Converted models with the same layers and shapes.
        lengthscale: Prior, see `gumdrop.negative_elbo`.
    """

    def __init__(self, models: Sequence[nn.Module], lengthscale: Lengthscale | None) -> None:
        super().__init__()
        parameters, buffers = stack_module_state([Losses(model, lengthscale) for model in models])
        # Dots cannot stand in the names of a module's own parameters.
        self._keys = {name: name.replace(".", "/") for name in [*parameters, *buffers]}
        wanted = {f"model.{name}": value.requires_grad for name, value in models[0].named_parameters()}
        for name, value in parameters.items():
            self.register_parameter(self._keys[name], nn.Parameter(value.detach(), requires_grad=wanted[name]))
        for name, value in buffers.items():
            self.register_buffer(self._keys[name], value)
        self._template = [Losses(copy.deepcopy(models[0]), lengthscale).train()]  # in a list: not a part of this one

    @property
    def _model(self) -> nn.Module:
        return self._template[0].model

    def _stacked_of(self, value: Tensor) -> Tensor:
        model = self._template[0]
        named = itertools.chain(model.named_parameters(), model.named_buffers())
        (name,) = (name for name, each in named if each is value)
        return self._values()[name]

    def _values(self) -> dict[str, Tensor]:
        return {name: getattr(self, key) for name, key in self._keys.items()}

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

        def one(values: dict[str, Tensor], x: Tensor, y: Tensor, num_data: Tensor) -> tuple[Tensor, Tensor]:
            return functional_call(self._template[0], values, (x, y, num_data, nll_of))

        self.zero_grad()
        nll, kl = vmap(one, randomness="different")(self._values(), x, y, num_data)
        (nll + kl).sum().backward()
        return nll.detach(), kl.detach()

    @torch.no_grad()
    def drawn(self, x: Tensor, num_samples: int = 1) -> Tensor:
        """Outputs under Bernoulli masks, another one for each row and sample: (models, S B, ...), sample by sample."""
        x = x.repeat(1, num_samples, *[1] * (x.ndim - 2))
        values = {name.removeprefix("model."): value for name, value in self._values().items()}
        with self._drawing():
            call = functools.partial(functional_call, self._model)
            return vmap(lambda values, x: call(values, (x,)), randomness="different")(values, x)

    @contextlib.contextmanager
    def _drawing(self) -> Iterator[None]:
        """Switch the template from relaxed to drawn masks; no generator, so that each model draws its own."""
        try:
            self._model.eval()
            with factors_from(bernoulli_factors(_noise_of_rows), self._model):
                yield
        finally:
            self._model.train()

    def noises(self) -> list[Tensor]:
        """Log variances of the `gumdrop.HomoscedasticNoise` of the models, each of shape (D,); not copies."""
        modules = [module for module in self._model.modules() if isinstance(module, HomoscedasticNoise)]
        return [each for module in modules for each in self._stacked_of(module.log_variance).detach()]

    def groups(self, weight_decay: float, rate_lr: float) -> list[dict[str, Any]]:
        """The parameter groups of one model, with stacked parameters in them, see `gumdrop.parameter_groups`."""
        groups = parameter_groups(self._model, weight_decay=weight_decay, rate_lr=rate_lr)
        return [group | {"params": [self._stacked_of(each) for each in group["params"]]} for group in groups]

    def rates(self) -> list[dict[str, float]]:
        """Drop probability of each site of each model, the mean where each unit has its own."""
        blocks = list(dropout_blocks(self._model))
        p = {block.name: torch.sigmoid(UNIT * self._stacked_of(block.site.scaled_logit).detach()) for block in blocks}
        columns = {name: (each.flatten(1).mean(1) if each.ndim > 1 else each).tolist() for name, each in p.items()}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def states(self) -> list[dict[str, Tensor]]:
        """State of each model, under the names of a single one; slices, not copies."""
        named = [(name.removeprefix("model."), value.detach()) for name, value in self._values().items()]
        count = len(named[0][1])
        return [{name: value[i] for name, value in named} for i in range(count)]
