"""Functions drawn from all members of an ensemble as one program, for members that are dense networks of one shape.

A prediction of one row is some ten thousand multiplications, and what leads to them (generators and masks of each
member) costs a hundred times as much. Here it is done once for a seed, and a prediction is a product a layer. To ask
the members one by one, as `gumdrop.ensembles.models` does with others, is the readable twin, and the test.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gumdrop.functional.devices import sent
from gumdrop.layers import dropout_blocks
from gumdrop.layers.attach import check_rates
from gumdrop.networks.dense import DenseFunctions
from gumdrop.prediction.drawing import MaskNoise
from gumdrop.prediction.draws import CACHED, MOST_BYTES


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
