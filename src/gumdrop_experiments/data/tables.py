"""Tables in CSV files, all columns numbers."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray


class Source(NamedTuple):
    """A file, and what of it is used."""

    file: str
    """Its path in the folder of the tables."""
    target: str
    """The column to predict."""
    unused: tuple[str, ...] = ()
    """Columns that are no inputs: parts of the target, numbers of rows, dates that others repeat."""


TABLES = {
    "airfoil": Source("airfoil/airfoil.csv", "target"),
    "bike-sharing": Source("bike-sharing/hour.csv", "cnt", ("casual", "registered", "instant", "dteday")),
}


def read_table(folder: Path, name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Read inputs (N, F) and targets (N, 1) of a table, in their units."""
    file, target, unused = TABLES[name]
    frame = pd.read_csv(folder / file)
    if missing := {target, *unused} - set(frame.columns):
        raise ValueError(f"{folder / file} must have the columns {sorted(missing)}, got {list(frame.columns)}")
    inputs = frame.drop(columns=[target, *unused])
    try:
        return inputs.to_numpy(np.float64), frame[[target]].to_numpy(np.float64)
    except ValueError as error:
        raise ValueError(f"{folder / file} must hold numbers in {list(inputs.columns)} ({error})") from error
