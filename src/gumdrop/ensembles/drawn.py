"""Functions drawn from all members of an ensemble as one program, for members that are dense networks of one shape.

A prediction of one row is some ten thousand multiplications, and what leads to them (a twin, generators and masks of
each member) costs a hundred times as much. Here it is done once for a seed, and a prediction is a product a layer.
Asking the members one by one, as `gumdrop.ensembles.models` does with others, is the readable twin, and the test.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gumdrop.functional.devices import sent
from gumdrop.functional.masks import inverse_keep
from gumdrop.layers import PiecewiseLinear, check_rates
from gumdrop.prediction.drawing import MaskNoise
from gumdrop.prediction.ways.chain import chain_of
from gumdrop.prediction.ways.evaluate import CACHED, MOST_BYTES
from gumdrop.training.dense_layers import ACTIVATIONS, dense_layers_of, site_of

__all__ = ["DrawnFunctions"]


@dataclass(frozen=True, eq=False)
class DrawnFunctions:
    """S functions of each of M members: copies of their weights, and the factors of their sites."""

    encoding: PiecewiseLinear | None
    """What stands in front of all of them."""
    activation: Callable[[Tensor], Tensor]
    """Between the layers."""
    weights: list[Tensor]
    """Of each layer, (M, K, O)."""
    biases: list[Tensor]
    """Of each layer, (M, 1, O)."""
    factors: list[Tensor]
    """Of the site in front of each layer, (M, S, 1, K): 0, or the inverse of the probability of keeping."""
    log_variance: Tensor | None
    """Of the noise, (M S, 1, D); None where the last layer is the output."""

    @classmethod
    @torch.no_grad()
    def of(cls, members: Sequence[nn.Module], num_samples: int, seeds: Sequence[int | None]) -> "DrawnFunctions | None":
        """Draw the functions that each member draws by itself under its seed.

        Args:
            members: The members.
            num_samples: Functions of each, S.
            seeds: Seed of each.

        Returns:
            The functions; None if the members are no dense networks of one shape, or somebody watches their layers.
        """
        parts = dense_layers_of(members)
        if num_samples < 1 or parts is None or any(chain_of(member) is None for member in members):
            return None
        layers = list(zip(*(each.layers for each in parts), strict=False))
        shapes = {tuple(layer.weight.shape for layer in each.layers) for each in parts}
        if len(shapes) > 1 or len({each.noise is None for each in parts}) > 1:
            return None
        noise = []
        for member, each, seed in zip(members, parts, seeds, strict=True):
            sites = [site_of(layer) for layer in each.layers]
            check_rates(sites, member)
            source = MaskNoise(sites, [], seed, shared=True, pinned=False)
            noise.append([source.rows(site, num_samples) for site in sites])
        factors = []
        for same, drawn in zip(layers, zip(*noise, strict=True), strict=True):
            logit = torch.stack([site_of(layer).p_logit for layer in same])[:, None, None]
            keep = sent(torch.stack(drawn), logit.device).ge_(torch.sigmoid(logit))
            factors.append(keep.mul_(inverse_keep(logit)).unsqueeze(2))
        variances: list[Tensor] = [each.noise.log_variance for each in parts if each.noise is not None]
        return cls(
            parts[0].encoding,
            ACTIVATIONS[parts[0].activation][0],
            [torch.stack([layer.weight for layer in same]).mT for same in layers],
            [torch.stack([layer.bias for layer in same]).unsqueeze(1) for same in layers],
            factors,
            torch.stack(variances).repeat_interleave(num_samples, 0).unsqueeze(1) if variances else None,
        )

    def takes(self, x: Tensor, batch_size: int | None) -> bool:
        """Tell whether arguments are right; what is wrong with others, the members say when they are asked."""
        num_inputs = self.factors[0].shape[-1] if self.encoding is None else self.encoding.num_inputs
        fits = x.ndim == 2 and len(x) > 0 and x.shape[1] == num_inputs and x.dtype == self.weights[0].dtype
        return fits and (batch_size is None or batch_size >= 1)

    @torch.no_grad()
    def outputs(self, x: Tensor, batch_size: int | None = None) -> Iterator[Tensor]:
        """Evaluate all functions, for so few rows at a time that what a layer gives stays in the cache.

        Args:
            x: Inputs, shape (N, F).
            batch_size: Rows that run at once, at most.

        Yields:
            Outputs of the last layer for the next rows, shape (M S, B, O), member by member.
        """
        largest = max(factor.numel() for factor in self.factors) * x.element_size()
        step = max(1, (CACHED if x.device.type == "cpu" else MOST_BYTES) // largest)
        yield from map(self._run, x.split(min(step, batch_size or step)))

    def _run(self, x: Tensor) -> Tensor:
        a = x if self.encoding is None else self.encoding(x)
        for i, (weight, bias, factor) in enumerate(zip(self.weights, self.biases, self.factors, strict=True)):
            # Of the first layer all functions see the same inputs; later ones have memory of their own.
            a = self.activation(a).unflatten(1, (-1, len(x))).mul_(factor) if i else a * factor
            a = torch.baddbmm(bias, a.flatten(1, 2), weight)
        return a.unflatten(1, (-1, len(x))).flatten(0, 1)
