"""A few of many rows."""

import numpy as np
from numpy.typing import NDArray


def evenly(count: int, limit: int) -> NDArray[np.intp]:
    """Positions of at most `limit` of `count` items, evenly spread, increasing, and the same every time."""
    return np.unique(np.linspace(0, max(count - 1, 0), min(count, limit)).round().astype(np.intp))
