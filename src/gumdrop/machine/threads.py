"""How many threads torch computes with, for a while."""

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def limited_threads(count: int | None) -> Iterator[None]:
    """Context in which torch computes with this many threads; the number from before comes back.

    On small networks several threads only wait for each other, for seconds an epoch where the machine is busy.

    Args:
        count: Number of threads; None leaves it.

    Yields:
        Nothing.

    Example:
        >>> with limited_threads(1):
        ...     torch.get_num_threads()
        1
    """
    before = torch.get_num_threads()
    torch.set_num_threads(before if count is None else count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
