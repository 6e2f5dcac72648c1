"""The dropout site: one learned rate and the masks that it draws."""

import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gumdrop.functional.devices import sent
from gumdrop.functional.masks import Kept, Mask, apply_mask, attach_mask, dropout_scale
from gumdrop.functional.noise import is_traced, uniform_noise
from gumdrop.layers.passes import drawn_once, mask_of_table
from gumdrop.layers.rate import UNIT, logit_of
from gumdrop.layers.use import SiteUse

GONE = 0.005
"""A rate below this drops nothing that shows."""

FactorSource = Callable[["ConcreteDropout", Tensor], Tensor]
"""Gives a site the factor ``z / (1 - p)`` for an input: shape (rows, num_units), or (1, num_units) for all rows.

It is the only way to do so, whatever the mode of the model: a drawn function has Bernoulli masks of its own stream of
noise, many draws at once what they hold for a site, an exported graph masks of the noise that is its input."""


class ConcreteDropout(nn.Module):
    r"""Dropout on the input units of one layer, with a rate that is learned.

    .. math:: y = x \cdot z / (1 - p), \qquad
              z = \sigma\big((\operatorname{logit} u - \operatorname{logit} p) / t\big)

    A mask is a draw of the weights that follow it, so one example sees one mask: it is shared by all positions
    (tokens, time steps, pixels) of the example. In training the mask is relaxed and differs from row to row; in
    eval the site passes its input on; inside `gumdrop.sampling` and the functions that predict, the mask is a
    Bernoulli draw.

    `gumdrop.learn_dropout` places sites in front of the layers of a model; there is seldom a reason to make
    one by hand.

    The parameter, ``scaled_logit``, is the logit of the rate over `UNIT`, so that optimisers of the Adam family move
    the logit ten times as fast as a weight. Its gradient is that of the logit over `UNIT` too, where the chain rule has
    a product: plain SGD moves the logit by its learning rate times the gradient of the logit.

    Args:
        num_units: ``K``, the number of input units (channels) that can be dropped.
        p: Initial drop probability, in (0, 1).
        per_unit: Learn one rate for each unit instead of one for all.
        temperature: Temperature of the relaxed mask, positive.
        strength: What the entropy of the masks counts in the KL divergence, positive: 1 is the posterior of the ELBO,
            more keeps rates up that would fall to 0, less lets go of them. An attribute that may change as training
            goes on; like the temperature it is no part of a state dict, since predictions do not depend on it.
        feature_dim: Dimension of the input that holds the units, counted from the end (-1 for dense layers and
            tokens, -3 for a 2-D convolution).
        batch_dim: Dimension of the input that counts examples; an input without it is a single example.
        device: Device of the rate.
        dtype: float32 or float64.

    Shape:
        Input and output: any shape with ``num_units`` at ``feature_dim``.

    Raises:
        ValueError: If an argument is outside its range.

    References:
        Gal, Hron & Kendall 2017, "Concrete Dropout" (arXiv:1705.07832).
    """

    rows_dim: int
    """Dimension that counts the examples of a model's first input, for the table of a pass; mostly ``batch_dim``."""
    joins_table = True
    """Whether its masks are drawn with those of the other sites as a pass begins, see `gumdrop.layers.table`."""

    def __init__(
        self,
        num_units: int,
        *,
        p: float = 0.1,
        per_unit: bool = False,
        temperature: float = 0.1,
        strength: float = 1.0,
        feature_dim: int = -1,
        batch_dim: int = 0,
        device: torch.device | str | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        if num_units < 1:
            raise ValueError(f"`num_units` must be at least 1, got {num_units}")
        if not 0 < p < 1:
            raise ValueError(f"`p` must be strictly between 0 and 1, got {p}; p is the probability of dropping a unit")
        if not temperature > 0:
            raise ValueError(f"`temperature` must be a positive number, got {temperature}; 0.1 is the usual choice")
        if not 0 < strength < math.inf:
            raise ValueError(f"`strength` must be a positive number, got {strength}; 1 is the posterior of the ELBO")
        if feature_dim >= 0:
            raise ValueError(f"`feature_dim` is counted from the end and must be negative, got {feature_dim}")
        self.temperature = temperature
        self.strength = strength
        self.feature_dim = feature_dim
        self.batch_dim = self.rows_dim = batch_dim
        self.initial_p = p
        self.scaled_logit = nn.Parameter(torch.empty((num_units,) if per_unit else (), device=device, dtype=dtype))
        self.reset_parameters()
        self._has_value = not self.scaled_logit.is_meta
        self.factor_source: FactorSource | None = None
        self.weight_matrix: Callable[[nn.Module], Tensor] | None = None
        self.use = SiteUse(num_units)

    def reset_parameters(self) -> None:
        """Set the rate to the one that it starts from, ``initial_p``."""
        with torch.no_grad():  # not by torch.nn.init, which loaders of checkpoints switch off for a while
            self.scaled_logit.fill_((math.log(self.initial_p) - math.log1p(-self.initial_p)) / UNIT)

    def start_at(self, p: float) -> None:
        """Set the rate to a drop probability in (0, 1), and what it starts from."""
        self.initial_p = p
        self.reset_parameters()

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *args: Any) -> None:
        """Take the logit itself, too, which was the parameter once."""
        if f"{prefix}p_logit" in state_dict:
            state_dict[f"{prefix}scaled_logit"] = state_dict.pop(f"{prefix}p_logit") / UNIT
        super()._load_from_state_dict(state_dict, prefix, *args)

    @property
    def _is_hf_initialized(self) -> bool:
        """Whether `from_pretrained` of Hugging Face need not look for a value of the rate.

        It builds models without memory, gives memory to what a checkpoint lacks, and then asks each module this, and
        the model what to do if not, which knows no sites. So a site whose rate was not loaded sets it here.
        """
        if not (self._has_value or self.scaled_logit.is_meta):
            if not getattr(self.scaled_logit, "_is_hf_initialized", False):
                self.reset_parameters()
            self._has_value = True
        return True

    @_is_hf_initialized.setter
    def _is_hf_initialized(self, value: bool) -> None:
        self._has_value = self._has_value or value

    @property
    def num_units(self) -> int:
        """``K``, the number of units that can be dropped."""
        return self.use.units

    @property
    def p_logit(self) -> Tensor:
        """Logit of the drop probability, with a gradient for ``scaled_logit``: a scalar, or shape ``(num_units,)``."""
        return logit_of(self.scaled_logit)

    @property
    def p(self) -> Tensor:
        """Drop probability, detached: a scalar, or shape ``(num_units,)``."""
        return torch.sigmoid(UNIT * self.scaled_logit.detach())

    @property
    def is_fixed(self) -> bool:
        """Whether the rate is frozen: then it has no gradient and masks are Bernoulli draws in training too."""
        return "scaled_logit" in self._buffers

    @property
    def is_active(self) -> bool:
        """Whether the next call drops anything."""
        return self.training or self.factor_source is not None

    @property
    def is_hard(self) -> bool:
        """Whether masks are Bernoulli draws or given, rather than relaxed."""
        return self.is_fixed or self.factor_source is not None

    def fix(self) -> None:
        """Freeze the rate: it becomes a buffer of the same name, out of reach of any optimiser."""
        if not self.is_fixed:
            scaled_logit = self.scaled_logit.detach()
            del self.scaled_logit
            self.register_buffer("scaled_logit", scaled_logit)

    def mask(self, x: Tensor) -> Mask:
        """Give the mask of an input: one that is given, that of the table of the pass, or one of its own."""
        rows = self.rows_of(x)
        if self.factor_source is not None:
            return Mask(self.factor_source(self, x))
        self.use.called = True
        mask = mask_of_table(self.use, rows) or self._own_mask(rows, (rows, self.num_units))
        return mask if mask.factor.device == x.device else Mask(sent(mask.factor, x.device))

    def _own_mask(self, key: Any, shape: tuple[int, int]) -> Mask:
        """Draw a mask that is kept for the pass under a key."""
        noise, device = functools.partial(self.noise, shape), self.scaled_logit.device
        if is_traced() or self.use.kept is not None:
            drawn = drawn_once(self.use, key, noise, device)
            return Mask(dropout_scale(self.p_logit, drawn, temperature=self.temperature, hard=self.is_fixed))
        if self.is_fixed:
            return Mask(drawn_once(self.use, key, lambda: dropout_scale(self.p_logit, noise(), hard=True), device))
        kept = drawn_once(self.use, key, lambda: Kept.of(self.p_logit, noise(), self.temperature), device)
        return attach_mask(self.p_logit, kept, self.temperature)

    def fresh_noise(self, rows: int) -> Tensor:
        """Draw the uniform noise of one pass, shape (rows, num_units), for a mask that is computed elsewhere."""
        self.use.called = True
        noise = functools.partial(self.noise, (rows, self.num_units))
        return drawn_once(self.use, rows, noise, self.scaled_logit.device)

    def noise(self, shape: Sequence[int]) -> Tensor:
        """Draw uniform noise for masks, on the device of the rate."""
        scaled = self.scaled_logit
        dtype = torch.promote_types(scaled.dtype, torch.float32)
        return uniform_noise(shape, dtype=dtype, device=scaled.device)

    def factor(self, x: Tensor) -> Tensor:
        """Give what multiplies ``x``, of size 1 wherever the mask is shared."""
        shape, factor = self._mask_shape(x), self.mask(x).factor
        return factor.view(self._view_of(factor, x, shape))

    def _view_of(self, factor: Tensor, x: Tensor, shape: list[int]) -> list[int]:
        if self._has_rows(x):
            shape[self.batch_dim] = factor.shape[0]  # not len, which would fix the rows of an exported model
        return shape

    def rows_of(self, x: Tensor) -> int:
        """Count the examples of an input."""
        return x.shape[self.batch_dim] if self._has_rows(x) else 1

    def factor_shape(self, shape: Sequence[int], leading: int = 0) -> list[int]:
        """Check the shape of an input, with no units in ``leading`` dimensions; give that of a factor for all rows."""
        dim = len(shape) + self.feature_dim
        if dim < leading or shape[dim] != self.num_units:
            raise ValueError(
                f"the input must have {self.num_units} units at dimension {self.feature_dim}, got shape {tuple(shape)}"
            )
        result = [1] * len(shape)
        result[dim] = self.num_units
        return result

    def _has_rows(self, x: Tensor) -> bool:
        return self.batch_dim < x.ndim + self.feature_dim

    def _mask_shape(self, x: Tensor) -> list[int]:
        """Check the input; give the shape of its mask, with size 1 for all dimensions but two."""
        if not x.is_floating_point():
            raise TypeError(f"the input must be a floating tensor, got {x.dtype}; convert it with x.float()")
        shape = self.factor_shape(x.shape)
        if self._has_rows(x):
            shape[self.batch_dim] = x.shape[self.batch_dim]
        return shape

    def forward(self, x: Tensor) -> Tensor:
        """Drop units of ``x`` in training and where factors are given; pass it on otherwise."""
        if not self.is_active:
            return x
        shape, mask = self._mask_shape(x), self.mask(x)
        return apply_mask(x, mask, self._view_of(mask.factor, x, shape))

    def extra_repr(self) -> str:
        """Show what is learned and over what."""
        rates = "one rate" if self.scaled_logit.ndim == 0 else "a rate for each unit"
        state = ", fixed" if self.is_fixed else ""
        strength = "" if self.strength == 1 else f", strength={self.strength:g}"
        return f"num_units={self.num_units}, {rates}, temperature={self.temperature}{strength}{state}"


def sites_of(model: nn.Module) -> list[ConcreteDropout]:
    """List all sites."""
    return [module for module in model.modules() if isinstance(module, ConcreteDropout)]


def bernoulli_factors(noise: Callable[[ConcreteDropout, int], Tensor]) -> FactorSource:
    """Make a source of Bernoulli masks of the uniform noise of a site for some rows: (rows, K), or (1, K) to share."""

    def source(site: ConcreteDropout, x: Tensor) -> Tensor:
        return dropout_scale(site.p_logit, sent(noise(site, site.rows_of(x)), x.device), hard=True)

    return source


@contextlib.contextmanager
def factors_from(source: FactorSource | None, model: nn.Module) -> Iterator[None]:
    """Context in which the sites of a model multiply by given factors; None leaves that to the sites."""
    before = [(site, site.factor_source) for site in sites_of(model)]
    try:
        for site, _ in before:
            site.factor_source = source
        yield
    finally:
        for site, own in before:
            site.factor_source = own
