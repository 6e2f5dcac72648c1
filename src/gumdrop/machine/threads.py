"""How many threads torch computes with, for a while."""

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def limited_threads(count: int | None) -> Iterator[None]:
    """Context in which torch computes with so many threads, None for as before: those of small networks only wait."""
    before = torch.get_num_threads()
    torch.set_num_threads(before if count is None else count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
