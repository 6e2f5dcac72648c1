"""Learned rates where a network has dropout of its own: on residual branches, paths, embeddings, weights.

A module that does nothing but drop gets a site in front of it, and its own rate is set to 0. What is one unit of an
example, which is dropped whole, is said by a row of `DROPOUTS`; how many there are, the inputs say. No weight is known
behind such a site but for DropConnect, so its KL is the entropy of its masks alone (`docs/method.md`).
"""

import fnmatch
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from torch import Tensor, nn
from torch.nn.utils.parametrize import ParametrizationList

from gumdrop.functional.devices import sent
from gumdrop.functional.masks import Mask, apply_mask
from gumdrop.layers.block import Block, without_weight
from gumdrop.layers.site import ConcreteDropout

Units = int | Literal["shape", "example", "element"]


class DropoutKind(NamedTuple):
    """A family of modules that do nothing but drop, and pass on a tensor where their rate is 0."""

    rate: str
    """Attribute that holds the rate."""
    units: Units = "shape"
    """What is dropped whole: the entries of a dimension, counted from the end; the ``"example"``; each ``"element"`` of
    a weight; or by ``"shape"``: the entries of the last dimension, and where there are four or more, of that behind the
    examples, which holds the heads of attention weights and the channels of pictures."""
    why_not: str | None = None
    """Why there is no learned rate in its place; None if there is one."""


AFFINE = "its output has the mean and variance of its input, which a mask of a learned rate has not"
DROPOUTS: Mapping[str, DropoutKind] = {
    "Dropout1d": DropoutKind("p", -2),
    "Dropout2d": DropoutKind("p", -3),
    "Dropout3d": DropoutKind("p", -4),
    "Dropout": DropoutKind("p"),
    "*StableDropout": DropoutKind("drop_prob"),
    "*DropPath": DropoutKind("drop_prob", "example"),
    "StochasticDepth": DropoutKind("p", "example"),
    "AlphaDropout": DropoutKind("p", why_not=AFFINE),
    "FeatureAlphaDropout": DropoutKind("p", why_not=AFFINE),
    "DropBlock2d": DropoutKind(
        "drop_prob", why_not="its blocks of pixels have no units that a mask could be drawn for"
    ),
    "PatchDropout*": DropoutKind(
        "prob", why_not="it keeps a fixed number of tokens, which has no gradient in its rate"
    ),
}
"""All kinds, by shell patterns of the names of their classes, so that no library is imported; the first that fits a
class or one that it inherits from counts."""


def dropout_kind_of(module: nn.Module, custom: Mapping[type[nn.Module], DropoutKind]) -> DropoutKind | None:
    """Find the kind of a module that drops; None if it is not known to do nothing else."""
    own = (kind for cls, kind in custom.items() if isinstance(module, cls))
    names = [cls.__name__ for cls in type(module).__mro__]
    known = (kind for name in names for pattern, kind in DROPOUTS.items() if fnmatch.fnmatchcase(name, pattern))
    kind = next(own, None) or next(known, None)
    if kind is not None and not getattr(module, "scale_by_keep", True):
        return kind._replace(why_not="it does not divide by 1 - p, as dropout with a learned rate does")
    return kind


class DropInPlace(ConcreteDropout):
    """A site that learns from its inputs how many units it drops, with one rate for all of them.

    A use that comes later in one run of the code around it drops units of its own: those from ``start`` on. What is
    dropped whole is told as in a `DropoutKind`.
    """

    joins_table = False

    def __init__(self, units: Units, **options: Any) -> None:
        super().__init__(1, **options)
        self.use.units = 0
        self.units = units

    def _unit_dim(self, ndim: int) -> int | None:
        """Dimension of the units; None where the example is one."""
        if self.units == "shape":
            return ndim - 1 if ndim < 4 else self.batch_dim + 1
        if self.units == -3 == -ndim:  # as nn.Dropout2d reads it: sequences with channels
            return self.batch_dim + 1
        return ndim + self.units if isinstance(self.units, int) else None

    def _has_rows(self, x: Tensor) -> bool:
        dim = self._unit_dim(x.ndim)
        return self.units != "element" and self.batch_dim < (x.ndim if dim is None else dim)

    def factor_shape(self, shape: Sequence[int], leading: int = 0) -> list[int]:
        """Give the shape of a factor for all rows: size 1 for all dimensions but that of the units."""
        dim = self._unit_dim(len(shape))
        return [size if i == dim or self.units == "element" else 1 for i, size in enumerate(shape)]

    def units_of(self, x: Tensor, start: int) -> int:
        """Count the units of an input, and take note of them."""
        if isinstance(x, nn.Parameter):
            self.units = "element"
        count = math.prod(self.factor_shape(x.shape))
        self.use.units = max(self.use.units, start + count)
        return count

    def mask(self, x: Tensor, start: int = 0) -> Mask:
        """Give the mask of an input, see `ConcreteDropout.mask`."""
        count, rows = self.units_of(x, start), self.rows_of(x)
        if self.factor_source is None:
            self.use.called = True
            mask = self._own_mask((rows, count, start), (rows, count))
            return mask if mask.factor.device == x.device else Mask(sent(mask.factor, x.device))
        factor = self.factor_source(self, x)
        if factor.shape[1] < start + count:  # an input with more units than any before: masks come again
            factor = factor.repeat(1, -(-(start + count) // factor.shape[1]))
        return Mask(factor.narrow(1, start, count))

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """Drop units of ``x`` in training and where factors are given; pass it on otherwise."""
        self.units_of(x, start)
        if not self.is_active:
            return x
        shape, mask = self._mask_shape(x), self.mask(x, start)
        return apply_mask(x, mask, self._view_of(mask.factor, x, shape))

    def extra_repr(self) -> str:
        """Show what is dropped."""
        return super().extra_repr().replace(f"num_units={self.num_units}", f"units={self.units!r}")


def in_place_block(name: str, site: DropInPlace, weights: ParametrizationList | None) -> Block:
    """Give the block of a site; of DropConnect, which stands in the parametrization of a weight, with that weight."""
    weight = getattr(weights, "original", None)
    if weight is None:
        return without_weight(name, site)
    return Block(name, site, weight, (), lambda matrix: matrix.reshape(1, -1), weight[0].numel())
