"""How torch uses a machine: how many threads it computes with, for a while, and memory that the C library keeps."""

import contextlib
import functools
from collections.abc import Iterator, Sequence

import torch
from torch import nn

ROWS_FOR_THREADS = 20_000
"""Rows from which threads share predictions and trees; below, they wait for each other, minutes on a busy machine."""
SMALL_STEP = 2**18
"""Outputs of the widest layer, of all networks and rows of a step, below which it is taken with one thread."""
KEPT = (1 << 25) - (1 << 16)
"""Bytes of a block that is kept, the most that the C library does; of all that is free it keeps twice as many."""


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


@functools.cache
def keep_what_is_freed() -> None:
    """Have the C library keep blocks that are freed, for the next activations of the same size.

    By default glibc gives blocks above 128 KiB back to the system. Then each of their pages is asked for again, which
    takes longer than a layer of a small network: a step of thirty of these takes a fifth more, and one of twenty in
    bins an eighth more even where 8 MiB are kept. Once a larger block was freed it keeps what is smaller than that
    (mallopt(3), M_MMAP_THRESHOLD); so one is freed here that nobody has written to. Others do not notice.
    """
    torch.empty(KEPT, dtype=torch.uint8)
