"""Columns of texts: which name the rows, and which are numbers, durations or dates in a spelling of their own."""

import re
from collections.abc import Sequence

import pandas as pd

from gumdrop.tables.errors import TableError
from gumdrop.tables.reading.spelling import plain_numbers, spelled_numbers, spelling_of
from gumdrop.tables.schema.cells import refuse

FEW_DISTINCT = 10
"""Up to here whole numbers may be class codes, and text that is mostly digits categories."""
UNIQUE = 0.95
"""Share of different texts from which on they name the rows."""
SHORT = 40
"""Characters up to which a text is a name."""
_DURATION = re.compile(r"-?\d+ days [+-]?\d\d:\d\d:\d\d(?:\.\d+)?")  # as pandas writes it


def names_rows(column: pd.Series) -> bool:
    """Return whether texts are short, and nearly all different."""
    texts = column.dropna().astype(str)
    return bool(texts.nunique() >= UNIQUE * len(texts) and texts.str.len().max() <= SHORT)


def spelled(column: pd.Series) -> list[str]:
    """The distinct texts of numbers that were left as texts."""
    return [] if pd.api.types.is_numeric_dtype(column) else [*map(str, column.dropna().unique())]


def refuse_doubtful(name: str, labels: Sequence[str], way_out: str) -> None:
    """Refuse numbers whose decimal mark nothing tells, such as 9.011 beside 832."""
    spelling = spelling_of(labels)
    if spelling is None or len(spelling.decimals) < 2 or spelling.same:
        return
    readings = (spelled_numbers(pd.Series(labels, dtype=object), mark) for mark in (".", ","))
    label, one, other = next(each for each in zip(labels, *readings, strict=True) if each[1] != each[2])
    raise TableError(
        f"column {name!r} holds numbers such as {label!r}, which may be {one:.12g} or {other:.12g}: give the decimal "
        f"mark with --decimal, or {way_out}"
    )


def refuse_numbers(name: str, column: pd.Series, distinct: list[str], way_out: str) -> None:
    """Refuse texts that are numbers or durations in a spelling of their own."""
    example = f"such as {distinct[0]!r}"
    spelling = spelling_of(distinct)
    if spelling is not None and any(not label.isdigit() for label in distinct):
        cells = pd.Series(distinct[:1], dtype=object)
        value = f"{spelled_numbers(cells, next(iter(spelling.decimals))).iloc[0]:.12g}"
        raise TableError(f"column {name!r} holds numbers as text, {example}: write {value}, or {way_out}")
    if all(map(_DURATION.fullmatch, distinct)):  # which would be categories that no later row has
        mend = f"give them as numbers, such as hours, or {way_out}"
        raise TableError(f"column {name!r} holds durations, {example}: {mend}")
    number_like = pd.to_numeric(pd.Series(distinct).str.replace(",", ""), errors="coerce").notna()
    if len(distinct) > FEW_DISTINCT and number_like.mean() > 0.5:
        why, mend = "not a number, unlike most of the column", f"correct it, leave unknown cells blank, or {way_out}"
        refuse(name, column, plain_numbers(column)[1], why, mend)
