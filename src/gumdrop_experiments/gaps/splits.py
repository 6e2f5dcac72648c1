"""Splits that hold out a stretch of one input."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gumdrop_experiments.data.uci import Split, read_rows, read_splits, standardised

KINDS = ("random", "gap", "tail")


def held_out(column: NDArray[np.float64], kind: str) -> NDArray[np.bool_]:
    """Choose the middle third of the rows in the order of an input for a gap, both outer sixths for a tail."""
    place = np.argsort(np.argsort(column, kind="stable"))
    middle = (place >= len(column) // 3) & (place < len(column) - len(column) // 3)
    outer = (place < len(column) // 6) | (place >= len(column) - len(column) // 6)
    return middle if kind == "gap" else outer


def splits_of(folder: Path, kind: str, *, most: int | None = None) -> list[Split]:
    """Split a set: as published, or once for each input."""
    if kind == "random":
        return read_splits(folder, most=most)
    x, y = read_rows(folder)
    masks = [held_out(column, kind) for column in x.T[:most]]
    return [standardised(x, y, np.flatnonzero(~mask), np.flatnonzero(mask)) for mask in masks]
