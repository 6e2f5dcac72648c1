"""What the parts of `starts` say together."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from gumdrop_experiments.harness.plain import Plain
from gumdrop_experiments.starts.networks import DEFAULT, STARTS

LENGTHS = ("long", "short")
TEMPERATURES = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
LEARNED = "learned"
"""The part whose temperature is learned."""


@dataclass(frozen=True)
class Problem:
    """Data to learn from, and how networks are trained on them."""

    name: str
    """What parts call it."""
    num_classes: int
    """Number of classes; 0 for numbers."""
    hidden: tuple[int, ...]
    """Units of the hidden layers."""
    data: Sequence[tuple[Tensor, ...]]
    """Inputs and targets to train on, and those to predict, of each split."""
    settings: Plain
    """Settings of training."""

    @property
    def likelihood(self) -> str:
        """Name of the likelihood."""
        return "categorical" if self.num_classes else "gaussian"


def summary(problems: Sequence[Problem], parts: Plain) -> dict[str, Any]:
    """Average over splits."""
    found = {}
    for problem in problems:
        lengths = {length: parts[f"{problem.name}.{length}"] for length in LENGTHS}
        of_t = {f"{t:g}": parts[f"{problem.name}.t={t:g}"] for t in TEMPERATURES}
        of_t[LEARNED] = parts[f"{problem.name}.{LEARNED}"]
        found[problem.name] = {
            "rows": len(problem.data[0][1]),
            "hidden": list(problem.hidden),
            "calibration": "ece" if problem.num_classes else "coverage",
            **{
                length: {start: _mean(each[start], each[DEFAULT]) for start in STARTS}
                for length, each in lengths.items()
            },
            "temperatures": {t: _mean(each, of_t["0.1"]) for t, each in of_t.items()},
        }
    return found


def _mean(parts: Sequence[Plain], usual: Sequence[Plain]) -> dict[str, Any]:
    """Means over splits, medians of rates, and the log likelihood less that of the usual setting, split by split."""
    names = [name for name in parts[0] if name not in ("rates", "over_training")]
    gains = np.array([one["log_likelihood"] - other["log_likelihood"] for one, other in zip(parts, usual, strict=True)])
    error = float(gains.std(ddof=1) / len(gains) ** 0.5) if len(gains) > 1 else 0.0
    return {
        **{name: float(np.mean([part[name] for part in parts])) for name in names},
        "gain": [float(gains.mean()), error],
        "rates": np.median([part["rates"] for part in parts], axis=0).tolist(),
        "over_training": np.median([part["over_training"] for part in parts], axis=0).tolist(),
    }
