"""Decide what each column of a training table is, or say why it cannot be told."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from gumdrop.machine.recording import atoms_of, stand_ins, stays_positive, steps_of
from gumdrop.tables.errors import TableError, check_present, check_unique
from gumdrop.tables.reading.spelling import Decimal, plain_numbers
from gumdrop.tables.reading.times import YEARS, Order, cycle_of, order_of
from gumdrop.tables.schema.categories import FEW_DISTINCT, categories_of, common, ordered
from gumdrop.tables.schema.cells import (
    OTHERS,
    check_no_missing,
    deviation,
    drop_it,
    in_one_message,
    labels_of,
    numbers_of,
    refuse,
)
from gumdrop.tables.schema.columns import CategoryColumn, Column, MeasuredColumn
from gumdrop.tables.schema.ends import check_learnable, ends_of
from gumdrop.tables.schema.schema import TableSchema, Target, Task

_MIN_ROWS = 10
YES = {"yes", "ja", "oui", "si", "sí", "sì", "sim", "true", "1"}
"""Labels of the class that is looked for, in any case, if nobody says another."""
_LEAST_SPREAD, _MOST_SPREAD = 1e-18, 1e18  # squares of what is a little smaller or larger stay in float32
_RESOLVED = 2.0**-40  # leaves 13 bits of float64 for the spread of a target


def infer_schema(
    frame: pd.DataFrame,
    target: str,
    *,
    task: Task | None = None,
    drop: Sequence[str] = (),
    dates: Order | None = None,
    decimal: Decimal | None = None,
    known: Sequence[str] = (),
    positive: str | None = None,
) -> TableSchema:
    """Return how each column of a training table is encoded, with the statistics to do it.

    A column of numbers stays numeric however few values it has, one of dates becomes days and cycles, one of months,
    weekdays or times of day a number on a cycle; any other becomes categories. Without `task`, a target of text or
    booleans means classification, and so does a target of numbers with two distinct values, or whose distinct values
    are class codes: exactly 0, 1, ..., k-1 or 1, 2, ..., k, with k at most 10. Every other target of numbers means
    regression; scores such as 3, 4, ..., 8 are among these. `dates` is the order of day, month and year where the dates
    themselves do not tell it, and `decimal` the decimal mark of the file, to be kept with the schema. `positive` is the
    one of two classes that is looked for: without it yes (ja, oui, si, sim), true or 1, else the rarer one.

    Raises:
        TableError: A named column is absent, the table has too few rows or no inputs, the target is missing
            in places, constant or does not fit the task, or inputs are empty, infinite, or text that cannot
            be categories (identifiers, free text, numbers with a few words among them): all of these in one message.
        ValueError: `task` is neither of the two.
    """
    if task not in {None, "regression", "classification"}:
        raise ValueError(f'`task` must be "regression" or "classification", got {task!r}')
    check_unique(list(frame.columns))
    check_present(frame.columns, [target, *drop])
    names = [name for name in frame.columns if name not in {target, *drop, *known}]
    if target in drop:
        raise TableError(f"column {target!r} is the target: take it out of `--drop` or name another target")
    if not names:
        raise TableError(f"no input column is left beside the target {target!r}: drop fewer, or add some")
    if len(frame) < _MIN_ROWS:
        rows = f"{len(frame)} row{'s' if len(frame) != 1 else ''}"
        raise TableError(f"the table has {rows}: add some, at least {_MIN_ROWS} are needed")
    goal = _ends_target(target, frame[target], known) if known else _infer_target(target, frame[target], task)
    goal = replace(goal, sought=_sought(goal, frame[target], positive))
    columns = in_one_message(
        lambda name: _infer_column(name, frame[name], dates),
        names,
        ending="Mend these, or leave columns out with --drop and their names.",
    )
    return TableSchema(tuple(columns), goal, decimal)


def with_statistics(schema: TableSchema, frame: pd.DataFrame) -> TableSchema:
    """Give the columns of a schema the statistics of some rows, such as those to train on."""
    columns = in_one_message(lambda column: _renewed(column, frame[column.name]), schema.columns)
    target = schema.target
    if target.known:
        target = _ends_target(target.name, frame[target.name], target.known)
    elif target.task == "regression":
        target = _number_target(target.name, numbers_of(target.name, frame[target.name]), "all rows to train on")
    return TableSchema(tuple(columns), target, schema.decimal)


def _renewed(column: Column, cells: pd.Series) -> Column:
    if cells.isna().all():
        raise TableError(
            f"column {column.name!r} is missing in all rows to train on: fill it or {drop_it(column.name)}"
        )
    if isinstance(column, MeasuredColumn):
        return column.fitted(cells)
    labels = labels_of(cells)
    return replace(column, categories=common(labels) if OTHERS in column.categories else ordered(labels))


def _infer_column(name: str, column: pd.Series, dates: Order | None) -> Column:
    if name.startswith("Unnamed: "):
        raise TableError(f"column {name!r} has no name (a saved row index?): name it or {drop_it(name)}")
    if column.isna().all():
        raise TableError(f"column {name!r} is missing in every row: fill it or {drop_it(name)}")
    if (order := _date_order(name, column, dates)) is not None:
        found = MeasuredColumn(name=name, kind="date", order=order)
        outside = np.isnan(found.axis.read(column)) & column.notna().to_numpy()
        refuse(name, column, outside, "no day of the calendar from {} to {}".format(*YEARS))
    elif (cycle := cycle_of(column)) is not None:
        found = MeasuredColumn(name=name, kind="cycle", cycle=cycle)
    elif _is_text(column):
        return CategoryColumn(name, categories_of(name, column))
    else:
        found = MeasuredColumn(name=name, kind="number")
    return found.fitted(column)


def _date_order(name: str, column: pd.Series, given: Order | None) -> Order | None:
    if pd.api.types.is_numeric_dtype(column) or (found := order_of(column)) is None:
        return None
    if found.order is None and given is not None and found.why != "the year has two digits":
        return given
    if found.order is None:
        ways = "write the years in full" if "two digits" in found.why else "add --dates day-first or month-first"
        first = str(column.dropna().iloc[0])
        raise TableError(f"column {name!r} holds dates such as {first!r}, but {found.why}: {ways}, or {drop_it(name)}")
    return found.order


def _infer_target(name: str, column: pd.Series, task: Task | None) -> Target:
    check_no_missing(name, column)
    if not pd.api.types.is_numeric_dtype(column) and order_of(column) is not None:
        raise TableError(f"target {name!r} holds dates: turn them into a number, such as days, or choose another")
    if _is_text(column) and task != "regression":
        classes = categories_of(name, column, is_target=True)
    else:
        values = numbers_of(name, column)
        if (task or _task_of(values)) == "regression":
            return _number_target(name, values)
        classes = ordered(labels_of(column))
        if len(classes) > max(FEW_DISTINCT, len(column) // 2):
            raise TableError(f"target {name!r} has {len(classes)} different numbers: use `--task regression`")
    if len(classes) == 1:
        raise TableError(f"target {name!r} is {classes[0]!r} in every row: choose one with two classes or more")
    return Target(name, "classification", classes=classes)


def _sought(target: Target, cells: pd.Series, given: str | None) -> str:
    """Of two classes the one that is looked for."""
    if len(target.classes) != 2:
        if given is not None:
            what = f"has {len(target.classes)} classes" if target.classes else "is a number"
            raise TableError(f"--positive {given} is one of two classes, and {target.name!r} {what}: leave it away")
        return ""
    labels = labels_of(cells)
    if given is None:
        words = [label for label in target.classes if label.casefold() in YES]
        return words[0] if len(words) == 1 else min(target.classes, key=labels.count)
    (label,) = labels_of(pd.Series([given]))
    if label not in target.classes:
        raise TableError(f"--positive {given} is no class of {target.name!r}: name {' or '.join(target.classes)}")
    return label


def _number_target(name: str, values: np.ndarray, where: str = "every row") -> Target:
    target = Target(name, "regression", float(values.mean()), _spread(name, values, where))
    target, steps = replace(target, positive=stays_positive(values), atoms=atoms_of(values)), steps_of(values)
    return target if steps is None else replace(target, step=steps.size, first=steps.first, last=steps.last)


def _ends_target(name: str, column: pd.Series, known: Sequence[str]) -> Target:
    ends = ends_of(column)
    check_learnable(ends, name, known)
    values = stand_ins(ends)
    std, positive = _spread(name, values, "every row"), len(known) == 1 or stays_positive(values)
    step = steps.size if positive and (steps := steps_of(values)) else 0.0
    last, number = float(ends[np.isfinite(ends)].max()), float(values.mean())
    return Target(name, "regression", number, std, step=step, last=last, positive=positive, known=tuple(known))


def _spread(name: str, values: np.ndarray, where: str) -> float:
    std = deviation(values)
    if std == 0:
        raise TableError(f"target {name!r} is {values[0]:g} in {where}: choose one that varies")
    if not _LEAST_SPREAD < std < _MOST_SPREAD:
        raise TableError(
            f"target {name!r} has a standard deviation of {std:.3g}, whose square leaves the numbers that networks "
            f"compute with: give it in a unit that is {'larger' if std > 1 else 'smaller'}, so that this is nearer 1"
        )
    if std < _RESOLVED * (largest := np.abs(values).max()):
        raise TableError(
            f"target {name!r} varies by {std:.3g} around values as large as {largest:.3g}, which numbers of 64 bits "
            "hardly tell apart: take a constant off it"
        )
    return std


def _task_of(values: np.ndarray) -> Task:
    distinct = np.unique(values)
    first, k = distinct[0], len(distinct)
    codes = 1 < k <= FEW_DISTINCT and first in {0, 1} and bool(np.all(distinct == first + np.arange(k)))
    return "classification" if codes or k == 2 else "regression"


def _is_text(column: pd.Series) -> bool:
    return bool(plain_numbers(column)[1].any())
