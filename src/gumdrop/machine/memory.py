"""Memory that the C library keeps."""

import functools

import torch

KEPT = (1 << 25) - (1 << 16)
"""Bytes of a block that is kept, the most that the C library does; of all that is free it keeps twice as many."""


@functools.cache
def keep_what_is_freed() -> None:
    """Have the C library keep blocks that are freed, for the next activations of the same size.

    By default glibc gives blocks above 128 KiB back to the system. Then each of their pages is asked for again, which
    takes longer than a layer of a small network: a step of thirty of these takes a fifth more, and one of twenty in
    bins an eighth more even where 8 MiB are kept. Once a larger block was freed it keeps what is smaller than that
    (mallopt(3), M_MMAP_THRESHOLD); so one is freed here that nobody has written to. Others do not notice.
    """
    torch.empty(KEPT, dtype=torch.uint8)
