"""A table in memory, split into two parts and encoded."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from gumdrop.tables.cells import mark_unknown
from gumdrop.tables.errors import check_present
from gumdrop.tables.fitting.own_test import read_own_test
from gumdrop.tables.fitting.settings import FitSettings, Reading
from gumdrop.tables.fitting.split import Parts, advice, at_random, check_known, check_parts, split_column
from gumdrop.tables.prediction import encoding_notes, without_target
from gumdrop.tables.reading.numbers import plain_numbers
from gumdrop.tables.reading.table import Table, name_of
from gumdrop.tables.schema.inference import infer_schema, table_notes
from gumdrop.tables.schema.schema import TableSchema
from gumdrop.tables.task import task_of


@dataclass(frozen=True, kw_only=True)
class Split:
    """Rows of a table in memory, encoded, in two parts."""

    name: str
    """The table, for the reader."""
    table: Table
    """What was read; of a stream a sample."""
    frame: pd.DataFrame
    """Rows whose target is known."""
    rows: np.ndarray
    """Their numbers in the table, from 1."""
    schema: TableSchema
    """How they are encoded."""
    train: np.ndarray
    """Which of them train, or in a stream are watched, ascending."""
    test: np.ndarray
    """Which of them test, ascending."""
    x: np.ndarray
    """Encoded inputs of all."""
    unknown: np.ndarray
    """Which cells have a stand-in in `x`."""
    notes: list[str]
    """What a reader should know."""
    unit: str
    """Unit of the target."""
    words: str | None = None
    """Which rows test, in words; None where they were drawn at random."""
    together: np.ndarray | None = None
    """For each row that trains the number of the group with which it is held out of a network; None if there are no
    groups."""

    def part(self, rows: np.ndarray) -> tuple[Tensor, Tensor]:
        """Inputs and targets of some rows, as the network takes them."""
        targets = self.frame[[self.schema.target.name]].iloc[rows]  # no copy of the other columns
        return torch.from_numpy(self.x[rows]), torch.from_numpy(self.schema.encode_target(targets))

    def marked(self, rows: np.ndarray, donors: Tensor) -> Tensor:
        """Inputs of some rows, with NaN in the cells that predictions draw from donors."""
        return mark_unknown(self.schema, self.x[rows], self.unknown[rows], donors)

    def background(self, count: int) -> Tensor:
        """Some encoded training rows, spread evenly over the order of the table."""
        pick = np.linspace(0, len(self.train) - 1, min(count, len(self.train))).round().astype(int)
        return torch.from_numpy(self.x[self.train[pick]])


def split_and_encode(
    path: object,
    table: Table,
    numbers: np.ndarray,
    target: str,
    reading: Reading,
    settings: FitSettings,
    trained: Callable[[TableSchema, pd.DataFrame], TableSchema],
) -> Split:
    """Split and encode rows of a table."""
    check_present(table.frame.columns, [target])
    known = table.frame[target].notna().to_numpy()
    check_known(known, target)
    whole_frame = table.frame if known.all() else table.frame[known]  # a selection is a copy
    frame, rows = whole_frame.reset_index(drop=True), numbers[known]
    notes = [*table.notes, *without_target(known, target)]
    column = None if settings.split_by is None else split_column(frame, rows, target, settings, reading.dates)
    grouped = [column.name] if column is not None and column.kind == "groups" else []
    whole = infer_schema(
        frame, target, task=reading.task, drop=[*reading.drop, *grouped], dates=reading.dates, decimal=table.decimal
    )
    other = None if settings.test is None else read_own_test(settings.test, whole)
    if other is not None:
        every = np.arange(len(frame) + len(other.frame))
        parts = Parts(every[: len(frame)], every[len(frame) :], other.words)
    else:
        parts = column.parts(settings) if column is not None else at_random(frame, whole, settings)
    notes += check_parts(parts, whole, frame)
    schema = trained(whole, frame.iloc[parts.train])
    encoded = schema.encode_inputs(frame)
    notes += [*table_notes(frame, whole, rows), *encoding_notes(schema, encoded), *advice(whole, settings, column)]
    notes += task_of(schema.target).notes
    x, unknown = encoded.x, encoded.unknown
    if other is not None:
        frame, rows = other.below(frame), np.concatenate([rows, other.rows])
        beside = other.encoded(schema)
        x, unknown = np.concatenate([x, beside.x]), np.concatenate([unknown, beside.unknown])
        notes += other.notes_on(schema, beside)
    return Split(
        name=name_of(path),
        table=table,
        frame=frame,
        rows=rows,
        schema=schema,
        train=parts.train,
        test=parts.test,
        x=x,
        unknown=unknown,
        notes=[*notes, *_repeated(frame)],
        unit=reading.unit,
        words=parts.words,
        together=parts.together,
    )


def _repeated(frame: pd.DataFrame) -> list[str]:
    repeated = int(frame[_alike(frame)].duplicated().sum())
    are = "rows equal earlier ones" if repeated > 1 else "row equals an earlier one"
    note = f"{repeated} {are}: where they are copies, test rows were trained on and scores look too good"
    return [note] if repeated else []


def _alike(frame: pd.DataFrame) -> np.ndarray:
    """Which rows may equal another one, by a hash of their numbers: `duplicated` numbers the values of all columns."""
    hashes = np.zeros(len(frame), dtype=np.uint64)
    for name in frame.select_dtypes("number"):
        values = plain_numbers(frame[name])[0] + 0.0  # equal numbers have one hash: -0 becomes 0
        hashes = hashes * np.uint64(31) + pd.util.hash_array(values)
    return np.asarray(pd.Series(hashes).duplicated(keep=False))
