"""How many threads torch computes with, for a while."""

import contextlib
from collections.abc import Iterator, Sequence

import torch
from torch import nn

ROWS_FOR_THREADS = 20_000
"""Rows from which threads share predictions and trees; below, they wait for each other, minutes on a busy machine."""
SMALL_STEP = 2**18
"""Outputs of the widest layer, of all networks and rows of a step, below which it is taken with one thread."""


@contextlib.contextmanager
def limited_threads(count: int | None) -> Iterator[None]:
    """Context in which torch computes with so many threads, None for as before: those of small networks only wait."""
    before = torch.get_num_threads()
    torch.set_num_threads(before if count is None else count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def threads_for(networks: Sequence[nn.Module], batch_size: int) -> int | None:
    """Return the threads to train networks of one architecture with that take their steps together; None for any.

    A small step is some hundred operations of microseconds, and threads meet after each of them. On a machine that is
    idle little is gained. Where other programs run, a thread that has no processor lets the others wait, by spinning:
    with two threads a step of five networks took fifty times as long. The numbers are the same, to rounding.

    Example:
        >>> threads_for([nn.Linear(8, 50)] * 30, 128), threads_for([nn.Linear(8, 512)] * 5, 1024)
        (1, None)
    """
    widest = max((len(parameter) for parameter in networks[0].parameters() if parameter.ndim), default=1)
    return 1 if len(networks) * widest * batch_size < SMALL_STEP else None
