"""The score of the report: in how many positions what is said differs."""

import statistics
from collections.abc import Sequence

from torch import Tensor

from gumdrop_experiments.g2p.words import until_end


def hamming(labels: Tensor, references: Sequence[Sequence[tuple[int, ...]]]) -> float:
    """Count the positions that differ from the nearest way to say a word; the shorter of both is filled up.

    Args:
        labels: Phones of each word, shape (N, T).
        references: All ways to say each word.

    Returns:
        The number of positions, on average over words.
    """
    return statistics.fmean(
        min(_positions_that_differ(until_end(row), way) for way in ways)
        for row, ways in zip(labels.tolist(), references, strict=True)
    )


def _positions_that_differ(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    return sum(a != b for a, b in zip(one, other, strict=False)) + abs(len(one) - len(other))
