"""Which labels of a column of texts are its categories."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pandas as pd

from gumdrop.tables.errors import MISSING, TableError
from gumdrop.tables.reading.spelling import plain_numbers, spelled_numbers, spelling_of
from gumdrop.tables.schema.cells import OTHERS, drop_it, is_yes_no, labels_of, refuse

FEW_DISTINCT = 10
"""Up to here whole numbers may be class codes, and text that is mostly digits categories."""
_MANY_DISTINCT = 50  # beyond here text that rarely repeats is taken for free text or an identifier
_MAX_CATEGORIES = 1000
_OFTEN, _MOST_COMMON = 10, 300  # rows of a label that is common, and how many of these are told apart
_LEAST_LABELS = 10  # rows from which on texts that all differ are an identifier


def categories_of(name: str, column: pd.Series, *, is_target: bool = False) -> tuple[str, ...]:
    """Find the categories of a column of texts."""
    labels = labels_of(column)
    filled = len(labels) - labels.count(MISSING)
    distinct = [label for label in dict.fromkeys(labels) if label != MISSING]
    k, example = len(distinct), f"such as {distinct[0]!r}"
    way_out = "choose another target" if is_target else drop_it(name)
    spelling = spelling_of(distinct)
    if spelling is not None and any(not label.isdigit() for label in distinct):
        cells = pd.Series(distinct[:1], dtype=object)
        if len(spelling.decimals) == 2 and not spelling.same:
            one, other = (f"{spelled_numbers(cells, mark).iloc[0]:.12g}" for mark in (".", ","))
            raise TableError(
                f"column {name!r} holds numbers {example}, which may be {one} or {other}: give the decimal mark with "
                f"--decimal, or {way_out}"
            )
        value = f"{spelled_numbers(cells, next(iter(spelling.decimals))).iloc[0]:.12g}"
        raise TableError(f"column {name!r} holds numbers as text, {example}: write {value}, or {way_out}")
    number_like = pd.to_numeric(pd.Series(distinct).str.replace(",", ""), errors="coerce").notna()
    if k > FEW_DISTINCT and number_like.mean() > 0.5:
        why, mend = "not a number, unlike most of the column", f"correct it, leave unknown cells blank, or {way_out}"
        refuse(name, column, plain_numbers(column)[1], why, mend)
    if k > _MAX_CATEGORIES and k <= filled / 2 and not is_target and len(found := common(labels)) > 2:
        return found
    if k > _MAX_CATEGORIES or (k > _MANY_DISTINCT and k > filled / 2) or k == filled >= _LEAST_LABELS:
        raise TableError(
            f"column {name!r} has {k} different texts in {filled} rows, {example} (an identifier or free "
            f"text?): group them into fewer categories or {way_out}"
        )
    return ordered(labels)


def common(labels: Iterable[str]) -> tuple[str, ...]:
    """Find the categories of a column that has too many labels: those of many rows, and one for all others."""
    counts = Counter(labels)
    missing, _ = counts.pop(MISSING, 0), counts.pop(OTHERS, 0)
    often = sorted(((count, label) for label, count in counts.items() if count >= _OFTEN), key=lambda each: -each[0])
    kept = ordered(label for _, label in often[:_MOST_COMMON])
    return (*kept, OTHERS, *([MISSING] if missing else []))


def ordered(labels: Iterable[str]) -> tuple[str, ...]:
    """The distinct labels in order: numbers by size, of Yes and YES the commoner one, an empty one last."""
    counts = pd.Series(list(labels), dtype=object).value_counts(sort=True)
    distinct: set[Any] = set(counts.index)
    if is_yes_no(distinct):  # of Yes and YES the commoner one
        distinct = set({label.casefold(): label for label in reversed(counts.index)}.values())
    present = sorted(distinct - {MISSING})
    if not plain_numbers(pd.Series(present, dtype=object))[1].any():
        present.sort(key=float)
    return (*present, *(distinct & {MISSING}))
