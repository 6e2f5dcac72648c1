r"""Shapley values: what each group of inputs adds to functions of them.

A group is put from its value in a background row to its value in the row to explain, after the groups that stand before
it in a random order; what that changes, averaged over orders and background rows, is its share:

.. math:: \phi_k = E_{\pi, b}\left[f(x_{S \cup k}, b_{\setminus S \cup k}) - f(x_S, b_{\setminus S})\right]

with :math:`S` the groups before :math:`k` in the order :math:`\pi`. The shares add up to what sets the row apart from
the average over the background. Each order is used forwards and backwards, which cancels part of the chance, and what
is left of it is told as a standard error.

References:
    Strumbelj & Kononenko 2014, "Explaining prediction models and individual predictions with feature contributions"
    (Knowledge and Information Systems 41).
    Lundberg & Lee 2017, "A Unified Approach to Interpreting Model Predictions" (arXiv:1705.07874).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Shares:
    """Shares of K groups in Q functions of N rows."""

    value: np.ndarray
    """Functions of the rows, shape (N, Q)."""
    usual: np.ndarray
    """Their averages over the background, shape (N, Q), which is what the shares start from."""
    share: np.ndarray
    """Shape (N, K, Q); the sum over K is `value - usual`."""
    error: np.ndarray
    """Standard error of the shares, from the orders, shape (N, K, Q)."""


def shapley_shares(
    functions: Callable[[Tensor, Tensor], Tensor],
    x: Tensor,
    background: Tensor,
    groups: Sequence[slice | np.ndarray],
    *,
    orders: int = 100,
    seed: int = 0,
) -> Shares:
    """Return the Shapley values of groups of columns, from random orders.

    ``functions`` takes inputs, (R, F), and for each the number of the row of ``x`` that it is about, and returns
    (R, Q). Each row of the background is used equally often, as near as ``orders`` allows; a row has the same shares
    among others and alone.

    Raises:
        ValueError: If ``orders`` is less than 1.

    Example:
        >>> x, background = torch.tensor([[3.0, 5.0]]), torch.zeros(1, 2)
        >>> product = lambda rows, of: rows.prod(1, keepdim=True)
        >>> shapley_shares(product, x, background, [slice(0, 1), slice(1, 2)], orders=1).share[0, :, 0].tolist()
        [7.5, 7.5]
    """
    if orders < 1:
        raise ValueError(f"`orders` must be at least 1, got {orders}")
    num_columns, (num_rows, width) = len(groups), x.shape
    drawn = _orders(orders, num_columns, seed)
    pair, count = torch.arange(len(drawn)) // 2, len(background)
    chosen = background[pair * count // orders if orders < count else pair % count]
    column_of = torch.zeros(width, dtype=torch.long)
    for k, group in enumerate(groups):
        column_of[group] = k
    # How many columns were set before it: column k is that of the row from step place[k] + 1 on.
    position = torch.argsort(drawn, dim=1)[:, column_of]  # (orders, F)
    steps = torch.arange(num_columns + 1)

    at_once, results = min(16384, max(1, 2**24 // width)), []
    for n in range(num_rows):
        values = []
        for part in torch.arange(len(drawn)).split(max(1, at_once // (num_columns + 1))):
            from_row = position[part, None, :] < steps[:, None]  # (orders, K + 1, F)
            mixed = torch.where(from_row, x[n], chosen[part, None, :]).flatten(0, 1)
            answers = functions(mixed, torch.full((len(mixed),), n))
            values.append(answers.double().unflatten(0, (len(part), -1)))
        results.append(_of_one_row(torch.cat(values), drawn))
    return Shares(*(np.stack(each) for each in zip(*results, strict=True)))


def _orders(count: int, num_columns: int, seed: int) -> Tensor:
    """Random orders, each followed by itself backwards, shape (2 count, K)."""
    generator = torch.Generator().manual_seed(seed)
    forwards = torch.rand(count, num_columns, generator=generator).argsort(1)
    return torch.stack([forwards, forwards.flip(1)], dim=1).flatten(0, 1)


def _of_one_row(values: Tensor, drawn: Tensor) -> tuple[np.ndarray, ...]:
    """Function values along each order, shape (orders, K + 1, Q), to value, usual value, shares and their errors."""
    steps = values.diff(dim=1)
    gains = torch.zeros_like(steps).scatter_(1, drawn[:, :, None].expand_as(steps), steps)
    pairs = gains.unflatten(0, (-1, 2)).mean(1)  # an order and itself backwards are not independent
    error = pairs.std(0) / math.sqrt(len(pairs)) if len(pairs) > 1 else torch.full_like(pairs[0], math.nan)
    return tuple(each.numpy() for each in (values[0, -1], values[:, 0].mean(0), gains.mean(0), error))
