"""Cells that a model cannot know, missing or of an unseen category: drawn from training rows that know them.

A stand-in, such as the median, would be as sure as a cell that was measured. So each draw of a prediction takes another
donor, one of the training rows that are nearest in what is known (a hot deck), and the spread between the draws holds
what the cells leave open.
"""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from gumdrop.tables.errors import MISSING
from gumdrop.tables.schema.columns import CategoryColumn
from gumdrop.tables.schema.schema import TableSchema

NEIGHBOURS = 30
"""Donors of a row, at least."""
LEARNED = 10
"""Donors with a missing category from which on the networks are taken to know what that means."""


def drawn_if_missing(schema: TableSchema, donors: Tensor) -> list[str]:
    """Return the names of the columns whose missing cells are drawn; none without donors, shape (B, F).

    Not among them are columns of categories that enough of the donors miss, too: there a missing cell is a category of
    its own, and the networks have learned what it means.
    """
    learned = {
        column.name
        for column, group in zip(schema.columns, schema.groups, strict=True)
        if isinstance(column, CategoryColumn)
        and MISSING in column.categories  # as the last one
        and donors[:, group.stop - 1].sum() >= LEARNED
    }
    return [name for name in schema.names if name not in learned] if len(donors) else []


def mark_unknown(schema: TableSchema, x: np.ndarray, unknown: np.ndarray, donors: Tensor) -> Tensor:
    """Mark encoded cells that are drawn by NaN: of unseen categories, or missing in `drawn_if_missing` columns."""
    marked = torch.from_numpy(x)
    if not len(donors) or not unknown.any():
        return marked
    marked, drawn = marked.clone(), drawn_if_missing(schema, donors)
    for cells, name, group in zip(torch.from_numpy(unknown).T, schema.names, schema.groups, strict=True):
        missing = marked[:, group.stop - 1] == 1  # where training had missing cells, that is their category
        marked[cells if name in drawn else cells & ~missing, group] = torch.nan
    return marked


def imputations(x: Tensor, donors: Tensor, count: int, *, seed: int) -> Iterator[Tensor]:
    """Complete rows, (N, F) with NaN, several times, each time with the unknown inputs of one other row.

    The donors of a row are the nearest rows by Euclidean distance over what is known of it, and all that are as near;
    they take turns as evenly as the count allows. All unknown inputs come from the same donor, so what goes together
    stays together. A row is completed in the same way among others and alone.

    Yields:
        ``count`` times inputs without NaN, shape (N, F).

    Example:
        >>> donors = torch.tensor([[0.0, 1.0], [0.0, 3.0], [9.0, 8.0]])
        >>> sorted(row[0, 1].item() for row in imputations(torch.tensor([[0.0, torch.nan]]), donors, 3, seed=0))
        [1.0, 3.0, 8.0]
    """
    donors = donors[torch.randperm(len(donors), generator=torch.Generator().manual_seed(seed))]
    known = ~x.isnan()
    order, candidates = _nearest(x, known, donors)
    for i in range(count):
        turn = ((2 * i + 1) * candidates).div(2 * count, rounding_mode="floor")
        yield torch.where(known, x, donors[order.gather(1, turn[:, None])[:, 0]])


def imputer(marked: Tensor, donors: Tensor) -> Callable[[Tensor, int, int], Iterator[Tensor]] | None:
    """Complete the rows of a training part, as ensembles ask for them; None if nothing is unknown."""
    if not marked.isnan().any():
        return None
    return lambda rows, count, seed: imputations(marked[rows], donors, count, seed=seed)


def _nearest(x: Tensor, known: Tensor, donors: Tensor) -> tuple[Tensor, Tensor]:
    """For each row the donors, (N, B), its candidates first and in their order, and how many these are, (N,)."""
    weight, at, from_ = known.double(), x.nan_to_num().double(), donors.double()
    square = weight @ from_.square().T - 2 * at @ from_.T  # of the distance, less what is the same for all donors
    square = (square * 1e6).round()  # what only rounding tells apart is equally near
    last = square.kthvalue(min(NEIGHBOURS, len(donors)), dim=1).values
    far = square > last[:, None]
    return far.byte().argsort(dim=1, stable=True), (~far).sum(1)
