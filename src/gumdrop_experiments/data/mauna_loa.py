"""The record of carbon dioxide at Mauna Loa, month by month since March 1958."""

import csv
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gumdrop_experiments.data.download import RemoteFile

MAUNA_LOA = (
    RemoteFile("co2-mm-mlo.csv", ("https://gml.noaa.gov/webdata/ccgg/trends/co2/co2_mm_mlo.csv",), sha256=None),
)
"""Where NOAA publishes the record. It grows each month and is revised now and then, so it has no checksum."""

PLAUSIBLE = (250.0, 1000.0)
"""Parts per million between which every monthly mean must lie."""


class MaunaLoaError(ValueError):
    """A file that cannot be read as the record; the message says which line and what to do."""


class MaunaLoa(NamedTuple):
    """Monthly means without a gap, M of them."""

    months: NDArray[np.datetime64]
    """Shape (M,), numpy months in order, as `1958-03`."""
    ppm: NDArray[np.float64]
    """Carbon dioxide in parts per million of dry air, shape (M,)."""


def read_mauna_loa(path: str | os.PathLike[str]) -> MaunaLoa:
    """Read the monthly means, as NOAA publishes them or as the `co2-ppm` collection does.

    The first keeps year and month in two columns, then the decimal date and the mean; the second has `YYYY-MM`, the
    decimal date and the mean. Lines that begin with ``#`` and the header are passed over.
    """
    file = Path(path)
    rows = list(_rows(file))
    if not rows:
        raise MaunaLoaError(f"{file} holds no months; fetch it again")
    months = np.array([month for month, _ in rows], dtype="datetime64[M]")
    gaps = np.flatnonzero(np.diff(months).astype(int) != 1)
    if len(gaps):
        raise MaunaLoaError(f"{file} goes from {months[gaps[0]]} to {months[gaps[0] + 1]}; months must follow in turn")
    return MaunaLoa(months, np.array([ppm for _, ppm in rows]))


def _rows(path: Path) -> Iterator[tuple[str, float]]:
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.reader(line for line in file if line.strip() and not line.startswith("#"))
        for number, cells in enumerate(reader):
            if number == 0 and not cells[0].strip()[:1].isdigit():
                continue  # the header
            try:
                month, _, ppm = cells[:3] if "-" in cells[0] else (f"{cells[0]}-{int(cells[1]):02}", *cells[2:4])
                np.datetime64(month, "M")
                value = float(ppm)
            except ValueError as error:
                raise MaunaLoaError(f"{path}: {','.join(cells)!r} is no month with a mean ({error})") from error
            if not PLAUSIBLE[0] < value < PLAUSIBLE[1]:
                raise MaunaLoaError(f"{path}: {value:g} in {month} is no concentration in parts per million")
            yield month, value
