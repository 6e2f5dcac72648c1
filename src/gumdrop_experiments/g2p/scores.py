"""The score of the report: in how many positions what is said differs."""

import statistics
from collections.abc import Sequence

from torch import Tensor

from gumdrop_experiments.g2p.words import until_end


def hamming(labels: Tensor, references: Sequence[Sequence[tuple[int, ...]]]) -> float:
    """Count the positions that differ from the nearest way to say a word, on average over words (N, T).

    The shorter of both is filled up.
    """
    return statistics.fmean(
        min(_positions_that_differ(until_end(row), way) for way in ways)
        for row, ways in zip(labels.tolist(), references, strict=True)
    )


def _positions_that_differ(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    return sum(a != b for a, b in zip(one, other, strict=False)) + abs(len(one) - len(other))
