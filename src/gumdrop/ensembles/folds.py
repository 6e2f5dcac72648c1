"""Which rows of each member are held out, and how long it trains."""

import math
from collections import Counter

import numpy as np
import torch
from torch import Tensor

STEPS, LEAST_EPOCHS = 2500, 20


def schedule(
    num_rows: int, *, batch_size: int | None = None, epochs: int | None = None, is_density: bool = True
) -> tuple[int, int]:
    """Batch size and number of epochs for a data set; what is given is kept.

    Args:
        num_rows: Size of the data set, N.
        batch_size: Rows per step; None for 128, and above 8,192 rows for the power of two above N / 64, at most 1,024.
        epochs: Passes over the rows; None for those that 2,500 batches of the power of two above N / 16 make, of 32 to
            128 rows, and at least 20; for fewer than 64 rows those for 64.
        is_density: Whether targets are numbers that are seen; others take 1,000 batches where these take 2,500.

    Returns:
        Batch size and number of epochs.

    Example:
        >>> schedule(17), schedule(455), schedule(7373), schedule(1_000_000)
        ((128, 1250), (128, 176), (128, 43), (1024, 20))
    """
    slow = _slow_batch(num_rows)
    if epochs is None:
        steps = STEPS if is_density else 1000  # members for classes keep their best epoch, which mostly comes early
        # Fewer than 64 rows, all of which are one batch, gain nothing by more steps.
        epochs = max(LEAST_EPOCHS, round(steps * slow / max(num_rows, 64)))
    return max(128, slow) if batch_size is None else batch_size, epochs


def haste(num_rows: int, batch_size: int) -> float:
    """Tell how many times fewer steps batches make than those of N / 16 rows, from 1 to 4."""
    # Small tables train as well with fewer and larger batches, if weights and rates move faster. Of 2,000 rows of a
    # smooth function without noise no network is as good with half the steps. More than four times was not tried.
    return min(4.0, max(1.0, batch_size / _slow_batch(num_rows)))


def _slow_batch(num_rows: int) -> int:
    small, large = (int(2 ** math.ceil(math.log2(num_rows / parts))) for parts in (16, 64))
    return max(32, min(128, small), min(1024, large))


def folds_of(order: Tensor, num_members: int, most: int, together: Tensor | None = None) -> list[tuple[Tensor, Tensor]]:
    """Return the rows that train each member and those that are held out, as so few folds that each has some rows.

    The rows come in random order, (N,); those of a group, (N,), are held out together.
    """
    count = min(most, max(2, len(order) // 10))
    parts = order.tensor_split(count) if together is None else _whole_groups(order, together.cpu()[order.long()], count)
    folds = [(torch.cat([*parts[:i], *parts[i + 1 :]]), out) for i, out in enumerate(parts)]
    return [folds[member % len(folds)] for member in range(num_members)]


def _whole_groups(order: Tensor, groups: Tensor, count: int) -> list[Tensor]:
    """Deal groups out in the order in which they come, each to the part that has the fewest rows."""
    sizes = Counter(groups.tolist())
    dealt: list[list[int]] = [[] for _ in range(min(count, len(sizes)))]
    totals = [0] * len(dealt)
    for group, size in sizes.items():
        least = totals.index(min(totals))
        dealt[least].append(group)
        totals[least] += size
    return [order[torch.isin(groups, torch.tensor(part))] for part in dealt]


def time_blocks(times: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray | None:
    """Return the number of the stretch of time of each row, (N,), all rows of a moment in one; None if all are in one.

    Each of ten time blocks holds a tenth of the weights, (N,), of rows; 1 each if None.

    Example:
        >>> time_blocks(np.array([5, 1, 1, 9, 7])).tolist()
        [4, 0, 0, 8, 6]
    """
    _, moments = np.unique(times, return_inverse=True)
    up_to = np.bincount(moments, weights).cumsum()
    starts = 10 * np.append(0, up_to[:-1]) / up_to[-1]
    blocks = (starts[moments] + 1e-9).astype(np.int64)  # sums of weights such as .3 are rounded
    return blocks if np.ptp(blocks) else None
