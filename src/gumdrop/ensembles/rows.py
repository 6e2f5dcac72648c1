"""The rows that an ensemble learns from, and all that is known of them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gumdrop.likelihoods import Likelihood
from gumdrop.training import RowSource
from gumdrop.training.data import check_data

MIN_ROWS = 4
Imputations = Callable[[Tensor, int, int], Iterable[Tensor]]
"""Gives rows by their indices, so often, with a seed: what is unknown in them is completed anew each time."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Inputs and targets of N rows."""

    x: Tensor | RowSource
    """Inputs, shape (N, F), standardised, with stand-ins for what is unknown."""
    y: Tensor
    """Targets: numbers of shape (N, D), or class indices of shape (N,)."""
    weights: Tensor | None = None
    """Weight of each row: one of weight 3 counts as three equal ones. 1 if None."""
    groups: Tensor | None = None
    """Number of the group that each row belongs to, at least two groups: its rows are held out together. None where any
    rows may be."""
    imputations: Imputations | None = None
    """Completes rows in which inputs are unknown; None if none are. Noise is then what is left beside the spread of the
    imputations."""

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.x)

    def check(self, likelihood: Likelihood) -> None:
        """Refuse fewer than 4 rows, values that are not finite, and shapes that no ensemble can be trained on."""
        if likelihood.is_density and (len(self.x.shape) != 2 or self.y.ndim != 2):
            raise ValueError(
                f"rows must hold inputs of shape (N, F) and targets of shape (N, D), got {tuple(self.x.shape)} and "
                f"{tuple(self.y.shape)}; see Tensor.unsqueeze"
            )
        if check_data((self.x, self.y), "rows", likelihood) < MIN_ROWS:
            raise ValueError(f"an ensemble needs at least {MIN_ROWS} rows, got {len(self)}")

    def sample(self, count: int, seed: int) -> "Rows":
        """Draw rows, or take all if they are not more; without imputations, and groups only where two are left."""
        if len(self) <= count:
            return self
        some = torch.randperm(len(self), generator=torch.Generator().manual_seed(seed))[:count]
        weights, groups = (None if each is None else each[some] for each in (self.weights, self.groups))
        if groups is not None and len(groups.unique()) < 2:  # a sample of a table of few and unequal groups
            groups = None
        return replace(self, x=self.x[some], y=self.y[some], weights=weights, groups=groups, imputations=None)
