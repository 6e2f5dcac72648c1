"""Outputs of drawn functions."""

import functools
from collections.abc import Collection

import torch
from torch import Tensor, nn

from gumdrop.prediction.inputs import Arguments, Batches, Inputs, by_batches
from gumdrop.prediction.ways.evaluate import Output, drawn

__all__ = ["sample"]


def sample(
    model: nn.Module,
    x: Inputs | Batches,
    *,
    num_samples: int = 100,
    seed: int | None = None,
    batch_size: int | None = None,
    shared: Collection[int | str] = (),
    output: Output = None,
) -> Tensor:
    """Evaluate functions drawn from the posterior.

    Args:
        model: A converted model, or one with plain ``nn.Dropout*``.
        x: Input with rows in dimension 0. A tuple or mapping of several is passed as arguments. A DataLoader, or
            another iterable of batches, is gone through once, with the same functions in every batch; of a batch that
            is a pair (inputs, targets), as in training, the inputs are taken.
        num_samples: Number of functions, S.
        seed: Same seed, same functions.
        batch_size: Rows that run at once, which bounds memory; all if None. It does not change the
            result, save for dropout without masks (see `docs/gotchas.md`). Leave it None where rows are not apart, as
            the nodes of a graph.
        shared: Places or names of the arguments that have no rows, such as ``["edge_index"]``; each call of the model
            gets them whole, as it gets None, numbers and strings.
        output: Takes the output tensor out of what the model returns.

    Returns:
        Outputs, shape (S, N, ...).

    Raises:
        ValueError: If a number is out of range, ``x`` has no rows or does not have the same number of them
            everywhere, ``shared`` names what is not there, a loader shuffles, or nothing in the model is stochastic.
        TypeError: If ``x`` holds something else than tensors, or the model does not return a tensor and ``output``
            is None.

    Example:
        >>> from gumdrop import learn_dropout
        >>> model = learn_dropout(nn.Linear(8, 3), p=0.2)
        >>> sample(model, torch.randn(5, 8), num_samples=20, seed=0).shape
        torch.Size([20, 5, 3])
    """

    def predict(part: Arguments, seed: int | None) -> Tensor:
        return torch.cat(list(drawn(model, part, num_samples, seed, batch_size, output, has_parts=False)))

    return by_batches(predict, functools.partial(torch.cat, dim=1), model, x, shared, seed)
