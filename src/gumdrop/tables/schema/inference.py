"""Decide what each column of a training table is and which labels are its categories, or say why it cannot be told."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from gumdrop.machine.recording import atoms_of, stand_ins, stays_positive, steps_of
from gumdrop.tables.errors import MISSING, TableError, check_present, check_unique, is_unnamed, listed
from gumdrop.tables.reading.declared import Reading
from gumdrop.tables.reading.spelling import exact_number, plain_numbers, words_around
from gumdrop.tables.reading.times import YEARS, Order, cycle_of, order_of
from gumdrop.tables.schema.cells import (
    OTHERS,
    check_learnable,
    check_no_missing,
    deviation,
    drop_it,
    ends_of,
    in_one_message,
    index_labels,
    labels_of,
    numbers_of,
    refuse,
    spelled_alike,
)
from gumdrop.tables.schema.columns import CategoryColumn, Column, MeasuredColumn
from gumdrop.tables.schema.schema import TableSchema, Target, Task
from gumdrop.tables.schema.texts import (
    FEW_DISTINCT,
    names_rows,
    refuse_doubtful,
    refuse_numbers,
    spelled,
)

_MIN_ROWS = 10
YES = {"yes", "ja", "oui", "si", "sí", "sì", "sim", "true", "1"}
"""Labels of the class that is looked for, in any case, if nobody says another."""
_LEAST_SPREAD, _MOST_SPREAD = 1e-18, 1e18  # squares of what is a little smaller or larger stay in float32
_RESOLVED = 2.0**-40  # leaves 13 bits of float64 for the spread of a target
_MANY_DISTINCT = 50  # beyond here text that rarely repeats is taken for free text or an identifier
_MAX_CATEGORIES = 1000
_OFTEN, _MOST_COMMON = 10, 300  # rows of a label that is common, and how many of these are told apart
_LEAST_LABELS = 10  # rows from which on texts that all differ are an identifier


def infer_schema(frame: pd.DataFrame, target: str, reading: Reading = Reading()) -> TableSchema:
    """Return how each column of a training table is encoded, with the statistics to do it.

    A column of numbers stays numeric however few values it has, one of dates becomes days and cycles, one of months,
    weekdays or times of day a number on a cycle; any other becomes categories. Without `task`, a target of text or
    booleans means classification, and so does a target of numbers with two distinct values, or whose distinct values
    are class codes: exactly 0, 1, ..., k-1 or 1, 2, ..., k, with k at most 10. Every other target of numbers means
    regression; scores such as 3, 4, ..., 8 are among these. Without `positive` the one of two classes that is looked
    for is yes (ja, oui, si, sim), true or 1, else the rarer one. Texts that hardly repeat are set aside.

    Raises:
        TableError: A named column is absent, the table has too few rows or no inputs, the target is missing
            in places, constant or does not fit the task, or inputs are empty, infinite, or text that cannot
            be categories (numbers with a few words among them): all of these in one message.
    """
    known, drop, categories = reading.known, reading.drop, reading.categories
    check_unique(list(frame.columns))
    check_present(frame.columns, [target, *drop, *categories])
    at_ends = {name for name in frame.columns if is_unnamed(name) and frame[name].isna().all()}
    names = [name for name in frame.columns if name not in {target, *drop, *known, *at_ends}]
    if target in drop:
        raise TableError(f"column {target!r} is the target: take it out of `--drop` or name another target")
    if strange := [name for name in categories if name not in names]:
        raise TableError(f"`--categories {strange[0]}` is no input; a target has classes with `--task classification`")
    if not names:
        raise TableError(f"no input column is left beside the target {target!r}: drop fewer, or add some")
    if len(frame) < _MIN_ROWS:
        rows = f"{len(frame)} row{'s' if len(frame) != 1 else ''}"
        raise TableError(f"the table has {rows}: add some, at least {_MIN_ROWS} are needed")
    for name in (name for name in known if name in frame):
        refuse_doubtful(name, spelled(frame[name]), "name other columns")
    goal = _ends_target(target, frame[target], known) if known else _infer_target(target, frame[target], reading.task)
    goal = replace(goal, sought=_sought(goal, frame[target], reading.positive))
    found = in_one_message(
        lambda name: _infer_column(name, frame[name], reading),
        names,
        ending="Mend these, or leave columns out with --drop and their names.",
    )
    columns = tuple(column for column in found if column is not None)
    aside = [name for name, column in zip(names, found, strict=True) if column is None]
    if not columns:
        named = listed([*map(repr, aside)])
        raise TableError(f"no input is left, as texts of {named} hardly repeat: group them, or add columns")
    identifiers = tuple(name for name in aside if names_rows(frame[name]))
    return TableSchema(columns, goal, identifiers=identifiers, texts=tuple({*aside} - {*identifiers}))


def with_statistics(schema: TableSchema, frame: pd.DataFrame) -> TableSchema:
    """Give the columns of a schema the statistics of some rows, such as those to train on."""
    columns = in_one_message(lambda column: _renewed(column, frame[column.name]), schema.columns)
    target = schema.target
    if target.known:
        target = _ends_target(target.name, frame[target.name], target.known)
    elif target.task == "regression":
        target = _number_target(target.name, numbers_of(target.name, frame[target.name]), "all rows to train on")
    return replace(schema, columns=tuple(columns), target=target)


def _renewed(column: Column, cells: pd.Series) -> Column:
    if cells.isna().all():
        raise TableError(
            f"column {column.name!r} is missing in all rows to train on: fill it or {drop_it(column.name)}"
        )
    if isinstance(column, MeasuredColumn):
        return column.fitted(cells)
    labels = labels_of(cells)
    if OTHERS in column.categories:
        return replace(column, categories=common(labels))
    present = {*index_labels(labels, column.categories).tolist()}
    return replace(column, categories=tuple(each for i, each in enumerate(column.categories) if i in present))


def _infer_column(name: str, column: pd.Series, reading: Reading) -> Column | None:
    """Decide what a column is; None for texts that hardly repeat, which say nothing of new rows."""
    if is_unnamed(name):
        raise TableError(f"column {name!r} has no name (a saved row index?): name it or {drop_it(name)}")
    if column.isna().all():
        raise TableError(f"column {name!r} is missing in every row: fill it or {drop_it(name)}")
    if name in reading.categories:
        categories = categories_of(name, column, are_names=True)
        return CategoryColumn(name, categories) if categories else None
    if (order := _date_order(name, column, reading.dates)) is not None:
        result = MeasuredColumn(name=name, kind="date", order=order)
        outside = np.isnan(result.axis.read(column)) & column.notna().to_numpy()
        refuse(name, column, outside, "no day of the calendar from {} to {}".format(*YEARS))
    elif (cycle := cycle_of(column)) is not None:
        result = MeasuredColumn(name=name, kind="cycle", cycle=cycle)
    elif is_words(column):
        categories = categories_of(name, column)
        return CategoryColumn(name, categories) if categories else None
    else:
        refuse_doubtful(name, spelled(column), drop_it(name))
        result = MeasuredColumn(name=name, kind="number")
    return result.fitted(column)


def _date_order(name: str, column: pd.Series, given: Order | None) -> Order | None:
    if (spelling := order_of(column)) is None:
        return None
    if (order := spelling.with_order(given)) is None:
        but = f"{spelling.why}: {spelling.way_out}, or {drop_it(name)}"
        example = spelling.example or str(column.dropna().iloc[0])
        raise TableError(f"column {name!r} holds dates such as {example!r}, but {but}")
    return order


def _infer_target(name: str, column: pd.Series, task: Task | None) -> Target:
    check_no_missing(name, column)
    if not pd.api.types.is_numeric_dtype(column) and order_of(column) is not None:
        raise TableError(f"target {name!r} holds dates: turn them into a number, such as days, or choose another")
    is_text = is_words(column)
    if is_text and task != "regression":
        classes = categories_of(name, column, is_target=True, are_names=task == "classification")
    elif not is_class(column, task):
        refuse_doubtful(name, spelled(column), "choose another target")
        return _number_target(name, numbers_of(name, column))
    else:
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
    place = int(index_labels(labels_of(pd.Series([given])), target.classes)[0])
    if place < 0:
        raise TableError(f"--positive {given} is no class of {target.name!r}: name {' or '.join(target.classes)}")
    return target.classes[place]


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


def is_class(column: pd.Series, task: Task | None) -> bool:
    """Whether the cells of a target are classes: by the task, or since they are texts, two numbers, or codes."""
    if task is not None or is_words(column):
        return task != "regression"
    distinct = np.unique(plain_numbers(column.dropna())[0])
    k = len(distinct)
    codes = 1 < k <= FEW_DISTINCT and distinct[0] in {0, 1} and bool(np.all(distinct == distinct[0] + np.arange(k)))
    return codes or k == 2


def is_words(column: pd.Series) -> bool:
    """Whether some cell of a column is no number."""
    return bool(plain_numbers(column)[1].any())


def categories_of(name: str, column: pd.Series, *, is_target: bool = False, are_names: bool = False) -> tuple[str, ...]:
    """Find the categories of a column of texts, or of numbers that are names; none of texts that hardly repeat."""
    labels = labels_of(column)
    filled = len(labels) - labels.count(MISSING)
    distinct = [label for label in dict.fromkeys(labels) if label != MISSING]
    k, example = len(distinct), f"such as {distinct[0]!r}"
    way_out = "choose another target" if is_target else drop_it(name)
    if not are_names:
        refuse_doubtful(name, distinct, way_out)
        refuse_numbers(name, column, distinct, way_out)
    if k > _MAX_CATEGORIES and k <= filled / 2 and not is_target and len(categories := common(labels)) > 2:
        return categories
    if k > _MAX_CATEGORIES or (k > _MANY_DISTINCT and k > filled / 2) or k == filled >= _LEAST_LABELS:
        if not is_target:
            return ()
        words = " and ".join(map(repr, words_around(distinct)))
        mend = f"leave {words} out if these are amounts" if words else "group them into fewer categories"
        raise TableError(f"column {name!r} has {k} different texts in {filled} rows, {example}: {mend}, or {way_out}")
    return ordered(_joined(labels) if are_names and not is_target else labels)


def _joined(labels: list[str]) -> list[str]:
    """Take all spellings of one number for the commonest, where all labels are numbers."""
    if any(exact_number(label) is None for label in {*labels} - {MISSING}):
        return labels
    often = Counter(labels)
    joined = {each: max(alike, key=often.__getitem__) for alike in spelled_alike(labels) for each in alike}
    return [joined.get(label, label) for label in labels]


def common(labels: Iterable[str]) -> tuple[str, ...]:
    """Find the categories of a column that has too many labels: those of many rows, and one for all others."""
    counts = Counter(labels)
    missing, _ = counts.pop(MISSING, 0), counts.pop(OTHERS, 0)
    often = sorted(((count, label) for label, count in counts.items() if count >= _OFTEN), key=lambda pair: -pair[0])
    kept = ordered(label for _, label in often[:_MOST_COMMON])
    return (*kept, OTHERS, *([MISSING] if missing else []))


def ordered(labels: Iterable[str]) -> tuple[str, ...]:
    """The distinct labels in order: numbers by size, an empty one last."""
    distinct = {*labels}
    present = sorted(distinct - {MISSING})
    numbers = [exact_number(label) for label in present]
    if None not in numbers:
        present = [label for _, label in sorted(zip(numbers, present, strict=True))]
    return (*present, *(distinct & {MISSING}))
