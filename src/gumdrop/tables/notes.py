"""What a reader should know about a table: what it lacks, what was made of it, and what may not be what was meant."""

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from gumdrop.tables.cells import drawn_if_missing
from gumdrop.tables.errors import MISSING, is_unnamed, listed
from gumdrop.tables.odd_numbers import far_off, time_stamps
from gumdrop.tables.reading.spelling import plain_numbers, words_around
from gumdrop.tables.schema.cells import OTHERS, drop_it, ends_of, labels_of, numbers_of, spelled_alike
from gumdrop.tables.schema.columns import CategoryColumn, Column, MeasuredColumn
from gumdrop.tables.schema.schema import Encoded, TableSchema
from gumdrop.tables.schema.texts import FEW_DISTINCT

DRAWN = "drawn from similar training rows"


def table_notes(
    frame: pd.DataFrame,
    schema: TableSchema,
    rows: np.ndarray | None = None,
    padded: Sequence[str] = (),
    missing: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> list[str]:
    """Say what a reader should know about a training table, whose rows have these numbers in the file, from 1."""
    rows = np.arange(1, len(frame) + 1) if rows is None else rows
    target, goal = schema.target, frame[schema.target.name]
    regression = target.task == "regression"
    if target.known:
        ends = ends_of(goal)
        seen, rest = int((ends[:, 0] == ends[:, 1]).sum()), "of the others an interval is known"
        notes = [f"'{target.name}' was seen in {seen:,} of {len(ends):,} rows; {rest}"]
    elif regression:
        notes = far_off(target.name, numbers_of(target.name, goal), rows)
    else:
        notes = [*commonest(target.name, goal), *_on_spellings(target.name, labels_of(goal), target.classes)]
    flat = _flat(frame, schema)
    notes += [*_on_missing(schema, missing), *_on_texts(frame, schema), *_on_flat(frame, flat)]
    for column in schema.columns:
        if column.name in flat:
            continue
        if isinstance(column, CategoryColumn):
            notes += [*_on_amounts(column), *_on_categories(column, frame[column.name])]
        else:
            notes += _on_measured(column, plain_numbers(frame[column.name])[0], rows, column.name in padded)
    return notes


def _on_measured(column: MeasuredColumn, values: np.ndarray, rows: np.ndarray, is_padded: bool) -> list[str]:
    """Say how numbers and dates are read, and which of them may be something else."""
    if column.order is not None:
        cycles = f" and {', '.join(column.parts)}" if column.parts else ""
        return [f"'{column.name}' is read as dates, {column.order.replace('-', ' ')}: days{cycles}"]
    if column.cycle is not None:
        return [f"'{column.name}' is read as {column.cycle}: a number in order, and a place on the cycle"]
    notes = []
    if len(values) > 2 and bool(np.all(np.diff(values) == 1)):
        notes.append(f"'{column.name}' counts the rows; if it is only their number: {drop_it(column.name)}")
    if is_padded:
        named = f"if they are names, as postal codes are: `--categories {shlex.quote(column.name)}`"
        notes.append(f"'{column.name}' has numbers with leading zeros; {named}")
    return [*notes, *time_stamps(column.name, values), *far_off(column.name, values, rows)]


def _on_categories(column: CategoryColumn, cells: pd.Series) -> list[str]:
    """Say which labels count as one, and which as different."""
    if OTHERS in column.categories:
        return [others_note(column.name, cells, column.categories)]
    return _on_spellings(column.name, labels_of(cells), column.categories)


def _on_spellings(name: str, labels: Sequence[str], categories: Sequence[str]) -> list[str]:
    """Name spellings of one number that were joined, and categories that only their spelling tells apart."""
    joined = {each for each in labels if each not in categories}
    sets = spelled_alike(categories), [each for each in spelled_alike(labels) if joined & {*each}]
    apart, one = ([" and ".join(map(repr, alike)) for alike in each] for each in sets)
    more = {len(each): f", and {len(each) - 3} more such" for each in (apart, one) if len(each) > 3}
    notes = []
    if apart:
        these = "; ".join(apart[:3]) + more.get(len(apart), "")
        notes.append(f"'{name}' has {these}, which count as different; spell them alike if they are not")
    if one:
        notes.append(
            f"'{name}' has {'; '.join(one[:3]) + more.get(len(one), '')}, which are one number and count as one"
        )
    return notes


def _on_missing(schema: TableSchema, missing: Mapping[str, Sequence[str]]) -> list[str]:
    """Quote the words of categories that count as missing: they may be a category."""
    categories = [column.name for column in schema.columns if isinstance(column, CategoryColumn)]
    told = [f"{_quoted(missing[name])} of '{name}'" for name in categories if name in missing]
    if not told:
        return []
    return [
        f"{listed(told)} count as missing; to keep them as a category, write another word, such as 'not applicable'"
    ]


def _on_texts(frame: pd.DataFrame, schema: TableSchema) -> list[str]:
    """Say which columns are set aside, as their texts hardly repeat."""
    notes = []
    for name in (*schema.identifiers, *schema.texts):
        texts = frame[name].dropna().astype(str)
        first = texts.iloc[0] if len(texts.iloc[0]) <= 40 else f"{texts.iloc[0][:37]}..."
        told = f"{texts.nunique():,} different texts in {len(texts):,} rows, such as {first!r}"
        how = "group them into fewer categories to learn from them"
        if name in schema.identifiers:
            how = "it names the rows in predictions and in the report"
        if (words := words_around(texts)) and any(" " in text for text in texts):
            how += f"; if these are amounts, leave {_quoted(words)} out"
        notes.append(f"'{name}' is no input, as it has {told}: {how}")
    return notes


def _on_amounts(column: CategoryColumn) -> list[str]:
    """Say that categories may be amounts, with a currency or other words around them."""
    words = words_around(label for label in column.categories if label not in {MISSING, OTHERS})
    if not words or len(column.categories) <= FEW_DISTINCT:
        return []
    return [f"'{column.name}' reads as words, without an order: if these are amounts, leave {_quoted(words)} out"]


def _quoted(words: Sequence[str]) -> str:
    return " and ".join(map(repr, words))


def _flat(frame: pd.DataFrame, schema: TableSchema) -> dict[str, str]:
    """Find the columns that networks see as one value, and that value: float64 may not tell large integers apart."""
    measured = {c.name: c for c in schema.columns if isinstance(c, MeasuredColumn)}
    flat = {name: column.rounded(column.least) for name, column in measured.items() if column.constant is not None}
    rest = (name for name in schema.names if name not in measured)
    return flat | {name: "" for name in rest if frame[name].nunique(dropna=False) == 1}


def _on_flat(frame: pd.DataFrame, flat: dict[str, str]) -> list[str]:
    whole = {name: frame[name].notna().all() for name in flat}
    notes = [
        f"'{name}' is {value} or missing, which counts as {value}, so it is of no use: fill it if blanks say more"
        for name, value in flat.items()
        if not whole[name]
    ]
    same = listed([repr(name) for name in flat if whole[name]])
    return [*([f"the same in every row, so of no use: {same}"] if same else []), *notes]


def commonest(name: str, labels: pd.Series) -> list[str]:
    """Say that one class is nearly all."""
    shares = labels.astype(str).value_counts(normalize=True)
    if shares.iloc[0] < 0.8:  # from there on the accuracy alone says little
        return []
    return [
        f"{min(shares.iloc[0], 0.999):.1%} of '{name}' are {shares.index[0]!r}: always answering that is right as "
        "often, so hold the accuracy against it"
    ]


def others_note(name: str, column: pd.Series, categories: tuple[str, ...]) -> str:
    """Say that the rare labels of a column count as one."""
    counts = Counter(label for label in labels_of(column) if label != MISSING)
    kept = [counts.pop(label) for label in categories if label in counts]
    share = counts.total() / (counts.total() + sum(kept))
    return (
        f"'{name}' has {len(kept) + len(counts):,} different texts: the {len(kept)} commonest are categories, and the "
        f"others, in {share:.1%} of the rows, count as one, as new ones will; a column of their groups says more"
    )


def without_target(num_known: int, num_rows: int, target: str, words: Sequence[str] = ()) -> list[str]:
    """Say how many rows of a table have no target, if some have none, and which words stand there for none."""
    missing = num_rows - num_known
    if not missing:
        return []
    here = f", here {listed(list(map(repr, words)))}" if words else ""
    what = f"(blank, NA, None and the like{here}) and are left out"
    return [f"{missing:,} of {num_rows:,} rows have no '{target}' {what}"]


def extra_notes(schema: TableSchema, columns: list[str], keep: Sequence[str]) -> list[str]:
    """Say which columns of a table the model has no use for."""
    known = {*schema.names, *schema.identifiers, *schema.texts, schema.target.name, *schema.target.known, *keep}
    extra = [name for name in columns if name not in known and not is_unnamed(name)]
    more = f" and {len(extra) - 10} more" if len(extra) > 10 else ""
    quoted = ", ".join(f"'{name}'" for name in extra[:10])
    return [f"not used, because training did not have them: {quoted}{more}"] if extra else []


def encoding_notes(schema: TableSchema, encoded: Encoded, donors: Tensor | None = None) -> list[str]:
    """Say what encoding had to make up, with the rows that a model draws cells from, or None before there is one."""
    columns: dict[str, Any] = {column.name: column for column in schema.columns}
    drawn = [] if donors is None else drawn_if_missing(schema, donors)
    as_what = "none of the known" if donors is None or not len(donors) else f"unknown and {DRAWN}"
    notes = []
    for name, counts in encoded.unseen.items():
        folded = {category.casefold(): category for category in columns[name].categories}
        said = [
            f"'{label}' ({_counted(count, 'row')}"
            + (f"; did you mean '{folded[label.casefold()]}'?)" if label.casefold() in folded else ")")
            for label, count in list(counts.items())[:5]
        ]
        more = f" and {len(counts) - 5} more" if len(counts) > 5 else ""
        notes.append(f"categories of '{name}' that training did not have count as {as_what}: "
                     f"{', '.join(said)}{more}")  # fmt: skip
    return [
        *_few(
            [
                _missing_note(columns[name], count, name in drawn, donors is None)
                for name, count in encoded.missing.items()
            ],
            "with missing values",
        ),
        *notes,
        *_few([_outside_note(columns[name], n) for name, n in encoded.outside.items()], "with values far outside"),
        *_few(
            [_changed_note(columns[name], n) for name, n in encoded.changed.items()], "that never varied in training"
        ),
    ]


def _few(notes: list[str], what: str) -> list[str]:
    """The first notes of one kind, and how many more there are."""
    return notes if len(notes) <= 6 else [*notes[:5], f"and {len(notes) - 5} more columns {what}"]


def _missing_note(column: Column, count: int, drawn: bool, trains: bool) -> str:
    if column.constant is not None:
        how = "of no effect, as training had one value"
    elif drawn:
        how = DRAWN
    elif isinstance(column, CategoryColumn):
        how = (
            f"kept as a category of {'its' if count == 1 else 'their'} own" if "" in column.categories else "left blank"
        )
    else:
        how = "set to the training median" + (", to learn with" if trains else "")
    return f"{_counted(count, 'missing value')} in '{column.name}' {'was' if count == 1 else 'were'} {how}"


def _outside_note(column: MeasuredColumn, count: int) -> str:
    least, most = column.axis.words(column.least), column.axis.words(column.most)
    return (
        f"{_counted(count, 'value')} of '{column.name}' {'is' if count == 1 else 'are'} far outside the training range "
        f"({least} to {most}): training had no such value"
    )


def _changed_note(column: Column, count: int) -> str:
    value = repr(column.categories[0]) if isinstance(column, CategoryColumn) else column.axis.words(column.least)
    return (
        f"'{column.name}' was {value} in all rows of training and is another in {_counted(count, 'row')}: that has no "
        "effect on predictions"
    )


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' if count != 1 else ''}"


def repeated_note(frame: pd.DataFrame) -> list[str]:
    """Say how many rows equal earlier ones."""
    hashes = np.zeros(len(frame), dtype=np.uint64)  # of the numbers: `duplicated` numbers the values of all columns
    for name in frame.select_dtypes("number"):
        values = plain_numbers(frame[name])[0] + 0.0  # equal numbers have one hash: -0 becomes 0
        hashes = hashes * np.uint64(31) + pd.util.hash_array(values)
    repeated = int(frame[pd.Series(hashes).duplicated(keep=False).to_numpy()].duplicated().sum())
    are = "rows equal earlier ones" if repeated > 1 else "row equals an earlier one"
    note = f"{repeated} {are}: where they are copies, test rows were trained on and scores look too good"
    return [note] if repeated else []
