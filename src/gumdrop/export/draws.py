"""Functions drawn from a model in one pass, with all masks made of one table of noise: a graph that can be exported."""

import copy
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from gumdrop.export.errors import ExportError
from gumdrop.layers import KINDS, ConcreteDropout, PiecewiseLinear, dropout_blocks
from gumdrop.layers.kinds import inner_dropout
from gumdrop.layers.numbers import keep_asking
from gumdrop.layers.output_noise import HomoscedasticNoise
from gumdrop.layers.site import bernoulli_factors

LAST_DIMENSION_ONLY = (
    *(cls for kind in KINDS if kind.last_dimension_only for cls in kind.types),
    nn.Sequential,
    nn.ReLU,
    nn.LeakyReLU,
    nn.ELU,
    nn.GELU,
    nn.SiLU,
    nn.Tanh,
    nn.Sigmoid,
    nn.Softplus,
    nn.Identity,
    nn.LayerNorm,
    HomoscedasticNoise,
    PiecewiseLinear,
    ConcreteDropout,
)


class Draws(nn.Module):
    """Copy of a model that evaluates several drawn functions at once; its noise is an input.

    A draw shares its masks among all rows, as `gumdrop.draw` does. The rows are repeated for each draw, and the mask of
    a site repeated for each row; networks that act on the last dimension alone take the draws as examples and the rows
    as positions instead, which repeats nothing. ``nn.Dropout*`` modules draw a mask for each row by themselves.

    Shape:
        Inputs (N, ...) each and noise (S, ``num_noise``), uniform in [0, 1). Output (S, N, ...).
    """

    def __init__(self, model: nn.Module, *, names: Sequence[str] | None = None) -> None:
        super().__init__()
        self.model = copy.deepcopy(model).eval()
        keep_asking(self.model)
        self.names = names
        self.has_own_noise = _renew_plain_dropout(self.model)
        self._given: dict[int, Tensor] = {}
        self._sites: dict[str, ConcreteDropout] = {}
        for block in dropout_blocks(self.model):
            if block.site not in self._sites.values():
                self._sites[block.name] = block.site
                block.site.factor_source = bernoulli_factors(self._noise_of)
        if not (self._sites or self.has_own_noise):
            raise ExportError(
                "`model` has no dropout that can be drawn, so there is nothing stochastic to export; convert it with "
                "`gumdrop.learn_dropout(model)`"
            )
        self.takes_positions = bool(self._sites) and all(type(m) in LAST_DIMENSION_ONLY for m in self.model.modules())

    @property
    def layout(self) -> dict[str, int]:
        """Columns of noise that each site takes, in order, by the name of the site."""
        return {name: site.num_units for name, site in self._sites.items()}

    @property
    def num_noise(self) -> int:
        """Columns of noise that a draw takes."""
        return sum(self.layout.values())

    @property
    def rates(self) -> dict[str, float | list[float]]:
        """Learned drop probability of each site, or of each of its units."""
        return {name: site.p.tolist() for name, site in self._sites.items()}

    @property
    def drops(self) -> bool:
        """Whether any rate is above 0."""
        return any(bool((site.p > 0).any()) for site in self._sites.values())

    def forward(self, inputs: Sequence[Tensor], noise: Tensor) -> Tensor:
        """Evaluate one function for each row of noise."""
        draws, rows = noise.shape[0], inputs[0].shape[0]
        parts = noise.split(list(self.layout.values()), dim=1)
        by_position = self.takes_positions and len(inputs) == 1 and inputs[0].ndim == 2
        repeat = not (by_position or (isinstance(draws, int) and draws == 1))
        for site, part in zip(self._sites.values(), parts, strict=True):
            self._given[id(site)] = part.unsqueeze(1).expand(-1, rows, -1).flatten(0, 1) if repeat else part
        if repeat:
            inputs = [x.unsqueeze(0).expand(draws, *x.shape).reshape(draws * rows, *x.shape[1:]) for x in inputs]
        try:
            result = self._call([x.unsqueeze(0) for x in inputs] if by_position else inputs)
        finally:
            self._given.clear()
        if by_position:
            return result
        return result.reshape(draws, rows, *result.shape[1:])

    def _call(self, inputs: Sequence[Tensor]) -> Tensor:
        result = self.model(*inputs) if self.names is None else self.model(**dict(zip(self.names, inputs, strict=True)))
        if isinstance(result, Mapping) and "logits" in result:  # as the models of transformers do
            result = result["logits"]
        if not isinstance(result, Tensor):
            raise ExportError(
                f"`model` must return a tensor, or a mapping with `logits`, got {type(result).__name__}; wrap it in a "
                "module that returns one"
            )
        return result

    def _noise_of(self, site: ConcreteDropout, rows: int) -> Tensor:
        return self._given[id(site)]


def _renew_plain_dropout(model: nn.Module) -> bool:
    """Switch on every ``nn.Dropout*``; tell whether there was one."""
    is_renewed = False
    for name, module in model.named_modules():
        if inner_dropout(module):
            raise ExportError(
                f"{name or 'the model'} ({type(module).__name__}) drops by itself, in code that cannot be given masks; "
                "set its `dropout` to 0 before the export, or let its rates be learned"
            )
        if isinstance(module, (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)) and module.p > 0:
            vars(module)["forward"] = _PlainDropout(module)
            is_renewed = True
    return is_renewed


class _PlainDropout:
    """Forward of an ``nn.Dropout*`` that compares noise: a Bernoulli draw may be frozen into the file."""

    def __init__(self, module: _DropoutNd) -> None:
        self.p = module.p
        self.by_channel = not isinstance(module, nn.Dropout)

    def __call__(self, x: Tensor) -> Tensor:
        some = x[(slice(None), slice(None)) + (slice(0, 1),) * (x.ndim - 2)] if self.by_channel else x
        return x * (torch.rand_like(some) >= self.p) / max(1 - self.p, torch.finfo(x.dtype).tiny)
