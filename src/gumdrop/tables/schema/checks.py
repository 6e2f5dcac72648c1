"""Checks of columns, gathered into one message."""

import shlex
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from gumdrop.tables.errors import TableError, listed

T = TypeVar("T")


def in_one_message(call: Callable[[Any], T], things: Iterable[Any], *, ending: str = "") -> list[T]:
    """Call something with each of several things and collect what it refuses, so that a table is mended in one go."""
    results, refusals = [], []
    for thing in things:
        try:
            results.append(call(thing))
        except TableError as error:
            refusals.append(error)
    if len(refusals) == 1:
        raise refusals[0]
    if refusals:
        lines = [f"{len(refusals)} columns cannot be used as they are:", *(f"- {refusal}" for refusal in refusals)]
        raise TableError("\n".join([*lines, ending] if ending else lines))
    return results


def drop_it(name: str) -> str:
    """The flag that leaves a column out, as a shell reads it."""
    return f"`--drop {shlex.quote(name)}`"


def check_no_missing(name: str, column: pd.Series) -> None:
    """Refuse a target with missing cells."""
    rows = [str(row + 1) for row in np.flatnonzero(column.isna())]
    if rows:
        raise TableError(
            f"target {name!r} is missing in {len(rows)} of {len(column)} rows (data rows {listed(rows)}): "
            "fill or remove them (empty cells, NA, None, ? and the like count as missing)"
        )
