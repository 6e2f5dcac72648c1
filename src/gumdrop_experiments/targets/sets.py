"""Sets with several targets, of scikit-learn, and one whose noise is known."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_diabetes, load_linnerud, load_wine, make_friedman1

Numbers = NDArray[np.float64]

CORRELATION = np.array([[1.0, 0.8, -0.5], [0.8, 1.0, -0.3], [-0.5, -0.3, 1.0]])
"""Of the noise that is made."""
ROWS = 600


def _simulated() -> tuple[Numbers, Numbers]:
    """Three functions of ten inputs, with noise of different size."""
    x, first = make_friedman1(ROWS, noise=0.0, random_state=0)
    clean = np.column_stack([first, 10 * x[:, 0] + 5 * x[:, 5], 20 * (x[:, 1] - 0.5) ** 2])
    noise = np.random.default_rng(0).multivariate_normal(np.zeros(3), CORRELATION, ROWS)
    return x, clean + noise * [1.0, 1.5, 2.0]


def _columns(x: Numbers, targets: list[int], inputs: list[int] | None = None) -> tuple[Numbers, Numbers]:
    """Some columns by others, or by all others."""
    return x[:, inputs] if inputs else np.delete(x, targets, axis=1), x[:, targets]


SETS: dict[str, Callable[[], tuple[Numbers, Numbers]]] = {
    "simulated": _simulated,
    "blood serum": lambda: _columns(load_diabetes(return_X_y=True)[0], [4, 5, 6, 7, 8, 9]),
    "wine": lambda: _columns(load_wine(return_X_y=True)[0], [5, 6, 7, 8]),
    "cells": lambda: _columns(load_breast_cancer(return_X_y=True)[0], [21, 24, 25, 28], list(range(10))),
    "linnerud": lambda: load_linnerud(return_X_y=True),
}
"""Inputs (N, F) and targets (N, D): six blood values by age, sex, weight and pressure; phenols and flavonoids of wines
by other measures; the worst texture, smoothness, compactness and symmetry of cells by their means; weight, waist and
pulse of 20 men by exercises."""
