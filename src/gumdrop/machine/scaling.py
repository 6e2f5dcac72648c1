"""Units in which squares of numbers stay in float64."""

from typing import Any

import numpy as np


def unit_of(largest: Any) -> Any:
    """Return the power of two above absolute values, 1 for 0: a division by it rounds nothing.

    Example:
        >>> float(unit_of(5.0)), unit_of(np.array([0.0, 0.75])).tolist()
        (8.0, [1.0, 1.0])
    """
    return 2.0 ** np.frexp(largest)[1].clip(-1020, 1020)
