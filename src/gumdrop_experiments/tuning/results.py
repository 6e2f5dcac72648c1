"""What the parts of `tuning` say together: means over splits, and gains over the default."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from gumdrop_experiments.harness.plain import Plain

DEFAULT = "the default"
"""The candidate that others are compared with."""


def summary(sets: Mapping[str, Plain]) -> dict[str, dict[str, Plain]]:
    """Means over splits, and the gain over the default with its standard error."""
    found: dict[str, dict[str, Plain]] = {}
    for name, parts in sets.items():
        reference = _column(parts[DEFAULT], "log_likelihood")
        found[name] = {}
        for label, part in parts.items():
            gain = _column(part, "log_likelihood") - reference
            row = {score: float(_column(part, score).mean()) for score in part["scores"][0]}
            row |= {"gain": float(gain.mean()), "gain_error": float(gain.std(ddof=1) / len(gain) ** 0.5)}
            found[name][label] = row | {"rates": _means(part["rates"])}
    return found


def _means(rates: list[list[float]]) -> list[float]:
    """Mean rate of each layer; none where splits chose networks of different depths."""
    return np.mean(rates, axis=0).tolist() if len({len(each) for each in rates}) == 1 else []


def _column(part: Plain, score: str) -> NDArray[np.float64]:
    return np.array([each[score] for each in part["scores"]])
